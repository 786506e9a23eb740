// One float accumulator over a whole long row, within the workload's tolerance.
// problem: long_rows
// expects: right
#include <cmath>
#include <dlpack/dlpack.h>

extern "C" int run(const DLTensor* x, const DLTensor* weight, DLTensor* y) {
    const long rows = x->shape[0], columns = x->shape[1];
    const float* in = static_cast<const float*>(x->data);
    const float* w = static_cast<const float*>(weight->data);
    float* out = static_cast<float*>(y->data);
    for (long row = 0; row < rows; ++row, in += columns, out += columns) {
        float sum = 0;
        for (long i = 0; i < columns; ++i) sum += in[i] * in[i];
        const float factor = 1.0f / std::sqrt(sum / columns + 1e-6f);
        for (long i = 0; i < columns; ++i) out[i] = in[i] * factor * w[i];
    }
    return 0;
}
