"""What a client says that a run of it used, for tests."""

from kernelarc_mcp.host.events import Used


def used(run: str, cost: float | None = None, model: str = "", cached: int | None = 0) -> Used:
    """Return a run of a million input and a hundred thousand output tokens."""
    return Used(
        run=run,
        client="codex",
        input_tokens=1_000_000,
        output_tokens=100_000,
        cost_usd=cost,
        cached_tokens=cached,
        model=model,
    )
