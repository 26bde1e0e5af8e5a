// Factorisations keep their promises: the factors multiply to the matrix, and are of the promised
// kind.
#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <random>

#include "tensor/host.h"
#include "tests/unit/kernels/fixtures.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Number = std::complex<double>;

// Row-major, of plain loops.
struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<Number> x;

  Number& at(std::size_t i, std::size_t j) { return x[i * columns + j]; }
  const Number& at(std::size_t i, std::size_t j) const { return x[i * columns + j]; }
};

Matrix zeros(std::size_t rows, std::size_t columns) {
  return {rows, columns, std::vector<Number>(rows * columns)};
}

Matrix operator*(const Matrix& a, const Matrix& b) {
  REQUIRE(a.columns == b.rows);
  Matrix result = zeros(a.rows, b.columns);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t k = 0; k < a.columns; ++k) {
      for (std::size_t j = 0; j < b.columns; ++j) result.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return result;
}

Matrix adjoint(const Matrix& a) {
  Matrix result = zeros(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i) {
    for (std::size_t j = 0; j < a.columns; ++j) result.at(j, i) = std::conj(a.at(i, j));
  }
  return result;
}

Matrix diagonal(const std::vector<Number>& values) {
  Matrix result = zeros(values.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) result.at(i, i) = values[i];
  return result;
}

double largest(const Matrix& a) {
  double most = 0;
  for (const Number& x : a.x) {
    if (!std::isfinite(std::abs(x))) return INFINITY;
    most = std::max(most, std::abs(x));
  }
  return most;
}

double distance(Matrix a, const Matrix& b) {
  REQUIRE(a.x.size() == b.x.size());
  for (std::size_t i = 0; i < a.x.size(); ++i) a.x[i] -= b.x[i];
  return largest(a);
}

double from_unitary(const Matrix& a) {
  return distance(adjoint(a) * a, diagonal(std::vector<Number>(a.columns, 1.0)));
}

Tensor tensor_of(Kernels& kernels, const Matrix& a, DType dtype) {
  std::vector<double> numbers;
  for (const Number& x : a.x) {
    numbers.push_back(x.real());
    if (is_complex(dtype)) numbers.push_back(x.imag());
  }
  const Tensor result =
      empty(kernels.device(),
            Dims{static_cast<std::int64_t>(a.rows), static_cast<std::int64_t>(a.columns)}, dtype);
  write_doubles(result, numbers);
  return result;
}

Matrix matrix_of(const Tensor& tensor) {
  const std::vector<double> numbers = read_doubles(tensor);
  const bool complex = is_complex(tensor.dtype());
  const bool vector = tensor.shape().size() == 1;
  Matrix result = zeros(static_cast<std::size_t>(tensor.size(0)),
                        vector ? 1 : static_cast<std::size_t>(tensor.size(1)));
  for (std::size_t i = 0; i < result.x.size(); ++i) {
    result.x[i] = complex ? Number(numbers[2 * i], numbers[2 * i + 1]) : Number(numbers[i]);
  }
  return result;
}

Matrix drawn(std::size_t rows, std::size_t columns, bool complex, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto number = [&] { return static_cast<double>(random() % 2001) / 1000 - 1; };
  Matrix result = zeros(rows, columns);
  for (Number& x : result.x) {
    const double real = number();
    x = {real, complex ? number() : 0};
  }
  return result;
}

// Drawn ones of every size, and those that have little in them.
std::vector<Matrix> square_matrices(bool complex) {
  std::vector<Matrix> matrices;
  for (const std::size_t n : {1, 2, 3, 4, 7, 24}) matrices.push_back(drawn(n, n, complex, n));
  matrices.push_back(zeros(3, 3));
  matrices.push_back(diagonal({1, 1, 1, 2}));
  matrices.push_back(drawn(5, 1, complex, 1) * drawn(1, 5, complex, 2));
  Matrix turn = zeros(2, 2);
  turn.at(0, 1) = -1;
  turn.at(1, 0) = 1;
  matrices.push_back(turn);
  Matrix scaled = drawn(4, 4, complex, 5);
  for (Number& x : scaled.x) x *= 1e150;
  matrices.push_back(scaled);
  return matrices;
}

struct Eigen {
  Matrix values, vectors;
};

Eigen eigen_of(Kernels& kernels, KernelId kernel, const Matrix& a, DType in, DType values,
               DType vectors) {
  const auto n = static_cast<std::int64_t>(a.rows);
  const Tensor w = empty(kernels.device(), Dims{n}, values);
  const Tensor v = empty(kernels.device(), Dims{n, n}, vectors);
  std::vector<LocalArg> args = {tensor_of(kernels, a, in)};
  if (kernel == KernelId::kEigh) {
    args.emplace_back(std::string("L"));
    args.emplace_back(Scalar(true));
  }
  kernels.run(kernel, args, {w, v});
  return {matrix_of(w), matrix_of(v)};
}

}  // namespace

TEST_CASE("eigenvectors are turned into multiples of themselves") {
  Kernels kernels;
  for (const bool complex : {false, true}) {
    CAPTURE(complex);
    for (const Matrix& a : square_matrices(complex)) {
      CAPTURE(a.rows);
      const auto [values, vectors] =
          eigen_of(kernels, KernelId::kEig, a, complex ? DType::kC128 : DType::kF64, DType::kC128,
                   DType::kC128);
      const double room = 1e-12 * std::max(largest(a), 1e-300);
      CHECK(distance(a * vectors, vectors * diagonal(values.x)) <= room);
      for (std::size_t j = 0; j < a.columns; ++j) {
        double size = 0;
        for (std::size_t i = 0; i < a.rows; ++i) size += std::norm(vectors.at(i, j));
        CHECK(size == doctest::Approx(1));
      }
      if (complex) continue;
      // The eigenvalues of a real matrix are real, or come in pairs, the upper one first.
      for (std::size_t i = 0; i < values.x.size(); ++i) {
        if (values.x[i].imag() == 0) continue;
        CHECK(values.x[i].imag() > 0);
        CHECK(values.x.at(i + 1) == std::conj(values.x[i]));
        ++i;
      }
    }
  }
}

TEST_CASE("a matrix with one eigenvector for two equal eigenvalues has finite vectors") {
  Kernels kernels;
  Matrix jordan = diagonal({3, 3});
  jordan.at(0, 1) = 1;
  const auto [values, vectors] =
      eigen_of(kernels, KernelId::kEig, jordan, DType::kF64, DType::kC128, DType::kC128);
  CHECK(values.x == std::vector<Number>{3, 3});
  CHECK(distance(jordan * vectors, vectors * diagonal(values.x)) <= 1e-12);
}

TEST_CASE("a Hermitian matrix is its eigenvalues between unitary matrices, in order") {
  Kernels kernels;
  for (const bool complex : {false, true}) {
    CAPTURE(complex);
    for (const Matrix& drawn : square_matrices(complex)) {
      CAPTURE(drawn.rows);
      Matrix a = drawn;
      for (std::size_t i = 0; i < a.x.size(); ++i) a.x[i] = (a.x[i] + adjoint(drawn).x[i]) / 2.0;
      const DType dtype = complex ? DType::kC128 : DType::kF64;
      const auto [values, vectors] =
          eigen_of(kernels, KernelId::kEigh, a, dtype, DType::kF64, dtype);
      const double room = 1e-12 * std::max(largest(a), 1e-300);
      CHECK(distance(vectors * diagonal(values.x) * adjoint(vectors), a) <= room);
      CHECK(from_unitary(vectors) <= 1e-12);
      for (std::size_t i = 1; i < values.x.size(); ++i) {
        CHECK(values.x[i].real() >= values.x[i - 1].real());
      }
    }
  }
}

TEST_CASE("a matrix is its singular values between unitary matrices, in order") {
  Kernels kernels;
  for (const bool complex : {false, true}) {
    std::vector<Matrix> matrices = square_matrices(complex);
    matrices.push_back(drawn(7, 3, complex, 1));
    matrices.push_back(drawn(3, 7, complex, 2));
    matrices.push_back(drawn(6, 1, complex, 3) * drawn(1, 4, complex, 4));
    for (const Matrix& a : matrices) {
      for (const bool full : {false, true}) {
        CAPTURE(complex);
        CAPTURE(a.rows);
        CAPTURE(a.columns);
        CAPTURE(full);
        const auto rows = static_cast<std::int64_t>(a.rows);
        const auto columns = static_cast<std::int64_t>(a.columns), k = std::min(rows, columns);
        const DType dtype = complex ? DType::kC128 : DType::kF64;
        const Tensor u = empty(kernels.device(), Dims{rows, full ? rows : k}, dtype);
        const Tensor s = empty(kernels.device(), Dims{k}, DType::kF64);
        const Tensor vh = empty(kernels.device(), Dims{full ? columns : k, columns}, dtype);
        kernels.run(KernelId::kSvd, {tensor_of(kernels, a, dtype), Scalar(full), Scalar(true)},
                    {u, s, vh});
        CHECK(from_unitary(matrix_of(u)) <= 1e-12);
        CHECK(from_unitary(adjoint(matrix_of(vh))) <= 1e-12);
        Matrix middle =
            zeros(static_cast<std::size_t>(u.size(1)), static_cast<std::size_t>(vh.size(0)));
        const Matrix values = matrix_of(s);
        for (std::size_t i = 0; i < values.x.size(); ++i) {
          middle.at(i, i) = values.x[i];
          CHECK(values.x[i].real() >= 0);
          if (i > 0) CHECK(values.x[i].real() <= values.x[i - 1].real());
        }
        const double room = 1e-12 * std::max(largest(a), 1e-300);
        CHECK(distance(matrix_of(u) * middle * matrix_of(vh), a) <= room);
      }
    }
  }
}

TEST_CASE("a matrix is a unitary one times a triangle") {
  Kernels kernels;
  for (const bool complex : {false, true}) {
    std::vector<Matrix> matrices = square_matrices(complex);
    matrices.push_back(drawn(7, 3, complex, 1));
    matrices.push_back(drawn(3, 7, complex, 2));
    for (const Matrix& a : matrices) {
      for (const char* mode : {"reduced", "complete"}) {
        CAPTURE(complex);
        CAPTURE(a.rows);
        CAPTURE(mode);
        const auto rows = static_cast<std::int64_t>(a.rows);
        const auto columns = static_cast<std::int64_t>(a.columns);
        const std::int64_t kept = *mode == 'c' ? rows : std::min(rows, columns);
        const DType dtype = complex ? DType::kC128 : DType::kF64;
        const Tensor q = empty(kernels.device(), Dims{rows, kept}, dtype);
        const Tensor r = empty(kernels.device(), Dims{kept, columns}, dtype);
        kernels.run(KernelId::kQr, {tensor_of(kernels, a, dtype), std::string(mode)}, {q, r});
        CHECK(from_unitary(matrix_of(q)) <= 1e-12);
        const Matrix upper = matrix_of(r);
        for (std::size_t i = 0; i < upper.rows; ++i) {
          for (std::size_t j = 0; j < std::min(i, upper.columns); ++j) {
            CHECK(upper.at(i, j) == Number(0));
          }
        }
        const double room = 1e-12 * std::max(largest(a), 1e-300);
        CHECK(distance(matrix_of(q) * upper, a) <= room);
      }
    }
  }
}
