"""How a solution is called in each language and style, with a minimal example; for `get_brief`."""

from kernelarc_guard.compile_flags import DEFAULT
from kernelarc_guard.problem import Definition


def interface_text(definition: Definition, languages: tuple[str, ...]) -> str:
    """Return how `run` is called for this problem."""
    inputs, outputs = list(definition.inputs), list(definition.outputs)
    parts = [_python(definition, inputs, outputs)]
    if "cpp" in languages or "cuda" in languages:
        parts.append(_tvm_ffi(inputs, outputs))
        parts.append(_dlpack(inputs, outputs))
    if "cpp" in languages:
        parts.append(
            f"C++ is compiled with {' '.join(DEFAULT)}; cflags of your own come after these and win,"
            " for instance -ffast-math or -fopenmp (with ld_flags -fopenmp)."
        )
    return "\n\n".join(parts)


def _python(definition: Definition, inputs: list[str], outputs: list[str]) -> str:
    returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    scalars = [name for name in inputs if definition.inputs[name].shape is None]
    note = f" {', '.join(scalars)}: a Python number." if scalars else ""
    mutable = definition.kernelarc.mutable_inputs
    may = f" You may write to {', '.join(mutable)}." if mutable else " Do not write to inputs."
    return (
        f"Python, value-returning (destination_passing=false):\n"
        f"    def run({', '.join(inputs)}):\n"
        f"        return {returned}\n"
        f"Python, destination-passing (destination_passing=true): fill the outputs, return nothing\n"
        f"    def run({', '.join([*inputs, *outputs])}): ...\n"
        f"Tensors are contiguous torch tensors on the campaign's device.{note}{may}"
        f" Return plain tensors of the stated shape and dtype, sharing no memory with inputs."
    )


def _tvm_ffi(inputs: list[str], outputs: list[str]) -> str:
    parameters = ", ".join(f"tvm::ffi::TensorView {name}" for name in [*inputs, *outputs])
    return (
        "C++, binding tvm-ffi (destination_passing=true):\n"
        "    #include <tvm/ffi/container/tensor.h>\n"
        "    #include <tvm/ffi/function.h>\n"
        f"    void Run({parameters}) {{ ... }}\n"
        "    TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);\n"
        "Python numbers come as double or int64_t."
    )


def _dlpack(inputs: list[str], outputs: list[str]) -> str:
    parameters = ", ".join(
        [f"const DLTensor* {name}" for name in inputs] + [f"DLTensor* {name}" for name in outputs]
    )
    return (
        "C++, binding dlpack (destination_passing=true), return 0 when done:\n"
        "    #include <dlpack/dlpack.h>\n"
        f'    extern "C" int run({parameters}) {{ ... return 0; }}'
    )
