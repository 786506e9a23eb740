"""Everything an agent must know before its first attempt."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from kernelarc_guard.axes import Axis, ConstAxis, ExprAxis
from kernelarc_guard.problem import Definition, Problem, TensorSpec
from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.baselines import REFERENCE
from kernelarc_mcp.host.board_parts import campaign_calibration, record_view
from kernelarc_mcp.host.campaign import Campaign, ensure_workspace
from kernelarc_mcp.host.correctness import correctness_view, limits_view, tolerance_view
from kernelarc_mcp.host.envelope import languages_of
from kernelarc_mcp.host.errors import BadRequest, UnknownAgent
from kernelarc_mcp.host.events import AgentAdded
from kernelarc_mcp.host.fitting import fitting_templates
from kernelarc_mcp.host.glossary import URI as VERDICTS_URI
from kernelarc_mcp.host.guides import INDEX_URI, courses_for
from kernelarc_mcp.host.interface import (
    ELSEWHERE,
    LESS,
    interface_sections,
    shorter_interface,
)
from kernelarc_mcp.host.lenses import Region, backend_of, read_lens
from kernelarc_mcp.host.onlookers import NEXT_STEP, ONLOOKER
from kernelarc_mcp.host.rules import rules_of
from kernelarc_mcp.host.settings import NAME
from kernelarc_mcp.host.state import CampaignState
from kernelarc_mcp.host.submit import register
from kernelarc_mcp.host.tickets import agent_state, standing_of
from kernelarc_mcp.host.wording import worded
from kernelarc_mcp.lens_views import LinkView, MoveView, RegionView
from kernelarc_mcp.machine import describe_device
from kernelarc_mcp.views import Brief, LensView, TensorView, ToleranceView, WorkloadView

ROOM: Final = 9_900
"""Characters an answer should fit in: some clients cut from 10,000 on, in the middle."""
MOST: Final = 11_900
"""What it fits in also for a problem that needs more to be told."""
FEWEST: Final = 2
"""Workloads that are shown however long the rest is."""


def register_agent(campaign: Campaign, agent: str) -> None:
    """Let an agent in and give it a lens; UnknownAgent for one the campaign does not expect.

    With a pool any well-formed name may join.
    """
    with campaign.journal.reading() as state:
        known = state.agents.get(agent)
        registered = known is not None and bool(known.lens)
        seed = state.campaign.seed
    if registered:
        # It may have registered in a process that was killed before it made this.
        ensure_workspace(campaign, agent, seed.sources)
        return
    with campaign.journal.writing() as writer:
        agents = writer.state.agents
        taken = {name.casefold() for name in agents}
        if agent not in agents and campaign.settings.pool:
            if not NAME.fullmatch(agent) or agent.casefold() in taken:
                raise UnknownAgent(f"{agent[:40]!r} cannot be the name of a new agent")
            writer.append(AgentAdded(attempts=None), agent)
        register(writer, agent)
    ensure_workspace(campaign, agent, seed.sources)


def brief(campaign: Campaign, agent: str, first_workload: int = 0) -> Brief:
    """Register the agent where it is new, and say everything it must know.

    Shows workloads from number `first_workload` on (the first is 0), as many as there is room for.
    """
    known = campaign.problem.workloads
    if not 0 <= first_workload < len(known):
        raise BadRequest(
            f"first_workload: {first_workload}; this problem's are 0 to {len(known) - 1}"
        )
    register_agent(campaign, agent)
    fixed = campaign.memo.lasting("brief", lambda: _fixed(campaign))
    workspace = campaign.shown_workspace(agent)
    with campaign.journal.reading() as state:
        now = campaign.journal.now()
        calibration = campaign_calibration(state, now)
        standing = agent_state(state, agent, now)
        told: dict[str, object] = {
            "calibration": calibration,
            "state": standing,
            "workspace": workspace,
            "next_step": next_step(state, agent, now, workspace, "brief"),
        }
        # All that the hour may change beside the rows: no other, no other brief.
        written = [one.model_dump_json() for one in (calibration, standing) if one is not None]
        key = ("brief", first_workload, workspace, told["next_step"], *written)
        return campaign.memo.at(state.seq, key, lambda: _told(fixed, state, first_workload, told))


def _told(
    fixed: "_Fixed", state: CampaignState, first_workload: int, told: dict[str, object]
) -> Brief:
    whole = Brief.model_validate(fixed.told | {"record": record_view(state)} | told)
    times, reference = state.record.microseconds, _reference_times(state)
    views = (_timed(view, times, reference) for view in fixed.workloads[first_workload:])
    first = list(islice(views, FEWEST))
    whole = _within(whole, fixed.sections, first)
    shown = _fitting(whole, chain(first, views))
    end = first_workload + len(shown)
    known = len(fixed.workloads)
    return whole.model_copy(
        update={"workloads": shown, "next_workload": end if end < known else None}
    )


@dataclass(frozen=True)
class _Fixed:
    """What every brief of a campaign says."""

    told: dict[str, object]
    """Field -> value, but for those that are about an agent, the record or the calibration."""
    sections: dict[str, str]
    workloads: list[WorkloadView]
    """Without times."""


def _fixed(campaign: Campaign) -> _Fixed:
    definition, settings = campaign.problem.definition, campaign.settings
    languages = languages_of(settings.device)
    sections = interface_sections(definition, languages, settings.schedule.warmup_calls)
    views, tolerance = _said_once(_workloads(campaign.problem))
    tensors = [*definition.inputs.values(), *definition.outputs.values()]
    told: dict[str, object] = {
        "campaign": settings.name,
        "problem": definition.name,
        "operator_class": definition.operator_class,
        "description": definition.description,
        "device": settings.device,
        "machine": describe_device(settings.device),
        "inputs": [_tensor(name, spec) for name, spec in definition.inputs.items()],
        "outputs": [_tensor(name, spec) for name, spec in definition.outputs.items()],
        "axes": {name: _axis(axis) for name, axis in definition.axes.items()},
        "reference": definition.reference,
        "tolerance": tolerance,
        "workloads": [],
        "workloads_in_all": len(views),
        "next_workload": None,
        "languages": list(languages),
        "interface": shorter_interface(sections, ELSEWHERE),
        "correctness": correctness_view(
            definition.kernelarc,
            {spec.dtype for spec in tensors},
            {spec.dtype for spec in definition.outputs.values()},
        ),
        "limits": limits_view(campaign.problem, settings.schedule, settings.device),
        "rules": rules_of(settings, len({view.weight for view in views}) > 1),
        "reading": _reading(definition.operator_class, settings.device),
    }
    return _Fixed(told, sections, views)


def lens_view(campaign: Campaign, agent: str, name: str = "") -> LensView:
    """Return the agent's lens, or another one that is eligible; an onlooker names the one it wants."""
    with campaign.journal.reading() as state:
        eligible = state.campaign.settings.lenses
        if agent == ONLOOKER:
            wanted, step = name, NEXT_STEP
        else:
            own = standing_of(state, agent).lens
            wanted = name or own
            now, workspace = campaign.journal.now(), campaign.shown_workspace(agent)
            step = next_step(state, agent, now, workspace, "lens" if wanted == own else "")
    if wanted not in eligible:
        raise BadRequest(f"name: {wanted[:60]!r} is not eligible; these are {', '.join(eligible)}")
    shown = campaign.memo.lasting(("lens", wanted), lambda: _shown(campaign, wanted, eligible))
    return shown.model_copy(update={"next_step": step})


def _shown(campaign: Campaign, name: str, eligible: list[str]) -> LensView:
    """Return a lens as everybody sees it: what it says depends on the problem and the device alone."""
    lens, backend = read_lens(name), backend_of(campaign.settings.device)
    operator_class = campaign.problem.definition.operator_class

    def said(texts: Iterable[str]) -> list[str]:
        return [worded(text.strip(), backend) for text in texts]

    def region(of: Region) -> RegionView:
        pays, fails = said((of.pays, of.fails))
        return RegionView(pays=pays, fails=fails)

    return LensView(
        name=lens.name,
        title=lens.title,
        intent=worded(lens.intent.strip(), backend),
        pays_when=said(lens.pays_when),
        trap_when=said(lens.trap_when),
        roofline=region(lens.roofline),
        shapes=region(lens.shapes),
        moves=[
            MoveView(depth=move.depth, do=worded(move.do, backend), when=worded(move.when, backend))
            for move in lens.moves_on(backend)
        ],
        patterns=said(lens.patterns_on(backend)),
        notes=said(lens.notes_on(backend, describe_device(campaign.settings.device))),
        templates=[
            LinkView(uri=one.uri, title=one.shows)
            for one in fitting_templates(operator_class, campaign.settings.device)
            if one.name in lens.templates
        ],
        eligible=eligible,
        next_step="",
    )


def _reading(operator_class: str, device: str) -> list[LinkView]:
    courses = courses_for(operator_class, device)
    links = [LinkView(uri=page.uri, title=page.title) for page in courses]
    return [
        LinkView(uri=VERDICTS_URI, title="How to read a verdict: example, reason codes, words"),
        LinkView(uri=INDEX_URI, title="What there is to read"),
        *links,
    ]


def _tensor(name: str, spec: TensorSpec) -> TensorView:
    return TensorView(name=name, shape=spec.shape, dtype=spec.dtype, description=spec.description)


def _reference_times(state: CampaignState) -> dict[str, float]:
    """Return what the reference took by workload, microseconds; where it is the seed, the seed."""
    if state.campaign.reference is None:
        return state.records[0].microseconds
    return next((one.microseconds for one in state.baselines if one.name == REFERENCE), {})


def _said_once(views: list[WorkloadView]) -> tuple[list[WorkloadView], ToleranceView | None]:
    """Take a tolerance that all workloads share out of them."""
    first = views[0].tolerance
    if any(view.tolerance != first for view in views):
        return views, None
    return [view.model_copy(update={"tolerance": None}) for view in views], first


def _workloads(problem: Problem) -> list[WorkloadView]:
    definition = problem.definition
    return [
        WorkloadView(
            uuid=workload.uuid,
            axes=_extents(definition, workload.axes),
            record_us=None,
            reference_us=None,
            weight=round(weight, 6),
            tolerance=tolerance_view(workload.tolerance, definition.kernelarc),
        )
        for workload, weight in zip(problem.workloads, problem.weights(), strict=True)
    ]


def _timed(
    view: WorkloadView, times: dict[str, float], reference: dict[str, float]
) -> WorkloadView:
    measured = {"record_us": times.get(view.uuid), "reference_us": reference.get(view.uuid)}
    return view.model_copy(update=measured)


def _within(whole: Brief, sections: dict[str, str], views: list[WorkloadView]) -> Brief:
    """Leave sections to the resource where the brief is too long with these workloads."""
    room = MOST - sum(len(view.model_dump_json()) + 1 for view in views)
    for count in range(1, len(LESS) + 1):
        if len(whole.model_dump_json()) <= room:
            break
        interface = shorter_interface(sections, {*ELSEWHERE, *LESS[:count]})
        whole = whole.model_copy(update={"interface": interface})
    if len(whole.model_dump_json()) > room and whole.calibration is not None:
        # The board shows them too.
        known = whole.calibration.model_copy(update={"toolchain": {}})
        whole = whole.model_copy(update={"calibration": known})
    return whole


def _fitting(whole: Brief, views: Iterable[WorkloadView]) -> list[WorkloadView]:
    """Return the first of the views, as many as fit beside the rest of the answer."""
    room = ROOM - len(whole.model_dump_json())
    shown: list[WorkloadView] = []
    for view in views:
        room -= len(view.model_dump_json()) + 1
        if room < 0 and len(shown) >= FEWEST:
            break
        shown.append(view)
    return shown


def _extents(definition: Definition, given: dict[str, int]) -> dict[str, int]:
    """Return the axes that may differ between workloads; the constant ones stand in `axes`."""
    constant = {name for name, axis in definition.axes.items() if isinstance(axis, ConstAxis)}
    resolved = definition.resolve(given)
    return {name: length for name, length in resolved.items() if name not in constant}


def _axis(axis: Axis) -> str:
    if isinstance(axis, ConstAxis):
        says = str(axis.value)
    elif isinstance(axis, ExprAxis):
        says = f"= {axis.expression}"
    else:
        says = "varies by workload"
    return f"{says} ({axis.description})" if axis.description else says
