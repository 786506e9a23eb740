"""Side-by-side measurement of two solutions: fresh pairs, blocks, and a check of every output.

Imports torch. Both arms of a call get the same fresh inputs, one after the other in random order.
One call in eight is not timed: its inputs are of another distribution, or only partly new, or its
tensor objects are. Nothing tells a solution which.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import torch

from kernelarc_guard.anchor_arm import AnchorArm
from kernelarc_guard.arm import Arm, CallBlocks
from kernelarc_guard.backend import Backend, CpuBackend
from kernelarc_guard.build import Built
from kernelarc_guard.definition import Definition
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.dying import Dying
from kernelarc_guard.early_answers import EarlyAnswers
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.forms import FormError
from kernelarc_guard.leeway import Leeway, leeways_within, times
from kernelarc_guard.legality import Kinds, is_legal
from kernelarc_guard.live_pair import LivePair, blame
from kernelarc_guard.nurseries import Nursery
from kernelarc_guard.oracle import Answer, Oracle, OracleError
from kernelarc_guard.pair_ruler import PairRuler
from kernelarc_guard.precision import Scales
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import PairTimes, Schedule
from kernelarc_guard.sampling import Pool
from kernelarc_guard.solution import Solution
from kernelarc_guard.staleness import is_stale
from kernelarc_guard.tolerance import Comparison, compare, mode_of
from kernelarc_guard.unannounced import Unannounced
from kernelarc_guard.workload import Tolerance

Outputs = dict[str, torch.Tensor]
_CHEAP_NS = 20_000_000
_ATTEMPTS = 3
_MORE = 1
"""Runners that are forked ahead beyond the next pair's, so that nobody has to wait for the last one."""
_STORE = 16
"""So many are kept where one after the other can open its device beside what is not timed."""
_ALONE = 28
"""Timed calls of a block over all workloads where an arm lives alone, and the least of each; then those of
another sort."""
_ALONE_LEAST = 3
_OTHERS_ALONE = 24
_BEYOND_HONEST = (
    "the workload's own tolerance has room for that, but strict tolerance also wants every error "
    "within what computing in the declared precision explains on these inputs. Keep operands and "
    "partial results in the declared precision (sums of 16-bit values in float32); where they are, "
    "sum in blocks, in pairs or in float64"
)
_GAVE_WAY = "an error beyond the workload's tolerance is what rounding explains there"
_CHEAP_KERNELS = 20
"""The oracle answers every call where it costs less than this many kernels (or 20 ms)."""


@dataclass(frozen=True)
class Contestant:
    """A solution that was built."""

    solution: Solution
    built: Built
    slot: int
    """Which scratch folder is its own: the index of its role in `keeper.SLOTS`."""
    planted: float = 0.0
    """How much (percent) longer its runner makes each call."""
    delays: tuple[int, ...] = ()
    """The same in nanoseconds by workload, on devices where a runner cannot know that itself."""


@dataclass
class Bench:
    """What both arms of a problem share: inputs, oracle, schedule."""

    problem: Problem
    schedule: Schedule
    oracle: Oracle
    drawer: Drawer
    note: Callable[[str], None]
    """Told what was seen and did not decide."""
    kinds: Kinds = field(default_factory=Kinds)
    """Which kinds of values the workloads' references bear; added to."""
    oracle_ns: dict[int, int] = field(default_factory=dict)
    """Cost of the oracle per workload, as last seen."""
    audit_below: Sequence[float] = ()
    """Nanoseconds by workload: a shorter call is checked against the oracle. Empty: none is."""
    worst: dict[int, Comparison] = field(default_factory=dict)
    """The candidate's largest error per workload."""
    backend: Backend = field(default_factory=CpuBackend)
    awake: bool = False
    """Is a solution there that waits for the device inside its calls? Then none is queued."""
    _pools: dict[int, Pool] = field(default_factory=dict)
    """The candidate's random answers, by workload."""
    _last: tuple[Draw, Answer] | None = None
    _typical: dict[int, Scales] = field(default_factory=dict)
    """How large honest errors were at the last answer, one number per output."""
    _leeways: dict[int, dict[str, float]] = field(default_factory=dict)
    """How many leeways a tolerance has room for on own values, by workload and output."""
    dying: Dying = field(default_factory=Dying)
    early: EarlyAnswers = field(default_factory=EarlyAnswers)
    _dealer: Unannounced | None = None

    def start(self, nursery: Nursery, contestant: Contestant, untimed: bool = False) -> Arm:
        """Fork a runner for one solution; `untimed` where no time decides. Raises SolutionFault."""
        return self.backend.start(
            nursery, contestant, self.drawer, self.schedule, self.note, self.awake or untimed
        )

    def fork_ahead(self, nursery: Nursery | None, count: int) -> None:
        """See that so many runners are on their way, nobody's yet, where to start them takes long."""
        if nursery is not None and not self.drawer.thrifty:
            self.backend.fork_ahead(nursery, count, self.drawer.threads)

    def refill(self, nursery: Nursery, least: int) -> None:
        """See that there are `least` runners for what comes next, and fill the store up by one."""
        self.fork_ahead(nursery, max(least, min(nursery.ahead + 1, _STORE)))

    def part_with(self, arms: Iterable[Arm]) -> None:
        """Kill runners; their end is waited for where that is soon or their memory is needed."""
        self.dying.add(arms, at_once=self.drawer.thrifty)

    def be_quiet(self, nursery: Nursery) -> None:
        """Wait until no runner is on its way to the device any more: what is timed would show it."""
        self.backend.wait_ahead(nursery)

    def warmups(self, workload: int) -> int:
        """Return how many calls of a workload are checked and not timed when a runner starts."""
        return self.backend.warmups(workload, self.schedule, self.awake)

    @property
    def calls_alone(self) -> int:
        """Return how many calls of a workload and block are timed where an arm lives alone."""
        spread = math.ceil(_ALONE / len(self.drawer.indices))
        return min(self.schedule.calls, max(_ALONE_LEAST, spread))

    def another_alone(self, times: int) -> bool:
        """Say, by chance, whether a call of another sort comes next where an arm lives alone.

        `times` as many as are timed, or as are enough for all workloads: what is honest in correctness only and
        looks at a sample of its inputs afterwards has to meet them before a KEEP.
        """
        share = times * min(1.0, _OTHERS_ALONE / (self.calls_alone * len(self.drawer.indices)))
        return secrets.SystemRandom().random() < share / (1 + share)

    def hold_awake(self) -> None:
        """From now on time all calls of all arms awake: one of them cannot be queued."""
        self.awake = True
        self.note(
            "calls_awake: a solution waits for the device inside its call; all are timed from "
            "waking their process to its stop, launches included"
        )

    def answer(self, workload: int, draw: Draw) -> Answer:
        """Return the oracle's answer; the last one is remembered."""
        if self._last is None or self._last[0] is not draw:
            self._last = None  # before the next one, which may be as large
            answer = self.early.take(workload, draw)
            if answer is None:
                begin = time.perf_counter_ns()
                answer = self.oracle.answer(self.problem.workloads[workload], draw.inputs)
                self.oracle_ns[workload] = time.perf_counter_ns() - begin
            self._last = (draw, answer)
            self._typical[workload] = {
                n: one.amax().reshape(1, 1) for n, one in answer.scales.items()
            }
        return self._last[1]

    def answer_early(self, after: int, idle: Callable[[], bool]) -> None:
        """Compute answers to the first calls of later workloads while the guard is `idle`."""
        later = (w for w in self.drawer.indices if w > after and self.warmups(w))
        self.early.make(self.problem, self.oracle, self.drawer, later, idle)

    def judge(self, workload: int, outputs: Outputs, draw: Draw) -> Comparison:
        """Compare one call's outputs with the oracle's answer to its inputs."""
        answer = self.answer(workload, draw)
        tolerance, definition = self._terms(workload)
        if self.oracle.form is not None:
            return self._judge_form(outputs, answer, tolerance)
        result = compare(outputs, answer.expected, tolerance, definition, scales=answer.scales)
        if not result.ok and answer.scales:
            # Only now the longer look at what honest errors can be for just these inputs.
            result = compare(outputs, answer.expected, tolerance, definition, scales=answer.widen())
        if not result.ok and draw.other and (leeway := self._leeway(workload, answer)):
            # The tolerance was stated for other values than these, which may cancel more.
            result = compare(
                outputs,
                answer.expected,
                tolerance,
                definition,
                scales=answer.widen(),
                leeway=leeway,
            )
            if result.ok:
                self.note(f"values_cancel: {draw.kind} on workload {workload + 1}: {_GAVE_WAY}")
        return result

    def _leeway(self, workload: int, answer: Answer) -> Leeway:
        """Return what each element may be off on values that are not the workload's own."""
        leeway = answer.leeway()
        tolerance, definition = self._terms(workload)
        mode = mode_of(definition)
        if mode.scaled or not leeway:
            return leeway
        if workload not in self._leeways:
            own = self.drawer.aside(workload).inputs
            usual = self.oracle.answer(self.problem.workloads[workload], own)
            within = leeways_within(usual.leeway(), usual.expected, tolerance, mode)
            self._leeways[workload] = within
        return times(leeway, self._leeways[workload], answer.expected, tolerance, mode)

    def _judge_form(self, outputs: Outputs, answer: Answer, tolerance: Tolerance) -> Comparison:
        """Compare what the problem wants compared in the place of its outputs."""
        try:
            formed = answer.formed(outputs)
            alike = {name: one.shape for name, one in formed.items()} == {
                name: one.shape for name, one in answer.expected.items()
            }
            if not alike:
                raise FormError("compared_as: gives other tensors than for the reference's outputs")
        except FormError as error:
            return Comparison(ok=False, reason="wrong_result", detail=str(error))
        definition = self.oracle.compared(answer.expected)
        return compare(formed, answer.expected, tolerance, definition, refuse_zeros=False)

    def _samples(self, workload: int, outputs: Outputs, draw: Draw) -> str:
        """Add random answers to a solution's own; returns what is wrong with all of them."""
        sampling = self.oracle.form and self.oracle.form.sampling
        if not sampling or draw.kind != "own":
            return ""
        generator = torch.Generator().manual_seed(secrets.randbits(63))
        places = sampling.places(draw.inputs, outputs, generator)
        return self._pools.setdefault(workload, Pool()).add(places)

    def agree(self, workload: int, outputs: Outputs, others: Outputs) -> bool:
        """Say whether two arms' outputs are as close as one arm's must be to the oracle's.

        Never where the other arm lacks an output that this one has: it would go unseen.
        """
        if not others.keys() >= outputs.keys():
            return False
        tolerance, definition = self._terms(workload)
        scales = self._typical.get(workload)
        return compare(outputs, others, tolerance, definition, scales=scales).ok

    def check(
        self, workload: int, outputs: Outputs, draw: Draw, earlier: Sequence[Outputs] = ()
    ) -> None:
        """Raise SolutionFault where outputs are outside the tolerance; remember the largest error.

        `earlier` holds outputs of this solution on this workload that were right.
        """
        answer = self.answer(workload, draw)
        result = self.judge(workload, outputs, draw)
        self.remember(workload, result, draw.kind)
        if result.ok:
            if said := self._samples(workload, outputs, draw):
                raise SolutionFault("wrong_result", said, workload)
            return
        reason: str = result.reason or "wrong_result"
        detail = result.detail
        if draw.kind != "own":
            detail = f"with {draw.kind}: {detail}"
        terms = self._terms(workload)
        if answer.scales and compare(outputs, answer.expected, *terms).ok:
            detail += f"; {_BEYOND_HONEST}"
        plain = self.oracle.form is None
        if plain and is_stale(outputs, answer.expected, terms[0], earlier):
            reason, detail = "stale_output", f"the values are an earlier call's; {detail}"
        raise SolutionFault(reason, detail, workload)

    def remember(self, workload: int, result: Comparison, inputs: str) -> None:
        """Keep a comparison of the candidate where its error is its workload's largest yet.

        `inputs` is the kind of the draw.
        """
        before = self.worst.get(workload)
        if before is None or result.max_absolute_error >= before.max_absolute_error:
            self.worst[workload] = replace(result, inputs=inputs)

    def unannounced(self, workload: int, before: Draw | None) -> Iterator[tuple[Draw | None, bool]]:
        """Yield what `Unannounced.calls` does."""
        if self._dealer is None:
            self._dealer = Unannounced(self.drawer)
        return self._dealer.calls(self, workload, before)

    def other(self, workload: int) -> Draw | None:
        """Return inputs of another distribution that is legal for a workload, None without one."""
        variety = self.drawer.variety
        choices: list[int | str] = [*variety.siblings[workload], *variety.kinds(workload)]
        secrets.SystemRandom().shuffle(choices)
        return next((one for c in choices if (one := self.drawn_as(workload, c)) is not None), None)

    def drawn_as(
        self, workload: int, choice: int | str, statics: bool | None = None
    ) -> Draw | None:
        """Return inputs like a sibling's (its index) or of a kind; None where that is not legal.

        With `statics` static ones may be of that kind too; None leaves it to chance.
        """
        if isinstance(choice, int):
            return self.drawer.like(workload, choice)
        for _ in range(_ATTEMPTS):
            if self.kinds.given_up(workload, choice):
                return None
            new = bool(secrets.randbits(1)) if statics is None else statics
            draw = self.drawer.derived(workload, choice, new)
            legal = self.legal(workload, draw)
            self.kinds.count(workload, choice, legal)
            if legal:
                return draw
        return None

    def legal(self, workload: int, draw: Draw) -> bool:
        """Say whether the reference itself is finite and well inside the tolerance on a draw."""
        try:
            answer = self.answer(workload, draw)
        except OracleError:
            return False
        return is_legal(self.oracle, answer, self._terms(workload)[0])

    def tell_lost(self, workload: int) -> None:
        """Note which kinds of values a workload's reference never bore."""
        if lost := self.kinds.lost(workload):
            self.note(
                f"values_left_out: {', '.join(lost)} on workload {workload + 1}: the reference itself "
                "is not finite on these, or too far from float64"
            )

    def _terms(self, workload: int) -> tuple[Tolerance, Definition]:
        return self.problem.workloads[workload].tolerance, self.problem.definition

    def audited(self, workload: int, elapsed_ns: int) -> bool:
        """Say whether a call was so short that it is checked against the oracle whatever that costs."""
        return bool(self.audit_below) and elapsed_ns < self.audit_below[workload]

    def oracle_is_cheap(self, workload: int, kernel_ns: int) -> bool:
        """Say whether every timed call can be checked against the oracle."""
        cost = self.oracle_ns.get(workload, 0)
        return cost <= max(_CHEAP_NS, _CHEAP_KERNELS * kernel_ns)


def run_pair(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
    anchor: Contestant | None = None,
) -> PairTimes:
    """Measure one fresh pair of runners, and the anchor's runner beside some of their calls.

    Raises CandidateFault where the candidate fails, Refused where record or anchor does. Where two
    runners do not fit, each has its turn alone.
    """
    if bench.drawer.thrifty:
        from kernelarc_guard.lifetimes import run_round

        return run_round(bench, nursery, record, candidate, blocks, tick, anchor=anchor)
    try:
        return _run_pair(bench, nursery, record, candidate, blocks, tick, anchor)
    except CallBlocks:
        bench.hold_awake()
    return _run_pair(bench, nursery, record, candidate, blocks, tick, anchor)


def _run_pair(
    bench: Bench,
    nursery: Nursery,
    record: Contestant,
    candidate: Contestant,
    blocks: int,
    tick: Callable[[], None],
    anchor: Contestant | None,
) -> PairTimes:
    record_first = secrets.randbits(1) == 1
    arms: dict[bool, Arm] = {}
    third: AnchorArm | None = None
    together = 2 if anchor is None else 3
    ruler = PairRuler(bench)
    try:
        bench.fork_ahead(nursery, together + ruler.runners)
        for is_record in (record_first, not record_first):
            arms[is_record] = _start(bench, nursery, record if is_record else candidate, is_record)
        third = AnchorArm(bench, nursery, anchor)
        ruler.start(nursery)
        for is_record, arm in arms.items():
            with _blamed(is_record):
                arm.wait_mapped()
        third.wait_mapped()
        ruler.wait_mapped()
        bench.dying.bury()  # nothing that ran a solution is there while empty windows are measured
        for is_record, arm in arms.items():
            with _blamed(is_record):
                arm.get_ready()
        third.get_ready()
        ruler.get_ready()
        for is_record, arm in arms.items():
            with _blamed(is_record):
                arm.begin_loading()
        third.begin_loading()
        bench.refill(nursery, together + _MORE)  # for the next pairs, while this one loads
        for is_record, arm in arms.items():
            with _blamed(is_record):
                arm.wait_loaded()
        third.wait_loaded()
        with _memory_for_checks(bench):
            pair = LivePair(bench, nursery, arms[True], arms[False], third)
            for workload in bench.drawer.indices:
                pair.warm_up(workload)
            pair.check()
            for arm in arms.values():
                arm.keep_scratch()
            bench.be_quiet(nursery)
            ruler.measure(pair)
            times = []
            for _ in range(blocks):
                times.append(pair.block())
                tick()
            return PairTimes(record_first=record_first, blocks=times)
    finally:
        bench.part_with(arms.values())
        if third is not None:
            third.close()
        ruler.close()


@contextmanager
def _memory_for_checks(bench: Bench) -> Iterator[None]:
    """Blame the candidate where its runner leaves no memory for the guard's work."""
    try:
        with bench.backend.holding():
            yield
    except SolutionFault as fault:
        raise blame(fault, is_record=False) from None


def _start(bench: Bench, nursery: Nursery, who: Contestant, is_record: bool) -> Arm:
    try:
        return bench.start(nursery, who)
    except SolutionFault as fault:
        raise blame(fault, is_record) from None


@contextmanager
def _blamed(is_record: bool) -> Iterator[None]:
    """Blame an arm for its faults inside."""
    try:
        yield
    except SolutionFault as fault:
        raise blame(fault, is_record) from None
