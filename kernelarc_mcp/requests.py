"""The guard's requests about one problem on one device: what is the same in all of them is said once."""

from collections.abc import Mapping
from dataclasses import dataclass

from kernelarc_guard.decide import Calibration, Parameters
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.problem import Problem
from kernelarc_guard.protocol import Calibrate, Compare, Confirm, Schedule, Screen
from kernelarc_guard.solution import Solution


@dataclass(frozen=True)
class Requests:
    """Makes requests; every method's first argument is the request's id."""

    problem: Problem
    device: str
    cache_dir: str
    """Directory of the guard's build cache."""
    parameters: Parameters
    schedule: Schedule = Schedule()

    def calibrate(self, id: str, record: Solution, *, nurseries: int, pairs: int) -> Calibrate:
        """Ask what the noise is; `pairs` in each nursery."""
        return Calibrate(
            id=id,
            device=self.device,
            cache_dir=self.cache_dir,
            schedule=self.schedule,
            problem=self.problem,
            record=record,
            pairs=pairs,
            nurseries=nurseries,
            parameters=self.parameters,
        )

    def screen(
        self,
        id: str,
        record: Solution,
        candidate: Solution,
        *,
        calibration: Calibration | None,
        stake: float,
        known_binaries: Mapping[str, str] | None = None,
    ) -> Screen:
        """Ask for the gate and the screen; `known_binaries` has digests and their submissions."""
        return Screen(
            id=id,
            device=self.device,
            cache_dir=self.cache_dir,
            schedule=self.schedule,
            problem=self.problem,
            record=record,
            candidate=candidate,
            parameters=self.parameters,
            calibration=calibration,
            stake=stake,
            known_binaries=dict(known_binaries or {}),
        )

    def confirm(
        self,
        id: str,
        record: Solution,
        candidate: Solution,
        *,
        calibration: Calibration,
        stake: float,
        anchor: Solution | None = None,
    ) -> Confirm:
        """Ask for the confirmation of a promising candidate, whose stake is reserved."""
        return Confirm(
            id=id,
            device=self.device,
            cache_dir=self.cache_dir,
            schedule=self.schedule,
            problem=self.problem,
            record=record,
            candidate=candidate,
            anchor=anchor,
            parameters=self.parameters,
            calibration=calibration,
            stake=stake,
        )

    def compare(
        self,
        id: str,
        record: Solution,
        candidate: Solution,
        *,
        pairs: int,
        blocks: int,
        planted: float = 0.0,
        checked: bool = False,
    ) -> Compare:
        """Ask for pairs of two trusted solutions and no decision; `planted` is a delay in percent.

        `checked`: ask first whether the candidate is right on that device.
        """
        return Compare(
            id=id,
            device=self.device,
            cache_dir=self.cache_dir,
            schedule=self.schedule,
            problem=self.problem,
            record=record,
            candidate=candidate,
            pairs=pairs,
            blocks=blocks,
            planted=planted,
            checked=checked,
        )

    def prepare(self, id: str, candidate: Solution) -> Prepare:
        """Ask to build ahead what a screen of the same candidate would build; nobody answers."""
        return Prepare(
            id=id,
            device=self.device,
            cache_dir=self.cache_dir,
            schedule=self.schedule,
            definition=self.problem.definition,
            candidate=candidate,
            workloads=self.problem.workloads,
        )
