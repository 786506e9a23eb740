"""How a campaign searches, said on the command line or in a file."""

from pathlib import Path

import pytest
from command_line import Run
from host_places import make_campaign

from kernelarc_mcp.cli.console import counted
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.host import Host
from kernelarc_mcp.host.settings import CampaignSettings


def _settings(folder: Path) -> CampaignSettings:
    host = Host.open(folder)
    try:
        return host.settings
    finally:
        host.close()


def _new(run: Run, folder: Path, *options: str) -> tuple[int, str]:
    status, _, err = run("new", str(folder), "--problem", "softmax", *options)
    return status, err


def test_options_say_lenses_snapshots_retention_and_limits(run: Run, tmp_path: Path) -> None:
    told = ("--lens", "memory-layout", "--lens", "operator-fusion", "--snapshots", "always")
    limits = ("--retention", "4", "--wall-seconds", "3600", "--gpu-seconds", "900", "--money", "12")
    assert _new(run, tmp_path / "made", *told, *limits) == (0, "")
    made = _settings(tmp_path / "made")
    assert (made.lenses, made.snapshots) == (["memory-layout", "operator-fusion"], "always")
    assert (made.retention, made.retention_count) == ("bounded", 4)
    assert (made.wall_seconds, made.gpu_seconds, made.money) == (3600, 900, 12)


def test_a_file_says_any_setting_and_options_win_over_it(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "search.yaml"
    path.write_text(
        "agents: [ada, grace]\nattempts: 30\nr_draft: 2\nretention: horizon\nretention_hours: 2.5\n"
        "schedule: {calls: 7}\njudgement_seconds: 600\n"
    )
    status, err = _new(run, tmp_path / "made", "--settings", str(path), "--attempts", "12")
    assert (status, err) == (0, "")
    made = _settings(tmp_path / "made")
    assert (made.agents, made.attempts, made.r_draft) == (["ada", "grace"], 12, 2)
    assert (made.retention, made.retention_hours) == ("horizon", 2.5)
    assert (made.schedule.calls, made.judgement_seconds) == (7, 600)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attemps: 3\n", "attemps: no setting of a campaign; allowed: agents, attempts"),
        ("problem: softmax\n", "problem: not in a file, --problem names it"),
        ("attemps: 3\ndevice: cpu\nx: 1\n", "wall_seconds (and 2 more faults)"),
        ("device: cuda:0\nx: 1\n", "--device names it (and 1 more fault)"),
        (
            "attempts: none\nin_flight: 0\n",
            "valid integer, unable to parse string as an integer (and 1 more fault)",
        ),
        (
            "schedule: {cals: 7}\n",
            "schedule.cals: no such name; allowed: anchor_calls, build_seconds",
        ),
        ("schedule: 7\n", "schedule: expected names and values, as in {anchor_calls: ...}; names:"),
        ("parameters: {targets: 1}\n", "parameters.targets: no such name; allowed: "),
        ("agents: 0\n", "agents: expected names, as in [ada, grace], or a number from 1 to 64"),
        ("agents: true\n", "agents: expected names, as in [ada, grace], or a number"),
        ("lenses: speed\n", "search.yaml: lenses: expected a list, as in [ONE, TWO]"),
        ("- 3\n", "expected names and values, not list"),
        ("attempts: [\n", "while parsing"),
        ("attempts: none\n", "search.yaml: attempts: Input should be a valid integer"),
        ("in_flight: 0\n", "search.yaml: in_flight: Input should be greater than or equal to 1"),
        (
            "retention: horizon\n",
            "search.yaml: settings: retention: a horizon needs submissions, hours",
        ),
        ("lenses: [speed]\n", "there is no lens 'speed'; there are algorithm-substitution,"),
    ],
)
def test_a_mistake_in_the_file_names_what_and_where(
    run: Run, tmp_path: Path, text: str, expected: str
) -> None:
    path = tmp_path / "search.yaml"
    path.write_text(text)
    status, err = _new(run, tmp_path / "made", "--settings", str(path))
    assert status != 0
    assert expected in " ".join(err.split())
    assert not (tmp_path / "made" / "campaign.db").exists()


def test_one_thing_is_told_as_one(run: Run, tmp_path: Path) -> None:
    status, out, _ = run("new", str(tmp_path / "made"), "--problem", "softmax", "--attempts", "1")
    assert status == 0 and "  1 attempt\n" in out
    assert counted(2, "judged candidate") == "2 judged candidates"
    assert [counted(n, "nursery", "nurseries") for n in (0, 1)] == ["0 nurseries", "1 nursery"]


def test_a_file_may_say_how_many_agents_there_are(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "search.yaml"
    path.write_text("agents: 2\n")
    assert _new(run, tmp_path / "made", "--settings", str(path)) == (0, "")
    assert _settings(tmp_path / "made").agents == ["agent-1", "agent-2"]


def test_a_settings_file_that_cannot_be_read_is_told_so(run: Run, tmp_path: Path) -> None:
    for path, said in ((tmp_path / "gone.yaml", "no such file"), (tmp_path, "Is a directory")):
        status, err = _new(run, tmp_path / "made", "--settings", str(path))
        assert status == 2 and f"--settings {path}: " in err and said in err and "Errno" not in err


def test_a_mistake_in_an_option_that_wins_over_the_file_is_the_options(
    run: Run, tmp_path: Path
) -> None:
    path = tmp_path / "search.yaml"
    path.write_text("name: fine\nin_flight: 4\n")
    status, err = _new(run, tmp_path / "made", "--settings", str(path), "--name", "a b")
    assert status != 0 and "name: 'a b'" in err and str(path) not in err


def test_models_of_gpus_for_a_campaign_on_cpus_are_doubted_and_allowed_and_status_tells_them(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "search.yaml"
    path.write_text("device_model: NVIDIA H200\nextra_models: [NVIDIA H100]\nin_flight: 4\n")
    status, err = _new(run, tmp_path / "cpu", "--settings", str(path))
    assert status == 0 and "warning: NVIDIA H200 and NVIDIA H100: the campaign is judged on" in err
    assert "say --device cuda:0" in " ".join(err.split())
    assert _settings(tmp_path / "cpu").device_model == "NVIDIA H200"
    _, told, _ = run("status", str(tmp_path / "cpu"))
    said = "In a fleet: device_model NVIDIA H200; extra_models NVIDIA H100; in_flight 4"
    assert said in " ".join(told.split())
    monkeypatch.setattr("kernelarc_mcp.cli.campaign_options.gpus_here", lambda: 1)
    assert _new(run, tmp_path / "gpu", "--settings", str(path), "--device", "cuda:0") == (0, "")
    path.write_text("device_model: AMD EPYC 9654 96-Core Processor\n")
    assert _new(run, tmp_path / "epyc", "--settings", str(path)) == (0, "")
    _, told, _ = run("status", str(tmp_path / "epyc"))
    assert "extra_models" not in told and "in_flight" not in told


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:", "cuda:01", "CPU"])
def test_a_device_that_no_guard_knows_makes_no_campaign(
    run: Run, tmp_path: Path, name: str
) -> None:
    said = f"--device: '{name}': expected cpu or cuda:N"
    status, err = _new(run, tmp_path / "made", "--device", name)
    assert status == 2 and said in err
    assert not (tmp_path / "made").exists()
    solution = tmp_path / "kernel.py"
    solution.write_text("def run(x): return x\n")
    judging = ("evaluate", "--problem", "softmax", "--solution", str(solution))
    for command in (judging, ("calibrate", "--problem", "softmax"), ("reproduce", str(tmp_path))):
        status, out, err = run(*command, "--device", name)
        assert (status, out) == (2, "") and said in err
    with pytest.raises(CampaignError, match=f"device: '{name}': expected cpu or cuda:N"):
        make_campaign(tmp_path / "host", device=name)


def test_a_device_that_this_machine_lacks_is_warned_of(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, (gpus, said) in enumerate(((0, "no NVIDIA GPU that"), (1, "1 NVIDIA GPU that"))):
        monkeypatch.setattr("kernelarc_mcp.cli.campaign_options.gpus_here", lambda gpus=gpus: gpus)
        status, err = _new(run, tmp_path / str(number), "--device", "cuda:1")
        assert status == 0 and f"warning: --device cuda:1: this machine has {said}" in err
    monkeypatch.setattr("kernelarc_mcp.cli.campaign_options.gpus_here", lambda: 2)
    assert _new(run, tmp_path / "there", "--device", "cuda:1") == (0, "")


@pytest.mark.parametrize("said", ["0", "all", "1.5"])
def test_a_retention_that_is_none_says_what_is_allowed(run: Run, tmp_path: Path, said: str) -> None:
    status, err = _new(run, tmp_path / "made", "--retention", said)
    assert status != 0
    assert f"--retention {said}: expected a number from 1 or 'unbounded'" in " ".join(err.split())
