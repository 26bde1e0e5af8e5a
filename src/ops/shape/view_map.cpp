// A reshape is cut into the smallest groups of dims with equal element counts; within a group the
// row-major order of elements is the same on both sides, so that each dim of the result is made of
// the dims of its group and of no other. Sizes of 1 take part in no group, since they may be put or
// dropped anywhere.
#include "ops/shape/view_map.h"

#include <algorithm>

namespace shardlab {
namespace {

/// One group of a reshape: input dims `from` against output sizes `to`.
struct Group {
  Dims from;
  Dims to;
};

/// Walks both shapes and cuts them into groups of equal element counts.
class Grouping {
 public:
  Grouping(std::span<const std::int64_t> from, std::span<const std::int64_t> to)
      : from_(from), to_(to) {}

  bool done() const { return next_from_ == from_.size() && next_to_ == to_.size(); }

  Group next() {
    Group group;
    const bool has_from = next_from_ < from_.size(), has_to = next_to_ < to_.size();
    const std::int64_t from_size = has_from ? from_[next_from_] : 1;
    const std::int64_t to_size = has_to ? to_[next_to_] : 1;
    if (has_from && (!has_to || (from_size == 1 && to_size != 1))) {
      group.from.push_back(static_cast<std::int64_t>(next_from_++));
      return group;
    }
    if (has_to && (!has_from || (to_size == 1 && from_size != 1))) {
      group.to.push_back(to_[next_to_++]);
      return group;
    }
    grow(group);
    return group;
  }

 private:
  void grow(Group& group) {
    std::int64_t left = take_from(group), right = take_to(group);
    while (left != right) {
      const bool more_from = next_from_ < from_.size(), more_to = next_to_ < to_.size();
      if (more_from && (!more_to || right > left || (left != 0 && right % left == 0))) {
        left *= take_from(group);
      } else if (more_to) {
        right *= take_to(group);
      } else {
        break;
      }
    }
  }
  std::int64_t take_from(Group& group) {
    group.from.push_back(static_cast<std::int64_t>(next_from_));
    return from_[next_from_++];
  }
  std::int64_t take_to(Group& group) {
    group.to.push_back(to_[next_to_]);
    return to_[next_to_++];
  }

  std::span<const std::int64_t> from_, to_;
  std::size_t next_from_ = 0, next_to_ = 0;
};

/// Part `part` of `inputs` cut into `group`; groups of one and parts of size 1 need no cut.
DimSource make_split(const Dims& inputs, const Dims& group, std::size_t part) {
  if (inputs.empty()) return DimSource::fresh();
  if (group.size() == 1) {
    if (inputs.size() == 1) return DimSource::input(inputs[0]);
    return {DimSource::Kind::kFlatten, inputs, {}, 0};
  }
  if (group[part] == 1) return DimSource::fresh();
  DimSource source{DimSource::Kind::kSplit, inputs, {}, 0};
  for (std::size_t i = 0; i < group.size(); ++i) {
    if (group[i] == 1) continue;
    if (i == part) source.part = source.group.size();
    source.group.push_back(group[i]);
  }
  return source;
}

}  // namespace

ViewMap map_reshape(std::span<const std::int64_t> from, std::span<const std::int64_t> to) {
  ViewMap map;
  Grouping grouping(from, to);
  while (!grouping.done()) {
    const Group group = grouping.next();
    Dims inputs;
    for (const std::int64_t dim : group.from) {
      if (from[static_cast<std::size_t>(dim)] >= 1) inputs.push_back(dim);
    }
    for (std::size_t part = 0; part < group.to.size(); ++part) {
      map.push_back(make_split(inputs, group.to, part));
    }
  }
  return map;
}

ViewMap map_expand(std::span<const std::int64_t> from, std::span<const std::int64_t> to) {
  ViewMap map(to.size() - from.size(), DimSource::fresh());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t size = to[map.size()];
    DimSource& source = map.emplace_back(DimSource::input(static_cast<std::int64_t>(i)));
    const bool same = size == -1 || size == 1 || size == from[i];
    if (!same) source.kind = DimSource::Kind::kBroadcast;
  }
  return map;
}

ViewMap map_permute(std::span<const std::int64_t> dims) {
  ViewMap map;
  for (const std::int64_t dim : dims) map.push_back(DimSource::input(dim));
  return map;
}

ViewMap map_remove(std::size_t ndim, std::span<const std::int64_t> removed) {
  ViewMap map;
  for (std::int64_t dim = 0; dim < static_cast<std::int64_t>(ndim); ++dim) {
    if (std::ranges::find(removed, dim) == removed.end()) map.push_back(DimSource::input(dim));
  }
  return map;
}

ViewMap map_unsqueeze(std::size_t ndim, std::int64_t position) {
  ViewMap map = map_remove(ndim, {});
  map.insert(map.begin() + position, DimSource::fresh());
  return map;
}

ViewMap map_repeat(std::size_t ndim, std::span<const std::int64_t> repeats) {
  ViewMap map(repeats.size() - ndim, DimSource::fresh());
  for (std::size_t i = 0; i < ndim; ++i) {
    const std::int64_t times = repeats[map.size()];
    DimSource& source = map.emplace_back(DimSource::input(static_cast<std::int64_t>(i)));
    if (times != 1) source.kind = DimSource::Kind::kRepeat;
  }
  return map;
}

ViewMap map_view_as_real(std::span<const std::int64_t> shape) {
  if (shape.empty()) return {DimSource::fresh()};
  ViewMap map = map_remove(shape.size() - 1, {});
  const auto last = static_cast<std::int64_t>(shape.size() - 1);
  for (std::size_t part = 0; part < 2; ++part) {
    map.push_back({DimSource::Kind::kSplit, {last}, {shape.back(), 2}, part});
  }
  return map;
}

}  // namespace shardlab
