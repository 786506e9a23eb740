"""The control page between guard and runner."""

import mmap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelarc_guard import control
from kernelarc_guard.control import ControlPage


def page() -> ControlPage:
    return ControlPage(mmap.mmap(-1, control.SIZE))


@given(
    st.lists(
        st.one_of(
            st.booleans(),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False),
        ),
        max_size=control.MAX_SCALARS,
    )
)
def test_scalars_come_back_as_they_were(values: list[bool | int | float]) -> None:
    shared = page()
    shared.set_scalars(values)
    assert [shared.scalar(index) for index in range(len(values))] == values


def test_too_many_scalars_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 64"):
        page().set_scalars([1] * 65)


def test_an_order_clears_the_last_report() -> None:
    shared = page()
    shared.report(7, control.DONE, 2)
    assert shared.read_report() == (7, control.DONE, 2)
    order = control.Order(8, control.RUN, 3, rewritten=1 << 63, flags=control.HOLD)
    shared.order(order)
    assert shared.read_order() == order
    assert shared.read_report() == (0, control.NOTHING, 0)


def test_a_tensor_is_described_and_its_dimensions_are_bounded() -> None:
    shared = page()
    shared.write_tensor(1, control.DTYPES.index("float16"), (3, 4), (4, 1), 2**47 + 8)
    told = shared.read_output(1)
    assert (told.dtype, told.shape, told.strides) == ("float16", (3, 4), (4, 1))
    assert told.address == 2**47 + 8
    shared.page[4096 + 64 :] = b"\xff" * (control.SIZE - 4096 - 64)
    forged = shared.read_output(0)
    assert forged.dtype == "unknown"
    assert len(forged.shape) == len(forged.strides) == control.MAX_DIMS


def test_a_long_error_is_cut_and_says_so() -> None:
    shared = page()
    shared.write_error("ä" * 20_000)
    text = shared.read_error()
    assert text.endswith("[cut]")
    assert len(text.encode()) <= control.MAX_ERROR + 2
    shared.write_error("short")
    assert shared.read_error() == "short"
