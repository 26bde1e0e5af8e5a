// Options of a program's command line, and the same in the environment, which a launcher passes on
// to every rank. The words are those of `shardlab run`.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "backends/process/control_channel.h"
#include "base/error.h"
#include "sim/world/spmd.h"

namespace shardlab {

namespace {

struct Given {
  WorldOptions options;
  bool ranks = false;
  std::optional<std::int64_t> seed;
};

std::int64_t whole_number(std::string_view option, std::string_view text, std::int64_t least) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && read == end && number >= least) return number;
  fail(ErrorKind::kValue, Fix{fmt::format("{} {}", option, std::max<std::int64_t>(least, 2))},
       "{}: '{}' is not a whole number from {} on", option, text, least);
}

struct OptionRow {
  std::string_view name;
  const char* variable;
  void (*set)(Given& given, std::string_view name, std::string_view text);
};

constexpr OptionRow kOptions[] = {
    {"--ranks", "SHARDLAB_RANKS",
     [](Given& given, std::string_view name, std::string_view text) {
       given.options.ranks = whole_number(name, text, 1);
       given.ranks = true;
     }},
    {"--backend", "SHARDLAB_BACKEND",
     [](Given& given, std::string_view, std::string_view text) { given.options.backend = text; }},
    {"--device", "SHARDLAB_DEVICE",
     [](Given& given, std::string_view, std::string_view text) {
       given.options.device_type = text;
     }},
    {"--scheduler", "SHARDLAB_SCHEDULER",
     [](Given& given, std::string_view name, std::string_view text) {
       const auto kind = parse_scheduler(text);
       if (!kind) {
         fail(ErrorKind::kValue, Fix{"one of: pool, threads, seeded"}, "{}: no scheduler named {}",
              name, text);
       }
       given.options.schedule.kind = *kind;
     }},
    {"--workers", "SHARDLAB_WORKERS",
     [](Given& given, std::string_view name, std::string_view text) {
       given.options.schedule.workers = whole_number(name, text, 1);
     }},
    {"--seed", "SHARDLAB_SEED",
     [](Given& given, std::string_view name, std::string_view text) {
       given.seed = whole_number(name, text, 0);
     }},
};

// Sets the option at argv[at], perhaps with the next argument. Returns the number of arguments; 0:
// none of these options.
int take_option(Given& given, int argc, char** argv, int at) {
  const std::string_view word = argv[at];
  if (word == "--check-collectives" || word == "--no-check-collectives") {
    given.options.checks =
        word == "--check-collectives" ? CollectiveChecks::kOn : CollectiveChecks::kOff;
    return 1;
  }
  if (word == "--no-share") {
    given.options.sharing = KernelSharing::kOff;
    return 1;
  }
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  const auto* row = std::ranges::find(kOptions, name, &OptionRow::name);
  if (row == std::end(kOptions)) return 0;
  if (equals != std::string_view::npos) {
    row->set(given, name, word.substr(equals + 1));
    return 1;
  }
  if (at + 1 == argc) {
    fail(ErrorKind::kValue, Fix{fmt::format("write its value behind it: {} ...", name)},
         "{}: the value is missing", name);
  }
  row->set(given, name, argv[at + 1]);
  return 2;
}

}  // namespace

WorldOptions options_from(int& argc, char** argv, WorldOptions defaults) {
  Given given{.options = std::move(defaults)};
  for (const OptionRow& row : kOptions) {
    const char* value = std::getenv(row.variable);
    if (value != nullptr && *value != '\0') row.set(given, row.variable, value);
  }
  int kept = std::min(argc, 1);
  for (int at = kept; at < argc;) {
    const int taken = take_option(given, argc, argv, at);
    if (taken == 0) argv[kept++] = argv[at];
    at += std::max(taken, 1);
  }
  argc = kept;
  argv[argc] = nullptr;
  WorldOptions& options = given.options;
  if (given.seed) {
    const bool of_order = options.schedule.kind == SchedulerKind::kSeeded;
    (of_order ? options.schedule.seed : options.seed) = static_cast<std::uint64_t>(*given.seed);
  }
  const ProcessBackend* processes = find_backend(options.backend).processes;
  if (processes != nullptr && !given.ranks) options.ranks = processes->join().size();
  return std::move(options);
}

}  // namespace shardlab
