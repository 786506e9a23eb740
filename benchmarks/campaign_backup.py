"""A campaign in one file: its databases copied while servers may run, sources and logs, no build cache.

python -m benchmarks.campaign_backup DIR OUT.tar.gz
python -m benchmarks.campaign_backup --restore OUT.tar.gz DIR
"""

import argparse
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from pathlib import Path

LEFT_OUT = ("cache",)
"""Folders of a campaign that can be made again."""
PASSING = (".lock", "-wal", "-shm")
"""Ends of names of files that only running processes need."""


class TooLarge(ValueError):
    """A backup that is larger than it may be."""


def backup(folder: Path, target: Path, most_bytes: int = 5 << 20) -> int:
    """Write a campaign's backup and return its bytes; TooLarge where it has more than `most_bytes`.

    The archive has one folder, of the campaign's own name.
    """
    with tempfile.TemporaryDirectory() as place, tarfile.open(target, "w:gz") as archive:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if path.is_symlink() or not path.is_file():
                continue
            if inside.parts[0] in LEFT_OUT or path.name.endswith(PASSING):
                continue
            source = _copied(path, Path(place)) if path.suffix == ".db" else path
            archive.add(source, f"{folder.resolve().name}/{inside.as_posix()}")
    size = target.stat().st_size
    if size > most_bytes:
        raise TooLarge(f"{target}: {size} bytes; a backup has at most {most_bytes}")
    return size


def restore(source: Path, folder: Path) -> Path:
    """Unpack a backup below `folder` and return the campaign's directory."""
    with tarfile.open(source) as archive:
        tops = {Path(name).parts[0] for name in archive.getnames()}
        if len(tops) != 1:
            raise ValueError(f"{source}: holds {len(tops)} folders; expected one campaign")
        archive.extractall(folder, filter="data")
    return folder / tops.pop()


def _copied(database: Path, place: Path) -> Path:
    """Copy a database as it is in one moment, with what its log still holds."""
    target = place / database.name
    target.unlink(missing_ok=True)
    with (
        closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True)) as live,
        closing(sqlite3.connect(target)) as copy,
    ):
        live.backup(copy)
        # Alone in an archive, it needs no log beside it.
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.execute("VACUUM")
    return target


def main() -> None:
    """Back up or restore, as asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--restore", action="store_true")
    options = parser.parse_args()
    if options.restore:
        print(restore(options.source, options.target))
    else:
        print(f"{options.target}: {backup(options.source, options.target)} bytes")


if __name__ == "__main__":
    main()
