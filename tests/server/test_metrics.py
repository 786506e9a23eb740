"""`/metrics` of a real server process: true to the ledger, and nothing in it that agents choose."""

from pathlib import Path

import httpx2
from http_door import PATIENCE, Door, door, modern, tool_call, until
from prometheus_client.parser import text_string_to_metric_families
from server_campaigns import KERNEL, Place

from kernelarc_guard.reasons import REASONS
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.web.ledger_metrics import GUARD_STATES
from kernelarc_mcp.web.metrics import METHODS, OUTCOMES
from kernelarc_mcp.web.tallies import CAUSES

MARK = "chosen_by_an_agent"


def scraped(here: Door, **headers: str) -> dict[tuple[str, ...], float]:
    """Return the samples by name and label values in the order of the labels, without buckets."""
    text = httpx2.get(f"{here.base}/metrics", headers=headers, timeout=PATIENCE).text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


def test_metrics_say_what_the_ledger_and_the_process_counted(
    place: Place, silent_guard: str
) -> None:
    host = Host.open(place.folder)
    for agent in ("ada", "bob"):
        host.register(agent)
    host.submit("ada", source="x = 1\n", summary=MARK, language="fortran")
    host.submit("ada", source=KERNEL, summary=MARK, model=MARK)
    tools = {"view_leaderboard", "wait_submission", "other", ""}
    with (
        door(place, silent_guard, "--open-metrics") as here,
        httpx2.Client(timeout=PATIENCE) as http,
    ):
        ada = here.bearer("ada")
        here.board_as("ada", http)
        for tool in ("wait_submission", MARK, f'{MARK}"}} 1\n'):
            named = modern(ada, tool.split("\n")[0])
            http.post(here.url, headers=named, json=tool_call({"ticket": "s999"}, tool))
        odd = tool_call({}) | {"method": f"{MARK}/method"}
        http.post(here.url, headers=ada | {"MCP-Protocol-Version": "2026-07-28"}, json=odd)
        http.post(here.url, headers=ada | {"Host": "evil.example"}, json=odd)
        samples = scraped(here)
        assert samples["kernelarc_submissions_total", "envelope_bad_language", "REJECT"] == 1
        assert samples["kernelarc_submissions_total", "confirmed", "KEEP"] == 0
        assert samples["kernelarc_attempts_charged_total",] == 2
        assert samples["kernelarc_attempts_left",] == host.board("ada").attempts - 2
        assert samples["kernelarc_queue_length",] == 1
        assert samples["kernelarc_record_ratio",] == 1.0
        assert samples["kernelarc_mcp_requests_total", "tools/call", "ok", "view_leaderboard"] == 1
        refused = ("kernelarc_mcp_requests_total", "tools/call", "refused", "wait_submission")
        assert samples[refused] == 1
        assert samples["kernelarc_mcp_request_seconds_count", "tools/call", "view_leaderboard"] == 1
        assert samples["kernelarc_http_refused_total", "host"] == 1
        assert samples["kernelarc_http_connections",] >= 1
        assert samples["process_open_fds",] > 0 and samples["process_resident_memory_bytes",] > 0
        states = {key[1]: v for key, v in samples.items() if key[0] == "kernelarc_guard_state"}
        assert sorted(states) == sorted(GUARD_STATES) and sum(states.values()) == 1

        verdicts = {verdict for reason in REASONS.values() for verdict in reason.verdicts}
        allowed = {*REASONS, *verdicts, *GUARD_STATES, *CAUSES, *METHODS, *OUTCOMES, *tools}
        chosen = {value for key in samples for value in key[1:]}
        assert chosen <= allowed | {"lower", "upper"}
        # However odd the calls were, a second round adds no series.
        for tool in (f"{MARK}-2", f"{MARK}-3"):
            http.post(here.url, headers=modern(ada, tool), json=tool_call({}, tool))
        assert scraped(here).keys() == samples.keys()
    host.close()


def test_a_guard_that_cannot_start_is_told(place: Place, tmp_path: Path) -> None:
    broken = tmp_path / "guard"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with door(place, str(broken)) as here:
        bearer = {"Authorization": f"Bearer {place.tokens['ada']}"}
        assert httpx2.get(f"{here.base}/metrics", timeout=PATIENCE).status_code == 401
        until(
            lambda: scraped(here, **bearer)["kernelarc_guard_state", "held_up"] == 1,
            "nothing says that the guard cannot judge",
        )
