"""A real guard process for tests on a GPU, with a small problem and the solutions of tests/gpu."""

import json
from pathlib import Path
from typing import Any

from guard_process import Guard

from kernelarc_guard.problem import read_problem
from kernelarc_guard.protocol import Refusal, Result, Schedule
from kernelarc_guard.solution import read_solution

_FOLDER = Path(__file__).parent / "gpu" / "solutions"
_PROBLEM = Path(__file__).parent.parent / "kernels" / "rmsnorm"


class GpuGuard(Guard):
    """A guard that judges solutions by the name of their file."""

    def __init__(self, cache: Path) -> None:
        """Start it."""
        super().__init__(cache)
        self._builds = str(cache)
        whole = read_problem(_PROBLEM, "workload.gpu.jsonl")
        self._problem = whole.model_copy(update={"workloads": whole.workloads[2:3]})

    def correct(self, name: str) -> Result:
        """Judge a solution up to its correctness."""
        return self._judge("screen", name, correctness_only=True)

    def compare(self, name: str, record: str = "rms_torch.py") -> Result:
        """Measure two pairs of a solution and a record."""
        return self._judge("compare", name, record, pairs=2)

    def screen(self, name: str, record: str = "rms_torch.py") -> Result:
        """Screen a solution, with a short calibration."""
        return self._judge("screen", name, record)

    def _judge(self, op: str, name: str, record: str = "rms_torch.py", **more: Any) -> Result:
        definition = self._problem.definition
        schedule = Schedule(call_seconds=4.0, start_seconds=12.0, calibration_pairs=2)
        request = {
            "op": op,
            "id": name,
            "device": "cuda:0",
            "cache_dir": self._builds,
            "problem": self._problem.model_dump(mode="json"),
            "record": read_solution(_FOLDER / record, definition).model_dump(mode="json"),
            "candidate": read_solution(_FOLDER / name, definition).model_dump(mode="json"),
            "schedule": schedule.model_dump(mode="json"),
            **more,
        }
        answer: Result | Refusal = self.send(json.dumps(request).encode())
        assert isinstance(answer, Result), answer
        return answer
