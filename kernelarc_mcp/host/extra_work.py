"""The dispatcher's part of extra boards: records measured on other models, beside all else.

It takes no lane: a device of another model is none of the campaign's, so nothing of its own ever waits for
this. What is owed is a function of the rows, so whoever dispatches next goes on with it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import anyio

from kernelarc_guard.fleet_wire import Placed
from kernelarc_guard.protocol import Compare, Result
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.events import ExtraMeasured
from kernelarc_mcp.host.extra_state import over_seed_of
from kernelarc_mcp.host.guard_client import DeviceLost, GuardError, GuardNotStarted
from kernelarc_mcp.host.judgement_rows import MAX_RESTARTS
from kernelarc_mcp.host.submit import solution_of

EXTRA_PAIRS: Final = 14
"""As many as a record that is measured again."""
_LOG: Final = logging.getLogger(__name__)


@runtime_checkable
class OtherModels(Protocol):
    """An executor that reaches devices of other models than the campaign's own."""

    def reaches(self, model: str) -> bool:
        """Say whether a device of a model is at work."""

    async def judge_on(
        self,
        model: str,
        request: Compare,
        *,
        deadline: float,
        on_placed: Callable[[Placed], None],
    ) -> Result:
        """Return the result of a comparison on a model's device, after all that anybody else asks of it."""


@dataclass(frozen=True)
class ExtraPlan:
    """A record that is owed to an extra board."""

    record: str
    model: str
    request: Compare


class ExtraWork:
    """Measures what is owed, one record at a time on each model."""

    def __init__(
        self,
        campaign: Campaign,
        executor: object,
        cache_dir: str,
        machine: str,
        *,
        deadline: float,
        retry: float,
        poll: float,
    ) -> None:
        """Look for what is owed every `poll` seconds; `retry`, after a failure, is in seconds, too."""
        self._campaign = campaign
        self._executor = executor
        self._machine = machine
        self._requests = campaign.requests(cache_dir)
        self._deadline = deadline
        self._retry = retry
        self._poll = poll
        self._busy: set[str] = set()
        """Models on which something is measured, or rests after it failed."""

    @property
    def idle(self) -> bool:
        """Say whether nothing is measured and nothing owed could be."""
        executor = self._executor
        if not isinstance(executor, OtherModels):
            return True
        return not any(map(executor.reaches, self._busy)) and not self.due(executor)

    async def follow(self) -> None:
        """Measure what is owed wherever its model is reached, until cancelled."""
        models = self._campaign.settings.extra_models
        if not models:
            return
        executor = self._executor
        if not isinstance(executor, OtherModels):
            names = ", ".join(models)
            _LOG.warning("what is owed to extra boards (%s) waits for a fleet that has them", names)
            return
        async with anyio.create_task_group() as group:
            while True:
                for plan in self.due(executor):
                    self._busy.add(plan.model)
                    group.start_soon(self._measure, executor, plan)
                await anyio.sleep(self._poll)

    def due(self, executor: OtherModels) -> list[ExtraPlan]:
        """Return what can begin now: of each model that is reached and free the newest record."""
        with self._campaign.journal.reading() as state:
            # A calibration is measured alone, as far as it is for the campaign to say.
            owed = () if state.calibration_asked else state.extra_owed
            newest = {model: record for record, model in owed}
            return [
                ExtraPlan(
                    record,
                    model,
                    self._requests.compare(
                        f"extra-{record}",
                        state.campaign.seed,
                        solution_of(self._campaign, state, record),
                        pairs=EXTRA_PAIRS,
                        blocks=state.campaign.settings.parameters.blocks_confirm,
                        checked=True,
                    ),
                )
                for model, record in newest.items()
                if model not in self._busy and executor.reaches(model)
            ]

    async def _measure(self, executor: OtherModels, plan: ExtraPlan) -> None:
        device, failures = "", 0

        def placed(on: Placed) -> None:
            nonlocal device
            device = on.device

        try:
            while True:
                try:
                    result = await executor.judge_on(
                        plan.model, plan.request, deadline=self._deadline, on_placed=placed
                    )
                except GuardError as error:
                    # What was lost, or cannot be begun, is nobody's fault: it stays owed.
                    failures += not isinstance(error, DeviceLost | GuardNotStarted)
                    if failures > MAX_RESTARTS:
                        why = f"It could not be compared with the seed there: {error.words}."
                        self.store(plan, device, None, why)
                        return
                    _LOG.info("%s on %s again: %s", plan.record, plan.model, error)
                    await anyio.sleep(self._retry)
                    if not executor.reaches(plan.model):
                        return
                else:
                    self.store(plan, device, result, result.detail)
                    return
        finally:
            self._busy.discard(plan.model)

    def store(self, plan: ExtraPlan, device: str, result: Result | None, detail: str) -> None:
        """Write what was measured, unless it is not owed any more: the record may be withdrawn."""
        with self._campaign.journal.writing() as writer:
            if (plan.record, plan.model) not in writer.state.extra_owed:
                return
            over_seed = over_seed_of(writer.state, result)
            if over_seed is None and not detail:
                detail = "Fewer than two pairs were measured."
            writer.append(
                ExtraMeasured(
                    record=plan.record,
                    model=plan.model,
                    device=device,
                    result=result,
                    over_seed=over_seed,
                    machine=self._machine,
                    detail=detail,
                )
            )
