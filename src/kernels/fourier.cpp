// Discrete Fourier transforms of any dims, line by line in c128 and rounded once. Real inputs are
// transformed as complex ones, of which one half is kept or was given; Eigen transforms a line.
#include <algorithm>
#include <cmath>
#include <complex>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/scratch.h"

namespace shardlab {

namespace {

using Complex = std::complex<double>;
enum class Sense : std::uint8_t { kForward, kInverse };

// A value whose dims are transformed one after the other.
class Spectrum {
 public:
  explicit Spectrum(const Tensor& tensor)
      : shape_(tensor.shape()), values_(static_cast<std::size_t>(tensor.numel())) {
    load_row_major(values_.data(), DType::kC128, tensor);
  }

  void transform(std::size_t dim, Sense sense) {
    change(dim, shape_[dim], [&](const std::vector<Complex>& from, std::vector<Complex>& to) {
      line(from, to, sense);
    });
  }
  // The first `size` places of a dim.
  void keep(std::size_t dim, std::int64_t size) {
    change(dim, size, [](const std::vector<Complex>& from, std::vector<Complex>& to) {
      std::copy_n(from.begin(), to.size(), to.begin());
    });
  }
  // The other half of a dim of `size` places, of which the first half was given: the conjugates.
  void complete(std::size_t dim, std::int64_t size) {
    change(dim, size, [](const std::vector<Complex>& from, std::vector<Complex>& to) {
      const std::size_t n = to.size();
      for (std::size_t i = 0; i <= n / 2; ++i) {
        const bool real = i == 0 || 2 * i == n;
        to[i] = real ? Complex(from[i].real(), 0) : from[i];
        if (!real) to[n - i] = std::conj(from[i]);
      }
    });
  }
  void scale(double factor) {
    for (Complex& value : values_) value *= factor;
  }

  void store(const Tensor& out) const {
    if (is_complex(out.dtype())) return store_row_major(out, values_.data(), DType::kC128);
    std::vector<double> real(values_.size());
    std::ranges::transform(values_, real.begin(), [](Complex value) { return value.real(); });
    store_row_major(out, real.data(), DType::kF64);
  }

 private:
  // Each line along `dim` becomes one of `size` places.
  void change(std::size_t dim, std::int64_t size, auto&& of_line) {
    const auto from_size = static_cast<std::size_t>(shape_[dim]);
    const auto to_size = static_cast<std::size_t>(size);
    std::size_t inner = 1;
    for (std::size_t d = dim + 1; d < shape_.size(); ++d) {
      inner *= static_cast<std::size_t>(shape_[d]);
    }
    const std::size_t outer = from_size * inner == 0 ? 0 : values_.size() / (from_size * inner);
    std::vector<Complex> made(outer * to_size * inner), from(from_size), to(to_size);
    for (std::size_t i = 0; i < outer * inner; ++i) {
      const std::size_t first = i / inner * from_size * inner + i % inner;
      const std::size_t start = i / inner * to_size * inner + i % inner;
      for (std::size_t k = 0; k < from_size; ++k) from[k] = values_[first + k * inner];
      of_line(from, to);
      for (std::size_t k = 0; k < to_size; ++k) made[start + k * inner] = to[k];
    }
    values_ = std::move(made);
    shape_[dim] = size;
  }

  void line(const std::vector<Complex>& from, std::vector<Complex>& to, Sense sense) {
    const auto size = static_cast<Eigen::Index>(from.size());
    if (size == 1) {
      to = from;
    } else if (sense == Sense::kForward) {
      fft_.fwd(to.data(), from.data(), size);
    } else {
      fft_.inv(to.data(), from.data(), size);
    }
  }

  Dims shape_;
  std::vector<Complex> values_;
  Eigen::FFT<double> fft_{Eigen::FFT<double>::impl_type(), Eigen::FFT<double>::Unscaled};
};

// The dims, whole sizes along them, and the factor that a normalization means: 0 none, 1 by the
// root of their product, 2 by it.
double factor_of(std::int64_t normalization, double count) {
  if (normalization == 0) return 1;
  return 1 / (normalization == 1 ? std::sqrt(count) : count);
}

std::vector<std::size_t> dims_of(const KernelCall& call) {
  std::vector<std::size_t> dims;
  const std::size_t ndim = tensor_arg(call, 0).shape().size();
  for (const std::int64_t dim : *optional_dims_arg(call, 1)) dims.push_back(wrapped_dim(dim, ndim));
  return dims;
}

double count_along(const Dims& shape, const std::vector<std::size_t>& dims) {
  double count = 1;
  for (const std::size_t dim : dims) count *= static_cast<double>(shape[dim]);
  return count;
}

// _fft_c2c(self, dim, normalization, forward)
void fft_c2c_kernel(const KernelCall& call) {
  const Tensor& self = tensor_arg(call, 0);
  const std::vector<std::size_t> dims = dims_of(call);
  Spectrum spectrum(self);
  for (const std::size_t dim : dims) {
    spectrum.transform(dim, scalar_arg(call, 3).to_bool() ? Sense::kForward : Sense::kInverse);
  }
  spectrum.scale(factor_of(int_arg(call, 2), count_along(self.shape(), dims)));
  spectrum.store(call.outputs[0]);
}

// _fft_r2c(self, dim, normalization, onesided)
void fft_r2c_kernel(const KernelCall& call) {
  const Tensor &self = tensor_arg(call, 0), &out = call.outputs[0];
  const std::vector<std::size_t> dims = dims_of(call);
  Spectrum spectrum(self);
  spectrum.transform(dims.back(), Sense::kForward);
  spectrum.keep(dims.back(), out.shape()[dims.back()]);
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) spectrum.transform(dims[i], Sense::kForward);
  spectrum.scale(factor_of(int_arg(call, 2), count_along(self.shape(), dims)));
  spectrum.store(out);
}

// _fft_c2r(self, dim, normalization, last_dim_size)
void fft_c2r_kernel(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const std::vector<std::size_t> dims = dims_of(call);
  Spectrum spectrum(tensor_arg(call, 0));
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) spectrum.transform(dims[i], Sense::kInverse);
  spectrum.complete(dims.back(), out.shape()[dims.back()]);
  spectrum.transform(dims.back(), Sense::kInverse);
  spectrum.scale(factor_of(int_arg(call, 2), count_along(out.shape(), dims)));
  spectrum.store(out);
}

}  // namespace

void add_fourier_kernels(CpuKernelTable& table) {
  table.set(KernelId::kFftC2c, fft_c2c_kernel);
  table.set(KernelId::kFftR2c, fft_r2c_kernel);
  table.set(KernelId::kFftC2r, fft_c2r_kernel);
}

}  // namespace shardlab
