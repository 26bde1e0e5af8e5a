// The definition of placements, read backwards: each piece is put at the place of its LocalView,
// replicas must be equal bit for bit, and pending terms are combined in f64 (integers modulo 2^64,
// cut to their width at the end). This file must not use the code that it is there to judge.
#include "sim/verify/global_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <optional>

#include "base/text.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "redistribute/redistribute.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

std::size_t numbers_per_element(DType dtype) { return is_complex(dtype) ? 2 : 1; }

// The first element, row-major, whose bytes differ. Tensors over the same memory need no reading.
std::optional<std::size_t> first_difference(const Tensor& a, const Tensor& b) {
  if (a.storage()->buffer() == b.storage()->buffer() && a.offset() == b.offset() &&
      a.stride() == b.stride()) {
    return std::nullopt;
  }
  std::vector<std::byte> copies[2];
  const std::span bytes_a = bytes_of(a, copies[0]), bytes_b = bytes_of(b, copies[1]);
  if (bytes_a.empty() || std::memcmp(bytes_a.data(), bytes_b.data(), bytes_a.size()) == 0) {
    return std::nullopt;
  }
  const auto at = std::mismatch(bytes_a.begin(), bytes_a.end(), bytes_b.begin()).first;
  return static_cast<std::size_t>(at - bytes_a.begin()) /
         static_cast<std::size_t>(item_bytes(a.dtype()));
}

std::string number_text(const Tensor& tensor, std::size_t element) {
  const GlobalValue value = whole_value(tensor);
  if (value.is_integral()) return fmt::format("{}", value.integers[element]);
  return fmt::format("{:.9g}", value.reals[element * numbers_per_element(tensor.dtype())]);
}

// The combination of the terms of one spec's partial mesh dims; there is one kind (sum with avg
// counts as one).
class Reduction {
 public:
  explicit Reduction(const DTensorSpec& spec) {
    for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
      const Placement& placement = spec.placement(mesh_dim);
      if (!placement.is_partial()) continue;
      any_ = true;
      placement_ = placement;
      if (placement.is_partial(ReduceOp::kAvg))
        scale_ /= static_cast<double>(spec.layout()->size(mesh_dim));
    }
  }

  bool any() const { return any_; }
  bool masked() const { return placement_.kind == PlacementKind::kMaskPartial; }

  // The start for each part of an element; the imaginary part of a complex number's product starts
  // at 0.
  std::vector<double> start(std::size_t elements, std::size_t width) const {
    std::vector<double> sums(elements * width, start());
    if (!multiplies() || width == 1) return sums;
    for (std::size_t i = 1; i < sums.size(); i += width) sums[i] = 0;
    return sums;
  }
  double start() const {
    if (placement_.kind == PlacementKind::kNormPartial) {
      return std::isinf(placement_.norm) && placement_.norm < 0 ? INFINITY : 0;
    }
    if (placement_.op == ReduceOp::kMax) return -INFINITY;
    if (placement_.op == ReduceOp::kMin) return INFINITY;
    return placement_.op == ReduceOp::kProduct ? 1 : -0.0;  // a sum of -0 alone is -0
  }
  /// Also means: their terms are divided in the end.
  bool sums() const {
    return placement_.is_partial(ReduceOp::kSum) || placement_.is_partial(ReduceOp::kAvg);
  }
  // Parts add up each by itself; a product of complex numbers uses both parts of both.
  void add_element(double* sum, const double* term, std::size_t width) const {
    if (width == 2 && multiplies()) {
      const std::complex<double> whole =
          std::complex<double>(sum[0], sum[1]) * std::complex<double>(term[0], term[1]);
      sum[0] = whole.real();
      sum[1] = whole.imag();
      return;
    }
    for (std::size_t part = 0; part < width; ++part) sum[part] = add(sum[part], term[part]);
  }
  double add(double sum, double term) const {
    if (placement_.kind == PlacementKind::kNormPartial) return add_norm(sum, term);
    if (placement_.op == ReduceOp::kMax) return std::isnan(sum) || sum > term ? sum : term;
    if (placement_.op == ReduceOp::kMin) return std::isnan(sum) || sum < term ? sum : term;
    return placement_.op == ReduceOp::kProduct ? sum * term : sum + term;
  }
  double finish(double sum) const {
    if (placement_.kind != PlacementKind::kNormPartial) return sum * scale_;
    if (std::isinf(placement_.norm) || placement_.norm == 0) return sum;
    return std::pow(sum, 1 / placement_.norm);
  }

  std::int64_t integer_start() const {
    using Limits = std::numeric_limits<std::int64_t>;
    if (placement_.op == ReduceOp::kMax) return Limits::min();
    if (placement_.op == ReduceOp::kMin) return Limits::max();
    if (placement_.op == ReduceOp::kBitAnd) return -1;
    return placement_.op == ReduceOp::kProduct ? 1 : 0;
  }
  /// Sums that are too large for the dtype wrap in the end, in finish_integer().
  std::int64_t add_integer(std::int64_t sum, std::int64_t term) const {
    const auto bits = static_cast<std::uint64_t>(sum), other = static_cast<std::uint64_t>(term);
    using enum ReduceOp;
    const ReduceOp op = placement_.op;
    if (op == kMax) return std::max(sum, term);
    if (op == kMin) return std::min(sum, term);
    if (op == kBitAnd) return sum & term;
    if (op == kBitOr) return sum | term;
    if (op == kBitXor) return sum ^ term;
    return static_cast<std::int64_t>(op == kProduct ? bits * other : bits + other);
  }
  static std::int64_t finish_integer(std::int64_t sum, DType dtype) {
    if (dtype == DType::kBool) return sum != 0 ? 1 : 0;
    if (dtype == DType::kU8) return static_cast<std::uint8_t>(sum);
    if (dtype == DType::kI8) return static_cast<std::int8_t>(sum);
    if (dtype == DType::kI16) return static_cast<std::int16_t>(sum);
    return dtype == DType::kI32 ? static_cast<std::int32_t>(sum) : sum;
  }

 private:
  bool multiplies() const { return placement_.is_partial(ReduceOp::kProduct); }
  double add_norm(double sum, double term) const {
    if (std::isinf(placement_.norm)) {
      return placement_.norm > 0 ? std::max(sum, std::fabs(term)) : std::min(sum, std::fabs(term));
    }
    return sum + (placement_.norm == 0 ? term : std::pow(std::fabs(term), placement_.norm));
  }

  Placement placement_;
  double scale_ = 1;
  bool any_ = false;
};

// Mask elements broadcast over the trailing dims of the piece.
std::vector<std::int64_t> mask_of(const DTensor& piece) {
  if (!piece.impl()->extras || !piece.impl()->extras->mask.defined()) return {};
  return read_integers(piece.impl()->extras->mask);
}

void add_piece(const DTensorSpec& spec, const Coordinate& coordinate, const DTensor& piece,
               const Reduction& reduction, GlobalValue& value) {
  const LocalView view = local_view(spec, coordinate);
  const std::vector<std::int64_t> mask =
      reduction.masked() ? mask_of(piece) : std::vector<std::int64_t>();
  const std::size_t per_mask =
      mask.empty() ? 1 : static_cast<std::size_t>(piece.local().numel()) / mask.size();
  const auto counts = [&](std::size_t local) {
    return mask.empty() || mask[local / per_mask] == 0;
  };
  if (value.is_integral()) {
    const std::vector<std::int64_t> local = read_integers(piece.local());
    for_each_element(view, [&](std::size_t from, std::size_t to) {
      if (!counts(from)) return;
      std::int64_t& slot = value.integers[to];
      slot = reduction.any() ? reduction.add_integer(slot, local[from]) : local[from];
    });
    return;
  }
  const std::size_t width = numbers_per_element(spec.dtype());
  const std::size_t numbers = static_cast<std::size_t>(spec.numel()) * width;
  with_numbers(piece.local(), [&](auto local) {
    if (!reduction.any() && local.size() == numbers) {
      value.reals.assign(local.begin(), local.end());
    } else if (!reduction.any() || reduction.sums()) {
      value.reals.resize(numbers);
      for_each_stretch(view, [&](std::size_t from, std::size_t to, std::size_t count) {
        const auto* terms = &local[from * width];
        double* sums = &value.reals[to * width];
        if (reduction.any()) {
          for (std::size_t i = 0; i < count * width; ++i) sums[i] += terms[i];
        } else {
          std::copy_n(terms, count * width, sums);
        }
      });
    } else {
      for_each_element(view, [&](std::size_t from, std::size_t to) {
        const double term[] = {local[from * width], local[from * width + width - 1]};
        if (counts(from)) reduction.add_element(&value.reals[to * width], term, width);
      });
    }
  });
}

// "ranks 0 and 4 hold different replicas: 1.5 and 2 at [0, 3]"; empty when they hold the same.
std::string replicas_differ(const DTensorSpec& spec, const Coordinate& first, const Tensor& a,
                            const Coordinate& second, const Tensor& b) {
  const auto element = first_difference(a, b);
  if (!element) return {};
  std::size_t global = 0;
  for_each_element(local_view(spec, second), [&](std::size_t local, std::size_t whole) {
    if (local == *element) global = whole;
  });
  Dims index(spec.ndim());
  for (std::size_t dim = spec.ndim(); dim-- > 0;) {
    const auto size = static_cast<std::size_t>(spec.shape()[dim]);
    index[dim] = static_cast<std::int64_t>(global % size);
    global /= size;
  }
  const MeshLayout& layout = *spec.layout();
  return fmt::format("ranks {} and {} hold different replicas: {} and {} at [{}]",
                     layout.rank_at(first), layout.rank_at(second), number_text(a, *element),
                     number_text(b, *element), text_of_list(index, ", "));
}

}  // namespace

Coordinate representative(const DTensorSpec& spec, Coordinate coordinate) {
  for (std::size_t mesh_dim = 0; mesh_dim < coordinate.size(); ++mesh_dim) {
    if (spec.placement(mesh_dim).is_replicate()) coordinate[mesh_dim] = 0;
  }
  return coordinate;
}

std::vector<std::int64_t> pieces_to_read(const DTensorSpec& spec,
                                         const std::vector<DTensor>& pieces,
                                         std::vector<AssemblyFault>& faults) {
  const MeshLayout& layout = *spec.layout();
  std::vector<std::int64_t> to_read;
  for (std::int64_t index = 0; index < layout.size(); ++index) {
    const Coordinate coordinate = layout.coordinate_at_index(index);
    const DTensor& piece = pieces[static_cast<std::size_t>(index)];
    const Dims expected = local_shape(spec, coordinate);
    if (piece.local().shape() != expected) {
      faults.push_back(
          {fmt::format("rank {} holds {}, but its piece has shape [{}]", layout.rank_at(coordinate),
                       type_string(piece.local().meta()), text_of_list(expected, ", "))});
      continue;
    }
    const Coordinate first = representative(spec, coordinate);
    if (first == coordinate) {
      to_read.push_back(index);
      continue;
    }
    const Tensor& other = pieces[static_cast<std::size_t>(layout.index_of(first))].local();
    std::string fault = replicas_differ(spec, first, other, coordinate, piece.local());
    if (!fault.empty()) faults.push_back({std::move(fault)});
  }
  return to_read;
}

std::vector<DTensor> pieces_of(const MeshLayout& layout, const std::vector<DTensor>& by_rank) {
  std::vector<DTensor> pieces;
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    pieces.push_back(by_rank.at(static_cast<std::size_t>(layout.rank_at_index(i))));
  }
  return pieces;
}

GlobalValue assemble(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                     std::vector<AssemblyFault>& faults) {
  const Reduction reduction(spec);
  GlobalValue value;
  value.meta = contiguous_meta(spec.shape(), spec.dtype());
  const auto elements = static_cast<std::size_t>(spec.numel());
  const std::size_t width = numbers_per_element(spec.dtype());
  if (value.is_integral()) {
    value.integers.assign(elements, reduction.any() ? reduction.integer_start() : 0);
  } else if (reduction.any()) {
    value.reals = reduction.start(elements, width);
  }
  for (const std::int64_t index : pieces_to_read(spec, pieces, faults)) {
    const DTensor& piece = pieces[static_cast<std::size_t>(index)];
    add_piece(spec, spec.layout()->coordinate_at_index(index), piece, reduction, value);
  }
  if (!value.is_integral()) value.reals.resize(elements * width);  // without a piece, zeros
  if (reduction.any()) {
    for (double& number : value.reals) number = reduction.finish(number);
    for (std::int64_t& number : value.integers) {
      number = Reduction::finish_integer(number, spec.dtype());
    }
  }
  return value;
}

GlobalValue whole_value(const Tensor& tensor) {
  GlobalValue value;
  value.meta = contiguous_meta(tensor.shape(), tensor.dtype());
  if (value.is_integral()) {
    value.integers = read_integers(tensor);
  } else {
    value.reals = read_doubles(tensor);
  }
  return value;
}

}  // namespace shardlab
