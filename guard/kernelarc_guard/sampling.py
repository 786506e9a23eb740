"""Random answers: each must be legal, and together they must follow the probabilities (imports torch).

A sample's place in the cumulated probabilities is uniform between 0 and 1, whatever the row; so all
samples of all calls are tested as one, in the order of the tokens and in that of their probabilities:
the first finds fixed tokens, the second greedy ones and wrong temperatures.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import torch

from kernelarc_guard.definition import Definition
from kernelarc_guard.inputs import Value

_SLACK: Final = 1e-3
"""How far beyond top_p a token may begin: sums of many small numbers differ by so much."""
_ALPHA: Final = 1e-9
"""Chance to find an honest solution wrong, for each test of its samples."""
LEAST: Final = 64
"""Samples before a test is made; then one whenever there are twice as many."""


@dataclass(frozen=True)
class Sampling:
    """Where the probabilities and the samples of a problem are."""

    probabilities: str
    samples: str
    top_k: str | None
    top_p: str | None

    @classmethod
    def of(cls, definition: Definition) -> "Sampling | None":
        """Return what a definition's names say; None where it is no sampling from probabilities."""
        outputs = list(definition.outputs.items())
        probs = definition.inputs.get("probs")
        if probs is None or not probs.shape or len(outputs) != 1:
            return None
        name, spec = outputs[0]
        if not spec.dtype.startswith("int"):
            return None
        named = [key if key in definition.inputs else None for key in ("top_k", "top_p")]
        return cls("probs", name, named[0], named[1])

    def legal(
        self, inputs: Mapping[str, Value], outputs: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Return for each sample 1 where it is a token that may be drawn, else 0."""
        probabilities, samples = self._rows(inputs, outputs)
        inside = (samples >= 0) & (samples < probabilities.shape[-1])
        safe = torch.where(inside, samples, 0)
        allowed = self._support(inputs, probabilities).gather(-1, safe[:, None])[:, 0]
        possible = probabilities.gather(-1, safe[:, None])[:, 0] > 0
        return {"legal": (inside & allowed & possible).to(torch.int64)}

    def places(
        self,
        inputs: Mapping[str, Value],
        outputs: Mapping[str, torch.Tensor],
        generator: torch.Generator,
    ) -> torch.Tensor:
        """Return each legal sample's places in the cumulated probabilities, `[2, samples]`.

        In the order of the tokens, and from the most probable one on.
        """
        probabilities, samples = self._rows(inputs, outputs)
        weights = torch.where(self._support(inputs, probabilities), probabilities, 0.0)
        weights = weights / weights.sum(-1, keepdim=True)
        own = weights.gather(-1, samples[:, None])[:, 0]
        chance = torch.rand(
            own.shape, generator=generator, dtype=torch.float64, device=generator.device
        ).to(own.device)
        tokens = torch.arange(weights.shape[-1], device=weights.device)
        before = torch.where(tokens < samples[:, None], weights, 0.0).sum(-1)
        larger = torch.where(weights > own[:, None], weights, 0.0).sum(-1)
        tied = torch.where((weights == own[:, None]) & (tokens < samples[:, None]), weights, 0.0)
        return torch.stack([before + chance * own, larger + tied.sum(-1) + chance * own])

    def _rows(
        self, inputs: Mapping[str, Value], outputs: Mapping[str, torch.Tensor]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        given = inputs[self.probabilities]
        assert isinstance(given, torch.Tensor)
        probabilities = given.to(torch.float64).reshape(-1, given.shape[-1])
        samples = outputs[self.samples].to(torch.int64).reshape(-1)
        if samples.numel() != probabilities.shape[0]:
            # Several samples of a row follow one another.
            times = samples.numel() // max(1, probabilities.shape[0])
            probabilities = probabilities.repeat_interleave(times, 0)
        return probabilities, samples

    def _support(self, inputs: Mapping[str, Value], probabilities: torch.Tensor) -> torch.Tensor:
        """Return which tokens may be drawn: the top k, and of what they share the top p."""
        rows, length = probabilities.shape
        allowed = torch.ones_like(probabilities, dtype=torch.bool)
        if self.top_k is not None:
            k = _per_row(inputs[self.top_k], rows).to(torch.int64)
            limited = (k > 0) & (k < length)
            ordered = probabilities.sort(-1, descending=True).values
            pivot = ordered.gather(-1, torch.where(limited, k - 1, length - 1)[:, None])
            allowed &= probabilities >= pivot
        if self.top_p is not None:
            p = _per_row(inputs[self.top_p], rows).to(torch.float64)
            left = torch.where(allowed, probabilities, 0.0)
            left = left / left.sum(-1, keepdim=True)
            ordered = left.sort(-1, descending=True).values
            before = ordered.cumsum(-1) - ordered
            # Of a p that is not positive the most probable token is left.
            count = (before < (p + _SLACK)[:, None]).sum(-1)
            count = torch.where(p > 0, count, 1).clamp_min(1)
            count = torch.where(p < 1, count, length)
            allowed &= left >= ordered.gather(-1, count[:, None] - 1)
        return allowed


@dataclass
class Pool:
    """All samples of one solution on one workload."""

    places: list[torch.Tensor] = field(default_factory=list)
    count: int = 0
    tested: int = 0

    def add(self, places: torch.Tensor) -> str:
        """Add samples' places; returns what is wrong with all so far, empty where nothing is."""
        self.places.append(places.cpu())
        self.count += places.shape[1]
        if self.count < max(LEAST, 2 * self.tested):
            return ""
        self.tested = self.count
        for order, row in zip(("tokens", "probabilities"), torch.cat(self.places, 1), strict=True):
            gap = farthest(row)
            if gap > math.sqrt(-math.log(_ALPHA / 2) / (2 * self.count)):
                return (
                    f"{self.count} samples do not follow the probabilities: in the order of the {order} "
                    f"their share is off by up to {gap:.3f}"
                )
        return ""


def farthest(places: torch.Tensor) -> float:
    """Return how far the shares of values in [0, 1] are from uniform ones, at most."""
    ordered = places.sort().values
    count = ordered.numel()
    steps = torch.arange(1, count + 1, dtype=ordered.dtype) / count
    above, below = (steps - ordered).max(), (ordered - (steps - 1 / count)).max()
    return float(torch.maximum(above, below))


def _per_row(value: Value, rows: int) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        return torch.full((rows,), value)
    flat = value.reshape(-1)
    if flat.numel() in (0, rows):
        return flat
    return (
        flat[:1].expand(rows) if flat.numel() == 1 else flat.repeat_interleave(rows // flat.numel())
    )
