// Only the names that are compared are kept, so that nothing but the program itself holds its
// values.
#include "tests/facts/chain_run.h"

#include <algorithm>
#include <cmath>

#include "autograd/autograd.h"

namespace shardlab {

namespace {

// One rank's values by the names of the fact.
using Held = std::map<std::string, DTensor>;

class CheckSink : public ValueSink {
 public:
  CheckSink(Held& held) : held_(held) {}  // of each rank, in a vector
  void assigned(const std::string& name, std::int64_t, const Value& value, const Where&) override {
    if (name.starts_with("check_") && value.is_tensor()) held_[name] = value.as<DTensor>();
  }
  void printed(const std::string&) override {}

 private:
  Held& held_;
};

// A plain tensor that every rank holds.
void add_plain(const std::vector<Held>& held, const std::string& name, const std::string& label,
               ChainRun& run) {
  run.values[label] = whole_value(held.front().at(name).local());
  const GlobalValue& first = run.values[label];
  for (const Held& rank : held) {
    const GlobalValue other = whole_value(rank.at(name).local());
    const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
    if (other.integers == first.integers && std::ranges::equal(other.reals, first.reals, same)) {
      continue;
    }
    run.fault = label + ": ranks hold different plain tensors";
  }
}

void add_value(const std::vector<Held>& held, const std::string& name, const std::string& label,
               ChainRun& run) {
  std::vector<DTensor> pieces;
  for (const Held& rank : held) {
    const auto found = rank.find(name);
    if (found != rank.end()) pieces.push_back(found->second);
  }
  if (pieces.empty()) return;
  const DTensorSpec* spec = pieces.front().spec();
  const bool alike =
      std::ranges::all_of(pieces, [&](const DTensor& t) { return t.spec() == spec; });
  if (pieces.size() != held.size() || !alike) {
    run.fault = label + ": ranks hold values of different types";
    return;
  }
  if (spec == nullptr) return add_plain(held, name, label, run);
  std::vector<AssemblyFault> faults;
  run.values[label] = assemble(*spec, pieces, faults);
  if (!faults.empty()) run.fault = label + ": " + faults.front().what;
}

}  // namespace

namespace {

void keep_gradients(const ChainFact& fact, const Interpreter& interpreter, Held& held) {
  for (const ChainInput& input : fact.inputs) {
    if (!input.requires_grad) continue;
    const DTensor gradient = grad_of(interpreter.find(input.name)->as<DTensor>());
    if (gradient.defined()) held[input.name + ".grad"] = gradient;
  }
}

// The failure that explains the others.
const RankFailure& first_failure(const WorldResult& result) {
  const auto own = std::ranges::find(result.failures, false, &RankFailure::consequence);
  return own == result.failures.end() ? result.failures.front() : *own;
}

}  // namespace

ChainRun run_chain(FactScenarios& scenarios, const ChainFact& fact, const ChainScenario& text) {
  ChainRun run;
  Scenario scenario;
  try {
    scenario = scenarios.read(fact.id, text.text);
  } catch (const Error& error) {
    run.error = error;
    run.before_run = true;
    return run;
  }
  const auto ranks = static_cast<std::size_t>(scenario.world);
  std::vector<Held> held(ranks);
  std::vector<std::int32_t> lines(ranks, text.first_line);
  std::vector<CheckSink> sinks(held.begin(), held.end());
  FactScenarios::OnRank on_rank;
  on_rank.sink = [&](RankContext& rank) -> ValueSink& {
    return sinks[static_cast<std::size_t>(rank.rank)];
  };
  on_rank.run = [&](RankContext& rank, Interpreter& interpreter) {
    const auto index = static_cast<std::size_t>(rank.rank);
    try {
      interpreter.run();
    } catch (...) {
      lines[index] = rank.position.line;
      throw;
    }
    keep_gradients(fact, interpreter, held[index]);
  };
  scenarios.run(scenario, on_rank, [&](const WorldResult& result) {
    if (!result.ok()) {
      run.error = result.merged();
      const auto rank = static_cast<std::size_t>(first_failure(result).rank);
      run.error_line = lines[rank] - text.first_line + 1;
      return;
    }
    for (std::size_t i = 0; i < fact.values.size(); ++i) {
      add_value(held, text.checks[i], fact.values[i].name, run);
    }
    for (const ChainExpected& gradient : fact.gradients) {
      add_value(held, gradient.name, gradient.name, run);
    }
  });
  return run;
}

}  // namespace shardlab
