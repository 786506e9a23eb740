// The loop of a runner with the light C binding: what is in a window beside the kernel itself.
//
// It is built into every such solution, and does no more than a solution could do that took the loop
// over: there is nothing to be saved by that. Layouts as in control.py and native_loop.py.
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace {

struct Order {
  uint64_t call;
  uint32_t command, workload;
  uint64_t rewritten;
  uint32_t flags;
};
struct Scalar {
  uint32_t kind;
  int64_t bits;
};
struct Argument {
  int64_t scalar;  // its place on the page, or -1
  void* tensor;
};
struct Call {
  int64_t count;
  const Argument* arguments;
};

constexpr uint32_t RUN = 1, RENEW = 2, IS_DOUBLE = 3, DONE = 1;
#if defined(__aarch64__)
constexpr int REGISTERS = 8;
typedef int (*Function)(long, long, long, long, long, long, long, long, double, double, double,
                        double, double, double, double, double, long, long, long, long, long, long,
                        long, long, long, long, long, long, long, long, long, long);
#else
constexpr int REGISTERS = 6;
typedef int (*Function)(long, long, long, long, long, long, double, double, double, double, double,
                        double, double, double, long, long, long, long, long, long, long, long,
                        long, long, long, long, long, long, long, long);
#endif

// Both calling conventions place integers and doubles apart: the order between them is free as long as
// no double has to go to the stack.
int invoke(Function f, const Call& call, const unsigned char* scalars) {
  long n[REGISTERS + 16] = {};
  double d[8] = {};
  int ints = 0, doubles = 0;
  for (int64_t i = 0; i < call.count; ++i) {
    const Argument& one = call.arguments[i];
    if (one.scalar < 0) {
      n[ints++] = reinterpret_cast<long>(one.tensor);
      continue;
    }
    Scalar value;
    std::memcpy(&value, scalars + one.scalar * static_cast<int64_t>(sizeof value), sizeof value);
    if (value.kind == IS_DOUBLE)
      std::memcpy(&d[doubles++], &value.bits, sizeof value.bits);
    else
      n[ints++] = value.bits;
  }
  const long* s = n + REGISTERS;
#if defined(__aarch64__)
  return f(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7], d[0], d[1], d[2], d[3], d[4], d[5], d[6],
           d[7], s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12],
           s[13], s[14], s[15]);
#else
  return f(n[0], n[1], n[2], n[3], n[4], n[5], d[0], d[1], d[2], d[3], d[4], d[5], d[6], d[7], s[0],
           s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14],
           s[15]);
#endif
}

int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

}  // namespace

// Serve calls until an order is no plain call (0) or the solution returns something else than 0.
extern "C" __attribute__((visibility("default"))) int kernelarc_loop(
    unsigned char* page, void* function, const Call* calls, int64_t scalars_at, int64_t done_at,
    double planted) {
  const pid_t me = getpid();
  for (;;) {
    kill(me, SIGSTOP);
    Order order;
    std::memcpy(&order, page, sizeof order);
    if (order.command != RUN || (order.flags & RENEW) != 0) return 0;
    const int64_t begin = planted > 0 ? now() : 0;
    const int status =
        invoke(reinterpret_cast<Function>(function), calls[order.workload], page + scalars_at);
    if (planted > 0)
      for (int64_t end = now(), until = end + static_cast<int64_t>((end - begin) * planted);
           now() < until;) {
      }
    if (status != 0) return status;
    std::memcpy(page + done_at, &order.call, 8);
    std::memcpy(page + done_at + 8, &DONE, 4);
  }
}
