// recorders.h - a recorder around the calls of every rank of a run.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/run/call_listener.h"
#include "trace/recorder.h"

namespace shardlab {

/// Ranks run on several threads: each has a place of its own. Gone before the values of the run.
class Recorders final : public CallListener {
 public:
  explicit Recorders(const MeshLayout* layout) : layout_(layout) {}

  ProgramCalls& around(std::int64_t rank, ProgramCalls& next,
                       const std::vector<GivenInput>& inputs) override;
  SizeTrace* sizes(std::int64_t rank) override;
  Observer& listen(std::int64_t rank, Observer* next) override;
  void finish(std::int64_t rank) override;

  /// The graph of each rank that ran, in ascending order, whose numbers are put into `ranks`; of
  /// one that failed, up to there. Once the run is over.
  std::vector<ProgramGraph> take(std::vector<std::int64_t>& ranks);
  /// Recorder::sized_at() of the first rank that has one.
  std::optional<std::int32_t> sized_at();

 private:
  struct Entry {
    std::unique_ptr<Recorder> recorder;
    std::shared_ptr<SizeTrace> sizes;  ///< null: sizes are numbers
    std::optional<ProgramGraph> graph;
  };
  Entry& entry_of(std::int64_t rank);

  const MeshLayout* layout_;
  std::mutex mutex_;
  std::map<std::int64_t, Entry> entries_;  // a map, because recorders point to its entries
};

}  // namespace shardlab
