// verify-ops: ops are proven side by side, each by a prover of its own, since the decisions on one
// op are of no use to another.
#include <algorithm>
#include <map>
#include <span>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/cli/commands.h"
#include "sim/files/text_lines.h"
#include "sim/proof/proof_text.h"
#include "sim/proof/read_samples.h"
#include "sim/report/ops_text.h"
#include "sim/run/run.h"
#include "sim/scenario/scenario_file.h"
#include "sim/schedule/ordered_jobs.h"

namespace shardlab {

namespace {

// All samples of an op, which are calls with other sizes or arguments.
struct SampledOp {
  std::string name;
  std::vector<const OpSample*> samples;
};

// Sorts samples by name; `own` are those of the user's table.
std::vector<SampledOp> sampled_ops(const OpRegistry& registry, const std::vector<OpSample>& own) {
  std::map<std::string, std::vector<const OpSample*>> by_name;
  for (const std::span<const OpSample> samples : {all_samples(), std::span(own)}) {
    for (const OpSample& sample : samples) {
      by_name[registry.at(sample.op).name()].push_back(&sample);
    }
  }
  std::vector<SampledOp> ops;
  for (auto& [name, samples] : by_name) ops.push_back({name, std::move(samples)});
  return ops;
}

// The ops that match one of the patterns.
std::vector<SampledOp> chosen_ops(const OpRegistry& registry, const std::vector<OpSample>& own,
                                  const std::vector<std::string>& patterns) {
  std::vector<SampledOp> all = sampled_ops(registry, own), chosen;
  for (SampledOp& op : all) {
    const auto meant = [&](const std::string& pattern) {
      return pattern.empty() || op_matches(op.name, pattern);
    };
    if (std::ranges::any_of(patterns, meant)) chosen.push_back(op);
  }
  if (!chosen.empty()) return chosen;
  const std::string& pattern = patterns.at(0);
  std::vector<std::string> names;
  for (const SampledOp& op : all) names.push_back(op.name.substr(op.name.find("::") + 2));
  const OpRow* row = registry.find(pattern);
  if (row != nullptr) {
    fail(Fix{"ask for the op that it is a variant of; shardlab ops says which"},
         "{} has no sample call of its own", row->name());
  }
  fail(Fix{suggest(pattern, names)}, "no op with a sample call matches '{}'", pattern);
}

// The ops as they are asked about.
struct Rules {
  std::shared_ptr<const OpRegistry> registry;
  std::vector<std::string> patterns;
};

Rules rules_of(const VerifyOpsArguments& arguments, const std::vector<OpSample>& own) {
  if (arguments.rules.empty()) {
    std::vector<std::string> patterns;
    if (arguments.pattern.empty()) {
      for (const OpSample& sample : own) patterns.push_back(all_ops().at(sample.op).name());
    }
    if (patterns.empty()) patterns.push_back(arguments.pattern);
    return {{std::shared_ptr<void>(), &all_ops()}, patterns};
  }
  const ScenarioFile file = ScenarioFile::open(arguments.rules, {});
  const Scenario scenario = file.at(file.points().at(0));
  if (scenario.rules.empty()) {
    fail(Fix{"write them as [[rule]], with op and rule"}, "{} has no rules", arguments.rules);
  }
  std::vector<std::string> patterns{arguments.pattern};
  if (arguments.pattern.empty()) {
    patterns.clear();
    for (const ScenarioRule& rule : scenario.rules) {
      patterns.emplace_back(all_ops().at(rule.op).name());
    }
  }
  return {ops_of(scenario, all_ops()), patterns};
}

Dims mesh_of(const VerifyOpsArguments& arguments) {
  return Dims(arguments.mesh.begin(), arguments.mesh.end());
}

// The one call that --placements names, of each sample that has as many inputs.
int check_one(const OpRegistry& registry, const std::vector<SampledOp>& ops,
              const VerifyOpsArguments& arguments, const ProofOptions& options) {
  if (ops.size() > 1 || arguments.mesh.empty()) {
    fail(Fix{"name one op, and its mesh: --mesh 2,3"},
         "--placements is one call of one op on one mesh, and {}",
         ops.size() > 1 ? fmt::format("there are {} ops", ops.size()) : "no mesh is given");
  }
  OpProver prover(registry, options);
  bool right = true;
  std::string text;
  const auto commas = std::ranges::count(arguments.placements, ',');
  const auto fits = [&](const OpSample* sample) {
    return sample->inputs.size() == static_cast<std::size_t>(commas) + 1;
  };
  const bool any_fits = std::ranges::any_of(ops[0].samples, fits);
  for (const OpSample* sample : ops[0].samples) {
    if (any_fits && !fits(sample)) continue;  // if none fits, reading them gives the error
    const Placing placing = parse_placing(arguments.placements, *sample, arguments.mesh.size());
    const std::string what = prover.check(*sample, mesh_of(arguments), placing);
    text += fmt::format("{}  {}  ({}){}\n", what.empty() ? "right" : "WRONG", ops[0].name,
                        placing_text(placing), what.empty() ? "" : ": " + what);
    right = right && what.empty();
  }
  print_text(text);
  return right ? kFine : kFailed;
}

// A rule of the user's that no call fits proves nothing.
void note_unproven(OpProof& proof) {
  if (proof.right + proof.wrong > 0 || !proof.unproven.empty() || proof.reasons.empty()) return;
  const auto most =
      std::ranges::max_element(proof.reasons, {}, [](const auto& reason) { return reason.second; });
  proof.unproven =
      fmt::format("all calls are refused, {} times because {}", most->second, most->first);
}

}  // namespace

int verify_ops_command(const VerifyOpsArguments& arguments) {
  const std::vector<OpSample> own =
      arguments.samples.empty() ? std::vector<OpSample>()
                                : read_samples(read_text(arguments.samples), arguments.samples);
  const Rules rules = rules_of(arguments, own);
  const OpRegistry& registry = *rules.registry;
  const std::vector<SampledOp> ops = chosen_ops(registry, own, rules.patterns);
  ProofOptions options;
  if (!arguments.mesh.empty()) options.meshes = {mesh_of(arguments)};
  options.backward = !arguments.forward;
  options.seed = arguments.seed;
  options.most_forms = arguments.forms;
  if (arguments.placings) {
    const PlacingCount few{*arguments.placings, *arguments.placings};
    options.of_one = options.of_several = options.of_forms = few;
    options.missing = false;
  }
  if (!arguments.mesh.empty()) options.form_meshes = options.meshes;
  if (!arguments.placements.empty()) return check_one(registry, ops, arguments, options);
  std::vector<OpProof> proofs(ops.size());
  std::vector<std::string> failures(ops.size());
  const std::size_t workers =
      arguments.workers.value_or(std::max(1U, std::thread::hardware_concurrency()));
  run_in_order(
      ops.size(), workers,
      [&](std::size_t i) {
        try {
          proofs[i] = OpProver(registry, options).prove(ops[i].samples);
        } catch (const std::exception& error) {
          failures[i] = fmt::format("{}: {}", ops[i].name, error.what());
        }
      },
      [&](std::size_t i) {
        if (!failures[i].empty()) fail(ErrorKind::kInternal, Fix{}, "{}", failures[i]);
      });
  if (!arguments.rules.empty()) std::ranges::for_each(proofs, note_unproven);
  print_text(arguments.common.json ? proof_json(proofs) + "\n"
                                   : proof_text(proofs, arguments.details));
  const ProofSums sums = sums_of(proofs);
  return sums.wrong + sums.unproven == 0 ? kFine : kFailed;
}

}  // namespace shardlab
