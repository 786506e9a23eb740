"""What was searched: the problem, what the speedups are over, and what the record is."""

from collections.abc import Iterable

from kernelarc_guard.definition import TensorSpec
from kernelarc_guard.model import Model
from kernelarc_guard.words import axes_in_words
from kernelarc_guard.workload import Tolerance
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.state import CampaignState


class ProblemFacts(Model):
    """A problem in words."""

    description: str
    operator_class: str
    dtypes: list[str]
    """Of the inputs and outputs, each once."""
    inputs: list[str]
    """`name dtype [axes]`."""
    outputs: list[str]
    workloads: list[str]
    """Axes of each, in the problem's order."""
    tolerance: str
    seed: str
    """What every speedup is over."""
    own_seed: bool
    """The seed is not the reference."""
    reference: str
    record: str
    """The record's summary, as its agent wrote it; empty where the seed is the record."""


def problem_facts(campaign: Campaign, state: CampaignState) -> ProblemFacts:
    """Return what a campaign's first row, and its record's submission, tell."""
    created, problem = state.campaign, campaign.problem
    definition = problem.definition
    tensors = [*definition.inputs.values(), *definition.outputs.values()]
    seed = created.seed
    told = f"{seed.name} by {seed.author}" + (f": {seed.description}" if seed.description else "")
    reference = "the definition's PyTorch code, run as it is"
    if created.reference is None:
        told, reference = f"the reference: {reference}", "the seed itself"
    known = state.attempts.get(state.record.ticket)
    record = ""
    if known is not None:
        proposal = known.proposal
        parts = (known.found_dsl, proposal.algorithm, proposal.layout)
        kind = ", ".join(part for part in parts if part)
        record = " ".join(proposal.summary.split()) or "no summary was given"
        record += f"; {kind}" if kind else ""
    return ProblemFacts(
        description=definition.description,
        operator_class=created.operator_class,
        dtypes=list(dict.fromkeys(spec.dtype for spec in tensors if spec.shape is not None)),
        inputs=[_tensor(*item) for item in definition.inputs.items()],
        outputs=[_tensor(*item) for item in definition.outputs.items()],
        workloads=[axes_in_words(one.axes, one.uuid) for one in problem.workloads],
        tolerance=_tolerances(one.tolerance for one in problem.workloads),
        seed=f"{told} ({', '.join(seed.spec.languages)})",
        own_seed=created.reference is not None,
        reference=reference,
        record=record,
    )


def problem_lines(facts: ProblemFacts) -> list[tuple[str, str]]:
    """Return names and values."""
    count = len(facts.workloads)
    return [
        ("Problem", f"{facts.description or 'no description'} ({facts.operator_class})"),
        ("Inputs", "; ".join(facts.inputs)),
        ("Outputs", "; ".join(facts.outputs)),
        (f"{count} workload{'' if count == 1 else 's'}", "; ".join(facts.workloads)),
        ("Tolerance", facts.tolerance),
        ("Seed (the speedups are over it)", facts.seed),
        ("Reference (it says what is right)", facts.reference),
        ("Record", facts.record or "still the seed"),
    ]


def _tensor(name: str, spec: TensorSpec) -> str:
    shape = "number" if spec.shape is None else f"[{', '.join(spec.shape)}]"
    return f"{name} {spec.dtype} {shape}"


def _tolerances(tolerances: Iterable[Tolerance]) -> str:
    return "; or, by workload: ".join(dict.fromkeys(_tolerance(one) for one in tolerances))


def _tolerance(one: Tolerance) -> str:
    part = 100 * one.required_matched_ratio
    said = f"|got - wanted| <= {one.max_atol:g} + {one.max_rtol:g} |wanted|"
    said += f" for {'all' if part == 100 else f'{part:g} % of the'} elements"
    return (
        said
        if one.max_error_cap is None
        else f"{said}, none off by more than {one.max_error_cap:g}"
    )
