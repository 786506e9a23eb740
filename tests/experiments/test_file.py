"""An experiment's file: what it may say, and what it is told where it says something else."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from kernelarc_mcp.data import data_dir
from kernelarc_mcp.experiments.file import (
    NEVER,
    Arm,
    Experiment,
    ExperimentError,
    filled,
    read_experiment,
    settings_of,
)
from kernelarc_mcp.experiments.folder import begun, check_same, runs_of

SINGLE = {"name": "single", "agents": 1, "memory": "private"}
TWO = {"name": "two", "agents": 2, "memory": "bounded", "records": 3}
WHOLE = {"name": "small", "problem": "rmsnorm", "attempts": 10, "runs": 2, "arms": [SINGLE, TWO]}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "small.yaml"
    path.write_text(yaml.safe_dump(WHOLE | changes))
    return path


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"attempts": 0}, "attempts: Input should be greater than or equal to 1"),
        ({"arms": []}, "arms: List should have at least 1 item"),
        ({"arms": [SINGLE, SINGLE]}, "arms: 'single' is there twice; expected different names"),
        ({"arms": [SINGLE | {"agents": 2}]}, "arms.0: memory: private is one agent's own"),
        ({"arms": [SINGLE | {"memory": "none"}]}, "arms.0.memory: Input should be 'private',"),
        ({"arms": [SINGLE | {"lenses": 1}]}, "arms.0.lenses: Extra inputs are not permitted"),
        ({"arms": [SINGLE | {"name": "no spaces"}]}, "arms: name: 'no spaces': 1 to 40 letters"),
        ({"arms": [SINGLE | {"name": "x" * 31}]}, "expected 30 letters at most"),
        ({"device": "gpu"}, "device: 'gpu': expected cpu or cuda:N, for instance cuda:0"),
        ({"seeds": [1]}, "seeds: expected 2 different ones, one for each run"),
        ({"client": ["go", "{who}"]}, "client: {who} stands for nothing; expected {python},"),
        ({"client": []}, "client: expected a program and its arguments"),
        (
            {"attempts": NEVER + 1, "arms": [SINGLE | {"drafting": False}]},
            "drafting: off needs attempts of at most 1000",
        ),
    ],
)
def test_a_mistake_is_told_with_file_field_and_expectation(
    changes: dict[str, object], said: str, tmp_path: Path
) -> None:
    path = written(tmp_path, **changes)
    with pytest.raises(ExperimentError) as raised:
        read_experiment(path)
    assert str(raised.value).startswith(f"{path}: ") and said in str(raised.value)


@pytest.mark.parametrize("text", ["a: [", "just words", "- a\n- b"])
def test_what_is_no_experiment_at_all_is_told_so(text: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ExperimentError, match="is no YAML|expected fields"):
        read_experiment(path)
    with pytest.raises(ExperimentError, match="cannot be read: No such file"):
        read_experiment(tmp_path / "none.yaml")


def test_an_arms_words_become_its_campaigns_settings() -> None:
    experiment = Experiment.model_validate(
        WHOLE | {"settings": {"parameters": {"target": 5}, "r_draft": 7}}
    )
    two = Arm.model_validate(
        TWO | {"board": False, "lens": False, "settings": {"parameters": {"delta": 2}}}
    )
    settings = settings_of(experiment, two, "rmsnorm", 2, ["first", "second"])
    assert settings.name == "two-2" and settings.agents == ["agent-1", "agent-2"]
    assert [settings.share(n) for n in range(2)] == [5, 5]
    assert str(settings.memory_retention()) == str(settings.memory_retention().bounded(3))
    assert settings.snapshots == "never" and settings.lenses == ["first"]
    assert settings.r_draft == 7
    assert (settings.parameters.target, settings.parameters.delta) == (5, 2)
    assert settings.parameters.blocks_screen == 2  # a CPU's own, not the model's
    still = Arm.model_validate(SINGLE | {"drafting": False})
    quiet = settings_of(Experiment.model_validate(WHOLE), still, "rmsnorm", 1, ["first"])
    assert quiet.r_draft == NEVER and quiet.retention == "unbounded" and quiet.lenses == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"attempts": 5}, "arms: single: settings.attempts: the experiment's own field"),
        ({"memory": "/m.db"}, "would carry one run's conclusions into the next"),
        ({"r_draft": 0}, "arms: single: settings: r_draft: Input should be greater"),
        ({"schedule": 3}, "settings.schedule: expected fields with values"),
        ({"parameters": {"delta": -1}}, "settings: parameters.delta: Input should be greater"),
    ],
)
def test_a_setting_that_is_not_possible_is_told_with_its_arm(
    settings: dict[str, object], said: str
) -> None:
    experiment = Experiment.model_validate(WHOLE | {"settings": settings})
    with pytest.raises(ExperimentError) as raised:
        settings_of(experiment, experiment.arms[0], "rmsnorm", 1, ["first"])
    assert said in str(raised.value)


def test_arms_take_turns_in_time_and_in_who_is_first(tmp_path: Path) -> None:
    experiment = Experiment.model_validate(WHOLE | {"seeds": [11, 5]})
    assert [(run.arm.name, run.number, run.seed) for run in runs_of(experiment, tmp_path)] == [
        ("single", 1, 11),
        ("two", 1, 11),
        ("two", 2, 5),
        ("single", 2, 5),
    ]


def test_a_directory_goes_on_with_its_own_experiment_only(tmp_path: Path) -> None:
    place = tmp_path / "runs"
    experiment = Experiment.model_validate(WHOLE)
    with pytest.raises(ExperimentError, match="no run was begun here"):
        check_same(place, experiment)
    with begun(place, experiment):
        with pytest.raises(ExperimentError, match="another process runs this"):
            with begun(place, experiment):
                pass
    more = Experiment.model_validate(WHOLE | {"runs": 3})
    with begun(place, more):
        check_same(place, more)
    other = Experiment.model_validate(WHOLE | {"attempts": 11})
    with pytest.raises(ExperimentError, match="begun with other attempts; expected the same"):
        with begun(place, other):
            pass
    seeded = Experiment.model_validate(WHOLE | {"seeds": [4, 5]})
    with pytest.raises(ExperimentError, match=r"begun with seeds \[1, 2, 3\]"):
        check_same(place, seeded)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(ExperimentError, match="not empty, and no experiment's directory"):
        with begun(tmp_path / "mine", experiment):
            pass


def test_placeholders_of_a_client_are_filled() -> None:
    values = {"url": "http://here/mcp", "seed": "7"}
    assert filled(["go", "--at={url}", "{seed}{seed}"], values) == [
        "go",
        "--at=http://here/mcp",
        "77",
    ]


def test_the_ablation_script_writes_an_experiment_that_is_read(tmp_path: Path) -> None:
    script = data_dir("clients") / "ablation.py"
    place = tmp_path / "runs"
    done = subprocess.run(
        [sys.executable, str(script), "--problem", "nowhere", "--dir", str(place), "--more"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    # There is no such problem: the file is written, and its command says what is wrong.
    assert done.returncode == 2 and "'nowhere' is no folder and no library problem" in done.stderr
    experiment = read_experiment(tmp_path / "runs.yaml")
    assert [arm.name for arm in experiment.arms][:3] == ["single", "bounded", "unbounded"]
    assert {arm.agents for arm in experiment.arms} == {1, 2, 4} and experiment.attempts == 100
