// A bound goes from a result to the first operand of its call, so that an index may be reshaped or
// moved before it is used.
#include "sim/recording/exported_bounds.h"

#include <algorithm>
#include <unordered_map>

#include "schema/op_row.h"

namespace shardlab {

namespace {

// The numbers that a call's indices are below: the size of a dim of what they point into.
struct IndexRow {
  std::string_view op, index, of;
  int dim;  // kByArgument: the one that the call names
};
constexpr int kByArgument = -1;
constexpr IndexRow kIndexRows[] = {
    {"embedding", "indices", "weight", 0},
    {"cross_entropy_loss", "target", "self", 1},
    {"nll_loss", "target", "self", 1},
    {"nll_loss_nd", "target", "self", 1},
    {"nll_loss2d", "target", "self", 1},
    {"gather", "index", "self", kByArgument},
    {"index_select", "index", "self", kByArgument},
};

class Bounds {
 public:
  explicit Bounds(const RecordedProgram& program) {
    for (const RecordedEvent& event : program.events) {
      for (const EventValue& one : event.out) {
        if (one.id.id >= 0) shapes_[one.id.id] = &one.type.shape;
      }
    }
    for (std::size_t i = program.events.size(); i-- > 0;) {
      const RecordedEvent& event = program.events[i];
      if (event.row == nullptr) continue;
      const auto* row = std::ranges::find(kIndexRows, bare_op(event.op), &IndexRow::op);
      if (row != std::end(kIndexRows)) bound_index(event, *row);
      for (const EventValue& out : event.out) {
        const auto bound = bounds_.find(out.id.id);
        if (bound != bounds_.end() && !event.args.empty()) bound_by(event.args[0], bound->second);
      }
    }
  }

  std::int64_t of(std::int32_t value) const {
    constexpr std::int64_t kFlags = 2;
    const auto bound = bounds_.find(value);
    return bound == bounds_.end() ? kFlags : bound->second;
  }

 private:
  static const GraphArgument* named(const RecordedEvent& event, std::string_view name) {
    const auto at = event.row->op.find_argument(name);
    return at && *at < event.args.size() ? &event.args[*at] : nullptr;
  }

  static std::int32_t value_of(const GraphArgument* argument) {
    const auto* value = argument == nullptr ? nullptr : std::get_if<ValueRef>(&argument->value);
    return value == nullptr ? -1 : value->id;
  }

  void bound_index(const RecordedEvent& event, const IndexRow& row) {
    const auto shape = shapes_.find(value_of(named(event, row.of)));
    const GraphArgument* index = named(event, row.index);
    if (shape == shapes_.end() || index == nullptr) return;
    const Dims& sizes = *shape->second;
    std::int64_t dim = row.dim;
    if (dim == kByArgument) {
      const GraphArgument* given = named(event, "dim");
      const auto* number = given == nullptr ? nullptr : std::get_if<Scalar>(&given->value);
      dim = number == nullptr ? 0 : number->to_int();
      if (dim < 0) dim += std::ssize(sizes);
    }
    dim = std::min(dim, std::ssize(sizes) - 1);
    if (dim >= 0) bound_by(*index, sizes[static_cast<std::size_t>(dim)]);
  }

  void bound_by(const GraphArgument& argument, std::int64_t bound) {
    const std::int32_t value = value_of(&argument);
    if (value < 0 || bound < 1) return;
    const auto [known, fresh] = bounds_.emplace(value, bound);
    if (!fresh) known->second = std::min(known->second, bound);
  }

  std::unordered_map<std::int32_t, const Dims*> shapes_;
  std::unordered_map<std::int32_t, std::int64_t> bounds_;
};

}  // namespace

void bound_indices(RecordedProgram& program) {
  const Bounds bounds(program);
  for (RecordedEvent& event : program.events) {
    if (event.kind != RecordedKind::kInput || !is_integral(event.out[0].type.dtype)) continue;
    for (RecordedElements& elements : event.out[0].elements) {
      const bool formula = elements.stored == RecordedElements::Stored::kFormula;
      if (formula) elements.below = bounds.of(event.out[0].id.id);
    }
  }
}

}  // namespace shardlab
