"""What nvcc and ptxas print becomes messages of the answer."""

import pytest

from kernelarc_guard.compile_flags import FlagRefused
from kernelarc_guard.cuda.nvcc import nvcc_flags, plain_name, read_nvcc

PRINTED = """src/kernel.cu(12): warning #177-D: variable "unused" was declared but never referenced

ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_ZN12_GLOBAL__N_13rmsEPKfS1_Pfl' for 'sm_90a'
ptxas info    : Function properties for _ZN12_GLOBAL__N_13rmsEPKfS1_Pfl
    16 bytes stack frame, 8 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 30 registers, used 1 barriers, 64 bytes smem, 384 bytes cmem[0]
"""


def test_registers_spills_and_shared_memory_of_each_kernel_are_told() -> None:
    first, second = read_nvcc(PRINTED, "src", "kernel.cu")
    assert (first.severity, first.file, first.line) == ("info", "kernel.cu", 0)
    assert first.message == (
        "rms: 30 registers, used 1 barriers, 64 bytes smem, 384 bytes cmem[0]; "
        "16 bytes of stack, spills 8 bytes stored and 24 loaded"
    )
    assert (second.severity, second.line) == ("warning", 12)


@pytest.mark.parametrize(
    ("printed", "line", "message"),
    [
        ('src/kernel.cu(2): error: identifier "x" is undefined', 2, 'identifier "x" is undefined'),
        ("At end of source: error: expected a ;", 0, "at the end: expected a ;"),
        ("src/main.cpp:7:3: error: expected ';'", 7, "expected ';'"),
        ("ptxas error   : Entry function 'f' uses too much shared data", 0, "ptxas: Entry"),
        ("/usr/bin/ld: x.o: undefined reference to `launch'", 0, "undefined reference"),
    ],
)
def test_an_error_of_each_tool_is_read(printed: str, line: int, message: str) -> None:
    (found,) = read_nvcc(printed, "src", "kernel.cu")
    assert (found.severity, found.line) == ("error", line)
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z3rmsPKfS0_Pfl", "rms"),
        ("_ZN4mine4deep3rmsEPKf", "mine::deep::rms"),
        ("rms", "rms"),
        ("_Z6kernelILi4EEvPf", "kernel"),
    ],
)
def test_a_kernel_is_named_as_in_its_source(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


@pytest.mark.parametrize("flag", ["-ccbin=x", "--compiler-options=-v", "-arch=sm_80", "-I/etc"])
def test_a_flag_that_reaches_outside_is_refused(flag: str) -> None:
    with pytest.raises(FlagRefused):
        nvcc_flags([flag], [], "src", "90a")
