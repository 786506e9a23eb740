"""The two live runners of a pair: their calls on the same inputs, and the checks of every output.

Imports torch.
"""

import secrets
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kernelarc_guard.anchor_arm import AnchorArm
from kernelarc_guard.arm import Arm
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import CandidateFault, Refused, SolutionFault
from kernelarc_guard.keeper import Nursery, NurseryLost, Runner
from kernelarc_guard.protocol import BlockTimes

if TYPE_CHECKING:
    from kernelarc_guard.bench import Bench, Outputs

_UNANNOUNCED = 8
"""One call in so many is of another sort."""


def blame(fault: SolutionFault, is_record: bool) -> CandidateFault | Refused:
    """Return what an arm's fault is to the request."""
    if is_record:
        return Refused(f"the record failed ({fault.reason}): {fault.detail}", "record_failed")
    return CandidateFault(fault.reason, fault.detail, fault.workload)


class LivePair:
    """The two live runners of a pair."""

    def __init__(
        self, bench: "Bench", nursery: Nursery, record: Arm, candidate: Arm, third: AnchorArm
    ) -> None:
        self._bench = bench
        self._nursery = nursery
        self._third = third
        self._arms = {True: record, False: candidate}
        self._draws: dict[int, Draw] = {}
        """Each workload's last draw of its own values."""
        self._latest: dict[int, Outputs] = {}
        """The candidate's last outputs on each workload."""
        self._right: dict[int, Outputs] = {}
        """The same of those that were checked: they were right."""
        self._ahead = record.launches_ahead and candidate.launches_ahead
        self._due: Callable[[], None] | None = None
        bench.early.begin_on(bench.drawer.place)

    def warm_up(self, workload: int) -> None:
        """Make a workload's untimed calls of a pair's start."""
        count = self._bench.warmups(workload)
        if count and self._ahead:
            self._first_call(workload)
            count -= 1
        for _ in range(count):
            self.call(workload, checked=True, evict=False)
        self._third.warm_up(workload, count)

    def _first_call(self, workload: int) -> None:
        """Make the first call of all arms at once, on the same inputs: that takes longest.

        Where their sandbox does not survive it that is the candidate's doing: the others were there
        before it.
        """
        bench, nursery = self._bench, self._nursery
        draw = bench.early.draw_of(workload) or bench.drawer.draw(workload)
        self._draws[workload] = draw
        order = (False, True)
        runners: list[Runner] = []
        for is_record in order:
            try:
                runners.append(self._arms[is_record].get_set(workload, draw))
            except SolutionFault as fault:
                raise blame(fault, is_record) from None
        runners += self._third.get_set(workload, draw)
        try:
            nursery.begin_together(runners, bench.schedule.start_seconds)
            self.check()
            bench.answer(workload, draw)  # while they work
            bench.answer_early(workload, lambda: not nursery.answered)
            answers = nursery.finish_together(runners)
        except NurseryLost as lost:
            raise CandidateFault("crashed", f"it took its sandbox down: {lost}", workload) from None
        elapsed: dict[bool, int] = {}
        outputs: dict[bool, Outputs] = {}
        for is_record, answer in zip(order, answers, strict=False):
            try:
                elapsed[is_record] = self._arms[is_record].went(answer)
                outputs[is_record] = self._arms[is_record].outputs(workload)
            except SolutionFault as fault:
                raise blame(fault, is_record) from None
        self._third.went(answers[len(order) :])
        self._latest[workload] = outputs[False]
        self._due = partial(self._check, workload, outputs, draw, elapsed, checked=True)

    def block(self) -> BlockTimes:
        """Time `schedule.calls` calls of each arm on every workload."""
        record, candidate, anchor = [], [], []
        for workload in self._bench.drawer.indices:
            audited = secrets.randbelow(self._bench.schedule.calls)
            self._third.begin()
            times = []
            for index in range(self._bench.schedule.calls):
                if secrets.randbelow(_UNANNOUNCED - 1) == 0:
                    self._unannounced(workload)
                draw = self._bench.drawer.draw(workload)
                with self._third.beside(workload, index, draw):
                    times.append(self.call(workload, checked=index == audited, draw=draw))
                self._third.check(workload, index, draw, self._latest[workload])
            record.append([t[True] for t in times])
            candidate.append([t[False] for t in times])
            anchor.append(self._third.taken())
        self.check()
        measured = self._third.alive()
        return BlockTimes(record=record, candidate=candidate, anchor=anchor if measured else [])

    def _unannounced(self, workload: int) -> None:
        """Make a call of another sort, checked against the oracle but not timed."""
        self.check()  # its answer is at hand only until other inputs' are asked for
        for draw, renew in self._bench.unannounced(workload, self._draws.get(workload)):
            self.call(workload, checked=True, draw=draw, renew=renew)
            self.check()

    def call(
        self,
        workload: int,
        checked: bool,
        evict: bool = True,
        draw: Draw | None = None,
        renew: bool = False,
    ) -> dict[bool, int]:
        """Call both arms on the same fresh inputs; returns nanoseconds by `is_record`.

        Every output is checked: against the oracle where that is cheap or the call was drawn for
        it, else against the other arm's, with the oracle deciding a disagreement. Where runners
        launch ahead, that is done by `check`, or while the next call is being launched.
        """
        bench = self._bench
        if draw is None:
            draw = self._draws[workload] = bench.drawer.draw(workload)
        first = secrets.randbits(1) == 1
        elapsed: dict[bool, int] = {}
        outputs: dict[bool, Outputs] = {}
        for is_record in (first, not first):
            arm = self._arms[is_record]
            try:
                arm.begin(workload, draw, evict=evict, renew=renew)
                self.check()
                if self._ahead and elapsed and bench.oracle_is_cheap(workload, elapsed[first]):
                    bench.answer(workload, draw)  # it is looked at in any case
                elapsed[is_record] = arm.finish()
                outputs[is_record] = arm.outputs(workload)
            except SolutionFault as fault:
                raise blame(fault, is_record) from None
        self._latest[workload] = outputs[False]
        self._due = partial(self._check, workload, outputs, draw, elapsed, checked)
        if not self._ahead:
            self.check()
        return elapsed

    def check(self) -> None:
        """Check the last call's outputs where that is still to be done."""
        due, self._due = self._due, None
        if due is not None:
            due()

    def _check(
        self,
        workload: int,
        outputs: dict[bool, "Outputs"],
        draw: Draw,
        elapsed: dict[bool, int],
        checked: bool,
    ) -> None:
        """Raise CandidateFault or Refused where an output is wrong."""
        bench, kernel = self._bench, min(elapsed.values())
        # Seen only after both windows are sealed: which calls are audited cannot be known before.
        audited = bench.audited(workload, elapsed[False])
        if checked or audited or bench.oracle_is_cheap(workload, kernel):
            self._against_oracle(workload, outputs, draw, both=checked)
        elif not bench.agree(workload, outputs[False], outputs[True]):
            self._against_oracle(workload, outputs, draw, both=True)
        self._right[workload] = {n: one.clone() for n, one in outputs[False].items()}

    def _against_oracle(
        self, workload: int, outputs: dict[bool, "Outputs"], draw: Draw, both: bool
    ) -> None:
        bench = self._bench
        try:
            earlier = [self._right[workload]] if workload in self._right else []
            bench.check(workload, outputs[False], draw, earlier)
        except SolutionFault as fault:
            raise blame(fault, is_record=False) from None
        if both:
            result = bench.judge(workload, outputs[True], draw)
            if not result.ok:
                raise Refused(
                    f"the record failed ({result.reason}): {result.detail}", "record_failed"
                )
