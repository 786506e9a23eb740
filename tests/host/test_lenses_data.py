"""The lens files as data: every field is there, and the eligibility map names only lenses."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from kernelarc_mcp.data import data_dir

FOLDER: Final = data_dir("strategies")
LENSES: Final = sorted(path for path in FOLDER.glob("*.yaml") if path.stem != "eligibility")
LISTS: Final = {"pays_when": 3, "trap_when": 3, "moves": 5, "patterns": 3}
"""Fields that are lists of sentences, and how many each needs at least."""
BACKENDS: Final = {"cpu", "cuda"}
CLASSES: Final = {
    "rmsnorm",
    "softmax",
    "gemm",
    "conv",
    "topk",
    "attention",
    "moe",
    "elementwise",
    "reduction",
    "gather",
    "other",
    "default",
}


def load(path: Path) -> dict[str, Any]:
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    return loaded


@pytest.fixture(params=LENSES, ids=lambda path: path.stem)
def lens(request: pytest.FixtureRequest) -> dict[str, Any]:
    path: Path = request.param
    return load(path) | {"file": path.stem}


def eligibility() -> dict[str, list[str]]:
    return load(FOLDER / "eligibility.yaml")


def test_there_are_eight_lenses() -> None:
    assert len(LENSES) == 8


def test_a_lens_has_exactly_the_known_fields(lens: dict[str, Any]) -> None:
    known = {"file", "name", "title", "intent", "backends", *LISTS}
    assert set(lens) - {"restrict"} == known
    assert lens["name"] == lens["file"]
    assert lens["title"].strip()
    assert 2 <= lens["intent"].count(". ") + 1 <= 3


def test_every_list_of_a_lens_is_filled_with_different_texts(lens: dict[str, Any]) -> None:
    for field, least in LISTS.items():
        texts = lens[field]
        assert all(isinstance(text, str) and len(text) > 20 for text in texts), field
        assert len(set(texts)) == len(texts) >= least, field


def test_a_move_is_one_sentence(lens: dict[str, Any]) -> None:
    for move in lens["moves"]:
        assert move.endswith(".") and "\n" not in move and ". " not in move


def test_a_lens_means_something_on_every_backend(lens: dict[str, Any]) -> None:
    assert set(lens["backends"]) == BACKENDS
    for notes in lens["backends"].values():
        assert len(notes) >= 3
        assert all(isinstance(note, str) for note in notes)


def test_a_restriction_names_known_backends_and_classes(lens: dict[str, Any]) -> None:
    for backend, classes in lens.get("restrict", {}).items():
        assert backend in BACKENDS
        assert set(classes) <= set(eligibility())
        assert all(lens["name"] in eligibility()[name] for name in classes)


def test_hand_written_gpu_instructions_are_for_gemm_like_operators_only() -> None:
    native = load(FOLDER / "hardware-native.yaml")
    assert set(native["restrict"]) == {"cuda"}
    assert "gemm" in native["restrict"]["cuda"]
    assert "rmsnorm" not in native["restrict"]["cuda"]


def test_the_map_covers_the_classes_and_names_only_lenses() -> None:
    names = {path.stem for path in LENSES}
    assert set(eligibility()) >= CLASSES
    for operator_class, lenses in eligibility().items():
        assert set(lenses) <= names, operator_class
        assert len(set(lenses)) == len(lenses), operator_class


def test_every_class_leaves_a_lens_to_rotate_to_on_every_backend() -> None:
    restricted = {path.stem: load(path).get("restrict", {}) for path in LENSES}
    for operator_class, lenses in eligibility().items():
        for backend in BACKENDS:
            open_ones = [
                name
                for name in lenses
                if operator_class in restricted[name].get(backend, [operator_class])
            ]
            assert len(open_ones) >= 4, (operator_class, backend)


def test_every_lens_is_used_by_some_class() -> None:
    used = {name for lenses in eligibility().values() for name in lenses}
    assert used == {path.stem for path in LENSES}
