// Fault: a kernel writes to an address that is not there.
#include <cuda_runtime.h>
#include <dlpack/dlpack.h>

__global__ void bad() { *reinterpret_cast<volatile int*>(16) = 1; }

extern "C" int run(const DLTensor*, const DLTensor*, DLTensor*) {
  bad<<<1, 1>>>();
  return 0;
}
