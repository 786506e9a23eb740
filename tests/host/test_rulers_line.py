"""What a device can do at best, on one line."""

from kernelarc_guard.rule import Rulers
from kernelarc_mcp.noise import rulers_line


def test_a_processors_line_tells_its_empty_window_and_memory() -> None:
    rulers = Rulers(
        empty_window_ns=9_400, write_bytes_per_second=21e9, copy_bytes_per_second=12.3e9
    )
    assert rulers_line(rulers) == "empty window 9.4 us, writes 21.0 GB/s, copies 12.3 GB/s"


def test_a_gpus_line_tells_what_is_taken_off_and_its_products() -> None:
    rulers = Rulers(
        empty_window_ns=1,
        write_bytes_per_second=4e12,
        copy_bytes_per_second=4.2e12,
        empty_kernel_ns=147_900,
        matrix_flops_per_second={"bfloat16": 740e12, "float32": 51e12},
    )
    assert rulers_line(rulers) == (
        "empty queued window 147.9 us (taken off), writes 4000.0 GB/s, copies 4200.0 GB/s, "
        "products bfloat16 740, float32 51 TFLOPS"
    )


def test_without_rulers_it_says_what_to_do() -> None:
    assert rulers_line(None) == "no rulers: calibrate again"
