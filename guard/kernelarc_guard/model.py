"""The base of every value that crosses a process boundary."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen value without unknown keys; attribute docstrings become the schema's descriptions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )
