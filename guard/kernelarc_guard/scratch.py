"""Scratch folders of runners: empty or a copy of what a first run left. Standard library only.

What a first run (smoke, or a pair's warm-up) leaves behind, such as compiled kernels, is set aside
once. Every later runner gets a copy of its own, so nothing that it writes reaches another run.
"""

import os
import secrets
import shutil
import stat
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

KEPT_BYTES: Final = 64 << 20
KEPT_FILES: Final = 4096
MOST_ENTRIES: Final = 1 << 17
"""Files and folders below a root that are looked at to know what they take."""
_BEYOND: Final = 1 << 62
_BLOCK: Final = 512
DEEPEST: Final = 64
"""A larger or deeper folder is not set aside: later runners then start with an empty one."""
PLACE: Final = "here"
"""Below its root: where every runner sees its folder in its time."""
ROOT: Final = "KERNELARC.root"
"""Of an archive: where its files lay."""


class Scratch:
    """The scratch folders of one slot (one arm's solution) below `root`."""

    def __init__(self, root: Path) -> None:
        """Use `root`, which exists and holds nothing else."""
        self.root = root
        self._kept = root / "kept"
        self._place = root / PLACE
        self._at: dict[str, Path] = {}
        """Where each runner's folder is now."""
        self._ahead = False
        """Was what is set aside there before any runner?"""

    def make(self, name: str) -> Path:
        """Return a fresh folder for one runner, at the path that every runner's has in its time.

        Compilers write down where their files are: in a copy elsewhere they would not find them, or
        would find those of a runner that is not gone yet, and must not read.
        """
        self._make_way()
        folder = self._at[name] = self._place
        if self._kept.is_dir():
            try:
                _copy(self._kept, folder)
                return folder
            except OSError:
                remove(folder)
        folder.mkdir(mode=0o700)
        return folder

    def keep(self, name: str) -> bool:
        """Set a runner's folder aside for later ones, once; its processes must stand still."""
        folder = self._at[name]
        if (self._kept.is_dir() and not self._ahead) or not _small(folder):
            return False
        remove(self._kept)
        self._ahead = False
        try:
            _copy(folder, self._kept)
        except OSError:
            remove(self._kept)
            return False
        return True

    def pack(self) -> int | None:
        """Return a descriptor of an archive of what was set aside, None where that cannot be."""
        archive = os.memfd_create("kept", os.MFD_CLOEXEC)
        try:
            with (
                os.fdopen(os.dup(archive), "wb") as file,
                tarfile.open(fileobj=file, mode="w", pax_headers={ROOT: str(self.root)}) as tar,
            ):
                tar.add(self._kept, arcname=".")
        except (OSError, tarfile.TarError):
            os.close(archive)
            return None
        return archive

    def adopt(self, archive: int, ahead: bool = False) -> None:
        """Set aside what another sandbox's `pack` put into an archive, unless something is already.

        Where compilers wrote down a path of that sandbox, ours takes its place. `ahead`: it is of before any
        run, so that what the first one leaves takes its place in turn.
        """
        if self._kept.is_dir():
            return
        try:
            os.lseek(archive, 0, os.SEEK_SET)
            with os.fdopen(os.dup(archive), "rb") as file, tarfile.open(fileobj=file) as tar:
                tar.extractall(self._kept, filter="fully_trusted")
                _move(self._kept, tar.pax_headers.get(ROOT, ""), str(self.root))
            self._ahead = ahead
        except (OSError, tarfile.TarError):
            remove(self._kept)

    def drop(self, name: str) -> None:
        """Remove one runner's folder."""
        remove(self._at.pop(name, self.root / name))

    def clear(self) -> None:
        """Remove everything."""
        self._at.clear()
        self._ahead = False
        for entry in self.root.iterdir():
            remove(entry)

    def _make_way(self) -> None:
        """Move the folder of a runner that is ending."""
        for name, folder in self._at.items():
            if folder == self._place:
                self._at[name] = self.root / secrets.token_hex(16)
                with suppress(FileNotFoundError):  # without landlock it may have removed it
                    os.rename(folder, self._at[name])

    def bytes_used(self, most_entries: int = MOST_ENTRIES) -> int:
        """Return what all files take, for file systems that have no limit of their own.

        Folders that cannot be looked at, or nest too deeply, and more than `most_entries` files and
        folders count as more than any limit: each takes room too, and time to look at and to remove.
        """
        total = 0
        try:
            for count, (_, size) in enumerate(_below(self.root)):
                if count >= most_entries:
                    return _BEYOND
                total += size or 0
        except OSError:
            return _BEYOND
        return total


def remove(path: Path) -> None:
    """Remove a tree that untrusted code wrote, whatever modes it left and however deep it is."""
    # Nothing recurses and no name gets long: what lies deeper is first moved up.
    waiting = [path / name for name in _emptied(path)]
    while waiting:
        folder = waiting.pop()
        for name in _emptied(folder):
            moved = path / secrets.token_hex(16)
            with suppress(OSError):
                os.rename(folder / name, moved)
                waiting.append(moved)
        with suppress(OSError):
            os.rmdir(folder)
    with suppress(OSError):
        os.rmdir(path)


def _emptied(folder: Path) -> list[str]:
    """Remove the files and empty folders of a folder and return the names of the other folders in it."""
    below = []
    with suppress(OSError):
        os.chmod(folder, 0o700)
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        if not _was_empty(entry.path):
                            below.append(entry.name)
                            os.chmod(entry.path, 0o700)  # or it could not be moved
                    else:
                        os.unlink(entry.path)
    return below


def _was_empty(folder: str) -> bool:
    """Remove a folder where nothing is in it, which is far quicker than to move it first."""
    with suppress(OSError):
        os.rmdir(folder)
        return True
    return False


def files_below(root: Path) -> list[tuple[str, int]] | None:
    """Return every file below `root` with its size; None where folders nest too deeply to look.

    Or where one may not be looked into: what lies there cannot be counted.
    """
    try:
        return [(path, size) for path, size in _below(root) if size is not None]
    except OSError:
        return None


def _below(root: Path) -> Iterator[tuple[str, int | None]]:
    """Yield every file below `root` with its size and every folder without; what is gone is not there.

    Raises OSError where folders nest too deeply, or one may not be looked into.
    """
    pending = [(str(root), 0)]
    while pending:
        folder, depth = pending.pop()
        if depth > DEEPEST:
            raise OSError(f"{folder}: more than {DEEPEST} folders deep")
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                size = None
                with suppress(FileNotFoundError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append((entry.path, depth + 1))
                    else:
                        size = _taken(entry.stat(follow_symlinks=False))
                    yield entry.path, size


def _taken(file: os.stat_result) -> int:
    """Return what a file takes: blocks may also lie beyond its end, or not be there yet."""
    return max(file.st_size, file.st_blocks * _BLOCK)


def _move(folder: Path, before: str, now: str) -> None:
    """Replace one path by another in all files, where both are equally long: no offset changes."""
    if before == now or not before or len(before) != len(now):
        return
    for path, _ in files_below(folder) or []:
        if os.path.islink(path) or not os.path.isfile(path):
            continue
        data = Path(path).read_bytes()
        if before.encode() in data:
            mode = stat.S_IMODE(os.lstat(path).st_mode)
            os.chmod(path, mode | 0o600)
            Path(path).write_bytes(data.replace(before.encode(), now.encode()))
            os.chmod(path, mode)


def _small(folder: Path) -> bool:
    files = files_below(folder)
    if files is None:
        return False
    return 0 < len(files) <= KEPT_FILES and sum(size for _, size in files) <= KEPT_BYTES


def _copy(source: Path, target: Path) -> None:
    """Copy folders, plain files and links as links; leave sockets, pipes and devices."""

    def special(folder: str, names: list[str]) -> list[str]:
        modes = {name: os.lstat(os.path.join(folder, name)).st_mode for name in names}
        plain = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
        return [name for name, mode in modes.items() if not any(is_a(mode) for is_a in plain)]

    shutil.copytree(source, target, symlinks=True, ignore=special)
