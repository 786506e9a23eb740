"""The policy for C++ and CUDA: honest sources always pass, each rule finds what it is named after."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelarc_guard.cpp_doubts import CPP_DOUBTS
from kernelarc_guard.cpp_rules import CPP_RULES
from kernelarc_guard.cppnames import CppNames
from kernelarc_guard.policy import Examined, examine
from kernelarc_guard.solution import Solution, SourceFile, Spec

# Rule, the line of the hit, a source that shows it.
FORBIDDEN = [
    ("network", 1, "int f() { return socket(2, 1, 0); }"),
    ("network", 2, "void f() {\n  ::getaddrinfo(host, port, &hints, &found);\n}"),
    ("network", 1, 'auto f = (open_fn)dlsym(RTLD_DEFAULT, "socket");'),
    (
        "process_memory",
        2,
        'extern "C" long ptrace(int, ...);\nlong f() { return ptrace(16, 1, 0, 0); }',
    ),
    ("process_memory", 1, "void f() { process_vm_writev(pid, &here, 1, &there, 1, 0); }"),
    ("process_memory", 1, 'void f() { std::ifstream memory("/proc/self/mem"); }'),
    ("process_memory", 1, 'void f(int pid) { snprintf(path, 64, "/proc/%d/mem", pid); }'),
    ("process_memory", 1, 'int f() { return open("/proc/1/environ", O_RDONLY); }'),
    ("process_memory", 1, 'void f(std::fstream& s) { s.open(R"(/proc/self/task/3/mem)"); }'),
    ("kill_process", 1, "void f() { kill(getppid(), 9); }"),
    ("kill_process", 1, "void f(int pid) { tgkill(pid, pid, 10); }"),
    ("kill_process", 3, "#if 0\n#else\nvoid f() { killpg(0, 15); }\n#endif"),
    ("wake_timer", 1, "void f() { timer_create(CLOCK_MONOTONIC, &event, &timer); }"),
    ("wake_timer", 1, "void f() { setitimer(ITIMER_REAL, &soon, nullptr); }"),
    ("wake_timer", 1, "void f() { event.sigev_signo = SIGCONT; }"),
    ("wake_timer", 1, "void f() { std::raise(SIGSTOP); }"),
    ("wake_timer", 1, "void f() { raise(19); }"),
    ("prctl", 1, "void f() { prctl(PR_SET_DUMPABLE, 0); }"),
    ("prctl", 1, "void f() { prctl(4, 0); }"),
    ("device_clocks", 1, "void f() { nvmlDeviceSetGpuLockedClocks(device, 1980, 1980); }"),
    ("device_clocks", 1, 'void* f() { return dlsym(nvml, "nvmlDeviceSetPowerManagementLimit"); }'),
    ("device_clocks", 1, 'void f() { std::system("nvidia-smi -lgc 1980"); }'),
    ("raw_syscall", 1, "void f() { syscall(SYS_ptrace, 16, 1, 0, 0); }"),
    ("raw_syscall", 1, "void f() { syscall(__NR_pidfd_getfd, 3, 1, 0); }"),
    ("raw_syscall", 2, 'void f() {\n  asm volatile("mov $62, %%rax\\n\\tsyscall" ::: "rax");\n}'),
    ("raw_syscall", 1, '__asm__(".globl enter\\nenter: syscall\\nret");'),
]

# Every rule's words where they mean something else.
NEAR = {
    "network": """
        // socket(2, 1, 0), getaddrinfo(...)
        namespace pool { int socket(int node) { return node; } }
        int f() { return pool::socket(1); }
        struct Numa { int socket; } numa;
        int sockets = numa.socket;
    """,
    "process_memory": """
        /* ptrace(0), opens /proc/self/mem */
        #include <cstdio>
        const char* help = "no ptrace(1), no /proc/1/mem";
        bool ptrace_enabled = false;
        void f() { std::puts("/proc/self/mem"); fopen("/proc/cpuinfo", "r"); fopen("/proc/self/maps", "r"); }
    """,
    "kill_process": """
        struct Task { bool kill(int level); bool stop() { return this->kill(1); } };
        bool f(Task& task) { return task.kill(9); }
        static float kill(float x) { return x < 0 ? 0 : x; }
        float g(float x) { return kill(x); }
        #if 0
        void never() { killpg(1, 9); }
        #endif
    """,
    "wake_timer": """
        enum class Alarm { Off, On };
        int f(int alarm) { auto raise = [](int power) { return power * power; }; return raise(19) + alarm; }
        const char* name = "SIGCONT";
        // SIGSTOP would stop it
    """,
    "prctl": """
        #include <sys/prctl.h>
        void f() { prctl(PR_SET_NAME, "worker"); prctl(PR_GET_DUMPABLE); }
        int prctl_calls = 4;
    """,
    "device_clocks": """
        void f() { nvmlDeviceGetClockInfo(device, NVML_CLOCK_SM, &clock); }
        void g() { std::system("nvidia-smi --query-gpu=name"); }
        const char* note = "nvidia-smi -lgc 1980";
        void nvmlDeviceSetNothing(int x) {} void h() { nvmlDeviceSetNothing(1); }
    """,
    "raw_syscall": """
        __global__ void k(unsigned* out) {
          unsigned t;
          asm volatile("mov.u32 %0, %%clock; // no syscall" : "=r"(t));
          out[threadIdx.x] = t;
        }
        long f() { return syscall(SYS_gettid); }
        void g() { syscall(SYS_tgkill, getpid(), 1, 10); }
        int syscall_count = 62;
    """,
}

HONEST_CUDA = """
    #include <cuda_runtime.h>
    #define CHECK(x) do { if ((x) != cudaSuccess) { std::fprintf(stderr, "%s", #x); std::abort(); } } while (0)
    template <typename T, int Block>
    __global__ void __launch_bounds__(Block, 2) sum(const T* __restrict__ x, T* y, int n) {
      extern __shared__ __align__(16) unsigned char raw[];
      T* part = reinterpret_cast<T*>(raw);
      T total{};
      #pragma unroll 4
      for (int i = threadIdx.x; i < n; i += Block) total += __ldg(x + i);
      part[threadIdx.x] = total;
      __syncthreads();
      if constexpr (Block >= 64) total = __shfl_xor_sync(0xffffffffu, total, 16);
      if (threadIdx.x == 0) atomicAdd(y, total);
    }
    extern "C" int run(const float* x, float* y, int n, cudaStream_t stream) {
      cudaStreamAttrValue v = {};
      sum<float, 256><<<dim3((n + 255) / 256), 256, 256 * sizeof(float), stream>>>(x, y, n);
      CHECK(cudaGetLastError());
      return 0;
    }
"""

DOUBTFUL = [
    ("page_protection", "void f() { mprotect(page, 4096, 7); }"),
    ("page_protection", "void f() { mmap(nullptr, 4096, PROT_READ | PROT_EXEC, 2, -1, 0); }"),
    ("starts_processes", "void f() { if (fork() == 0) execv(program, arguments); }"),
    ("signal_handler", "void f() { std::signal(SIGFPE, SIG_IGN); }"),
    ("thread_setting", "void f() { omp_set_num_threads(64); }"),
    ("sleeping", "void f() { std::this_thread::sleep_for(std::chrono::seconds(1)); }"),
    ("own_clock", "auto f() { return std::chrono::steady_clock::now(); }"),
    ("exit_handler", "void f() { _exit(0); }"),
    ("interposes", 'extern "C" int clock_gettime(int, timespec* t) { t->tv_sec = 0; return 0; }'),
    ("interposes", 'extern "C" { cudaError_t cudaEventElapsedTime(float* t) { return *t = 0; } }'),
    ("runs_at_load", "__attribute__((constructor)) static void early() {}"),
    ("runs_at_load", "[[gnu::constructor]] void early() {}"),
    ("pasted_names", "#define JOIN(a, b) a##b"),
    ("network_header", "#include <sys/socket.h>"),
    ("raw_bytes", 'void f() { asm(".byte 0x0f, 0x05"); }'),
    (
        "persisting_cache",
        "void f(size_t n) { cudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, n); }",
    ),
    # What a rule would refuse if only it were certain.
    ("kill_process", "#define END(pid) kill(pid, 9)"),
    ("kill_process", "void kill(float*); void f() { auto g = &tgkill; }"),
    ("process_memory", "void f( { ptrace(0, 1, 0, 0); if ("),
    ("process_memory", 'const char* where = "/proc/self/mem";'),
    ("prctl", "void f(int option) { prctl(option, 1); }"),
    ("raw_syscall", "void f(long number) { syscall(number); }"),
]


def native(source: str, language: str = "cpp", path: str = "kernel.cpp", **others: str) -> Solution:
    """A native solution whose entry is `path`; `others` are headers."""
    files = {path: source} | {f"{name}.h": text for name, text in others.items()}
    return Solution(
        name="native",
        definition="problem",
        spec=Spec(languages=[language], entry_point=f"{path}::run"),
        sources=[SourceFile(path=path, content=text) for path, text in files.items()],
    )


def python(source: str, **others: str) -> Solution:
    """A Python solution whose entry is `candidate.py`; `others` are CUDA files beside it."""
    files = {"candidate.py": source} | {f"{name}.cu": text for name, text in others.items()}
    return Solution(
        name="candidate",
        definition="problem",
        spec=Spec(languages=["python"], entry_point="candidate.py::run"),
        sources=[SourceFile(path=path, content=text) for path, text in files.items()],
    )


def refused(examined: Examined) -> set[str]:
    """The rules that refuse."""
    assert {finding.reason for finding in examined.findings} <= {"policy_forbidden"}
    return {finding.rule for finding in examined.findings}


def noted(examined: Examined) -> set[str]:
    """The rules that only note."""
    return {note.rule for note in examined.notes}


@pytest.mark.parametrize(("rule", "line", "source"), FORBIDDEN)
@pytest.mark.parametrize(
    ("language", "path"), [("cpp", "kernel.cpp"), ("cuda_cpp", "kernel.cu")], ids=["cpp", "cuda"]
)
def test_a_forbidden_source_is_refused_at_its_line(
    rule: str, line: int, source: str, language: str, path: str
) -> None:
    found = examine(native(source, language, path)).findings
    assert (path, rule, line) in [(finding.file, finding.rule, finding.line) for finding in found]
    assert {finding.reason for finding in found} == {"policy_forbidden"}


@pytest.mark.parametrize("rule", NEAR)
def test_the_words_of_a_rule_refuse_nothing_where_they_mean_something_else(rule: str) -> None:
    assert refused(examine(native(NEAR[rule]))) == set()


def test_an_honest_cuda_source_passes_without_a_note() -> None:
    examined = examine(native(HONEST_CUDA, "cuda_cpp", "kernel.cu"))
    assert (refused(examined), noted(examined)) == (set(), set())


@pytest.mark.parametrize(("rule", "source"), DOUBTFUL)
def test_a_doubtful_source_is_noted_and_passes(rule: str, source: str) -> None:
    examined = examine(native(source))
    assert refused(examined) == set()
    assert any(line.startswith(f"{rule}: kernel.cpp:1 ") for line in examined.observations())


def test_every_rule_has_a_source_that_shows_it_and_a_near_miss() -> None:
    assert {rule.__name__ for rule in CPP_RULES} == {rule for rule, _, _ in FORBIDDEN} == set(NEAR)
    assert {rule.__name__ for rule in CPP_DOUBTS} <= {rule for rule, _ in DOUBTFUL}


def test_a_signal_to_itself_is_no_signal_to_another_process() -> None:
    assert refused(examine(native("void f() { kill(getpid(), SIGUSR1); }"))) == set()
    both = "void f() { kill(getpid(), 10); kill(other, 10); }"
    assert refused(examine(native(both))) == {"kill_process"}


def test_a_function_that_a_header_of_the_solution_defines_is_its_own() -> None:
    source = '#include "own.h"\nfloat f(float x) { return kill(x); }'
    assert refused(examine(native(source))) == {"kill_process"}
    own = "inline float kill(float x) { return x; }"
    assert refused(examine(native(source, own=own))) == set()
    hidden = "inline void f() { kill(1, 9); }"
    found = examine(native('#include "deep.h"\n', deep=hidden)).findings
    assert [(finding.file, finding.rule) for finding in found] == [("deep.h", "kill_process")]


@pytest.mark.parametrize(
    "call",
    [
        "load_inline('k', cpp_sources={}, functions=['f'])",
        "load_inline('k', '', cuda_sources=[{}])",
        "torch.utils.cpp_extension.load_inline(name='k', cpp_sources={})",
        "cupy.RawKernel({}, 'f')",
        "cupy.RawModule(code={}, backend='nvrtc')",
        "nvrtc.nvrtcCreateProgram({}.encode(), b'k.cu', 0, [], [])",
        "ffi.set_source('k', {})",
        "load_inline('k', cpp_sources={}.replace('N', '4'))",
        "load_inline('k', cpp_sources='int n;\\n' + {})",
        "load_inline('k', cpp_sources=[HEADER, {}])",
    ],
)
@pytest.mark.parametrize("named", [True, False], ids=["named", "in place"])
def test_c_inside_python_is_read_where_a_compiler_gets_it(call: str, named: bool) -> None:
    text = "'''\nvoid f() { /* kill(1, 9) */\n  ptrace(0, 1, 0, 0); }\n'''"
    source = f"SOURCE: str = {text}\n" if named else "#\n" * 4
    source += f"def build():\n    return {call.format('SOURCE' if named else text)}\n"
    (finding,) = examine(python(source)).findings
    # Where a text begins is known; where it was put together from several, only about.
    assert (finding.file, finding.rule) == ("candidate.py", "process_memory")
    if named and "+" not in call:
        assert finding.line == 3


def test_c_inside_python_that_no_compiler_gets_is_only_text() -> None:
    source = (
        "TEXT = 'void f() { ptrace(0, 1, 0, 0); }'\nprint(TEXT)\nload_inline('k', 'int f();')\n"
    )
    assert refused(examine(python(source))) == set()


def test_a_cuda_file_beside_python_is_read() -> None:
    found = examine(python("def run(x): return x\n", kernel="void f() { kill(1, 9); }")).findings
    assert [(finding.file, finding.rule) for finding in found] == [("kernel.cu", "kill_process")]


@pytest.mark.parametrize(
    "source",
    [
        "int main( {",
        "{% for i in range(3) %} __global__ void k{{ i }}(float* x) { x[0] = {{ i }}; } {% endfor %}",
        'fn main() { println!("socket"); }',
        "def run(x):\n    return kill\n",
        "#if X\n#elif\n#else\n}}}}",
        "\ufeff\u00e4\u4e2d\U0001f600 \x01\x7f",
        'R"delimiter_that_is_much_too_long_to_be_one(socket(1,2,3))',
        "'",
        '"',
        "/*",
    ],
)
def test_what_does_not_parse_is_never_refused(source: str) -> None:
    assert refused(examine(native(source))) == set()


def test_an_empty_native_entry_is_refused() -> None:
    (finding,) = examine(native("\n")).findings
    assert (finding.rule, finding.reason) == ("empty", "policy_syntax")


@pytest.mark.parametrize(
    "piece", ["(", "{", "a<", "a(", "[", '"', "#if 1\n", "f(){", "kill(1,9);", "x=", "\\\n", "##"]
)
def test_the_largest_source_is_read_quickly_however_it_nests(piece: str) -> None:
    source = piece * ((512 << 10) // len(piece))
    started = time.monotonic()
    examined = examine(native(source))
    assert time.monotonic() - started < 60
    assert all(finding.rule == "kill_process" for finding in examined.findings)


def test_what_takes_too_long_is_left_out_and_said_to_be() -> None:
    names = CppNames("void f() { kill(1, 9); }\n" * 1000, seconds=0.0)
    assert not names.complete
    assert CppNames("void f() { kill(1, 9); }").complete


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
@settings(max_examples=150, deadline=None)
def test_no_text_makes_it_raise(text: str) -> None:
    names = CppNames(text)
    for rule in CPP_RULES:
        list(rule(names))
    for doubt in CPP_DOUBTS:
        list(doubt(names))


_WORDS = st.sampled_from(
    [
        "kill",
        "(",
        ")",
        "{",
        "}",
        '"',
        "'",
        "asm",
        "#define",
        "\n",
        "::",
        'R"(',
        "<<<",
        ";",
        "1",
        "//",
    ]
)


@given(st.lists(_WORDS, max_size=60).map(" ".join))
@settings(max_examples=150, deadline=None)
def test_no_order_of_words_makes_it_raise(text: str) -> None:
    examine(native(text + "x"))


def test_without_tree_sitter_everything_imports_and_a_native_source_cannot_be_judged() -> None:
    script = (
        "import sys\n"
        "sys.modules['tree_sitter'] = None\n"
        "from kernelarc_guard.faults import Refused\n"
        "from kernelarc_guard.cppnames import CppNames\n"
        "import kernelarc_guard.policy\n"
        "try:\n"
        "    CppNames('int x;')\n"
        "except Refused as error:\n"
        "    print(error)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True
    )
    assert "cannot be checked" in ended.stdout
    assert "install kernelarc-mcp[guard]" in ended.stdout
