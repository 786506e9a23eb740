"""Compile every CUDA template of `strategies/templates` and, with --run, check all of them on a GPU.

    python benchmarks/pattern_templates.py            nvcc, for a Hopper (sm_90a)
    python benchmarks/pattern_templates.py --architecture 100a    for a Blackwell, without those
                                                                  whose first line names sm_90a
    python benchmarks/pattern_templates.py --run      on a machine with one, torch and triton

Prints a row for each template: seconds to compile, registers and spills of its kernels, and the
largest error against torch. Exit status 1 where one does not compile or is wrong.
"""

import argparse
import ctypes
import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "strategies" / "templates"
HOPPER = "90a"


def cuda_templates(architecture: str) -> list[Path]:
    """Return the templates that nvcc compiles for an architecture, as in ``90a``."""
    found = sorted(FOLDER.glob("*.cu"))
    if architecture == HOPPER:
        return found
    return [one for one in found if f"sm_{HOPPER}" not in one.read_text().partition("\n")[0]]


def compile_template(source: Path, target: Path, architecture: str) -> str:
    """Compile one as the guard does and return what the assembler said; RuntimeError on a fault."""
    command = ["nvcc", f"-gencode=arch=compute_{architecture},code=sm_{architecture}"]
    command += ["-std=c++17", "-O3", "-Xptxas=-v", "-shared", "-Xcompiler=-fPIC"]
    done = subprocess.run(
        [*command, str(source), "-o", str(target)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout + done.stderr


def resources(said: str) -> str:
    """Return the registers of each kernel and whether anything spilled."""
    registers = "/".join(re.findall(r"Used (\d+) registers", said))
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", said)))
    return f"{registers} registers, {spilled} bytes spilled"


def main() -> int:
    """Compile all, run all where asked, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--run", action="store_true", help="check the numbers on this GPU")
    parser.add_argument("--architecture", default=HOPPER, help="such as 90a or 100a")
    asked = parser.parse_args()
    checks = _checks() if asked.run else {}
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for source in cuda_templates(asked.architecture):
            target = Path(folder) / f"{source.stem}.so"
            started = time.perf_counter()
            try:
                said = compile_template(source, target, asked.architecture)
            except RuntimeError as error:
                failed += 1
                print(f"{source.name}: does not compile\n{error}")
                continue
            row = f"{source.name:22} {time.perf_counter() - started:5.1f} s  {resources(said)}"
            if checks:
                launch = getattr(ctypes.CDLL(str(target)), source.stem)
                row, wrong = _checked(row, checks[source.stem], launch)
                failed += wrong
            print(row, flush=True)
        for path in sorted(FOLDER.glob("*.py")) if checks else []:
            row, wrong = _checked(f"{path.name:22}", checks[path.stem], _module(path))
            failed += wrong
            print(row, flush=True)
    return 1 if failed else 0


def _checked(row: str, check: Callable[[Any], float], subject: Any) -> tuple[str, int]:
    error = check(subject)
    return f"{row}  error {error:.2e}" + ("" if error < 1 else "  WRONG"), int(not error < 1)


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _checks() -> dict[str, Callable[[Any], float]]:
    """Return, by template, what compares it with torch: the error in units of what is allowed."""
    import torch

    gpu = torch.device("cuda:0")
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False

    def call(launch: Any, *given: Any) -> None:
        status = launch(*(_passed(one) for one in given))
        torch.cuda.synchronize()
        assert status == 0, f"CUDA error {status}"

    def apart(got: Any, want: Any, allowed: float) -> float:
        assert bool(torch.isfinite(got).all())
        return float((got.double() - want.double()).abs().max()) / allowed

    def normal(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.randn(*shape, device=gpu).to(dtype)

    def wide_loads(launch: Any) -> float:
        x = normal(1_000_003)
        y = torch.full_like(x, torch.nan)
        call(launch, x, y, ctypes.c_int64(x.numel()))
        return apart(y, 2 * x + 1, 1e-5)

    def transpose_tile(launch: Any) -> float:
        x = normal(1000, 333)
        y = torch.full((333, 1000), torch.nan, device=gpu)
        call(launch, x, y, ctypes.c_int64(1000), ctypes.c_int64(333))
        return apart(y, x.t(), 1e-9)

    def add_norm_rows(launch: Any) -> float:
        worst = 0.0
        for columns in (1024, 4096, 5120):
            x, residual = (normal(300, columns, dtype=torch.bfloat16) for _ in range(2))
            weight = normal(columns, dtype=torch.bfloat16)
            total, y = torch.empty_like(x), torch.full_like(x, torch.nan)
            rows = (ctypes.c_int64(300), ctypes.c_int64(columns), ctypes.c_float(1e-6))
            call(launch, x, residual, weight, total, y, *rows)
            wanted = (x + residual).float()
            scale = torch.rsqrt(wanted.square().mean(-1, keepdim=True) + 1e-6)
            worst = max(worst, apart(total, wanted, 1e-9))
            worst = max(worst, apart(y, wanted * scale * weight.float(), 0.06))
        return worst

    def block_scale(launch: Any) -> float:
        x = normal(64, 128) * torch.logspace(-3, 3, 64, device=gpu)[:, None]
        x[5] = 0
        y = torch.empty(64, 128, device=gpu, dtype=torch.float8_e4m3fn)
        scales = torch.empty(64, device=gpu)
        call(launch, x, y, scales, ctypes.c_int64(x.numel()))
        relative = (y.float() * scales[:, None] - x) / x.abs().amax(-1, keepdim=True).clamp(min=1)
        return float(relative.abs().max()) / 0.04

    def product(rows: int, columns: int) -> Callable[[Any], float]:
        def check(launch: Any) -> float:
            a, b = (normal(n, 512, dtype=torch.bfloat16) for n in (rows, columns))
            c = torch.full((rows, columns), torch.nan, device=gpu)
            call(launch, a, b, c, ctypes.c_int(512))
            return apart(c, a.double() @ b.double().t(), 1e-3)

        return check

    def bulk_copy(launch: Any) -> float:
        x = normal(2048 * 1001)
        partial = torch.zeros(132, device=gpu)
        call(launch, x, partial, ctypes.c_int64(x.numel()), ctypes.c_int(132))
        return apart(partial.sum(), x.double().sum(), 0.5)

    def tma_tile(launch: Any) -> float:
        worst = 0.0
        for rows, columns in ((64, 64), (300, 1000)):  # the second hangs over both edges
            x = normal(rows, columns, dtype=torch.bfloat16)
            y = torch.full_like(x, torch.nan)
            call(launch, x, y, ctypes.c_int64(rows), ctypes.c_int64(columns))
            worst = max(worst, apart(y, x, 1e-9))
        return worst

    def async_ring(launch: Any) -> float:
        worst = 0.0
        for columns in (512, 1024, 8192):
            a, x = normal(200, columns), normal(columns)
            y = torch.full((200,), torch.nan, device=gpu)
            call(launch, a, x, y, ctypes.c_int64(200), ctypes.c_int64(columns))
            worst = max(worst, apart(y, a.double() @ x.double(), 1e-3))
        return worst

    def radix_select(launch: Any) -> float:
        x = normal(50, 5000)
        x[:, :40] = x[:, 40:80]  # ties
        values = torch.empty(50, 8, device=gpu)
        columns = torch.empty(50, 8, device=gpu, dtype=torch.int32)
        call(launch, x, values, columns, ctypes.c_int64(50), ctypes.c_int(5000), ctypes.c_int(8))
        right = bool((x.gather(1, columns.long()) == values).all())
        right &= all(len(set(row)) == 8 for row in columns.tolist())
        wanted = x.topk(8).values
        return apart(values.sort(descending=True).values, wanted, 1e-9) if right else 9.0

    def split_rows(launch: Any) -> float:
        x = normal(3, 100_000)
        x[1] = -torch.inf
        x[1, 7] = 2.0
        partial = torch.empty(3, 40, 2, device=gpu)
        finished = torch.zeros(3, device=gpu, dtype=torch.int32)
        worst = 0.0
        for _ in range(2):
            y = torch.full((3,), torch.nan, device=gpu)
            sizes = (ctypes.c_int64(3), ctypes.c_int64(100_000), ctypes.c_int(40))
            call(launch, x, partial, finished, y, *sizes)
            worst = max(worst, apart(y, x.double().logsumexp(-1), 1e-4))
        return worst

    def by_shape(launch: Any) -> float:
        worst = 0.0
        for rows, columns in ((5000, 100), (7, 9000)):
            x = normal(rows, columns)
            y = torch.full((rows,), torch.nan, device=gpu)
            call(launch, x, y, ctypes.c_int64(rows), ctypes.c_int64(columns))
            worst = max(worst, apart(y, x.double().sum(-1), 1e-3))
        return worst

    def online_rows(module: Any) -> float:
        worst = 0.0
        for columns in (100, 50_001):
            x = normal(20, columns)
            y = torch.full_like(x, torch.nan)
            module.run(x, y)
            worst = max(worst, apart(y, x.double().softmax(-1), 1e-6))
        return worst

    def tuned_product(module: Any) -> float:
        a, b = normal(333, 200, dtype=torch.bfloat16), normal(200, 120, dtype=torch.bfloat16)
        c = torch.full((333, 120), torch.nan, device=gpu, dtype=torch.bfloat16)
        module.run(a, b, c)
        return apart(c, a.double() @ b.double(), 0.4)

    def persistent_rows(module: Any) -> float:
        worst = 0.0
        for rows, columns in ((20_000, 128), (3, 5000)):
            x, weight = normal(rows, columns), normal(columns)
            y = torch.full_like(x, torch.nan)
            module.run(x, weight, y)
            scale = torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-6)
            worst = max(worst, apart(y, x.double() * scale * weight, 1e-4))
        return worst

    def addmm_table(module: Any) -> float:
        worst = 0.0
        for rows in (4, 100, 500):
            x, weight, residual = normal(rows, 512), normal(512, 64), normal(rows, 64)
            y = torch.full((rows, 64), torch.nan, device=gpu)
            module.run(x, weight, residual, y)
            worst = max(worst, apart(y, residual.double() + x.double() @ weight.double(), 1e-3))
        return worst

    def split_k_bmm(module: Any) -> float:
        x, weight = normal(8, 4096), normal(4096, 128)
        return apart(module.run(x, weight), x.double() @ weight.double(), 1e-2)

    return {
        "wide_loads": wide_loads,
        "transpose_tile": transpose_tile,
        "add_norm_rows": add_norm_rows,
        "block_scale": block_scale,
        "bulk_copy": bulk_copy,
        "tma_tile": tma_tile,
        "async_ring": async_ring,
        "radix_select": radix_select,
        "split_rows": split_rows,
        "by_shape": by_shape,
        "mma_tile": product(16, 8),
        "wgmma_tile": product(64, 64),
        "online_rows": online_rows,
        "tuned_product": tuned_product,
        "persistent_rows": persistent_rows,
        "addmm_table": addmm_table,
        "split_k_bmm": split_k_bmm,
    }


def _passed(given: Any) -> Any:
    """Return an argument for C: a tensor's address, or the number as it is."""
    return ctypes.c_void_p(given.data_ptr()) if hasattr(given, "data_ptr") else given


if __name__ == "__main__":
    sys.exit(main())
