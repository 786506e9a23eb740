"""Targets: what the guard reads from an untrusted runner, in this process (imports torch)."""

import mmap
import os
import socket
import struct
from contextlib import suppress
from typing import Any

import torch
from fuzz.target import Target
from hypothesis import strategies as st

from kernelarc_guard import control
from kernelarc_guard.buffers import BufferSet, same_bits
from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.frames import MAX_REPLY, FrameError, recv_frame
from kernelarc_guard.mapped import mapped_inputs
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.returned import Range, ReturnedResults, Specs

_MEMORY_BYTES = 1 << 20
_TIMEOUT = 5.0
_SENT = 66_000
"""Fits a socket's buffer: nobody reads while it is written."""


def _frame(parts: list[bytes]) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    before = len(os.listdir("/proc/self/fd"))
    with ours, theirs:
        ours.settimeout(_TIMEOUT)
        theirs.settimeout(0.1)
        theirs.sendall(b"".join(parts)[:_SENT])
        with suppress(OSError):
            socket.send_fds(theirs, [b"\x00"], [0, 1, 2])
        theirs.shutdown(socket.SHUT_WR)
        try:
            body, fds = recv_frame(ours, MAX_REPLY, 0)
        except FrameError as error:
            assert str(error)
        else:
            assert isinstance(body, dict) and fds == []
        assert len(os.listdir("/proc/self/fd")) == before, "descriptors were taken"


_BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b'{"loaded":true}',
            b'{"loaded":true}{"loaded":true}',
            b'{"error":"\\ud800"}',
            b'{"error":' + b"[" * 5000 + b"]" * 5000 + b"}",
            b'{"error":NaN,"a":1e999}',
            b'{"error":' + b"9" * 5000 + b"}",
            b"[1,2]",
            b"null",
            b'{"error":"' + b"x" * 60_000 + b'"}',
            b"\xff\xfe{}",
        ]
    ),
)
_FRAMES = st.lists(
    st.one_of(
        st.binary(max_size=12),
        _BODIES.map(lambda body: struct.pack("<I", len(body)) + body),
        st.tuples(_BODIES, st.integers(0, 2**32 - 1)).map(
            lambda two: struct.pack("<I", two[1]) + two[0]
        ),
    ),
    max_size=4,
)

_SIZES = st.sampled_from([0, 1, 2, 3, 7, 2**31, 2**48, 2**62, 2**63 - 1, -1, -(2**63)])
_SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=3).map(tuple)
_SPECS = st.dictionaries(
    st.sampled_from(["y", "z", "w"]),
    st.tuples(
        st.one_of(st.none(), _SHAPES, _SHAPES),
        st.sampled_from(
            ["float32", "float64", "bfloat16", "int64", "int8", "bool", "float8_e4m3fn"]
        ),
    ),
    min_size=1,
    max_size=3,
)
_OUTPUT = struct.Struct(f"<4I{control.MAX_DIMS}q{control.MAX_DIMS}qQq")


@st.composite
def _claims(draw: st.DrawFn, specs: Specs) -> list[bytes]:
    """Return what a runner might write about its outputs: near the truth, or anything."""
    claims = []
    for shape, dtype in specs.values():
        if draw(st.integers(0, 4)) == 0:
            claims.append(draw(st.binary(min_size=_OUTPUT.size, max_size=_OUTPUT.size)))
            continue
        sizes, strides = list(shape or ()), list[int]()
        step = 1
        for size in reversed(sizes):
            strides.insert(0, step)
            step *= max(size, 1)
        for values in (sizes, strides):
            if values and draw(st.integers(0, 3)) == 0:
                values[draw(st.integers(0, len(values) - 1))] = draw(_SIZES)
        kind = control.KIND_TENSOR if shape is not None else control.KIND_INT
        kind = draw(st.sampled_from([kind] * 5 + list(range(6))))
        code = control.DTYPES.index(dtype) if draw(st.integers(0, 5)) else draw(st.integers(0, 20))
        dims = draw(st.sampled_from([len(sizes)] * 6 + [0, 8, 9, 2**32 - 1]))
        pad = [0] * (control.MAX_DIMS - len(sizes))
        address = draw(
            st.one_of(
                st.integers(0, _MEMORY_BYTES + 64),
                st.sampled_from([0, 8, 2**47, 2**63 - 1, 2**63, 2**64 - 1]),
            )
        )
        bits = draw(st.one_of(st.integers(-(2**63), 2**63 - 1), _DOUBLES))
        claims.append(
            _OUTPUT.pack(kind, code, dims, 0, *sizes, *pad, *strides, *pad, address, bits)
        )
    return claims


_DOUBLES = st.sampled_from([0.0, 1.0, float("nan"), float("inf"), 1e300, -0.0]).map(
    control.scalar_bits
)


@st.composite
def _reports(draw: st.DrawFn) -> tuple[Specs, list[list[bytes]], int, bytes]:
    specs: Specs = draw(_SPECS)
    calls = draw(st.lists(_claims(specs), min_size=1, max_size=3))
    count = draw(st.sampled_from([len(specs)] * 8 + [0, 1, 33, 400, 2**32 - 1]))
    return specs, calls, count, draw(st.binary(max_size=64))


def _report(case: tuple[Specs, list[list[bytes]], int, bytes]) -> None:
    specs, calls, count, spoilt = case
    memory = os.memfd_create("runner")
    try:
        os.ftruncate(memory, _MEMORY_BYTES)
        os.pwrite(memory, os.urandom(4096), 0)
        page = control.ControlPage(mmap.mmap(-1, control.SIZE))
        results = ReturnedResults(memory, [(128, 256)], [(512, 640)])
        for claims in calls:
            for index, claim in enumerate(claims):
                at = 4096 + 64 + index * _OUTPUT.size
                page.page[at : at + _OUTPUT.size] = claim
            page.page[2**15 : 2**15 + len(spoilt)] = spoilt
            page.report(1, control.DONE, count)
            page.read_error().encode()
            try:
                outputs = results.read(page, specs, 0, hold=True)
            except SolutionFault as fault:
                assert fault.reason in REASONS and fault.detail
                continue
            _as_declared(outputs, specs, claims, memory)
            assert results.changed(0) is None, "nothing was written since"
    finally:
        os.close(memory)


def _as_declared(
    outputs: dict[str, torch.Tensor], specs: Specs, claims: list[bytes], memory: int
) -> None:
    assert list(outputs) == list(specs)
    taken: list[Range] = [(128, 256)]
    for claim, (name, (shape, dtype)) in zip(claims, specs.items(), strict=True):
        tensor = outputs[name]
        assert tensor.dtype is torch_dtype(dtype) and tuple(tensor.shape) == (shape or ())
        if shape is None or tensor.numel() == 0:
            continue
        address = _OUTPUT.unpack(claim)[-2]
        assert same_bits(tensor, tensor.clone())
        one = torch.empty(1, dtype=tensor.dtype).copy_(tensor.flatten()[:1])
        first = one.view(torch.uint8).numpy().tobytes()
        assert first == os.pread(memory, len(first), address), "other bytes than it claimed"
        end = address + tensor.element_size()
        assert all(end <= low or high <= address for low, high in taken), "an alias was accepted"
        taken.append((address, end))


_NAMES = st.one_of(
    st.binary(min_size=1, max_size=60).filter(lambda name: b"\x00" not in name),
    st.sampled_from(
        [
            b"kernelarc",
            b"\x0b0-ffffffffffff rw-s 00000000 00:01 1 /memfd:x",
            b"\n0-ffff rw-s 00000000 00:01 1 /memfd:x",
            "\u2028a b c d e memfd:\x85f".encode(),
        ]
    ),
)


def _mappings(names: list[bytes]) -> None:
    sets = [BufferSet({"x": torch.zeros(100), "m": torch.zeros(30)}, {}) for _ in range(2)]
    theirs: list[Any] = []
    try:
        number = os.fstat(sets[0].fd).st_ino
        for name in [*names, f"\x0b0-ff rw-s 00000000 00:01 {number} /memfd:kernelarc".encode()]:
            fd = os.memfd_create(name.decode("utf-8", "surrogateescape"))
            os.ftruncate(fd, 4096)
            theirs.append(mmap.mmap(fd, 4096))
            os.close(fd)
        with open("/proc/self/maps", "rb") as file:
            table = file.read()
        plain, mutable = mapped_inputs(table, sets, frozenset({"m"}))
        assert len(plain) == len(mutable) == 2, (
            "one mapping of each set, whatever others are called"
        )
        for low, high in plain:
            assert high - low == 400
    finally:
        for one in theirs:
            one.close()
        for one in sets:
            one.close()


TARGETS = [
    Target("frames", _FRAMES, _frame),
    Target("control page", _reports(), _report, few=100),
    Target("table of mappings", st.lists(_NAMES, max_size=4), _mappings, few=20),
]
