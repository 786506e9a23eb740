"""Lines to beat: what they are on each device, and that each is judged once."""

from pathlib import Path

import pytest
import torch
from host_places import judge_all, make_campaign_with_seed, make_problem, opened, scripted_guard

from kernelarc_guard.policy import examine
from kernelarc_mcp.host.baselines import compiled_solution
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
