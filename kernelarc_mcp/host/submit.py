"""Making an attempt: one transaction that charges it and, where the host can, rejects it."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, NamedTuple

from pydantic import ValidationError

from kernelarc_guard.solution import NATIVE_LANGUAGES, Solution, SourceFile
from kernelarc_mcp.host.calling import fills_outputs
from kernelarc_mcp.host.campaign import Campaign
from kernelarc_mcp.host.envelope import Envelope, encode, file_ref, is_kept, open_envelope
from kernelarc_mcp.host.errors import BadRequest, BudgetSpent, LedgerBroken, UnknownAgent
from kernelarc_mcp.host.events import SEED, Proposal, Registered, Submitted
from kernelarc_mcp.host.gate import refuse
from kernelarc_mcp.host.journal import Writer
from kernelarc_mcp.host.plateau import first_lens
from kernelarc_mcp.host.settle import append_settled
from kernelarc_mcp.host.state import Attempt, CampaignState

MAX_SUMMARY: Final = 300
MAX_WORD: Final = 120
MAX_FLAGS: Final = 64
_SUFFIX_LANGUAGES: Final = {".py": "python", ".cu": "cuda"}
_BINDINGS: Final = ("", "tvm-ffi", "dlpack", "torch")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """What an agent sends; empty strings take their value from the rest."""

    source: str
    filename: str = ""
    files: dict[str, str] = field(default_factory=dict)
    language: str = ""
    entry_point: str = ""
    destination_passing: bool = False
    binding: str = ""
    cflags: list[str] = field(default_factory=list)
    cuda_cflags: list[str] = field(default_factory=list)
    ld_flags: list[str] = field(default_factory=list)
    summary: str = ""
    algorithm: str = ""
    dsl: str = ""
    layout: str = ""
    model: str = ""
    tokens: int | None = None
    cost: float | None = None
    request_id: str = ""


class Ticket(NamedTuple):
    """The submission an attempt became."""

    ticket: str
    charged: bool
    """False where the request id was seen before: nothing was charged again."""


def register(writer: Writer, agent: str) -> None:
    """Give an agent its lens where it has none yet; UnknownAgent where there is no such agent."""
    standing = writer.state.agents.get(agent)
    if standing is None:
        expected = ", ".join(writer.state.agents)
        raise UnknownAgent(f"there is no agent {agent!r} in this campaign; it expects {expected}")
    if not standing.lens:
        writer.append(Registered(lens=first_lens(writer.state)), agent)


def submit(campaign: Campaign, agent: str, candidate: Candidate) -> Ticket:
    """Charge an attempt and queue it, or settle it at once where the host's gate refuses it."""
    definition = campaign.problem.definition
    arguments = len(definition.inputs) + len(definition.outputs)
    proposal, contents = _proposal(candidate, arguments)
    with campaign.journal.writing() as writer:
        if agent in writer.state.agents and candidate.request_id:
            seen = writer.state.attempts.requested(agent, candidate.request_id)
            if seen is not None:
                return Ticket(seen, charged=False)
        register(writer, agent)
        _check_budget(writer, agent)
        state = writer.state
        number = state.used + 1
        ticket = f"s{number:03d}"
        envelope = _open(campaign, ticket, agent, proposal, contents)
        refusal = refuse(
            state,
            agent,
            envelope,
            proposal.algorithm,
            proposal.layout,
            lambda submission: sources_of(campaign, state, submission),
        )
        standing = state.agents[agent]
        solution = envelope.solution
        if is_kept(proposal):
            for file, content in zip(proposal.files, contents, strict=True):
                writer.store_blob(file.digest, encode(content))
        writer.append(
            Submitted(
                number=number,
                request_id=candidate.request_id,
                proposal=proposal,
                lens=standing.lens,
                episode=standing.episode if standing.drafting else 0,
                key=envelope.key,
                found_dsl=envelope.found_dsl,
                solution_digest=None if solution is None else solution.digest,
            ),
            agent,
            ticket,
        )
        if refusal is not None:
            append_settled(writer, state.attempts[ticket], refusal)
    return Ticket(ticket, charged=True)


def sources_of(campaign: Campaign, state: CampaignState, submission: str) -> list[SourceFile]:
    """Return the files of a submission, or of the seed; empty where they were too large to keep."""
    if submission == SEED:
        return state.campaign.seed.sources
    proposal = state.attempts[submission].proposal
    if not is_kept(proposal):
        return []
    texts = contents_of(campaign, proposal)
    # Made without validation: what the envelope refused can still be looked at.
    return [
        SourceFile.model_construct(path=file.path, content=text)
        for file, text in zip(proposal.files, texts, strict=True)
    ]


def solution_of(campaign: Campaign, state: CampaignState, submission: str) -> Solution:
    """Return a submission that passed the envelope, or the seed, as the solution the guard gets."""
    if submission == SEED:
        return state.campaign.seed
    attempt = state.attempts[submission]
    solution = envelope_of(campaign, attempt).solution
    if solution is None:
        raise LedgerBroken(f"{submission} is no solution, yet it is to be judged")
    return solution


def envelope_of(campaign: Campaign, attempt: Attempt) -> Envelope:
    """Open the envelope of a stored submission again."""
    kept = is_kept(attempt.proposal)
    contents = contents_of(campaign, attempt.proposal) if kept else []
    return _open(campaign, attempt.ticket, attempt.agent, attempt.proposal, contents)


def contents_of(campaign: Campaign, proposal: Proposal) -> list[str]:
    """Return the texts of a stored proposal's files."""
    texts: list[str] = []
    for file in proposal.files:
        data = campaign.journal.ledger.blob(file.digest)
        if data is None:
            raise LedgerBroken(f"the bytes of {file.path} ({file.digest[:12]}) are missing")
        texts.append(data.decode("utf-8", "surrogatepass"))
    return texts


def _open(
    campaign: Campaign, ticket: str, agent: str, proposal: Proposal, contents: list[str]
) -> Envelope:
    definition = campaign.problem.definition.name
    return open_envelope(proposal, contents, campaign.settings.device, definition, ticket, agent)


def _check_budget(writer: Writer, agent: str) -> None:
    limit = writer.state.limit_reached(writer.at, agent)
    if limit:
        raise BudgetSpent(f"the campaign is over: {limit}; reading stays allowed")
    if writer.state.attempts_left(agent) <= 0:
        raise BudgetSpent(
            f"no attempt is left for {agent}; reading and writing conclusions stay allowed"
        )


def _proposal(candidate: Candidate, arguments: int) -> tuple[Proposal, list[str]]:
    """Fill in what was left out; BadRequest for what no submission can hold."""
    _check_words(candidate)
    language = candidate.language or _language_of(candidate.filename)
    filename = candidate.filename or f"kernel{_suffix_of(language)}"
    entry = candidate.entry_point or "run"
    if "::" not in entry:
        entry = f"{filename}::{entry}"
    files = [(filename, candidate.source), *candidate.files.items()]
    file, _, function = entry.rpartition("::")
    text = dict(files).get(file, "")
    binding = candidate.binding
    if not binding and language in NATIVE_LANGUAGES:
        headers = any("<tvm/ffi/" in content for _, content in files)
        binding = "tvm-ffi" if headers else "dlpack"
    try:
        proposal = Proposal(
            language=language,
            entry_point=entry,
            destination_passing=candidate.destination_passing
            or fills_outputs(text, function, language, binding, arguments),
            binding=binding,
            cflags=candidate.cflags,
            cuda_cflags=candidate.cuda_cflags,
            ld_flags=candidate.ld_flags,
            files=[file_ref(path, content) for path, content in files],
            summary=candidate.summary,
            algorithm=candidate.algorithm,
            layout=candidate.layout,
            dsl=candidate.dsl,
            model=candidate.model,
            tokens=candidate.tokens,
            cost=candidate.cost,
        )
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadRequest(f"{where}: {first['msg']}") from error
    return proposal, [content for _, content in files]


def _check_words(candidate: Candidate) -> None:
    words = {
        name: getattr(candidate, name)
        for name in ("language", "binding", "algorithm", "dsl", "layout", "model", "request_id")
    }
    words |= {"filename": candidate.filename, "entry_point": candidate.entry_point}
    for name, text in words.items():
        cap = 2 * MAX_WORD if name in ("filename", "entry_point") else MAX_WORD
        _check_text(name, text, cap)
    _check_text("summary", candidate.summary, MAX_SUMMARY)
    for name in ("cflags", "cuda_cflags", "ld_flags"):
        flags: list[str] = getattr(candidate, name)
        if len(flags) > MAX_FLAGS:
            raise BadRequest(f"{name}: {len(flags)} flags; at most {MAX_FLAGS} are allowed")
        for flag in flags:
            _check_text(name, flag, 2 * MAX_WORD)
    if candidate.binding not in _BINDINGS:
        allowed = ", ".join(binding for binding in _BINDINGS if binding)
        raise BadRequest(f"binding: {candidate.binding!r}; allowed are {allowed}, or none")


def _check_text(name: str, text: str, cap: int) -> None:
    if len(text) > cap:
        raise BadRequest(f"{name}: {len(text)} characters; at most {cap} are allowed")
    if "\x00" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise BadRequest(f"{name}: is not valid text")


def _language_of(filename: str) -> str:
    suffix = PurePosixPath(filename).suffix if filename else ".py"
    return _SUFFIX_LANGUAGES.get(suffix, "cpp")


def _suffix_of(language: str) -> str:
    if language in NATIVE_LANGUAGES:
        return ".cu" if language.startswith("cuda") else ".cpp"
    return ".py"
