"""C++ that the families share: reading tensors, vectors of floats, an exponential on vectors."""

from textwrap import dedent

HEAD = dedent("""\
    #include <dlpack/dlpack.h>
    #include <cmath>
    #include <cstdint>
    #include <cstring>
    """)

TENSOR = dedent("""\
    static inline float* floats(const DLTensor* t) {
      return reinterpret_cast<float*>(static_cast<char*>(t->data) + t->byte_offset);
    }
    """)


def width(vector: str) -> int:
    """Return how many floats a value of the axis `vector` holds."""
    return 16 if vector == "avx512" else int(vector)


def vectors(vector: str) -> str:
    """Return the type `vec` of `W` floats with unaligned `load` and `store`, and `splat`."""
    lanes = width(vector)
    if vector == "avx512":
        return dedent("""\
            #include <immintrin.h>
            constexpr int W = 16;
            typedef __m512 vec;
            typedef int32_t ints __attribute__((vector_size(64)));
            static inline vec load(const float* p) { return _mm512_loadu_ps(p); }
            static inline void store(float* p, vec v) { _mm512_storeu_ps(p, v); }
            static inline vec splat(float s) { return _mm512_set1_ps(s); }
            """)
    return dedent(f"""\
        constexpr int W = {lanes};
        typedef float vec __attribute__((vector_size({4 * lanes})));
        typedef int32_t ints __attribute__((vector_size({4 * lanes})));
        static inline vec load(const float* p) {{ vec v; std::memcpy(&v, p, sizeof v); return v; }}
        static inline void store(float* p, vec v) {{ std::memcpy(p, &v, sizeof v); }}
        static inline vec splat(float s) {{ return s - vec{{}}; }}
        """)


def exponential(kind: str) -> str:
    """Return `exp_one(float)` and `exp_of(vec)` for arguments that are at most 0.

    `libm` asks the C library lane by lane; `poly6`, `poly5` and `poly3` are polynomials of that
    degree, good to about 1e-7, 3e-6 and 6e-4.
    """
    if kind == "libm":
        return dedent("""\
            static inline float exp_one(float x) { return std::exp(x); }
            static inline vec exp_of(vec x) {
              vec y;
              for (int i = 0; i < W; ++i) y[i] = std::exp(x[i]);
              return y;
            }
            """)
    terms = {
        "poly6": (
            "1.9875691500e-4f 1.3981999507e-3f 8.3334519073e-3f 4.1665795894e-2f "
            "1.6666665459e-1f 5.0000001201e-1f"
        ),
        "poly5": "8.3333333e-3f 4.1666667e-2f 1.6666667e-1f 0.5f",
        "poly3": "1.6666667e-1f 0.5f",
    }[kind].split()
    chain = terms[0]
    for term in terms[1:]:
        chain = f"({chain}) * r + {term}"
    return dedent(f"""\
        static inline vec exp_of(vec x) {{
          x = x < -87.0f ? splat(-87.0f) : x;
          // Truncation towards zero rounds to nearest here: x is never positive.
          ints n = __builtin_convertvector(x * 1.44269504f - 0.5f, ints);
          vec whole = __builtin_convertvector(n, vec);
          vec r = x - whole * 0.693359375f;
          r = r + whole * 2.12194440e-4f;
          vec p = ({chain}) * (r * r) + r + 1.0f;
          ints bits = (n + 127) << 23;
          vec scale;
          std::memcpy(&scale, &bits, sizeof scale);
          return p * scale;
        }}
        static inline float exp_one(float x) {{ return exp_of(splat(x))[0]; }}
        """)


def sum_lanes(vector: str) -> str:
    """Return `total(vec)`, the sum of the lanes."""
    if vector == "avx512":
        return "static inline float total(vec v) { return _mm512_reduce_add_ps(v); }\n"
    return dedent("""\
        static inline float total(vec v) {
          float s = 0;
          for (int i = 0; i < W; ++i) s += v[i];
          return s;
        }
        """)
