"""A stand-in of a fleet for tests: several scripted guards behind one process, no cluster.

Each request runs in a fork that answers as the scripted guard does, on one of the devices `gpu-1` to
`gpu-N`. SIGUSR1 takes the device away whose request began last, or any free one; SIGUSR2 adds one.
`NAME --devices N [--model M] [--other M]`; `other-1` is a device of the other model.
"""

import argparse
import os
import selectors
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import scripted_guard

from kernelarc_guard.fleet_wire import (
    TO_FLEET,
    Cancel,
    Capacity,
    FleetDevice,
    OnModel,
    Placed,
    subject,
)
from kernelarc_guard.inquiries import Count, ProfileRequest
from kernelarc_guard.prepare import Prepare
from kernelarc_guard.protocol import Calibrate, Compare, Confirm, Lease, Refusal, Request, Screen

Asked = Request | Count | ProfileRequest
HOST = "here"


@dataclass
class Running:
    """A request on a device, in a process of its own."""

    request: Asked
    device: str
    process: int
    answers: int
    """Descriptor of what it says."""
    heard: bytes = b""


@dataclass
class Fleet:
    """Devices, what runs on them and what waits."""

    model: str
    devices: list[str] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    """Devices of another model -> which."""
    wants: dict[str, str] = field(default_factory=dict)
    """Id of a request for another model -> which."""
    added: int = 0
    waiting: list[Asked] = field(default_factory=list)
    running: list[Running] = field(default_factory=list)
    screened_on: dict[str, str] = field(default_factory=dict)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def add_device(self) -> None:
        self.added += 1
        self.devices.append(f"gpu-{self.added}")
        self.tell()

    def add_other(self, model: str) -> None:
        name = f"other-{len(self.others) + 1}"
        self.others[name] = model
        self.devices.append(name)
        self.tell()

    def model_of(self, device: str) -> str:
        return self.others.get(device, self.model)

    def lose_device(self) -> None:
        """Take a device away: its request begins again on another, or nobody can take it."""
        if self.running:
            lost = self.running[-1]
            self.end(lost)
            self.devices.remove(lost.device)
            if self.model_of(lost.device) in map(self.model_of, self.devices):
                self.waiting.insert(0, lost.request)
            else:
                gone = Refusal(id=lost.request.id, error="no device is left", code="device_lost")
                say(gone.model_dump_json())
        elif self.devices:
            self.devices.pop()
        self.tell()

    def tell(self) -> None:
        busy = [one.device for one in self.running]
        devices = [
            FleetDevice(
                name=name,
                model=self.model_of(name),
                host=HOST,
                state="busy" if name in busy else "ready",
            )
            for name in self.devices
        ]
        say(Capacity(devices=devices).model_dump_json())

    def take(self, line: bytes) -> None:
        asked = TO_FLEET.validate_json(line)
        if isinstance(asked, Prepare):
            # Nobody here builds.
            Path(asked.cache_dir).mkdir(exist_ok=True)
            Path(asked.cache_dir, f"prepared-{asked.id}").touch()
            return
        if isinstance(asked, OnModel):
            self.wants[asked.request.id] = asked.model
            asked = asked.request
        if not isinstance(asked, Cancel):
            self.waiting.append(asked)
            return
        self.waiting = [one for one in self.waiting if one.id != asked.id]
        for one in [one for one in self.running if one.request.id == asked.id]:
            self.end(one)

    def place(self) -> None:
        """Begin what can begin: screens last, a confirmation away from its screen."""
        self.waiting.sort(key=lambda one: isinstance(one, Screen))
        for request in list(self.waiting):
            busy = [one.device for one in self.running]
            model = self.wants.get(request.id, self.model)
            free = [
                name for name in self.devices if name not in busy and self.model_of(name) == model
            ]
            if not free:
                continue
            self.waiting.remove(request)
            about = subject(request.id)[0]
            if isinstance(request, Confirm):
                free.sort(key=lambda name: name == self.screened_on.get(about))
            if isinstance(request, Screen):
                self.screened_on[about] = free[0]
            self.begin(request, free[0])

    def begin(self, request: Asked, device: str) -> None:
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.dup2(writing, 1)
            answer_on(device, self.model_of(device), request)
        os.close(writing)
        self.running.append(Running(request, device, process, reading))
        self.selector.register(reading, selectors.EVENT_READ)
        say(Placed(id=request.id, device=device, host=HOST).model_dump_json())

    def end(self, one: Running) -> None:
        os.kill(one.process, signal.SIGKILL)
        os.waitpid(one.process, 0)
        self.selector.unregister(one.answers)
        os.close(one.answers)
        self.running.remove(one)

    def hear(self, answers: int) -> None:
        """Pass on what a request says; where it ends without a last word its guard died."""
        (one,) = (one for one in self.running if one.answers == answers)
        said = os.read(answers, 65536)
        if said:
            *lines, one.heard = (one.heard + said).split(b"\n")
            for line in lines:
                say(line.decode())
                if b'"event":"progress"' not in line:
                    self.end(one)
                    return
        else:
            self.end(one)
            died = Refusal(id=one.request.id, error="its process ended", code="guard_died")
            say(died.model_dump_json())


def answer_on(device: str, model: str, request: Asked) -> NoReturn:
    """Answer as the scripted guard does, with leases of this device."""
    plain = scripted_guard.lease

    def lease(request: Request, since: int) -> Lease:
        return plain(request, since).model_copy(update={"unit": device, "machine": HOST})

    scripted_guard.lease = lease
    scripted_guard.MODEL = model
    sys.stdin = open(os.pipe()[0])  # nothing ever comes
    assert isinstance(request, Calibrate | Screen | Confirm | Compare)
    scripted_guard.say(scripted_guard.answer(request))
    os._exit(0)


def say(line: str) -> None:
    print(line, flush=True)


def serve(fleet: Fleet) -> None:
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    signal.set_wakeup_fd(wakes)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)
    fleet.selector.register(0, selectors.EVENT_READ)
    fleet.selector.register(woken, selectors.EVENT_READ)
    asked = b""
    while True:
        fleet.place()
        for key, _ in fleet.selector.select():
            if key.fd == 0:
                chunk = os.read(0, 1 << 20)
                if not chunk:
                    os.killpg(0, signal.SIGKILL)
                *lines, asked = (asked + chunk).split(b"\n")
                for line in lines:
                    fleet.take(line)
            elif key.fd == woken:
                for told in os.read(woken, 64):
                    fleet.lose_device() if told == signal.SIGUSR1 else fleet.add_device()
            elif any(one.answers == key.fd for one in fleet.running):
                fleet.hear(key.fd)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--model", default="scripted")
    parser.add_argument("--other", default="")
    options = parser.parse_args()
    fleet = Fleet(options.model)
    for _ in range(options.devices):
        fleet.add_device()
    if options.other:
        fleet.add_other(options.other)
    serve(fleet)


if __name__ == "__main__":
    main()
