"""The lens files as data: a checked schema, an eligibility map that covers the library, clear errors."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kernelarc_mcp.data import data_dir
from kernelarc_mcp.host.errors import CampaignError
from kernelarc_mcp.host.guides import Language, courses_for, templates
from kernelarc_mcp.host.lenses import (
    Backend,
    Lens,
    eligible_lenses,
    lens_names,
    load_eligibility,
    load_lens,
    read_lens,
)

FOLDER: Final = data_dir("strategies")
TABLE: Final = load_eligibility(FOLDER)
BACKENDS: Final[tuple[Backend, ...]] = ("cpu", "cuda")
DEVICES: Final = ("cpu", "cuda:0")
LIBRARY: Final = sorted(path.parent.name for path in data_dir("kernels").glob("*/definition.json"))


@pytest.fixture(params=lens_names())
def lens(request: pytest.FixtureRequest) -> Lens:
    return read_lens(request.param)


def test_there_are_eight_lenses_and_each_is_used_by_some_class() -> None:
    used = {name for lenses in TABLE.classes.values() for name in lenses}
    assert used == set(lens_names())
    assert len(used) == 8


def test_the_texts_of_a_lens_differ_and_a_move_says_what_to_see_first(lens: Lens) -> None:
    texts = [*lens.pays_when, *lens.trap_when, *(one.text for one in lens.patterns)]
    texts += [text for move in lens.moves for text in (move.do, move.when)]
    texts += [note for notes in lens.notes.values() for note in notes]
    assert len(set(texts)) == len(texts)
    for move in lens.moves:
        assert move.do.endswith(".") and move.when.endswith(".")
    assert 2 <= lens.intent.strip().count(". ") + 1 <= 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_ladder_reaches_from_cheap_to_deep_on_every_backend(lens: Lens, backend: Backend) -> None:
    depths = [move.depth for move in lens.moves_on(backend)]
    assert set(depths) == {"cheap", "medium", "deep"}
    assert len(depths) >= 5
    assert len(lens.notes_on(backend)) >= 3


def test_a_lens_speaks_of_both_generations_and_not_to_a_cpu(lens: Lens) -> None:
    gpu, cpu = "\n".join(lens.notes_on("cuda")), "\n".join(lens.notes_on("cpu"))
    assert "hopper: " in gpu and "blackwell: " in gpu and "cpu: " not in gpu
    assert "hopper" not in cpu and "cuda: " not in cpu


def test_a_cpu_campaign_is_not_told_to_look_at_a_gpus_profile(lens: Lens) -> None:
    for move in lens.moves_on("cpu"):
        for word in ("ncu", "SASS", "warp", "multiprocessor", "__syncthreads", "TMA"):
            assert word not in f"{move.do} {move.when}", move


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lens_shows_a_template_that_the_backend_runs(lens: Lens, backend: Backend) -> None:
    shown = [templates()[name] for name in lens.templates]
    assert any(one.runs_on(backend) for one in shown)


def test_every_template_belongs_to_a_lens() -> None:
    assert {name for each in lens_names() for name in read_lens(each).templates} == set(templates())
    languages: set[Language] = {one.language for one in templates().values()}
    assert languages == {"cpp", "cuda", "triton", "python"}


@pytest.mark.parametrize("device", DEVICES)
def test_every_class_leaves_lenses_to_rotate_to(device: str) -> None:
    for operator_class in TABLE.classes:
        assert len(eligible_lenses(operator_class, device)) >= 4, operator_class


def test_a_restriction_names_classes_whose_map_has_the_lens(lens: Lens) -> None:
    for classes in lens.restrict.values():
        assert classes
        for name in classes:
            assert lens.name in TABLE.classes[name]


@pytest.mark.parametrize("name", LIBRARY)
def test_the_class_of_every_problem_we_ship_is_named_in_the_map(name: str) -> None:
    definition = json.loads((data_dir("kernels") / name / "definition.json").read_text())
    operator_class = definition["kernelarc"].get("operator_class") or definition["op_type"]
    assert TABLE.class_of(operator_class) != "other"
    # A problem may also be classed by its own name, which then means something more exact.
    assert TABLE.class_of(name) != "other"


@pytest.mark.parametrize(
    ("operator_class", "first"),
    [
        ("gemm", "library-autotuning"),
        ("matmul", "library-autotuning"),
        ("gemm_epilogue", "library-autotuning"),
        ("fp8_gemm_block_scaled", "low-precision"),
        ("gqa_decode", "algorithm-substitution"),
        ("paged_gqa_prefill", "operator-fusion"),
        ("moe_backward", "launch-dispatch"),
        ("topk", "algorithm-substitution"),
        ("nobody-named-this", "operator-fusion"),
    ],
)
def test_a_class_starts_with_the_lens_that_fits_its_limit(operator_class: str, first: str) -> None:
    assert eligible_lenses(operator_class, "cuda:0")[0] == first


def test_the_order_may_differ_by_backend() -> None:
    assert eligible_lenses("gemm", "cpu")[0] == "memory-layout"
    assert set(eligible_lenses("gemm", "cpu")) == set(eligible_lenses("gemm", "cuda:0"))


def test_a_strict_tolerance_leaves_no_lower_precision_to_products_on_a_gpu() -> None:
    assert "low-precision" in eligible_lenses("gemm", "cuda:0")
    assert "low-precision" not in eligible_lenses("gemm", "cuda:0", strict=True)
    for operator_class, device in (("gemm", "cpu"), ("quantized_gemm", "cuda:0")):
        assert "low-precision" in eligible_lenses(operator_class, device, strict=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_patterns_of_the_other_backend_are_left_out(lens: Lens, backend: Backend) -> None:
    other = {one.text for one in lens.patterns if one.backend not in (None, backend)}
    assert not other & set(lens.patterns_on(backend))
    assert lens.patterns_on(backend)


def test_notes_are_about_the_generation_that_the_machine_names(lens: Lens) -> None:
    hopper = "\n".join(lens.notes_on("cuda", "NVIDIA H200"))
    blackwell = "\n".join(lens.notes_on("cuda", "NVIDIA GB200"))
    assert "hopper: " in hopper and "blackwell: " not in hopper
    assert "blackwell: " in blackwell and "hopper: " not in blackwell
    assert lens.notes_on("cuda", "not known here") == lens.notes_on("cuda")


def test_hand_written_gpu_instructions_are_for_gemm_like_operators_only() -> None:
    for operator_class in ("rmsnorm", "softmax", "elementwise", "reduction", "topk", "other"):
        assert "hardware-native" not in eligible_lenses(operator_class, "cuda:0")
    for operator_class in ("gemm", "attention", "moe", "decoder_layer", "quantized_gemm"):
        assert "hardware-native" in eligible_lenses(operator_class, "cuda:0")
    assert "hardware-native" in eligible_lenses("rmsnorm", "cpu")


def test_a_campaign_is_pointed_to_the_courses_that_fit_it() -> None:
    def names(operator_class: str, device: str) -> list[str]:
        return [page.course for page in courses_for(operator_class, device)]

    assert names("gemm", "cuda:0") == ["hopper-gemm", "memory-bound"]
    assert names("rmsnorm", "cuda:0") == ["memory-bound", "hopper-gemm"]
    assert names("gemm", "cpu") == ["memory-bound"]


def _written(folder: Path, name: str, change: dict[str, Any]) -> Path:
    """Return a folder with the lenses, one of them changed; None takes a key away."""
    copy = folder / "strategies"
    shutil.copytree(FOLDER, copy)
    path = copy / f"{name}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8")) | change
    content = {key: value for key, value in content.items() if value is not None}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return copy


MOVE: Final = {"do": "Do something about it now.", "when": "Something can be seen there."}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"shapes": None}, "shapes: Field required"),
        ({"tricks": ["more"]}, "tricks: Extra inputs are not permitted"),
        ({"roofline": {"pays": "Left of the ridge, always."}}, "roofline.fails: Field required"),
        ({"moves": []}, "moves: List should have at least 5 items"),
        ({"moves": [MOVE | {"depth": "steep"}] * 5}, "moves.0.depth: Input should be 'cheap'"),
        ({"moves": [MOVE | {"depth": "cheap", True: "cuda"}] * 5}, "moves.0.1: Keys should be"),
        (
            {"moves": [MOVE | {"depth": "deep"}] + [MOVE | {"depth": "cheap"}] * 4},
            "memory-layout.yaml: moves: expected cheap ones first",
        ),
        ({"notes": {"cpu": ["One note about a processor."]}}, "notes: nothing about cuda"),
        ({"notes": {"tpu": ["One note about something."]}}, "notes.tpu.[key]: Input should be"),
        ({"restrict": {"cuda": ["GEMM!"]}}, "restrict.cuda.0: String should match pattern"),
        ({"pays_when": ["short"] * 3}, "pays_when.0: String should have at least 20"),
        ({"name": "other-name"}, "name: 'other-name'; expected the file's, 'memory-layout'"),
    ],
)
def test_a_malformed_lens_is_refused_with_file_field_and_fault(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    folder = _written(tmp_path, "memory-layout", change)
    with pytest.raises(CampaignError, match=re.escape(told)) as refused:
        load_lens(folder, "memory-layout")
    assert str(refused.value).startswith("memory-layout.yaml: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"aliases": None}, "aliases: Field required"),
        ({"classes": {"gemm": ["memory-layout"]}}, "classes.other: missing"),
        ({"classes": {"other": []}}, "classes.other: List should have at least 1 item"),
        (
            {"classes": {"other": ["magic"]}, "backends": {}, "aliases": {}},
            "other: there is no lens 'magic'",
        ),
        (
            {"backends": {"cuda": {"gemm": ["memory-layout"]}}},
            "backends.cuda.gemm: expected the lenses of the class",
        ),
        (
            {"classes": {"other": ["memory-layout"] * 2}, "backends": {}, "aliases": {}},
            "classes.other: a lens occurs twice",
        ),
        ({"aliases": {"mm": "gem"}}, "aliases.mm: expected another name of one of the classes"),
        ({"aliases": {"gemm": "conv"}}, "aliases.gemm: expected another name"),
    ],
)
def test_a_malformed_map_is_refused_with_the_class(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    folder = _written(tmp_path, "eligibility", change)
    with pytest.raises(CampaignError, match=re.escape(told)) as refused:
        load_eligibility(folder)
    assert str(refused.value).startswith("eligibility.yaml: ")


def test_a_lens_file_that_is_no_yaml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("name: [", encoding="utf-8")
    (tmp_path / "list.yaml").write_text("- a\n", encoding="utf-8")
    with pytest.raises(CampaignError, match=r"broken\.yaml: cannot be read"):
        load_lens(tmp_path, "broken")
    with pytest.raises(CampaignError, match=r"list\.yaml: expected a mapping"):
        load_lens(tmp_path, "list")
    for name in ("../eligibility", "eligibility", "nobody"):
        with pytest.raises(CampaignError, match="there is no lens"):
            load_lens(tmp_path, name)
