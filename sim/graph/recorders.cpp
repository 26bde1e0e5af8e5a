// A class of ranks may run twice: the last run counts.
#include "sim/graph/recorders.h"

#include <algorithm>

#include "sim/language/values/size_value.h"
#include "sim/recording/elements.h"
#include "sim/run/inputs.h"

namespace shardlab {

ProgramCalls& Recorders::around(std::int64_t rank, ProgramCalls& next,
                                const std::vector<GivenInput>& inputs) {
  auto recorder = std::make_unique<Recorder>(next, layout_);
  const bool dynamic = std::ranges::any_of(
      inputs, [](const GivenInput& input) { return !input.from->recipe.dynamic.empty(); });
  std::vector<NamedTensor> named;
  for (const GivenInput& input : inputs) {
    InputRecipe recipe = input.from->recipe;
    if (const std::string_view stored = input.from->elements.bytes; !stored.empty()) {
      recipe.values = stored_scalars(stored, *input.from->type.dtype);
    }
    if (dynamic) recipe.sizes = input.from->type.written;
    recorder->input(input.from->name, std::move(recipe), input.value);
    named.push_back({input.from->name, input.value, input.from->recipe.dynamic});
  }
  std::shared_ptr<SizeTrace> sizes;
  if (dynamic) {
    recorder->allow_other_sizes();
    sizes = std::make_shared<SizeTrace>(*recorder, std::move(named));
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[rank];
  entry = {std::move(recorder), std::move(sizes), std::nullopt};
  return *entry.recorder;
}

SizeTrace* Recorders::sizes(std::int64_t rank) { return entry_of(rank).sizes.get(); }

std::optional<std::int32_t> Recorders::sized_at() {
  for (const auto& [rank, entry] : entries_) {
    if (entry.recorder->sized_at()) return entry.recorder->sized_at();
  }
  return std::nullopt;
}

Observer& Recorders::listen(std::int64_t rank, Observer* next) {
  return entry_of(rank).recorder->listen(next);
}

void Recorders::finish(std::int64_t rank) {
  Entry& entry = entry_of(rank);
  entry.graph = entry.recorder->finish();
}

std::vector<ProgramGraph> Recorders::take(std::vector<std::int64_t>& ranks) {
  std::vector<ProgramGraph> graphs;
  for (auto& [rank, entry] : entries_) {
    ranks.push_back(rank);
    graphs.push_back(entry.graph ? std::move(*entry.graph) : entry.recorder->broken_off());
  }
  return graphs;
}

Recorders::Entry& Recorders::entry_of(std::int64_t rank) {
  const std::lock_guard lock(mutex_);
  return entries_.at(rank);
}

}  // namespace shardlab
