"""Versions of compilers and packages: what a calibration says it was measured with."""

import platform
from pathlib import Path

import pytest

from kernelarc_guard import installed as module
from kernelarc_guard.cuda.nvcc import Nvcc
from kernelarc_guard.installed import changed, installed, short_name
from kernelarc_mcp.noise import toolchain_line


def test_a_processor_has_a_compiler_python_and_packages_and_no_word_of_a_gpu() -> None:
    found = installed("cpu")
    assert found["Python"] == platform.python_version()
    assert {"C++", "torch", "numpy"} <= found.keys() and all(found.values())
    assert not found.keys() & {"nvcc", "triton", "cupy", "driver", "GPU"}
    assert found["C++"].startswith(("GCC ", "clang "))
    assert short_name("c++ (Debian 12.2.0-14+deb12u1) 12.2.0", False) == "GCC 12.2.0"
    assert short_name("Ubuntu clang version 14.0.0-1ubuntu1.1", True) == "clang 14.0.0"
    assert short_name("something else 3", False) == "something else 3"


def test_compiler_and_driver_of_a_gpu_are_read_from_what_they_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = "Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0"
    monkeypatch.setattr(module, "find_nvcc", lambda: Nvcc("nvcc", "/", told))
    assert module.nvcc_version() == "13.0.88"
    file = tmp_path / "version"
    monkeypatch.setattr(module, "_DRIVER", file)
    assert module._driver() == ""
    for name in ("Kernel Module  580.159.04", "Open Kernel Module for x86_64  580.159.04"):
        file.write_text(f"NVRM version: NVIDIA UNIX {name}  Release Build\nGCC version: 12\n")
        assert module._driver() == "580.159.04"


def test_a_change_since_the_calibration_is_named_and_an_older_calibration_names_none() -> None:
    before = {"torch": "2.11.0", "nvcc": "13.0.88"}
    assert changed({}, before) == [] == changed(before, dict(before))
    assert changed(before, {"torch": "2.12.0", "triton": "3.7"}) == [
        "toolchain_changed: torch is 2.12.0; the calibration was measured with 2.11.0",
        "toolchain_changed: nvcc is gone; the calibration was measured with 13.0.88",
        "toolchain_changed: triton is 3.7; the calibration was measured with none",
    ]


def test_versions_stand_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernelarc_guard.decide import Parameters, calibrate_from

    blocks = [[[0.1, 0.2], [0.0, -0.1]]]
    known = {"Python": "3.11.9", "torch": "2.11.0"}
    found = calibrate_from("cpu", "p", "t", blocks, 1.0, 0.1, Parameters(), None, known)
    assert toolchain_line(found) == "Python 3.11.9, torch 2.11.0"
    older = found.model_dump()
    del older["toolchain"]
    assert toolchain_line(type(found).model_validate(older)) == ""
