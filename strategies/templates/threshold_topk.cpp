// The k largest of a row: nearly every element fails one comparison and costs nothing else.
#include <cstdint>

namespace {

bool any_above(const float* x, float bound) {  // 16 at once, without a branch per element
  int above = 0;
  for (int i = 0; i < 16; ++i) above |= x[i] > bound;
  return above != 0;
}

void insert(float* values, int64_t* columns, int64_t k, float value, int64_t column) {
  int64_t place = k - 1;
  for (; place > 0 && values[place - 1] < value; --place) {  // ties: the earlier column stays first
    values[place] = values[place - 1];
    columns[place] = columns[place - 1];
  }
  values[place] = value;
  columns[place] = column;
}

}  // namespace

// values and columns (rows x k), descending; n >= k. A NaN is never above a bound: decide what the
// reference does with one before you use this.
extern "C" void topk_rows(const float* x, float* values, int64_t* columns, int64_t rows, int64_t n,
                          int64_t k) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* in = x + r * n;
    float* best = values + r * k;
    int64_t* where = columns + r * k;
    int64_t j = 0;
    for (; j < k; ++j) insert(best, where, j + 1, in[j], j);  // the first k, whatever they are
    while (j < n) {
      if (j + 16 <= n && !any_above(in + j, best[k - 1])) {
        j += 16;
        continue;
      }
      const int64_t end = j + 16 <= n ? j + 16 : n;
      for (; j < end; ++j)
        if (in[j] > best[k - 1]) insert(best, where, k, in[j], j);
    }
  }
}
