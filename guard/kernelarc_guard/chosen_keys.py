"""Keys that an indexer of sparse attention chooses: compared by their scores (imports torch).

FlashInfer-Bench's `dsa_topk_indexer...` definitions want the places of the keys with the largest scores in
a paged cache; keys with equal scores may be chosen freely, in any order.
"""

from collections.abc import Mapping
from typing import Final

import torch

from kernelarc_guard.definition import Definition
from kernelarc_guard.inputs import Value
from kernelarc_guard.key_cache import DEFINITIONS, keys_at

_QUERIES: Final = "q_index_fp8"
_KEYS: Final = "k_index_cache_fp8"
_WEIGHTS: Final = "weights"
_LENGTHS: Final = "seq_lens"
_TABLE: Final = "block_table"
_CHOSEN: Final = "topk_indices"


def chooses_keys(definition: Definition) -> bool:
    """Say whether a definition is such an indexer, by its name and the names of what it takes and gives."""
    named = {_QUERIES, _KEYS, _WEIGHTS, _LENGTHS, _TABLE} <= definition.inputs.keys()
    return (
        definition.name.startswith(DEFINITIONS) and named and list(definition.outputs) == [_CHOSEN]
    )


def chosen_scores(
    inputs: Mapping[str, Value], outputs: Mapping[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Return the chosen keys' scores, the largest first, and for each row 1 where all places are legal.

    A place is `page * tokens of a page + token`, -1 for none, whose score is -inf; legal are those
    that the row's table reaches within its length, each once.
    """
    tensors = {name: one for name, one in inputs.items() if isinstance(one, torch.Tensor)}
    pages, page = tensors[_KEYS].shape[:2]
    chosen = outputs[_CHOSEN].to(torch.int64)
    within = (chosen >= 0) & (chosen < pages * page)
    places = torch.where(within, chosen, 0)
    legal = (chosen == -1) | (within & _reachable(places, tensors, pages, page))
    ordered = chosen.sort(-1).values
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    scores = [
        _scores(keys_at(tensors[_KEYS], row), query, weights)
        for row, query, weights in zip(places, tensors[_QUERIES], tensors[_WEIGHTS], strict=True)
    ]
    given = torch.where(within, torch.stack(scores), -torch.inf) if scores else chosen.double()
    return {
        "scores": given.sort(-1, descending=True).values,
        "legal": (legal.all(-1) & ~twice.any(-1)).to(torch.int64),
    }


def _scores(keys: torch.Tensor, query: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return the scores of some keys `[keys, length]` for one query `[heads, length]`."""
    products = torch.relu(keys @ query.to(torch.float64).T)
    return products @ weights.to(torch.float64)


def _reachable(
    places: torch.Tensor, tensors: Mapping[str, torch.Tensor], pages: int, page: int
) -> torch.Tensor:
    """Say which places lie in a page of their row's table, before the row's length."""
    table = tensors[_TABLE].to(torch.int64)
    lengths = tensors[_LENGTHS].to(torch.int64)
    reached = []
    for row, entries, length in zip(places, table, lengths, strict=True):
        held = -(-length.clamp(0, entries.numel() * page) // page)
        used = entries[: int(held)]
        # Where a page stands in the table; of one that stands there twice, the first place.
        position = torch.full((pages,), -1, dtype=torch.int64, device=places.device)
        inside = (used >= 0) & (used < pages)
        order = torch.arange(used.numel(), device=places.device)[inside].flip(0)
        position[used[inside].flip(0)] = order
        at = position[row // page]
        reached.append((at >= 0) & (at * page + row % page < length))
    return torch.stack(reached) if reached else torch.zeros_like(places, dtype=torch.bool)
