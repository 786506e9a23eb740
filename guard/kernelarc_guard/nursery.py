"""The nursery: the process with torch imported that forks runners and keeps them (imports torch).

Run as ``python -I -m kernelarc_guard.nursery FD``, where FD is one end of a Unix socket pair, as the
first process of a sandbox. It holds no secret and never runs a parallel operator (after one, the
first operator of every fork hangs).
"""

import gc
import os
import socket
import sys
from pathlib import Path

from kernelarc_guard.confinement import Confinement
from kernelarc_guard.frames import FrameError, recv_frame, send_frame
from kernelarc_guard.limits import adopt_orphans, die_with_parent, set_dumpable
from kernelarc_guard.warden import Warden
from kernelarc_guard.warming import WARMED_FOR, warm_triton

OPERATIONS = frozenset(
    {"fork", "use", "rest", "wait", "go", "together", "resume"}
    | {"open", "keep", "kill", "end", "clean"}
)


def main() -> None:
    """Import what solutions need, then serve the guard until it closes the channel."""
    die_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    import numpy  # noqa: F401 - warm for the runners
    import torch

    capability = os.environ.get(WARMED_FOR)
    if capability is not None:
        warm_triton(int(capability))
    else:  # it opens the GPU's driver, which no fork of this process could use then
        try:
            import tvm_ffi  # noqa: F401 - warm for the runners
        except ImportError:
            pass  # solutions with that binding then fail to load, and say why
    from kernelarc_guard.runner import run

    torch.set_num_threads(1)
    set_dumpable(False)
    adopt_orphans()
    send_frame(channel, {"imported": True})
    begin, _ = recv_frame(channel)
    warden = Warden(
        Confinement.from_json(begin["confinement"]),
        [Path(path) for path in begin["scratches"]],
        run,
        begin["limits"],
        channel.close,
    )
    gc.collect()
    gc.freeze()
    send_frame(channel, {"ready": True})
    try:
        while True:
            frame, fds = recv_frame(channel)
            if frame["op"] not in OPERATIONS:
                raise ValueError(f"unknown operation {frame['op']!r}")
            answer = getattr(warden, frame["op"])(frame, fds)
            body, opened = answer if isinstance(answer, tuple) else (answer, [])
            send_frame(channel, body, tuple(opened))
            for fd in opened:
                os.close(fd)
    except (FrameError, BrokenPipeError, ConnectionResetError):
        os._exit(0)  # the guard is gone


if __name__ == "__main__":
    main()
