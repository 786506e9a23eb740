"""Reading what a profiler and disassemblers print, and what class a call is of."""

from pathlib import Path

import pytest

from kernelarc_guard.assembly import read_assembly
from kernelarc_guard.bottleneck import of_kernels, of_shares, shares
from kernelarc_guard.cuda.ncu import (
    Ncu,
    installation,
    profiling_command,
    read_table,
    refusal,
    table_command,
)
from kernelarc_guard.cuda.sass import read_sass
from kernelarc_guard.machine_code import difference
from kernelarc_guard.profile_model import KernelFacts, MachineCode

DATA = Path(__file__).parent.parent / "data" / "profiles"


def text(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def test_a_table_gives_each_kernel_once_with_the_facts_of_its_longest_launch() -> None:
    rows, tail = read_table(text("bandwidth.csv"))
    assert (rows.name, rows.launches) == ("scale_rows<float, 4>", 2)
    assert rows.microseconds == pytest.approx(28.14)
    assert (rows.dram_percent, rows.l2_hit_percent) == (88.4, 50.1)
    assert rows.dram_bytes == 67_108_864
    assert (rows.registers, rows.shared_bytes, rows.blocks, rows.threads) == (32, 0, 1024, 256)
    assert rows.limiter == "registers and warps", "a limit of 0 is no limit"
    assert list(rows.stalls.items()) == [("long_scoreboard", 18.2), ("wait", 2.1), ("barrier", 0.4)]
    assert (tail.name, tail.launches) == ("reduce_tail", 1)


def test_units_with_a_prefix_are_read_as_base_units() -> None:
    (one,) = read_table(text("matrix.csv"))
    assert one.name == "matmul_ws<(int)128, (int)256>"
    assert one.microseconds == pytest.approx(178.336)
    assert one.dram_bytes == pytest.approx(100_663_296)
    assert one.shared_bytes == 1_056 + 212_992
    assert one.matrix_percent == 79.6
    assert one.stalls["gmma"] == 4.75


def test_numbers_that_are_none_and_names_without_end_are_left_out() -> None:
    table = text("bandwidth.csv")
    for odd in ("inf", "nan", "1e400"):
        (first, *_) = read_table(table.replace('"1,024","256"', f'"{odd}","256"'))
        assert first.blocks is None
    endless = table.replace("stalled_wait_per", f"stalled_{'w' * 5000}_per")
    assert all(len(name) <= 40 for one in read_table(endless) for name in one.stalls)


@pytest.mark.parametrize(
    "broken",
    ["", "==ERROR== nothing\n", '"ID","Kernel Name"\n"",""\n', '"Kernel Name"\n""\n"a","b"\n'],
)
def test_what_is_no_table_is_refused(broken: str) -> None:
    with pytest.raises(ValueError, match="the profiler's table has"):
        read_table(broken)


@pytest.mark.parametrize(
    ("table", "call_us", "expected", "said"),
    [
        ("bandwidth.csv", None, "bandwidth-bound", "DRAM is at 88 %"),
        ("bandwidth.csv", 80.0, "launch-bound", "of the call's 80.0 us"),
        ("matrix.csv", 185.0, "matrix-bound", "busy 80 %"),
        ("launches.csv", None, "launch-bound", "5 launches of 1.9 us"),
    ],
)
def test_a_call_is_of_the_class_that_its_counters_say(
    table: str, call_us: float | None, expected: str, said: str
) -> None:
    found = of_kernels(read_table(text(table)), call_us)
    assert found.bottleneck == expected
    assert said in found.why


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (
            {"compute_percent": 85.0, "matrix_percent": 0.0, "dram_percent": 10.0},
            "arithmetic-bound",
        ),
        ({"compute_percent": 30.0, "dram_percent": 20.0}, "latency-bound"),
        (
            {"memory_percent": 80.0, "l2_percent": 79.0, "compute_percent": 40.0},
            "bandwidth-bound",
        ),
    ],
)
def test_a_long_kernel_is_told_by_the_roof_that_it_is_near(
    facts: dict[str, float], expected: str
) -> None:
    kernel = KernelFacts.model_validate({"name": "k", "microseconds": 100.0, **facts})
    assert of_kernels([kernel], 110.0).bottleneck == expected


def test_without_kernels_nothing_is_known() -> None:
    assert of_kernels([], None).bottleneck == "unknown"
    assert shares([]) == {}


def test_shares_of_roofs_are_weighted_by_the_kernels_time() -> None:
    slow = KernelFacts(name="a", microseconds=30.0, dram_percent=80.0)
    fast = KernelFacts(name="b", microseconds=10.0, dram_percent=40.0)
    assert shares([slow, fast]) == {"dram": 0.7}


@pytest.mark.parametrize(
    ("memory", "matrix", "call_us", "expected"),
    [
        (0.8, 0.1, 500.0, "bandwidth-bound"),
        (0.3, 0.7, 500.0, "matrix-bound"),
        (0.2, None, 500.0, "unknown"),
        (None, None, 500.0, "unknown"),
        (0.8, 0.1, 20.0, "launch-bound"),
    ],
)
def test_on_a_cpu_a_class_needs_a_rate_that_is_near(
    memory: float | None, matrix: float | None, call_us: float, expected: str
) -> None:
    assert of_shares(memory, matrix, call_us, 9.0).bottleneck == expected


def test_machine_code_of_a_gpu_is_counted_by_what_matters() -> None:
    code = read_sass(text("sm90.sass.txt"))
    assert code.matrix == {"HGMMA": 2, "HMMA": 1}
    assert code.loads == {"128": 1, "32": 1, "16": 1, "LDGSTS": 1, "UTMALDG": 1}
    assert code.stores == {"64": 1, "UTMASTG": 1}
    assert (code.spill_loads, code.spill_stores) == (1, 1)
    assert code.other == {"FFMA": 1, "MUFU": 1, "BAR": 1, "SYNCS": 1}
    assert code.instructions == 21, "padding is not counted"
    assert read_sass("no machine code here") == MachineCode()


def test_machine_code_of_a_cpu_is_counted_by_the_width_of_its_vectors() -> None:
    code = read_assembly(text("x86.asm.txt"))
    assert code.loads == {"512": 1, "256": 1, "128": 1}
    assert code.stores == {"512": 1}
    assert (code.spill_loads, code.spill_stores) == (1, 1)
    assert code.other == {"fma": 1, "divide": 1, "call": 1}
    assert code.instructions == 11


def test_what_differs_between_two_solutions_comes_with_the_largest_change_first() -> None:
    record = MachineCode(instructions=100, loads={"32": 8}, matrix={"HMMA": 4})
    candidate = MachineCode(instructions=180, loads={"128": 2}, matrix={"HGMMA": 4}, spill_loads=1)
    assert difference(record, candidate) == {
        "instructions": "100 -> 180",
        "load 32": "8 -> 0",
        "HGMMA": "0 -> 4",
        "HMMA": "4 -> 0",
        "load 128": "0 -> 2",
        "spill loads": "0 -> 1",
    }
    assert difference(record, record) == {}


def test_the_profiler_leaves_clocks_alone_and_profiles_one_marked_call() -> None:
    ncu = Ncu("/opt/ncu/ncu", "/opt/ncu")
    command = profiling_command(ncu, "/out/report", ["python", "x.py"])
    assert command[command.index("--clock-control") + 1] == "none"
    assert command[command.index("--profile-from-start") + 1] == "off"
    assert command[-2:] == ["python", "x.py"]
    assert "--csv" in table_command(ncu, "/out/report")


@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("==ERROR== ERR_NVGPUCTRPERM - The user does not", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("==ERROR== Failed to initialize the profiler: LibraryNotLoaded", "kind of machine"),
        ("==WARNING== No kernels were profiled.", "launched no kernel"),
        ("==ERROR== Something new\nmore", "the profiler failed: Something new"),
        ("==PROF== fine", ""),
    ],
)
def test_why_there_are_no_counters_is_said_in_words(output: str, said: str) -> None:
    assert said in refusal(output)
    assert bool(said) == bool(refusal(output))


def test_the_profilers_wholeinstallation_is_shown_wherever_its_program_was_found(
    tmp_path: Path,
) -> None:
    root = tmp_path / "2025.3"
    inner = root / "target" / "linux" / "ncu"
    inner.parent.mkdir(parents=True)
    for program in (inner, root / "ncu"):
        program.touch()
    expected = Ncu(str(root / "ncu"), str(root))
    assert installation(inner, tmp_path) == expected
    assert installation(Path("/usr/local/bin/ncu"), tmp_path) == expected
    alone = tmp_path / "alone"
    assert installation(alone / "ncu", tmp_path / "none") == Ncu(str(alone / "ncu"), str(alone))
