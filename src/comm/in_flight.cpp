// Two tensors share memory where the spans of their elements meet: this also counts columns side by
// side, which share no element.
#include "comm/in_flight.h"

#include "base/error.h"
#include "base/rank_context.h"

namespace shardlab {

namespace {

// From the first element to behind the last one, in elements of the Storage.
std::pair<std::int64_t, std::int64_t> span_of(const Tensor& x) {
  std::int64_t last = x.offset();
  for (std::size_t dim = 0; dim < x.shape().size(); ++dim) {
    if (x.size(dim) == 0) return {0, 0};
    last += (x.size(dim) - 1) * x.stride()[dim];
  }
  return {x.offset(), last + 1};
}

// Both tensors belong to one Storage.
bool overlap(const Tensor& a, const Tensor& b) {
  const auto [a_first, a_end] = span_of(a);
  const auto [b_first, b_end] = span_of(b);
  return a_first < b_end && b_first < a_end;
}

}  // namespace

InFlight::Entries::iterator InFlight::add(Entry entry) {
  const Storage* storage = entry.memory.storage().get();
  return entries_.emplace(storage, std::move(entry));
}

void InFlight::check(const Tensor& x, Access access) const {
  const auto [first, end] = entries_.equal_range(x.storage().get());
  for (auto place = first; place != end; ++place) {
    const Entry& entry = place->second;
    if (entry.use == Use::kSent && access == Access::kRead) continue;
    if (!overlap(entry.memory, x)) continue;
    fail(ErrorKind::kRuntime,
         Fix{fmt::format("call wait() on what the {} of {} gave, before this line",
                         to_string(entry.kind), place_text(entry.position))},
         "a tensor is {} while the {} on group {} of {} {} it",
         access == Access::kRead ? "read" : "written", to_string(entry.kind), entry.group,
         place_text(entry.position), entry.use == Use::kFilled ? "is filling" : "is sending from");
  }
}

}  // namespace shardlab
