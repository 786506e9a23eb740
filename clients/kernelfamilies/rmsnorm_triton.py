"""RMS normalisation in Triton: a row at once, in blocks, or by programs that stay.

Some values are what agents also try and should not: sums in half precision, no mask, a function
that does not exist, the same code with other comments.
"""

from textwrap import dedent, indent

from kernelfamilies.family import Algorithm, Interface, Point

NOTES = ("none", "many")
"""Comments only: the same program twice is a duplicate."""
_HEAD = "import torch\nimport triton\nimport triton.language as tl\n\n\n"
_REMARK = (
    "# Optimised: every load is coalesced, the sum stays in registers, nothing is written twice.\n"
)


def epsilon(interface: Interface) -> str:
    """Return the constant under the root as the reference has it."""
    return interface.constant(r"([0-9]+(?:\.[0-9]+)?e-[0-9]+|0\.0+[1-9]\d*)", "1e-6")


def _scale(point: Point, interface: Interface, total: str) -> str:
    mean = f"{total} / hidden + {epsilon(interface)}"
    return {
        "rsqrt": f"tl.rsqrt({mean})",
        "root": f"1.0 / tl.sqrt({mean})",
        "fast": f"tl.math.fast_rsqrt({mean})",
    }[point["math"]]


def _load(point: Point) -> str:
    return ', eviction_policy="evict_first"' if point["load"] == "evict_first" else ""


def _store(point: Point) -> str:
    return ', cache_modifier=".cs"' if point["store"] == "streaming" else ""


def _square(point: Point, values: str) -> str:
    if point["sum"] == "half":
        return f"{values}.to(tl.float16) * {values}.to(tl.float16)"
    return f"{values} * {values}"


def _whole(point: Point, interface: Interface, kernel: str, launch: str) -> str:
    """Join a kernel and the entry that launches it."""
    remark = _REMARK if point["notes"] == "many" else ""
    entry = f"def run({', '.join(_names(interface))}):\n{indent(dedent(launch), '    ')}"
    return f"{_HEAD}@triton.jit\n{dedent(kernel)}\n\n{remark}{entry}"


def _names(interface: Interface) -> tuple[str, str, str]:
    x, weight = interface.tensors[:2]
    return x, weight, interface.outputs[0]


def _rows(point: Point, interface: Interface) -> str:
    x, weight, y = _names(interface)
    masked = point["mask"] == "kept"
    inside = ", mask=inside, other=0.0" if masked else ""
    kernel = f"""\
        def _rows(x, weight, y, rows, hidden, BLOCK: tl.constexpr, ROWS: tl.constexpr):
            row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
            columns = tl.arange(0, BLOCK)
            inside = (row < rows)[:, None] & (columns < hidden)[None, :]
            at = row.to(tl.int64)[:, None] * hidden + columns[None, :]
            values = tl.load(x + at{inside}{_load(point)})
            total = tl.sum({_square(point, "values")}, axis=1).to(tl.float32)
            scale = {_scale(point, interface, "total")}
            weights = tl.load(weight + columns, mask=columns < hidden, other=0.0)
            result = values * scale[:, None] * weights[None, :]
            tl.store(y + at, result{", mask=inside" if masked else ""}{_store(point)})
        """
    launch = f"""\
        rows, hidden = {x}.shape
        block = triton.next_power_of_2(hidden)
        # A program holds its rows in registers: only short ones fit several times.
        together = {point["rows"]} if block <= 4096 else 1
        grid = (triton.cdiv(rows, together),)
        _rows[grid](
            {x}, {weight}, {y}, rows, hidden, BLOCK=block, ROWS=together, num_warps={point["warps"]}
        )
        """
    return _whole(point, interface, kernel, launch)


def _blocks(point: Point, interface: Interface) -> str:
    x, weight, y = _names(interface)
    kernel = f"""\
        def _blocks(x, weight, y, hidden, BLOCK: tl.constexpr):
            first = tl.program_id(0).to(tl.int64) * hidden
            columns = tl.arange(0, BLOCK)
            partial = tl.zeros((BLOCK,), dtype=tl.float32)
            for start in range(0, hidden, BLOCK):
                inside = start + columns < hidden
                values = tl.load(x + first + start + columns, mask=inside, other=0.0)
                partial += {_square(point, "values")}
            total = tl.sum(partial, axis=0)
            scale = {_scale(point, interface, "total")}
            for start in range(0, hidden, BLOCK):
                inside = start + columns < hidden
                again = tl.load(x + first + start + columns, mask=inside, other=0.0{_load(point)})
                weights = tl.load(weight + start + columns, mask=inside, other=0.0)
                tl.store(
                    y + first + start + columns, again * scale * weights, mask=inside{_store(point)}
                )
        """
    launch = f"""\
        rows, hidden = {x}.shape
        _blocks[(rows,)]({x}, {weight}, {y}, hidden, BLOCK={point["block"]}, num_warps={point["warps"]})
        """
    return _whole(point, interface, kernel, launch)


def _stay(point: Point, interface: Interface) -> str:
    x, weight, y = _names(interface)
    kernel = f"""\
        def _stay(x, weight, y, rows, hidden, BLOCK: tl.constexpr, STAGES: tl.constexpr):
            columns = tl.arange(0, BLOCK)
            inside = columns < hidden
            weights = tl.load(weight + columns, mask=inside, other=0.0)
            for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
                at = hidden.to(tl.int64) * row + columns
                values = tl.load(x + at, mask=inside, other=0.0{_load(point)})
                total = tl.sum({_square(point, "values")}, axis=0).to(tl.float32)
                scale = {_scale(point, interface, "total")}
                tl.store(y + at, values * scale * weights, mask=inside{_store(point)})
        """
    launch = f"""\
        rows, hidden = {x}.shape
        block = triton.next_power_of_2(hidden)
        processors = torch.cuda.get_device_properties({x}.device).multi_processor_count
        grid = (min(rows, {point["each"]} * processors),)
        _stay[grid](
            {x}, {weight}, {y}, rows, hidden, BLOCK=block, STAGES={point["stages"]}, num_warps={point["warps"]}
        )
        """
    return _whole(point, interface, kernel, launch)


_SHARED = {
    "load": ("plain", "evict_first"),
    "store": ("plain", "streaming"),
    "math": ("rsqrt", "root", "fast"),
    "sum": ("float", "half"),
    "notes": NOTES,
}
_START = {"load": "plain", "store": "plain", "math": "rsqrt", "sum": "float", "notes": "none"}

ROWS = Algorithm(
    name="triton-rows",
    dsl="triton",
    layout="whole rows in registers",
    axes={
        "warps": ("4", "8", "16", "32"),
        "rows": ("1", "2", "4"),
        "mask": ("kept", "dropped"),
        **_SHARED,
    },
    start={"warps": "8", "rows": "1", "mask": "kept", **_START},
    coupled={"rows": ("warps",), "warps": ("rows",)},
    render=_rows,
)
BLOCKS = Algorithm(
    name="triton-blocks",
    dsl="triton",
    layout="blocks of a row, read twice",
    axes={"block": ("512", "1024", "2048", "4096"), "warps": ("2", "4", "8", "16"), **_SHARED},
    start={"block": "2048", "warps": "8", **_START},
    coupled={"block": ("warps",), "warps": ("block",)},
    render=_blocks,
)
STAY = Algorithm(
    name="triton-persistent",
    dsl="triton",
    layout="rows dealt out to programs that stay",
    axes={
        "each": ("1", "2", "4", "8"),
        "stages": ("1", "2", "3"),
        "warps": ("4", "8", "16", "32"),
        **_SHARED,
    },
    start={"each": "4", "stages": "1", "warps": "8", **_START},
    coupled={"each": ("warps",), "warps": ("each", "stages"), "stages": ("warps",)},
    render=_stay,
)
