// recording.h - the values that one rank gave names to, kept for verification and reports. A
// recorded value is a snapshot: later in-place ops do not reach it.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/report/trace.h"
#include "sim/scenario/interpreter.h"

namespace shardlab {

struct RecordedValue {
  std::string name;  ///< "x", "outs[1]" for a tensor inside a list, "w.grad" for a gradient
  std::int64_t occurrence = 0;
  DTensor value;
  Where where;
  std::size_t event = 0;  ///< how many events the rank's trace had before

  std::string key() const { return name + "#" + std::to_string(occurrence); }
};

class Recording : public ValueSink {
 public:
  /// `trace` is the rank's own and outlives the recording.
  explicit Recording(const Trace* trace) : trace_(trace) {}

  void assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                const Where& where) override;
  void printed(const std::string& line) override { lines_.push_back(line); }
  /// Keeps a value, also one that no statement named: a gradient.
  void keep(RecordedValue value);

  /// The same of a rank in another process: the event is its own.
  void adopt(RecordedValue value);

  const std::vector<RecordedValue>& values() const { return values_; }
  const RecordedValue* find(const std::string& key) const;
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void visit(const std::string& name, std::int64_t occurrence, const Value& value,
             const Where& where, std::int64_t& visited);

  const Trace* trace_;
  std::vector<RecordedValue> values_;
  std::unordered_map<std::string, std::size_t> by_key_;
  std::vector<std::string> lines_;
};

}  // namespace shardlab
