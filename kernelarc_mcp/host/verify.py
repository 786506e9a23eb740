"""Verifying a campaign: every hash, every counter and every verdict, from the rows alone.

Reads only, and needs no torch: it runs on any machine the directory is copied to.
"""

import hashlib
import sqlite3
from pathlib import Path

from kernelarc_guard.decide import Calibration
from kernelarc_guard.problem import ProblemError, read_problem
from kernelarc_guard.protocol import Result
from kernelarc_mcp.host.baselines import lines_to_beat
from kernelarc_mcp.host.campaign import PROBLEM, Campaign
from kernelarc_mcp.host.derived import TABLES, derived_rows
from kernelarc_mcp.host.errors import CampaignError, HostError
from kernelarc_mcp.host.events import (
    GENESIS,
    SEED,
    Baselined,
    Calibrated,
    Canary,
    Confirmed,
    Created,
    Event,
    ExtraMeasured,
    ProfileDone,
    Remeasured,
    Row,
    Screened,
    Settled,
    SpreadUpdated,
    Submitted,
    read,
)
from kernelarc_mcp.host.gate import refuse
from kernelarc_mcp.host.journal import Journal
from kernelarc_mcp.host.laws import Laws
from kernelarc_mcp.host.ledger import Ledger, damages, missing_migrations
from kernelarc_mcp.host.moments import Moments
from kernelarc_mcp.host.recheck import (
    Held,
    overlaps,
    recheck,
    recheck_anchor,
    recheck_inputs,
    stands_for,
)
from kernelarc_mcp.host.recheck_device import recheck_calibration, recheck_limit
from kernelarc_mcp.host.replay import Inconsistent, apply
from kernelarc_mcp.host.settle import guard_lost, outcome
from kernelarc_mcp.host.state import Attempt, CampaignState
from kernelarc_mcp.host.submit import envelope_of, sources_of

_NEEDED = frozenset({"m001_ledger", "m003_withdrawn_records"})
"""Migrations that the derived tables must have seen to be compared."""
_MEASURED = (
    Screened,
    Confirmed,
    Calibrated,
    Baselined,
    Remeasured,
    Canary,
    SpreadUpdated,
    ExtraMeasured,
)
"""Rows that may hold a lease."""


def verify(folder: Path) -> list[str]:
    """Return what is wrong with a campaign, one line each naming the row; empty where nothing is."""
    try:
        ledger = Ledger.open_read_only(folder)
    except (CampaignError, sqlite3.DatabaseError) as error:
        return [str(error)]
    try:
        return _verify(folder, ledger)
    except sqlite3.DatabaseError as error:
        return [f"campaign.db cannot be read: {error}"]
    finally:
        ledger.close()


def _verify(folder: Path, ledger: Ledger) -> list[str]:
    # One moment's view: a campaign may be verified while it runs.
    ledger.connection.execute("BEGIN")
    damage = [f"campaign.db: {line}" for line in damages(ledger.connection)]
    if damage:
        return damage
    older = _NEEDED.intersection(missing_migrations(ledger.connection))
    if older:
        what = ", ".join(sorted(older))
        return [f"an older version wrote it ({what} is missing): `status` brings it up to date"]
    rows = ledger.rows_after(-1)
    if not rows:
        return ["the ledger has no rows"]
    replayed = _Replay(folder, ledger)
    findings = check_chain(rows)
    replayed.run(rows)
    findings += replayed.findings
    if replayed.complete:
        findings += _check_derived(ledger, replayed.state)
    findings += [
        f"event rows {one.seq} and {two.seq}: their leases of {one.lease.device} overlap"
        for one, two in overlaps(replayed.leases)
    ]
    return findings + _check_blobs(ledger)


def check_chain(rows: list[Row]) -> list[str]:
    """Return where the rows' numbers, contents and hashes do not form one chain."""
    findings: list[str] = []
    previous = GENESIS
    for number, row in enumerate(rows, start=1):
        if row.seq != number:
            return [*findings, f"event row {number} is missing; row {row.seq} comes instead"]
        if row.prev_hash != previous:
            findings.append(f"event row {row.seq}: does not follow the hash of row {row.seq - 1}")
        if row.computed_hash() != row.hash:
            findings.append(f"event row {row.seq}: its content does not have its hash")
        previous = row.hash
    return findings


class _Replay:
    """A replay from the first row on that takes every decision again."""

    def __init__(self, folder: Path, ledger: Ledger) -> None:
        self.state = CampaignState()
        self.findings: list[str] = []
        self.leases: list[Held] = []
        self.complete = False
        self._folder = folder
        self._ledger = ledger
        self._moments = Moments()
        self._laws = Laws()
        self._gate: dict[str, Settled | None] = {}
        self._campaign: Campaign | None = None

    def run(self, rows: list[Row]) -> None:
        for row in rows:
            try:
                event = read(row)
                self._before(event)
                apply(self.state, event)
                self._after(event)
            except (Inconsistent, ValueError, HostError) as error:
                text = str(error)
                where = f"event row {row.seq}"
                self.findings.append(text if where in text else f"{where}: {text}")
                return
            self._laws.note(event)
        self.complete = True
        self.findings += self._laws.broken(self.state)

    def _find(self, event: Event, findings: list[str]) -> None:
        self.findings += [f"event row {event.seq}: {found}" for found in findings]

    def _before(self, event: Event) -> None:
        """Look at what a row says while the state is still the one it was decided on."""
        match event.body:
            case Created():
                self._created(event, event.body)
            case Settled():
                self._settled(event, event.body)
            case Baselined() if event.body.result is not None:
                self._baselined(event, event.body, event.body.result)
            case Calibrated():
                created = self.state.campaign
                device, parameters = created.settings.device, created.settings.parameters
                found = recheck_calibration(event.body.result, created.problem, device, parameters)
                self._find(event, found)
                self._hold(event, event.body.machine)
            case _:
                pass

    def _after(self, event: Event) -> None:
        self._moments.note(self.state)
        match event.body:
            case Submitted():
                self._submitted(event, self.state.attempts[event.submission])
            case Screened():
                attempt = self.state.attempts[event.submission]
                self._judged(event, event.body, attempt.planned_stake, attempt.calibration)
            case Confirmed():
                attempt = self.state.attempts[event.submission]
                screen = attempt.screen.calibration if attempt.screen is not None else None
                judged_with = attempt.calibration or screen
                self._judged(event, event.body, attempt.reserved or 0.0, judged_with)
            case Remeasured() | Canary() | SpreadUpdated() | ExtraMeasured():
                self._hold(event, event.body.machine)
            case ProfileDone() if event.body.held is not None:
                self.leases.append(Held(event.seq, event.body.machine, event.body.held))
            case _:
                pass

    def _created(self, event: Event, body: Created) -> None:
        findings = []
        if body.problem.digest != body.problem_digest:
            findings.append("the problem does not have its digest")
        if body.seed.digest != body.seed_digest:
            findings.append("the seed does not have its digest")
        try:
            if read_problem(self._folder / PROBLEM).digest != body.problem_digest:
                findings.append(f"the files in {PROBLEM}/ are not the campaign's problem")
        except ProblemError as error:
            findings.append(f"the files in {PROBLEM}/ cannot be read: {error}")
        self._find(event, findings)
        journal = Journal(self._ledger)
        self._campaign = Campaign(self._folder, journal, body.problem, body.settings)

    def _submitted(self, event: Event, attempt: Attempt) -> None:
        """Take the gate's decision again, on the state without this submission's own key."""
        assert self._campaign is not None
        campaign, state = self._campaign, self.state
        envelope = envelope_of(campaign, attempt)
        found = {
            "key": (envelope.key, attempt.key),
            "DSL": (envelope.found_dsl, attempt.found_dsl),
            "solution digest": (
                None if envelope.solution is None else envelope.solution.digest,
                attempt.solution_digest,
            ),
        }
        self._find(
            event, [f"its sources give another {what}" for what, (a, b) in found.items() if a != b]
        )
        own = attempt.key is not None and state.by_key.get(attempt.key) == attempt.ticket
        if own and attempt.key is not None:
            del state.by_key[attempt.key]
        self._gate[attempt.ticket] = refuse(
            state,
            attempt.agent,
            envelope,
            attempt.proposal.algorithm,
            attempt.proposal.layout,
            lambda submission: sources_of(campaign, state, submission),
        )
        if own and attempt.key is not None:
            state.by_key[attempt.key] = attempt.ticket

    def _settled(self, event: Event, body: Settled) -> None:
        attempt = self.state.attempts.get(event.submission)
        if attempt is None or attempt.state == "done":
            return
        gate = self._gate.get(attempt.ticket)
        if attempt.state == "judging":
            expected = (
                guard_lost(attempt, "")
                if body.reason == "guard_lost"
                else _outcome(self.state, attempt)
            )
        elif gate is None and body.reason == "cancelled":
            return
        else:
            expected = gate
        if expected is None:
            self._find(event, ["nothing was decided that this verdict follows from"])
            return
        free = {"detail": body.detail} if body.reason == "guard_lost" else {}
        if expected.model_copy(update=free) != body:
            self._find(
                event,
                [
                    f"the rows give {expected.verdict} {expected.reason}"
                    f" (speedup {expected.speedup}), it says {body.verdict} {body.reason}"
                    f" (speedup {body.speedup})"
                ],
            )

    def _baselined(self, event: Event, body: Baselined, result: Result) -> None:
        asked = self._moments.at(event.seq - 1 if body.asked_after is None else body.asked_after)
        created = self.state.campaign
        parameters = created.settings.parameters
        found = recheck(result, created.problem.weights(), parameters, asked.least_stake)
        if not stands_for(asked.calibration, result):
            found.append("it was decided with another calibration than the campaign's then")
        line = lines_to_beat(created).get(body.name, created.seed)
        found += recheck_limit(result, created.problem, line)
        self._find(event, found)
        self._hold(event, body.machine)

    def _judged(
        self,
        event: Event,
        body: Screened | Confirmed,
        stake: float,
        calibration: Calibration | None,
    ) -> None:
        campaign = self.state.campaign
        weights = campaign.problem.weights()
        found = recheck(body.result, weights, campaign.settings.parameters, stake)
        found += recheck_inputs(body.result, campaign.problem)
        found += recheck_anchor(body.result, self.state.attempts[event.submission].against == SEED)
        found += self._limit(event, body.result)
        if not stands_for(calibration, body.result):
            found.append("it was decided with another calibration than when it was claimed")
        self._find(event, found)
        self._hold(event, self.state.attempts[event.submission].machine)

    def _limit(self, event: Event, result: Result) -> list[str]:
        assert self._campaign is not None
        attempt = self.state.attempts[event.submission]
        candidate = envelope_of(self._campaign, attempt).solution
        if candidate is None:
            return ["its sources are no solution, yet they were judged"]
        return recheck_limit(result, self.state.campaign.problem, candidate)

    def _hold(self, event: Event, machine: str) -> None:
        body = event.body
        if isinstance(body, _MEASURED):
            lease = body.result.lease if body.result is not None else None
            if lease is not None:
                self.leases.append(Held(event.seq, machine, lease))


def _outcome(state: CampaignState, attempt: Attempt) -> Settled | None:
    try:
        return outcome(state, attempt)
    except ValueError:
        return None


def _check_derived(ledger: Ledger, state: CampaignState) -> list[str]:
    findings: list[str] = []
    for table, (columns, keys) in TABLES.items():
        stored = ledger.connection.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
        expected = {row[:keys]: row for row in derived_rows(state, table)}
        found = {tuple(row[:keys]): tuple(row) for row in stored}
        for key in sorted(expected.keys() | found.keys(), key=str):
            name = f"{table} row {' '.join(str(part) for part in key) or '(pool)'}"
            if key not in found:
                findings.append(f"{name} is missing")
            elif key not in expected:
                findings.append(f"{name} does not follow from the ledger")
            elif expected[key] != found[key]:
                differing = [
                    f"{column} is {got!r}, the ledger gives {want!r}"
                    for column, got, want in zip(columns, found[key], expected[key], strict=True)
                    if got != want
                ]
                findings.append(f"{name}: {'; '.join(differing)}")
    return findings


def _check_blobs(ledger: Ledger) -> list[str]:
    return [
        f"blob row {digest[:12]}: its bytes do not have its digest"
        for digest, content in ledger.connection.execute("SELECT digest, content FROM blob")
        if hashlib.sha256(content).hexdigest() != digest
    ]
