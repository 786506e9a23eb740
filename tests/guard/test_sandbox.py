"""What a runner and a builder can reach: every attempt here is made by real code in a real sandbox."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from laboratory import ATTEMPTS, Laboratory, sandbox_of, told

from kernelarc_guard.build import BuildFailed, build
from kernelarc_guard.confinement import Kind
from kernelarc_guard.faults import SolutionFault
from kernelarc_guard.sandbox import find_sandbox
from kernelarc_guard.solution import Solution, SourceFile, Spec

KINDS = [kind for kind in get_args(Kind) if kind != "none"]
RIGHT = "import torch\n\ndef run(x, scale):\n    return torch.tanh(x) * scale\n"
CALLS = ATTEMPTS + (
    "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    "libc.syscall.restype = ctypes.c_long\n"
    "def call(number, *arguments):\n"
    "    value = libc.syscall(*(ctypes.c_long(a) if isinstance(a, int) else a\n"
    "                           for a in (number, *arguments)))\n"
    "    if value < 0:\n        raise OSError(ctypes.get_errno(), 'refused')\n    return value\n"
)


@pytest.fixture(scope="module", params=KINDS)
def lab(request: pytest.FixtureRequest) -> Iterator[Laboratory]:
    with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder), request.param) as one:
        yield one


@pytest.fixture(scope="module")
def boxed() -> Iterator[Laboratory]:
    with tempfile.TemporaryDirectory() as folder, Laboratory(Path(folder)) as one:
        yield one


def refused(results: dict[str, str]) -> None:
    """Assert that nothing worked, and that something was tried."""
    assert results
    assert {name: said for name, said in results.items() if said.startswith("worked")} == {}


def test_a_runner_computes_and_its_memory_is_read(lab: Laboratory) -> None:
    arm = lab.start(RIGHT)
    assert lab.call(arm) > 0
    (y,) = arm.outputs(0).values()
    assert y.shape == (1000,) and bool(y.isfinite().all())
    arm.close()


def test_a_runner_reads_no_file_of_the_host(lab: Laboratory, tmp_path: Path) -> None:
    secret = tmp_path / "campaign.db"
    secret.write_text("ledger")
    secret.chmod(0o666)
    paths = [str(secret), str(tmp_path), "/etc/passwd", "/etc", str(Path.home()), "/", "/tmp"]
    paths += [str(lab.folder / "cache"), __file__, "/proc", "/proc/1/environ", "/proc/1/stat"]
    paths += [f"/proc/{os.getpid()}/environ", "/dev/shm", "/sys/fs/cgroup", "/run", "/var"]
    refused(
        lab.told(
            "import os\n"
            f"for path in {paths!r}:\n"
            "    attempt('list ' + path, lambda: os.listdir(path) and 'listed')\n"
            "    attempt('read ' + path, lambda: open(path, 'rb').read(8))\n"
            "tell()\n"
        )
    )


def test_a_runner_writes_only_to_its_scratch_folder(lab: Laboratory, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    places = [str(tmp_path), "/tmp", "/dev/shm", "/usr", "/", sys.prefix, str(lab.folder)]
    places += [os.path.dirname(__file__), "/proc/self", "/solutions", "/scratch"]
    source = (
        "import os\n"
        "def changed(place):\n"
        "    before = os.stat(place).st_mode\n"
        "    os.chmod(place, 0)\n"
        "    return 1 / 0 if os.stat(place).st_mode == before else 'changed'\n"
        f"for place in {places!r} + [os.path.dirname(__file__), os.path.dirname(os.getcwd())]:\n"
        "    attempt('write ' + place, lambda: open(place + '/planted', 'w').close())\n"
        "    attempt('make ' + place, lambda: os.mkdir(place + '/planted'))\n"
        "    attempt('mode ' + place, lambda: changed(place))\n"
        "    attempt('move ' + place, lambda: os.rename(place, place + '.moved'))\n"
        "    attempt('link ' + place, lambda: os.symlink('/etc', place + '/planted'))\n"
        "attempt('truncate', lambda: os.truncate(__file__, 0))\n"
        "attempt('unlink', lambda: os.unlink(__file__))\n"
    )
    results = lab.told(source + "tell()\n")
    refused(results)
    results = lab.told(
        "import os, pathlib\npathlib.Path('mine').write_text('x')\n"
        "attempt('scratch', lambda: (os.environ['HOME'], pathlib.Path('mine').read_text()))\ntell()\n"
    )
    assert "'x'" in results["scratch"]


def test_a_runner_has_no_network(lab: Laboratory) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refused(
            lab.told(
                "import socket\n"
                "for family in ('AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_PACKET', 'AF_VSOCK'):\n"
                "    attempt(family, lambda: socket.socket(getattr(socket, family)).family)\n"
                "    attempt(family + ' datagram',\n"
                "            lambda: socket.socket(getattr(socket, family), socket.SOCK_DGRAM).family)\n"
                f"attempt('tcp', lambda: socket.create_connection(('127.0.0.1', {port}), 1))\n"
                "tell()\n"
            )
        )


def test_a_runner_reaches_no_socket_of_the_host(lab: Laboratory, tmp_path: Path) -> None:
    name = f"kernelarc-test-{os.getpid()}"
    with (
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as named,
    ):
        abstract.bind("\0" + name)
        abstract.listen()
        named.bind(str(tmp_path / "socket"))
        named.listen()
        results = lab.told(
            "import socket\n"
            f"attempt('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0{name}'))\n"
            "tell()\n"
        )
        refused(results)


def test_a_runner_cannot_signal_trace_or_read_anybody(lab: Laboratory) -> None:
    source = CALLS + (
        "import resource, signal\n"
        "class Vector(ctypes.Structure):\n"
        "    _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]\n"
        "buffer = ctypes.create_string_buffer(8)\n"
        "vector = Vector(ctypes.addressof(buffer), 8)\n"
        "parent = os.getppid()\n"
        f"for pid in {{1, parent, {os.getpid()}}}:\n"
        "    attempt(f'kill {pid}', lambda: os.kill(pid, 0))\n"
        "    attempt(f'stop {pid}', lambda: os.kill(pid, signal.SIGCONT))\n"
        "    attempt(f'pidfd {pid}', lambda: signal.pidfd_send_signal(os.pidfd_open(pid), 0))\n"
        "    attempt(f'attach {pid}', lambda: call(101, 16, pid, 0, 0))\n"
        "    attempt(f'seize {pid}', lambda: call(101, 0x4206, pid, 0, 0))\n"
        "    attempt(f'vm read {pid}', lambda: call(\n"
        "        310, pid, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0))\n"
        "    attempt(f'vm write {pid}', lambda: call(\n"
        "        311, pid, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0))\n"
        "    attempt(f'limit {pid}', lambda: resource.prlimit(pid, resource.RLIMIT_CPU, (1, 1)))\n"
        "    attempt(f'priority {pid}', lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))\n"
        "    attempt(f'descriptor {pid}', lambda: call(438, os.pidfd_open(pid), 0, 0))\n"
        "    for file in ('mem', 'maps', 'environ', 'status', 'fd', 'root', 'cwd', 'stat'):\n"
        "        attempt(f'{file} {pid}', lambda: os.open(f'/proc/{pid}/{file}', os.O_RDONLY))\n"
        "tell()\n"
    )
    refused(told(lab.fault(source)))


def test_a_runner_makes_no_mount_namespace_or_kernel_helper(lab: Laboratory) -> None:
    numbers = {
        "mount": 165,
        "umount": 166,
        "pivot_root": 155,
        "chroot": 161,
        "unshare user": (272, 0x10000000),
        "setns": 308,
        "clone user": (56, 0x10000000 | 17),
        "clone as sibling": (56, 0x8000 | 17),
        "clone3": 435,
        "fsopen": 430,
        "open_tree": 428,
        "bpf": 321,
        "perf": 298,
        "uring": (425, 8),
        "userfaultfd": (323, 1),
        "timer": (222, 1, 0, 0),
        "timer file": (283, 1, 0),
        "keyctl": (250, 0, -3, 0),
        "shmget": (29, 0, 4096, 0o1666),
        "semget": (64, 0, 1, 0o1666),
        "msgget": (68, 0, 0o1666),
        "reboot": 169,
        "clock": 227,
        "module": 175,
        "i386": (0x40000000 | 39,),
    }
    source = CALLS + "".join(
        f"attempt({name!r}, lambda: call(*{number if isinstance(number, tuple) else (number,)!r}))\n"
        for name, number in numbers.items()
    )
    refused(told(lab.fault(source + "tell()\n")))


def test_a_runner_cannot_tell_which_role_it_plays_from_where_it_runs(lab: Laboratory) -> None:
    results = lab.told(
        "import os\n"
        "attempt('folder', os.getcwd)\n"
        "attempt('mounts', lambda: [line.split()[4] for line in open('/proc/self/mountinfo')"
        " if '/scratch/' in line.split()[4]])\n"
        "attempt('environment', lambda: os.environ['TMPDIR'])\ntell()\n"
    )
    for said in results.values():
        assert "worked" in said
        assert not any(role in said for role in ("record", "candidate", "anchor")), said


def test_a_runner_has_no_capability_and_wins_none(lab: Laboratory) -> None:
    results = lab.told(
        "lines = open('/proc/self/status').read().splitlines()\n"
        "found = dict(line.split(':\\t') for line in lines if line[:3] in ('Cap', 'NoN', 'Sec'))\n"
        "attempt('status', lambda: {k: v for k, v in found.items() if k != 'CapBnd'})\ntell()\n"
    )["status"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert f"'{name}': '0000000000000000'" in results
    assert "'NoNewPrivs': '1'" in results and "'Seccomp': '2'" in results


def test_a_runner_inherits_no_descriptor_and_no_environment(
    lab: Laboratory, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = lab.told(
        "import os\n"
        "def links():\n"
        "    found = {}\n"
        "    for fd in range(3, 300):\n"
        "        try:\n            found[fd] = os.readlink(f'/proc/self/fd/{fd}')\n"
        "        except OSError:\n            pass\n"
        "    return sorted(set(v.split(':')[0] for v in found.values()))\n"
        "attempt('descriptors', links)\n"
        "attempt('environment', lambda: sorted(os.environ))\ntell()\n"
    )
    kinds = results["descriptors"]
    assert "socket" in kinds  # its own channel
    assert "/tmp" not in kinds and "campaign" not in kinds and "pipe" not in kinds
    assert "TOKEN" not in results["environment"] and "PYTEST" not in results["environment"]


def test_neither_arm_sees_or_touches_the_other(lab: Laboratory) -> None:
    record = lab.start(RIGHT + "SECRET = 'record-only'\n", slot=0)
    try:
        lab.call(record)
        source = CALLS + (
            "import glob, resource, signal\n"
            "seen = {'kill': set(), 'limit': set()}\n"
            "for pid in range(1, 32768):\n"
            "    if pid == os.getpid():\n        continue\n"
            "    try:\n        os.kill(pid, signal.SIGCONT)\n        seen['kill'].add('worked')\n"
            "    except OSError as error:\n        seen['kill'].add(error.errno)\n"
            "    try:\n        resource.prlimit(pid, resource.RLIMIT_AS)\n"
            "        seen['limit'].add('worked')\n"
            "    except OSError as error:\n        seen['limit'].add(error.errno)\n"
            "attempt('signals', lambda: 1 / 0 if seen['kill'] <= {1, 3} else seen)\n"
            "attempt('limits', lambda: 1 / 0 if seen['limit'] == {1} else seen)\n"
            "own = os.path.dirname(os.path.dirname(__file__))\n"
            "attempt('neighbours', lambda: os.listdir(os.path.dirname(own)))\n"
            "attempt('scratches', lambda: os.listdir(os.path.dirname(os.getcwd())))\n"
            "attempt('slots', lambda: os.listdir(os.path.dirname(os.path.dirname(os.getcwd()))))\n"
            "attempt('glob', lambda: glob.glob('/solutions/*/src/*.py') or 1 / 0)\n"
            "tell()\n"
        )
        refused(told(lab.fault(source)))
        folders = [p for p in (lab.folder / "nursery" / "solutions").iterdir()]
        assert len(folders) >= 2
        inside = "/solutions" if lab.sandbox.bubblewrap else str(folders[0].parent)
        refused(
            lab.told(
                "import os\n"
                f"for name in {sorted(p.name for p in folders)!r}:\n"
                f"    path = {inside!r} + '/' + name\n"
                "    if not __file__.startswith(path):\n"
                "        attempt(name, lambda: open(path + '/src/kernel.py').read())\n"
                "        attempt('list ' + name, lambda: os.listdir(path))\n"
                "tell()\n"
            )
        )
        assert lab.call(record) > 0, "the record's runner is unharmed"
    finally:
        record.close()


def test_cores_are_given_from_outside(lab: Laboratory) -> None:
    results = lab.told(
        "import os\nbefore = os.sched_getaffinity(0)\n"
        "os.sched_setaffinity(0, range(64))\n"
        "attempt('cores', lambda: 1 / 0 if os.sched_getaffinity(0) == before else before)\ntell()\n"
    )
    refused(results)


def test_a_runner_runs_in_namespaces_of_its_own(boxed: Laboratory) -> None:
    names = ("user", "pid", "ipc", "uts", "net", "mnt", "cgroup")
    results = boxed.told(
        "import os\n"
        f"for name in {names!r}:\n"
        "    attempt(name, lambda: os.readlink('/proc/self/ns/' + name))\n"
        "attempt('parent', lambda: os.getppid())\ntell()\n"
    )
    for name in names:
        assert os.readlink(f"/proc/self/ns/{name}") not in results[name], name
    assert results["parent"] == "worked: 1", "the warden is the first process"


def test_an_honest_solution_may_compile_and_load_at_import(lab: Laboratory) -> None:
    source = (
        "import ctypes, os, subprocess, tempfile\nimport torch\n"
        "folder = tempfile.mkdtemp()\n"
        "open(folder + '/k.c', 'w').write('int twice(int x) { return 2 * x; }')\n"
        "subprocess.run(['cc', '-shared', '-fPIC', '-o', folder + '/k.so', folder + '/k.c'],\n"
        "               check=True)\n"
        "twice = ctypes.CDLL(folder + '/k.so').twice\n"
        "def run(x, scale):\n"
        "    assert twice(21) == 42\n"
        "    return torch.tanh(x) * scale\n"
    )
    arm = lab.start(source)
    for _ in range(2):
        lab.call(arm)
    arm.close()


def test_what_a_first_run_wrote_reaches_later_runners_as_copies(lab: Laboratory) -> None:
    lab.nursery.clean()
    source = (
        "import os, torch\n"
        "here = sorted(os.listdir('.'))\n"
        "open(f'note-{len(here)}', 'w').close()\n"
        "def run(x, scale):\n    raise RuntimeError(f'saw {here}')\n"
    )
    first = lab.start(source)
    with pytest.raises(SolutionFault, match=r"saw \[\]"):
        lab.call(first)
    first.keep_scratch()
    first.close()
    for _ in range(2):
        later = lab.start(source)
        with pytest.raises(SolutionFault, match=r"saw \['note-0'\]"):
            lab.call(later)
        later.close()
    lab.nursery.clean()
    other = lab.start(source + "# another solution\n")
    with pytest.raises(SolutionFault, match=r"saw \[\]"):
        lab.call(other)
    other.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_reads_no_file_of_the_host(kind: Kind, tmp_path: Path) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#define SECRET 1\n")
    for include in (str(secret), "/etc/passwd", "/proc/1/environ"):
        code = f'#include "{include}"\nextern "C" int run() {{ return 0; }}\n'
        assembly = f'asm(".incbin \\"{include}\\"");\nextern "C" int run() {{ return 0; }}\n'
        for text in (code, assembly):
            with pytest.raises(BuildFailed) as failure:
                _compile(text, tmp_path, kind)
            assert failure.value.reason == "build_failed"


@pytest.mark.parametrize("kind", KINDS)
def test_a_compiler_still_finds_its_own_headers(kind: Kind, tmp_path: Path) -> None:
    code = '#include <vector>\n#include <dlpack/dlpack.h>\nextern "C" int run() { return 0; }\n'
    assert _compile(code, tmp_path, kind).is_file()


def _compile(code: str, folder: Path, kind: Kind) -> Path:
    solution = Solution(
        name="test",
        definition="d",
        spec=Spec(languages=["cpp"], entry_point="kernel.cpp::run", binding="dlpack"),
        sources=[SourceFile(path="kernel.cpp", content=code)],
    )
    built = build(
        solution,
        folder / "cache",
        seconds=60,
        memory_bytes=2 << 30,
        sandbox=sandbox_of(kind),
    )
    return built.entry


def test_a_command_in_the_sandbox_sees_only_what_is_listed(tmp_path: Path) -> None:
    sandbox = find_sandbox()
    script = (
        "import os, socket\nprint(sorted(os.listdir('/')), os.path.exists('/etc/passwd'), "
        f"os.path.exists({str(tmp_path)!r}), os.getpid())\n"
    )
    command = sandbox.command([sys.executable, "-I", "-c", script], environment={})
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.endswith("False False 1\n"), said
    assert "'home'" not in said and "'var'" not in said


def test_a_nursery_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, os\nsys.path[:0] = sys.argv[2:]\n"
        "from pathlib import Path\nfrom laboratory import Laboratory\n"
        "from kernelarc_guard.processes import descendants\n"
        "lab = Laboratory(Path(sys.argv[1]))\n"
        'arm = lab.start(\'import subprocess\\nsubprocess.Popen(["sleep", "600"])\\n\'\n'
        "                'def run(x, scale):\\n    return x\\n')\n"
        "print(*descendants(os.getpid()), flush=True)\nsys.stdin.read()\n"
    )
    paths = [path for path in sys.path if path]
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path), *paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as guard:
        assert guard.stdout is not None
        pids = [int(pid) for pid in guard.stdout.readline().split()]
        assert len(pids) >= 4, "bubblewrap, nursery, runner, its child"
        watched = [os.pidfd_open(pid) for pid in pids]
        guard.send_signal(signal.SIGKILL)
    for fd in watched:
        _ends(fd)


def _ends(pidfd: int) -> None:
    import select

    ready, _, _ = select.select([pidfd], [], [], 20)
    os.close(pidfd)
    assert ready, "a process outlived its guard"


def test_libraries_outside_of_the_environment_are_shown_with_what_they_need(tmp_path: Path) -> None:
    """As where torch is another environment's, that a new one only refers to."""
    elsewhere = sysconfig.get_paths()["purelib"]
    new = tmp_path / "new"
    venv.create(new, symlinks=True)
    (packages,) = new.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text("\n".join(path for path in sys.path if path))
    said = subprocess.run(
        [new / "bin/python", "-I", "-c", _SHOWN], check=True, capture_output=True, text=True
    )
    shown = said.stdout.splitlines()
    assert any(elsewhere == path or elsewhere.startswith(f"{path}/") for path in shown), shown


_SHOWN = "from kernelarc_guard.allowlist import system_paths; print(*system_paths(), sep='\\n')"
