"""The launch of kernel.cu, which NVRTC compiles when this file is loaded (cuda-python)."""

import ctypes
from pathlib import Path

import torch
from cuda.bindings import driver, nvrtc


def _checked(answer):
    if answer[0].value:
        raise RuntimeError(f"{answer[0]!r}")
    return answer[1] if len(answer) == 2 else answer[1:]


def _compiled(source):
    program = _checked(nvrtc.nvrtcCreateProgram(source, b"kernel.cu", 0, [], []))
    major, minor = torch.cuda.get_device_capability()
    options = [f"--gpu-architecture=sm_{major}{minor}a".encode()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if status.value:
        log = b" " * _checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode().strip("\0 \n"))
    image = b" " * _checked(nvrtc.nvrtcGetCUBINSize(program))
    nvrtc.nvrtcGetCUBIN(program, image)
    return image


_image = _compiled(Path(__file__).with_name("kernel.cu").read_bytes())
_module = _checked(driver.cuModuleLoadData(_image))
_kernel = _checked(driver.cuModuleGetFunction(_module, b"rms"))


def run(x, weight, y):
    rows, hidden = x.shape
    values = (x.data_ptr(), weight.data_ptr(), y.data_ptr(), hidden)
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    stream = torch.cuda.current_stream().cuda_stream
    (status,) = driver.cuLaunchKernel(_kernel, rows, 1, 1, 512, 1, 1, 0, stream, (values, kinds), 0)
    if status.value:
        raise RuntimeError(f"{status!r}")
