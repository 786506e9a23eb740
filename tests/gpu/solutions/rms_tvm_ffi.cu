// RMSNorm of float32 rows through TVM-FFI.
#include <cuda_runtime.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

#include <cstdint>

__global__ void __launch_bounds__(512)
    rms(const float* x, const float* weight, float* y, int64_t hidden) {
  __shared__ float partial[16];
  const float* in = x + blockIdx.x * hidden;
  float* out = y + blockIdx.x * hidden;
  float sum = 0;
  for (int64_t i = threadIdx.x; i < hidden; i += 512) sum += in[i] * in[i];
  for (int offset = 16; offset; offset >>= 1) sum += __shfl_xor_sync(~0u, sum, offset);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 16; ++i) sum += partial[i];
  const float scale = rsqrtf(sum / hidden + 1e-6f);
  for (int64_t i = threadIdx.x; i < hidden; i += 512) out[i] = in[i] * scale * weight[i];
}

void Run(tvm::ffi::TensorView x, tvm::ffi::TensorView weight, tvm::ffi::TensorView y) {
  auto stream = static_cast<cudaStream_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
  rms<<<x.size(0), 512, 0, stream>>>(static_cast<const float*>(x.data_ptr()),
                                     static_cast<const float*>(weight.data_ptr()),
                                     static_cast<float*>(y.data_ptr()), x.size(1));
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
