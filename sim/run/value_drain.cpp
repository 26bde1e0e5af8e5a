// A Storage goes on counting, and its Buffer becomes one of the same size without memory. A record
// that goes before its name does leaves a hash, by which the end of the program knows of a change.
#include "sim/run/value_drain.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

constexpr std::uint64_t kWritten = -1;  // a version that no memory has

class GoneBuffer final : public Buffer {
 public:
  GoneBuffer(const Buffer& was, std::uint64_t hash)
      : Buffer(was.device(), nullptr, was.size_bytes()), hash(hash) {}
  const std::uint64_t hash;  // of a value's elements; 0: not known
};

std::uint64_t hash_of(const Tensor& tensor) {
  std::vector<std::byte> copy;
  const std::span bytes = bytes_of(tensor, copy);
  return hash_text(1, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}) | 1;
}

void let_go_as(const Tensor& tensor, std::uint64_t hash) {
  Storage& storage = *tensor.storage();
  if (!is_gone(tensor)) storage.complete(BufferRef(new GoneBuffer(*storage.buffer(), hash)));
}

bool is_written(const HeldValue& value) {
  const Tensor &own = value.own.local(), &recorded = value.recorded.local();
  return own.storage()->version() != value.version ||
         (!is_gone(recorded) && own.storage()->buffer() != recorded.storage()->buffer());
}

}  // namespace

void let_go(const Tensor& tensor) { let_go_as(tensor, 0); }

bool is_gone(const Tensor& tensor) { return tensor.storage()->buffer()->data() == nullptr; }

bool same_elements(const Tensor& before, const Tensor& now) {
  if (before.meta() != now.meta()) return false;
  const BufferRef& was = before.storage()->buffer();
  const bool untouched = was == now.storage()->buffer();
  if (untouched && before.offset() == now.offset()) return true;
  if (now.device()->shape_only() || is_gone(now)) return true;
  if (const auto* gone = dynamic_cast<const GoneBuffer*>(was.get()))
    return gone->hash == 0 || gone->hash == hash_of(now);
  std::vector<std::byte> first, second;
  const std::span a = bytes_of(before, first), b = bytes_of(now, second);
  return a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0;
}

void UnusedValues::add(HeldValue value) {
  const auto [before, added] = waiting_.try_emplace(value.name, value);
  if (added) return;
  replaced_.push_back(before->second.recorded);
  before->second = std::move(value);
}

// A gradient may still come to a leaf, and a pending result to its memory.
void UnusedValues::is_unused(const std::string& name) {
  const auto found = waiting_.find(name);
  if (found == waiting_.end()) return;
  const DTensorImpl& own = *found->second.own.impl();
  const bool leaf = own.requires_grad && !own.grad_node;
  found->second.unused = true;
  if (leaf || own.grad || own.local.storage()->pending()) waiting_.erase(found);
}

void UnusedValues::let_go(const IsSpent& is_spent, const Ends& ends) {
  std::erase_if(replaced_, [&](const DTensor& recorded) {
    const bool spent = is_spent(recorded);
    if (spent) shardlab::let_go(recorded.local());
    return spent;
  });
  std::vector<HeldValue*> unused;
  for (auto& [name, one] : waiting_) {
    const Tensor& recorded = one.recorded.local();
    if (one.unused) unused.push_back(&one);
    if (!one.own.local().pending() && !is_gone(recorded) && is_written(one) &&
        is_spent(one.recorded)) {
      let_go_as(recorded, hash_of(recorded));
      one.version = kWritten;
    }
  }
  const auto memory = [](const HeldValue* one) { return one->own.local().storage().get(); };
  std::ranges::sort(unused, {},
                    [&](const HeldValue* one) { return std::pair(memory(one), one->own.impl()); });
  bool any = false;
  for (auto first = unused.begin(), last = first; first != unused.end(); first = last) {
    last = std::find_if(first, unused.end(),
                        [&](const HeldValue* one) { return memory(one) != memory(*first); });
    any |= let_go_together({first, last}, is_spent, ends);
  }
  if (!any) return;
  std::erase_if(waiting_, [](const auto& one) { return is_gone(one.second.own.local()); });
}

// Each name counts its tensor twice, in the program and here; each tensor counts its Storage once.
// Anything more may still read or write. A view that was written to would be made anew to be read.
bool UnusedValues::let_go_together(std::span<HeldValue* const> values, const IsSpent& is_spent,
                                   const Ends& ends) {
  std::int64_t tensors = 0;
  bool alone = true;
  for (std::size_t at = 0, names = 0; at < values.size(); at += std::exchange(names, 0)) {
    const DTensorImpl* const tensor = values[at]->own.impl();
    while (at + names < values.size() && values[at + names]->own.impl() == tensor) ++names;
    alone = alone && tensor->use_count() == 2 * static_cast<std::int64_t>(names) &&
            (!is_written(*values[at]) || !tensor->grad_node);
    ++tensors;
  }
  const Ref<Storage>& storage = values.front()->own.local().storage();
  if (!alone || storage->use_count() != tensors) return false;
  for (HeldValue* one : values) {
    if (!is_written(*one)) continue;
    one->recorded = ends(*one);
    one->version = storage->version();
  }
  const bool spent =
      std::ranges::all_of(values, [&](const HeldValue* one) { return is_spent(one->recorded); });
  for (const HeldValue* one : values) {
    if (!spent) break;
    shardlab::let_go(one->recorded.local());
    shardlab::let_go(one->own.local());
  }
  return spent;
}

}  // namespace shardlab
