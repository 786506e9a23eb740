"""Triton kernels compiled ahead, by the real compiler, in the real sandbox, for a GPU that is not here."""

import hashlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernelarc_guard import cores
from kernelarc_guard.ahead_rooms import Rooms
from kernelarc_guard.build import Built, Limits, build
from kernelarc_guard.cache_limit import AHEAD, WORK, prune
from kernelarc_guard.definition import Definition
from kernelarc_guard.kernels_ahead import LEFT, Order, compile_ahead, found_ahead
from kernelarc_guard.preparing import Building, Preparing
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.scratch import ROOT, Scratch
from kernelarc_guard.solution import Solution
from kernelarc_guard.workload import Workload

pytest.importorskip("triton", reason="Triton is not installed: it comes with torch for CUDA")

SANDBOX = find_sandbox()
LIMITS = Limits(60.0, 8 << 30, SANDBOX)
pytestmark = pytest.mark.skipif(not SANDBOX.bubblewrap, reason="there is no bubblewrap here")

H200: dict[str, int | str] = {
    "name": "NVIDIA H200",
    "major": 9,
    "minor": 0,
    "multi_processor_count": 132,
    "regs_per_multiprocessor": 65536,
    "shared_memory_per_block_optin": 232448,
}
SCALED = """
import torch
import triton
import triton.language as tl


@triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["count"])
@triton.jit
def _tuned(x, y, count, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < count) * factor, mask=at < count)


@triton.jit
def _plain(x, y, count, MANY: tl.constexpr, BLOCK: tl.constexpr):
    for start in tl.range(tl.program_id(0) * BLOCK, count, MANY * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < count) + 1.0, mask=at < count)


def run(x, factor, y):
    half = torch.empty_like(x)
    many = torch.cuda.get_device_properties(x.device).multi_processor_count
    with torch.cuda.device(x.device):
        _tuned[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, half, x.numel(), factor)
        _plain[(many,)](half, y, x.numel(), MANY=many, BLOCK=64)
"""
HOSTILE = """
import os
import socket
import triton


def _tried(what):
    try:
        what()
    except OSError as error:
        return type(error).__name__
    return "done"


def run(x, factor, y):
    cache = os.environ["TRITON_CACHE_DIR"]
    os.makedirs(cache + "/KEY/deeper")
    os.symlink("/etc/hostname", cache + "/KEY/link")
    os.mkfifo(cache + "/KEY/fifo")
    open(cache + "/KEY/deeper/file", "w").close()
    open(cache + "/KEY/odd name", "w").close()
    open(cache + "/beside", "w").close()
    open(cache + "/../../own", "w").close()
    with open(cache + "/KEY/__grp__plain.json", "w") as file:
        file.write("{}")
    said = [
        _tried(lambda: socket.create_connection(("127.0.0.1", 9), timeout=1)),
        _tried(lambda: open(__file__, "a")),
        _tried(lambda: open("/given/job.json", "a")),
        _tried(lambda: os.listdir("/proc/1/fd")),
        _tried(lambda: os.sched_setaffinity(0, range(os.cpu_count()))),
        "device" if any(name.startswith("nvidia") for name in os.listdir("/dev")) else "none",
    ]
    raise RuntimeError(" ".join(said))
"""
AS_A_RUNNER = """
import contextlib, json, os, sys
import torch, triton
from triton import knobs
from kernelarc_guard.runner import load_solution
from kernelarc_guard.triton_ahead import Launchers, compile_for
job = json.loads(sys.argv[1])
torch.cuda.get_device_properties = lambda device=None: type("Told", (), job["properties"])
torch.cuda.device = lambda device: contextlib.nullcontext()
compile_for(job["properties"], Launchers())
seen = []
knobs.compilation.listener = lambda **told: seen.append([told["src"].name, told["cache_hit"]])
function = load_solution(job)
for size in job["sizes"]:
    function(torch.zeros(size), 1.5, torch.zeros(size))
print(json.dumps(seen))
"""


def order(source: str, *sizes: int, language: str = "triton") -> Order:
    """Return the order to compile a solution that scales `x` for sizes of it."""
    vector = {"shape": ["n"], "dtype": "float32"}
    definition = {
        "name": "scaled",
        "axes": {"n": {"type": "var"}},
        "inputs": {"x": vector, "factor": {"shape": None, "dtype": "float32"}},
        "outputs": {"y": vector},
        "reference": "def run(x, factor):\n    return x * factor + 1\n",
    }
    spec = {"languages": [language], "entry_point": "main.py::run", "target_hardware": []}
    solution = {
        "name": "s",
        "definition": "scaled",
        "author": "a",
        "spec": spec | {"destination_passing_style": True},
        "sources": [{"path": "main.py", "content": source}],
    }
    workloads = [Workload(uuid=f"w{n}", axes={"n": n}) for n in sizes]
    return Order(
        Solution.model_validate(solution),
        hashlib.sha256(source.encode()).hexdigest(),
        H200,
        Definition.model_validate(definition),
        workloads,
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one build cache for all."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def rooms() -> Iterator[Rooms]:
    """Return rooms, of which the next one is always ready."""
    rooms = Rooms()
    yield rooms
    rooms.close()


def compiled(
    asked: Order, cache: Path, rooms: Rooms, limits: Limits = LIMITS
) -> tuple[Built, Path]:
    """Compile ahead; return what was built and the entry."""
    built = build(asked.solution, cache, seconds=60, memory_bytes=8 << 30, sandbox=SANDBOX)
    assert compile_ahead(asked, built, cache, limits, rooms)
    return built, cache / AHEAD / asked.key


def test_a_launch_on_a_device_would_find_what_was_compiled_without_one(
    cache: Path, rooms: Rooms, request: pytest.FixtureRequest
) -> None:
    asked = order(SCALED, 4096, 4096, 1000, 1001)
    assert len(asked.calls) == 3
    built, entry = compiled(asked, cache, rooms)
    left, told = found_ahead(asked, cache)
    # Sizes that 16 divides and others: each kernel and configuration twice.
    assert left == entry / LEFT and told[0].message.startswith("Triton: 6 kernels compiled before")
    assert not compile_ahead(asked, built, cache, LIMITS, rooms), "it is there"
    # As a runner gets it, at another place; and with tensors that have memory.
    root = place_like(left)
    root.mkdir()
    request.addfinalizer(lambda: shutil.rmtree(root))
    scratch = Scratch(root)
    with left.open("rb") as file:
        scratch.adopt(file.fileno(), ahead=True)
    here = scratch.make("runner")
    job = {
        "binding": "python",
        "entry": str(built.entry),
        "root": str(built.root),
        "function": "run",
    }
    said = subprocess.run(
        [sys.executable, "-I", "-B", "-c", AS_A_RUNNER]
        + [json.dumps(job | {"properties": H200, "sizes": [4096, 1000, 1001]})],
        env={
            "PATH": os.environ["PATH"],
            "TRITON_CACHE_DIR": f"{here}/.cache/triton",
            "HOME": str(here),
        },
        stdout=subprocess.PIPE,
        check=True,
    )
    seen = json.loads(said.stdout.splitlines()[-1])
    assert len(seen) == 6 and all(hit for _, hit in seen), seen
    # What the first run leaves takes its place.
    assert scratch.keep("runner") and not scratch.keep("runner")


def place_like(left: Path) -> Path:
    """Return a new place whose path is as long as that where the archive's files lay, as a runner's is."""
    with tarfile.open(left) as tar:
        length = len(tar.pax_headers[ROOT])
    above = tempfile.gettempdir()
    return Path(above, secrets.token_hex(32)[: length - len(above) - 1])


def test_a_hostile_solution_leaves_plain_files_of_triton_alone_and_reaches_nothing(
    cache: Path, rooms: Rooms
) -> None:
    asked = order(HOSTILE, 64)
    _, entry = compiled(asked, cache, rooms)
    with tarfile.open(entry / LEFT) as tar:
        assert [one.name for one in tar] == [".cache/triton/KEY/__grp__plain.json"]
    _, told = found_ahead(asked, cache)
    said = told[0].message
    assert "PermissionError" in said and "done" not in said and "device" not in said, said


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import triton\n\ndef run(x, factor, y):\n    x.sum().item()\n", "DataDependent"),
        ("import triton\nraise SystemExit(3)\n", "SystemExit: 3"),
    ],
)
def test_what_is_not_understood_is_told_in_a_line_and_left_to_the_first_run(
    cache: Path, rooms: Rooms, source: str, why: str
) -> None:
    asked = order(source, 64)
    compiled(asked, cache, rooms)
    left, told = found_ahead(asked, cache)
    assert left is not None and not left.exists()
    assert told[0].severity == "info" and why in told[0].message, told


def test_what_is_next_in_line_is_compiled_where_it_is_built_ahead(tmp_path: Path) -> None:
    asked = order(SCALED, 64)
    body: dict[str, Any] = {"op": "prepare", "id": "next", "cache_dir": str(tmp_path)}
    body["candidate"] = asked.solution.model_dump(mode="json")
    body["definition"] = asked.definition.model_dump(mode="json")
    body["workloads"] = [one.model_dump(mode="json") for one in asked.workloads]
    built = build(asked.solution, tmp_path, seconds=60, memory_bytes=8 << 30, sandbox=SANDBOX)
    asked = replace(asked, digest=built.digest)
    preparing = Preparing(frozenset(cores.ALL))
    preparing.know("cpu", Building("90a", beside=True, properties=H200), SANDBOX)
    try:
        preparing.offer(body)
        limit = time.monotonic() + 120
        while not found_ahead(asked, tmp_path)[1]:
            assert time.monotonic() < limit
            time.sleep(0.05)
    finally:
        assert preparing.end()
    left, told = found_ahead(asked, tmp_path)
    assert (
        left is not None
        and left.exists()
        and told[0].message.startswith("Triton: 3 kernels compiled before")
    )


def test_one_that_does_not_end_is_ended_and_its_room_leaves_no_files(tmp_path: Path) -> None:
    asked = order("import triton\n\ndef run(x, factor, y):\n    while True:\n        pass\n", 64)
    rooms = Rooms()
    try:
        compiled(asked, tmp_path, rooms, Limits(6.0, 8 << 30, SANDBOX))
        left, told = found_ahead(asked, tmp_path)
        assert left is not None and not left.exists()
        assert "it was ended after 6 s" in told[0].message
        prune(tmp_path, 0, 0, 0.0)
        assert len(list(tmp_path.glob(f"{WORK}*"))) == 1, "the next room is in use"
    finally:
        rooms.close()
    assert not list(tmp_path.glob(f"{WORK}*"))


def test_other_languages_hosts_and_shapes_have_nothing_to_compile() -> None:
    asked = order(SCALED, 64)
    assert asked.sensible
    assert found_ahead(asked, Path("nowhere")) == (Path("nowhere", AHEAD, asked.key, LEFT), [])
    assert order(SCALED, 64, language="python").sensible
    assert not order("def run(x, factor):\n    return x\n", 64, language="pytorch").sensible
    assert not order(SCALED).sensible
    assert asked.key != order(SCALED, 65).key
    nowhere: Any = Order(asked.solution, asked.digest, {}, asked.definition, asked.workloads)
    assert not nowhere.sensible
    assert found_ahead(nowhere, Path("nowhere")) == (None, [])
