"""Have a Triton solution's kernels compiled where there is no device (imports torch and Triton).

Run as ``python -I -B -m kernelarc_guard.triton_ahead JOB``, where JOB is a file with JSON, in a sandbox of its
own: the solution's entry is called with tensors that have no memory, each launch compiles and launches nothing.
What was compiled is in Triton's cache under the key that the same launch on the device looks up. The
solution's own code runs here, so nothing that this process says or leaves is trusted.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from kernelarc_guard.dtypes import torch_dtype
from kernelarc_guard.fake_device import look_like
from kernelarc_guard.runner import load_solution
from kernelarc_guard.warming import warm_triton

_ALIGNED: Final = 1 << 40
"""Where every tensor without memory says that it begins: as aligned as any allocation on a device."""
_SAID_CHARACTERS: Final = 300
_ANY: Final = 90
"""A compute capability: which it is only chooses between the versions of an assembler that are looked up."""
_NO_LAUNCHER: Final = (
    *(ImportError, AttributeError, TypeError, ValueError, KeyError, AssertionError),
    *(OSError, RuntimeError, subprocess.SubprocessError),
)
"""What Triton raises where there is no compiler or driver library, or where a version keeps things elsewhere."""


class NamedTarget:
    """What Triton takes for its driver: it names the device that is compiled for and opens none."""

    def __init__(self, properties: dict[str, Any], utils: Any) -> None:
        """Name the device with these properties; `utils` is what Triton's own driver has as such, or None."""
        from triton.backends.compiler import GPUTarget

        self._capability = properties["major"], properties["minor"]
        self._target = GPUTarget("cuda", 10 * properties["major"] + properties["minor"], 32)
        self.utils = utils or SimpleNamespace()
        told = {
            "max_shared_mem": properties.get("shared_memory_per_block_optin", 0),
            "max_num_regs": properties.get("regs_per_multiprocessor", 0),
            "multiprocessor_count": properties["multi_processor_count"],
            "warpSize": 32,
        }
        self.utils.get_device_properties = lambda device: dict(told)

    def get_current_target(self) -> Any:
        """Return what is compiled for."""
        return self._target

    def get_current_device(self) -> int:
        """Return the number of the one device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing: there is one device."""

    def get_current_stream(self, device: int = 0) -> int:
        """Return the stream on which nothing is launched."""
        return 0

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Return the compute capability."""
        return self._capability

    def get_active_torch_device(self) -> torch.device:
        """Return the device as torch knows it."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return torch's module for it."""
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., list[float]]:
        """Return what measures nothing: it has each configuration compiled."""
        return _once

    def assemble_tensormap_to_arg(self, infos: Any, args: Any) -> Any:
        """Return a launch's arguments as they are."""
        return args


def main() -> None:
    """Do the one job; the last line of output is what is to be told of it, in JSON."""
    # Before torch says that there is a device: what it imports would be confused.
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    launchers = Launchers()
    warm_triton(_ANY)
    if not sys.stdin.readline():
        return  # nobody has a job
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    look_like(job["properties"])
    compile_for(job["properties"], launchers)
    said = launchers.said + call_all(job, mode)
    print(json.dumps({"said": [one[:_SAID_CHARACTERS] for one in dict.fromkeys(said)]}), flush=True)
    os._exit(0)  # what the solution wants done at the end is nobody's


def compile_for(properties: dict[str, Any], launchers: "Launchers") -> None:
    """Let Triton compile each launch for a device, and launch nothing."""
    from triton.runtime import autotuner, driver, jit

    driver.set_active(NamedTarget(properties, launchers.utils))
    set_on(jit.JITFunction, run=_compile_only(jit.JITFunction.run, launchers.make))
    # Nothing may remember a configuration as the fastest that was never measured.
    set_on(
        autotuner.Autotuner,
        do_bench=property(lambda self: _once),
        check_disk_cache=lambda self, key, configs, bench: bench() and False,
    )
    set_on(FakeTensor, data_ptr=_pointer)


def call_all(job: dict[str, Any], mode: FakeTensorMode) -> list[str]:
    """Load the solution and call its entry once for every workload; return what failed."""
    said = []
    with mode:
        try:
            function = load_solution(job)
        except BaseException as error:  # noqa: BLE001 - whatever a solution raises is its own failure
            return [_described(error)]
        for call in job["calls"]:
            try:
                function(*[argument(one) for one in call])
            except BaseException as error:  # noqa: BLE001 - as above
                said.append(_described(error))
    return said


def argument(described: dict[str, Any]) -> Any:
    """Return a tensor without memory, in a mode that makes such, or a Python number."""
    if "dtype" not in described:
        return described["value"]
    return torch.empty(described["shape"], dtype=torch_dtype(described["dtype"]), device="cuda")


def set_on(owner: Any, **attributes: Any) -> None:
    """Replace attributes of a module or a class."""
    for name, value in attributes.items():
        setattr(owner, name, value)


class Launchers:
    """What launches kernels: C code of Triton's own, in some versions some for each kernel's arguments."""

    def __init__(self) -> None:
        """Have compiled what all launches need, where that can be."""
        self.said: list[str] = []
        """What failed."""
        self._launcher = self.utils = None
        try:
            module = import_module("triton.backends.nvidia.driver")
            self.utils = module.CudaUtils()
            self._launcher = module.CudaLauncher
        except _NO_LAUNCHER as error:
            self.said.append(f"without launchers: {_described(error)}")

    def make(self, kernel: Any) -> None:
        """Have a kernel's launcher compiled."""
        if self._launcher is not None and kernel is not None:
            try:
                self._launcher(kernel.src, kernel.metadata)
            except _NO_LAUNCHER as error:
                self.said.append(f"without a launcher: {_described(error)}")


def _compile_only(run: Callable[..., Any], made: Callable[[Any], None]) -> Callable[..., Any]:
    def compiled(self: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **kwargs)
        made(kernel)
        return kernel

    return compiled


def _once(call: Callable[[], Any], *args: Any, quantiles: Sequence[float] = (), **more: Any) -> Any:
    call()
    return [1.0] * max(1, len(quantiles))


def _pointer(tensor: Any) -> int:
    return int(_ALIGNED + tensor.storage_offset() * tensor.element_size())


def _described(error: BaseException) -> str:
    first = (str(error).strip() or "no message").splitlines()[0]
    return f"{type(error).__name__}: {first}"


if __name__ == "__main__":
    main()
