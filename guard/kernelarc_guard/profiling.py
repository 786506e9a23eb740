"""Profiling a solution on one workload: what runs where, and what it comes to (imports torch)."""

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kernelarc_guard import bottleneck
from kernelarc_guard.backend import Backend
from kernelarc_guard.build import BuildFailed, Built, build
from kernelarc_guard.cpu_profile import CpuProfile
from kernelarc_guard.device_names import device_name
from kernelarc_guard.faults import Refused
from kernelarc_guard.inputs import InputError, make_inputs
from kernelarc_guard.inquiries import ProfileRequest
from kernelarc_guard.machine_code import difference
from kernelarc_guard.policy import examine
from kernelarc_guard.profile_model import MachineCode, Profile
from kernelarc_guard.reasons import Stage
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.scratch import remove
from kernelarc_guard.solution import Solution

_MOST_KERNELS: Final = 20
"""Kernels by name that an answer holds."""
_REPORT_BYTES: Final = 64 << 20
"""A larger raw report is not kept."""
_NO_RECORD: Final = (
    "no comparison: the record has no machine code that can be had without running it"
)


class Profiler:
    """Answers one request."""

    def __init__(
        self,
        request: ProfileRequest,
        backend: Backend,
        sandbox: Sandbox,
        folder: Path,
        tell: Callable[[Stage, str], None],
    ) -> None:
        """`folder` takes the files of the run; `tell` is told what is being done."""
        self._request = request
        self._backend = backend
        self._sandbox = sandbox
        self._folder = folder / f"profile-{secrets.token_hex(4)}"
        self._tell = tell

    def run(self) -> tuple[Profile, list[str]]:
        """Return the profile and the names of the raw reports that were kept; raises Refused."""
        request = self._request
        index = self._index()
        findings = examine(request.candidate, request.problem.definition).findings
        if findings:
            raise Refused(f"the policy refuses the solution: {findings[0].message}")
        self._tell("build", "building the solution")
        built = self._built(request.candidate, "the solution")
        record = None if request.record is None else self._built(request.record, "the record")
        self._folder.mkdir(mode=0o700, parents=True)
        try:
            if self._backend.place == "cpu":
                return self._on_cpu(index, built, record)
            return self._on_gpu(index, built, record)
        finally:
            remove(self._folder)

    def _index(self) -> int:
        uuids = [one.uuid for one in self._request.problem.workloads]
        if self._request.workload not in uuids:
            known = ", ".join(uuids[:20])
            raise Refused(f"workload {self._request.workload!r} is none of {known}")
        return uuids.index(self._request.workload)

    def _built(self, solution: Solution, who: str) -> Built:
        schedule = self._request.schedule
        try:
            return build(
                solution,
                Path(self._request.cache_dir),
                seconds=schedule.build_seconds,
                memory_bytes=schedule.memory_bytes,
                sandbox=self._sandbox,
                gpu=self._backend.architecture,
            )
        except BuildFailed as failed:
            raise Refused(f"{who} does not build: {failed.detail}") from None

    def _on_cpu(self, index: int, built: Built, record: Built | None) -> tuple[Profile, list[str]]:
        request = self._request
        cpu = CpuProfile(request, index, self._sandbox, self._folder)
        code = cpu.machine_code(built)
        before = None if record is None else cpu.machine_code(record)
        found, roofs = cpu.bottleneck()
        files = self._kept_files(cpu.files, cpu.notes)
        profile = Profile(
            device=device_name("cpu"),
            workload=request.workload,
            bottleneck=found.bottleneck,
            why=found.why,
            roofs=roofs,
            call_us=request.call_us,
            code=code,
            code_against_record=self._against(code, before, cpu.notes),
            notes=cpu.notes,
        )
        return profile, self._keep(files)

    def _on_gpu(self, index: int, built: Built, record: Built | None) -> tuple[Profile, list[str]]:
        from kernelarc_guard.cuda.left_behind import CallFailed
        from kernelarc_guard.cuda.profile_run import ProfileRun
        from kernelarc_guard.cuda.profiling import Call

        request = self._request
        if self._sandbox.kind == "landlock":
            raise Refused(
                "profiling needs bubblewrap: landlock alone, which this machine has, would keep the"
                " profiler from its own sockets"
            )
        try:
            inputs = make_inputs(
                request.problem.definition,
                request.problem.workloads[index],
                secrets.randbits(63),
                folder=request.problem.folder,
                device=self._backend.place,
            )
        except InputError as error:
            raise Refused(f"the problem cannot be graded: {error}") from None
        runs = ProfileRun(
            self._sandbox, self._backend, self._folder, lambda said: self._tell("timing", said)
        )
        try:
            gpu = runs.run(Call(request.candidate, built, request.problem, index, inputs))
        except CallFailed as failed:
            # An answer, not a refusal: the device was held for it, and the same would happen again.
            return self._failed(str(failed)), []
        seen = gpu.seen
        before = None if record is None else gpu.code_of_library(record)
        found = bottleneck.of_kernels(seen.kernels, request.call_us)
        files = self._kept_files(seen.files, seen.notes)
        if len(seen.kernels) > _MOST_KERNELS:
            seen.notes.append(f"{len(seen.kernels) - _MOST_KERNELS} more kernels are in the report")
        whole = sum(one.microseconds for one in seen.kernels)
        profile = Profile(
            device=device_name(self._backend.place),
            workload=request.workload,
            bottleneck=found.bottleneck,
            why=found.why,
            timeline=seen.timeline,
            roofs=bottleneck.shares(seen.kernels),
            kernels=seen.kernels[:_MOST_KERNELS],
            kernels_us=round(whole, 3) if seen.kernels else None,
            call_us=request.call_us,
            code=seen.code,
            code_against_record=self._against(seen.code, before, seen.notes),
            notes=seen.notes,
        )
        return profile, self._keep(files)

    def _failed(self, why: str) -> Profile:
        return Profile(
            device=device_name(self._backend.place),
            workload=self._request.workload,
            bottleneck="unknown",
            why=why,
            call_us=self._request.call_us,
        )

    def _against(
        self, code: MachineCode | None, before: MachineCode | None, notes: list[str]
    ) -> dict[str, str]:
        if code is None or self._request.record is None:
            return {}
        if before is None:
            notes.append(_NO_RECORD)
            return {}
        return difference(before, code)

    def _kept_files(self, files: list[Path], notes: list[str]) -> list[Path]:
        """Return the raw reports that are not too large to be kept, and note the others."""
        small = [path for path in files if path.stat().st_size <= _REPORT_BYTES]
        if self._request.reports:
            notes += [
                f"raw report {path.name} is larger than {_REPORT_BYTES} bytes: not kept"
                for path in files
                if path not in small
            ]
        return small

    def _keep(self, files: list[Path]) -> list[str]:
        """Copy raw reports to where they were asked for."""
        if not self._request.reports:
            return []
        target, kept = Path(self._request.reports), []
        try:
            target.mkdir(parents=True, exist_ok=True)
            for path in files:
                shutil.copyfile(path, target / path.name)
                kept.append(path.name)
        except OSError as error:
            raise Refused(f"reports: {target} cannot be written: {error}") from None
        return kept
