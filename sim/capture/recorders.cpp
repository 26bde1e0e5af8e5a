// A class of ranks may run twice: what it did last counts.
#include "sim/capture/recorders.h"

#include "sim/run/inputs.h"

namespace shardlab {

ProgramCalls& Recorders::around(std::int64_t rank, ProgramCalls& next,
                                const std::vector<GivenInput>& inputs) {
  auto recorder = std::make_unique<Recorder>(next, layout_);
  for (const GivenInput& input : inputs) {
    recorder->input(input.from->name, recipe_of(*input.from), input.value);
  }
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[rank];
  entry = {std::move(recorder), std::nullopt};
  return *entry.recorder;
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
