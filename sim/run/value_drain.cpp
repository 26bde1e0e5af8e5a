// A Storage goes on counting, and its Buffer becomes one of the same size without memory.
#include "sim/run/value_drain.h"

#include <algorithm>
#include <map>

#include "tensor/device.h"

namespace shardlab {

void let_go(const Tensor& tensor) {
  const BufferRef& buffer = tensor.storage()->buffer();
  if (buffer->data() == nullptr) return;
  tensor.storage()->complete(
      BufferRef(new Buffer(buffer->device(), nullptr, buffer->size_bytes())));
}

// The bytes of a tensor without later writes are still at the same place.
bool same_elements(const Tensor& before, const Tensor& now) {
  if (before.meta() != now.meta()) return false;
  const bool untouched = before.storage()->buffer() == now.storage()->buffer();
  if (untouched && before.offset() == now.offset()) return true;
  if (now.device()->shape_only()) return true;
  const bool gone = before.storage()->buffer()->data() == nullptr;
  if (gone || now.storage()->buffer()->data() == nullptr) return true;
  std::vector<std::byte> was(static_cast<std::size_t>(before.size_bytes())), is(was.size());
  before.device()->read(before, was.data());
  now.device()->read(now, is.data());
  return was == is;
}

// A gradient may still come to a leaf, and a pending result to its memory.
void UnusedValues::add(HeldValue value) {
  const DTensorImpl& own = *value.own.impl();
  const bool leaf = own.requires_grad && !own.grad_node;
  if (!leaf && !own.grad && !own.local.storage()->pending()) waiting_.push_back(std::move(value));
}

// Each name counts its tensor twice, in the program and here; each tensor counts its Storage once.
// Anything more may still read or write. A value that has been written to is listed at the end.
void UnusedValues::let_go(const ValueDrain& drain) {
  std::map<const Storage*, std::vector<HeldValue>> by_memory;
  for (HeldValue& one : waiting_) {
    by_memory[one.own.local().storage().get()].push_back(std::move(one));
  }
  waiting_.clear();
  for (auto& [storage, values] : by_memory) {
    std::map<const DTensorImpl*, std::int64_t> names;
    for (const HeldValue& one : values) ++names[one.own.impl()];
    const bool alone = storage->use_count() == static_cast<std::int64_t>(names.size()) &&
                       std::ranges::all_of(names, [](const auto& tensor) {
                         return tensor.first->use_count() == 2 * tensor.second;
                       });
    const bool spent = alone && std::ranges::all_of(values, [&](const HeldValue& one) {
                         return drain.is_spent(one.rank, one.index);
                       });
    if (!spent) {
      std::ranges::move(values, std::back_inserter(waiting_));
      continue;
    }
    const bool unchanged = std::ranges::all_of(values, [](const HeldValue& one) {
      return same_elements(one.recorded.local(), one.own.local());
    });
    for (const HeldValue& one : values) {
      if (!unchanged) break;
      shardlab::let_go(one.recorded.local());
      shardlab::let_go(one.own.local());
    }
  }
}

}  // namespace shardlab
