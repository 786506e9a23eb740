"""The tools that submit a candidate, wait for its verdict and take it back."""

from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from pydantic import Field

from kernelarc_mcp.follow import follow
from kernelarc_mcp.host.envelope import languages_of
from kernelarc_mcp.host.errors import BadRequest
from kernelarc_mcp.room import submission_within
from kernelarc_mcp.tools.desk import Desk
from kernelarc_mcp.tools.parameters import (
    FileName,
    Files,
    Flags,
    Label,
    Source,
    Ticket,
    Turn,
    Wait,
)
from kernelarc_mcp.views import SubmissionView


class SubmittingTools:
    """Tools about one submission."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def submit_candidate(
        self,
        context: Context[Any, Any],
        source: Source,
        summary: Annotated[
            str, Field(max_length=300, description="What you changed and why, in one sentence.")
        ],
        filename: FileName = "",
        files: Files = {},  # noqa: B006 - a schema default, never changed
        language: Annotated[
            str,
            Field(
                max_length=50,
                description="One of the brief's languages; empty: by the ending of `filename`, python "
                "without one.",
            ),
        ] = "",
        entry_point: Annotated[
            str,
            Field(max_length=240, description="Function to call, or FILE::FUNCTION; empty: `run`."),
        ] = "",
        destination_passing: Annotated[
            bool,
            Field(
                description="Seldom needed: a function that takes the outputs too, or returns nothing "
                "in C++, is seen to fill them. True says so where the text does not."
            ),
        ] = False,
        binding: Annotated[
            Literal["", "tvm-ffi", "dlpack"],
            Field(
                description="How <cuda>CUDA </cuda>C++ is called (see the brief); empty: tvm-ffi where its "
                "headers are included, else dlpack."
            ),
        ] = "",
        cflags: Annotated[
            Flags,
            Field(description="Extra flags for the host's C++ compiler, such as `-ffast-math`."),
        ] = [],  # noqa: B006
        cuda_cflags: Annotated[
            Flags,
            Field(
                description="<cuda>Extra flags for nvcc, as in the brief; no -arch.</cuda><cpu>Not used here.</cpu>"
            ),
        ] = [],  # noqa: B006
        ld_flags: Annotated[
            Flags,
            Field(
                description="Seldom needed: -lm, -ldl, -lrt, -lpthread, -latomic, -lgomp, -lstdc++, "
                "-fopenmp, -pthread, -static-libgcc, -static-libstdc++; no other library. Threads "
                "only where limits.threads is above 1."
            ),
        ] = [],  # noqa: B006
        algorithm: Annotated[
            Label,
            Field(description="Your algorithm in a few words, such as `two-pass`; for drafts."),
        ] = "",
        dsl: Annotated[
            Label,
            Field(
                description="What it is written in, such as `torch`<cuda>, `triton` or `cuda`</cuda><cpu> or `cpp`</cpu>."
            ),
        ] = "",
        layout: Annotated[
            Label, Field(description="How data lies in memory and is walked, in a few words.")
        ] = "",
        model: Annotated[Label, Field(description="Your model's name, recorded only.")] = "",
        tokens: Annotated[
            int, Field(ge=0, le=10**12, description="Tokens spent on this attempt, recorded only.")
        ] = 0,
        cost: Annotated[
            float,
            Field(
                ge=0,
                le=10**9,
                allow_inf_nan=False,
                description="Money spent on this attempt in US dollars, recorded only.",
            ),
        ] = 0.0,
        request_id: Annotated[
            str,
            Field(
                max_length=100,
                description="Any name of yours for this attempt; sending it again returns the "
                "same submission and charges nothing.",
            ),
        ] = "",
        wait_seconds: Wait = 45.0,
    ) -> SubmissionView:
        """Submit one candidate kernel for judgement; costs one attempt whatever the verdict.

        Usually `source`, `summary` and `filename` are enough; the brief's `interface` says how the
        code must look, kernelarc://verdicts how to read the answer. A verdict takes seconds (refused, wrong) to minutes (KEEP): the answer has it
        if it came within wait_seconds (at most 50), else a ticket and state `queued` or `judging`:
        then call wait_submission with the ticket, do not submit again. Judging goes on if this call
        is cut off. Set request_id so that a retried call cannot be charged twice. While your
        directive is DRAFT, declare algorithm, dsl and layout, and change at least one of them."""
        agent = self._desk.caller()
        self._check_language(language)
        ticket, charged = self._desk.host.submit(
            agent,
            source=source,
            filename=filename,
            files=files,
            language=language,
            entry_point=entry_point,
            destination_passing=destination_passing,
            binding=binding,
            cflags=cflags,
            cuda_cflags=cuda_cflags,
            ld_flags=ld_flags,
            summary=summary,
            algorithm=algorithm,
            dsl=dsl,
            layout=layout,
            model=model,
            tokens=tokens or None,
            cost=cost or None,
            request_id=request_id,
        )
        await self._desk.notify()
        view = await self._follow(agent, ticket, context, wait_seconds)
        return submission_within(_told(view.model_copy(update={"charged": charged}), 1))

    async def wait_submission(
        self,
        context: Context[Any, Any],
        ticket: Ticket,
        wait_seconds: Wait = 45.0,
        turn: Turn = 1,
        first_workload: Annotated[
            int, Field(ge=0, le=1_000_000, description="Of a verdict; see next_workload.")
        ] = 0,
    ) -> SubmissionView:
        """Wait for a submission of yours and return it, finished or not. Call it again, with the
        next turn, while `state` is `queued` or `judging`; costs nothing."""
        view = await self._follow(self._desk.reader(), ticket, context, wait_seconds)
        return submission_within(_told(view, turn + 1), first_workload)

    async def cancel_submission(self, ticket: Ticket) -> SubmissionView:
        """Take back a submission of yours that is still queued: it ends as REJECT `cancelled`,
        stays charged, and leaves r as it is. Once judging has begun nothing changes, and
        the answer says so."""
        view = self._desk.host.cancel(self._desk.caller(), ticket)
        await self._desk.notify()
        return submission_within(view)

    async def look(self, ticket: str) -> SubmissionView:
        """Return a submission of the caller as it stands now, as its first wait would."""
        view = self._desk.host.submission(self._desk.reader(), ticket)
        return submission_within(_told(view, 2))

    def _check_language(self, language: str) -> None:
        """Raise BadRequest for what no candidate can be written in here: a slip costs no attempt.

        No enum in the schema: which languages there are depends on the campaign's device.
        """
        allowed = languages_of(self._desk.host.settings.device)
        if language and language not in allowed:
            raise BadRequest(
                f"`language`: expected one of {', '.join(allowed)}, or none, got {language!a}."
                " Nothing was stored, nothing was charged."
            )

    async def _follow(
        self, agent: str, ticket: str, context: Context[Any, Any], seconds: float
    ) -> SubmissionView:
        view = await follow(self._desk.host, agent, ticket, context, seconds)
        if seconds:
            # What came while it waited.
            await self._desk.notify()
        return view


def _told(view: SubmissionView, turn: int) -> SubmissionView:
    """Return the view with the next wait's turn in its next step, where there is one."""
    if view.state == "done":
        return view
    step = (
        f"Call wait_submission with ticket {view.ticket} and turn {turn}, until it has a verdict."
    )
    return view.model_copy(update={"next_step": step})
