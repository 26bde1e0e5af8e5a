// Factors must give the matrix that they were made of; named places must hold the values next to
// them.
#include "tests/facts/open_choice.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "base/tensor_dim.h"
#include "dispatch/plain_calls.h"
#include "schema/op_row.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

DTensor call(std::string_view name, Arguments args) {
  return plain_calls().one(name, std::move(args));
}

// Largest difference, as a share of the largest element.
double distance(const DTensor& got, const DTensor& expected) {
  const auto difference = [&] { return call("aten::sub.Tensor", {got, expected}); };
  const auto largest = [](const DTensor& x) {
    double most = 0;
    for (const double part : read_doubles(x.local())) most = std::max(most, std::fabs(part));
    return most;
  };
  return got.numel() == 0 ? 0 : largest(difference()) / std::max(1.0, largest(expected));
}

std::string judged_factors(const DTensor& product, const DTensor& matrix) {
  const DType dtype = matrix.dtype();
  const bool wide = dtype == DType::kF64 || dtype == DType::kC128;
  const double off = distance(product, matrix);
  // A few hundred roundings: matrices here have less than a hundred rows.
  if (off <= (wide ? 1e-12 : 1e-4)) return "";
  return fmt::format("the factors give another matrix, off by {} of its largest element", off);
}

DTensor as_columns(const DTensor& values) { return call("aten::unsqueeze", {values, -2}); }

// Rows that are orthogonal and of length 1.
std::string judged_rows(const DTensor& rows) {
  const DTensor turned = call("aten::conj_physical", {call("aten::transpose.int", {rows, -2, -1})});
  const DTensor products = call("aten::matmul", {rows, turned});
  const DTensor one = call("aten::eye", {rows.shape()[rows.ndim() - 2], rows.dtype()});
  return judged_factors(call("aten::add.Tensor", {call("aten::zeros_like", {products}), one}),
                        products);
}

// U diag(S) Vh, of the columns that have a singular value; the other columns are orthogonal to
// them.
std::string judge_svd(const OpRow&, const Arguments& args, const Results& results) {
  const DTensor &u = results[0].tensor(), &s = results[1].tensor(), &vh = results[2].tensor();
  if (u.numel() == 0 || vh.numel() == 0) return "";
  const std::int64_t rank = s.shape().back();
  const DTensor scaled =
      call("aten::mul.Tensor", {call("aten::slice.Tensor", {u, -1, 0, rank}), as_columns(s)});
  const DTensor rows = call("aten::slice.Tensor", {vh, -2, 0, rank});
  std::string wrong = judged_factors(call("aten::matmul", {scaled, rows}), args[0].tensor());
  if (wrong.empty()) wrong = judged_rows(vh);
  return wrong.empty() ? judged_rows(call("aten::transpose.int", {u, -2, -1})) : wrong;
}

// P L U, of the matrix or of its transpose: the order in memory is open.
std::string judge_lu(const OpRow&, const Arguments& args, const Results& results) {
  const Argument &lu = results[results.size() - 2], &pivots = results.back();
  if (lu.tensor().numel() == 0) return "";
  const Results parts = plain_calls()("aten::lu_unpack", {lu, pivots});
  const DTensor product =
      call("aten::matmul", {call("aten::matmul", {parts[0], parts[1]}), parts[2]});
  const std::string wrong = judged_factors(product, args[0].tensor());
  if (wrong.empty()) return "";
  return judged_factors(product, call("aten::transpose.int", {args[0], -2, -1}));
}

// A V = V diag(L)
std::string judge_eigen(const OpRow&, const Arguments& args, const Results& results) {
  const DTensor &values = results[0].tensor(), &vectors = results[1].tensor();
  if (vectors.numel() == 0) return "";
  DTensor matrix = args[0].tensor();
  if (matrix.dtype() != vectors.dtype()) {
    matrix = call("aten::_to_copy", {matrix, vectors.dtype()});
  }
  const DTensor left = call("aten::matmul", {matrix, vectors});
  return judged_factors(left, call("aten::mul.Tensor", {vectors, as_columns(values)}));
}

// Only half of the matrix is read, and only the real part of its diagonal.
std::string judge_eigh(const OpRow& row, const Arguments& args, const Results& results) {
  const bool upper = args[1].is_string() && args[1].string() == "U";
  const auto turned = [](const DTensor& x) {
    return call("aten::conj_physical", {call("aten::transpose.int", {x, -2, -1})});
  };
  const DTensor half = call(upper ? "aten::triu" : "aten::tril", {args[0], 0});
  const DTensor beyond = call(upper ? "aten::triu" : "aten::tril", {args[0], upper ? 1 : -1});
  const DTensor diagonal = call("aten::sub.Tensor", {half, beyond});
  const DTensor real =
      call("aten::mul.Scalar", {call("aten::add.Tensor", {diagonal, turned(diagonal)}), 0.5});
  Arguments whole = args;
  whole[0] = call("aten::add.Tensor", {call("aten::add.Tensor", {beyond, turned(beyond)}), real});
  return judge_eigen(row, whole, results);
}

// The elements that are named are the values.
std::string judge_places(const OpRow& row, const Arguments& args, const Results& results) {
  const DTensor& self = args[0].tensor();
  DTensor values = results[0].tensor(), places = results[1].tensor();
  if (self.ndim() == 0 || values.numel() == 0) return "";
  const std::int64_t dim = wrap_dim(args[*row.op.find_argument("dim")].to_int(), self.ndim());
  if (places.ndim() < self.ndim()) {
    places = call("aten::unsqueeze", {places, dim});
    values = call("aten::unsqueeze", {values, dim});
  }
  const DTensor named = call("aten::gather", {self, dim, places});
  const std::vector<double> got = read_doubles(named.local());
  const std::vector<double> expected = read_doubles(values.local());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))) continue;
    return fmt::format("place [{}] holds {}, the value is {}", i, got[i], expected[i]);
  }
  return "";
}

// The outputs that are open: bit i for output i.
struct OpenChoice {
  std::string_view op;
  unsigned open;
  std::string (*judge)(const OpRow& row, const Arguments& args, const Results& results);
};
constexpr OpenChoice kOpen[] = {
    {"aten::_linalg_det", 0b110, judge_lu},      {"aten::_linalg_eigh", 0b10, judge_eigh},
    {"aten::_linalg_slogdet", 0b1100, judge_lu}, {"aten::_linalg_svd", 0b101, judge_svd},
    {"aten::kthvalue", 0b10, judge_places},      {"aten::linalg_eig", 0b11, judge_eigen},
    {"aten::median.dim", 0b10, judge_places},    {"aten::mode", 0b10, judge_places},
    {"aten::nanmedian.dim", 0b10, judge_places}, {"aten::topk", 0b10, judge_places},
};

const OpenChoice* open_choice(const OpRow& row) {
  const OpRow& base = row.base != nullptr ? *row.base : row;
  const auto found = std::ranges::find(kOpen, std::string_view(base.name()), &OpenChoice::op);
  return found == std::end(kOpen) ? nullptr : &*found;
}

}  // namespace

bool is_open(const OpRow& row, std::size_t output) {
  const OpenChoice* choice = open_choice(row);
  return choice != nullptr && (choice->open >> output & 1) != 0;
}

std::string wrong_choice(const OpRow& row, const Arguments& args, const Results& results) {
  const OpenChoice* choice = open_choice(row);
  return choice == nullptr ? "" : choice->judge(row, args, results);
}

bool leaves_basis(const OpRow& row, const Results& results, std::size_t output) {
  const OpenChoice* choice = open_choice(row);
  if (choice == nullptr || choice->judge != judge_svd || output == 1) return false;
  const Dims& vectors = results[output].tensor().shape();
  return vectors.back() - results[1].tensor().shape().back() >= 2;
}

bool same_magnitudes(const Tensor& got, const RecordedOutput& expected) {
  if (is_integral(got.dtype())) return true;
  std::vector<double> ours, recorded;
  const std::vector<double> parts = read_doubles(got);
  const std::size_t step = is_complex(got.dtype()) ? 2 : 1;
  for (std::size_t i = 0; i < parts.size(); i += step) {
    ours.push_back(step == 2 ? std::hypot(parts[i], parts[i + 1]) : std::fabs(parts[i]));
  }
  for (const std::complex<double>& value : expected.values) recorded.push_back(std::abs(value));
  std::ranges::sort(ours);
  std::ranges::sort(recorded);
  const Tolerance tolerance = tolerance_of(got.dtype());
  return std::ranges::equal(ours, recorded, [&](double a, double b) {
    return std::fabs(a - b) <= 10 * (tolerance.absolute + tolerance.relative * b);
  });
}

}  // namespace shardlab
