"""Hand-made problems that are one matrix product, by the letters of their axes."""

from kernelarc_guard.definition import Definition

PRODUCTS = {
    "mk kn mn": "x @ y",
    "mk nk mn": "x @ y.mT",
    "km kn mn": "x.mT @ y",
    "km nk mn": "x.mT @ y.mT",
    "mk kn nm": "(x @ y).mT",
    "kn mk mn": "y @ x",
    "bmk bkn bmn": "x @ y",
    "bmk bnk bmn": "x @ y.mT",
    "sbmk sbkn sbmn": "x @ y",
    "bsk nk bsn": "x @ y.mT",
    "bsk kn bsn": "x @ y",
}
"""Axes of both inputs and the output -> the product that they declare."""


def define(axes: str, dtypes: str = "float32 float32 float32", **more: object) -> Definition:
    """Return a definition of tensors whose axes are single letters."""
    shapes = [list(one) for one in axes.split()]
    x, y, z = (
        {"shape": shape, "dtype": dtype}
        for shape, dtype in zip(shapes, dtypes.split(), strict=True)
    )
    return Definition.model_validate(
        {
            "name": "product",
            "op_type": "gemm",
            "axes": {name: {"type": "var"} for name in sorted({*"".join(axes.split())})},
            "inputs": {"x": x, "y": y},
            "outputs": {"z": z},
            "reference": f"def run(x, y):\n    return {PRODUCTS.get(axes, 'x @ y')}\n",
        }
        | more
    )
