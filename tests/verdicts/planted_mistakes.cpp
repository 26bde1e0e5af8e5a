// Mistakes are planted in right programs, one a run, and the verdict has to find each that counts.
//
//     planted_mistakes [--count N] [--seed N] FILE...
//
// Each file is tried as it is written and, unless it mixes the two, with bf16 in place of f32. A
// mistake is drawn by seed, first its kind, then its place among those that the program has, then
// one rank or all: a collective that loses its reduction, reduces or divides twice, shifts or swaps
// pieces, gives another rank's piece; a kernel that takes another offset, forgets its mask, gives a
// stale result or swaps halves; another label in from_local, or for the gradients of to_local. It
// is in the runs of the ranks, in the program's dtypes and in f64, as a mistake of a rule or a
// backend would be, and never in the single-device runs of the verdict.
//
// It counts when in a run of the ranks in f64 it changes a recorded value (mistake_effect.h).
// Inputs have a seed of their own every 25 draws. Until N mistakes of a program count, or 20 N are
// drawn. Columns: planted; refused, if the run ends in an error; without effect; with effect, of
// which: found; at calls, those that a single call shows; not verified, if the report says of every
// changed value that it was not; missed. Exit code 1 when of a program's mistakes with effect more
// than 1 % are missed.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <sstream>

#include "dispatch/all_ops.h"
#include "kernels/kernel_id.h"
#include "schema/op_registry.h"
#include "sim/judge/scenario_run.h"
#include "sim/run/program_run.h"
#include "sim/scenario/scenario_file.h"
#include "tests/support/mutating_communicator.h"
#include "tests/support/mutating_device.h"
#include "tests/verdicts/mistake_effect.h"

namespace {

using namespace shardlab;
using namespace shardlab::test;

struct Relabelling {
  std::size_t at = 0, length = 0;  // in the text of the file
  std::string label;
};

struct Mistake {
  std::optional<Mutation> collective;
  std::optional<WrongLaunch> launch;
  std::optional<Relabelling> label;

  void on_rank(std::int64_t rank) {
    if (collective) collective->rank = rank;
    if (launch) launch->rank = rank;
  }
};
/// Every mistake that a program has a place for, on every rank, by kind.
using Places = std::map<std::string, std::vector<Mistake>>;

std::string text_of(const Mistake& mistake) {
  if (mistake.label) return fmt::format("{} at byte {}", mistake.label->label, mistake.label->at);
  const auto rank = mistake.collective ? mistake.collective->rank : mistake.launch->rank;
  const std::string where = rank ? fmt::format("rank {}", *rank) : "all ranks";
  if (mistake.collective)
    return fmt::format("collective {} on {}", mistake.collective->index, where);
  return fmt::format("launch {} of kernel {} on {}", mistake.launch->index,
                     static_cast<int>(mistake.launch->kernel), where);
}

std::string in_bf16(const std::string& text) {
  static const std::regex kFloats(R"(\bf32\b)");
  return std::regex_replace(text, kFloats, "bf16");
}

void add_labels(const std::string& text, Places& places) {
  static const std::regex kCalls(R"((from_local|grad_placements=)(\([^\n]*|\[[^\n]*))");
  static const std::regex kLabels(R"((=|\[|, )(R|S\(\d\)|P\(\w+\))(?=[,)\]]))");
  for (std::sregex_iterator call(text.begin(), text.end(), kCalls), end; call != end; ++call) {
    const std::string line = call->str(2);
    for (std::sregex_iterator at(line.begin(), line.end(), kLabels); at != end; ++at) {
      const auto begin = static_cast<std::size_t>(call->position(2) + at->position(2));
      for (const char* label : {"R", "S(0)", "S(1)", "P(sum)", "P(avg)", "P(max)"}) {
        if (at->str(2) == label) continue;
        Mistake mistake;
        mistake.label = {begin, static_cast<std::size_t>(at->length(2)), label};
        places["flipped label"].push_back(mistake);
      }
    }
  }
}

void add_launches(const std::vector<Launch>& launches, Places& places) {
  for (const Launch& launch : launches) {
    // The number of conversions depends on the dtypes.
    if (launch.kernel == KernelId::kConvert) continue;
    for (const KernelMistake kind : kKernelMistakes) {
      if (!applies(kind, launch)) continue;
      Mistake mistake;
      mistake.launch = WrongLaunch{kind, launch.kernel, launch.index, {}};
      places[std::string(to_string(kind))].push_back(mistake);
    }
  }
}

void add_collectives(const std::vector<TraceEvent>& events, Places& places) {
  std::int64_t index = 0;
  for (const TraceEvent& event : events) {
    if (event.kind != TraceEvent::Kind::kCollective) continue;
    for (const MutationKind kind : kMutationKinds) {
      if (!applies(kind, event.collective.kind)) continue;
      Mistake mistake;
      mistake.collective = Mutation{kind, index, {}};
      places[std::string(to_string(kind))].push_back(mistake);
    }
    ++index;
  }
}

struct Outcome {
  bool met = false;
  bool changed = false;  // some result had other bytes
  bool at_call = false;
  std::set<std::string> unverified;  // keys of values that the report calls not verified
  std::set<std::string> reported;    // of all values in the report
};

// A mistake in the runs of one scenario, and its effect there.
struct Planted {
  explicit Planted(const Mistake& mistake) {
    options.sharing = KernelSharing::kOff;  // a mistake on one rank stays there
    if (mistake.collective) options.communicator = plant(*mistake.collective, effect);
    options.around_device = [launch = mistake.launch, log = log](Device& device,
                                                                 std::int64_t ranks) {
      return plant_launch(device, ranks, launch, log);
    };
  }

  ScenarioOptions options;
  std::shared_ptr<MutationEffect> effect = std::make_shared<MutationEffect>();
  std::shared_ptr<LaunchLog> log = std::make_shared<LaunchLog>();
};

class Program {
 public:
  Program(std::string name, std::string text, const OpRegistry& registry)
      : name_(std::move(name)), text_(std::move(text)), ops_(registry) {}

  const std::string& name() const { return name_; }
  std::int64_t world() const { return right_.run.scenario.world; }
  const Places& places() const { return places_; }

  /// The right program on the inputs of this seed, and the places for mistakes. Fails when it is
  /// called wrong.
  void begin(std::uint64_t seed) {
    seed_ = seed;
    const Planted nothing({});
    right_ = run_scenario(scenario_of({}), ops_, nothing.options);
    if (!right_.met()) {
      fail(ErrorKind::kValue, "{} is called wrong without a mistake, seed {}", name_, seed);
    }
    places_.clear();
    add_labels(text_, places_);
    add_collectives(right_.run.events, places_);
    add_launches(nothing.log->by_rank.front(), places_);
    exact_ = *held_in_f64({});
  }

  /// The run as a user would see it.
  Outcome with(const Mistake& mistake) const {
    const Planted planted(mistake);
    const ScenarioResult result = run_scenario(scenario_of(mistake), ops_, planted.options);
    Outcome outcome;
    outcome.met = result.met();
    outcome.changed = planted.effect->changed > 0 || planted.log->changed > 0 || mistake.label;
    outcome.at_call = result.judgement.steps.wrong_found();
    for (const ValueReport& value : result.judgement.values) {
      const std::string key =
          value.name + "#" + (value.at_end ? "end" : std::to_string(value.occurrence));
      outcome.reported.insert(key);
      if (!is_verified(value) && !is_off(value)) outcome.unverified.insert(key);
    }
    return outcome;
  }

  /// Values that it changes; nothing if the program does not reach its end.
  std::optional<std::set<std::string>> effect_of(const Mistake& mistake) const {
    std::optional<HeldValues> wrong;
    try {
      wrong = held_in_f64(mistake);
    } catch (const Error&) {
      return std::nullopt;  // a label that the file cannot have
    }
    if (!wrong) return std::nullopt;
    return affected_values(exact_, *wrong);
  }

 private:
  Scenario scenario_of(const Mistake& mistake) const {
    std::string text = text_;
    if (mistake.label) text.replace(mistake.label->at, mistake.label->length, mistake.label->label);
    const auto source = std::make_shared<const SourceText>(name_, std::move(text));
    const ScenarioFile file = ScenarioFile::read(source, {});
    Scenario scenario = file.at(file.points().front());
    scenario.seed = seed_;
    return scenario;
  }

  std::optional<HeldValues> held_in_f64(const Mistake& mistake) const {
    const Planted planted(mistake);
    const Scenario scenario = scenario_of(mistake);
    ProgramRun run;
    run.scenario = &scenario;
    run.registry = &ops_;
    run.layout = run.reported = right_.run.layout;
    run.reporting_rank = right_.run.reporting_rank;
    run.precision = Precision::kReference;
    execute(run, *right_.run.propagator, scenario.world, planted.options);
    if (run.error) return std::nullopt;
    return held_values(run.recordings);
  }

  std::string name_, text_;
  const OpRegistry& ops_;
  std::uint64_t seed_ = 0;
  ScenarioResult right_;
  HeldValues exact_;
  Places places_;
};

struct Counts {
  int planted = 0, refused = 0, no_effect = 0, found = 0, at_calls = 0, unverified = 0, missed = 0;

  int with_effect() const { return found + unverified + missed; }
  bool enough() const { return missed * 100 <= found + missed; }
  void add(const Counts& other) {
    planted += other.planted;
    refused += other.refused;
    no_effect += other.no_effect;
    found += other.found;
    at_calls += other.at_calls;
    unverified += other.unverified;
    missed += other.missed;
  }
};
using Table = std::map<std::string, Counts>;  // by kind

void print_row(const std::string& name, const Counts& counts) {
  fmt::print("{:<40} {:>7} {:>7} {:>9} {:>6} {:>6} {:>8} {:>10} {:>6}\n", name, counts.planted,
             counts.refused, counts.no_effect, counts.with_effect(), counts.found, counts.at_calls,
             counts.unverified, counts.missed);
  std::fflush(stdout);
}

bool all_unverified(const Outcome& seen, const std::set<std::string>& changed) {
  return std::ranges::all_of(changed, [&](const std::string& key) {
    return seen.unverified.contains(key) || !seen.reported.contains(key);
  });
}

void try_mistake(const Program& program, const Mistake& mistake, Counts& counts) {
  ++counts.planted;
  const auto changed = program.effect_of(mistake);
  if (!changed) {
    ++counts.refused;
    return;
  }
  const Outcome seen = program.with(mistake);
  if (changed->empty() || !seen.changed) {
    ++counts.no_effect;
  } else if (!seen.met) {
    ++counts.found;
    counts.at_calls += seen.at_call ? 1 : 0;
  } else if (all_unverified(seen, *changed)) {
    ++counts.unverified;
  } else {
    ++counts.missed;
  }
}

using Random = std::mt19937_64;

template <typename Container>
auto one_of(const Container& container, Random& random) {
  auto at = container.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random() % container.size()));
  return *at;
}

// Returns the counts of all kinds.
Counts try_program(Program& program, int count, std::uint64_t seed, Table& table) {
  constexpr int kDrawsPerSeed = 25, kDrawsEach = 20;
  Random random(seed);
  Table own;
  Counts all;
  for (int draw = 0; all.with_effect() < count && draw < kDrawsEach * count; ++draw) {
    if (draw % kDrawsPerSeed == 0) program.begin(random() % 1000);
    const auto [kind, places] = one_of(program.places(), random);
    Mistake mistake = one_of(places, random);
    if (random() % 3 > 0) {
      const auto ranks = static_cast<std::uint64_t>(program.world());
      mistake.on_rank(static_cast<std::int64_t>(random() % ranks));
    }
    Counts one;
    try_mistake(program, mistake, one);
    if (one.missed > 0) {
      fmt::print("    missed in {}: {}, {}\n", program.name(), kind, text_of(mistake));
    }
    own[kind].add(one);
    all.add(one);
  }
  print_row(program.name(), all);
  for (const auto& [kind, counts] : own) {
    print_row("    " + kind, counts);
    table[kind].add(counts);
  }
  return all;
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) fail(ErrorKind::kValue, "cannot read {}", path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int try_files(const std::vector<std::string>& paths, int count, std::uint64_t seed) {
  OpRegistry registry;
  register_all_ops(registry);
  fmt::print("{:<40} {:>7} {:>7} {:>9} {:>6} {:>6} {:>8} {:>10} {:>6}\n", "program", "planted",
             "refused", "no effect", "effect", "found", "at calls", "unverified", "missed");
  Table table;
  Counts all;
  bool fine = true;
  for (const std::string& path : paths) {
    const std::string text = text_of_file(path);
    const std::string stem = path.substr(path.rfind('/') + 1);
    const std::string name = stem.substr(0, stem.find('.'));
    const bool mixed = text.find("bf16") != std::string::npos;
    std::vector<std::pair<std::string, std::string>> variants = {{name, text}};
    if (!mixed) variants.emplace_back(name + " in bf16", in_bf16(text));
    for (const auto& [title, variant] : variants) {
      Program program(title, variant, registry);
      const Counts counts = try_program(program, count, seed++, table);
      fine = fine && counts.enough() && counts.found > 0;
      all.add(counts);
    }
  }
  print_row("all programs", all);
  for (const auto& [kind, counts] : table) print_row("    " + kind, counts);
  return fine ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  int count = 40;
  std::uint64_t seed = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--count" && i + 1 < argc) {
      count = std::atoi(argv[++i]);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      paths.push_back(argument);
    }
  }
  if (paths.empty()) {
    fmt::print(stderr, "usage: planted_mistakes [--count N] [--seed N] FILE...\n");
    return 2;
  }
  try {
    return try_files(paths, count, seed);
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.text());
    return 1;
  }
}
