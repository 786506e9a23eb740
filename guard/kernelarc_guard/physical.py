"""Holding measured pairs against what the device can do at all."""

from collections.abc import Sequence

from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import PairTimes
from kernelarc_guard.rule import Calibration
from kernelarc_guard.rulers import below, limits_of
from kernelarc_guard.solution import Solution


class PhysicalLimits:
    """The limits of one judgement's two arms."""

    def __init__(
        self, calibration: Calibration, problem: Problem, record: Solution, candidate: Solution
    ) -> None:
        """Take them from the calibration's rulers; Refused where it has none."""
        if calibration.rulers is None:
            raise Refused(
                "the calibration has no rulers of this device (it is of an older version):"
                " calibrate again"
            )
        self._problem = problem
        self._record = limits_of(calibration.rulers, problem, record)
        self._candidate = limits_of(calibration.rulers, problem, candidate)

    @property
    def audit(self) -> Sequence[float]:
        """Return below which nanoseconds a candidate's call is checked in full, by workload."""
        return self._candidate.audit

    def check(self, pair: PairTimes) -> None:
        """Raise SolutionFault where the candidate's windows cannot have held its work.

        Refused where the record's cannot either: then the rulers are no longer this device's.
        """
        found = below([block.candidate for block in pair.blocks], self._candidate.least)
        if found is None:
            return
        workload, typical = found
        limit = self._candidate.least[workload]
        said = (
            f"the median call took {typical / 1e3:.3f} us; waking and writing the outputs alone"
            f" take this device more than {limit / 1e3:.3f} us"
        )
        if below([block.record for block in pair.blocks], self._record.least) is not None:
            raise Refused(
                f"the record and the candidate are too fast for this device ({said}):"
                " it is not the one that was calibrated; calibrate again"
            )
        raise SolutionFault("below_physical_limit", said, workload)

    def near(self, pair: PairTimes) -> list[str]:
        """Return what to note of workloads that were checked in full for being so fast."""
        notes = []
        for workload, limit in enumerate(self._candidate.audit):
            alone = [[block.candidate[workload]] for block in pair.blocks]
            if below(alone, [limit]) is not None:
                uuid = self._problem.workloads[workload].uuid
                notes.append(
                    f"near_physical_limit: workload {uuid}: calls end within {limit / 1e3:.3f} us, in"
                    " which this device could barely copy its inputs and outputs; such calls were"
                    " all checked against float64"
                )
        return notes
