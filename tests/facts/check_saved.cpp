// Facts about the tensors that autograd keeps: each call runs on one rank, then the graph of its
// results is walked. Equal storage decides whether a kept tensor is an input, a result or neither.
#include <fmt/format.h>

#include <unordered_set>

#include "autograd/view.h"
#include "base/text.h"
#include "sim/files/json_value.h"
#include "sim/language/run/interpreter.h"
#include "tests/facts/fact_program.h"
#include "tests/facts/memory_facts.h"

namespace shardlab {

namespace {

/// A tensor that a name of the program holds.
struct NamedTensor {
  std::string name;
  DTensor tensor;
};

/// The part of a call that is compared. A new storage has all shapes under which it was kept.
struct KeptByCall {
  std::set<std::string> inputs, outputs, tensors;
  std::int64_t new_bytes = 0;
};

std::string shape_text(const std::vector<std::int64_t>& shape, std::string_view dtype) {
  return fmt::format("{}[{}]", dtype, text_of_list(shape, ", "));
}

KeptByCall recorded_kept(const Json& fact) {
  KeptByCall kept;
  fact.at("kept_inputs").get_to(kept.inputs);
  fact.at("kept_outputs").get_to(kept.outputs);
  kept.new_bytes = integer_of<std::int64_t>(fact.at("new_bytes"));
  std::map<std::string, std::set<std::string>> made;
  for (const Json& saved : fact.at("saved")) {
    if (integer_of<std::int64_t>(saved.at("bytes")) == 0) continue;
    const std::string is = saved.at("is").get<std::string>();
    const std::string text =
        shape_text(integers_of(saved.at("shape")), saved.at("dtype").get<std::string>());
    const std::size_t number = is.find("new ");
    if (number == std::string::npos) {
      kept.tensors.insert(is + " " + text);
    } else {
      made[is.substr(number)].insert(text);
    }
  }
  for (const auto& [name, shapes] : made) {
    kept.tensors.insert(fmt::format("new {}", text_of_list(shapes, " and ")));
  }
  return kept;
}

/// "y", "y[1]": the tensor that the program left under a name, or under an item of it; undefined
/// where there is none.
DTensor tensor_called(const Interpreter& interpreter, const std::string& text) {
  const std::size_t bracket = text.find('[');
  const Value* value = interpreter.find(text.substr(0, bracket));
  if (value != nullptr && bracket != std::string::npos) {
    const std::size_t index = std::stoul(text.substr(bracket + 1));
    const bool there = value->is_sequence() && index < items_of(*value).size();
    value = there ? &items_of(*value)[index] : nullptr;
  }
  return value != nullptr && value->is_tensor() ? value->as<DTensor>() : DTensor();
}

/// Calls `visit` for each tensor that the graph behind `outputs` keeps.
void visit_graph(const std::vector<NamedTensor>& outputs,
                 const std::function<void(const DTensor& x)>& visit) {
  std::vector<GradNode*> open;
  std::unordered_set<GradNode*> seen;
  const auto reach = [&](const GradNode::Edge& edge) {
    if (edge.node && seen.insert(edge.node.get()).second) open.push_back(edge.node.get());
  };
  for (const NamedTensor& output : outputs) reach(edge_of(output.tensor));
  while (!open.empty()) {
    const GradNode* node = open.back();
    open.pop_back();
    node->visit_saved(visit);
    for (const GradNode::Edge& edge : node->edges()) reach(edge);
  }
}

const NamedTensor* same_storage(const std::vector<NamedTensor>& named, const Tensor& x) {
  const auto found = std::ranges::find_if(
      named, [&](const NamedTensor& each) { return each.tensor.local().storage() == x.storage(); });
  return found == named.end() ? nullptr : &*found;
}

bool same_view(const std::vector<NamedTensor>& named, const Tensor& x) {
  return std::ranges::any_of(named, [&](const NamedTensor& each) {
    const Tensor& other = each.tensor.local();
    return other.storage() == x.storage() && other.meta() == x.meta() &&
           other.offset() == x.offset();
  });
}

KeptByCall seen_kept(const std::vector<NamedTensor>& inputs,
                     const std::vector<NamedTensor>& outputs) {
  KeptByCall kept;
  std::map<const Storage*, std::set<std::string>> made;
  visit_graph(outputs, [&](const DTensor& kept_tensor) {
    const Tensor& x = kept_tensor.local();
    if (x.size_bytes() == 0) return;
    const std::string text = shape_text({x.shape().begin(), x.shape().end()}, to_string(x.dtype()));
    const NamedTensor* input = same_storage(inputs, x);
    const NamedTensor* output = same_storage(outputs, x);
    if (input == nullptr && output == nullptr) {
      const auto bytes = static_cast<std::int64_t>(x.storage()->buffer()->size_bytes());
      if (!made.contains(x.storage().get())) kept.new_bytes += bytes;
      made[x.storage().get()].insert(text);
      return;
    }
    const NamedTensor& owner = input != nullptr ? *input : *output;
    (input != nullptr ? kept.inputs : kept.outputs).insert(owner.name);
    kept.tensors.insert(fmt::format(
        "{}{} {} {}", same_view(input != nullptr ? inputs : outputs, x) ? "" : "view of ",
        input != nullptr ? "input" : "output", owner.name, text));
  });
  for (const auto& [storage, shapes] : made) {
    kept.tensors.insert(fmt::format("new {}", text_of_list(shapes, " and ")));
  }
  return kept;
}

class SavedChecker : public FactChecker, ValueSink {
 public:
  void check(const Json& fact, CaseReport& report) override {
    KeptByCall seen;
    const auto watched = [&](const Scenario&, std::int64_t) -> FactScenarios::OnRank {
      return {
          .sink = [&](RankContext&) -> ValueSink& { return *this; },
          .run = [&](RankContext&, Interpreter& interpreter) { seen = run(fact, interpreter); }};
    };
    programs_.run(fact, report, watched, [&] { compare(recorded_kept(fact), seen, report); });
  }

  void finish(CheckSummary& summary) override { programs_.add_notes(summary); }

  void assigned(const std::string&, std::int64_t, const Value&, const Where&) override {}
  void printed(const std::string&) override {}

 private:
  static KeptByCall run(const Json& fact, Interpreter& interpreter) {
    std::vector<NamedTensor> inputs, outputs;
    for (const auto& [name, input] : fact.at("inputs").items()) {
      inputs.push_back({name, tensor_called(interpreter, name)});
    }
    interpreter.run();
    for (const auto& [name, output] : fact.at("outputs").items()) {
      const DTensor tensor = tensor_called(interpreter, name);
      if (tensor.defined()) outputs.push_back({name, tensor});
    }
    return seen_kept(inputs, outputs);
  }

  static void compare(const KeptByCall& recorded, const KeptByCall& seen, CaseReport& report) {
    report.expect("kept_inputs", recorded.inputs, seen.inputs);
    report.expect("kept_outputs", recorded.outputs, seen.outputs);
    report.expect("new_bytes", recorded.new_bytes, seen.new_bytes);
    report.expect("saved", recorded.tensors, seen.tensors);
  }

  FactPrograms programs_;
};

}  // namespace

std::unique_ptr<FactChecker> make_saved_checker(std::string_view) {
  return std::make_unique<SavedChecker>();
}

}  // namespace shardlab
