"""A real guard process for tests, and small problems and solutions of their own."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from own_device import guard_python

from kernelarc_guard.protocol import ANSWER, Progress, Refusal, Result

SCHEDULE: dict[str, Any] = {
    "calls": 3,
    "warmup_calls": 1,
    "start_seconds": 20.0,
    "call_seconds": 3.0,
    "build_seconds": 60.0,
    "evict_bytes": 1 << 20,
    "calibration_pairs": 2,
}
PARAMETERS: dict[str, Any] = {"blocks_screen": 1, "blocks_confirm": 1}


def problem(**kernelarc: Any) -> dict[str, Any]:
    """Return a problem: y = tanh(x) * scale, on two shapes."""
    return {
        "definition": {
            "name": "scaled_tanh",
            "axes": {"n": {"type": "var"}},
            "inputs": {
                "x": {"shape": ["n"], "dtype": "float32"},
                "scale": {"shape": None, "dtype": "float32"},
            },
            "outputs": {"y": {"shape": ["n"], "dtype": "float32"}},
            "reference": "import torch\n\ndef run(x, scale):\n    return torch.tanh(x) * scale\n",
            "kernelarc": kernelarc,
        },
        "workloads": [_workload("small", 1_000), _workload("large", 60_000)],
    }


def _workload(uuid: str, n: int) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "axes": {"n": n},
        "inputs": {"scale": {"type": "scalar", "value": 1.5}},
        "tolerance": {"max_atol": 1e-5, "max_rtol": 1e-5, "required_matched_ratio": 1.0},
    }


def python(source: str, passing: bool = False, language: str = "pytorch") -> dict[str, Any]:
    """Return a Python solution with one file."""
    return {
        "name": "test",
        "definition": "scaled_tanh",
        "spec": {
            "languages": [language],
            "entry_point": "kernel.py::run",
            "destination_passing_style": passing,
        },
        "sources": [{"path": "kernel.py", "content": source}],
    }


def cpp(source: str, binding: str = "dlpack", passing: bool = True) -> dict[str, Any]:
    """Return a C++ solution with one file."""
    return {
        "name": "test",
        "definition": "scaled_tanh",
        "spec": {
            "languages": ["cpp"],
            "entry_point": "kernel.cpp::run",
            "binding": binding,
            "destination_passing_style": passing,
        },
        "sources": [{"path": "kernel.cpp", "content": source}],
    }


REFERENCE = "import torch\n\ndef run(x, scale):\n    return torch.tanh(x) * scale\n"
SLOW = """import torch

def run(x, scale):
    y = torch.empty_like(x)
    for _ in range(40):
        torch.tanh(x, out=y)
    return y * scale
"""
DLPACK = """#include <cmath>
#include <dlpack/dlpack.h>
extern "C" int run(const DLTensor* x, double scale, DLTensor* y) {
  const float* in = static_cast<const float*>(x->data);
  float* out = static_cast<float*>(y->data);
  for (int64_t i = 0; i < x->shape[0]; ++i) out[i] = std::tanh(in[i]) * scale;
  return 0;
}
"""


class Guard:
    """One real guard process."""

    def __init__(self, cache: Path, *arguments: str, **environment: str) -> None:
        """Start it; builds are cached in `cache`."""
        self.cache = cache
        self.process = subprocess.Popen(
            [guard_python(), "-I", "-m", "kernelarc_guard", *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.progress: list[Progress] = []
        self.on_progress: Callable[[Progress], object] = lambda told: None
        """Told of each message when it comes."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its stdin and wait for its end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()

    def ask(self, op: str, **request: Any) -> Result:
        """Send a request and return its result."""
        answer = self.answer(op, **request)
        assert isinstance(answer, Result), answer
        return answer

    def answer(self, op: str, **request: Any) -> Result | Refusal:
        """Send a request and return what ended it."""
        body = {
            "id": "r1",
            "op": op,
            "cache_dir": str(self.cache),
            "schedule": SCHEDULE,
            "problem": problem(),
            "parameters": PARAMETERS,
            "record": python(REFERENCE),
            **request,
        }
        return self.send(json.dumps(body).encode())

    def send(self, line: bytes) -> Result | Refusal:
        """Send one raw line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()
        self.progress = []
        for answer in self.process.stdout:
            message = ANSWER.validate_json(answer)
            if not isinstance(message, Progress):
                return message
            self.progress.append(message)
            self.on_progress(message)
        raise AssertionError("the guard ended without an answer")
