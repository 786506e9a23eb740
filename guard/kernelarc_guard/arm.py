"""The guard's side of one runner: starts it, times its calls, reads what it returned (imports torch)."""

import fcntl
import mmap
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import torch

from kernelarc_guard import control
from kernelarc_guard.buffers import BufferSet, same_bits, shared_file
from kernelarc_guard.build import Built
from kernelarc_guard.cores import other_cores, runner_cores
from kernelarc_guard.draws import Draw, Drawer
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.frames import MAX_REPLY, FrameError, recv_frame, send_frame
from kernelarc_guard.keeper import Nursery, NurseryLost, Placed, Runner
from kernelarc_guard.mapped import mapped_inputs
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.returned import ReturnedResults, Specs, refuse_odd_bools
from kernelarc_guard.solution import Solution

_LOG_BYTES = 16 << 20
"""What a runner may print in its life; the next write fails with EPERM."""
_TAIL_BYTES = 2_000
_REPLY_SECONDS = 5.0
_ALL_MARKED = (1 << control.MAX_MARKED) - 1


class CallBlocks(Exception):
    """A solution waits for the device inside its call, so that its calls cannot be queued there."""


class Arm:
    """One runner of one solution with its own buffers."""

    lingers = False
    """Does its end take long, so that `let_die` is worth while?"""
    launches_ahead = False
    """Is a call that was begun launched while the guard does other work?"""
    empty_ns = 0
    """What a window takes in which nothing is called, where that is known before a solution is loaded."""
    _environment: Mapping[str, str] = {}
    """What its runner was forked with beside the nursery's own."""

    def __init__(
        self,
        nursery: Nursery,
        solution: Solution,
        built: Built,
        drawer: Drawer,
        schedule: Schedule,
        slot: int,
        note: Callable[[str], None],
        planted: float = 0.0,
    ) -> None:
        """Fork a runner and load the solution in it; raises SolutionFault if that fails.

        `slot` is the index of its role in `keeper.SLOTS`; `note` is told what was seen and did not
        decide.
        """
        self._nursery = nursery
        self._digest = built.digest
        self._drawer = drawer
        self._schedule = schedule
        self._returns = not solution.spec.destination_passing_style
        if not self._returns and drawer.scalar_outputs:
            raise SolutionFault(
                "bad_output_type",
                f"outputs {', '.join(drawer.scalar_outputs)} are Python numbers: "
                "only a value-returning solution can give them",
            )
        # Only a torch tensor has a version to know what changed by; others must look, as they will
        # have to where there is no guard.
        self._versions = not solution.is_native and "numpy" not in solution.spec.languages
        self._note = note
        self._call = 0
        self._first: set[int] = set()
        self._held = False
        self.first_ns = 0
        """What the very first call took."""
        self._results: ReturnedResults | None = None
        self._sets: list[BufferSet] = []
        self._new_buffers()
        control_fd = shared_file(control.SIZE)
        self._page = control.ControlPage(mmap.mmap(control_fd, control.SIZE))
        self._log_fd = _capped_file(_LOG_BYTES)
        self._memory = -1
        try:
            placed = nursery.place(built, slot)
            where = runner_cores(drawer.threads), self._starting_cores(drawer.threads, slot)
            self._runner = _forked(
                nursery, slot, built.digest, drawer.threads, self._environment, where
            )
        except BaseException:
            self._release()
            os.close(control_fd)
            raise
        try:
            setup = _setup(solution, placed, drawer, schedule) | self._device_setup()
            setup |= {"planted": planted, "scratch": self._runner.scratch}
            self._load(setup, control_fd)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(control_fd)

    def call(
        self,
        workload: int,
        draw: Draw,
        *,
        evict: bool = True,
        hold: bool = False,
        renew: bool = False,
    ) -> int:
        """Run one call on a draw's inputs and return its nanoseconds on the guard's clock.

        `hold` keeps earlier results alive, `renew` passes new tensor objects over the same memory.
        """
        self._call += 1
        buffers = self._sets[workload]
        rewritten = buffers.fill(draw.tensors, self._drawer.mutable)
        self._refuse_followers(workload)
        self._page.set_scalars(draw.scalars)
        marks = control.marks(list(buffers.inputs), rewritten)
        self._page.order(
            control.Order(
                self._call,
                control.RUN,
                workload,
                marks if self._versions else _ALL_MARKED,
                hold * control.HOLD | renew * control.RENEW,
            )
        )
        if evict:
            self._drawer.evict()
        self._held = hold
        elapsed = self._go(workload)
        self._check_report(workload, buffers, draw)
        return elapsed

    def begin(
        self,
        workload: int,
        draw: Draw,
        *,
        evict: bool = True,
        hold: bool = False,
        renew: bool = False,
        timed: bool = True,
    ) -> None:
        """Begin a call, of which `finish` does the rest: the guard may do other work in between.

        One that is not `timed` may be made beside that work.
        """
        # Not a bound method: that would be a cycle, and keep all of a judgement's memory for long.
        self._begun = workload, draw, evict, hold, renew

    def finish(self) -> int:
        """Return the nanoseconds of the call that was begun; raises what `call` does."""
        workload, draw, evict, hold, renew = self._begun
        return self.call(workload, draw, evict=evict, hold=hold, renew=renew)

    def get_set(self, workload: int, draw: Draw) -> Runner:
        """Prepare a call that is made beside other arms' and not timed; return the runner to wake.

        Only where `launches_ahead`. Raises SolutionFault.
        """
        raise NotImplementedError

    def went(self, answer: dict[str, Any]) -> int:
        """Take what the warden said of that call, and check what it left; raises SolutionFault."""
        raise NotImplementedError

    def idle_window(self) -> int:
        """Return the nanoseconds of a window around the first workload's call, on old inputs."""
        self._call += 1
        self._page.order(control.Order(self._call, control.RUN, 0))
        return self._go(0)

    def empty_windows(self, count: int) -> list[int]:
        """Return the nanoseconds of windows in which the runner only wakes and stops again.

        Not even orders are read in them: whatever calls a solution cannot take less.
        """
        self._call += 1
        self._page.order(control.Order(self._call, control.EMPTY, count + 1))
        # In the first the order is read, in the last it is reported.
        return [self._go(0) for _ in range(count + 2)][1:-1]

    def idle(self, workload: int) -> list[str]:
        """Let the runner be awake for a moment, as a thread that it left behind would want.

        Returns what it says has changed in its process, which nobody has to believe.
        """
        self._call += 1
        self._page.order(control.Order(self._call, control.IDLE, workload))
        self._go(workload)
        lines = self._page.read_error()[:_TAIL_BYTES].splitlines()
        return ["the process says: " + "".join(filter(str.isprintable, line)) for line in lines]

    def changed_since(self, workload: int, outputs: dict[str, torch.Tensor]) -> str | None:
        """Return the first output that is not what it was when its call ended, None where all are.

        `outputs` are copies of the last call's, for a solution that writes to the guard's buffers.
        """
        if self._results is not None:
            return self._results.changed(workload)
        now = self._sets[workload]
        differs = (n for n, one in outputs.items() if not same_bits(one, now.output(n)))
        return next(differs, None)

    def _go(self, workload: int) -> int:
        seconds = self._deadline(workload)
        return self._took(self._wake(seconds, workload), seconds, workload)

    def _deadline(self, workload: int) -> float:
        first = workload not in self._first
        return self._schedule.start_seconds if first else self._schedule.call_seconds

    def _wake(self, seconds: float, workload: int) -> dict[str, Any]:
        """Execute one window and return what the warden says of it."""
        try:
            return self._runner.go(seconds)
        except NurseryLost as lost:
            raise SolutionFault("crashed", f"it took its sandbox down: {lost}", workload) from None

    def _took(self, answer: dict[str, Any], seconds: float, workload: int) -> int:
        """Return a window's nanoseconds; raises SolutionFault for what the warden saw."""
        self._refuse(answer, f"a call took more than {seconds:g} s", workload)
        self._first.add(workload)
        elapsed = int(answer["ns"])
        self.first_ns = self.first_ns or elapsed
        return elapsed

    def _refuse(self, answer: dict[str, Any], late: str, workload: int | None = None) -> None:
        """Raise SolutionFault for what the warden saw."""
        how = answer.get("how", "")
        match answer.get("fault"):
            case None:
                pass
            case "deadline":
                raise SolutionFault("timeout", late, workload)
            case "ended":
                raise SolutionFault("crashed", self._told(how), workload)
            case "woken":
                raise SolutionFault("tampering", f"self-wake: {how}", workload)
            case _:
                raise SolutionFault("limit_passed", how, workload)
        if early := answer.get("early"):
            self._note(f"live_child: {early} processes it started ran before the first window")
        if strangers := answer.get("strangers"):
            raise SolutionFault(
                "extra_process",
                f"{strangers} processes that it started are alive beside it after a call",
                workload,
            )
        if threads := answer.get("threads"):
            raise SolutionFault(
                "too_many_threads",
                f"a call of {answer['ns'] / 1e6:.3g} ms took {answer['cpu_ns'] / 1e6:.3g} ms of "
                f"CPU time; the problem gives it {threads} threads",
                workload,
            )

    def outputs(self, workload: int) -> dict[str, torch.Tensor]:
        """Read the last call's outputs from the stopped process; raises SolutionFault on a breach."""
        expected = self._expected(workload)
        if self._results is None:
            outputs = {name: self._sets[workload].output(name) for name in expected}
            for name, output in outputs.items():
                refuse_odd_bools(name, output, workload)
            return outputs
        return self._results.read(self._page, expected, workload, self._held)

    def _expected(self, workload: int) -> Specs:
        """Return the outputs that the last call has given; raises SolutionFault for too few or many."""
        specs = self._drawer.output_specs(workload)
        if not self._returns:
            return specs
        _, _, count = self._page.read_report()
        return self._drawer.counts.given(specs, count, self._digest, workload)

    def keep_scratch(self) -> None:
        """Set what it wrote to its scratch folder aside for later runners of its slot."""
        with suppress(NurseryLost):
            archive = self._runner.keep()
            if archive is not None:
                self._nursery.keepsakes.put(self._digest, archive)

    def _starting_cores(self, threads: int, slot: int) -> frozenset[int]:
        """Return where its runner gets ready; empty: where it will be called."""
        return frozenset()

    def wait_mapped(self) -> None:
        """Wait until the runner has its buffers: only then may a window of any other begin."""

    def get_ready(self) -> None:
        """Measure what its windows hold beside the calls, where they hold anything."""

    def begin_loading(self) -> None:
        """Let the runner load the solution where it has not begun; raises SolutionFault."""

    def wait_loaded(self) -> None:
        """Wait until it has loaded, where that began before; raises SolutionFault.

        No window of any runner may begin earlier: its end stops all that is there.
        """

    @property
    def nbytes(self) -> int:
        """Return what its buffers take where memory is short, on a device of its own."""
        return 0

    def let_die(self) -> None:
        """Begin to end, where that takes long: `close` waits for it."""

    def close(self) -> None:
        """Kill the runner with all that it started, and release its memory."""
        left = self._runner.end()
        if left:
            self._note(f"left_behind: {left} processes it started were killed at its end")
        self._release()

    def _release(self) -> None:
        for buffers in self._sets:
            buffers.close()
        for fd in (self._memory, self._log_fd):
            if fd >= 0:
                os.close(fd)

    def _load(self, setup: dict[str, Any], control_fd: int) -> None:
        """Give the runner all that it needs, and wait until it has loaded the solution."""
        self._send(setup, control_fd)
        self._wait_loaded()

    def _send(self, setup: dict[str, Any], control_fd: int) -> None:
        channel, own = self._runner.channel, self._descriptors()
        try:
            channel.settimeout(_REPLY_SECONDS)
            send_frame(channel, setup, (control_fd, self._log_fd, *own))
        except (FrameError, OSError) as error:
            raise SolutionFault("crashed", f"while loading, {self._told(str(error))}") from error
        finally:
            for fd in own:
                os.close(fd)

    def _wait_loaded(self) -> None:
        seconds = self._schedule.start_seconds
        late = f"loading took more than {seconds:g} s"
        try:
            answer = self._runner.wait(seconds)
            # It has stopped or ended: what it had to say is there, or is not coming.
            reply = self._reply() if answer.get("fault") in (None, "ended") else {}
        except (FrameError, OSError) as error:
            raise SolutionFault("crashed", f"while loading, {self._told(str(error))}") from error
        except NurseryLost as lost:
            raise SolutionFault(
                "crashed", f"while loading, it took its sandbox down: {lost}"
            ) from None
        if isinstance(said := reply.get("error"), str):
            raise SolutionFault("build_failed", f"it did not load: {said[:4000]}")
        if answer.get("fault") == "ended":
            raise SolutionFault("crashed", f"while loading, {self._told(answer['how'])}")
        self._refuse(answer, late)
        if reply.get("loaded") is not True:
            raise SolutionFault("tampering", "the process stopped before it had loaded")
        self._read_memory()

    def _reply(self) -> dict[str, Any]:
        try:
            return recv_frame(self._runner.channel, MAX_REPLY, 0)[0]
        except (FrameError, OSError):
            return {}

    def _read_memory(self) -> None:
        try:
            opened = self._runner.open()
        except NurseryLost:
            opened = None
        if opened is None:
            raise SolutionFault("crashed", "its memory cannot be read: it is gone")
        self._memory, maps = opened
        with open(maps, "rb") as file:
            table = file.read()
        if self._returns:
            mapped = mapped_inputs(table, self._sets, self._drawer.mutable)
            self._results = ReturnedResults(self._memory, *mapped)

    def _refuse_followers(self, workload: int) -> None:
        """Raise SolutionFault where the last results changed with the inputs that were just written."""
        name = self._results.follows(workload) if self._results is not None else None
        if name is not None:
            raise SolutionFault(
                "output_alias",
                f"output {name!r} changes with an input: it shares its memory",
                workload,
            )

    def _new_buffers(self) -> None:
        """Make the buffers of every workload."""
        drawer = self._drawer
        self._sets += [drawer.buffers(w, outputs=not self._returns) for w in drawer.indices]

    def _descriptors(self) -> list[int]:
        """Return new descriptors of all buffers for the runner."""
        return [os.dup(one.fd) for one in self._sets]

    def _device_setup(self) -> dict[str, Any]:
        """Return what the runner is told about its buffers."""
        order = self._drawer.order
        return {"sets": [{"order": order} | one.describe() for one in self._sets]}

    def _check_page(self, workload: int) -> None:
        call, status, _ = self._page.read_report()
        if status == control.RAISED:
            raise SolutionFault("raised", self._page.read_error(), workload)
        if status != control.DONE or call != self._call:
            raise SolutionFault(
                "tampering", "the process stopped before its call had returned", workload
            )

    def _check_report(self, workload: int, buffers: BufferSet, draw: Draw) -> None:
        self._check_page(workload)
        near = buffers.broken_canary()
        if near is not None:
            raise SolutionFault("out_of_bounds_write", f"bytes next to {near!r} changed", workload)
        for name in buffers.changed_inputs(draw.tensors):
            if name not in self._drawer.mutable:
                raise SolutionFault("input_modified", f"input {name!r} was written to", workload)

    def _told(self, how: str) -> str:
        """Add the end of what the process wrote to its standard output and error."""
        written = min(os.lseek(self._log_fd, 0, os.SEEK_CUR), _LOG_BYTES)
        tail = os.pread(self._log_fd, min(written, _TAIL_BYTES), max(0, written - _TAIL_BYTES))
        text = tail.decode("utf-8", "replace").strip()
        return f"{how}; it wrote: {text}" if text else how


def _forked(
    nursery: Nursery,
    slot: int,
    digest: str,
    threads: int,
    environment: Mapping[str, str],
    where: tuple[frozenset[int], frozenset[int]],
) -> Runner:
    cores, starting = where
    try:
        return nursery.fork(slot, digest, cores, other_cores(threads), environment, starting)
    except NurseryLost as lost:
        raise Refused(f"no runner could be started: {lost}") from None


def _setup(
    solution: Solution,
    placed: Placed,
    drawer: Drawer,
    schedule: Schedule,
) -> dict[str, Any]:
    binding = solution.binding or ("numpy" if "numpy" in solution.spec.languages else "python")
    return {
        "binding": binding,
        "destination_passing": solution.spec.destination_passing_style,
        "entry": placed.entry,
        "root": placed.root,
        "folder": placed.folder,
        "function": solution.entry_function,
        "threads": drawer.threads,
        "memory_bytes": schedule.memory_bytes,
    }


def _capped_file(size: int) -> int:
    """Return an anonymous file that cannot grow beyond `size`; its offset says what was written."""
    fd = os.memfd_create("log", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return fd
