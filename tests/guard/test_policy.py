"""The Python policy: honest kernels always pass, and each rule finds what it is named after."""

import time
import warnings

import pytest

from kernelarc_guard.policy import check_policy, policy_observations
from kernelarc_guard.policy_process import DOUBTFUL
from kernelarc_guard.policy_rules import FORBIDDEN
from kernelarc_guard.solution import Solution, SourceFile, Spec

HONEST = {
    "plain torch": """
        import torch
        def run(x, w):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w
    """,
    "words that only look suspicious": """
        import torch
        class StreamHacker:
            evaluation = "os._exit, ptrace, sys._getframe and nvidia-smi -lgc are only words"
        def upstream_exec_cache(x, alarm=None, ptrace=0, prctl=()):
            return x.relu()
        run = upstream_exec_cache
    """,
    "a C kernel compiled by hand": """
        import ctypes, os, subprocess, tempfile, torch
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "kernel.c")
        with open(path, "w") as file:
            file.write("void f(float* x, long n) { for (long i = 0; i < n; ++i) x[i] = 0; }")
        subprocess.run(["cc", "-O3", "-shared", "-fPIC", path, "-o", path + ".so"], check=True)
        library = ctypes.CDLL(path + ".so")
        library.helper = library.f
        def run(x):
            y = torch.empty_like(x)
            library.f(ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
            return y
    """,
    "libm through ctypes": """
        import ctypes.util
        m = ctypes.CDLL(ctypes.util.find_library("m"))
        m.rsqrt = m.sqrt
        m.sqrt.restype = ctypes.c_double
        def run(x):
            return x / m.sqrt(x.shape[-1])
    """,
    "autotuning with a clock": """
        import time, torch
        best = {}
        def run(a, b):
            started = time.perf_counter()
            out = a @ b
            best[a.shape] = time.perf_counter() - started
            return out
    """,
    "threads in a pool": """
        import concurrent.futures, threading, torch
        lock = threading.Lock()
        pool = concurrent.futures.ThreadPoolExecutor(2)
        def run(a, b):
            return torch.cat(list(pool.map(lambda rows: rows @ b, a.chunk(2))))
    """,
    "switches of torch": """
        import torch
        import torch._inductor.config as config
        from torch._dynamo import config as dynamo
        torch.backends.cudnn.benchmark = True
        config.max_autotune = True
        dynamo.suppress_errors = True
        setattr(torch.backends.cuda.matmul, "allow_tf32", False)
        run = torch.compile(lambda x: x.sin())
    """,
    "an operator of its own": """
        import torch
        @torch.library.custom_op("mine::double", mutates_args=())
        def double(x: torch.Tensor) -> torch.Tensor:
            return x * 2
        class Function(torch.autograd.Function):
            generate_vmap_rule = True
            @staticmethod
            def forward(ctx, x):
                ctx.scale = 2
                return x * 2
        def run(x):
            return double(x)
        run.calls = 0
    """,
    "names that hide a module": """
        import time, torch
        def schedule(time, torch_like):
            time.sleep = None
            torch_like.relu = None
        def run(x):
            math = type("Options", (), {})()
            math.fast = True
            for torch in [math]:
                torch.flag = 1
            return x
    """,
    "its own signature and logger": """
        import inspect, logging, os, sys, warnings
        log = logging.getLogger(__name__)
        log.setLevel(os.environ.get("LEVEL", "WARNING"))
        os.environ["OMP_NUM_THREADS"] = "1"
        sys.setrecursionlimit(10_000)
        def run(x, w):
            assert len(inspect.signature(run).parameters) == 2
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return x * w
    """,
    "sources made and executed at run time": """
        namespace = {}
        exec(compile("def run(x): return x + 1", "kernel", "exec"), namespace)
        unrolled = eval("lambda x: x + " + " + ".join(["x"] * 4))
        run = namespace["run"]
    """,
    "a module loaded from a generated file": """
        import importlib.util, sys, types
        module = types.ModuleType("generated")
        sys.modules["generated"] = module
        sys.modules[module.__name__] = module
        def run(x):
            return x
    """,
    "what the machine is": """
        import subprocess, urllib.parse
        name = urllib.parse.quote("a kernel")
        with open("/proc/meminfo") as file, open("/proc/self/maps") as maps:
            total = file.readline()
        def capability():
            command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv"]
            return subprocess.check_output(["nvidia-smi", "--query-gpu=compute_cap"])
        def run(x):
            return x
    """,
    "a child that ends as forked children must": """
        import os
        def tune():
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        def run(x):
            return x
    """,
    "matches, walrus and comprehensions": """
        import torch
        def run(x):
            match x.shape:
                case [rows, *time]:
                    torch_rows = [row for row in x if (found := row) is not None]
                case _:
                    torch_rows = []
            try:
                return torch.stack(torch_rows)
            except RuntimeError as time:
                return x
    """,
}

FORBIDDEN_SOURCES = [
    ("network", 2, "import torch\nimport socket\n"),
    ("network", 1, "from urllib.request import urlopen\n"),
    ("network", 2, "import urllib\nget = urllib.request.urlopen\n"),
    ("network", 1, "client = __import__('http.client').client.HTTPConnection('a')\n"),
    ("network", 2, "import importlib\nr = importlib.import_module('requests')\n"),
    ("process_memory", 3, "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.ptrace(0, 1, 0, 0)\n"),
    ("process_memory", 2, "import ctypes\nf = ctypes.CDLL(None)['process_vm_writev']\n"),
    ("process_memory", 2, "import ctypes\nf = getattr(ctypes.CDLL(None), 'pidfd_getfd')\n"),
    ("process_memory", 2, "import os\nf = open(f'/proc/{os.getppid()}/mem', 'r+b')\n"),
    ("process_memory", 1, "f = open('/proc/self/mem', 'r+b')\n"),
    ("kill_process", 2, "import os\nos.kill(os.getppid(), 9)\n"),
    ("kill_process", 3, "from os import killpg as k\nend = k\nend(1, 9)\n"),
    ("patch_evaluator", 2, "import sys\nsys.modules['__main__'].reduce = min\n"),
    ("patch_evaluator", 2, "import sys\nsys.modules['__main__'].check.__code__ = None\n"),
    ("patch_evaluator", 2, "import __main__ as m\nsetattr(m, 'TOLERANCE', 1e9)\n"),
    ("frame_walking", 2, "import sys\nframe = sys._getframe(1)\n"),
    ("frame_walking", 1, "from inspect import currentframe as here\n"),
    ("frame_walking", 2, "import gc\nobjects = [o for o in gc.get_objects()]\n"),
    ("frame_walking", 3, "try:\n  x = 1 / 0\nexcept Exception as e: e.__traceback__.tb_frame\n"),
    ("exit_process", 2, "import os\nos._exit(0)\n"),
    ("wake_timer", 2, "import signal\nsignal.setitimer(signal.ITIMER_REAL, 1)\n"),
    ("wake_timer", 2, "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n"),
    ("wake_timer", 2, "import ctypes\nctypes.CDLL(None).timer_create(0, 0, 0)\n"),
    ("prctl", 2, "import ctypes\nctypes.CDLL(None).prctl(4, 1, 0, 0, 0)\n"),
    ("device_clocks", 2, "import pynvml\npynvml.nvmlDeviceSetGpuLockedClocks(0, 1, 1)\n"),
    ("device_clocks", 1, "from pynvml import nvmlDeviceResetGpuLockedClocks\n"),
    ("device_clocks", 2, "import subprocess\nsubprocess.run(['nvidia-smi', '-lgc', '1980'])\n"),
    ("device_clocks", 2, "import os\nos.system('nvidia-smi --lock-gpu-clocks=1980')\n"),
]

DOUBTFUL_SOURCES = [
    ("patch_module", "import time\ntime.perf_counter = lambda: 0.0\n"),
    ("patch_module", "import torch.nn.functional as F\nF.gelu = None\n"),
    ("patch_module", "import torch\nE = torch.cuda.Event\nE.elapsed_time = lambda a, b: 1\n"),
    ("patch_module", "import torch\nsetattr(torch, 'allclose', None)\n"),
    ("patch_module", "import torch\nsetattr(torch.Tensor, 'zero' + '_', None)\n"),
    ("patch_module", "__builtins__['open'] = None\n"),
    ("patch_module", "import builtins\nbuiltins.len = lambda x: 1\n"),
    ("patch_module", "import time\nvars(time)['monotonic'] = None\n"),
    ("patch_module", "import torch\ntorch.__dict__.update(equal=None)\n"),
    ("patch_module", "import sys\nsys.modules['torch'] = None\n"),
    ("patch_module", "def run(x):\n  import torch\n  torch.randn = None\n"),
    ("patch_module", "import torch\ndel torch.Tensor.__eq__\n"),
    ("patch_module", "import numpy as np\n(np.sum, y) = (None, 1)\n"),
    ("patch_module", "import torch\nfor torch.add in [None]: pass\n"),
    ("swap_code", "def f(): pass\nf.__code__ = (lambda: 1).__code__\n"),
    ("swap_code", "def f(): pass\nsetattr(f, '__code__', None)\n"),
    ("signal_handler", "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"),
    ("global_setting", "import torch\ntorch.backends.cuda.matmul.allow_tf32 = True\n"),
    ("thread_setting", "import torch\ntorch.set_num_threads(8)\n"),
    ("query_device_tool", "import os\nos.popen('nvidia-smi --query-gpu=name')\n"),
    ("raw_interpreter", "import ctypes\nctypes.pythonapi.PyGILState_Ensure()\n"),
    ("raw_interpreter", "import ctypes\nctypes.CDLL(None).syscall(39)\n"),
    ("raw_interpreter", "def run(x): return run.__globals__\n"),
    ("starts_processes", "import subprocess\nsubprocess.Popen(['true'])\n"),
    ("starts_processes", "import os\nos.fork()\n"),
]


def solution(source: str, **others: str) -> Solution:
    """A Python solution whose entry is `candidate.py`."""
    files = {"candidate.py": source} | {f"{name}.py": text for name, text in others.items()}
    return Solution(
        name="candidate",
        definition="problem",
        spec=Spec(languages=["python"], entry_point="candidate.py::run"),
        sources=[SourceFile(path=path, content=text) for path, text in files.items()],
    )


def dedent(source: str) -> str:
    lines = source.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return "\n".join(line[indent:] for line in lines)


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_kernel_passes(name: str) -> None:
    source = dedent(HONEST[name])
    compile(source, name, "exec")
    assert check_policy(solution(source)) == []


@pytest.mark.parametrize(("rule", "line", "source"), FORBIDDEN_SOURCES)
def test_a_forbidden_source_is_refused_at_its_line(rule: str, line: int, source: str) -> None:
    found = check_policy(solution(source))
    assert (rule, line) in [(finding.rule, finding.line) for finding in found]
    assert {finding.reason for finding in found} == {"policy_forbidden"}
    assert {finding.file for finding in found} == {"candidate.py"}


@pytest.mark.parametrize(("rule", "source"), DOUBTFUL_SOURCES)
def test_a_doubtful_source_is_noted_and_passes(rule: str, source: str) -> None:
    assert check_policy(solution(source)) == []
    assert any(
        note.startswith(f"{rule}: candidate.py:") for note in policy_observations(solution(source))
    )


def test_every_rule_has_a_source_that_shows_it() -> None:
    assert {rule.__name__ for rule in FORBIDDEN} == {rule for rule, _, _ in FORBIDDEN_SOURCES}
    assert {rule.__name__ for rule in DOUBTFUL} == {rule for rule, _ in DOUBTFUL_SOURCES}


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("def run(x):\n    return x +\n", 2),
        ("def run(x) return x\n", 1),
        ("run = " + "(" * 5000 + ")" * 5000, 1),
        ("x = 1\n  y = 2\n", 2),
    ],
)
def test_a_source_that_does_not_parse_is_refused_as_such(source: str, line: int) -> None:
    (finding,) = check_policy(solution(source))
    assert (finding.rule, finding.reason, finding.line) == ("syntax", "policy_syntax", line)


def test_an_empty_entry_is_refused() -> None:
    (finding,) = check_policy(solution("  \n"))
    assert (finding.rule, finding.reason) == ("empty", "policy_syntax")


def test_every_python_file_is_looked_at_and_named() -> None:
    found = check_policy(solution("def run(x): return x\n", helper="import socket\n"))
    assert [(finding.file, finding.rule) for finding in found] == [("helper.py", "network")]


def test_dubious_escapes_and_declared_encodings_are_no_reason_to_warn() -> None:
    source = (
        "# -*- coding: latin-1 -*-\npattern = '\\d'\nname = 'K\u00f6rnel'\ndef run(x): return x\n"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_policy(solution(source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "# coding: unicode_escape\n# \\x0aimport socket\ndef run(x): return x\n",
        "# coding: utf-7\n# +AAo-import socket\ndef run(x): return x\n",
    ],
)
def test_a_source_is_read_in_the_encoding_in_which_it_will_run(source: str) -> None:
    assert "network" in {finding.rule for finding in check_policy(solution(source))}


@pytest.mark.parametrize("encoding", ["ascii", "no-such-encoding", "rot13"])
def test_a_source_that_the_interpreter_could_not_decode_does_not_parse(encoding: str) -> None:
    source = f"# coding: {encoding}\nname = 'K\u00f6rnel'\ndef run(x): return x\n"
    (finding,) = check_policy(solution(source))
    assert (finding.rule, finding.reason) == ("syntax", "policy_syntax")


def test_a_long_generated_source_is_checked_quickly() -> None:
    chain = " + ".join(f"x[{i}]" for i in range(900))
    aliases = "\n".join(f"a{i} = a{i - 1}(a{i - 1})" for i in range(1, 400))
    rows = "\n".join(f"    y = y.add(torch.tensor({i}), alpha={i})" for i in range(2000))
    source = f"import torch\na0 = getattr\n{aliases}\ndef run(x):\n    y = {chain}\n{rows}\n"
    started = time.process_time()
    assert check_policy(solution(source)) == []
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import time\ndef run(x):\n    time.sleep(1)\n    return x\n", "sleeping: "),
        ("import sys\ndef run(x):\n    return sys.modules and x\n", "other_modules: "),
        ("import atexit\natexit.register(print)\ndef run(x): return x\n", "exit_handler: "),
        ("def bench(): pass\ndef run(x): return x\n", "unused: "),
        (f"TEXT = '''{'x' * 80}'''\ndef run(x): return x\n", "unused: "),
        ("import no_such_module\ndef run(x): return no_such_module\n", "absent_module: "),
        ("import base64\nexec(base64.b64decode(b''))\ndef run(x): return x\n", "computed_code: "),
        ("import torch\ntorch.set_default_dtype(1)\ndef run(x): return x\n", "precision_switch: "),
        ("import ctypes\nctypes.CDLL(None).mprotect(0)\ndef run(x): return x\n", "page_protection"),
    ],
)
def test_what_is_only_doubtful_is_noted_and_not_refused(source: str, seen: str) -> None:
    one = solution(source)
    assert check_policy(one) == []
    assert any(line.startswith(seen) for line in policy_observations(one))
