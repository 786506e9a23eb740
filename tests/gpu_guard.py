"""A real guard process for tests on a GPU, with a small problem and the solutions of tests/gpu."""

import json
import threading
from pathlib import Path
from typing import Any

from guard_process import Guard

from kernelarc_guard.build import BuildFailed, build
from kernelarc_guard.cores import builder_cores
from kernelarc_guard.cuda.driver import architecture
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.protocol import Refusal, Result, Schedule
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import Solution, read_solution

FOLDER = Path(__file__).parent / "gpu" / "solutions"
_PROBLEMS = Path(__file__).parent.parent / "kernels"
_ON_WORKLOAD = {"rmsnorm": 2, "matmul_residual": 2}
"""The one workload of each problem that solutions are tried on."""
_RECORDS = {"rmsnorm": "rms_torch.py", "matmul_residual": "product_torch.py"}


class GpuGuard(Guard):
    """A guard that judges solutions by the name of their file."""

    def __init__(self, cache: Path) -> None:
        """Start it."""
        super().__init__(cache)
        self._builds = str(cache)
        self._problems = {name: _small(name) for name in _ON_WORKLOAD}
        self._sandbox = find_sandbox()
        self._built = {name: threading.Event() for name in ("rms_extension",)}

    def build(self, name: str) -> str:
        """Build a solution into the guard's cache, from here; return what kept it from that."""
        try:
            build(
                read_solution(FOLDER / name, self._problems["rmsnorm"].definition),
                Path(self._builds),
                seconds=240,
                memory_bytes=16 << 30,
                sandbox=self._sandbox,
                gpu=architecture(0),
                cores=builder_cores(),
            )
        except BuildFailed as failed:
            return failed.detail  # the test that needs it says so
        finally:
            if name in self._built:
                self._built[name].set()
        return ""

    def wait_for_build(self, name: str) -> None:
        """Wait until a build that takes long has ended."""
        assert self._built[name].wait(300)

    def correct(
        self,
        name: str,
        problem: str = "rmsnorm",
        *,
        language: str = "",
        content: str = "",
        start_seconds: float = 12.0,
    ) -> Result:
        """Judge a solution up to its correctness, in another language or with other sources."""
        request = self.request("screen", problem, name, correctness_only=True)
        request["schedule"]["start_seconds"] = start_seconds
        if language:
            request["candidate"]["spec"]["languages"] = [language]
        if content:
            request["candidate"]["sources"][0]["content"] = content
        return self._result(request)

    def compare(self, name: str, problem: str = "rmsnorm", pairs: int = 2) -> Result:
        """Measure pairs of a solution and the torch operators."""
        return self._judge("compare", problem, name, pairs=pairs)

    def screen(self, name: str, problem: str = "rmsnorm") -> Result:
        """Screen a solution, with a short calibration."""
        return self._judge("screen", problem, name)

    def calibrate(self, name: str, pairs: int, problem: str = "rmsnorm") -> Result:
        """Measure a solution against itself."""
        request = self.request("calibrate", problem, name, pairs=pairs)
        request["record"] = request.pop("candidate")
        return self._result(request)

    def request(self, op: str, problem: str, name: str, **more: Any) -> dict[str, Any]:
        """Return a request about a solution, with the torch operators as the record."""
        whole = self._problems[problem]
        record, candidate = (
            read_solution(FOLDER / one, whole.definition) for one in (_RECORDS[problem], name)
        )
        return self._request(op, whole, record, candidate, more)

    def against(
        self, op: str, problem: Problem, record: Solution, candidate: Solution, **more: Any
    ) -> Result:
        """Judge any solution of any problem against any other."""
        return self._result(self._request(op, problem, record, candidate, more))

    def _request(
        self,
        op: str,
        problem: Problem,
        record: Solution,
        candidate: Solution,
        more: dict[str, Any],
    ) -> dict[str, Any]:
        schedule = Schedule(call_seconds=4.0, start_seconds=12.0, calibration_pairs=2)
        return {
            "op": op,
            "id": candidate.name,
            "device": "cuda:0",
            "cache_dir": self._builds,
            "problem": problem.model_dump(mode="json"),
            "record": record.model_dump(mode="json"),
            "candidate": candidate.model_dump(mode="json"),
            "schedule": (schedule.model_dump(mode="json")) | more.pop("schedule", {}),
            **more,
        }

    def _judge(self, op: str, problem: str, name: str, **more: Any) -> Result:
        return self._result(self.request(op, problem, name, **more))

    def _result(self, request: dict[str, Any]) -> Result:
        answer: Result | Refusal = self.send(json.dumps(request).encode())
        assert isinstance(answer, Result), answer
        return answer


def _small(name: str) -> Problem:
    whole = read_problem(_PROBLEMS / name, "workload.gpu.jsonl")
    at = _ON_WORKLOAD[name]
    return whole.model_copy(update={"workloads": whole.workloads[at : at + 1]})
