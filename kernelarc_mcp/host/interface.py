"""How a solution is called in each language and style, with a minimal example; for `get_brief`."""

from collections.abc import Collection
from typing import Final

from kernelarc_guard.compile_flags import DEFAULT
from kernelarc_guard.problem import Definition, TensorSpec

_OPTIONAL: Final = ("cupy", "cute_dsl", "cutile", "tilelang", "helion")
"""Python languages that need a package the guard's environment may lack."""
_ELEMENTS: Final = {
    "float64": "double",
    "float32": "float",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "int64": "int64_t",
    "int32": "int32_t",
    "int16": "int16_t",
    "int8": "int8_t",
    "bool": "bool",
}
"""C++ types of elements; the other dtypes are bytes."""
_HEADERS: Final = {"__half": "cuda_fp16.h", "__nv_bfloat16": "cuda_bf16.h"}
_GPU_ELEMENTS: Final = _ELEMENTS | {"float16": "__half", "bfloat16": "__nv_bfloat16"}


URI: Final = "kernelarc://interface"
"""Where all of it is read."""
ELSEWHERE: Final = ("TVM-FFI",)
"""Sections that a brief leaves to the resource."""
LESS: Final = ("PYTHON", "BUILD", "STREAMS", "C++")
"""Those it leaves to it too where a problem needs the room, in this order."""


def interface_text(
    definition: Definition, languages: tuple[str, ...], warmup_calls: int = 2
) -> str:
    """Return how `run` is called for this problem, what is compiled how, and how long it lives."""
    return "\n\n".join(interface_sections(definition, languages, warmup_calls).values()) + "\n"


def shorter_interface(sections: dict[str, str], without: Collection[str]) -> str:
    """Return the text without some sections; it ends with where these are."""
    kept = [text for name, text in sections.items() if name not in without]
    names = ", ".join(name for name in sections if name in without)
    return "\n\n".join([*kept, f"MORE in `{URI}`: {names}."])


def interface_sections(
    definition: Definition, languages: tuple[str, ...], warmup_calls: int = 2
) -> dict[str, str]:
    """Return the same by the name of each section, in order."""
    inputs, outputs = list(definition.inputs), list(definition.outputs)
    gpu = "cuda" in languages
    sections = {
        "WHAT TO SEND": _sending(languages, gpu),
        "PYTHON": _python(definition, inputs, outputs, gpu),
        "C++": _dlpack(definition, inputs, outputs, gpu),
        "BUILD": _compiled_for_gpu() if gpu else _compiled_for_cpu(definition),
    }
    if gpu:
        sections["STREAMS"] = _streams()
    sections["WHAT MAY BE KEPT"] = _life(definition, warmup_calls, gpu)
    sections["TVM-FFI"] = _tvm_ffi(inputs, outputs, gpu)
    return sections


def _sending(languages: tuple[str, ...], gpu: bool) -> str:
    optional = ", ".join(name for name in _OPTIONAL if name in languages)
    if gpu:
        lines = [
            "cuda (= cuda_cpp): CUDA C++, compiled by nvcc.",
            "python (= pytorch, triton): a Python file, with torch and triton.",
            f"{optional}: a Python file with that package, where the guard has it; else REJECT"
            " build_failed says so.",
        ]
    else:
        lines = [
            "cpp: C++ for this CPU, usually the fastest here.",
            "python (= pytorch): a Python file, with torch. numpy: the same with numpy arrays.",
        ]
    lines.append("Calls of torch are welcome, those of the reference too.")
    suffix = ".cu" if gpu else ".cpp"
    return (
        "WHAT TO SEND: the whole text of one file as `source`, with a function `run`. Its language is"
        f" `language`, else by `filename`'s ending (.py, {suffix}), else python. The seed, which is"
        " the first record, is a whole example: view_snapshot.\n" + _listed(lines)
    )


def _listed(lines: list[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _python(definition: Definition, inputs: list[str], outputs: list[str], gpu: bool) -> str:
    returned = outputs[0] if len(outputs) == 1 else f"({', '.join(outputs)})"
    scalars = [name for name in inputs if definition.inputs[name].shape is None]
    note = f" {', '.join(scalars)}: a Python number." if scalars else ""
    mutable = definition.kernelarc.mutable_inputs
    may = f" You may write to {', '.join(mutable)}." if mutable else " Do not write to inputs."
    filled = ", ".join([*_short(inputs), *outputs])
    kind = "torch tensors on the GPU" if gpu else "torch tensors (numpy arrays for numpy)"
    lines = [
        f"Arguments are contiguous {kind}.{note}{may}",
        "Return plain tensors of the stated shape and dtype that share no memory with inputs.",
    ]
    free = outputs[len(definition.required_outputs) :]
    if free:
        lines.append(
            f"{', '.join(free)}: optional when you return the outputs; every call gives it or none does."
        )
    if gpu:
        lines.append(
            "torch.compile and CUDA graphs work. Send CUDA as `cuda`; load_inline would compile within"
            " limits.load_seconds."
        )
    return (
        "PYTHON, one of two forms (told by the parameters):\n"
        f"    def run({', '.join(_short(inputs))}): return {returned}\n"
        f"    def run({filled}): ...  # fills the outputs, returns nothing\n" + _listed(lines)
    )


def _dlpack(definition: Definition, inputs: list[str], outputs: list[str], gpu: bool) -> str:
    parameters = [_parameter(definition.inputs[name], name) for name in inputs]
    parameters += [f"DLTensor* {name}" for name in outputs]
    first = next((name for name in inputs if definition.inputs[name].shape is not None), outputs[0])
    spec = (definition.inputs | definition.outputs)[first]
    element = (_GPU_ELEMENTS if gpu else _ELEMENTS).get(spec.dtype, "uint8_t")
    pointer = f"{'const ' if first in inputs else ''}{element}*"
    bits = f" {spec.dtype} comes as its 16 bits." if element == "uint16_t" else ""
    headers = ["dlpack/dlpack.h", "cstdint"]
    if gpu:
        headers = ["cuda_runtime.h", *headers]
        headers += [_HEADERS[element]] if element in _HEADERS else []
    body = [
        f"      auto* p = reinterpret_cast<{pointer}>(static_cast<char*>({first}->data)",
        f"                                           + {first}->byte_offset);",
        f"      int64_t n = {first}->shape[0];  // and so on, by {first}->ndim",
    ]
    if gpu:
        body += [
            "      if (n > 0) { /* kernel<<<blocks, threads>>>(p, n); */ }  // never an empty grid",
            "      return cudaGetLastError();  // 0: it was launched",
        ]
    else:
        body.append("      return 0;  // anything else: `raised`")
    return (
        f"{'CUDA C++' if gpu else 'C++'}, binding dlpack (the usual one; fills the outputs):\n"
        + "".join(f"    #include <{name}>\n" for name in headers)
        + f'    extern "C" int run({", ".join(parameters)}) {{\n'
        + "\n".join(body)
        + f"\n    }}\n- Tensors are contiguous, strides may be null.{bits}"
        + (" data points to device memory." if gpu else "")
    )


def _parameter(spec: TensorSpec, name: str) -> str:
    """Return how an input is declared in C: a tensor, or a Python number by value."""
    if spec.shape is not None:
        return f"const DLTensor* {name}"
    return f"double {name}" if "float" in spec.dtype else f"int64_t {name}"


def _tvm_ffi(inputs: list[str], outputs: list[str], gpu: bool) -> str:
    typed = [f"TensorView {name}" for name in inputs]
    parameters = ", ".join([*_short(typed), *(f"TensorView {name}" for name in outputs)])
    return (
        f"TVM-FFI, the other way to call {'CUDA C++' if gpu else 'C++'} (binding tvm-ffi, taken where its"
        " headers are included):\n"
        "    #include <tvm/ffi/container/tensor.h>\n"
        "    #include <tvm/ffi/function.h>\n"
        "    using tvm::ffi::TensorView;  // data_ptr(), size(0), ndim()\n"
        f"    void Run({parameters}) {{ ... }}\n"
        "    TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);\n"
        "- Python numbers come as double or int64_t."
    )


def _short(names: list[str]) -> list[str]:
    """Leave out what lies between: the names of many inputs stand in an earlier form already."""
    return names if len(names) < 4 else [names[0], "...", names[-1]]


def _compiled_for_cpu(definition: Definition) -> str:
    keys = definition.kernelarc
    fast = (
        "-funroll-loops"
        if keys.nonfinite_outputs
        else "-ffast-math (forgets NaN and infinity; outputs here are finite)"
    )
    several = " -fopenmp goes into ld_flags too." if keys.threads > 1 else ""
    lines = [
        f"C++: {' '.join(DEFAULT)}; cflags of your own come after these and win, for instance {fast}."
        f"{several} The compiler is the machine's c++, else g++, else clang++; its errors and warnings"
        " are in the answer's `build`, its version and torch's in the brief's `calibration.toolchain`.",
        "Intrinsics, prefetch and non-temporal stores are fine; reading a clock is noted, not refused.",
        "A call is timed from outside, from waking your process until it has stopped again: what"
        " Python and torch do around the arithmetic counts.",
    ]
    return "BUILD AND CLOCK\n" + _listed(lines)


def _compiled_for_gpu() -> str:
    lines = [
        "nvcc -std=c++17 -O3 for the device's own architecture (sm_90a on Hopper): give no -arch. cuda_cflags may add --use_fast_math, --maxrregcount=N, --fmad=false,"
        " -Xptxas=-dlcm=cg, -lineinfo, --extended-lambda, -D and -I of a folder of yours.",
        "The toolkit's headers (<cuda.h>, <mma.h>, CUB) and inline PTX work; CUTLASS is not there.",
        "The CUDA runtime is linked, the driver is not: get its functions by"
        " cudaGetDriverEntryPointByVersion (template tma_tile). cuBLAS and cuDNN: through torch.",
        "Registers, shared memory and spills of each kernel are in the answer's `build`; versions of nvcc,"
        " torch, Triton and the driver in the brief's `calibration.toolchain`.",
    ]
    return "BUILD (cuda)\n" + _listed(lines)


def _streams() -> str:
    lines = [
        "Launch on the default stream (torch's current one) and return without waiting: a call's"
        " launches are queued before the clock starts, and the time is the device's. What waits inside"
        " (.item(), .cpu(), synchronise) is timed with the host in it.",
        "Other streams must fork from and join the default one by events before run returns.",
    ]
    return "STREAMS AND CLOCK\n" + _listed(lines)


def _life(definition: Definition, warmup_calls: int, gpu: bool) -> str:
    names = ", ".join(n for n in definition.kernelarc.static_inputs if n in definition.inputs)
    keep = "workspaces, tables by shape"
    keep += ", CUDA graphs and tensor maps (TMA) by pointer and shape" if gpu else ""
    lines = [
        "Your code is loaded again and again in fresh processes. In each, every workload is first"
        f" called {warmup_calls} times or more untimed and checked, so compiling, tuning by shape and"
        " allocating at load or in these calls is free; loading and the first call of each workload have"
        " limits.load_seconds each.",
        f"Keep what does not depend on values: {keep}. Tensors may come at the same addresses with new"
        " values.",
    ]
    if names:
        lines.append(
            f"{names}: static, changes seldom but does change. What you prepare from it must be keyed"
            " by the tensor's `_version` (Python, torch) or made anew in each call."
        )
    return "WHAT MAY BE KEPT\n" + _listed(lines)
