# Tries its variants on the first call.
# problem: project
# expects: right
import time

best = {}


def in_parts(x, weight, parts):
    return sum(a @ b for a, b in zip(x.chunk(parts, 1), weight.chunk(parts, 0), strict=True))


def run(x, weight):
    if x.shape not in best:
        times = []
        for parts in (1, 2, 4):
            begin = time.perf_counter()
            in_parts(x, weight, parts)
            times.append((time.perf_counter() - begin, parts))
        best[x.shape] = min(times)[1]
    return in_parts(x, weight, best[x.shape])
