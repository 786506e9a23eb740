"""What a hostile solution does to its channel and its process: pieces of real candidates.

Each piece is Python source that runs in a runner, at import or in a call. `run` answers zeros, which
are wrong for every input: no such solution may come through.
"""

from hypothesis import strategies as st

KIT = """import ctypes, mmap, os, resource, signal, socket, stat, struct, sys, threading, time
import torch

CALLS = [0]

def quietly(step):
    try:
        return step()
    except OSError as error:
        return error

def sockets():
    found = []
    for fd in range(3, 256):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                found.append(fd)
        except OSError:
            pass
    return found

def shared():
    '''Return address and size of every shared mapping that the guard made.'''
    found = []
    for line in open('/proc/self/maps'):
        if '/memfd:kernelarc' in line and ' rw-s ' in line:
            low, high = (int(part, 16) for part in line.split()[0].split('-'))
            found.append((low, high - low))
    return found

def page():
    return next((low for low, size in shared() if size == 1 << 16), None)

def scribble(at, data):
    low = page()
    if low is not None:
        ctypes.memmove(low + at, data, min(len(data), (1 << 16) - at))

def everywhere(data):
    for low, size in shared():
        ctypes.memmove(low, data * (min(size, 1 << 16) // len(data)), len(data) * (min(size, 1 << 16) // len(data)))

def send(data):
    for fd in sockets():
        quietly(lambda: socket.socket(fileno=os.dup(fd)).settimeout(0.2))
        quietly(lambda: os.set_blocking(fd, False))
        quietly(lambda: os.write(fd, data))

def frame(body, size=None):
    return struct.pack('<I', len(body) if size is None else size) + body

def in_child(step):
    if os.fork() == 0:
        try:
            step()
        finally:
            os._exit(0)

def drip(data):
    for byte in data:
        send(bytes([byte]))
        time.sleep(0.5)

def report(call, status, count, outputs=b''):
    scribble(4096, struct.pack('<QII', call, status, count))
    scribble(4160, outputs)

def forged_output(kind, dtype, shape, strides, address, bits=0):
    pad = [0] * (8 - len(shape))
    return struct.pack('<4I8q8qQq', kind, dtype, len(shape), 0, *shape, *pad, *strides, *pad, address, bits)

def deep():
    for _ in range(1500):
        os.mkdir('d')
        os.chdir('d')

def named(name):
    fd = os.memfd_create(name)
    os.ftruncate(fd, 4096)
    KEPT.append(mmap.mmap(fd, 4096))

KEPT = []
"""
RUN = """
def run(x, scale):
    CALLS[0] += 1
    if CALLS[0] == {at}:
{pieces}
    return torch.zeros_like(x)
"""
_BYTES = st.one_of(st.binary(max_size=40), st.just(b"\xff" * 70_000), st.just(b"\x00" * 4096))
_WORDS = st.sampled_from([0, 1, 2, 3, 2**31, 2**32 - 1])
_LONG = st.sampled_from([0, 1, -1, 1000, 2**40, 2**62, 2**63 - 1, -(2**63)])
_ADDRESS = st.sampled_from(["0", "page() or 0", "(page() or 0) + 4096", "2 ** 47", "2 ** 64 - 1"])
_BODIES = st.sampled_from(
    [
        b'{"loaded":true}',
        b'{"loaded":true,"error":"\\ud800"}',
        b'{"error":"\\ud800\\u0000"}',
        b'{"error":[1,2,{"a":null}]}',
        b'{"ns":1,"cpu_ns":1}',
        b'{"fault":"limit","how":"x"}',
        b"[" * 3000,
        b"\xff\xfe",
        b'{"error":"' + b"y" * 60_000 + b'"}',
    ]
)

_PIECES = st.one_of(
    st.tuples(st.integers(0, 40), _BYTES).map(
        lambda two: f"quietly(lambda: os.write({two[0]}, {two[1]!r}))"
    ),
    _BYTES.map(lambda data: f"send({data!r})"),
    st.tuples(_BODIES, st.one_of(st.none(), _WORDS)).map(
        lambda two: f"send(frame({two[0]!r}, {two[1]}))"
    ),
    _BODIES.map(lambda body: f"in_child(lambda: drip(frame({body!r})))"),
    st.tuples(st.integers(0, (1 << 16) - 1), _BYTES).map(
        lambda two: f"scribble({two[0]}, {two[1]!r})"
    ),
    st.binary(min_size=1, max_size=16).map(lambda data: f"everywhere({data!r})"),
    st.tuples(_WORDS, st.integers(0, 3), _WORDS).map(
        lambda three: f"report({three[0]}, {three[1]}, {three[2]})"
    ),
    st.tuples(st.integers(0, 5), st.integers(0, 20), _LONG, _LONG, _ADDRESS, _LONG).map(
        lambda t: (
            f"report(CALLS[0], 1, 1, forged_output({t[0]}, {t[1]}, [{t[2]}], [{t[3]}], {t[4]},"
            f" {t[5]}))"
        )
    ),
    st.integers(0, 40).map(lambda fd: f"quietly(lambda: os.close({fd}))"),
    st.just("os.closerange(0, 256)"),
    st.tuples(st.integers(0, 3), _LONG).map(
        lambda two: f"quietly(lambda: os.lseek({two[0]}, {two[1]}, 0))"
    ),
    st.tuples(st.integers(0, 3), _LONG).map(
        lambda two: f"quietly(lambda: os.ftruncate({two[0]}, {two[1]}))"
    ),
    st.just("os.kill(os.getpid(), signal.SIGSTOP)"),
    st.integers(1, 64).map(lambda number: f"quietly(lambda: os.kill(os.getpid(), {number}))"),
    st.just("os._exit(0)"),
    st.just("raise SystemExit(3)"),
    st.sampled_from(["'\\ud800'", "'x' * 10 ** 6", "b'\\xff'", "'\\x00\\x1b[2J\\n' * 999"]).map(
        lambda text: f"raise RuntimeError({text})"
    ),
    st.just("raise KeyboardInterrupt"),
    st.just("in_child(lambda: time.sleep(600))"),
    st.just("in_child(lambda: os.kill(os.getppid(), signal.SIGCONT))"),
    st.just("threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"),
    st.just("deep()"),
    st.just("os.umask(0o777); os.mkdir('closed'); open('none', 'w').close()"),
    st.just("[os.mkfifo(f'p{i}') for i in range(50)]"),
    st.sampled_from(
        ["\\x0ba b c d e memfd:", "\\u2028 1 2 3 4 5 memfd:kernelarc", "kernelarc"]
    ).map(lambda name: f"named('{name}')"),
    st.just("ctypes.memset(8, 0, 8)"),
    st.just("sys.setrecursionlimit(10 ** 9)"),
    st.just("resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))"),
    st.just("signal.setitimer(signal.ITIMER_REAL, 0.01)"),
    st.just("os.write(1, b'\\xff\\x00' * 5000)"),
    st.just("sys.stdout.write('\\udc80' * 100)"),
)


def _solution(parts: tuple[list[str], list[str], int]) -> str:
    at_import, in_call, at = parts
    body = "\n".join(f"        {piece}" for piece in (in_call or ["pass"]))
    return KIT + "\n".join(at_import) + RUN.format(at=at, pieces=body)


SOLUTIONS = st.tuples(
    st.lists(_PIECES, max_size=3), st.lists(_PIECES, max_size=3), st.integers(1, 4)
).map(_solution)
