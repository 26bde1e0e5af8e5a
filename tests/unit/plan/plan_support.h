// plan_support.h - specs from short texts for the tests of planning.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "mesh/spec.h"
#include "plan/plan.h"

namespace shardlab::test {

/// Mesh dims that cut a tensor dim, first cut first; tensor dims left out have the default order.
using OrderByDim = std::map<std::int64_t, std::vector<std::size_t>>;

/// "S(0)", "R", "P(sum)" separated by blanks; "P" is P(sum).
inline Placements placements(std::string_view text) {
  Placements result;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    result.push_back(parse_placement(word == "P" ? "P(sum)" : word).value());
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

/// An arena with one mesh and one global shape.
class SpecMaker {
 public:
  SpecMaker(Dims mesh, Dims shape, DType dtype = DType::kF32)
      : layout_(arena_.layout({std::move(mesh), {}, {}})), meta_(contiguous_meta(shape, dtype)) {}

  const DTensorSpec* operator()(std::string_view text) {
    return arena_.spec(layout_, placements(text), meta_);
  }
  const DTensorSpec* operator()(std::string_view text, const OrderByDim& by_dim) {
    const Placements parsed = placements(text);
    ShardOrder order = default_order(parsed);
    for (const auto& [tensor_dim, cuts] : by_dim) {
      for (std::size_t place = 0; place < cuts.size(); ++place) {
        order[cuts[place]] = static_cast<std::int32_t>(place);
      }
    }
    return arena_.spec(layout_, parsed, order, meta_);
  }
  const MeshLayout& layout() const { return *layout_; }

 private:
  Arena arena_;
  const MeshLayout* layout_;
  TensorMeta meta_;
};

/// "m1: S(0)->R [4,8]; m0: S(0)->R [8,8]" as one coordinate sees the plan.
inline std::string step_text(const Plan& plan, const Coordinate& coordinate) {
  std::string text;
  for (std::size_t index = 0; index < plan.steps.size(); ++index) {
    const PlanStep& step = plan.steps[index];
    const Dims shape = logical_shape(plan, index, coordinate);
    text += fmt::format("{}m{}: {}->{} [", index ? "; " : "", step.mesh_dims[0],
                        to_string(step.from), to_string(step.to));
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      text += fmt::format("{}{}", dim ? "," : "", shape[dim]);
    }
    text += "]";
  }
  return text;
}

}  // namespace shardlab::test
