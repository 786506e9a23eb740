"""Repack Ray's wheel without what a fleet does not use, for a machine to which little can be carried.

    pip download ray==2.60.0 --no-deps --python-version 3.12 --only-binary=:all: \\
        --platform manylinux2014_x86_64 -d FOLDER
    python -m benchmarks.small_ray FOLDER/ray-*.whl --out WHEELS

Left out are Java, C++, the libraries on top of Ray and the dashboard's pages; binaries lose their symbols
(needs `strip`), and everything is packed by LZMA, which pip can read and an index would refuse.
"""

import argparse
import base64
import csv
import hashlib
import io
import re
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Final

LEFT_OUT: Final = re.compile(
    r"ray/(jars|cpp|rllib|tune|serve|data|train|llm|air|dashboard/client|core/libjemalloc\.so)(/|$)"
)
_ELF: Final = b"\x7fELF"


def repack(wheel: Path, out: Path) -> Path:
    """Write the smaller wheel of the same name into `out`; return its path."""
    target = out / wheel.name
    with (
        zipfile.ZipFile(wheel) as old,
        zipfile.ZipFile(target, "w", zipfile.ZIP_LZMA) as new,
    ):
        rows: list[list[str]] = []
        record = next(one for one in old.infolist() if one.filename.endswith(".dist-info/RECORD"))
        for item in old.infolist():
            if item is record or item.is_dir() or LEFT_OUT.match(item.filename):
                continue
            content = stripped(old.read(item))
            new.writestr(item, content, zipfile.ZIP_LZMA)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
            rows.append([item.filename, f"sha256={digest.decode()}", str(len(content))])
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows([*rows, [record.filename, "", ""]])
        new.writestr(record, table.getvalue(), zipfile.ZIP_LZMA)
    return target


def stripped(content: bytes) -> bytes:
    """Return a file's bytes, without symbols where it is a binary."""
    if not content.startswith(_ELF):
        return content
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(content)
        subprocess.run(["strip", "--strip-unneeded", file.name], check=True)
        return Path(file.name).read_bytes()


def main() -> None:
    """Repack, and say how small it became."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    target = repack(asked.wheel, asked.out)
    print(f"{target}: {target.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
