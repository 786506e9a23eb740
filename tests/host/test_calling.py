"""Whether a candidate fills its outputs is seen in its text, where only one answer can be meant."""

import pytest

from kernelarc_mcp.host.calling import fills_outputs

EXPORT = "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, {});"


@pytest.mark.parametrize(
    ("text", "fills"),
    [
        ("def run(x, y):\n    return x\n", False),
        ("def run(x, y, out):\n    out.copy_(x)\n", True),
        ("def run(x, y, out=None):\n    return x\n", False),
        ("def run(*tensors):\n    return tensors[0]\n", False),
        ("def other(x, y, out): ...\n", False),
        ("def run(x, y, out:\n", False),
    ],
)
def test_a_python_function_that_takes_the_outputs_too_fills_them(text: str, fills: bool) -> None:
    assert fills_outputs(text, "run", "python", "", 3) is fills


@pytest.mark.parametrize(
    ("text", "fills"),
    [
        ("void Run(TensorView x) {}\n" + EXPORT.format("Run"), True),
        ("void Run(TensorView x) {}\n" + EXPORT.format("mine::Run"), True),
        ("Tensor Run(TensorView x) {}\n" + EXPORT.format("Run"), False),
        ("void Other(TensorView x) {}\n" + EXPORT.format("Run"), False),
        ("void Run(TensorView x) {}\n", False),
    ],
)
def test_a_tvm_ffi_function_that_returns_nothing_fills_its_outputs(text: str, fills: bool) -> None:
    assert fills_outputs(text, "run", "cuda", "tvm-ffi", 2) is fills


def test_the_light_binding_always_fills_and_another_one_is_not_guessed() -> None:
    assert fills_outputs("", "run", "cpp", "dlpack", 2)
    assert not fills_outputs("", "run", "cuda", "torch", 2)
