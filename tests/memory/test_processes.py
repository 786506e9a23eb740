"""Real processes writing one real file at once."""

import subprocess
import sys
from pathlib import Path

import kernelarc_memory
from kernelarc_memory import MemoryStore, Retention

WRITER = """
import sys
from pathlib import Path
from kernelarc_memory import MemoryStore, NewConclusion

path, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
sys.stdin.readline()  # everybody starts together
store = MemoryStore(path)
for i in range(count):
    for summary in (f"shared {i}", f"{name} {i}"):
        store.write(
            NewConclusion(
                kind="trap", summary=summary, lesson="why", evidence=f"{name}-{i}", agent=name,
                lens="tile-pipeline", verdict="REJECT", reason="build_failed", speedup=None,
                device="cpu", operator_class="gemm", campaign="c", at="2026-01-01T00:00:00+00:00",
            )
        )
        store.read("gemm", "cpu", NOTHING, 4, now="2026-01-01T00:00:00+00:00")
""".replace("NOTHING", "__import__('kernelarc_memory').Retention()")


def test_processes_that_create_and_write_one_file_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    count, names = 12, ["ada", "bob", "cyd", "dan"]
    root = str(Path(kernelarc_memory.__file__).parents[1])
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name, str(count)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": root},
        )
        for name in names
    ]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    page = MemoryStore(path).read(
        "gemm", "cpu", Retention.unbounded(), 1000, now="2026-01-01T00:00:00+00:00"
    )
    assert page.stored == count + count * len(names)
    shared = [item for item in page.items if item.summary.startswith("shared")]
    assert len(shared) == count
    assert all(item.seen == len(names) for item in shared)
    assert all({p.agent for p in item.proofs} == set(names) for item in shared)
