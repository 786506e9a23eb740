"""Frames over real Unix sockets, with peers that misbehave."""

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from kernelarc_guard.frames import FrameError, recv_frame, send_frame

Sockets = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Sockets]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        ours.settimeout(5)
        yield ours, theirs


def test_a_frame_arrives_with_its_descriptors(ends: Sockets) -> None:
    read, write = os.pipe()
    send_frame(ends[1], {"a": [1, "ü"]}, (read,))
    body, fds = recv_frame(ends[0])
    os.write(write, b"x")
    assert body == {"a": [1, "ü"]}
    assert os.read(fds[0], 1) == b"x"
    for fd in (read, write, *fds):
        os.close(fd)


def test_a_flood_is_refused_before_it_is_read(ends: Sockets) -> None:
    ends[1].sendall(struct.pack("<I", 1 << 31))
    with pytest.raises(FrameError, match="at most 64"):
        recv_frame(ends[0], limit=64)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", "closed"),
        (b"\x05\x00", "closed"),
        (struct.pack("<I", 9) + b"{}", "inside a frame"),
        (struct.pack("<I", 4) + b"\xff\xfe\x00\x01", "not JSON"),
        (struct.pack("<I", 2) + b"[]", "not a JSON object"),
        (struct.pack("<I", 60_000) + b"[" * 60_000, "not JSON"),
    ],
)
def test_what_is_no_frame_is_named(ends: Sockets, sent: bytes, says: str) -> None:
    ends[1].sendall(sent)
    ends[1].shutdown(socket.SHUT_WR)
    with pytest.raises(FrameError, match=says):
        recv_frame(ends[0])


def test_descriptors_that_nobody_asked_for_are_not_taken(ends: Sockets) -> None:
    before = len(os.listdir("/proc/self/fd"))
    send_frame(ends[1], {"loaded": True}, (0, 1, 2))
    body, fds = recv_frame(ends[0], max_fds=0)
    assert (body, fds) == ({"loaded": True}, [])
    assert len(os.listdir("/proc/self/fd")) == before


def test_frames_that_cannot_be_read_cannot_be_sent(ends: Sockets) -> None:
    with pytest.raises(FrameError, match="descriptors"):
        send_frame(ends[1], {}, (0,) * 300)
    with pytest.raises(ValueError, match="JSON compliant"):
        send_frame(ends[1], {"a": float("nan")})
