// recording.h - the values that one rank gave names to, kept for verification and reports. A
// recorded value is a snapshot: later in-place ops do not change it. Their results are recorded
// once more at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/language/run/interpreter.h"
#include "sim/log/trace.h"
#include "sim/run/value_drain.h"
#include "sim/types/claim.h"

namespace shardlab {

/// One value with its name. The n-th assignment to a name is the same value on every rank of a
/// program that does not depend on the rank.
struct RecordedValue {
  /// "x", "outs[1]" for a tensor inside a list, "w.grad" for a gradient, "x.item()" for a value
  /// that the program reads.
  std::string name;
  /// Below 0: the value number -1 - occurrence of the name as it is when the name gets another one,
  /// if a write in place has changed it.
  std::int64_t occurrence = 0;
  DTensor value;
  Where where;
  std::size_t event = 0;  ///< number of events in the rank's trace before it
  bool at_end = false;    ///< the value of the name when the program ends
  bool changed = false;   ///< since the name got it, by a write in place; the name keeps it
  bool read = false;      ///< by the program, under no name; `changed`: no record has its bytes
  std::shared_ptr<const SpmdClaim> claim = nullptr;  ///< null: the program says nothing of it

  /// Equal for the same value on every rank: "x#0", "x#end".
  std::string key() const { return name + "#" + (at_end ? "end" : std::to_string(occurrence)); }
};

/// A number that the program prints, or that a name holds at the end.
struct RecordedNumber {
  std::string name;
  std::int64_t occurrence = 0;
  double number = 0;
  DType dtype = DType::kF64;  ///< or i64, bool
  Where where;                ///< of the print, or of the statement that gave the name its value
  bool at_end = false;

  std::string key() const { return name + "#" + (at_end ? "end" : std::to_string(occurrence)); }
};

/// A printed line of the program, and its place.
struct PrintedLine {
  int line = 0, column = 0;  ///< of the call of print
  std::string text;
};

/// The two sides of one assert_close, as they were then.
struct AssertedPair {
  Value a, b;
  Where where;
};

/// Facts about a rank's values and its way through the program, for the judges of all ranks.
struct RankNotes {
  /// Offsets in the text at which the first statements that ran begin, in order.
  std::vector<std::uint32_t> statements;
  /// The last number that a statement gave each name which holds a number, and that each read
  /// found, by name_of_read().
  std::map<std::string, double> numbers, reads;
  /// Numbers that are printed, in order, then those of names at the end.
  std::vector<RecordedNumber> shown;
  /// For each name the number of the last value that it got, and of the backward passes whose
  /// gradients were added since another write.
  std::map<std::string, std::int64_t> last_numbers, passes;
};

/// "x.item()@120": the same text reads other values elsewhere.
std::string name_of_read(const std::string& name, SourceSpan place);

/// Filled while the rank runs, by that rank alone; read afterwards, by any thread.
class Recording : public ValueSink {
 public:
  /// `trace` is the rank's own and outlives the recording.
  explicit Recording(const Trace* trace) : trace_(trace) {}

  void assigned(const std::string& name, std::int64_t occurrence, const Value& value,
                const Where& where) override;
  void read(const std::string& name, std::int64_t occurrence, const DTensor& tensor,
            const Where& where, bool shown) override;
  void replaced(const std::string& name, const Value& before, const Value& now) override;
  void number_shown(const std::string& name, std::int64_t occurrence, const Value& number,
                    const Where& where) override;
  std::optional<Value> taken(SourceSpan expression, const Value& whole,
                             const Value& part) override {
    return on_part ? on_part(expression, parts_taken_[expression]++, whole, part) : std::nullopt;
  }
  /// Hears of each part that the program takes (ProgramSetup::parts), with the number of those that
  /// the expression took before; may give another value to go on with.
  std::function<std::optional<Value>(SourceSpan expression, std::int64_t before, const Value& whole,
                                     const Value& part)>
      on_part;
  void begins(SourceSpan statement) override;
  void claimed(const std::string& name, std::int64_t occurrence, const DTensor& tensor,
               const SpmdClaim& claim, const Where& where) override;
  void printed(const std::string& line) override;
  void asserted_close(const Value& a, const Value& b, const Where& where) override;
  void traced(std::size_t breaks) override { traced_breaks_ += breaks; }
  void schedule_read(const std::vector<std::int64_t>& live, const ScheduleRows& rows) override {
    live_microbatches = live;
    schedule = rows;
  }
  /// The first name that the program gave each mesh, in this order.
  std::vector<std::pair<const MeshLayout*, std::string>> mesh_names;
  std::vector<std::int64_t> live_microbatches;  ///< by rank; of the last schedule that was read
  ScheduleRows schedule;                        ///< its computations
  void other_shape() override { other_shape_ = true; }
  /// A gather filled a tensor of another shape than one device has there.
  bool has_other_shape() const { return other_shape_; }
  /// Breaks of all defs that became graphs.
  std::size_t traced_breaks() const { return traced_breaks_; }
  void gradient_kept(const std::string& name, const DTensor& grad) override;
  void gradient_came(const std::string& name, const DTensor& grad) override;
  /// Printed text, and values of loops, are kept for the judges and the report: this many bytes.
  ///   fails  Unsupported: more of them
  void keep_at_most(std::int64_t bytes) { most_bytes_ = std::max(bytes, kFewestBytes); }
  /// Keeps a value, also one that no statement named: a gradient.
  void keep(RecordedValue value);
  /// The value of an input before the program runs; not a value of the program.
  void begins_with(const std::string& name, const DTensor& value, const Where& where);
  /// From now on elements that nobody needs are let go. `drain` outlives the run.
  void drain_by(ValueDrain& drain, std::size_t rank) { drain_ = &drain, rank_ = rank; }
  /// The value of a name when the program ends, tensors inside of lists and dicts included. Marks
  /// values that were changed in place since they were recorded last.
  void ends(const std::string& name, const Value& value);

  /// The same for a value of a rank in another process: its `event` is kept.
  void adopt(RecordedValue value);
  void adopt(PrintedLine line) { lines_.push_back(std::move(line)); }
  void adopt(RankNotes notes) { notes_ = std::move(notes); }

  const std::vector<RecordedValue>& values() const { return values_; }
  /// Finds a value by RecordedValue::key(). Null if this rank has no such value.
  const RecordedValue* find(const std::string& key) const;
  /// The value number `occurrence` of a name as it is at its last write, before the name gets
  /// another one; null if this rank has none.
  const RecordedValue* at_last_write(const std::string& name, std::int64_t occurrence) const;
  /// The number of the last value that a name got; -1: it got none.
  std::int64_t last_number(const std::string& name) const;
  const RankNotes& notes() const { return notes_; }
  /// The place at which a name got its last value; null for names that have none.
  const Where* where(const std::string& name) const;
  const std::vector<PrintedLine>& lines() const { return lines_; }
  /// In the order of the program.
  const std::vector<AssertedPair>& pairs() const { return pairs_; }

 private:
  // Called for the tensors of a value, those inside of lists and dicts with names of their own.
  using Visitor = std::function<void(const std::string& name, const DTensor& value)>;
  void visit(const std::string& name, const Value& value, const Visitor& visitor,
             std::int64_t& visited);
  void end_of(const std::string& name, const DTensor& value);
  void count(std::int64_t bytes);

  // A gradient after a backward pass: another pass adds to it unless it was written in between.
  struct Accumulated {
    const Storage* storage = nullptr;
    std::uint64_t version = 0;
  };

  // The last value of a name, and the place at which it got that.
  struct Last {
    DTensor value;
    Where where;
  };
  // The value of a name at the end, compared with that.
  RecordedValue ended(const std::string& name, const DTensor& value, const Last& last) const;

  // Gives the number of events so far, so that reports can put values and events into one order.
  const Trace* trace_;
  static constexpr std::size_t kMostStatements = 1 << 14;
  RankNotes notes_;
  std::vector<RecordedValue> values_;
  std::unordered_set<const void*> kept_;  ///< memory of values that this rank recorded
  // Filled in by find() with the values so far: most ranks of a shape-only mesh are not
  // asked.
  mutable std::unordered_map<std::string, std::size_t> by_key_;
  mutable std::size_t in_by_key_ = 0;
  std::unordered_map<std::string, Last> last_;
  std::unordered_set<std::string> named_;  ///< by a statement
  std::vector<PrintedLine> lines_;
  std::vector<AssertedPair> pairs_;
  std::map<std::string, Where> numbered_;  ///< of the last number of a name
  std::map<SourceSpan, std::int64_t> parts_taken_;
  std::unordered_map<std::string, Accumulated> gradients_;
  ValueDrain* drain_ = nullptr;  ///< null: every value is kept
  std::size_t rank_ = 0;
  UnusedValues unused_;
  std::size_t begun_ = 0;                                 ///< statements since values went
  std::int64_t made_bytes_ = 0;                           ///< of values kept since then
  std::unordered_map<std::string, RecordedValue> ended_;  ///< before the program, by name
  std::size_t traced_breaks_ = 0;
  static constexpr std::int64_t kFewestBytes = 1 << 24;  // as a rank without loops may take
  std::int64_t bytes_ = 0, most_bytes_ = std::numeric_limits<std::int64_t>::max();
  bool other_shape_ = false;
};

}  // namespace shardlab
