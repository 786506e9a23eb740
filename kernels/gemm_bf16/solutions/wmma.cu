// Tiles of 128 x 256 in shared memory, copied two stages ahead; each warp owns 64 x 64 of them.
#include <cuda_bf16.h>
#include <cuda_pipeline_primitives.h>
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>
#include <mma.h>

#include <cstdint>

namespace {

using nvcuda::wmma::accumulator;
using nvcuda::wmma::fragment;
using nvcuda::wmma::matrix_a;
using nvcuda::wmma::matrix_b;
using nvcuda::wmma::mem_row_major;
using nvcuda::wmma::row_major;
using Half = __nv_bfloat16;

constexpr int kM = 128, kN = 256, kK = 32;
constexpr int kThreads = 256, kStages = 3;
constexpr int kPart = 16, kMine = 4;  // a fragment's side; fragments of a warp in each direction
constexpr int kChunk = 8;             // values in one copy of 16 bytes
constexpr int kPitchA = kK + kChunk, kPitchB = kN + kChunk;
constexpr int kStageA = kM * kPitchA, kStageB = kK * kPitchB;
constexpr int kPitchOut = kPart + 4;
constexpr int kShared = kStages * (kStageA + kStageB) * sizeof(Half);

template <typename T>
T* pointer(const DLTensor* tensor) {
  return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
}

// Copies rows x columns values of a matrix with its corner at (row, column); zeros beyond its edges.
template <int kRows, int kColumns, int kPitch>
__device__ void fetch(Half* to, const Half* from, int row, int column, int rows, int columns) {
  constexpr int kAcross = kColumns / kChunk;
  static_assert(kRows * kAcross % kThreads == 0, "every thread copies as much");
#pragma unroll
  for (int i = threadIdx.x; i < kRows * kAcross; i += kThreads) {
    const int r = i / kAcross, c = i % kAcross * kChunk;
    const bool inside = row + r < rows && column + c < columns;
    const Half* source = inside ? from + static_cast<int64_t>(row + r) * columns + column + c : from;
    __pipeline_memcpy_async(to + r * kPitch + c, source, 16, inside ? 0 : 16);
  }
}

__global__ void __launch_bounds__(kThreads) product(const Half* a, const Half* b, Half* c, int m,
                                                    int n, int k) {
  extern __shared__ __align__(128) unsigned char memory[];
  Half* tile_a = reinterpret_cast<Half*>(memory);
  Half* tile_b = tile_a + kStages * kStageA;
  // Blocks are numbered in groups of eight rows of tiles, which share columns of b in the cache.
  const int tiles_m = (m + kM - 1) / kM, tiles_n = (n + kN - 1) / kN;
  const int group = blockIdx.x / (8 * tiles_n), in_group = blockIdx.x % (8 * tiles_n);
  const int height = min(8, tiles_m - 8 * group);
  const int row = (8 * group + in_group % height) * kM, column = in_group / height * kN;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int warp_row = warp / 4 * kPart * kMine, warp_column = warp % 4 * kPart * kMine;

  fragment<accumulator, kPart, kPart, kPart, float> sums[kMine][kMine];
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
#pragma unroll
    for (int j = 0; j < kMine; ++j) nvcuda::wmma::fill_fragment(sums[i][j], 0.0f);
  }
  const int steps = (k + kK - 1) / kK;
  for (int step = 0; step < kStages - 1; ++step) {
    if (step < steps) {
      fetch<kM, kK, kPitchA>(tile_a + step * kStageA, a, row, step * kK, m, k);
      fetch<kK, kN, kPitchB>(tile_b + step * kStageB, b, step * kK, column, k, n);
    }
    __pipeline_commit();
  }
  for (int step = 0; step < steps; ++step) {
    __pipeline_wait_prior(kStages - 2);
    __syncthreads();
    const int later = step + kStages - 1, place = later % kStages;
    if (later < steps) {
      fetch<kM, kK, kPitchA>(tile_a + place * kStageA, a, row, later * kK, m, k);
      fetch<kK, kN, kPitchB>(tile_b + place * kStageB, b, later * kK, column, k, n);
    }
    __pipeline_commit();
    const Half* left = tile_a + step % kStages * kStageA + warp_row * kPitchA;
    const Half* right = tile_b + step % kStages * kStageB + warp_column;
#pragma unroll
    for (int inner = 0; inner < kK; inner += kPart) {
      fragment<matrix_a, kPart, kPart, kPart, Half, row_major> rows[kMine];
      fragment<matrix_b, kPart, kPart, kPart, Half, row_major> columns[kMine];
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        nvcuda::wmma::load_matrix_sync(rows[i], left + i * kPart * kPitchA + inner, kPitchA);
        nvcuda::wmma::load_matrix_sync(columns[i], right + inner * kPitchB + i * kPart, kPitchB);
      }
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
#pragma unroll
        for (int j = 0; j < kMine; ++j) {
          nvcuda::wmma::mma_sync(sums[i][j], rows[i], columns[j], sums[i][j]);
        }
      }
    }
  }
  __pipeline_wait_prior(0);
  __syncthreads();
  // The tiles are done with: each warp narrows its sums through a piece of their memory.
  float* own = reinterpret_cast<float*>(memory) + warp * kPart * kPitchOut;
  const int r = lane / 2, part = lane % 2 * kChunk;
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
#pragma unroll
    for (int j = 0; j < kMine; ++j) {
      nvcuda::wmma::store_matrix_sync(own, sums[i][j], kPitchOut, mem_row_major);
      __syncwarp();
      __align__(16) Half narrow[kChunk];
#pragma unroll
      for (int v = 0; v < kChunk; ++v) narrow[v] = __float2bfloat16(own[r * kPitchOut + part + v]);
      const int to_row = row + warp_row + i * kPart + r;
      const int to_column = column + warp_column + j * kPart + part;
      if (to_row < m && to_column < n) {
        *reinterpret_cast<uint4*>(c + static_cast<int64_t>(to_row) * n + to_column) =
            *reinterpret_cast<const uint4*>(narrow);
      }
      __syncwarp();
    }
  }
}

bool in_sixteens(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace

// Rows have to begin at multiples of 16 bytes: other shapes are refused.
extern "C" int run(const DLTensor* a, const DLTensor* b, DLTensor* c) {
  const int m = a->shape[0], k = a->shape[1], n = b->shape[1];
  const Half *left = pointer<const Half>(a), *right = pointer<const Half>(b);
  Half* out = pointer<Half>(c);
  if (k % kChunk || n % kChunk || !in_sixteens(left) || !in_sixteens(right) || !in_sixteens(out)) {
    return cudaErrorInvalidValue;
  }
  static const cudaError_t allowed =
      cudaFuncSetAttribute(product, cudaFuncAttributeMaxDynamicSharedMemorySize, kShared);
  if (allowed != cudaSuccess) return allowed;
  product<<<(m + kM - 1) / kM * ((n + kN - 1) / kN), kThreads, kShared>>>(left, right, out, m, n, k);
  return cudaGetLastError();
}
