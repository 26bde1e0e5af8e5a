// Both passes are straight lines of calls. A value that neither made is an operand; one that
// backward takes from forward is saved.
#include "sim/capture/step_function.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/fix.h"
#include "sim/capture/recorded_event.h"

namespace shardlab {

namespace {

using Numbers = std::vector<std::optional<std::size_t>>;

// By position; null: no tensor.
Numbers numbers_of(const Json& list) {
  Numbers numbers;
  for (const Json& one : list) {
    const Json& number = one.is_object() ? one.at("v") : one;
    numbers.push_back(number.is_null() ? std::nullopt
                                       : std::optional(integer_of<std::size_t>(number)));
  }
  return numbers;
}

class FunctionReader {
 public:
  FunctionReader(const StepRecording& recording, FunctionParts parts)
      : recording_(recording), parts_(std::move(parts)) {}

  StepStatement read() {
    own_.forward = std::move(parts_.forward);
    own_.backward = std::move(parts_.backward);
    const auto name = parts_.event->at("name").get<std::string>();
    own_.name = name.substr(name.rfind('.') + 1);
    statement_ = {.kind = StatementKind::kFunction, .event = parts_.event};
    statement_.op = "function." + own_.name;
    take_operands();
    for (const StepStatement& one : own_.forward) {
      for (const std::size_t v : one.takes) {
        if (!made_.contains(v)) add_operand(v);
      }
      note_result(one, made_);
    }
    give_results();
    read_rule();
    statement_.function = std::make_shared<const StepFunction>(std::move(own_));
    return std::move(statement_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    fail(ErrorKind::kUnsupported, Fix{fix},
         "{}: the autograd.Function {} at {}, {}, is not taken to another mesh yet",
         recording_.path, parts_.event->at("name").get<std::string>(),
         place_of(recording_, *parts_.event), what);
  }

  void take_operands() {
    const Numbers gradients = numbers_of(parts_.rule->at("out"));
    const Numbers arguments = numbers_of(parts_.event->at("args"));
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i]) continue;
      statement_.takes.push_back(*arguments[i]);
      own_.gives.push_back(i < gradients.size() ? gradients[i] : std::nullopt);
    }
  }

  void add_operand(std::size_t v) {
    if (std::ranges::find(statement_.takes, v) != statement_.takes.end()) return;
    if (!parts_.is_known(v)) {
      refuse("whose backward takes a value of another backward",
             "record it without activation checkpointing");
    }
    statement_.takes.push_back(v);
    own_.gives.emplace_back();
  }

  // A call that writes to an operand would change it for the program, too.
  void note_result(const StepStatement& one, std::set<std::size_t>& made) const {
    const bool writes = is_in_place(one.op) && !one.takes.empty();
    if (writes && !made.contains(one.takes[0])) {
      refuse("which writes to a tensor that it was given", "let it write to a clone");
    }
    made.insert(one.outs.begin(), one.outs.end());
  }

  // A result that the program has already, as an operand that is returned, gets a number of its
  // own: it has another gradient.
  void give_results() {
    const Json& constant = parts_.event->at("constant");
    const auto known = integer_of<std::size_t>(parts_.event->at("known"));
    const Numbers arrives = numbers_of(parts_.rule->at("args"));
    const Numbers results = numbers_of(parts_.event->at("out"));
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!results[i]) continue;
      const std::size_t v = *results[i];
      if (!made_.contains(v)) add_operand(v);
      own_.results.push_back(v);
      own_.arrives.push_back(i < arrives.size() ? arrives[i] : std::nullopt);
      if (constant.at(i) == true) own_.constant.push_back(v);
      statement_.outs.push_back(v < known ? (*parts_.fresh)++ : v);
    }
  }

  void read_rule() {
    std::set<std::size_t> made;
    for (const auto& v : own_.arrives) {
      if (v) made.insert(*v);
    }
    for (const StepStatement& one : own_.backward) {
      for (const std::size_t v : one.takes) save(v, made);
      note_result(one, made);
    }
    for (const auto& v : Numbers(own_.gives)) {
      if (v) save(*v, made);
    }
  }

  void save(std::size_t v, const std::set<std::size_t>& made) {
    if (made.contains(v) || std::ranges::find(own_.saved, v) != own_.saved.end()) return;
    if (!made_.contains(v)) add_operand(v);
    own_.saved.push_back(v);
  }

  const StepRecording& recording_;
  FunctionParts parts_;
  StepStatement statement_;
  StepFunction own_;
  std::set<std::size_t> made_;  // by forward
};

}  // namespace

StepStatement function_statement(const StepRecording& recording, FunctionParts parts) {
  return FunctionReader(recording, std::move(parts)).read();
}

}  // namespace shardlab
