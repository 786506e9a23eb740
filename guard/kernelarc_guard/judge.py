"""The cascade: policy, build, smoke, correctness, then the screen or the confirmation (imports torch).

One `Judge` lives as long as the guard process; it keeps nothing between requests but nurseries and
the build cache.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean

from kernelarc_guard import asking, decide
from kernelarc_guard.apart import ROUNDS, contradiction, settled
from kernelarc_guard.backend import Backend, CpuBackend, open_backend
from kernelarc_guard.bench import Bench, Contestant, run_pair
from kernelarc_guard.build import BuildFailed, build
from kernelarc_guard.calibrating import measure
from kernelarc_guard.cores import PinnedAway, builder_cores
from kernelarc_guard.correctness import check_workloads, smoke
from kernelarc_guard.decide import Calibration, Decision
from kernelarc_guard.faults import CandidateFault, Refused, SolutionFault
from kernelarc_guard.inputs import InputError, redrawn
from kernelarc_guard.inquiries import Counted, Inquiry, Profiled
from kernelarc_guard.installed import changed, installed
from kernelarc_guard.keeper import SLOTS
from kernelarc_guard.lease import DeviceLease
from kernelarc_guard.lifetimes import run_round
from kernelarc_guard.nurseries import Nurseries, Nursery
from kernelarc_guard.oracle import Oracle, OracleError
from kernelarc_guard.pairs import Block
from kernelarc_guard.physical import PhysicalLimits
from kernelarc_guard.policy import examine
from kernelarc_guard.problem import ProblemError
from kernelarc_guard.protocol import (
    DEVICE_HELD,
    Calibrate,
    Compare,
    Confirm,
    PairTimes,
    Request,
    Result,
    Screen,
)
from kernelarc_guard.ratios import anchored
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.report import Outcome, Report, Tell
from kernelarc_guard.room import room_for
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import Solution
from kernelarc_guard.supervised import SupervisorLost
from kernelarc_guard.trials import Trials

_FOR_SCREENING, _FOR_CONFIRMING = 2, 16
_ROOMY = 0.5
"""Of a device's memory: problems that need more get what runners hold that nobody needs yet."""


class Judge:
    """Judges requests one after the other on one device."""

    def __init__(
        self,
        sandbox: Sandbox,
        folder: Path,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Start the first nursery; all files are in `folder`, `now` dates calibrations."""
        self._sandbox = sandbox
        self._protection = sandbox.describe()
        self._folder = folder
        self._nurseries = Nurseries(sandbox, folder)
        self._open = {"cpu": _Device(CpuBackend(), self._nurseries, Trials())}
        self._now = now

    def judge(self, request: Request, tell: Tell) -> Result:
        """Answer one request; raises Refused where it cannot be judged."""
        begin, cache = time.monotonic(), Path(request.cache_dir)
        device = self._device(request.device)
        report = Report(request.id, request.op, tell)
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except (OSError, ValueError) as error:
            raise Refused(f"cache_dir: cannot be created: {error}") from None
        try:
            _Case(request, report, device, cache, self._sandbox, self._now).run()
        except Outcome as outcome:
            report.settle(outcome)
        except (InputError, OracleError) as error:
            raise Refused(f"the problem cannot be graded: {error}") from None
        finally:
            device.nurseries.clean()
            device.backend.tidy()
        protection = self._protection | device.nurseries.protection
        return report.result(protection, time.monotonic() - begin)

    def inquire(self, inquiry: Inquiry, tell: Tell) -> Counted | Profiled:
        """Answer a question that decides nothing; raises Refused where it cannot be answered."""
        backend = self._device(inquiry.device).backend
        return asking.answer(inquiry, backend, self._sandbox, self._folder, tell)

    def warm(self) -> None:
        """Prepare the next confirmation's nursery; nothing is being timed now."""
        for device in self._open.values():
            device.nurseries.warm_spare()

    def close(self) -> None:
        """End all processes."""
        for device in self._open.values():
            device.nurseries.close()

    def _device(self, name: str) -> "_Device":
        """Return a device that was opened; raises Refused where there is no such one."""
        known = self._open.get(name)
        if known is None:
            folder = self._folder / name.replace(":", "-")
            backend = open_backend(name, self._sandbox, folder)
            folder.mkdir(mode=0o700)
            known = self._open[name] = _Device(
                backend,
                Nurseries(self._sandbox, folder, backend.nodes, backend.environment),
                Trials(backend.place, backend.memory_bytes),
            )
        return known


@dataclass(frozen=True)
class _Device:
    """A device that is open, with all that is kept for it between requests."""

    backend: Backend
    nurseries: Nurseries
    trials: Trials


class _Case:
    """One request on its way through the stages."""

    def __init__(
        self,
        request: Request,
        report: Report,
        device: _Device,
        cache: Path,
        sandbox: Sandbox,
        now: Callable[[], datetime],
    ) -> None:
        self._request = request
        self._report = report
        self._backend = device.backend
        self._nurseries = device.nurseries
        self._trials = device.trials
        self._cache = cache
        self._sandbox = sandbox
        self._now = now
        self._limits: PhysicalLimits | None = None
        """Of a screen or a confirmation."""
        self._arms: dict[str, Contestant] = {}
        """What was built, by role."""
        self._benches: list[Bench] = []

    def run(self) -> None:
        request, report = self._request, self._report
        report.watch(request.problem)
        report.look = self._backend.look
        if isinstance(request, Screen):
            with report.stage("policy"):
                self._policy(request.candidate)
        if self._backend.builds_beside:
            self._build_all()
        report.tell(report.now, "waiting for the device")
        with DeviceLease(request.device, self._backend.lock) as lease, self._backend.steady():
            report.lease = lease
            report.tell(report.now, DEVICE_HELD)
            for seen in self._trials.notes(request.problem):
                report.observe(seen)
            if not self._backend.builds_beside:
                self._build_all()
            try:
                self._measure()
            finally:
                for bench in self._benches:
                    bench.dying.bury()
            lease.ends()

    def _measure(self) -> None:
        request = self._request
        if isinstance(request, Calibrate):
            self._calibrate_only(request)
        elif isinstance(request, Screen):
            self._screen(request)
        elif isinstance(request, Confirm):
            self._confirm(request)
        else:
            self._compare(request)

    def _build_all(self) -> None:
        """Build the solutions of the request, the candidate first."""
        request, report, arms = self._request, self._report, self._arms
        if isinstance(request, Screen):
            with report.stage("build"):
                arms["candidate"] = self._build_candidate(request)
        elif not isinstance(request, Calibrate):
            with report.stage("build"):
                arms["candidate"] = self._built(request.candidate)
        arms["record"] = self._record()
        if isinstance(request, Confirm) and request.anchor:
            arms["anchor"] = self._anchor(request.anchor)

    def _calibrate_only(self, request: Calibrate) -> None:
        record = self._arms["record"]
        bench = self._bench()
        starts: list[Callable[[], Nursery]] = [self._nurseries.current]
        starts += [self._nurseries.renew] * (request.nurseries - 1)
        self._nurseries.settle()
        with self._report.stage("timing"), PinnedAway(bench.drawer.threads):
            self._report.calibration = self._calibrate(
                bench, record, starts, request.pairs, request.parameters, self._report.add_pair
            )

    def _screen(self, request: Screen) -> None:
        report = self._report
        candidate, record = self._arms["candidate"], self._arms["record"]
        bench = self._bench()
        nursery = self._nurseries.current()
        with report.stage("smoke"):
            tried = smoke(bench, nursery, candidate, report)
        if not request.correctness_only:
            # They are there when the screen begins, and a confirmation.
            bench.fork_ahead(nursery, _FOR_SCREENING)
            bench.fork_ahead(self._nurseries.imported_spare, _FOR_CONFIRMING)
        with report.stage("correctness"):
            check_workloads(bench, nursery, candidate, tried, report)
        if request.correctness_only:
            return
        self._nurseries.settle()
        with report.stage("timing"), PinnedAway(bench.drawer.threads):
            calibration = request.calibration
            if calibration is None:
                pairs = request.schedule.calibration_pairs
                calibration = self._calibrate(
                    bench, record, [lambda: nursery], pairs, request.parameters, lambda pair: None
                )
                report.observe(f"calibrated here with {pairs} pairs of the record against itself")
            report.calibration = calibration
            self._hold_to_limits(bench, calibration, record, candidate)
            values: list[float] = []

            def step(pair: PairTimes) -> Decision | None:
                values.append(self._value(pair))
                return decide.screen(values, request.parameters, calibration, request.stake)

            self._decide(bench, nursery, record, candidate, calibration.blocks_screen, step)

    def _confirm(self, request: Confirm) -> None:
        report = self._report
        candidate, record = self._arms["candidate"], self._arms["record"]
        anchor = self._arms.get("anchor")
        bench, nursery = self._bench(), self._nurseries.renew()
        with report.stage("timing"), PinnedAway(bench.drawer.threads):
            values: list[float] = []
            by_workload: list[list[float]] = []

            def step(pair: PairTimes) -> Decision | None:
                values.append(self._value(pair))
                by_workload.append(
                    decide.workload_values(_blocks(pair), len(request.problem.workloads))
                )
                return decide.confirm(
                    values, by_workload, request.parameters, request.calibration, request.stake
                )

            report.calibration = request.calibration
            self._hold_to_limits(bench, request.calibration, record, candidate)
            blocks = request.calibration.blocks_confirm
            decision = self._decide(bench, nursery, record, candidate, blocks, step, anchor)
            report.anchored = anchored(report.triples(), request.problem.weights())
            if report.keeps:
                self._live_apart(bench, nursery, record, candidate, decision, request.calibration)

    def _live_apart(
        self,
        bench: Bench,
        nursery: Nursery,
        record: Contestant,
        candidate: Contestant,
        decision: Decision,
        calibration: Calibration,
    ) -> None:
        """Deny a KEEP that measurements with the arms in separate lifetimes contradict."""
        report, values = self._report, list[float]()
        blocks = calibration.blocks_confirm
        while not values or not settled(values, decision):
            # The calls of another sort are all made, however many rounds there will be.
            more = 1 if values else ROUNDS
            try:
                pair = run_round(bench, nursery, record, candidate, blocks, report.tick_block, more)
            except CandidateFault as fault:
                raise report.failure("timing", fault) from None
            report.add_round(pair)
            values.append(self._value(pair))
        why = contradiction(values, decision, calibration)
        if why is not None:
            report.deny_keep(why)

    def _compare(self, request: Compare) -> None:
        report = self._report
        candidate = replace(self._arms["candidate"], planted=request.planted)
        record = self._arms["record"]
        bench = self._bench()
        nursery = self._nurseries.renew()
        with report.stage("timing"), PinnedAway(bench.drawer.threads):
            for _ in range(request.pairs):
                self._pair(bench, nursery, record, candidate, request.blocks)

    def _decide(
        self,
        bench: Bench,
        nursery: Nursery,
        record: Contestant,
        candidate: Contestant,
        blocks: int,
        step: Callable[[PairTimes], Decision | None],
        anchor: Contestant | None = None,
    ) -> Decision:
        decision: Decision | None = None
        while decision is None:
            decision = step(self._pair(bench, nursery, record, candidate, blocks, anchor))
        self._report.decide(decision)
        problem = self._request.problem
        if not all(redrawn(problem.definition, one) for one in problem.workloads):
            self._report.withhold_keep()
        return decision

    def _pair(
        self,
        bench: Bench,
        nursery: Nursery,
        record: Contestant,
        candidate: Contestant,
        blocks: int,
        anchor: Contestant | None = None,
    ) -> PairTimes:
        """Measure a pair and report it; a candidate's fault is its verdict."""
        report = self._report
        try:
            pair = run_pair(bench, nursery, record, candidate, blocks, report.tick_block, anchor)
        except CandidateFault as fault:
            raise report.failure("timing", fault) from None
        report.add_pair(pair)
        if self._limits is not None:
            for seen in self._limits.near(pair):
                report.observe(seen)
            try:
                self._limits.check(pair)
            except SolutionFault as fault:
                raise report.failure("timing", fault) from None
        return pair

    def _hold_to_limits(
        self, bench: Bench, calibration: Calibration, record: Contestant, candidate: Contestant
    ) -> None:
        self._limits = PhysicalLimits(
            calibration, self._request.problem, record.solution, candidate.solution
        )
        bench.audit_below = self._limits.audit
        for seen in changed(calibration.toolchain, installed(self._backend.place)):
            self._report.observe(seen)

    def _calibrate(
        self,
        bench: Bench,
        record: Contestant,
        nurseries: list[Callable[[], Nursery]],
        pairs: int,
        parameters: decide.Parameters,
        keep: Callable[[PairTimes], None],
    ) -> Calibration:
        series = measure(
            bench,
            record,
            nurseries,
            pairs,
            parameters.blocks_confirm,
            lambda message: self._report.tell("timing", message),
            keep,
        )
        return decide.calibrate_from(
            device=self._request.device,
            problem_digest=self._request.problem.digest,
            at=self._now().isoformat(timespec="seconds"),
            nurseries=series.nurseries,
            pair_seconds=fmean(series.pair_seconds),
            block_seconds=fmean(series.block_seconds),
            parameters=parameters,
            rulers=series.rulers,
            toolchain=installed(self._backend.place),
        )

    def _value(self, pair: PairTimes) -> float:
        return decide.pair_value(_blocks(pair), self._request.problem.weights())

    def _policy(self, candidate: Solution) -> None:
        examined = examine(candidate, self._request.problem.definition)
        for seen in examined.observations():
            self._report.observe(seen)
        findings = examined.findings
        for found in findings[:10]:
            self._report.observe(f"{found.rule}: {found.file}:{found.line} {found.message}")
        if findings:
            reason = findings[0].reason
            lines = [f"{f.file}:{f.line}: {f.rule}: {f.message}" for f in findings[:10]]
            raise self._report.failure(
                "policy", SolutionFault(reason, f"{REASONS[reason].says} " + "; ".join(lines))
            )

    def _build_candidate(self, request: Screen) -> Contestant:
        candidate = self._built(request.candidate)
        digest = candidate.built.digest
        earlier = request.known_binaries.get(digest)
        if earlier is not None:
            raise self._report.failure(
                "duplicate",
                SolutionFault("duplicate", f"it builds to the same binary as submission {earlier}"),
            )
        return candidate

    def _built(self, solution: Solution) -> Contestant:
        """Build the candidate; a failure is its verdict."""
        try:
            contestant = self._make(solution, "candidate")
        except BuildFailed as failed:
            self._report.messages = list(failed.messages)
            raise self._report.failure(
                "build", SolutionFault(failed.reason, failed.detail)
            ) from None
        except SupervisorLost as lost:
            said = f"what builds the candidate was killed or hangs: {lost}"
            raise Refused(said, "builder_lost") from None
        self._report.binary = contestant.built.digest
        self._report.messages = list(contestant.built.messages)
        return contestant

    def _record(self) -> Contestant:
        try:
            return self._make(self._request.record, "record")
        except BuildFailed as failed:
            raise Refused(f"the record does not build: {failed.detail}", "record_failed") from None

    def _anchor(self, solution: Solution) -> Contestant:
        try:
            return self._make(solution, "anchor")
        except BuildFailed as failed:
            raise Refused(f"the anchor does not build: {failed.detail}", "anchor_failed") from None

    def _make(self, solution: Solution, role: str) -> Contestant:
        schedule = self._request.schedule
        built = build(
            solution,
            self._cache,
            seconds=schedule.build_seconds,
            memory_bytes=schedule.memory_bytes,
            sandbox=self._sandbox,
            gpu=self._backend.architecture,
            cores=builder_cores() if self._backend.builds_beside else frozenset(),
        )
        return Contestant(solution, built, SLOTS.index(role))

    def _bench(self) -> Bench:
        problem = self._request.problem
        thrifty = self._thrifty()
        oracle = Oracle(problem, self._backend.place)
        drawer = self._backend.drawer(problem, self._request.schedule.evict_bytes)
        drawer.thrifty = thrifty
        drawer.counts.known = self._trials.given(problem)
        solutions = [arm.solution for arm in self._arms.values()]
        schedule = self._backend.suit(solutions, self._request.schedule, len(problem.workloads))
        note, barred = self._report.observe, self._trials.barred(problem)
        bench = Bench(problem, schedule, oracle, drawer, note, barred, backend=self._backend)
        self._benches.append(bench)
        return bench

    def _thrifty(self) -> bool:
        """Say whether the problem leaves no room for copies; Refused where it does not fit at all."""
        memory = self._backend.memory_bytes
        if memory is None:
            return False
        together = 3 if "anchor" in self._arms else 2
        try:
            room = room_for(self._request.problem, memory, together)
        except ProblemError as error:
            raise Refused(f"the problem cannot be graded: {error}") from None
        if room.need > memory * _ROOMY:
            self._nurseries.drop_ahead()
        return room.thrifty


def _blocks(pair: PairTimes) -> list[Block]:
    return [(block.record, block.candidate) for block in pair.blocks]
