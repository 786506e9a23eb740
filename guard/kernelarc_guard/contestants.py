"""The solutions of one request: looked at by the policy and built, each in its role (imports torch)."""

from dataclasses import replace
from pathlib import Path

from kernelarc_guard.backend import Backend
from kernelarc_guard.bench import Contestant
from kernelarc_guard.build import BuildFailed, BuildHeld, Built, build
from kernelarc_guard.cores import builder_cores
from kernelarc_guard.device_properties import properties_of
from kernelarc_guard.faults import Refused, SolutionFault
from kernelarc_guard.keeper import SLOTS
from kernelarc_guard.kernels_ahead import Order, found_ahead
from kernelarc_guard.policy import examine
from kernelarc_guard.preparing import Preparing
from kernelarc_guard.protocol import BuildMessage, Calibrate, Confirm, Request, Screen
from kernelarc_guard.reasons import REASONS
from kernelarc_guard.report import Report
from kernelarc_guard.sandbox import Sandbox
from kernelarc_guard.solution import Solution
from kernelarc_guard.supervised import SupervisorLost


class Contestants:
    """What a request compares; a candidate that fails has its verdict, by the report's Outcome."""

    def __init__(
        self,
        request: Request,
        report: Report,
        backend: Backend,
        cache: Path,
        sandbox: Sandbox,
        preparing: Preparing,
    ) -> None:
        """Build nothing yet; builds are cached in `cache`, where `preparing` may have made them."""
        self._request = request
        self._report = report
        self._backend = backend
        self._cache = cache
        self._sandbox = sandbox
        self._preparing = preparing
        self._told_ahead: list[BuildMessage] = []
        self.arms: dict[str, Contestant] = {}
        """What was built, by role."""

    def examine(self, candidate: Solution) -> None:
        """Have the policy look at a candidate; what it refuses is its verdict."""
        examined = examine(candidate, self._request.problem.definition)
        for seen in examined.observations():
            self._report.observe(seen)
        findings = examined.findings
        for found in findings[:10]:
            self._report.observe(f"{found.rule}: {found.file}:{found.line} {found.message}")
        if findings:
            reason = findings[0].reason
            lines = [f"{f.file}:{f.line}: {f.rule}: {f.message}" for f in findings[:10]]
            raise self._report.failure(
                "policy", SolutionFault(reason, f"{REASONS[reason].says} " + "; ".join(lines))
            )

    def build_all(self) -> None:
        """Build the solutions of the request, the candidate first."""
        request, report, arms = self._request, self._report, self.arms
        if isinstance(request, Screen):
            with report.stage("build"):
                arms["candidate"] = self._build_candidate(request)
        elif not isinstance(request, Calibrate):
            with report.stage("build"):
                arms["candidate"] = self._built(request.candidate)
        arms["record"] = self._record()
        if isinstance(request, Confirm) and request.anchor:
            arms["anchor"] = self._anchor(request.anchor)

    def _build_candidate(self, request: Screen) -> Contestant:
        candidate = self._built(request.candidate)
        digest = candidate.built.digest
        earlier = request.known_binaries.get(digest)
        if earlier is not None:
            raise self._report.failure(
                "duplicate",
                SolutionFault("duplicate", f"it builds to the same binary as submission {earlier}"),
            )
        return candidate

    def _built(self, solution: Solution) -> Contestant:
        """Build the candidate; a failure is its verdict."""
        try:
            contestant = self._make(solution, "candidate")
        except BuildFailed as failed:
            self._report.messages = list(failed.messages)
            raise self._report.failure(
                "build", SolutionFault(failed.reason, failed.detail)
            ) from None
        except SupervisorLost as lost:
            said = f"what builds the candidate was killed or hangs: {lost}"
            raise Refused(said, "builder_lost") from None
        self._report.binary = contestant.built.digest
        self._report.messages = [*contestant.built.messages, *self._told_ahead]
        return contestant

    def _record(self) -> Contestant:
        try:
            return self._make(self._request.record, "record")
        except BuildFailed as failed:
            raise Refused(f"the record does not build: {failed.detail}", "record_failed") from None

    def _anchor(self, solution: Solution) -> Contestant:
        try:
            return self._make(solution, "anchor")
        except BuildFailed as failed:
            raise Refused(f"the anchor does not build: {failed.detail}", "anchor_failed") from None

    def _make(self, solution: Solution, role: str) -> Contestant:
        built = self._found(solution)
        left, told = found_ahead(self._order(solution, built), self._cache)
        if role == "candidate":
            self._told_ahead = told
        return Contestant(solution, replace(built, ahead=left), SLOTS.index(role))

    def _found(self, solution: Solution) -> Built:
        """Build a solution, or find it built; a stuck process that is building it says nothing about it."""
        try:
            return self._build(solution)
        except BuildHeld as error:
            held = error
        # Ours, perhaps: what is built ahead must never decide anything.
        if self._preparing.end():
            try:
                return self._build(solution)
            except BuildHeld as error:
                held = error
        # Another guard's with the same cache, as of the host's other devices in a fleet.
        raise Refused(held.detail, "builder_lost")

    def _order(self, solution: Solution, built: Built) -> Order:
        """Return what would have been compiled ahead of a solution."""
        problem, properties = self._request.problem, properties_of(self._backend.place)
        return Order(solution, built.digest, properties, problem.definition, problem.workloads)

    def _build(self, solution: Solution) -> Built:
        schedule = self._request.schedule
        return build(
            solution,
            self._cache,
            seconds=schedule.build_seconds,
            memory_bytes=schedule.memory_bytes,
            sandbox=self._sandbox,
            gpu=self._backend.architecture,
            cores=builder_cores() if self._backend.builds_beside else frozenset(),
        )
