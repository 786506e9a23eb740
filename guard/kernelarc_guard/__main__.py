"""The guard process: ``python -I -m kernelarc_guard [--allow-unsandboxed] [--prepare-on=CORES]``.

One JSON request per line on stdin; JSON lines on stdout: any number of `progress`, exactly one
`result` or `refusal` per request, nothing at all for a `prepare`. It ends, with all its children, when
stdin closes.
"""

import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING

from pydantic import ValidationError

from kernelarc_guard.cgroups import remove_all
from kernelarc_guard.cores import allowed_cores
from kernelarc_guard.faults import Refused, plain
from kernelarc_guard.inquiries import QUESTION, Inquiry
from kernelarc_guard.limits import adopt_orphans
from kernelarc_guard.model import Model
from kernelarc_guard.places import GuardFolder
from kernelarc_guard.prepare import prepare_in
from kernelarc_guard.preparing import PREPARE_ON, Preparing
from kernelarc_guard.processes import end_children
from kernelarc_guard.protocol import Refusal
from kernelarc_guard.sandbox import ALLOW_UNSANDBOXED, find_sandbox, no_sandbox
from kernelarc_guard.textfile import first_error

if TYPE_CHECKING:  # it imports torch
    from kernelarc_guard.judge import Judge

MAX_LINE = 64 << 20


def main() -> None:
    """Serve requests until stdin closes."""
    answers = _set_stdout_aside()
    adopt_orphans()
    place = GuardFolder()
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    preparing = _preparing(sys.argv[1:])
    threading.Thread(target=_read, args=(requests, place, preparing), daemon=True).start()
    import torch

    from kernelarc_guard.judge import Judge

    torch.set_num_threads(1)  # helper threads that spin would disturb what is timed
    allowed = ALLOW_UNSANDBOXED in sys.argv[1:]
    sandbox = find_sandbox()
    judge = None
    if sandbox.kind != "none" or allowed:
        judge = Judge(sandbox, place.path, preparing=preparing)

    def tell(message: Model) -> None:
        answers.write(message.model_dump_json().encode() + b"\n")
        answers.flush()

    _settle()
    answered = False
    try:
        while (line := requests.get()) is not None:
            answer_line(line, judge, no_sandbox(sandbox), tell)
            if not answered:
                answered = True
                _settle()
            else:
                # Cycles of a judgement hold its tensors, and few objects are in them: left to itself
                # a collection comes late, and the heap has grown around what was held.
                gc.collect()
    finally:
        end(place)


def answer_line(
    line: bytes, judge: "Judge | None", unsafe: str, tell: Callable[[Model], None]
) -> None:
    """Judge one line; whatever happens is answered."""
    request_id = "?"
    try:
        if len(line) > MAX_LINE:
            raise Refused(f"a request of more than {MAX_LINE} bytes")
        request = QUESTION.validate_json(line)
        request_id = request.id
        if judge is None:
            raise Refused(unsafe)
        if isinstance(request, Inquiry):
            tell(judge.inquire(request, tell))
        else:
            tell(judge.judge(request, tell))
    except ValidationError as error:
        tell(Refusal(id=request_id, error=f"request: {first_error(error)[1]}"))
    except Refused as refused:
        said, code, lease = str(refused), refused.code, refused.lease
        tell(Refusal(id=request_id, error=said, code=code, lease=lease))
    except Exception as error:  # noqa: BLE001 - the process boundary: nothing may go unanswered
        traceback.print_exc()
        said = plain(f"guard error: {type(error).__name__}: {error}")
        tell(Refusal(id=request_id, error=said))
    if judge is not None:
        judge.warm()


def _read(requests: SimpleQueue[bytes | None], place: GuardFolder, preparing: Preparing) -> None:
    """Hand lines over; when stdin closes, end at once whatever is being measured."""
    source = sys.stdin.buffer
    while line := source.readline(MAX_LINE + 1):
        ahead = prepare_in(line)
        if ahead is None:
            requests.put(line)
        else:
            preparing.offer(ahead)
        # What is too long is refused for its beginning; the rest is not kept.
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = source.readline(MAX_LINE + 1)
    end(place)


def end(place: GuardFolder) -> None:
    """Kill every child, remove every file and leave."""
    end_children()
    remove_all()
    place.remove()
    os._exit(0)


def _settle() -> None:
    """Have collections pass over what there is now, modules most of all: each took a tenth of a second."""
    gc.collect()
    gc.freeze()


def _preparing(arguments: list[str]) -> Preparing:
    """Return who builds ahead, on the cores that were asked for; leaves where these are none."""
    for argument in arguments:
        if argument.startswith(PREPARE_ON):
            try:
                return Preparing(allowed_cores(argument.removeprefix(PREPARE_ON)))
            except ValueError as error:
                sys.exit(f"{argument}: {error}")
    return Preparing()


def _set_stdout_aside() -> IO[bytes]:
    """Keep stdout for answers and send stray prints (torch, references) to stderr."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


if __name__ == "__main__":
    main()
