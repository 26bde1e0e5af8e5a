// Fourier transforms as sums over all samples, and complex numbers as pairs.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

struct Complex {
  Dual real, imag;
};
Complex operator+(const Complex& a, const Complex& b) { return {a.real + b.real, a.imag + b.imag}; }
Complex operator*(const Complex& a, const Complex& b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
Complex turned(double turns) { return {std::cos(2 * M_PI * turns), std::sin(2 * M_PI * turns)}; }

// The pair at a place of [.., 2].
Complex pair(const DualArray& x, std::int64_t place) { return {x[2 * place], x[2 * place + 1]}; }

DualArray pairs(const Dims& shape, const std::function<Complex(const Dims& at)>& f) {
  Dims with_two = shape;
  with_two.push_back(2);
  return made(with_two, [&](const Dims& at) {
    const Complex value = f(at);
    return at[at.size() - 1] == 0 ? value.real : value.imag;
  });
}

// The sum over samples of sample(i) turned by i * k / n, `direction` -1 forward.
Complex wave(std::int64_t n, std::int64_t k, int direction,
             const std::function<Complex(std::int64_t)>& sample) {
  Complex sum;
  for (std::int64_t i = 0; i < n; ++i) {
    sum = sum +
          sample(i) * turned(direction * static_cast<double>(i * k % n) / static_cast<double>(n));
  }
  return sum;
}

DTensor as_complex(const DTensor& x) { return first_of("aten::view_as_complex", {x}); }
DTensor as_real(const DTensor& x) { return first_of("aten::view_as_real", {x}); }

const std::vector<Definition> kTransforms = {
    {"aten::fft_fft",
     {floats({3, 5, 2}, 1)},
     [](const Tensors& x) { return as_real(first_of("aten::fft_fft", {as_complex(x[0])})); },
     [](const Arrays& x) {
       return pairs({3, 5}, [&](const Dims& at) {
         return wave(5, at[1], -1, [&](std::int64_t i) { return pair(x[0], at[0] * 5 + i); });
       });
     }},
    {"aten::fft_fft of a longer line",
     {floats({3, 2}, 2)},
     [](const Tensors& x) {
       return as_real(first_of("aten::fft_fft", {as_complex(x[0]), 4, 0, "ortho"}));
     },
     [](const Arrays& x) {
       return pairs({4}, [&](const Dims& at) {
         const Complex sum = wave(4, at[0], -1, [&](std::int64_t i) {
           return i < 3 ? pair(x[0], i) : Complex{0, 0};
         });
         return Complex{sum.real / 2, sum.imag / 2};  // the root of 4
       });
     }},
    {"aten::fft_ifft",
     {floats({4, 3, 2}, 3)},
     [](const Tensors& x) {
       return as_real(first_of("aten::fft_ifft", {as_complex(x[0]), Argument(), 0}));
     },
     [](const Arrays& x) {
       return pairs({4, 3}, [&](const Dims& at) {
         const Complex sum =
             wave(4, at[0], 1, [&](std::int64_t i) { return pair(x[0], i * 3 + at[1]); });
         return Complex{sum.real / 4, sum.imag / 4};
       });
     }},
    {"aten::fft_rfft",
     {floats({3, 6}, 4)},
     [](const Tensors& x) { return as_real(first_of("aten::fft_rfft", {x[0]})); },
     [](const Arrays& x) {
       return pairs({3, 4}, [&](const Dims& at) {
         return wave(6, at[1], -1, [&](std::int64_t i) { return Complex{x[0](at[0], i), 0}; });
       });
     }},
    {"aten::fft_irfft",
     {floats({3, 4, 2}, 5)},
     [](const Tensors& x) { return first_of("aten::fft_irfft", {as_complex(x[0])}); },
     [](const Arrays& x) {
       // The other half is the conjugate of this one; the first and the middle have no imaginary
       // part.
       return made({3, 6}, [&](const Dims& at) {
         return wave(6, at[1], 1,
                     [&](std::int64_t i) {
                       const std::int64_t from = i <= 3 ? i : 6 - i;
                       Complex value = pair(x[0], at[0] * 4 + from);
                       if (from == 0 || from == 3) value.imag = 0 * value.imag;
                       if (i > 3) value.imag = -value.imag;
                       return value;
                     })
                    .real /
                6;
       });
     }},
    {"aten::fft_fft2",
     {floats({3, 4, 2}, 6)},
     [](const Tensors& x) { return as_real(first_of("aten::fft_fft2", {as_complex(x[0])})); },
     [](const Arrays& x) {
       return pairs({3, 4}, [&](const Dims& at) {
         return wave(3, at[0], -1, [&](std::int64_t row) {
           return wave(4, at[1], -1, [&](std::int64_t i) { return pair(x[0], row * 4 + i); });
         });
       });
     }},
    {"aten::fft_fftshift",
     {floats({5, 4}, 7)},
     [](const Tensors& x) { return first_of("aten::fft_fftshift", {x[0]}); },
     [](const Arrays& x) {
       return made({5, 4}, [&](const Dims& at) { return x[0]((at[0] + 3) % 5, (at[1] + 2) % 4); });
     }},
};

Complex exponential(const Complex& z) {
  const Dual size = exp(z.real);
  return {size * cos(z.imag), size * sin(z.imag)};
}

const std::vector<Definition> kComplexFunctions = {
    {"aten::mul of complex numbers",
     {floats({4, 3, 2}, 11), floats({3, 2}, 12)},
     [](const Tensors& x) { return as_real(as_complex(x[0]) * as_complex(x[1])); },
     [](const Arrays& x) {
       return pairs({4, 3}, [&](const Dims& at) {
         return pair(x[0], at[0] * 3 + at[1]) * pair(x[1], at[1]);
       });
     }},
    {"aten::mm of complex numbers",
     {floats({3, 4, 2}, 13), floats({4, 2, 2}, 14)},
     [](const Tensors& x) { return as_real(mm(as_complex(x[0]), as_complex(x[1]))); },
     [](const Arrays& x) {
       return pairs({3, 2}, [&](const Dims& at) {
         Complex sum;
         for (std::int64_t k = 0; k < 4; ++k) {
           sum = sum + pair(x[0], at[0] * 4 + k) * pair(x[1], k * 2 + at[1]);
         }
         return sum;
       });
     }},
    {"aten::exp of complex numbers",
     {floats({5, 2}, 15)},
     [](const Tensors& x) { return as_real(exp(as_complex(x[0]))); },
     [](const Arrays& x) {
       return pairs({5}, [&](const Dims& at) { return exponential(pair(x[0], at[0])); });
     }},
    {"aten::abs of complex numbers",
     {floats({5, 2}, 16)},
     [](const Tensors& x) { return first_of("aten::abs", {as_complex(x[0])}); },
     [](const Arrays& x) {
       return made({5}, [&](const Dims& at) {
         const Complex z = pair(x[0], at[0]);
         return sqrt(z.real * z.real + z.imag * z.imag);
       });
     }},
    {"aten::complex",
     {floats({4}, 17), floats({4}, 18)},
     [](const Tensors& x) {
       const DTensor z = first_of("aten::complex", {x[0], x[1]});
       return as_real(first_of("aten::conj_physical", {z * z}));
     },
     [](const Arrays& x) {
       return pairs({4}, [&](const Dims& at) {
         const Complex z{x[0](at[0]), x[1](at[0])};
         const Complex square = z * z;
         return Complex{square.real, -square.imag};
       });
     }},
    {"aten::polar",
     {floats({4}, 19, 0.2, 2), floats({4}, 20, -3, 3)},
     [](const Tensors& x) {
       return as_real(first_of("aten::polar", {x[0], x[1]}));
     },
     [](const Arrays& x) {
       return pairs({4}, [&](const Dims& at) {
         return Complex{x[0](at[0]) * cos(x[1](at[0])), x[0](at[0]) * sin(x[1](at[0]))};
       });
     }},
    {"aten::vdot",
     {floats({5, 2}, 21), floats({5, 2}, 22)},
     [](const Tensors& x) {
       return as_real(first_of("aten::vdot", {as_complex(x[0]), as_complex(x[1])}));
     },
     [](const Arrays& x) {
       return pairs({}, [&](const Dims&) {
         Complex sum;
         for (std::int64_t i = 0; i < 5; ++i) {
           Complex left = pair(x[0], i);
           left.imag = -left.imag;
           sum = sum + left * pair(x[1], i);
         }
         return sum;
       });
     }},
};

}  // namespace

TEST_CASE("V-18 a Fourier transform is a sum over all samples, its dim cut or not") {
  check_definitions(kTransforms);
}

TEST_CASE("V-18 complex numbers compute as pairs do, in value and in gradient") {
  check_definitions(kComplexFunctions);
}
