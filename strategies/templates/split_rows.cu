// Few long rows: several blocks per row, partial (maximum, sum) pairs, merged by the last to finish.
#include <cstdint>

namespace {

constexpr int kThreads = 256;

struct __align__(8) Pair {
  float most, sum;  // sum of exp(x - most)
};

__device__ Pair merge(Pair a, Pair b) {  // exact in any order; -inf is the empty pair
  const float most = fmaxf(a.most, b.most);
  if (most == -INFINITY) return {most, 0.0f};
  return {most, a.sum * __expf(a.most - most) + b.sum * __expf(b.most - most)};
}

__device__ Pair over_block(Pair mine) {
  __shared__ Pair parts[kThreads / 32];
  for (int offset = 16; offset; offset >>= 1)
    mine = merge(mine, {__shfl_xor_sync(~0u, mine.most, offset),
                        __shfl_xor_sync(~0u, mine.sum, offset)});
  __syncthreads();  // `parts` may still be read from the call before
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = parts[0];
  for (int i = 1; i < kThreads / 32; ++i) mine = merge(mine, parts[i]);
  return mine;
}

__global__ void __launch_bounds__(kThreads)
    log_sum_exp(const float* x, Pair* partial, unsigned* finished, float* y, int64_t n) {
  __shared__ bool last;
  const int64_t row = blockIdx.y, splits = gridDim.x;
  const int64_t each = (n + splits - 1) / splits, from = each * blockIdx.x;
  const int64_t to = from + each < n ? from + each : n;
  Pair mine{-INFINITY, 0.0f};
  for (int64_t i = from + threadIdx.x; i < to; i += kThreads)
    mine = merge(mine, {x[row * n + i], 1.0f});
  mine = over_block(mine);
  if (threadIdx.x == 0) {
    partial[row * splits + blockIdx.x] = mine;
    __threadfence();  // the pair is out before the count says so
    last = atomicAdd(finished + row, 1) == splits - 1;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  Pair all{-INFINITY, 0.0f};
  for (int64_t i = threadIdx.x; i < splits; i += kThreads) {
    const float2 one = __ldcg(reinterpret_cast<const float2*>(partial) + row * splits + i);
    all = merge(all, {one.x, one.y});  // from L2: another block wrote it
  }
  all = over_block(all);
  if (threadIdx.x == 0) {
    y[row] = all.most + __logf(all.sum);
    finished[row] = 0;  // ready for the next call: nobody else looks any more
  }
}

}  // namespace

// y[row] = log(sum(exp(x[row]))); `partial` holds rows * splits pairs, `finished` rows zeros.
extern "C" int split_rows(const float* x, void* partial, unsigned* finished, float* y, int64_t rows,
                          int64_t n, int splits) {
  log_sum_exp<<<dim3(splits, static_cast<unsigned>(rows)), kThreads>>>(
      x, static_cast<Pair*>(partial), finished, y, n);
  return cudaGetLastError();
}
