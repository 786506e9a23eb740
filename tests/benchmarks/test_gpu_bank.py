"""The A/A study on a GPU: delays in the source, and virtual submissions from a bank of pairs."""

import argparse
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu_aa import PLANTED, Cycles, Task, left, planned
from benchmarks.gpu_aa_report import write_report
from benchmarks.gpu_bank import Bank, Unit, append_unit, banks
from benchmarks.gpu_subjects import subjects, with_wait
from benchmarks.submissions import Calibrations, submit
from kernelarc_guard.decide import Parameters
from kernelarc_guard.protocol import BlockTimes, PairTimes

KERNEL = "#include <a.h>\n\n__global__ void f(int n) {\n  g(n);\n}\n"
PARAMETERS = Parameters()


def unit(planted: float, gains: list[float]) -> Unit:
    """Return a nursery whose pairs have these values (percent), in blocks that differ a little."""
    pairs = []
    for gain in gains:
        blocks = []
        for block in range(8):
            record = round(1e6 * math.exp((gain + 0.01 * block) / 100))
            blocks.append(BlockTimes(record=[[record] * 3], candidate=[[1_000_000] * 3]))
        pairs.append(PairTimes(record_first=True, blocks=blocks))
    return Unit(
        subject="gemm",
        planted=planted,
        cycles=0,
        device="cuda:0",
        at=f"2026-11-30T0{planted:g}",
        seconds=1.0,
        pairs=pairs,
    )


def test_a_wait_is_at_the_end_of_the_kernel_and_nowhere_else() -> None:
    text = with_wait(KERNEL, 750)
    assert "  g(n);\n  planted_wait();\n}\n" in text
    assert text.count("planted_wait();") == 1
    assert "clock64() - begin < 750LL" in text
    assert text.index("planted_blocks") > text.index("#include")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (KERNEL.replace("g(n);", "if (n) return;"), "returns early"),
        ("#include <a.h>\n", "0 kernels"),
        (KERNEL + KERNEL, "2 kernels"),
    ],
)
def test_a_kernel_whose_end_cannot_be_found_is_refused(source: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        with_wait(source, 1)


def test_every_subject_can_be_delayed_and_differs_only_by_the_delay() -> None:
    for subject in subjects().values():
        assert len(subject.problem.workloads) == 1
        plain, delayed = (subject.planted(cycles).sources[0].content for cycles in (0, 10))
        assert plain.replace("< 0LL", "< 10LL") == delayed


def test_pairs_are_drawn_whole_from_their_own_bank() -> None:
    found = banks([unit(0.0, [-0.3, 0.1]), unit(0.0, [0.2]), unit(2.0, [2.1, 1.9])])
    same, delayed = found["gemm", 0.0], found["gemm", 2.0]
    assert [len(nursery) for nursery in same.nurseries] == [2, 1]
    drawn = same.pairs(np.random.default_rng(1), 50, 4, 1)
    assert set(np.round(drawn.ravel(), 3)) == {-0.3, 0.1, 0.2}
    assert delayed.pairs(np.random.default_rng(1), 5, 4, 8).min() > 1.8


def test_a_bank_without_a_gain_is_never_kept_and_a_large_one_always() -> None:
    rng = np.random.default_rng(3)
    units = [unit(0.0, list(rng.normal(0, 0.3, 8))) for _ in range(3)]
    same = Bank(tuple(units))
    delayed = Bank((unit(5.0, list(rng.normal(5, 0.3, 8))),))
    calibration = same.whole_calibration(PARAMETERS)
    held = Calibrations.of([calibration]).pick(np.zeros(200, np.int64))
    assert not submit(same, rng, np.zeros(200), held).keep.any()
    assert submit(delayed, rng, np.zeros(200), held).keep.all()


def asked(bank: Path, **more: object) -> argparse.Namespace:
    """Return the options of a small study of one kernel."""
    options = {
        "bank": bank,
        "device": "cuda:0",
        "lane": "1/1",
        "subject": ["gemm"],
        "what": "same,real,planted",
        "nurseries": 3,
        "pairs": 17,
        "planted_pairs": 6,
        "real": 2,
    }
    return argparse.Namespace(**(options | more))


def test_two_lanes_share_the_work_of_one(tmp_path: Path) -> None:
    whole = list(planned(asked(tmp_path)))
    lanes = [task for lane in ("1/2", "2/2") for task in planned(asked(tmp_path, lane=lane))]
    assert len(whole) == 3 * (1 + 2 + len(PLANTED))
    assert sorted(map(repr, lanes)) == sorted(map(repr, whole))
    assert whole[0] == Task("gemm", 0.0, 17)


def test_a_study_goes_on_where_its_bank_ends(tmp_path: Path) -> None:
    append_unit(tmp_path / "bank-cuda0.jsonl", unit(0.0, [0.1, 0.2]))
    append_unit(tmp_path / "bank-cuda1.jsonl", unit(2.0, [2.1, 2.2]))
    tasks = left(asked(tmp_path))
    assert len(tasks) == 3 * (1 + 2 + len(PLANTED)) - 2
    assert (
        sum(task.planted == 0.0 for task in tasks)
        == sum(task.planted == 2.0 for task in tasks)
        == 2
    )


def test_a_delay_is_the_one_that_the_bank_has_already(tmp_path: Path) -> None:
    before = unit(2.0, [2.0, 2.0]).model_copy(update={"cycles": 71})
    append_unit(tmp_path / "bank-cuda0.jsonl", before)
    cycles = Cycles(asked(tmp_path))
    assert cycles.of(Task("gemm", 2.0, 6)) == 71
    assert cycles.of(Task("gemm", 0.0, 17)) == 0
    with pytest.raises(SystemExit, match="measure it against itself first"):
        cycles.of(Task("gemm", 1.0, 6))


def test_a_report_has_noise_false_keeps_and_power(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    for planted in (0.0, 5.0):
        for _ in range(3):
            gains = list(rng.normal(planted, 0.3, 8))
            append_unit(tmp_path / "bank-cuda0.jsonl", unit(planted, gains))
    write_report(tmp_path, tmp_path / "out", 300)
    text = (tmp_path / "out" / "h200_aa_tables.md").read_text()
    for title in ("noise", "false KEEPs", "power"):
        assert f"## {title}" in text
    assert "100.0 (98.8 to 100.0)" in text
