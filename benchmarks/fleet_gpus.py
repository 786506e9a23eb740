"""A fleet of all GPUs of one host, measured in parts; each may be run alone, and again.

    python -m benchmarks.fleet_gpus throughput agreement --out FOLDER --seconds 500
    python -m benchmarks.fleet_gpus interference beside --out FOLDER --seconds 500
    python -m benchmarks.fleet_gpus throughput --out FOLDER --devices 2 --seconds 120    # CPU devices: a trial
    python -m benchmarks.fleet_gpus_report FOLDER... --out docs/measurements

throughput    the same campaign of eight or more agents with 1, 2, 4, ... GPUs (fleet_throughput)
agreement     verdicts on identical candidates on every GPU (fleet_agreement)
interference  A/A pairs on one GPU, its neighbours idle and busy (fleet_interference)
beside        one GPU with its local guard and through Ray, in turn (fleet_beside)

--seconds is for all parts together. What each found is in FOLDER at once: PART.json (interference also as JSON lines), the
campaigns and logs in campaigns-PARTS.tar.gz, each proven by `verify`. Exit status 1 where a campaign does not verify or a part failed.
"""

import argparse
import json
import os
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio

from benchmarks.campaign_backup import backup
from benchmarks.fleet_agreement import KERNELS, agreement
from benchmarks.fleet_beside import beside
from benchmarks.fleet_candidates import BANDWIDTH, MATRIX
from benchmarks.fleet_interference import Measured, interference
from benchmarks.fleet_machine import Machine
from benchmarks.fleet_throughput import throughput
from kernelarc_mcp.cli.children import stopped_by_signals
from kernelarc_mcp.host.verify import verify

Row = dict[str, Any]
WEIGHTS: Final = {"throughput": 4.0, "agreement": 1.2, "interference": 2.8, "beside": 2.0}
"""How the seconds are divided among the parts that are asked for."""
_PACKING: Final = 8.0
"""Seconds of the whole that are kept for packing."""
_MOST_ARCHIVE: Final = 15 << 20


class Session:
    """One call: its folder, its time, and what it found."""

    def __init__(self, asked: argparse.Namespace, place: Path) -> None:
        self.asked = asked
        self.place = place
        """For campaigns, logs and caches: on a path short enough for sockets."""
        self.machine = Machine(asked.devices, asked.builders)
        self.failed = False

    def write(self, part: str, value: Any) -> None:
        """Keep what a part found so far."""
        path = self.asked.out / f"{part}.json"
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
        fresh.replace(path)

    def throughput(self, until: float) -> None:
        """Measure how verdicts an hour grow with devices."""
        rows: list[Row] = []

        def keep(row: Row) -> None:
            rows.append(row)
            self.failed |= bool(row.get("verify") or row.get("failed"))
            self.write("throughput", rows)
            shown = ("problem", "devices", "verdicts", "seconds", "verdicts an hour", "share held")
            say({key: row[key] for key in (*shown, "failed", "verify") if key in row})

        asked = self.asked
        counts = sorted({n for n in asked.counts if n <= self.machine.devices})
        throughput(
            self.machine,
            self.place,
            problems=asked.problems,
            counts=counts,
            agents=max(asked.agents, 2 * self.machine.devices),
            submissions=asked.submissions,
            until=until,
            keep=keep,
        )

    def agreement(self, until: float) -> None:
        """Judge identical candidates on every device."""
        kernels = [] if self.machine.on_cpu else self.asked.kernels or list(KERNELS)
        rows = agreement(self.machine, self.asked.out / "agreement", kernels=kernels, until=until)
        self.write("agreement", rows)
        self.failed |= any("failed" in row for row in rows)
        judged = [row for row in rows if "verdict" in row]
        say({"judged": len(judged), "failed": [row for row in rows if "failed" in row]})

    def interference(self, until: float) -> None:
        """Measure a bank of A/A pairs beside idle and busy neighbours."""
        asked, lines = self.asked, self.asked.out / "interference.jsonl"
        lines.unlink(missing_ok=True)

        def keep(one: Measured) -> None:
            with lines.open("a", encoding="utf-8") as file:
                file.write(one.model_dump_json() + "\n")
            say({"kernel": one.unit.subject, "neighbours": one.state, "seconds": one.unit.seconds})

        async def measure() -> list[str]:
            return await interference(
                self.machine,
                self.place / "interference",
                kernels=asked.kernels,
                pairs=asked.pairs,
                rounds=asked.rounds,
                until=until,
                keep=keep,
            )

        left = anyio.run(measure)
        self.write("interference", {"devices": self.machine.devices, "left": left})
        say({"left": left})

    def beside(self, until: float) -> None:
        """Judge the same candidates with a local guard and through Ray."""
        found = beside(
            self.machine,
            self.place,
            problem=self.asked.problems[0],
            submissions=self.asked.beside,
            until=until,
        )
        self.write("beside", found)
        self.failed |= any(found["verify"].values())
        say(found["compared"])

    def pack(self) -> None:
        """Prove all campaigns, and put them and the logs of what served them into one archive."""
        campaigns = sorted(path.parent for path in self.place.rglob("campaign.db"))
        proven = {campaign.name: verify(campaign) for campaign in campaigns}
        self.failed |= any(proven.values())
        if proven:
            self.write(f"verify-{'-'.join(self.asked.parts)}", proven)
        logs = [path for path in self.place.rglob("*.log") if "cache" not in path.parts]
        target = self.asked.out / f"campaigns-{'-'.join(self.asked.parts)}.tar.gz"
        with tempfile.TemporaryDirectory() as at, tarfile.open(target, "w:gz") as archive:
            for campaign in campaigns:
                one = Path(at) / f"{campaign.name}.tar.gz"
                backup(campaign, one, _MOST_ARCHIVE)
                archive.add(one, one.name)
            for path in logs:
                if not any(campaign in path.parents for campaign in campaigns):
                    archive.add(path, f"logs/{path.relative_to(self.place)}")
        say({"verify": proven, "bytes": target.stat().st_size})


def say(what: Any) -> None:
    """Print one line."""
    print(json.dumps(what), flush=True)


def run(session: Session, parts: Sequence[str]) -> None:
    """Run the parts in turn, each with its share of what is left."""
    end = time.monotonic() + session.asked.seconds - _PACKING
    doing: dict[str, Callable[[float], None]] = {
        "throughput": session.throughput,
        "agreement": session.agreement,
        "interference": session.interference,
        "beside": session.beside,
    }
    for number, part in enumerate(parts):
        weight = sum(WEIGHTS[one] for one in parts[number:])
        share = (end - time.monotonic()) * WEIGHTS[part] / weight
        say({"part": part, "seconds": round(share)})
        doing[part](time.monotonic() + share)


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="+", choices=list(WEIGHTS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=500.0, help="for all parts together")
    parser.add_argument("--devices", type=int, default=0, help="CPU devices instead of GPUs")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8], help="of devices")
    parser.add_argument("--problems", nargs="+", default=[BANDWIDTH, MATRIX])
    parser.add_argument("--builders", type=int, default=0, help="build slots beside the GPUs")
    parser.add_argument("--agents", type=int, default=8, help="at least; two for each device")
    parser.add_argument("--submissions", type=int, default=16, help="of each campaign")
    parser.add_argument(
        "--kernels", nargs="+", default=[], help="of the A/A study; default: fitting"
    )
    parser.add_argument("--pairs", type=int, default=9, help="of each nursery, interference")
    parser.add_argument("--rounds", type=int, default=6, help="of nurseries, interference")
    parser.add_argument("--beside", type=int, default=12, help="candidates of that part")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="kf-", ignore_cleanup_errors=True) as place:
        session = Session(asked, Path(place))
        if not session.machine.devices:
            parser.error("there is no NVIDIA GPU here; --devices 2 tries it with CPU devices")
        say({"devices": session.machine.devices, "cores": len(os.sched_getaffinity(0))})
        try:
            with stopped_by_signals():
                run(session, asked.parts)
        finally:
            session.pack()
    sys.exit(session.failed)


if __name__ == "__main__":
    main()
