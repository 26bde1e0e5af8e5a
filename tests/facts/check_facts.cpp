// Everything but --shard: families of facts, known differences and expected counts put together.
#include <fmt/format.h>
#include <cstdio>

#include "sim/files/json_value.h"
#include "tests/facts/chain_outcomes.h"
#include "tests/facts/check_arguments.h"
#include "tests/facts/check_families.h"
#include "tests/facts/known_differences.h"
#include "tests/facts/plain_world.h"

namespace shardlab {

namespace {

// The first failure that a scenario shows.
int print_scenario(const CheckSummary& summary) {
  for (const CheckFailure& failure : summary.failures) {
    if (failure.scenario.empty()) continue;
    const std::string text = fmt::format("# {}\n# expected {}\n# got      {}\n{}", failure.field,
                                         failure.expected, failure.got, failure.scenario);
    print_text(text);
    return kFailed;
  }
  std::fputs("# no failure is shown by a scenario\n", stdout);
  return summary.failed == 0 ? kFine : kFailed;
}

}  // namespace

int check_facts(const CheckArguments& arguments) {
  const KnownDifferences known = arguments.known.empty()
                                     ? KnownDifferences::nearest(arguments.files.front())
                                     : KnownDifferences::read(arguments.known);
  ChainOutcomes outcomes;
  if (!arguments.outcomes.empty()) outcomes = ChainOutcomes::read(arguments.outcomes);
  CheckOptions options = outcomes.options;
  options.max_shown = arguments.max_shown;
  options.list_skipped = arguments.list_skipped;
  options.id = arguments.id;
  options.seed = arguments.seed.value_or(options.seed);
  options.draws = arguments.draws.value_or(options.draws);
  set_plain_device(arguments.device);
  CheckRun run(check_families(), &known, options);
  for (const std::string& file : arguments.files) run.check_file(file);
  CheckSummary summary = run.finish();
  if (!arguments.outcomes.empty()) outcomes.compare(arguments.outcomes, summary);
  if (arguments.as_scenario) return print_scenario(summary);
  const bool json = arguments.common.json;
  print_text(json ? json_line(summary.json()) + "\n" : summary.text());
  return summary.failed == 0 ? kFine : kFailed;
}

}  // namespace shardlab
