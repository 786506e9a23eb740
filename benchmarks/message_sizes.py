"""How large the guard's requests are for the library's problems, and the recorded campaign's answers."""

from dataclasses import dataclass
from statistics import median

from benchmarks.recorded_cases import Recorded
from kernelarc_guard.decide import Parameters
from kernelarc_guard.problem import Problem, read_problem
from kernelarc_guard.solution import Solution, read_solution, reference_solution
from kernelarc_mcp.data import data_dir
from kernelarc_mcp.requests import Requests


@dataclass(frozen=True)
class Sizes:
    """Bytes of one sort of message, as it goes over a wire: one JSON text."""

    what: str
    count: int
    median: float
    largest: float
    of: str
    """What the largest is of."""


def message_sizes(recorded: Recorded) -> list[Sizes]:
    """Return the sizes of requests by problem of the library, and of recorded answers and rows."""
    screens: dict[str, int] = {}
    confirmations: dict[str, int] = {}
    gemm: dict[str, int] = {}
    for folder in sorted(path.parent for path in data_dir("kernels").glob("*/definition.json")):
        problem = read_problem(folder, "workload.gpu.jsonl")
        seed = reference_solution(problem.definition)
        for path in sorted((folder / "solutions").iterdir()):
            solution = read_solution(path, problem.definition)
            sizes = _requests(problem, seed, solution, recorded)
            name = f"{folder.name} {path.name}"
            screens[name], confirmations[name] = sizes
            if folder.name == "gemm_bf16":
                gemm[name] = sizes[1]
    kept = [results for results in recorded.results if results[1] is not None]
    answers = {
        "answer to a screen": [len(screen.model_dump_json()) for screen, _ in recorded.results],
        "answer to a confirmation": [
            len(second.model_dump_json()) for _, second in kept if second is not None
        ],
    }
    return [
        _named("request for a screen, library on a GPU", screens),
        _named("request for a confirmation, library on a GPU", confirmations),
        _named("the same for GEMM", gemm),
        *(_sizes(what, of) for what, of in answers.items()),
        *(
            _sizes(f"row `{kind}`", recorded.rows[kind])
            for kind in ("submitted", "judging", "screened", "staked", "confirmed", "settled")
        ),
    ]


def known_binaries_bytes(recorded: Recorded, judged: int) -> int:
    """Return what the digests of so many judged submissions add to each request for a screen."""
    first = recorded.created
    requests = Requests(first.problem, first.settings.device, "/cache", first.settings.parameters)
    bare = requests.screen("x", first.seed, first.seed, calibration=None, stake=1e-3)
    known = {f"{number:064x}": f"s{number:03d}" for number in range(judged)}
    full = bare.model_copy(update={"known_binaries": known})
    return len(full.model_dump_json()) - len(bare.model_dump_json())


def _requests(
    problem: Problem, seed: Solution, solution: Solution, recorded: Recorded
) -> tuple[int, int]:
    requests = Requests(problem, "cuda:0", "/cache", Parameters())
    known = recorded.calibration
    screen = requests.screen("s001-screen", solution, solution, calibration=known, stake=1e-3)
    confirm = requests.confirm(
        "s001-confirm", solution, solution, calibration=known, stake=1e-3, anchor=seed
    )
    return len(screen.model_dump_json()), len(confirm.model_dump_json())


def _named(what: str, sizes: dict[str, int]) -> Sizes:
    largest = max(sizes, key=lambda name: sizes[name])
    return Sizes(what, len(sizes), median(sizes.values()), sizes[largest], largest)


def _sizes(what: str, sizes: list[int]) -> Sizes:
    return Sizes(what, len(sizes), median(sizes), max(sizes), "")
