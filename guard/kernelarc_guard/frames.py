"""Length-prefixed JSON frames with file descriptors over a Unix socket."""

import json
import socket
import struct
import time
from typing import Any, Final

MAX_FRAME: Final = 8 << 20
MAX_REPLY: Final = 64 << 10
"""What the guard accepts from a runner: it has little to say."""

_HEAD: Final = struct.Struct("<I")
_MAX_FDS: Final = 200


class FrameError(Exception):
    """The peer closed, flooded or sent something that is not a frame."""


def send_frame(channel: socket.socket, body: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one frame; the descriptors travel with its first bytes."""
    data = json.dumps(body, separators=(",", ":"), allow_nan=False).encode()
    if len(data) > MAX_FRAME:
        raise FrameError(f"frame of {len(data)} bytes; at most {MAX_FRAME}")
    if len(fds) > _MAX_FDS:
        raise FrameError(f"{len(fds)} descriptors in one frame; at most {_MAX_FDS}")
    head = _HEAD.pack(len(data))
    if fds:
        sent = socket.send_fds(channel, [head], list(fds))
        channel.sendall(head[sent:] + data)
    else:
        channel.sendall(head + data)


def recv_frame(
    channel: socket.socket, limit: int = MAX_FRAME, max_fds: int = _MAX_FDS
) -> tuple[dict[str, Any], list[int]]:
    """Receive one frame; raises FrameError on end of stream, oversize or bad JSON.

    The channel's timeout is for the frame as a whole: TimeoutError where it has passed, however
    steadily bytes drip.
    """
    seconds = channel.gettimeout()
    try:
        return _received(channel, limit, max_fds, seconds)
    finally:
        channel.settimeout(seconds)


def _received(
    channel: socket.socket, limit: int, max_fds: int, seconds: float | None
) -> tuple[dict[str, Any], list[int]]:
    until = None if seconds is None else time.monotonic() + seconds
    head, fds = b"", list[int]()
    while len(head) < _HEAD.size:
        _wait_until(channel, until)
        part, more, _, _ = socket.recv_fds(channel, _HEAD.size - len(head), max_fds)
        fds.extend(more)
        if not part:
            raise FrameError("the channel was closed")
        head += part
    (size,) = _HEAD.unpack(head)
    if size > limit:
        raise FrameError(f"a frame of {size} bytes; at most {limit}")
    data = bytearray()
    while len(data) < size:
        _wait_until(channel, until)
        chunk = channel.recv(min(size - len(data), 1 << 20))
        if not chunk:
            raise FrameError("the channel was closed inside a frame")
        data += chunk
    try:
        body = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame that is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise FrameError("a frame that is not a JSON object")
    return body, fds


def _wait_until(channel: socket.socket, until: float | None) -> None:
    """Let the next read of a channel wait no longer than until then."""
    if until is None:
        return
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError("a frame did not arrive in time")
    channel.settimeout(left)
