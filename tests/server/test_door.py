"""The door to a real HTTP server process under abuse; an honest client is served all the while."""

import re
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest
from host_places import silent_guard
from http_door import (
    ACCEPT,
    PATIENCE,
    Door,
    all_of,
    body,
    door,
    head,
    initialize,
    modern,
    request,
    tool_call,
    until,
)
from server_campaigns import create

from kernelarc_mcp.host.host import Host

RECEIVE_SECONDS = 3
MARK = "a_source_nobody_may_see"
HALF_A_CALL = body(tool_call({}))[:40]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Return a server as it is by default, but less patient."""
    yield from serving(tmp_path_factory, "--receive-seconds", str(RECEIVE_SECONDS))


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """Return a server with few file descriptors and no limit on the rate."""
    yield from serving(tmp_path_factory, "--rate", "0", descriptors=240)


def serving(factory: pytest.TempPathFactory, *options: str, descriptors: int = 0) -> Iterator[Door]:
    folder = factory.mktemp("door")
    guard = silent_guard(folder)
    place = create(folder / "campaign", attempts=40)
    host = Host.open(place.folder)
    for agent in place.tokens:
        host.register(agent)
    host.close()
    with door(place, guard, *options, descriptors=descriptors) as opened:
        yield opened
    log = "".join(opened.lines[2:])
    assert MARK not in log
    assert str(folder) not in log


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    """Return a client that keeps its connection."""
    with httpx2.Client(timeout=PATIENCE) as client:
        yield client


def test_strangers_are_refused_everywhere_and_learn_nothing(
    here: Door, http: httpx2.Client
) -> None:
    host = Host.open(here.place.folder)
    revoked = host.issue_token("gone", "admin")
    (row,) = [row for row in host.token_rows() if row.name == "gone"]
    host.revoke_token(row.id)
    host.close()
    ada = here.place.tokens["ada"]
    strangers = ["", f"Bearer {revoked}", "Bearer wrong", "Bearer", f"Basic {ada}", ada]
    strangers += [f"Bearer {ada}x", f"Bearer  {ada}", "Bearer " + "x" * 30_000, "Bearer \u00e9"]
    for given in strangers:
        named = ACCEPT | ({"Authorization": given} if given else {})
        headers = {key.encode(): value.encode("latin-1") for key, value in named.items()}
        for method, path in (
            ("POST", "/mcp"),
            ("GET", "/mcp"),
            ("DELETE", "/mcp"),
            ("GET", "/metrics"),
            ("GET", "/manage/tokens"),
            ("POST", "/manage/tokens"),
            ("DELETE", f"/manage/tokens/{row.id}"),
            ("GET", "/manage/../metrics"),
        ):
            answered = http.request(method, here.base + path, headers=headers)
            assert answered.status_code == 401, (method, path, given[:20])
            assert answered.json()["error"] == "invalid_token"
            assert "resource_metadata" not in answered.headers["www-authenticate"]
            for secret in (str(here.place.folder), ada, revoked):
                assert secret not in answered.text
    for path in (
        "/.well-known/oauth-protected-resource/mcp",
        "/%6dcp/",
        "/metrics/x",
        "//mcp",
    ):
        assert http.get(here.base + path).status_code in (404, 307), path
    lost = http.get(f"{here.base}/no-such-place")
    assert (lost.status_code, lost.json()["error"]) == (404, "not_found")
    said = lost.json()["error_description"]
    assert "/health, /manage/tokens, /mcp, /metrics" in said and "no-such-place" not in said
    lost = http.post(here.base)
    assert lost.status_code == 405 and "endpoint is /mcp" in lost.json()["error"]["message"]
    assert http.get(f"{here.base}/health").json()["status"] == "ok"
    assert here.board_as("ada", http)["problem"] == "doubling"


def test_another_agents_ticket_session_and_source_stay_closed(
    here: Door, http: httpx2.Client
) -> None:
    submit = {
        "source": f"# {MARK}\n",
        "summary": "s",
        "entry_point": "gone.py::run",
        "wait_seconds": 0,
    }
    ada, bob = here.bearer("ada"), here.bearer("bob")
    answered = http.post(
        here.url,
        headers=modern(ada, "submit_candidate"),
        json=tool_call(submit, "submit_candidate"),
    )
    ticket = answered.json()["result"]["structuredContent"]["ticket"]
    workspace = str(here.place.folder / "agents" / "ada")
    for tool, arguments in (
        ("wait_submission", {"ticket": ticket, "wait_seconds": 0}),
        ("cancel_submission", {"ticket": ticket}),
        ("view_snapshot", {"submission": ticket}),
        ("profile_candidate", {"submission": ticket}),
        ("write_conclusion", {"kind": "trap", "summary": "s", "lesson": "l", "evidence": ticket}),
    ):
        refused = http.post(here.url, headers=modern(bob, tool), json=tool_call(arguments, tool))
        assert refused.json()["result"]["isError"], tool
        assert MARK not in refused.text and workspace not in refused.text, tool
    session = {
        "mcp-session-id": http.post(here.url, headers=ada, json=initialize()).headers[
            "mcp-session-id"
        ]
    }
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    assert http.post(here.url, headers=bob | session, json=ping).status_code == 404
    assert http.delete(here.url, headers=bob | session).status_code == 404
    assert http.post(here.url, headers=ada | session, json=ping).status_code == 200
    assert http.delete(here.url, headers=ada | session).status_code == 200


def test_a_source_in_a_bad_call_is_in_no_log(here: Door, http: httpx2.Client) -> None:
    # The fixture looks through the log at the end.
    ada = here.bearer("ada")
    for arguments in ({"source": {MARK: 1}}, {"source": MARK, "summary": 7, "wait_seconds": MARK}):
        call = tool_call(arguments, "submit_candidate")
        refused = http.post(here.url, headers=modern(ada, "submit_candidate"), json=call)
        assert refused.json()["result"]["isError"]
    for broken in (f'{{"{MARK}"', f'["{MARK}"]', f'{{"method": "{MARK}", "id": 1}}'):
        for headers in (ada, modern(ada, "submit_candidate")):
            assert http.post(here.url, headers=headers, content=broken).status_code == 400


def test_a_revoked_token_is_cut_off_while_it_listens(here: Door, http: httpx2.Client) -> None:
    host = Host.open(here.place.folder)
    token = host.issue_token("watcher", "viewer")
    headers = ACCEPT | {
        "Authorization": f"Bearer {token}",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "subscriptions/listen",
    }
    listen = request(
        "subscriptions/listen",
        {"notifications": {"resourceSubscriptions": ["kernelarc://board"]}},
    )
    with http.stream("POST", here.url, headers=headers, json=listen) as stream:
        assert stream.status_code == 200
        parts = stream.iter_raw()
        assert b"acknowledged" in next(parts)
        (row,) = [row for row in host.token_rows() if row.name == "watcher"]
        host.revoke_token(row.id)
        host.close()
        # It ends by the server's doing, and in good order.
        assert MARK.encode() not in b"".join(parts)
    assert http.post(here.url, headers=headers, json=listen).status_code == 401


def test_forged_hosts_and_origins_are_refused_on_every_path(
    here: Door, http: httpx2.Client
) -> None:
    port = here.address[1]
    bearer = f"Bearer {here.place.tokens['ada']}"
    for path in ("/mcp", "/metrics", "/manage/tokens", "/health", "/"):
        for host in ("evil.example", f"evil.example:{port}", f"localhost.evil.example:{port}", ""):
            sent = head(here, path, "GET", Host=host, Authorization=bearer, Connection="close")
            assert here.raw(sent).startswith(b"HTTP/1.1 421 "), (path, host)
        for origin in ("http://evil.example", "null", "http://127.0.0.1.evil.example"):
            sent = head(here, path, "GET", Origin=origin, Authorization=bearer, Connection="close")
            assert here.raw(sent).startswith(b"HTTP/1.1 403 "), (path, origin)
    for odd in (
        b"GET /health HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
    ):
        answered = here.raw(odd)
        assert not answered or answered.startswith(b"HTTP/1.1 400 "), answered[:80]
    assert here.raw(b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 421 ")
    same = {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"}
    assert http.get(f"{here.base}/health", headers=same).status_code == 200
    assert here.refused("host") > 20 and here.refused("origin") >= 15
    assert here.board_as("ada", http)["problem"] == "doubling"


def test_bodies_above_the_limit_are_refused_however_they_come(
    here: Door, http: httpx2.Client
) -> None:
    bob = modern(here.bearer("bob"), "submit_candidate")
    before = here.place.events()
    huge = body(tool_call({"source": "x" * 5_000_000, "summary": "s"}, "submit_candidate"))

    def dripped() -> Iterator[bytes]:
        for start in range(0, len(huge), 100_000):
            yield huge[start : start + 100_000]

    assert http.post(here.url, headers=bob, content=huge).status_code == 413
    refused = http.post(here.url, headers=bob, content=dripped())
    assert refused.status_code == 413
    assert refused.json()["error"]["data"] == {"limit_bytes": 4 * 1024 * 1024}
    # Refused for what it says it is, before a byte of it was sent.
    declared = head(here, Content_Length="5000000", Connection="close", **bob)
    assert here.raw(declared).startswith(b"HTTP/1.1 413 ")
    assert here.raw(head(here, Content_Length="5000000", Connection="close")).startswith(
        b"HTTP/1.1 401 "
    )
    resident = here.resident_mib()
    for _ in range(8):
        assert http.post(here.url, headers=bob, content=huge).status_code == 413
    assert here.resident_mib() < resident + 30
    assert here.place.events() == before
    assert here.board_as("ada", http)["problem"] == "doubling"


def test_slow_requests_are_ended_in_time_and_hold_nobody_up(
    here: Door, http: httpx2.Client
) -> None:
    bearer = here.bearer("bob")
    heads = head(here, Content_Length="1000", **bearer)
    idle = here.descriptors()
    began = time.monotonic()
    with ExitStack() as open_:
        silent = [open_.enter_context(here.connect()) for _ in range(40)]
        dripping_heads = [open_.enter_context(here.connect()) for _ in range(40)]
        dripping_bodies = [open_.enter_context(here.connect()) for _ in range(20)]
        unasked_bodies = [open_.enter_context(here.connect()) for _ in range(20)]
        for connection in dripping_heads:
            connection.sendall(heads[:30])
        for connection in dripping_bodies:
            connection.sendall(heads + HALF_A_CALL)
        for connection in unasked_bodies:
            connection.sendall(head(here, Content_Length="1000"))
        dripping = [*dripping_heads, *dripping_bodies, *unasked_bodies]
        ended = threading.Event()

        def drip() -> None:
            while not ended.wait(0.2):
                for connection in dripping:
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        pass  # that one is over

        dripper = threading.Thread(target=drip)
        dripper.start()
        try:
            slowest = 0.0
            while time.monotonic() < began + RECEIVE_SECONDS:
                asked = time.monotonic()
                assert here.board_as("ada", http)["problem"] == "doubling"
                slowest = max(slowest, time.monotonic() - asked)
                ended.wait(0.2)  # An honest client keeps to the rate.
            assert all_of(silent[0]) == b""
            assert all_of(dripping_heads[0]) == b""
            answers = [all_of(connection) for connection in dripping_bodies]
            assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
            assert all(all_of(c).startswith(b"HTTP/1.1 401 ") for c in unasked_bodies)
            for connection in [*silent, *dripping_heads]:
                all_of(connection)
        finally:
            ended.set()
            dripper.join()
        assert time.monotonic() - began < PATIENCE
        assert slowest < PATIENCE / 10
    until(lambda: here.descriptors() <= idle + 3, "descriptors of ended connections stay")
    assert here.refused("slow_body") >= 20 and here.refused("slow_head") >= 80


def test_too_many_requests_are_told_when_to_come_again(
    tmp_path_factory: pytest.TempPathFactory, http: httpx2.Client
) -> None:
    for opened in serving(tmp_path_factory, "--rate", "2"):
        _ask_too_often(opened, http)


def _ask_too_often(here: Door, http: httpx2.Client) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    bob = here.bearer("bob")
    refused = None
    for _ in range(200):
        answered = http.post(here.url, headers=bob, json=ping)
        if answered.status_code == 429:
            refused = answered
            break
    assert refused is not None, "nothing was refused: the client is slower than the rate"
    assert int(refused.headers["retry-after"]) >= 1
    told = refused.json()
    assert told["id"] is None and told["error"]["code"] == -32010
    assert "again in 1 s" in told["error"]["message"]
    # Others are served at once, and so is who waited as told.
    assert here.board_as("ada", http)["problem"] == "doubling"
    time.sleep(int(refused.headers["retry-after"]))
    assert here.board_as("bob", http)["problem"] == "doubling"


def test_connections_beyond_the_limit_make_room_for_new_ones(
    narrow: Door, http: httpx2.Client
) -> None:
    with ExitStack() as open_:
        held = [open_.enter_context(narrow.connect()) for _ in range(400)]
        for connection in held:
            # Some are ended already: they were the first.
            try:
                connection.sendall(b"POST /mcp HTTP/1.1\r\n")
            except OSError:
                pass
        for _ in range(5):
            assert narrow.board_as("ada", http)["problem"] == "doubling"
        assert narrow.descriptors() < 200
        assert narrow.refused("connections") >= 200
    # Had it run out of descriptors, it would have accepted nobody for seconds.
    assert "out of system resource" not in "".join(narrow.lines)


def test_a_thousand_sessions_of_one_agent_leave_few_and_disturb_nobody(
    narrow: Door, http: httpx2.Client
) -> None:
    ada, bob = narrow.bearer("ada"), narrow.bearer("bob")
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    mine = http.post(narrow.url, headers=ada, json=initialize()).headers["mcp-session-id"]
    opened: list[str] = []
    resident = 0.0
    for count in range(1000):
        answered = http.post(narrow.url, headers=bob, json=initialize())
        assert answered.status_code == 200, answered.text
        opened.append(answered.headers["mcp-session-id"])
        if count == 200:
            resident = narrow.resident_mib()
    found = re.search(r"^kernelarc_http_sessions (\S+)$", narrow.metrics(), re.M)
    assert found and float(found[1]) == 33
    assert narrow.resident_mib() < resident + 20
    assert narrow.descriptors() < 200

    def status(session: str, headers: dict[str, str]) -> int:
        asked = headers | {"mcp-session-id": session}
        return http.post(narrow.url, headers=asked, json=ping).status_code

    assert status(opened[0], bob) == 404 and status(opened[-1], bob) == 200
    assert status(mine, ada) == 200
    assert narrow.board_as("ada", http)["problem"] == "doubling"


def test_open_requests_of_one_agent_are_bounded(narrow: Door, http: httpx2.Client) -> None:
    headers = {k: v for k, v in narrow.bearer("bob").items() if k != "Content-Type"}
    listen = body(
        request(
            "subscriptions/listen",
            {"notifications": {"resourceSubscriptions": ["kernelarc://board"]}},
        )
    )
    sent = head(
        narrow,
        Content_Type="application/json",
        Content_Length=str(len(listen)),
        MCP_Protocol_Version="2026-07-28",
        Mcp_Method="subscriptions/listen",
        **headers,
    )
    with ExitStack() as open_:
        for _ in range(64):
            connection = open_.enter_context(narrow.connect())
            connection.sendall(sent + listen)
            assert connection.recv(12) == b"HTTP/1.1 200"
        one_more = open_.enter_context(narrow.connect())
        one_more.sendall(sent + listen)
        assert one_more.recv(12) == b"HTTP/1.1 429"
        assert narrow.board_as("ada", http)["problem"] == "doubling"
    until(lambda: narrow.descriptors() < 60, "descriptors of listeners that left stay")
    assert narrow.board_as("bob", http)["problem"] == "doubling"


def test_a_stop_ends_open_streams_in_good_order(tmp_path: Path) -> None:
    place = create(tmp_path / "campaign")
    guard = silent_guard(tmp_path)
    with door(place, guard) as opened, httpx2.Client(timeout=PATIENCE) as http:
        headers = opened.bearer("ada")
        session = http.post(opened.url, headers=headers, json=initialize()).headers[
            "mcp-session-id"
        ]
        get = headers | {"mcp-session-id": session, "Accept": "text/event-stream"}
        with http.stream("GET", opened.url, headers=get) as stream:
            assert stream.status_code == 200
            opened.process.terminate()
            for _ in stream.iter_raw():
                pass
        assert opened.process.wait(20) is not None
    assert "Traceback" not in "".join(opened.lines)


def test_ctrl_c_answers_who_waits_and_says_what_is_left(tmp_path: Path) -> None:
    place, submit = create(tmp_path / "campaign"), "submit_candidate"

    def submitted() -> int:
        host = Host.open(place.folder)
        try:
            with host.campaign.journal.reading() as state:
                return len(state.unsettled)
        finally:
            host.close()

    with door(place, silent_guard(tmp_path)) as opened, httpx2.Client(timeout=PATIENCE) as http:
        older = opened.bearer("bob")
        opening = http.post(opened.url, headers=older, json=initialize())
        older |= {"mcp-session-id": opening.headers["mcp-session-id"]}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert http.post(opened.url, headers=older, json=ready).status_code == 202
        first, second = (
            tool_call({"source": f"def run(x):\n    return x + {n}\n", "summary": "s"}, submit)
            for n in (1, 2)
        )
        newer = modern(opened.bearer("ada"), submit)
        with ThreadPoolExecutor() as clients:
            asked = [
                clients.submit(http.post, opened.url, headers=headers, json=call)
                for headers, call in ((older, first), (newer, second))
            ]
            until(lambda: submitted() == 2 or any(one.done() for one in asked), "both clients wait")
            assert not any(one.done() for one in asked), [one.result().text for one in asked]
            begun = time.monotonic()
            opened.process.send_signal(signal.SIGINT)
            answers = [one.result() for one in asked]
        assert opened.process.wait(20) == 128 + signal.SIGINT
        assert time.monotonic() - begun < 15
    for answer in answers:
        assert answer.status_code == 200
        assert "Call wait_submission with ticket s00" in answer.text
    said = "".join(opened.lines)
    assert "Stopping: 2 submissions stay queued; tickets stay valid" in said
    assert "Traceback" not in said and "ERROR" not in said
