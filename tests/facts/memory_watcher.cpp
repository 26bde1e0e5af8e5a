// Bytes that no name holds are the total without those of names: names are walked only when a
// backward begins.
#include "tests/facts/memory_watcher.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "sim/language/syntax/source.h"
#include "sim/language/values/dict_entries.h"
#include "sim/run/memory_timeline.h"

namespace shardlab {

namespace {

void visit_tensors(const Value& value, const std::function<void(const DTensor& x)>& visit) {
  if (value.is_tensor()) {
    visit(value.as<DTensor>());
  } else if (value.is_sequence()) {
    for (const Value& item : items_of(value)) visit_tensors(item, visit);
  } else if (const auto* dict = value.get<DictValue>()) {
    for (const auto& [key, item] : *dict->entries) visit_tensors(item, visit);
  }
}

std::int64_t bytes_of(const std::unordered_set<Storage*>& storages) {
  std::int64_t bytes = 0;
  for (const Storage* storage : storages) bytes += storage->counted_bytes();
  return bytes;
}

bool is_other(HeldFor purpose) {
  return purpose != HeldFor::kInput && purpose != HeldFor::kGradient &&
         purpose != HeldFor::kBackward;
}

}  // namespace

void MemoryWatcher::watch(RankContext& rank) { rank.memory = &account_; }

void MemoryWatcher::run(const std::vector<std::string>& inputs, Interpreter& interpreter) {
  interpreter_ = &interpreter;
  for (const std::string& name : inputs) {
    inputs_.emplace_back(name, interpreter.find(name)->as<DTensor>());
  }
  account_.begin();
  most_ = account_.held;
  {
    const ListeningScope scope(account_, this);
    interpreter.run();
  }
  note_gradients();
  end_bytes_ = account_.held_bytes;
}

void MemoryWatcher::add_storages(const Value& value, Storages& storages) {
  visit_tensors(value, [&](const DTensor& x) {
    if (x.defined() && x.local().defined()) storages.insert(x.local().storage().get());
  });
}

MemoryWatcher::Storages MemoryWatcher::gradients() const {
  Storages found;
  const auto add = [&](const DTensor& x) {
    if (x.defined()) add_storages(Value(grad_of(x)), found);
  };
  for (const auto& [name, input] : inputs_) add(input);
  interpreter_->visit_values([&](const Value& value) { visit_tensors(value, add); });
  return found;
}

std::int64_t MemoryWatcher::named_bytes(const DTensor& loss, const DTensor& seed,
                                        const Storages& gradients) const {
  Storages named;
  interpreter_->visit_values([&](const Value& value) { add_storages(value, named); });
  add_storages(Value(loss), named);
  add_storages(Value(seed), named);
  std::erase_if(named, [&](Storage* storage) {
    return storage->held_for() == HeldFor::kInput || gradients.contains(storage);
  });
  return bytes_of(named);
}

void MemoryWatcher::note_gradients() {
  if (!backward_ran_) return;
  most_gradients_ = std::max(most_gradients_, bytes_of(gradients()));
  backward_ran_ = false;
}

void MemoryWatcher::backward_begins(const DTensor& loss, const DTensor& seed) {
  const auto held = [&](HeldFor purpose) {
    return account_.held[static_cast<std::size_t>(purpose)];
  };
  MemoryAtBackward& at = backwards_.emplace_back();
  at.line = line_;
  at.live = account_.held_bytes;
  const Storages gradients = this->gradients();
  at.gradients = bytes_of(gradients);
  at.saved = held(HeldFor::kBackward);
  at.kept = at.live - held(HeldFor::kInput) - at.gradients - named_bytes(loss, seed, gradients);
  backward_ran_ = true;
  for (const auto& [name, input] : inputs_) {
    if (input.local().storage()->kept_for_backward()) at.saved_inputs.insert(name);
  }
}

void MemoryWatcher::changed(const MemoryAccount& account) {
  std::int64_t other = 0;
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    most_[i] = std::max(most_[i], account.held[i]);
    if (is_other(static_cast<HeldFor>(i))) other += account.held[i];
  }
  most_other_ = std::max(most_other_, other);
  std::int64_t& most = by_place_[{line_, current_rank().pass}];
  most = std::max(most, account.held_bytes);
}

}  // namespace shardlab
