// Two tensors share memory where the spans of their elements meet: this also counts columns side by
// side, which share no element.
#include "comm/in_flight.h"

#include <algorithm>

#include "base/fix.h"
#include "base/place_text.h"

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

bool share_memory(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage()) return false;
  const auto [a_first, a_end] = span_of(a);
  const auto [b_first, b_end] = span_of(b);
  return a_first < b_end && b_first < a_end;
}

}  // namespace

void InFlight::remove(const void* owner) {
  std::erase_if(entries_, [owner](const Entry& entry) { return entry.owner == owner; });
}

void InFlight::check(const Tensor& x, Access access) const {
  for (const Entry& entry : entries_) {
    if (entry.use == Use::kSent && access == Access::kRead) continue;
    if (!share_memory(entry.memory, x)) continue;
    fail(ErrorKind::kRuntime,
         Fix{fmt::format("call wait() on what the {} of {} gave, before this line",
                         to_string(entry.kind), place_text(entry.position))},
         "a tensor is {} while the {} on group {} of {} {} it",
         access == Access::kRead ? "read" : "written", to_string(entry.kind), entry.group,
         place_text(entry.position), entry.use == Use::kFilled ? "is filling" : "is sending from");
  }
}

}  // namespace shardlab
