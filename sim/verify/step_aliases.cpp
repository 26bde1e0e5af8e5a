// In one memory a write shows in all views. Here views of a dim that is cut are gathered, so that
// base and view are two memories: a write to one that never reaches the other is found when the
// other is read.
#include "sim/verify/step_aliases.h"

#include <algorithm>
#include <map>

#include "schema/op_row.h"
#include "sim/verify/step_part.h"

namespace shardlab {

namespace {

bool same_place(const SourcePosition& a, const SourcePosition& b) {
  return a.file == b.file && a.line == b.line && a.column == b.column;
}

}  // namespace

void TornAliases::note(const CallRecord& call) {
  if (call.row->view() == nullptr || call.row->inplace() || call.row->out_variant()) return;
  const DTensor& base = call.args->front().tensor();
  if (!base.defined() || !base.distributed()) return;
  const Ref<Storage>& memory = base.local().storage();
  for_each_tensor(*call.results, [&](const DTensor& result) {
    if (!result.defined() || result.local().storage() == memory || result.numel() == 0) return;
    tears_.push_back({memory, result.local().storage()});
  });
}

void TornAliases::written(const DTensor& written, const StepPlace& place) {
  if (tears_.empty() || !written.defined()) return;
  std::vector<Ref<Storage>> reached = {written.local().storage()};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    for (const Tear& tear : tears_) {
      if (tear.base != reached[i] && tear.view != reached[i]) continue;
      const Ref<Storage>& other = tear.base == reached[i] ? tear.view : tear.base;
      if (std::ranges::find(reached, other) != reached.end()) continue;
      reached.push_back(other);
      missed(other, place);
    }
  }
}

void TornAliases::missed(const Ref<Storage>& storage, const StepPlace& place) {
  std::erase_if(misses_, [&](const Miss& miss) { return miss.version != miss.storage->version(); });
  const auto known = std::ranges::find(misses_, storage, &Miss::storage);
  if (known == misses_.end()) misses_.push_back({storage, storage->version(), place});
}

// A pair of which only this list still holds one side is dropped; that may leave other pairs in the
// same state.
void TornAliases::let_go() {
  for (bool more = !tears_.empty() || !misses_.empty(); more;) {
    std::map<const Storage*, std::int64_t> held;  // by these lists
    for (const Tear& tear : tears_) ++held[tear.base.get()], ++held[tear.view.get()];
    for (const Miss& miss : misses_) ++held[miss.storage.get()];
    const auto gone = [&](const Ref<Storage>& storage) {
      return storage->use_count() == held[storage.get()];
    };
    std::vector<Tear> tears;
    for (const Tear& tear : tears_) {
      if (!gone(tear.base) && !gone(tear.view)) tears.push_back(tear);
    }
    std::vector<Miss> misses;
    for (const Miss& miss : misses_) {
      if (!gone(miss.storage)) misses.push_back(miss);
    }
    more = tears.size() + misses.size() < tears_.size() + misses_.size();
    tears_ = std::move(tears);
    misses_ = std::move(misses);
  }
}

std::optional<StepPlace> TornAliases::missed_by(const DTensor& x, const SourcePosition& now) const {
  if (misses_.empty() || !x.defined() || !x.local().defined()) return std::nullopt;
  for (const Miss& miss : misses_) {
    if (miss.storage != x.local().storage() || miss.version != miss.storage->version()) continue;
    if (!same_place(miss.write.position, now)) return miss.write;
  }
  return std::nullopt;
}

}  // namespace shardlab
