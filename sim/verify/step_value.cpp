// Pieces are moved to their place by index runs; pending terms are added in f64 by assemble().
#include "sim/verify/step_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "autograd/autograd.h"
#include "base/rank_context.h"
#include "base/text.h"
#include "dispatch/plain_calls.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "redistribute/redistribute.h"
#include "sim/verify/global_value.h"
#include "sim/verify/step_compare.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

// Both are row-major on the host.
void copy_stretches(const Tensor& whole, const Tensor& piece, const LocalView& view) {
  const auto item = static_cast<std::size_t>(item_bytes(whole.dtype()));
  auto* to = static_cast<std::byte*>(whole.storage()->buffer()->data());
  const std::byte* from = first_byte(piece);
  for_each_stretch(view, [&](std::size_t local, std::size_t global, std::size_t count) {
    if (count > 0) std::memcpy(to + global * item, from + local * item, count * item);
  });
}

void copy_runs(const Tensor& whole, const Tensor& piece, const LocalView& view, std::size_t dim) {
  if (dim == view.dims.size()) {
    current_rank().device->copy(whole, piece);
    return;
  }
  std::int64_t at = 0;
  for (const IndexRun& run : view.dims[dim].runs) {
    copy_runs(whole.narrow(dim, run.offset, run.size), piece.narrow(dim, at, run.size), view,
              dim + 1);
    at += run.size;
  }
}

std::string different(std::int64_t a, std::int64_t b) {
  return fmt::format("ranks {} and {} hold different replicas", a, b);
}

// The reason why a tensor cannot be this coordinate's piece of the value; empty when it can.
std::string wrong_piece(const DTensorSpec& spec, const Coordinate& coordinate,
                        const Tensor& piece) {
  const Dims expected = local_shape(spec, coordinate);
  if (piece.shape() == expected && piece.dtype() == spec.dtype()) return {};
  return fmt::format("rank {} holds {}, but its piece is {}[{}]",
                     spec.layout()->rank_at(coordinate), type_string(piece.meta()),
                     to_string(spec.dtype()), text_of_list(expected, ", "));
}

// Gives each piece that is no replica to `take`, with its coordinate. The fault of the first piece
// that does not fit, or is another replica; empty: none.
std::string each_piece(const DTensorSpec& spec, const std::vector<DTensor>& pieces,
                       const auto& take) {
  const MeshLayout& layout = *spec.layout();
  for (std::int64_t index = 0; index < layout.size(); ++index) {
    const Coordinate coordinate = layout.coordinate_at_index(index);
    const Tensor& piece = pieces[static_cast<std::size_t>(index)].local();
    if (std::string fault = wrong_piece(spec, coordinate, piece); !fault.empty()) return fault;
    const Coordinate first = representative(spec, coordinate);
    if (first == coordinate) {
      take(piece, coordinate);
      continue;
    }
    const Tensor& other = pieces[static_cast<std::size_t>(layout.index_of(first))].local();
    if (!same_bits(piece, other))
      return different(layout.rank_at(first), layout.rank_at(coordinate));
  }
  return {};
}

WholeValue plain_value(const std::vector<DTensor>& pieces, const std::vector<std::int64_t>& ranks) {
  WholeValue value;
  const Tensor& first = pieces.front().local();
  for (std::size_t i = 1; i < pieces.size(); ++i) {
    const Tensor& other = pieces[i].local();
    const bool alike = other.shape() == first.shape() && other.dtype() == first.dtype();
    if (!alike || !same_bits(first, other)) {
      value.fault = different(ranks[0], ranks[i]);
      return value;
    }
  }
  value.own = contiguous(first);
  return value;
}

WholeValue moved_together(const DTensorSpec& spec, const std::vector<DTensor>& pieces) {
  WholeValue value;
  if (!spec.is_replicated()) value.own = empty(*current_rank().device, spec.shape(), spec.dtype());
  value.fault = each_piece(spec, pieces, [&](const Tensor& piece, const Coordinate& coordinate) {
    if (spec.is_replicated()) {
      value.own = contiguous(piece);
    } else if (on_host(value.own) && on_host(piece) && piece.contiguous()) {
      copy_stretches(value.own, piece, local_view(spec, coordinate));
    } else if (piece.numel() > 0) {
      copy_runs(value.own, piece, local_view(spec, coordinate), 0);
    }
  });
  return value;
}

// True if terms are rounded apart from each other: extrema, bits and masked pieces are not.
bool adds_up(const Placement& placement) {
  if (placement.kind == PlacementKind::kNormPartial) return true;
  return placement.is_partial(ReduceOp::kSum) || placement.is_partial(ReduceOp::kAvg) ||
         placement.is_partial(ReduceOp::kProduct);
}

std::int64_t term_count(const DTensorSpec& spec) {
  std::int64_t count = 1;
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    if (adds_up(spec.placement(mesh_dim))) count *= spec.layout()->size(mesh_dim);
  }
  return count;
}

bool multiplies(const DTensorSpec& spec) {
  return std::ranges::any_of(spec.placements(), [](const Placement& placement) {
    return placement.is_partial(ReduceOp::kProduct);
  });
}

// The size of each complex number, as a real one.
void replace_by_sizes(std::vector<double>& parts) {
  for (std::size_t i = 0; i + 1 < parts.size(); i += 2) {
    parts[i] = std::hypot(parts[i], parts[i + 1]);
    parts[i + 1] = 0;
  }
}

// Both parts of a product of complex numbers are at most as large as the product of their sizes.
std::vector<double> absolute_sums(const DTensorSpec& spec, const std::vector<DTensor>& pieces) {
  const bool sizes = is_complex(spec.dtype()) && multiplies(spec);
  std::vector<DTensor> absolute;
  for (const DTensor& piece : pieces) {
    Tensor local = piece.local();
    if (is_complex(spec.dtype())) {
      std::vector<double> numbers = read_doubles(local);
      for (double& number : numbers) number = std::fabs(number);
      if (sizes) replace_by_sizes(numbers);
      local = empty(*current_rank().device, local.shape(), local.dtype());
      write_doubles(local, numbers);
    } else {
      local = plain_calls().one("aten::abs", {DTensor(local)}).local();
    }
    DTensor copy(local, piece.spec());
    copy.impl()->extras = piece.impl()->extras;
    absolute.push_back(copy);
  }
  std::vector<AssemblyFault> faults;
  std::vector<double> sums = assemble(spec, absolute, faults).reals;
  for (std::size_t i = 0; sizes && i + 1 < sums.size(); i += 2) sums[i + 1] = sums[i];
  return sums;
}

// Terms that are added: most pending values.
bool only_adds(const DTensorSpec& spec) {
  if (is_integral(spec.dtype())) return false;
  return std::ranges::all_of(spec.placements(), [](const Placement& placement) {
    return !placement.is_partial() || placement.is_partial(ReduceOp::kSum) ||
           placement.is_partial(ReduceOp::kAvg);
  });
}

// Adds terms and their absolute values in one pass over each; the rest of pieces are replicas.
WholeValue added(const DTensorSpec& spec, const std::vector<DTensor>& pieces) {
  const std::size_t width = number_width(spec.dtype());
  const auto count = static_cast<std::size_t>(spec.numel()) * width;
  std::vector<double> sum(count, -0.0);  // a sum of -0 alone is -0
  WholeValue value;
  value.terms.assign(count, 0);
  double scale = 1;
  for (std::size_t mesh_dim = 0; mesh_dim < spec.placements().size(); ++mesh_dim) {
    const bool average = spec.placement(mesh_dim).is_partial(ReduceOp::kAvg);
    if (average) scale /= static_cast<double>(spec.layout()->size(mesh_dim));
  }
  value.fault = each_piece(spec, pieces, [&](const Tensor& piece, const Coordinate& coordinate) {
    const std::vector<double> term = read_doubles(piece);
    for_each_stretch(local_view(spec, coordinate),
                     [&](std::size_t from, std::size_t to, std::size_t elements) {
                       for (std::size_t i = 0; i < elements * width; ++i) {
                         sum[to * width + i] += scale * term[from * width + i];
                         value.terms[to * width + i] += scale * std::fabs(term[from * width + i]);
                       }
                     });
  });
  if (!value.fault.empty()) return value;
  value.sum = empty(*current_rank().device, spec.shape(), wide_dtype(spec.dtype()));
  write_doubles(value.sum, sum);
  value.own = converted(value.sum, spec.dtype());
  value.count = term_count(spec);
  value.divisor = 1 / scale;
  if (value.count == 1) value.terms.clear();
  return value;
}

WholeValue reduced(const DTensorSpec& spec, const std::vector<DTensor>& pieces) {
  if (only_adds(spec)) return added(spec, pieces);
  WholeValue value;
  std::vector<AssemblyFault> faults;
  const GlobalValue sum = assemble(spec, pieces, faults);
  if (!faults.empty()) {
    value.fault = faults.front().what;
    return value;
  }
  Device& device = *current_rank().device;
  if (sum.is_integral()) {
    value.own = empty(device, spec.shape(), spec.dtype());
    write_integers(value.own, sum.integers);  // wraps as the dtype does
    return value;
  }
  value.sum = empty(device, spec.shape(), wide_dtype(spec.dtype()));
  write_doubles(value.sum, sum.reals);
  value.own = converted(value.sum, spec.dtype());
  value.count = term_count(spec);
  if (value.count > 1) value.terms = absolute_sums(spec, pieces);
  return value;
}

}  // namespace

DType wide_dtype(DType dtype) {
  if (is_complex(dtype)) return DType::kC128;
  return is_floating(dtype) ? DType::kF64 : dtype;
}

std::size_t number_width(DType dtype) { return is_complex(dtype) ? 2 : 1; }

Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor result = empty(*current_rank().device, x.shape(), dtype);
  write_doubles(result, read_doubles(x));
  return result;
}

WholeValue whole_value_of(const std::vector<DTensor>& pieces,
                          const std::vector<std::int64_t>& ranks) {
  const DTensorSpec* spec = pieces.front().spec();
  if (spec == nullptr) return plain_value(pieces, ranks);
  return spec->has_partial() ? reduced(*spec, pieces) : moved_together(*spec, pieces);
}

Tensor WholeValue::wide() const {
  return sum.defined() ? sum : converted(own, wide_dtype(own.dtype()));
}

}  // namespace shardlab
