"""The nursery: a process with torch imported that forks runners (imports torch).

Run as ``python -I -m kernelarc_guard.nursery FD`` where FD is one end of a Unix socket pair. It holds
no secret and never runs a parallel operator (after one, the first operator of every fork hangs).
"""

import gc
import os
import signal
import socket
import sys

from kernelarc_guard.frames import FrameError, recv_frame, send_frame
from kernelarc_guard.limits import die_with_parent, set_dumpable


def main() -> None:
    """Import what solutions need, say `ready`, then fork one runner per frame until closed."""
    die_with_parent()
    channel = socket.socket(fileno=int(sys.argv[1]))
    import numpy  # noqa: F401 - warm for the runners
    import torch

    try:
        import tvm_ffi  # noqa: F401 - warm for the runners
    except ImportError:
        pass  # solutions with that binding then fail to load, and say why
    torch.set_num_threads(1)
    set_dumpable(False)
    gc.collect()
    gc.freeze()
    send_frame(channel, {"ready": True, "pid": os.getpid()})
    while True:
        try:
            _, fds = recv_frame(channel)
        except FrameError:
            os._exit(0)
        _fork_runner(channel, fds[0])


def _fork_runner(channel: socket.socket, runner_fd: int) -> None:
    """Fork twice, so that the runner becomes an orphan that the guard adopts and can wait for."""
    from kernelarc_guard.runner import run

    told, tell = os.pipe()
    middle = os.fork()
    if middle == 0:
        pid = os.fork()
        if pid == 0:
            os.close(told)
            os.close(tell)
            channel.close()
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            run(socket.socket(fileno=runner_fd))
            os._exit(70)
        os.write(tell, b"%d" % pid)
        os._exit(0)
    os.close(tell)
    os.close(runner_fd)
    os.waitpid(middle, 0)
    with os.fdopen(told, "rb") as pipe:
        pid_text = pipe.read()
    send_frame(channel, {"pid": int(pid_text)})


if __name__ == "__main__":
    main()
