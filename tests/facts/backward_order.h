// backward_order.h - the order of backward as it is seen from outside: which calls of a program
// have their gradients run one after the other, and after which of them each leaf is written.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comm/observer.h"
#include "sim/language/run/interpreter.h"
#include "tests/facts/program_lines.h"

namespace shardlab {

/// One call of one run of a line.
struct OrderedCall {
  std::int64_t line = 0;    ///< of the program, from 1
  std::int64_t visit = 0;   ///< 0 the first time that the line runs
  std::int64_t number = 0;  ///< among the calls of that run that make nodes; -1: all of them

  auto operator<=>(const OrderedCall&) const = default;
};

/// The nodes of a call, and the leaves that are written before the next call's first node runs.
struct OrderedStep {
  OrderedCall call;
  std::set<std::string> leaves;
};

/// One backward() or grad().
struct OrderedPass {
  std::int64_t line = 0;  ///< of its statement
  std::vector<OrderedStep> steps;

  void add_node(const OrderedCall& call);
  /// Leaves written before any node runs belong to the pass's own line.
  void add_leaf(const std::string& name);
};

using OrderedPasses = std::vector<OrderedPass>;

/// The order that a fact recorded.
OrderedPasses recorded_order(const nlohmann::json& fact);

/// The two orders as texts, one per pass: equal texts mean equal orders. A line is compared as one
/// call where the two sides count its calls differently.
struct OrderTexts {
  std::vector<std::string> recorded, seen;
  std::int64_t lines = 0;   ///< runs of lines with recorded calls
  std::int64_t as_one = 0;  ///< of these the lines that are compared as one call
};
OrderTexts order_texts(const OrderedPasses& recorded, const OrderedPasses& seen);

/// Watches one rank while it runs a program.
class OrderWatcher : public ValueSink, public Observer {
 public:
  explicit OrderWatcher(ProgramLines lines) : lines_(lines) {}

  /// A leaf that is reported under this name, also when the program binds it to other names.
  void name_input(const std::string& name, const DTensor& input);
  const OrderedPasses& passes() const { return passes_; }

  void begins(SourceSpan statement) override;
  void computes(SourceSpan expression) override;
  void assigned(const std::string& name, std::int64_t, const Value& value, const Where&) override;
  void printed(const std::string&) override {}
  void gradient_begins(std::uint64_t sequence) override;
  void gradient_ends() override { --depth_; }
  void leaf_written(const DTensor& leaf) override;
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord&) override {}

 private:
  /// A call: its nodes are those from `first` on, up to the next call's.
  struct Made {
    std::uint64_t first = 0;
    OrderedCall call;
  };

  OrderedPass& pass();

  ProgramLines lines_;
  std::int64_t statement_line_ = 0;              // of the statement that runs
  bool in_pass_ = false;                         // it has run a node or written a leaf
  int depth_ = 0;                                // of gradients inside of gradients
  std::map<std::int64_t, std::int64_t> visits_;  // by line
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts_;  // calls by line and visit
  std::vector<Made> made_;
  std::vector<DTensor> inputs_;  // held, so that no other tensor takes their place in memory
  std::unordered_map<const DTensorImpl*, std::string> names_;
  OrderedPasses passes_;
};

}  // namespace shardlab
