// In a world of one a collective returns its input, so that a sum is known there by its elements,
// for any number of collectives and views between it and the division.
#include "sim/verify/labels/size_of_piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "base/text.h"

namespace shardlab {

namespace {

// A tensor that is summed up: its sizes on one device, and the mesh dims that cut them.
struct SummedUp {
  std::vector<double> sum;  // on one device
  Dims whole;
  Placements placements;
};

// The number of elements of a piece along `tensor_dims` (bits) when only the mesh dims of `cut`
// (bits) cut it; nothing if they do not cut evenly.
std::optional<std::int64_t> elements_of(const SummedUp& summed, const MeshLayout& layout,
                                        std::uint32_t cut, std::uint32_t tensor_dims) {
  std::int64_t count = 1;
  for (std::size_t dim = 0; dim < summed.whole.size(); ++dim) {
    if ((tensor_dims >> dim & 1) == 0) continue;
    std::int64_t length = summed.whole[dim];
    for (std::size_t mesh_dim = 0; mesh_dim < layout.ndim(); ++mesh_dim) {
      if ((cut >> mesh_dim & 1) == 0) continue;
      if (!summed.placements[mesh_dim].is_shard(static_cast<std::int64_t>(dim))) continue;
      if (length % layout.size(mesh_dim) != 0) return std::nullopt;
      length /= layout.size(mesh_dim);
    }
    count *= length;
  }
  return count;
}

// The number that a call divides a tensor by, or 1 / the one that it multiplies it with; nothing of
// other calls.
std::optional<double> divisor_of(const LoggedCall& call) {
  const std::string name = call.name();
  const bool by = name.starts_with("div") || name.starts_with("true_divide");
  if ((!by && !name.starts_with("mul")) || call.operands.size() != 1) return std::nullopt;
  const double number = std::strtod(call.numbers.c_str(), nullptr);
  return by ? number : number == 0 ? 0 : 1 / number;
}

class Search {
 public:
  explicit Search(const MeshLayout& layout) : layout_(layout) {}

  void look(const MatchedCall& call) {
    if (call.whole_operands.empty() || call.whole_results.size() != 1) return;
    if (!divides(call)) keep_sum(call);
  }

  std::optional<SizeOfPiece> found;

 private:
  void keep_sum(const MatchedCall& call) {
    const GlobalValue &operand = *call.whole_operands[0], &result = *call.whole_results[0];
    if (!call.operands[0] || product(result.meta.shape) != 1) return;
    if (product(operand.meta.shape) < 2 || result.is_integral()) return;
    const Placements& placements = call.operands[0]->placements;
    if (std::ranges::none_of(placements, [](const Placement& p) { return p.is_shard(); })) return;
    sums_.push_back({result.reals, operand.meta.shape, placements});
  }

  // The call divides a tensor by a number that all ranks and one device have.
  bool divides(const MatchedCall& call) {
    const std::optional<double> divisor = divisor_of(call.own());
    if (!divisor) return false;
    const double count = *divisor;
    const bool same = std::ranges::all_of(
        call.held, [&](const LoggedCall* own) { return own->numbers == call.own().numbers; });
    const double rounded = std::round(count);
    if (!same || rounded < 2 || std::fabs(count - rounded) > 1e-6 * rounded) return true;
    for (const SummedUp& summed : sums_) {
      if (found || summed.sum != call.whole_operands[0]->reals) continue;
      found = size_of_piece(summed, static_cast<std::int64_t>(rounded), call.own().position.line);
    }
    return true;
  }

  std::optional<SizeOfPiece> size_of_piece(const SummedUp& summed, std::int64_t count,
                                           int line) const {
    const std::uint32_t all = (1U << summed.whole.size()) - 1;
    std::uint32_t cutting = 0;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if (summed.placements[dim].is_shard() && layout_.size(dim) > 1) cutting |= 1U << dim;
    }
    for (std::uint32_t dims = all; dims > 0; --dims) {
      if (dims != all && lengths_in(summed, dims) < 2) continue;  // 2, 4 and 8 mean anything
      if (elements_of(summed, layout_, 0, dims) == count) return std::nullopt;
    }
    for (std::uint32_t dims = all; dims > 0; --dims) {
      if (dims != all && lengths_in(summed, dims) < 2) continue;
      std::vector<std::string> cuts;
      for (std::uint32_t cut = 1; cut <= cutting; ++cut) {
        if ((cut & ~cutting) != 0 || elements_of(summed, layout_, cut, dims) != count) continue;
        cuts.push_back(names_of(cut));
      }
      if (cuts.empty()) continue;
      return SizeOfPiece{
          line, fmt::format("{} in line {} is the size of one rank's piece along {}, {} of the "
                            "whole: one device divides by {}, too, and cannot tell; say in "
                            "[reference] what is meant",
                            count, line, text_of_list(cuts, " or "),
                            *elements_of(summed, layout_, 0, dims), count)};
    }
    return std::nullopt;
  }

  static int lengths_in(const SummedUp& summed, std::uint32_t dims) {
    int lengths = 0;
    for (std::size_t dim = 0; dim < summed.whole.size(); ++dim) {
      lengths += (dims >> dim & 1) != 0 && summed.whole[dim] > 1 ? 1 : 0;
    }
    return lengths;
  }

  std::string names_of(std::uint32_t mesh_dims) const {
    std::vector<std::string> names;
    for (std::size_t dim = 0; dim < layout_.ndim(); ++dim) {
      if ((mesh_dims >> dim & 1) != 0) names.push_back(layout_.names()[dim]);
    }
    return text_of_list(names, " and ");
  }

  const MeshLayout& layout_;
  std::vector<SummedUp> sums_;
};

}  // namespace

std::optional<SizeOfPiece> size_of_piece(const std::vector<MatchedCall>& calls,
                                         const MeshLayout& layout) {
  Search search(layout);
  for (const MatchedCall& call : calls) {
    if (call.own().kind == LoggedCall::Kind::kOp) search.look(call);
    if (search.found) break;
  }
  return search.found;
}

}  // namespace shardlab
