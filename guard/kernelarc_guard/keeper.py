"""The guard's handle of one nursery: starts it in the sandbox, hands it solutions, asks its warden."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import IO, Any, Final

from kernelarc_guard.build import Built
from kernelarc_guard.cgroups import Cgroups
from kernelarc_guard.faults import Refused
from kernelarc_guard.frames import MAX_REPLY, FrameError, recv_frame, send_frame
from kernelarc_guard.keepsakes import Keepsakes
from kernelarc_guard.processes import descendants, kill_all
from kernelarc_guard.sandbox import SCRATCH_BYTES, TASKS, Sandbox, memory_limit, who_counts
from kernelarc_guard.scratch import remove
from kernelarc_guard.surroundings import runner_environment

SLOTS: Final = ("record", "candidate", "anchor", "ruler")
_START_SECONDS: Final = 120.0
_GRACE_SECONDS: Final = 15.0
"""How much longer than its deadline an answer may take before the nursery counts as lost."""
_OPEN_SECONDS: Final = 60.0
_SOLUTIONS: Final = "/solutions"


@dataclass(frozen=True)
class Placed:
    """A built solution as its runner sees it."""

    entry: str
    root: str
    """The folder with the sources."""
    folder: str
    """All of the solution's files lie in it, and no other solution's."""


class NurseryLost(Exception):
    """The nursery ended or does not answer; everything in it is dead now."""


class Nursery:
    """One nursery process; it imports while the guard does other things."""

    def __init__(
        self,
        sandbox: Sandbox,
        folder: Path,
        log: IO[bytes],
        devices: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
        keepsakes: Keepsakes | None = None,
    ) -> None:
        """Start it with a cleared environment; its files are in `folder`, its output in `log`.

        `devices` are the files of a device that its runners use, `environment` what they need of it,
        `keepsakes` what first runs left in other nurseries.
        """
        self.keepsakes = keepsakes or Keepsakes()
        self._devices = devices
        self._sandbox = sandbox
        self._folder = folder
        self._log = Path(log.name)
        self._solutions = folder / "solutions"
        self._solutions.mkdir(parents=True, mode=0o700)
        self._cgroups = Cgroups(TASKS, memory_limit())
        self._scratches = [self._scratch() for _ in SLOTS]
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        number = str(theirs.fileno())
        given = runner_environment() | (environment or {})
        command = sandbox.command(
            [sys.executable, "-I", "-B", "-m", "kernelarc_guard.nursery", number],
            environment=given,
            readable=[(self._solutions, _SOLUTIONS)],
            memory=sorted(self._scratches),  # the table of mounts tells no role either
            devices=devices,
        )
        with theirs:
            self._process = subprocess.Popen(
                command,
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=given,
            )
        self._placed: dict[tuple[int, str, str], Placed] = {}
        self._stock: deque[Runner] = deque()
        """Runners that were forked ahead, in their order."""
        self._ahead: dict[str, Path] = {}
        """Digest of what was placed -> the archive of what was compiled of it before any run."""
        self._given: set[int] = set()
        """Slots whose keepsake the warden has been given."""
        self._ready = False
        self._owed = False
        """Has an operation been sent whose answer was not read yet?"""
        self.lost = False

    @property
    def pid(self) -> int:
        """Return the process id of what the guard started: the nursery or the sandbox around it."""
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Say whether it can fork."""
        return self._ready and not self.lost

    @property
    def protection(self) -> dict[str, str]:
        """Return who limits this nursery's processes and memory, once it is ready."""
        return who_counts(self._cgroups)

    def wait_ready(self) -> None:
        """Wait until it can fork; raises Refused if it cannot start."""
        if self._ready:
            return
        self._channel.settimeout(_START_SECONDS)
        try:
            recv_frame(self._channel)
            self._attach()
            send_frame(self._channel, self._begin())
            recv_frame(self._channel)
        except (FrameError, OSError) as error:
            code = self._process.poll()
            self.close()
            raise Refused(
                f"the nursery did not start ({error}, exit status {code}); is kernelarc-mcp[guard] "
                f"installed for this interpreter? It wrote: {self._wrote()}"
            ) from error
        self._ready = True

    def fork_ahead(self, count: int, own: frozenset[int], environment: Mapping[str, str]) -> None:
        """See that `count` runners are there, or on their way, that nobody's solution was given to.

        They are forked on the cores `own`, where the nursery itself stays.
        """
        with suppress(NurseryLost):  # whoever needs one finds out, and says so
            while len(self._stock) < count:
                self._stock.append(self._fork(own, environment))

    def wait_ahead(self) -> None:
        """Wait until those forked ahead have opened their device; Refused where one could not."""
        for runner in self._stock:
            runner.wait_opened()
        awake = [runner for runner in self._stock if not runner.resting]
        if awake:
            with suppress(NurseryLost):
                numbers = [runner.number for runner in awake]
                self.ask({"op": "rest", "runners": numbers}, _GRACE_SECONDS)
            for runner in awake:
                runner.resting = True

    @property
    def ahead(self) -> int:
        """Return how many runners were forked ahead."""
        return len(self._stock)

    def begin_together(self, runners: Sequence["Runner"], seconds: float) -> None:
        """Begin a window of several runners at once; `finish_together` returns what `Runner.go` does."""
        numbers = [runner.number for runner in runners]
        body = {"op": "together", "runners": numbers, "seconds": seconds}
        self.tell(body, seconds + _GRACE_SECONDS)

    def finish_together(self, runners: Sequence["Runner"]) -> list[dict[str, Any]]:
        """Wait for the end of the windows that were begun: an answer for each runner."""
        heard, _ = self.hear()
        return [one.judged(heard.get("answers", [heard] * len(runners))[i])
                for i, one in enumerate(runners)]  # fmt: skip

    def drop_ahead(self) -> None:
        """End those forked ahead: what they hold of the device is needed."""
        while self._stock:
            self._stock.pop().end()

    @property
    def imported(self) -> bool:
        """Say whether `wait_ready` would hardly wait."""
        return self.ready or (not self.lost and self.answered)

    @property
    def answered(self) -> bool:
        """Say whether `hear` would not wait; so does a nursery that is gone."""
        return self.lost or bool(select([self._channel], [], [], 0)[0])

    def fork(
        self,
        slot: int,
        digest: str,
        cores: frozenset[int],
        own: frozenset[int],
        environment: Mapping[str, str],
        starting: frozenset[int] = frozenset(),
    ) -> "Runner":
        """Return a runner for a slot, the one forked first where there are some, on `cores`.

        `digest` is that of what will run there. The nursery itself stays on `own` (empty: where it
        is). Until its first window alone the runner is on `starting` (empty: on `cores`). Refused
        where the runner ended before it was needed.
        """
        runner = self._stock.popleft() if self._stock else self._fork(own, environment)
        if runner.environment != environment:
            runner.end()
            runner = self._fork(own, environment)
        fresh = slot not in self._given
        self._given.add(slot)
        keepsake = self.keepsakes.get(digest) if fresh else None
        with self._opened_ahead(digest if fresh and keepsake is None else "") as ahead:
            given = ahead if keepsake is None else keepsake
            runner.use(slot, cores, starting, given, keepsake is None)
        return runner

    def _fork(self, own: frozenset[int], environment: Mapping[str, str]) -> "Runner":
        self.wait_ready()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with theirs:
                answer, _ = self.ask(
                    {"op": "fork", "own_cores": sorted(own), "environment": dict(environment)},
                    _GRACE_SECONDS,
                    (theirs.fileno(),),
                )
        except NurseryLost:
            ours.close()
            raise
        return Runner(self, answer["runner"], ours, environment)

    def place(self, built: Built, slot: int) -> Placed:
        """Copy a built solution to where the runners of its slot see it, once per request.

        The same solution in two slots is two copies: both arms of an A/A comparison are files of
        their own, as they are for two solutions.
        """
        if built.ahead is not None:
            self._ahead[built.digest] = built.ahead
        key = (slot, str(built.entry), built.digest)
        known = self._placed.get(key)
        if known is not None:
            return known
        name = secrets.token_hex(8)
        folder = self._solutions / name
        folder.mkdir(mode=0o700)
        inside = f"{_SOLUTIONS}/{name}" if self._sandbox.bubblewrap else str(folder)
        root = f"{inside}/src"
        shutil.copytree(built.root, folder / "src", symlinks=True)
        if built.entry.is_relative_to(built.root):
            entry = f"{root}/{built.entry.relative_to(built.root)}"
        else:
            shutil.copy(built.entry, folder / built.entry.name)
            entry = f"{inside}/{built.entry.name}"
        placed = self._placed[key] = Placed(entry, root, inside)
        return placed

    def clean(self) -> int:
        """End all runners and forget all solutions; return how many other processes were left."""
        if not self.ready:
            return 0
        try:
            answer, _ = self.ask({"op": "clean"}, _GRACE_SECONDS)
        except NurseryLost:
            return 0  # and so is everything in it
        finally:
            self._placed.clear()
            self._ahead.clear()
            self._given.clear()
            while self._stock:
                self._stock.pop().channel.close()
            for folder in self._solutions.glob("*"):
                remove(folder)
        return int(answer["left"])

    def ask(
        self, body: dict[str, Any], seconds: float, fds: tuple[int, ...] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        """Send one operation and return its answer; raises NurseryLost."""
        self.tell(body, seconds, fds)
        return self.hear()

    def tell(self, body: dict[str, Any], seconds: float, fds: tuple[int, ...] = ()) -> None:
        """Send one operation, whose answer comes within `seconds`; raises NurseryLost."""
        if self._owed:
            self.hear()  # nobody wants that one any more
        if self.lost:
            raise NurseryLost("the nursery is gone")
        try:
            self._channel.settimeout(seconds)
            send_frame(self._channel, body, fds)
        except (FrameError, OSError) as error:
            self.close()
            raise NurseryLost(f"the nursery ended or hangs: {error}") from error
        self._owed = True

    def hear(self) -> tuple[dict[str, Any], list[int]]:
        """Return the answer to the operation that was sent last; raises NurseryLost."""
        if self.lost or not self._owed:
            raise NurseryLost("the nursery is gone, or was not asked")
        self._owed = False
        try:
            return recv_frame(self._channel)
        except (FrameError, OSError) as error:
            self.close()
            raise NurseryLost(f"the nursery ended or hangs: {error}") from error

    def close(self) -> None:
        """End the process with everything in it, and remove its files."""
        self.lost = True
        self._channel.close()
        while self._stock:
            self._stock.pop().channel.close()
        kill_all([self._process.pid, *descendants(self._process.pid)])
        self._process.wait()
        self._cgroups.remove()
        remove(self._folder)

    @contextmanager
    def _opened_ahead(self, digest: str) -> Iterator[int | None]:
        """Open the archive of what was compiled ahead, where there is one and it is still there."""
        path, opened = self._ahead.get(digest), None
        if path is not None:
            with suppress(FileNotFoundError):
                opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            yield opened
        finally:
            if opened is not None:
                os.close(opened)

    def _wrote(self) -> str:
        """Return the end of what nurseries wrote."""
        text = self._log.read_text(encoding="utf-8", errors="replace").strip()
        return f"... {text[-600:]}" if len(text) > 600 else text or "nothing"

    def _scratch(self) -> str:
        # A runner sees its path, and must not learn from it whose role it plays.
        name = secrets.token_hex(8)
        if self._sandbox.bubblewrap:
            return f"/scratch/{name}"
        folder = self._folder / "scratch" / name
        folder.mkdir(parents=True, mode=0o700)
        return str(folder)

    def _attach(self) -> None:
        """Move it into its control group; what it forks follows."""
        with suppress(OSError):
            self._cgroups.attach([self._process.pid, *descendants(self._process.pid)])
            return
        self._cgroups.pids = self._cgroups.memory = False

    def _begin(self) -> dict[str, Any]:
        counted = self._cgroups.pids
        confinement = self._sandbox.confinement(counted, self._devices)
        return {
            "confinement": confinement.as_json(),
            "scratches": self._scratches,
            "limits": {
                "count_processes": not counted and not confinement.tasks,
                "memory_bytes": 0 if self._cgroups.memory else memory_limit(),
                "scratch_bytes": 0 if self._sandbox.bubblewrap else SCRATCH_BYTES,
            },
        }


class Runner:
    """One runner, as its warden's client sees it."""

    def __init__(
        self,
        nursery: Nursery,
        number: int,
        channel: socket.socket,
        environment: Mapping[str, str],
    ) -> None:
        """Take over a runner that was just forked."""
        self.environment = environment
        self.number = number
        """What the warden knows it by."""
        self.resting = False
        """Does it stand still until it is used?"""
        self._opened = False
        self.scratch = ""
        """The one folder that it may write to, as it sees it; empty before `use`."""
        self._nursery = nursery
        self._ended = False
        self.channel = channel

    def use(
        self,
        slot: int,
        cores: frozenset[int],
        starting: frozenset[int],
        keepsake: int | None,
        ahead: bool,
    ) -> None:
        """Give it its slot with a scratch folder, and its cores; Refused where it has ended."""
        fds = () if keepsake is None else (keepsake,)
        given = {"slot": slot, "cores": sorted(cores), "starting": sorted(starting)}
        answer, _ = self._ask("use", _GRACE_SECONDS, fds, **given, ahead=ahead)
        if "fault" in answer:
            self.end()
            raise Refused(f"a runner ended before it was given anything: {answer['how']}")
        self.scratch = answer["scratch"]

    def wait_opened(self) -> None:
        """Wait until it has opened its device; Refused where it could not."""
        if not self._opened:
            self.say_after("opened", "could not open the device")
            self._opened = True

    def say_after(self, word: str, failed: str) -> None:
        """Wait for a word that it sends while it is nobody's; Refused, with what failed, without it."""
        self.channel.settimeout(_OPEN_SECONDS)
        try:
            said, _ = recv_frame(self.channel, MAX_REPLY, 0)
        except (FrameError, OSError) as error:
            raise Refused(f"a runner {failed}: {error}") from None
        if said != {word: True}:
            raise Refused(f"a runner {failed}: it said {said}")

    def wait(self, seconds: float) -> dict[str, Any]:
        """Wait for its first stop; the answer has `fault` and `how` where that went wrong."""
        return self._window("wait", seconds)

    def go(self, seconds: float, *, empty: bool = False) -> dict[str, Any]:
        """Execute one window; the answer has `ns` and what the census found, or `fault`.

        `empty`: nothing of a solution was loaded yet.
        """
        return self._window("go", seconds, empty=empty)

    def resume(self) -> None:
        """Let it go on after empty windows; `wait` waits for its next stop."""
        self._ask("resume", _GRACE_SECONDS)

    def begin(self, seconds: float) -> None:
        """Begin a window; `finish` returns what `go` does. Nothing else is asked in between."""
        body = {"op": "go", "runner": self.number, "seconds": seconds}
        self._nursery.tell(body, seconds + _GRACE_SECONDS)

    def finish(self) -> dict[str, Any]:
        """Wait for the end of a window that was begun."""
        return self.judged(self._nursery.hear()[0])

    def open(self) -> tuple[int, int] | None:
        """Return descriptors of its memory and its table of mappings; None where it has gone."""
        _, fds = self._ask("open", _GRACE_SECONDS)
        return (fds[0], fds[1]) if len(fds) == 2 else None

    def keep(self) -> int | None:
        """Set its scratch folder aside for later runners of its slot; the first time, return an archive."""
        fds = self._ask("keep", _GRACE_SECONDS + 60)[1]
        return fds[0] if fds else None

    def kill(self) -> None:
        """Kill its process and do not wait; `end` does."""
        if not self._ended and not self._nursery.lost:
            with suppress(NurseryLost):
                self._ask("kill", _GRACE_SECONDS)

    def end(self) -> int:
        """Kill it with all that it started; return how many other processes there were."""
        self.channel.close()
        if self._ended or self._nursery.lost:
            return 0
        self._ended = True
        try:
            return int(self._ask("end", _GRACE_SECONDS)[0]["left"])
        except NurseryLost:
            return 0

    def _window(self, op: str, seconds: float, **more: Any) -> dict[str, Any]:
        return self.judged(self._ask(op, seconds + _GRACE_SECONDS, seconds=seconds, **more)[0])

    def judged(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return an answer; after one that says that a limit was passed its nursery is closed."""
        if answer.get("fault") == "limit":
            # Whatever passed it may still be forking: nothing in there is used again.
            self._nursery.close()
        return answer

    def _ask(
        self, op: str, timeout: float, fds: tuple[int, ...] = (), **more: Any
    ) -> tuple[dict[str, Any], list[int]]:
        return self._nursery.ask({"op": op, "runner": self.number, **more}, timeout, fds)
