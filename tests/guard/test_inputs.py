"""Inputs: a function of the seed, realistic by name, and checked."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from problem_folders import DEFINITION, WORKLOAD, changed, write_problem

from kernelarc_guard.formats.blobs import ROOTS, find_file
from kernelarc_guard.inputs import InputError, make_inputs
from kernelarc_guard.problem import Definition, Problem, Workload, read_problem


def _definition(inputs: dict[str, tuple[list[str] | None, str, str]], body: str = "") -> Definition:
    names = ", ".join(inputs)
    return Definition.model_validate(
        {
            "name": "d",
            "axes": {},
            "inputs": {
                name: {"shape": shape, "dtype": dtype, "description": description}
                for name, (shape, dtype, description) in inputs.items()
            },
            "outputs": {"out": {"shape": ["1"], "dtype": "float32"}},
            "reference": f"import torch\ndef run({names}): pass\n{body}",
            "custom_inputs_entrypoint": "draw" if body else None,
        }
    )


def _drawn(
    name: str, shape: list[str], dtype: str = "float32", description: str = ""
) -> torch.Tensor:
    definition = _definition({name: (shape, dtype, description)})
    value = make_inputs(definition, Workload(uuid="w", axes={}), 7)[name]
    assert isinstance(value, torch.Tensor)
    return value


def _custom(inputs: dict[str, tuple[list[str] | None, str, str]], body: str, seed: int = 1) -> Any:
    workload = Workload.model_validate(
        {"uuid": "w", "axes": {}, "inputs": {name: {"type": "custom"} for name in inputs}}
    )
    return make_inputs(_definition(inputs, body), workload, seed)


def test_the_seed_decides_the_values_and_nothing_else_does(tmp_path: Path) -> None:
    problem = read_problem(write_problem(tmp_path))
    first, again, other = (_make(problem, seed) for seed in (5, 5, 6))
    torch.manual_seed(99)
    assert torch.equal(first["x"], again["x"])
    assert not torch.equal(first["x"], other["x"])
    assert list(first) == ["x", "s"]
    assert first["s"] == 2.5


def _make(problem: Problem, seed: int) -> dict[str, Any]:
    return dict(make_inputs(problem.definition, problem.workloads[0], seed))


def test_seeds_may_have_64_bits(tmp_path: Path) -> None:
    problem = read_problem(write_problem(tmp_path))
    assert not torch.equal(_make(problem, 2**64 - 1)["x"], _make(problem, 2**63)["x"])


def test_an_input_that_is_not_named_is_random(tmp_path: Path) -> None:
    workload = changed(WORKLOAD, "inputs", {})
    made = _make(read_problem(write_problem(tmp_path, workloads=[workload])), 1)
    assert made["x"].shape == (3, 4)
    assert isinstance(made["s"], float)


def test_norm_weights_are_ones_and_biases_zeros() -> None:
    for name in ("input_layernorm_weight", "q_norm_weight", "norm1_weight", "rmsnorm_weight"):
        assert bool((_drawn(name, ["8"]) == 1).all())
    assert not bool(_drawn("post_norm_bias", ["8"]).any())


def test_a_plain_vector_of_weights_is_normal_and_a_matrix_is_scaled() -> None:
    assert 0.8 < float(_drawn("weight", ["10000"]).std()) < 1.2
    for name in ("weight", "gate_proj", "o_proj_weight", "expert_weights"):
        assert 0.08 < float(_drawn(name, ["200", "100"]).std()) < 0.12


def test_a_causal_mask_forbids_the_future() -> None:
    mask = _drawn("attention_mask", ["2", "5", "5"], "bfloat16")
    assert bool((mask.float().triu(1)[0][0, 1:] < -1e4).all())
    assert not bool(mask.tril().any())
    told = _drawn("m", ["5", "5"], description="Additive causal attention mask.")
    assert torch.equal(told.triu(1) != 0, torch.ones(5, 5).triu(1) != 0)
    for dtype in ("float16", "bfloat16", "float32"):
        lowest = float(torch.finfo(getattr(torch, dtype)).min)
        assert float(_drawn("causal_mask", ["4", "4"], dtype)[0, 3]) == lowest


def test_masks_angles_spreads_and_probabilities_have_their_ranges() -> None:
    assert set(_drawn("text_mask", ["99"]).tolist()) == {0.0, 1.0}
    assert set(_drawn("attention_mask", ["9", "11"]).flatten().tolist()) == {0.0, 1.0}
    assert set(_drawn("row_mask", ["99"], description="A binary mask").tolist()) == {0, 1}
    assert float(_drawn("cos", ["99"]).abs().max()) <= 1
    assert float(_drawn("sin_cached", ["99"]).abs().max()) <= 1
    assert float(_drawn("rstd", ["99"]).min()) >= 0.1
    assert float(_drawn("running_var", ["99"]).min()) >= 0.1
    weights = _drawn("attn_weights", ["9", "9"])
    assert torch.allclose(weights.sum(-1), torch.ones(9))
    told = _drawn("p", ["9", "9"], description="The softmax attention output.")
    assert torch.allclose(told.sum(-1), torch.ones(9))


@pytest.mark.parametrize("name", ["padding_mask", "freqs_cos", "weights", "proj"])
def test_names_that_only_look_like_a_rule_are_normal(name: str) -> None:
    values = _drawn(name, ["300", "300"])
    assert 0.9 < float(values.std()) < 1.1 and float(values.abs().max()) > 3


def test_the_parameters_of_state_spaces_decay() -> None:
    for name, low, high in (("A", -1.0, -0.001), ("A_log", -5.0, -1.0), ("g", -5.0, 0.0)):
        values = _drawn(name, ["999"])
        assert low <= float(values.min()) and float(values.max()) <= high
    assert bool((_drawn("A_cumsum", ["99"]).diff() <= 0).all())


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("int8", -128, 127),
        ("int16", -1024, 1023),
        ("int32", -1024, 1023),
        ("int64", -1024, 1023),
        ("bool", 0, 1),
        ("float8_e4m3fn", -2, 2),
        ("float8_e5m2", -2, 2),
    ],
)
def test_other_dtypes_are_drawn_from_their_ranges(dtype: str, low: int, high: int) -> None:
    values = _drawn("x", ["20000"], dtype)
    assert str(values.dtype) == f"torch.{dtype}"
    assert float(values.double().min()) == low
    assert float(values.double().max()) == high


def test_packed_float4_holds_two_codes_in_a_byte() -> None:
    packed = _drawn("x", ["3", "1000"], "float4_e2m1")
    assert packed.shape == (3, 500)
    codes = packed.view(torch.uint8)
    assert len({*(codes & 15).flatten().tolist(), *(codes >> 4).flatten().tolist()}) >= 14


def test_a_custom_entry_point_gets_all_axes_and_a_device() -> None:
    inputs: dict[str, tuple[list[str] | None, str, str]] = {
        "a": (["2"], "float32", ""),
        "n": (None, "int64", ""),
    }
    body = (
        "def draw(axes, device):\n"
        "    assert isinstance(axes, dict) and device.type == 'cpu'\n"
        "    return {'n': 3, 'a': torch.randn(2)}\n"
    )
    made = _custom(inputs, body)
    assert list(made) == ["a", "n"]
    assert torch.equal(made["a"], _custom(inputs, body)["a"])
    assert not torch.equal(made["a"], _custom(inputs, body, 2)["a"])


def test_a_custom_entry_point_is_seeded_in_all_three_generators_and_leaves_no_trace() -> None:
    body = (
        "import random, numpy\n"
        "def draw(axes, device):\n"
        "    return {'a': torch.tensor([random.random(), numpy.random.rand(),"
        " torch.rand(()).item()])}\n"
    )
    before = (
        random.getstate(),
        numpy.random.get_state(legacy=False)["state"]["key"].tolist(),
        torch.get_rng_state(),
    )
    inputs: dict[str, tuple[list[str] | None, str, str]] = {"a": (["3"], "float32", "")}
    first, again = (_custom(inputs, body, 2**63 + 5)["a"] for _ in range(2))
    assert torch.equal(first, again)
    after = (
        random.getstate(),
        numpy.random.get_state(legacy=False)["state"]["key"].tolist(),
        torch.get_rng_state(),
    )
    assert before[:2] == after[:2]
    assert torch.equal(before[2], after[2])


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        ("[1]", "returned list; expected a dict"),
        ("{}", "'a' is missing; it returned nothing"),
        ("{'b': torch.ones(3), 'c': 1}", "'a' is missing; it returned b, c"),
        ("{'a': 3}", "input a: int; expected a tensor"),
        ("{'a': torch.ones(4)}", r"input a: shape \[4\]; expected \[3\]"),
        ("{'a': torch.ones(3).double()}", "input a: torch.float64; expected float32"),
        ("1 / 0", "draw: raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_custom_entry_point_that_breaks_its_word_is_named(returned: str, says: str) -> None:
    inputs: dict[str, tuple[list[str] | None, str, str]] = {"a": (["3"], "float32", "")}
    with pytest.raises(InputError, match=says):
        _custom(inputs, f"def draw(axes, device):\n    return {returned}\n")


def test_what_a_custom_entry_point_gives_beside_the_inputs_is_left_out() -> None:
    inputs: dict[str, tuple[list[str] | None, str, str]] = {"a": (["3"], "float32", "")}
    made = _custom(inputs, "def draw(axes, device):\n    return {'b': 1, 'a': torch.ones(3)}\n")
    assert list(made) == ["a"]


@pytest.mark.parametrize("given", ["3", "torch.tensor(3)", "numpy.int64(3)"])
def test_a_custom_number_may_come_as_a_tensor_without_dimensions_and_the_other_way(
    given: str,
) -> None:
    inputs: dict[str, tuple[list[str] | None, str, str]] = {
        "number": (None, "int64", ""),
        "tensor": ([], "float32", ""),
    }
    made = _custom(
        inputs,
        f"import numpy\ndef draw(axes, device):\n    return {{'number': {given}, 'tensor': 2}}\n",
    )
    assert type(made["number"]) is int and made["number"] == 3
    assert torch.equal(made["tensor"], torch.tensor(2.0))


def test_a_custom_float4_tensor_may_be_stated_in_values_or_in_bytes() -> None:
    for length in ("6", "3"):
        inputs: dict[str, tuple[list[str] | None, str, str]] = {
            "a": ([length], "float4_e2m1fn_x2", "")
        }
        body = (
            "def draw(axes, device):\n"
            "    return {'a': torch.zeros(3, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}\n"
        )
        assert _custom(inputs, body)["a"].shape == (3,)


def _safetensors(path: Path, values: torch.Tensor, dtype: str = "F32") -> None:
    raw = values.numpy().tobytes()
    entry = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [0, len(raw)]}
    header = json.dumps({"__metadata__": {"by": "test"}, "t": entry}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(header).to_bytes(8, "little") + header + raw)


def _from_file(tmp_path: Path, key: str = "t") -> dict[str, Any]:
    source = {"type": "safetensors", "path": "./data/blob/a.safetensors", "tensor_key": key}
    write_problem(tmp_path, workloads=[changed(WORKLOAD, "inputs.x", source)])
    problem = read_problem(tmp_path)
    return dict(make_inputs(problem.definition, problem.workloads[0], 1, folder=problem.folder))


@pytest.mark.parametrize(
    "place", ["data/blob/a.safetensors", "blob/a.safetensors", "a.safetensors"]
)
def test_a_tensor_file_is_found_without_the_leading_parts_of_its_path(
    tmp_path: Path, place: str
) -> None:
    values = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    _safetensors(tmp_path / place, values)
    made = _from_file(tmp_path)["x"]
    assert torch.equal(made, values)
    made.zero_()
    assert torch.equal(_from_file(tmp_path)["x"], values)


@pytest.mark.parametrize("path", ["./blob/w/a.safetensors", "/srv/blob/w/a.safetensors"])
def test_a_tensor_file_is_found_below_the_root_of_a_data_set(
    tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _safetensors(tmp_path / "set" / "blob" / "w" / "a.safetensors", torch.ones(3, 4))
    (tmp_path / "problem").mkdir()
    with pytest.raises(ValueError, match="FLASHINFER_TRACE_DIR may name the data set's root"):
        find_file(tmp_path / "problem", path)
    for variable in ROOTS:
        monkeypatch.setenv(variable, str(tmp_path / "set"))
        assert find_file(tmp_path / "problem", path).parent.name == "w"
        with pytest.raises(ValueError, match=f"nor below {variable}="):
            find_file(tmp_path / "problem", "blob/w/b.safetensors")
        monkeypatch.delenv(variable)


def test_an_absolute_path_reads_nothing_outside(tmp_path: Path) -> None:
    _safetensors(tmp_path / "outside.safetensors", torch.ones(3, 4))
    (tmp_path / "problem").mkdir()
    for path in (str(tmp_path / "outside.safetensors"), "../outside.safetensors"):
        with pytest.raises(ValueError, match="no such file"):
            find_file(tmp_path / "problem", path)


def test_a_tensor_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.safetensors"
    with pytest.raises(InputError, match="no such file in the problem's folder"):
        _from_file(tmp_path)
    file.write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="a.safetensors: is a pointer of Git LFS"):
        _from_file(tmp_path)
    file.write_bytes(b"no tensors in here, only some text\n")
    with pytest.raises(InputError, match="expected a safetensors header"):
        _from_file(tmp_path)
    _safetensors(file, torch.ones(3, 5))
    with pytest.raises(InputError, match=r"shape \[3, 5\]; expected \[3, 4\]"):
        _from_file(tmp_path)
    with pytest.raises(InputError, match="expected a tensor called 'u'"):
        _from_file(tmp_path, "u")
    _safetensors(file, torch.ones(3, 4), "I32")
    with pytest.raises(InputError, match="torch.int32; expected float32"):
        _from_file(tmp_path)
    _safetensors(file, torch.ones(3, 4), "F64")
    with pytest.raises(InputError, match="does not fit the file"):
        _from_file(tmp_path)


def test_the_example_problem_has_normal_values(tmp_path: Path) -> None:
    workload = changed(WORKLOAD, "axes.n", 5000)
    made = _make(read_problem(write_problem(tmp_path, DEFINITION, [workload])), 3)["x"]
    assert math.isclose(float(made.std()), 1.0, abs_tol=0.05)
