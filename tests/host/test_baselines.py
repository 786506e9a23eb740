"""Lines to beat: what they are on each device, and that each is judged once."""

from pathlib import Path

import pytest
import torch
from host_places import (
    judge_all,
    make_campaign_with_seed,
    make_problem,
    make_settings,
    opened,
    scripted_guard,
)

from kernelarc_guard.policy import examine
from kernelarc_guard.problem import read_problem
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.baselines import TUNED, compiled_solution, line_detail, lines_to_beat
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.verify import verify


@pytest.mark.parametrize(
    ("device", "names"),
    [("cpu", ["seed", "reference"]), ("cuda:0", ["seed", "reference", "torch.compile"])],
)
def test_each_line_to_beat_is_judged_once(tmp_path: Path, device: str, names: list[str]) -> None:
    folder = tmp_path / "campaign"
    make_campaign_with_seed(folder, device=device)
    guard = scripted_guard(tmp_path)
    judge_all(folder, guard)
    judge_all(folder, guard)
    with opened(folder) as host:
        assert [line.name for line in host.board().baselines] == names
        kinds = [row.kind for row in host.campaign.journal.ledger.rows_after(0)]
        assert kinds.count("baselined") == len(names) - 1
    assert verify(folder) == []


def test_what_torch_compiles_is_the_reference_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    definition = make_problem().definition
    solution = compiled_solution(definition)
    assert examine(solution, definition).findings == []
    compiled: list[object] = []

    def compile(run: object) -> object:
        compiled.append(run)
        return run

    monkeypatch.setattr(torch, "compile", compile)
    names: dict[str, object] = {}
    exec(solution.sources[0].content, names)
    assert compiled == [names["run"]]


@pytest.mark.parametrize(
    ("device", "names"),
    [("cpu", []), ("cuda:0", ["torch.compile", "cuBLASLt autotuned"])],
)
def test_a_product_on_a_gpu_is_also_compared_with_an_autotuned_library(
    tmp_path: Path, device: str, names: list[str]
) -> None:
    folder = tmp_path / "campaign"
    problem = read_problem(data_dir("kernels") / "gemm_bf16")
    Host.create(folder, make_settings(problem="gemm_bf16", device=device), problem, None)
    judge_all(folder, scripted_guard(tmp_path))
    with opened(folder) as host:
        assert [line.name for line in host.board().baselines] == [
            "seed",
            *names,
            "reference",
        ]
        with host.campaign.journal.reading() as state:
            created = state.campaign
    assert (TUNED in lines_to_beat(created)) == (device == "cuda:0")
    assert "nvmath-python" in line_detail(created, TUNED)
    assert verify(folder) == []


def test_a_campaign_may_do_without_lines_to_beat(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    problem = read_problem(data_dir("kernels") / "gemm_bf16")
    settings = make_settings(problem="gemm_bf16", device="cuda:0").model_copy(
        update={"lines_to_beat": False}
    )
    Host.create(folder, settings, problem, None)
    judge_all(folder, scripted_guard(tmp_path))
    with opened(folder) as host:
        names = [line.name for line in host.board().baselines]
    assert names == ["seed", "reference"]  # which is the seed here
    assert verify(folder) == []
