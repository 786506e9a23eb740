"""Buffers of an arm: layout, poison, canaries and the check of inputs."""

import os

import pytest
import torch

from kernelarc_guard.buffers import BufferSet, dense, extent

SAMPLES = {
    "x": torch.randn(5, 7),
    "t": torch.randn(6, 4).t(),
    "i": torch.arange(3),
    "b": torch.tensor([True, False]),
    "e": torch.empty(0, 3),
    "z": torch.tensor(2.5),
}


def buffers() -> BufferSet:
    return BufferSet(SAMPLES, {"y": ((5, 7), "float32"), "n": ((4,), "int64")})


def test_inputs_keep_values_shapes_and_dense_strides() -> None:
    made = buffers()
    made.fill(SAMPLES)
    assert made.changed_inputs(SAMPLES) == []
    assert made.inputs["t"].strides == (1, 4)
    assert made.inputs["z"].shape == ()


def test_outputs_are_poisoned_before_every_call() -> None:
    made = buffers()
    for _ in range(2):
        made.fill(SAMPLES)
        assert bool(torch.isnan(made.output("y")).all())
        assert bool((made.output("n") == made.output("n")[0]).all())
        assert int(made.output("n")[0]) != 0
        made.output("y").zero_()
        made.output("n").zero_()


def test_the_shared_file_can_be_cut_by_nobody() -> None:
    one = buffers()
    for size in (0, one.size - 1, one.size + 1):
        with pytest.raises(PermissionError):
            os.ftruncate(one.fd, size)
    one.close()


@pytest.mark.parametrize("side", [-1, 1])
def test_a_byte_next_to_a_tensor_is_noticed(side: int) -> None:
    made = buffers()
    made.fill(SAMPLES)
    assert made.broken_canary() is None
    slot = made.outputs["y"]
    at = slot.offset - 1 if side < 0 else slot.offset + slot.nbytes
    made._bytes[at] ^= 1
    assert made.broken_canary() is not None


def test_a_changed_bit_of_an_input_is_noticed_even_between_two_nans() -> None:
    made = buffers()
    inputs = SAMPLES | {"x": torch.full((5, 7), float("nan"))}
    made.fill(inputs)
    assert made.changed_inputs(inputs) == []
    made._views["x"].view(torch.int32)[2, 3] ^= 1
    assert made.changed_inputs(inputs) == ["x"]


def test_extent_counts_from_first_to_last_element() -> None:
    assert extent((3, 4), (4, 1)) == 12
    assert extent((3, 4), (10, 2)) == 27
    assert extent((), ()) == 1
    assert extent((0, 4), (4, 1)) == 0
    assert extent((3, 4), (0, 1)) == 4
    assert dense(torch.randn(3, 4).t())
    assert not dense(torch.randn(3, 4)[:, :2])
