"""Everything an agent must know before its first attempt."""

from typing import Final

from kernelarc_guard.axes import Axis, ConstAxis, ExprAxis
from kernelarc_guard.problem import TensorSpec
from kernelarc_mcp.host.advice import next_step
from kernelarc_mcp.host.board_parts import campaign_calibration, record_view
from kernelarc_mcp.host.campaign import Campaign, ensure_workspace
from kernelarc_mcp.host.correctness import correctness_view, limits_view, tolerance_view
from kernelarc_mcp.host.envelope import MAX_BYTES, MAX_FILES, languages_of
from kernelarc_mcp.host.errors import BadRequest, UnknownAgent
from kernelarc_mcp.host.events import AgentAdded
from kernelarc_mcp.host.gate import MAX_SIMILARITY
from kernelarc_mcp.host.guides import INDEX_URI, courses_for, templates
from kernelarc_mcp.host.interface import interface_text
from kernelarc_mcp.host.lenses import backend_of, read_lens
from kernelarc_mcp.host.settings import NAME, CampaignSettings
from kernelarc_mcp.host.submit import register
from kernelarc_mcp.host.tickets import agent_state, standing_of
from kernelarc_mcp.lens_views import LinkView, MoveView, RegionView
from kernelarc_mcp.machine import describe_device
from kernelarc_mcp.views import Brief, LensView, TensorView, WorkloadView
from kernelarc_memory import LESSON_CAP, SUMMARY_CAP

WORKLOADS: Final = 16
"""Workloads in one answer: a problem may have so many that a client would cut them."""


def register_agent(campaign: Campaign, agent: str) -> None:
    """Let an agent in and give it a lens; UnknownAgent for one the campaign does not expect.

    With a pool any well-formed name may join.
    """
    with campaign.journal.reading() as state:
        known = state.agents.get(agent)
        if known is not None and known.lens:
            return
    with campaign.journal.writing() as writer:
        agents = writer.state.agents
        taken = {name.casefold() for name in agents}
        if agent not in agents and campaign.settings.pool:
            if not NAME.fullmatch(agent) or agent.casefold() in taken:
                raise UnknownAgent(f"{agent[:40]!r} cannot be the name of a new agent")
            writer.append(AgentAdded(attempts=None), agent)
        register(writer, agent)
        seed = writer.state.campaign.seed
    ensure_workspace(campaign, agent, seed.sources)


def brief(campaign: Campaign, agent: str, first_workload: int = 0) -> Brief:
    """Register the agent where it is new, and say everything it must know.

    Shows `WORKLOADS` workloads from number `first_workload` on, the first being 0.
    """
    known = campaign.problem.workloads
    if not 0 <= first_workload < len(known):
        raise BadRequest(
            f"first_workload: {first_workload}; this problem's are 0 to {len(known) - 1}"
        )
    register_agent(campaign, agent)
    definition, settings = campaign.problem.definition, campaign.settings
    languages = languages_of(settings.device)
    workspace = str(campaign.workspace(agent))
    weights, end = campaign.problem.weights(), first_workload + WORKLOADS
    with campaign.journal.reading() as state:
        now = campaign.journal.now()
        times = state.record.microseconds
        return Brief(
            campaign=settings.name,
            problem=definition.name,
            operator_class=state.campaign.operator_class,
            description=definition.description,
            device=settings.device,
            machine=describe_device(settings.device),
            inputs=[_tensor(name, spec) for name, spec in definition.inputs.items()],
            outputs=[_tensor(name, spec) for name, spec in definition.outputs.items()],
            axes={name: _axis(axis) for name, axis in definition.axes.items()},
            reference=definition.reference,
            workloads=[
                WorkloadView(
                    uuid=workload.uuid,
                    axes=definition.resolve(workload.axes),
                    record_us=times.get(workload.uuid),
                    weight=weight,
                    tolerance=tolerance_view(workload.tolerance, definition.kernelarc),
                )
                for workload, weight in list(zip(known, weights, strict=True))[first_workload:end]
            ],
            workloads_in_all=len(known),
            next_workload=end if end < len(known) else None,
            languages=list(languages),
            interface=interface_text(definition, languages, settings.schedule.warmup_calls),
            correctness=correctness_view(definition.kernelarc),
            limits=limits_view(campaign.problem, settings.schedule),
            record=record_view(state),
            calibration=campaign_calibration(state, now),
            state=agent_state(state, agent, now),
            workspace=workspace,
            rules=_rules(settings, len(set(weights)) > 1),
            reading=_reading(state.campaign.operator_class, settings.device),
            next_step=next_step(state, agent, now, workspace),
        )


def lens_view(campaign: Campaign, agent: str, name: str = "") -> LensView:
    """Return the agent's lens, or another one that is eligible."""
    with campaign.journal.reading() as state:
        standing = standing_of(state, agent)
        eligible = state.campaign.settings.lenses
        wanted = name or standing.lens
        step = next_step(state, agent, campaign.journal.now(), str(campaign.workspace(agent)))
    if wanted not in eligible:
        raise BadRequest(f"name: {wanted[:60]!r} is not eligible; these are {', '.join(eligible)}")
    lens, backend = read_lens(wanted), backend_of(campaign.settings.device)
    return LensView(
        name=lens.name,
        title=lens.title,
        intent=lens.intent.strip(),
        pays_when=lens.pays_when,
        trap_when=lens.trap_when,
        roofline=RegionView(pays=lens.roofline.pays.strip(), fails=lens.roofline.fails.strip()),
        shapes=RegionView(pays=lens.shapes.pays.strip(), fails=lens.shapes.fails.strip()),
        moves=[
            MoveView(depth=move.depth, do=move.do, when=move.when)
            for move in lens.moves_on(backend)
        ],
        patterns=lens.patterns,
        notes=lens.notes_on(backend),
        templates=[
            LinkView(uri=one.uri, title=one.shows)
            for one in map(templates().__getitem__, lens.templates)
            if one.runs_on(backend)
        ],
        eligible=eligible,
        next_step=step,
    )


def _reading(operator_class: str, device: str) -> list[LinkView]:
    courses = courses_for(operator_class, device)
    links = [LinkView(uri=page.uri, title=page.title) for page in courses]
    return [LinkView(uri=INDEX_URI, title="What there is to read"), *links]


def _tensor(name: str, spec: TensorSpec) -> TensorView:
    return TensorView(name=name, shape=spec.shape, dtype=spec.dtype, description=spec.description)


def _axis(axis: Axis) -> str:
    if isinstance(axis, ConstAxis):
        says = str(axis.value)
    elif isinstance(axis, ExprAxis):
        says = f"= {axis.expression}"
    else:
        says = "varies by workload"
    return f"{says} ({axis.description})" if axis.description else says


def _rules(settings: CampaignSettings, weighted: bool) -> list[str]:
    readable = {
        "always": "view_snapshot shows every submission at any time.",
        "drafting": "view_snapshot shows other agents' submissions only while you are drafting.",
        "never": "view_snapshot shows your own submissions and your branch only.",
    }[settings.snapshots]
    mean = "weighted by `weight`" if weighted else "each workload counting alike"
    return [
        "Every well-formed submission costs one attempt, whatever becomes of it; the same"
        " request_id again costs nothing. There is no free trial: compile and check on a machine of"
        " your own first where you have one. Nothing is read from `workspace`; what you submit is"
        " the text you send.",
        "REJECT: refused before it was measured, r stays. KEEP: confirmed faster than the record,"
        " r is 0. ACCEPT: close to the record, it becomes your branch, r + 1. REVERT: wrong, or"
        " not shown close, r + 1, and your workspace goes back to your branch.",
        "Faster means: the mean over workloads of ln(record's time / candidate's time), "
        f"{mean}; both run side by side in fresh processes, caches cold. A KEEP is proven by fresh"
        f" measurements: more than {settings.parameters.delta:g} % faster on the whole, and no"
        f" workload shown more than {settings.parameters.band:g} % slower. `calibration` says which"
        " gain can be proven here (resolution_percent; null until it was measured): make larger steps"
        " than that.",
        "Every timed output is checked, on new inputs, some of them unannounced and of other kinds."
        " Results kept from earlier calls, work left for later, answers for known inputs only and"
        " lower precision than `correctness` allows end as REVERT.",
        "Not allowed (REJECT policy_forbidden): network, other processes' memory, killing processes,"
        " timers and signals that wake a process, setting device clocks, raw system calls, walking"
        " frames, replacing parts of the evaluator, torch switched to less than float32. The sandbox"
        " shows the system, Python with torch, the compiler and a scratch folder, nothing else."
        " Subprocesses must be gone and threads idle when run returns; at most `limits.threads` may"
        " compute.",
        f"r counts your ACCEPT and REVERT since the last KEEP or draft. At r = {settings.r_draft} you"
        " must DRAFT: change the algorithm, DSL or layout, say which,"
        f" and share at most {MAX_SIMILARITY:.0%} of your branch's text. {readable}",
        f"At most {MAX_FILES} files and {MAX_BYTES // 1024} KiB of sources. The same source again,"
        " also with other comments or formatting, is REJECT duplicate.",
        f"Conclusions: summary up to {SUMMARY_CAP} characters, lesson up to {LESSON_CAP}; a win"
        " cites a KEEP or ACCEPT of yours, a trap a REJECT or REVERT of yours.",
    ]
