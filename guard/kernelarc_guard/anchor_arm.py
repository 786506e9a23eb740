"""The third runner of a confirming pair: the campaign's baseline, beside some of the arms' calls.

Imports torch. It is called before or after both arms, by a coin, never between them: their own
alternation stays what it is without it.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernelarc_guard.arm import Arm
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.keeper import Runner
from kernelarc_guard.nurseries import Nursery

if TYPE_CHECKING:
    from kernelarc_guard.bench import Bench, Contestant, Outputs


class AnchorArm:
    """The anchor's runner in one pair, or nothing at all."""

    def __init__(self, bench: "Bench", nursery: Nursery, anchor: "Contestant | None") -> None:
        """Fork the anchor's runner; without an anchor every method does nothing."""
        self._bench = bench
        self._arm: Arm | None = None
        self._beside: set[int] = set()
        self._times: list[int | None] = []
        self._last: Outputs = {}
        """Of its last call: a result can be read only once."""
        self._asked = 0
        if anchor is not None:
            try:
                self._arm = bench.start(nursery, anchor)
            except SolutionFault as fault:
                raise anchor_failed(fault.reason, fault.detail) from None

    def wait_mapped(self) -> None:
        """Wait until the runner has its buffers."""
        if self._arm is not None:
            self._arm.wait_mapped()

    def get_ready(self) -> None:
        """Measure what the runner's windows hold."""
        if self._arm is not None:
            try:
                self._arm.get_ready()
            except SolutionFault as fault:
                raise anchor_failed(fault.reason, fault.detail) from None

    def begin_loading(self) -> None:
        """Let the runner load the solution."""
        if self._arm is not None:
            try:
                self._arm.begin_loading()
            except SolutionFault as fault:
                raise anchor_failed(fault.reason, fault.detail) from None

    def wait_loaded(self) -> None:
        """Wait until the runner has loaded."""
        if self._arm is not None:
            try:
                self._arm.wait_loaded()
            except SolutionFault as fault:
                raise anchor_failed(fault.reason, fault.detail) from None

    def warm_up(self, workload: int, count: int) -> None:
        """Make untimed calls of a pair's start."""
        for _ in range(count if self._arm else 0):
            self._call(workload, self._bench.drawer.draw(workload), evict=False)

    def get_set(self, workload: int, draw: Draw) -> list[Runner]:
        """Prepare a call beside the arms' own; return the runner to wake, where there is one."""
        if self._arm is None:
            return []
        self._asked = workload
        try:
            return [self._arm.get_set(workload, draw)]
        except SolutionFault as fault:
            raise anchor_failed(fault.reason, fault.detail) from None

    def went(self, answers: list[dict[str, Any]]) -> None:
        """Take what the warden said of that call, where there was one."""
        for answer in answers:
            assert self._arm is not None
            try:
                self._arm.went(answer)
                self._last = self._arm.outputs(self._asked)
            except SolutionFault as fault:
                raise anchor_failed(fault.reason, fault.detail) from None

    def begin(self) -> None:
        """Draw beside which calls of a workload's block the anchor is called."""
        schedule = self._bench.schedule
        count = min(schedule.anchor_calls, schedule.calls)
        self._beside = set(secrets.SystemRandom().sample(range(schedule.calls), count))
        self._times = [None] * schedule.calls

    @contextmanager
    def beside(self, workload: int, index: int, draw: Draw) -> Iterator[None]:
        """Time the anchor on the inputs of the arms' call inside, where it was drawn for that."""
        wanted = self._arm is not None and index in self._beside
        before = secrets.randbits(1) == 1
        if wanted and before:
            self._times[index] = self._call(workload, draw)
        yield
        if wanted and not before:
            self._times[index] = self._call(workload, draw)

    def check(self, workload: int, index: int, draw: Draw, right: "Outputs") -> None:
        """Refuse where the anchor's output is neither like the right one nor itself right."""
        if self._arm is None or index not in self._beside:
            return
        bench, outputs = self._bench, self._last
        if bench.agree(workload, outputs, right):
            return
        result = bench.judge(workload, outputs, draw)
        if not result.ok:
            raise anchor_failed(result.reason or "wrong_result", result.detail)

    def taken(self) -> list[int | None]:
        """Return the block's times by call; None where the anchor was not called."""
        return self._times

    def alive(self) -> bool:
        """Say whether there is an anchor."""
        return self._arm is not None

    def close(self) -> None:
        """Kill the runner."""
        if self._arm is not None:
            self._bench.part_with([self._arm])

    def _call(self, workload: int, draw: Draw, *, evict: bool = True) -> int:
        assert self._arm is not None
        try:
            elapsed = self._arm.call(workload, draw, evict=evict)
            self._last = self._arm.outputs(workload)
        except SolutionFault as fault:
            raise anchor_failed(fault.reason, fault.detail) from None
        return elapsed


def anchor_failed(reason: str, detail: str) -> Refused:
    """Return what the anchor's fault is to the request."""
    return Refused(f"the anchor failed ({reason}): {detail}", "anchor_failed")
