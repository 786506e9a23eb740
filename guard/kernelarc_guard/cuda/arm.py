"""The guard's side of one runner on a GPU (imports torch).

A timed call is queued first: the runner, awake, launches everything behind a wait for go, and stops.
Then the guard's own context writes the inputs, evicts the cache and opens go, all in one stream, and
its CPU takes the time from go to done. As long as that stream has work, no kernel of the runner can
run: one that stays on the device, to start early, holds the guard up for whole time slices, which
shows (see docs/measurements/h200_windows.md).
"""

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from kernelarc_guard import control
from kernelarc_guard.arm import Arm, CallBlocks
from kernelarc_guard.buffers import same_bits
from kernelarc_guard.build import Built
from kernelarc_guard.cores import starting_cores
from kernelarc_guard.cuda import driver
from kernelarc_guard.cuda.buffers import CudaBuffers
from kernelarc_guard.cuda.draws import CudaDrawer
from kernelarc_guard.cuda.flags import Flags, new_flags
from kernelarc_guard.cuda.returned import check_returned
from kernelarc_guard.cuda.seal import Seal
from kernelarc_guard.cuda.turns import Disturbed, Turns
from kernelarc_guard.draws import Draw
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.frames import send_frame
from kernelarc_guard.keeper import Nursery, NurseryLost, Runner
from kernelarc_guard.pairs import middle_mean
from kernelarc_guard.protocol import Schedule
from kernelarc_guard.returned import scalar_tensor
from kernelarc_guard.solution import Solution

_BLOCKED_SECONDS: Final = 1.0
"""A runner that has not queued its call by then waits for the device inside it."""
_LATE_SECONDS: Final = 2.0
"""Work that is not done by then is asked after."""
_SLICE_NS: Final = 1_500_000
"""Of the time slice of 2 ms that a kernel of another context takes from the guard's work."""
_BYTES_PER_NS: Final = 500
"""What the guard's own copies and evictions reach at the very least."""
_WARM_WINDOWS: Final = 2
_EMPTY_WINDOWS: Final = 16
"""Windows around the smallest kernel before anything of a solution is loaded."""
_START_SECONDS: Final = 15.0
_LEAST_NS: Final = 100
"""No window is shorter than this, whatever is taken off."""
_HELD_UP: Final = 3
"""So many windows one after the other that are held up are no accident."""


class CudaArm(Arm):
    """One runner with its buffers on a GPU."""

    lingers = True
    launches_ahead = True

    def __init__(
        self,
        nursery: Nursery,
        solution: Solution,
        built: Built,
        drawer: CudaDrawer,
        schedule: Schedule,
        slot: int,
        note: Callable[[str], None],
        *,
        awake: bool,
        turns: Turns,
        environment: Mapping[str, str],
    ) -> None:
        """Fork a runner, open its context and load the solution; raises SolutionFault.

        Where calls are queued, loading goes on until the first of them, which then raises it.
        `awake`: no call is queued, each is timed from waking the runner to its stop. `turns`
        knows what is taken off a window, and learns of it. `environment` is what the runner is
        forked with.
        """
        self._environment = environment
        self._awake = awake
        self._loaded = False
        self._loading = False
        self._queued = False
        self._launching = False
        self._mapped = False
        self._ready = awake
        self._turns = turns
        self.empty_ns = 0
        self._device = drawer.device
        self._held_up = 0
        self._kept_on = 0
        self._flags_fd = new_flags()
        self._flags = Flags(self._flags_fd)
        self._seal = Seal(drawer.device)
        self._buffers: list[CudaBuffers] = []
        super().__init__(nursery, solution, built, drawer, schedule, slot, note)

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

        Raises CallBlocks where the call cannot be queued; the runner is of no more use then.
        """
        self._order(workload, draw, evict=evict, hold=hold, renew=renew)
        return self.finish()

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
        """Begin a call: where it is queued, its runner launches it behind go meanwhile.

        One that is neither queued nor `timed` is made while the guard does other work.
        """
        self._order(workload, draw, evict=evict, hold=hold, renew=renew)
        if self._queued:
            self._launch(self._soon(workload), workload)
        elif not timed:
            self._deliver(workload, evict)
            self._launch(self._deadline(workload), workload)

    def _launch(self, seconds: float, workload: int) -> None:
        """Wake the runner for the ordered call and do not wait."""
        try:
            self._runner.begin(seconds)
        except NurseryLost as lost:
            raise SolutionFault("crashed", f"its sandbox is gone: {lost}", workload) from None
        self._launching = True

    def _order(self, workload: int, draw: Draw, *, evict: bool, hold: bool, renew: bool) -> None:
        """Write the order of a call and prepare its buffers."""
        self.wait_loaded()
        self._call += 1
        buffers = self._buffers[workload]
        self._asked = workload, draw, evict
        # A first call compiles, loads and allocates: it is never queued.
        queued = self._queued = not self._awake and workload in self._first
        rewritten = buffers.prepare(draw.tensors, self._drawer.mutable)
        self._page.set_scalars(draw.scalars)
        marks = control.marks(list(buffers.inputs), rewritten if self._versions else buffers.inputs)
        flags = hold * control.HOLD | renew * control.RENEW | queued * control.QUEUE
        flags |= self._more_flags(workload)
        self._page.order(control.Order(self._call, control.RUN, workload, marks, flags))
        # Nothing of the guard's is under way when the runner launches: its context has had its turn on the
        # device, and waits, when the window begins.
        torch.cuda.synchronize(self._device)

    def finish(self) -> int:
        """Let the ordered call run and check what it left; return its nanoseconds."""
        workload, draw, evict = self._asked
        buffers = self._buffers[workload]
        if self._queued:
            self._queue(workload)
            taken = self._window(workload, buffers.deliver, buffers.pending_bytes(), evict)
            elapsed = max(taken - self._taken_off(), _LEAST_NS)
        elif self._launching:
            seconds = self._deadline(workload)
            elapsed = self._took(self._launched(workload), seconds, workload)
        else:
            self._deliver(workload, evict)
            elapsed = self._go(workload)
        return self._checked(workload, draw, elapsed)

    def _deliver(self, workload: int, evict: bool) -> None:
        """Write the inputs of a call that is not queued, and wait until they are there."""
        self._buffers[workload].deliver()
        if evict:
            self._drawer.evict()
        torch.cuda.synchronize(self._device)

    def _checked(self, workload: int, draw: Draw, elapsed: int) -> int:
        """Check what a call left that took so long; return that."""
        buffers = self._buffers[workload]
        self._seal.take(buffers)
        self._check_page(workload)
        self._check_memory(workload, buffers, draw)
        if self._drawer.thrifty:
            buffers.forget()
        return elapsed

    def get_set(self, workload: int, draw: Draw) -> Runner:
        """Prepare a first call that is made beside other arms' ones; return the runner to wake."""
        self._order(workload, draw, evict=False, hold=False, renew=False)
        if self._queued:
            raise RuntimeError("only calls that are not queued can be made side by side")
        self._deliver(workload, evict=False)
        return self._runner

    def went(self, answer: dict[str, Any]) -> int:
        """Take what the warden said of such a call and check what it left; return its nanoseconds."""
        workload, draw, _ = self._asked
        elapsed = self._took(answer, self._deadline(workload), workload)
        return self._checked(workload, draw, elapsed)

    def outputs(self, workload: int) -> dict[str, torch.Tensor]:
        """Return copies of the last call's outputs; raises SolutionFault on a breach of the contract.

        Where the drawer is thrifty they are no copies, and good until the next call.
        What is copied is what was there when the call said that it was done: the seal's pieces are
        compared after the copy, whose kernels cannot run before the runner's have ended.
        """
        expected = self._expected(workload)
        if self._returns:
            check_returned(self._page, expected, workload)
        buffers = self._buffers[workload]
        copied = not self._drawer.thrifty
        taken = {
            name: (buffers.output(name).clone() if copied else buffers.output(name))
            if shape is not None
            else self._scalar(index, name, dtype, workload)
            for index, (name, (shape, dtype)) in enumerate(expected.items())
        }
        torch.cuda.synchronize(self._device)
        changed = self._seal.changed()
        if changed is not None:
            raise SolutionFault(
                "late_write", f"output {changed!r} changed after its call had ended", workload
            )
        return taken

    def changed_since(self, workload: int, outputs: dict[str, torch.Tensor]) -> str | None:
        """Return the first output that is not what it was when its call ended, None where all are."""
        now = self._buffers[workload]
        differs = (n for n, one in outputs.items() if not same_bits(one, now.output(n)))
        return next((n for n in differs if n in now.outputs), None)

    @property
    def nbytes(self) -> int:
        """Return what its buffers take on the device."""
        return sum(one.size for one in self._buffers)

    def let_die(self) -> None:
        """Kill the runner: to take its context down costs about as long as to start it."""
        self._runner.kill()

    def _load(self, setup: dict[str, Any], control_fd: int) -> None:
        """Give the runner what it needs; where calls are timed, two of them start side by side."""
        self._runner.wait_opened()
        self._send(setup | {"empty_windows": not self._awake}, control_fd)
        if self._awake:
            self.wait_loaded()

    def wait_mapped(self) -> None:
        """Wait until the runner has mapped its buffers and stands still; Refused where it could not.

        No window of another runner may begin earlier: its end would stop this one anywhere.
        """
        if self._mapped:
            return
        self._mapped = True
        self._runner.say_after("mapped", "could not map its buffers")
        if not self._awake:
            try:
                self._refuse(self._runner.wait(_START_SECONDS), "it did not stop")
            except (SolutionFault, NurseryLost) as fault:
                raise Refused(f"a runner did not get ready: {fault}") from None

    def get_ready(self) -> None:
        """Learn what the two contexts need to take turns, before anything of a solution runs.

        Calls of the smallest kernel are made as those of the solution will be; nothing that ever ran
        a solution may be alive. Refused where they stay unlike those of others, measured again and
        again: then somebody else is at work on the device.
        """
        self.wait_mapped()
        if self._ready:
            return
        self._ready = True
        try:
            self.empty_ns = self._turns.settle(self._empty_windows)
        except Disturbed as disturbed:
            raise Refused(str(disturbed)) from None
        except (SolutionFault, NurseryLost) as fault:
            raise Refused(f"an empty window failed: {fault}") from None

    def _empty_windows(self, flags: int = control.QUEUE) -> int:
        """Return what windows around the smallest kernel take, the first ones left out."""
        taken = [self._empty_window(flags) for _ in range(_WARM_WINDOWS + _EMPTY_WINDOWS)]
        return round(middle_mean(taken[_WARM_WINDOWS:]))

    def _empty_window(self, flags: int) -> int:
        """Return the nanoseconds of a window around the smallest kernel; raises SolutionFault."""
        self._call += 1
        self._page.order(control.Order(self._call, control.RUN, 0, flags=flags))
        answer = self._runner.go(_BLOCKED_SECONDS, empty=True)
        self._refuse(answer, "it did not launch the smallest kernel")
        taken = self._window(0, lambda: None, 0, evict=True)
        self._check_page(0)
        return taken

    def _starting_cores(self, threads: int, slot: int) -> frozenset[int]:
        """Return cores of its own: all arms of a pair get ready at once."""
        return starting_cores(threads, slot)

    def _taken_off(self) -> int:
        """Return the nanoseconds of a window that are no kernel's."""
        return self._turns.taken_off_ns(self.empty_ns)

    def begin_loading(self) -> None:
        """Let the runner load the solution; raises SolutionFault."""
        self.get_ready()
        if not self._loading:
            self._loading = True
            try:
                send_frame(self._runner.channel, self._to_load())
                if not self._awake:
                    self._runner.resume()
            except (OSError, NurseryLost) as error:
                raise SolutionFault(
                    "crashed", f"while loading, {self._told(str(error))}"
                ) from error

    def _to_load(self) -> dict[str, Any]:
        """Return what lets the runner load the solution."""
        return {"load": True}

    def _more_flags(self, workload: int) -> int:
        """Return what the order of a workload's call says besides."""
        return 0

    def wait_loaded(self) -> None:
        """Wait until it has loaded; raises SolutionFault."""
        if not self._loaded:
            self.begin_loading()
            self._loaded = True
            self._wait_loaded()

    def _queue(self, workload: int) -> None:
        """Let the runner launch its call behind go; raises CallBlocks where it waits for it."""
        seconds, soon = self._deadline(workload), self._soon(workload)
        answer = self._launched(workload) if self._launching else self._wake(soon, workload)
        if answer.get("fault") == "deadline":
            self._flags.go = self._call  # so that whatever it waits for can end
            self._refuse(
                self._runner.wait(seconds), f"a call took more than {seconds:g} s", workload
            )
            raise CallBlocks
        self._took(answer, soon, workload)
        if self._page.read_report()[1] == control.RAISED:
            raise SolutionFault("raised", self._page.read_error(), workload)

    def _soon(self, workload: int) -> float:
        return min(_BLOCKED_SECONDS, self._deadline(workload))

    def _launched(self, workload: int) -> dict[str, Any]:
        """Return what the warden says of a window that was begun."""
        self._launching = False
        try:
            return self._runner.finish()
        except NurseryLost as lost:
            raise SolutionFault("crashed", f"it took its sandbox down: {lost}", workload) from None

    def _window(
        self, workload: int, deliver: Callable[[], None], delivered: int, evict: bool
    ) -> int:
        """Return the nanoseconds from go to done, the change of contexts included."""
        flags, call, clock = self._flags, self._call, time.perf_counter_ns
        begin = clock()
        deliver()
        if evict:
            self._drawer.evict()
        closed = clock()
        driver.call("cuStreamWriteValue32_v2", None, flags.go_at, call, 0)
        opened = flags.wait_open(call, closed, begin + int(_LATE_SECONDS * 1e9))
        limit = opened + int(_LATE_SECONDS * 1e9)
        while flags.done != call:
            if clock() > limit:
                if not self._loading:
                    raise Refused("the device does not end a runner's smallest kernel")
                self._ask_after(workload, call)
                break
        end = clock()
        own = delivered + (self._drawer.evicted_bytes if evict else 0)
        self._check_start(opened - begin, own, workload)
        return end - opened

    def _check_start(self, took_ns: int, own_bytes: int, workload: int) -> None:
        """Raise SolutionFault where something else ran while the inputs were written."""
        if took_ns < _SLICE_NS + own_bytes / _BYTES_PER_NS:
            self._held_up = 0
            return
        self._held_up += 1
        if self._held_up >= _HELD_UP:
            raise SolutionFault(
                "tampering",
                "early start: something of it ran on the device while its inputs were being "
                f"written ({took_ns / 1e3:.0f} us for {own_bytes} bytes)",
                workload,
            )

    def _check_end(self, took_ns: int, workload: int) -> None:
        """Raise SolutionFault where the guard's first small work after a call has to wait."""
        self._kept_on = self._kept_on + 1 if took_ns > _SLICE_NS else 0
        if self._kept_on >= _HELD_UP:
            raise SolutionFault(
                "late_write",
                "something of it was still at work on the device after its call had ended "
                f"(the guard's own work waited {took_ns / 1e3:.0f} us)",
                workload,
            )

    def _ask_after(self, workload: int, call: int) -> None:
        """Wake the runner to wait for its device; raises SolutionFault where that shows an error."""
        self._call += 1
        self._page.order(control.Order(self._call, control.SYNC, workload))
        self._go(workload)
        self._check_page(workload)
        if self._flags.done != call:
            raise SolutionFault("tampering", "its call never said that it was done", workload)

    def _check_memory(self, workload: int, buffers: CudaBuffers, draw: Draw) -> None:
        begin = time.perf_counter_ns()
        near = buffers.broken_canary()
        self._check_end(time.perf_counter_ns() - begin, workload)
        if near is not None:
            raise SolutionFault("out_of_bounds_write", f"bytes next to {near!r} changed", workload)
        for name in buffers.changed_inputs(draw.tensors):
            if name not in self._drawer.mutable:
                raise SolutionFault("input_modified", f"input {name!r} was written to", workload)

    def _scalar(self, index: int, name: str, dtype: str, workload: int) -> torch.Tensor:
        value = scalar_tensor(name, self._page.read_output(index), dtype, workload)
        return value.to(self._drawer.place)

    def _new_buffers(self) -> None:
        assert isinstance(self._drawer, CudaDrawer)
        for workload in self._drawer.indices:
            self._buffers.append(self._drawer.on_device(workload))

    def _descriptors(self) -> list[int]:
        return [os.dup(self._flags_fd), *(fd for one in self._buffers for fd in one.export())]

    def _device_setup(self) -> dict[str, Any]:
        order = self._drawer.order
        return {
            "device": "cuda",
            "memory_bytes": -1,
            "sets": [{"order": order} | one.describe() for one in self._buffers],
        }

    def _read_memory(self) -> None:
        """Read nothing: results lie in the guard's own memory."""

    def _release(self) -> None:
        super()._release()
        torch.cuda.synchronize(self._device)  # a call that was begun may still be being prepared
        self._flags.close()
        os.close(self._flags_fd)
        for one in self._buffers:
            one.close()
        self._buffers.clear()
