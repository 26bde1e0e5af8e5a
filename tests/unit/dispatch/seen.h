// seen.h - an observer that keeps its events, for tests.
#pragma once

#include <string>
#include <vector>

#include "comm/observer.h"
#include "schema/op_row.h"
#include "schema/op_schema.h"

namespace shardlab::test {

/// Watches the rank it is made on for as long as it lives.
class Seen : public Observer {
 public:
  Seen() : rank_(current_rank()), before_(rank_.observer), mode_(rank_.mode) {
    rank_.observer = this;
    rank_.mode |= kModeObserve;
  }
  ~Seen() override {
    rank_.observer = before_;
    rank_.mode = mode_;
  }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;

  void op_begins(const OpSchema& schema, const OutputSharding&) override {
    ops.push_back(std::string(depth_++, ' ') + schema.row->name());
  }
  void op_ends() override { --depth_; }
  void redistribution(const RedistributionRecord& record) override { moves.push_back(record); }
  void collective(const CollectiveRecord& record) override { collectives.push_back(record); }
  void warning(const std::string& text) override { warnings.push_back(text); }

  std::vector<std::string> ops;  ///< in the order they began, indented by nesting
  std::vector<RedistributionRecord> moves;
  std::vector<CollectiveRecord> collectives;
  std::vector<std::string> warnings;

 private:
  RankContext& rank_;
  Observer* before_;
  std::uint32_t mode_;
  std::size_t depth_ = 0;
};

}  // namespace shardlab::test
