"""The guard process: ``python -I -m kernelarc_guard``.

One JSON request per line on stdin; JSON lines on stdout: any number of `progress`, exactly one
`result` or `refusal` per request. It ends, with all its children, when stdin closes.
"""

import os
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from pydantic import ValidationError

from kernelarc_guard.faults import Refused
from kernelarc_guard.limits import adopt_orphans
from kernelarc_guard.model import Model
from kernelarc_guard.processes import descendants, kill_all
from kernelarc_guard.protocol import REQUEST, Refusal

MAX_LINE = 64 << 20


def main() -> None:
    """Serve requests until stdin closes."""
    answers = _set_stdout_aside()
    adopt_orphans()
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    import torch

    from kernelarc_guard.judge import Judge

    torch.set_num_threads(1)  # helper threads that spin would disturb what is timed
    judge = Judge(Path(tempfile.gettempdir()) / f"kernelarc-nursery-{os.getpid()}.log")

    def tell(message: Model) -> None:
        answers.write(message.model_dump_json().encode() + b"\n")
        answers.flush()

    while (line := requests.get()) is not None:
        request_id = "?"
        try:
            if len(line) > MAX_LINE:
                raise Refused(f"a request of {len(line)} bytes; at most {MAX_LINE}")
            request = REQUEST.validate_json(line)
            request_id = request.id
            tell(judge.judge(request, tell))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            tell(Refusal(id=request_id, error=f"request: {where}: {first['msg']}"))
        except Refused as refused:
            tell(Refusal(id=request_id, error=str(refused), code=refused.code))
        except Exception as error:  # noqa: BLE001 - the process boundary: nothing may go unanswered
            traceback.print_exc()
            tell(Refusal(id=request_id, error=f"guard error: {type(error).__name__}: {error}"))
        judge.warm()
    end()


def _read(requests: SimpleQueue[bytes | None]) -> None:
    """Hand lines over; when stdin closes, end at once whatever is being measured."""
    for line in sys.stdin.buffer:
        requests.put(line)
    end()


def end() -> None:
    """Kill every child and leave."""
    kill_all(descendants(os.getpid()))
    os._exit(0)


def _set_stdout_aside() -> IO[bytes]:
    """Keep stdout for answers and send stray prints (torch, references) to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
