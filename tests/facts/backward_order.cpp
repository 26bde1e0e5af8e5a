// A node is found again by its number: every call of the program notes how many nodes there were
// before it. Gradients inside of gradients are how one node computes its own, and do not count as
// nodes.
#include "tests/facts/backward_order.h"

#include <fmt/format.h>

#include <algorithm>

#include "autograd/grad_node.h"
#include "base/text.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

using LineRun = std::pair<std::int64_t, std::int64_t>;  // line and visit

LineRun line_run(const OrderedCall& call) { return {call.line, call.visit}; }

std::map<LineRun, std::set<std::int64_t>> calls_by_line(const OrderedPasses& passes) {
  std::map<LineRun, std::set<std::int64_t>> calls;
  for (const OrderedPass& pass : passes) {
    for (const OrderedStep& step : pass.steps) {
      calls[line_run(step.call)].insert(step.call.number);
    }
  }
  return calls;
}

std::string text_of(const OrderedStep& step) {
  std::string text = fmt::format("line {}", step.call.line);
  if (step.call.visit > 0) text += fmt::format(" run {} times before", step.call.visit);
  if (step.call.number >= 0) text += fmt::format(" call {}", step.call.number);
  if (!step.leaves.empty()) text += fmt::format(": {}", text_of_list(step.leaves, ", "));
  return text;
}

// `apart`: lines whose calls are compared one by one.
std::vector<std::string> texts_of(const OrderedPasses& passes, const std::set<LineRun>& apart) {
  std::vector<std::string> all;
  for (const OrderedPass& pass : passes) {
    OrderedPass shown{pass.line, {}};
    for (const OrderedStep& step : pass.steps) {
      OrderedCall call = step.call;
      if (!apart.contains(line_run(call))) call.number = -1;
      shown.add_node(call);
      for (const std::string& leaf : step.leaves) shown.add_leaf(leaf);
    }
    std::string& text = all.emplace_back(fmt::format("backward of line {}", pass.line));
    for (const OrderedStep& step : shown.steps) text += "; " + text_of(step);
  }
  return all;
}

}  // namespace

void OrderedPass::add_node(const OrderedCall& call) {
  if (steps.empty() || steps.back().call != call) steps.push_back({call, {}});
}

void OrderedPass::add_leaf(const std::string& name) {
  if (steps.empty()) steps.push_back({{line, 0, -1}, {}});
  steps.back().leaves.insert(name);
}

OrderedPasses recorded_order(const Json& fact) {
  OrderedPasses passes;
  for (const Json& recorded : fact.at("passes")) {
    OrderedPass& pass = passes.emplace_back();
    pass.line = integer_of<std::int64_t>(recorded.at("line"));
    for (const Json& entry : recorded.at("order")) {
      if (entry.contains("leaf")) {
        pass.add_leaf(entry.at("leaf").get<std::string>());
      } else {
        pass.add_node({integer_of<std::int64_t>(entry.at("line")),
                       integer_of<std::int64_t>(entry.at("visit")),
                       integer_of<std::int64_t>(entry.at("call"))});
      }
    }
  }
  return passes;
}

OrderTexts order_texts(const OrderedPasses& recorded, const OrderedPasses& seen) {
  std::set<LineRun> apart;
  const auto recorded_calls = calls_by_line(recorded), seen_calls = calls_by_line(seen);
  for (const auto& [line, calls] : recorded_calls) {
    const auto found = seen_calls.find(line);
    if (found != seen_calls.end() && found->second == calls) apart.insert(line);
  }
  const auto lines = static_cast<std::int64_t>(recorded_calls.size());
  return {texts_of(recorded, apart), texts_of(seen, apart), lines,
          lines - static_cast<std::int64_t>(apart.size())};
}

void OrderWatcher::name_input(const std::string& name, const DTensor& input) {
  inputs_.push_back(input);
  names_[input.impl()] = name;
}

void OrderWatcher::begins(SourceSpan statement) {
  statement_line_ = lines_.of(statement);
  in_pass_ = false;
  ++visits_[statement_line_];
}

void OrderWatcher::computes(SourceSpan expression) {
  const std::uint64_t before = nodes_made();
  if (!made_.empty()) {
    const Made& last = made_.back();
    if (last.first == before) {
      made_.pop_back();
    } else {
      ++counts_[line_run(last.call)];
    }
  }
  const std::int64_t line = lines_.of(expression);
  OrderedCall call{line, std::max<std::int64_t>(0, visits_[line] - 1), 0};
  call.number = counts_[line_run(call)];
  made_.push_back({before, call});
}

// The value that a name has now replaces its former one; in a def, too.
void OrderWatcher::assigned(const std::string& name, std::int64_t, const Value& value,
                            const Where&) {
  if (!value.is_tensor()) return;
  const DTensorImpl* impl = value.as<DTensor>().impl();
  const auto is_input = [&](const DTensor& input) { return input.impl() == impl; };
  if (std::ranges::none_of(inputs_, is_input)) names_[impl] = name;
}

OrderedPass& OrderWatcher::pass() {
  if (!std::exchange(in_pass_, true)) passes_.push_back({statement_line_, {}});
  return passes_.back();
}

void OrderWatcher::gradient_begins(std::uint64_t sequence) {
  if (depth_++ > 0) return;
  const auto after = std::ranges::upper_bound(made_, sequence, {}, &Made::first);
  pass().add_node(after == made_.begin() ? OrderedCall{} : std::prev(after)->call);
}

void OrderWatcher::leaf_written(const DTensor& leaf) {
  const auto found = names_.find(leaf.impl());
  pass().add_leaf(found == names_.end() ? "a leaf without a name" : found->second);
}

}  // namespace shardlab
