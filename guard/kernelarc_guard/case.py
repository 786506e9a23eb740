"""One request on its way through the stages, on a device that is open (imports torch).

Policy, build, smoke, correctness, then the screen or the confirmation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import fmean

from kernelarc_guard import decide
from kernelarc_guard.apart import ROUNDS, contradiction, settled
from kernelarc_guard.backend import Backend
from kernelarc_guard.bench import Bench, Contestant, run_pair
from kernelarc_guard.calibrating import measure
from kernelarc_guard.contestants import Contestants
from kernelarc_guard.cores import PinnedAway, ahead_cores
from kernelarc_guard.correctness import check_workloads, smoke
from kernelarc_guard.decide import Calibration, Decision
from kernelarc_guard.faults import CandidateFault, Refused, SolutionFault
from kernelarc_guard.inputs import redrawn
from kernelarc_guard.installed import changed, installed
from kernelarc_guard.lease import DeviceLease
from kernelarc_guard.lifetimes import run_round
from kernelarc_guard.nurseries import Nurseries, Nursery
from kernelarc_guard.oracle import Oracle
from kernelarc_guard.pairs import Block
from kernelarc_guard.physical import PhysicalLimits
from kernelarc_guard.preparing import Preparing
from kernelarc_guard.problem import ProblemError
from kernelarc_guard.protocol import (
    DEVICE_HELD,
    Calibrate,
    Compare,
    Confirm,
    PairTimes,
    Request,
    Screen,
)
from kernelarc_guard.ratios import anchored
from kernelarc_guard.report import Report
from kernelarc_guard.room import room_for
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.trials import Trials

_FOR_SCREENING, _FOR_CONFIRMING = 2, 16
_ROOMY = 0.5
"""Of a device's memory: problems that need more get what runners hold that nobody needs yet."""


@dataclass(frozen=True)
class Device:
    """A device that is open, with all that is kept for it between requests."""

    backend: Backend
    nurseries: Nurseries
    trials: Trials
    preparing: Preparing


class Case:
    """One request on its way through the stages."""

    def __init__(
        self,
        request: Request,
        report: Report,
        device: Device,
        cache: Path,
        sandbox: Sandbox,
        now: Callable[[], datetime],
    ) -> None:
        """Take over a request; builds are cached in `cache`, `now` dates calibrations."""
        self._request = request
        self._report = report
        self._backend = device.backend
        self._nurseries = device.nurseries
        self._trials = device.trials
        self._now = now
        self._limits: PhysicalLimits | None = None
        """Of a screen or a confirmation."""
        self._contestants = Contestants(
            request, report, device.backend, cache, sandbox, device.preparing
        )
        self._benches: list[Bench] = []

    def run(self) -> None:
        """Fill the report; raises its Outcome where a stage fails, Refused where nothing is judged."""
        request, report = self._request, self._report
        report.watch(request.problem)
        report.look = self._backend.look
        if isinstance(request, Screen):
            with report.stage("policy"):
                self._contestants.examine(request.candidate)
        if self._backend.builds_beside:
            self._contestants.build_all()
        report.tell(report.now, "waiting for the device")
        with DeviceLease(request.device, self._backend.lock) as lease, self._backend.steady():
            report.lease = lease
            report.tell(report.now, DEVICE_HELD)
            for seen in self._trials.notes(request.problem):
                report.observe(seen)
            if not self._backend.builds_beside:
                self._contestants.build_all()
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

    def _calibrate_only(self, request: Calibrate) -> None:
        record = self._contestants.arms["record"]
        bench = self._bench()
        starts: list[Callable[[], Nursery]] = [self._nurseries.current]
        starts += [self._renewed] * (request.nurseries - 1)
        self._nurseries.settle()
        with self._report.stage("timing"), PinnedAway(bench.drawer.threads):
            self._report.calibration = self._calibrate(
                bench, record, starts, request.pairs, request.parameters, self._report.add_pair
            )

    def _screen(self, request: Screen) -> None:
        report = self._report
        candidate, record = self._contestants.arms["candidate"], self._contestants.arms["record"]
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
        candidate, record = self._contestants.arms["candidate"], self._contestants.arms["record"]
        anchor = self._contestants.arms.get("anchor")
        bench, nursery = self._bench(), self._renewed()
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
        candidate, record = self._contestants.arms["candidate"], self._contestants.arms["record"]
        bench = self._bench()
        if request.checked:
            first = self._nurseries.current()
            with report.stage("smoke"):
                tried = smoke(bench, first, candidate, report)
            with report.stage("correctness"):
                check_workloads(bench, first, candidate, tried, report)
        nursery = self._renewed()
        with report.stage("timing"), PinnedAway(bench.drawer.threads):
            if request.planted:
                candidate = self._planted(bench, nursery, record, candidate, request.planted)
            for _ in range(request.pairs):
                self._pair(bench, nursery, record, candidate, request.blocks)

    def _planted(
        self,
        bench: Bench,
        nursery: Nursery,
        record: Contestant,
        candidate: Contestant,
        percent: float,
    ) -> Contestant:
        """Return the candidate with a delay, as long as the device can plant one."""
        try:
            slower = self._backend.planted(bench, nursery, record, candidate, percent)
        except CandidateFault as fault:
            raise self._report.failure("timing", fault) from None
        self._report.planted = slower.planted
        return slower

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

    def _renewed(self) -> Nursery:
        """Return a fresh nursery; the one after it starts beside what is timed where that is no matter."""
        threads = self._request.problem.definition.kernelarc.threads
        return self._nurseries.renew(
            ahead_cores(threads) if self._backend.builds_beside else frozenset()
        )

    def _bench(self) -> Bench:
        problem = self._request.problem
        thrifty = self._thrifty()
        oracle = Oracle(problem, self._backend.place)
        drawer = self._backend.drawer(problem, self._request.schedule.evict_bytes)
        drawer.thrifty = thrifty
        drawer.counts.known = self._trials.given(problem)
        solutions = [arm.solution for arm in self._contestants.arms.values()]
        schedule = self._backend.suit(solutions, self._request.schedule, len(problem.workloads))
        note, kinds = self._report.observe, self._trials.kinds(problem)
        bench = Bench(problem, schedule, oracle, drawer, note, kinds, backend=self._backend)
        self._benches.append(bench)
        return bench

    def _thrifty(self) -> bool:
        """Say whether the problem leaves no room for copies; Refused where it does not fit at all."""
        memory = self._backend.memory_bytes
        if memory is None:
            return False
        together = 3 if "anchor" in self._contestants.arms else 2
        try:
            room = room_for(self._request.problem, memory, together)
        except ProblemError as error:
            raise Refused(f"the problem cannot be graded: {error}") from None
        if room.need > memory * _ROOMY:
            self._nurseries.drop_ahead()
        return room.thrifty


def _blocks(pair: PairTimes) -> list[Block]:
    return [(block.record, block.candidate) for block in pair.blocks]
