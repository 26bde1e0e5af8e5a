// One run of a world: every rank's outcome is reported to the backend, which frees the ranks that
// wait for this one, and sorted at the end (B-7): a rank that failed only because another one did
// carries the verdict in its error, so that the lowest rank without one names the cause, for every
// schedule. If ranks are processes, the outcomes are exchanged at the end, so that each process
// reports the same.
#include "sim/world/world.h"

#include <dlfcn.h>
#include <zlib.h>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include <fstream>

#include "backends/process/control_channel.h"
#include "backends/process/messages.h"
#include "backends/threads/threads.h"
#include "base/error.h"
#include "base/program_path.h"
#include "base/text.h"
#include "base/version.h"
#include "comm/communicator.h"
#include "sim/schedule/single_scheduler.h"
#include "sim/world/class_world.h"
#include "sim/world/rank_life.h"

namespace shardlab {

namespace {

// The error of a rank that failed because another one did, and of every rank for mismatch and
// deadlock.
bool repeats_verdict(const Error& error) { return error.find("verdict") != nullptr; }

// All ranks of this process.
class RankRuns {
 public:
  RankRuns(const WorldOptions& options, Scheduler& scheduler, std::vector<Device*> devices,
           std::unique_ptr<Backend> backend, const RankBody& body)
      : options_(options),
        scheduler_(scheduler),
        devices_(std::move(devices)),
        body_(body),
        backend_(std::move(backend)),
        outcomes_(static_cast<std::size_t>(options.ranks)) {}

  void serve(std::int64_t rank) {
    const auto index = static_cast<std::size_t>(rank);
    RankLife life(options_, run_, rank, devices_[index], &scheduler_);
    outcomes_[index] = life.run([&] { return backend_->world(rank); },
                                [&](RankContext& context) {
                                  body_(context, {.index = index});
                                  backend_->settle(rank);
                                },
                                [&](const Error& cause) { backend_->rank_failed(rank, cause); });
    backend_->rank_ended(rank);
  }

  /// Makes the outcomes of all processes known on each.
  void share_outcomes(process::ControlChannel& channel) {
    process::Writer writer;
    const RankOutcome& mine = outcomes_[static_cast<std::size_t>(channel.rank())];
    writer.put(mine.error.has_value());
    if (mine.error) put(writer, *mine.error);
    const std::vector<std::string> all = channel.end_run(writer.take());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (rank == static_cast<std::size_t>(channel.rank())) continue;
      RankOutcome& outcome = outcomes_[rank];
      if (all[rank].empty()) {
        // Its process is gone: only the verdict is known.
        outcome.error = to_error(channel.verdict());
        continue;
      }
      process::Reader reader(all[rank]);
      if (reader.get<bool>()) outcome.error = process::get_error(reader);
    }
  }

  WorldResult result() {
    WorldResult result;
    if (const Verdict* verdict = backend_->verdict()) result.verdict = *verdict;
    for (std::size_t i = 0; i < outcomes_.size(); ++i) {
      RankOutcome& outcome = outcomes_[i];
      if (!outcome.error) continue;
      const bool consequence = repeats_verdict(*outcome.error);
      result.failures.push_back({static_cast<std::int64_t>(i), std::move(*outcome.error),
                                 std::move(outcome.foreign), consequence});
    }
    return result;
  }

 private:
  static std::uint64_t next_run() {
    static std::atomic<std::uint64_t> runs = 0;
    return ++runs;
  }

  const WorldOptions& options_;
  const std::uint64_t run_ = next_run();
  Scheduler& scheduler_;
  const std::vector<Device*> devices_;
  const RankBody& body_;
  std::unique_ptr<Backend> backend_;
  std::vector<RankOutcome> outcomes_;
};

// "train (11812344 bytes, 7ca1b201)".
std::string digest_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  uLong sum = crc32_z(0, nullptr, 0);
  std::size_t size = 0;
  std::vector<char> block(1 << 16);
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())) || file.gcount() > 0) {
    const auto count = static_cast<std::size_t>(file.gcount());
    sum = crc32_z(sum, reinterpret_cast<const Bytef*>(block.data()), count);
    size += count;
  }
  return fmt::format("{} ({} bytes, {:08x})", path.filename().string(), size, sum);
}

// The running program's file, and that of the library if it is another one.
const std::string& this_program() {
  static const std::string text = [] {
    const std::filesystem::path program = program_path();
    std::string result = "program " + digest_of(program);
    Dl_info library{};
    std::error_code unreadable;
    if (dladdr(reinterpret_cast<const void*>(&digest_of), &library) != 0) {
      const auto path = std::filesystem::canonical(library.dli_fname, unreadable);
      if (!unreadable && path != program) result += " with " + digest_of(path);
    }
    return result;
  }();
  return text;
}

// The words behind the name of the program.
const std::string& words_of_program() {
  static const std::string text = [] {
    std::ifstream words("/proc/self/cmdline");
    std::string word, result = "with the words";
    std::getline(words, word, '\0');
    while (std::getline(words, word, '\0')) result += " " + word;
    return result;
  }();
  return text;
}

// All that must be the same in all processes, a line for each.
std::string about(const WorldOptions& options, const ProcessBackend& processes) {
  return fmt::format(
      "shardlab {}\n{}\n{}\n{}\n{} ranks, collective checks {}, seed {}, mixed tensors {}, "
      "implicit redistribution {}, transport {}, device {}\n",
      version(), processes.libraries(), this_program(),
      options.program.empty() ? words_of_program() : options.program, options.ranks,
      options.checks == CollectiveChecks::kOn ? "on" : "off", options.seed,
      options.mixed == MixedTensors::kRefuse ? "refused" : "as replicas",
      static_cast<int>(options.implicit),
      options.transport ? to_string(*options.transport) : "of its own", options.device_type);
}

// The failure that explains the others. Among ranks that failed on their own the lowest is taken,
// which does not depend on the scheduler as the first does.
const RankFailure& primary_of(const WorldResult& result) {
  const auto own = std::ranges::find(result.failures, false, &RankFailure::consequence);
  return own == result.failures.end() ? result.failures.front() : *own;
}

struct AlikeFailures {
  const RankFailure* first = nullptr;
  std::vector<std::int64_t> ranks;
};

// Ranks that failed on their own, grouped by equal errors, in the order of their first ranks.
std::vector<AlikeFailures> alike_failures(const std::vector<RankFailure>& failures) {
  std::vector<AlikeFailures> sets;
  for (const RankFailure& failure : failures) {
    if (failure.consequence) continue;
    const auto same = std::find_if(sets.begin(), sets.end(), [&](const AlikeFailures& set) {
      return set.first->error.summary() == failure.error.summary();
    });
    AlikeFailures& set =
        same == sets.end() ? sets.emplace_back(AlikeFailures{&failure, {}}) : *same;
    if (failure.ranks.empty()) set.ranks.push_back(failure.rank);
    set.ranks.insert(set.ranks.end(), failure.ranks.begin(), failure.ranks.end());
  }
  return sets;
}

// "ranks 0-3,8", or, if that gets long, the first ones and the number of ranks.
std::string ranks_text(const AlikeFailures& set) {
  constexpr std::size_t kLong = 200;
  std::vector<std::int64_t> ranks = set.ranks;
  std::ranges::sort(ranks);
  const std::string ranges = shortened_ranges(ranks, kLong);
  if (!ranges.ends_with("...")) return fold_ranks(ranks);
  return fmt::format("ranks {} ({} ranks)", ranges, ranks.size());
}

}  // namespace

Error WorldResult::merged() const {
  const RankFailure& primary = primary_of(*this);
  if (repeats_verdict(primary.error)) return primary.error;
  Error error = primary.error;
  std::string others;
  for (const AlikeFailures& set : alike_failures(failures)) {
    if (set.first->error.summary() == primary.error.summary()) {
      // The lowest rank's of equal errors is taken: it doesn't depend on the scheduler.
      error = set.first->error;
      error.with("failed", ranks_text(set));
    } else {
      others += fmt::format("{}{}: {}", others.empty() ? "" : "\n", ranks_text(set),
                            set.first->error.summary());
    }
  }
  if (!others.empty()) error.with("others", std::move(others));
  return error;
}

void WorldResult::rethrow() const {
  if (ok()) return;
  const RankFailure& primary = primary_of(*this);
  if (primary.foreign) std::rethrow_exception(primary.foreign);
  throw merged();
}

bool has_fabric(const WorldOptions& options) {
  return (options.transport || options.log != nullptr) && options.backend == "threads";
}

World::World(WorldOptions options)
    : options_(std::move(options)), backend_(find_backend(options_.backend)) {
  const bool buffered = options_.transport.value_or(Transport::kBuffered) == Transport::kBuffered;
  if (!buffered && !has_fabric(options_)) {
    fail(ErrorKind::kUnsupported, Fix{"--backend threads, or leave --transport out"},
         "backend {} has its own fabric: only `threads` is like {}", options_.backend,
         to_string(*options_.transport));
  }
  if (options_.ranks < 1) {
    fail(ErrorKind::kValue, Fix{"set WorldOptions::ranks"},
         "the world has {} ranks; it must have at least 1", options_.ranks);
  }
  if (!options_.device) {
    fail(ErrorKind::kValue, Fix{"set WorldOptions::device"},
         "the world has no device for its ranks");
  }
  if (backend_.by_class) {
    if (options_.layout != nullptr) return;
    fail(ErrorKind::kValue, Fix{"set WorldOptions::layout"},
         "backend {} runs one rank of each class of a mesh, and the world has no mesh",
         options_.backend);
  }
  if (backend_.processes == nullptr) {
    scheduler_ = make_scheduler(options_.schedule);
    return;
  }
  channel_ = &backend_.processes->join();
  if (channel_->size() != options_.ranks) {
    throw Error(ErrorKind::kValue,
                fmt::format("a world of {} ranks in a job of {} processes, which backend {} gives "
                            "one rank each",
                            options_.ranks, channel_->size(), options_.backend))
        .with("fix", fmt::format("{} {} ...", backend_.processes->launcher(options_.ranks),
                                 program_path().filename().string()));
  }
  scheduler_ = std::make_unique<SingleScheduler>(channel_->rank());
}

WorldResult World::run(const RankBody& body) {
  if (backend_.by_class) return run_classes(options_, body);
  std::vector<Device*> devices;
  devices.reserve(static_cast<std::size_t>(options_.ranks));
  for (std::int64_t rank = 0; rank < options_.ranks; ++rank) {
    devices.push_back(&options_.device(rank));
  }
  if (channel_ != nullptr) channel_->begin_run(about(options_, *backend_.processes));
  std::unique_ptr<Backend> backend = channel_ != nullptr
                                         ? backend_.processes->make(options_.checks)
                                         : backend_.make(options_.ranks, *scheduler_);
  if (has_fabric(options_)) {
    const SchedulerOptions& schedule = options_.schedule;
    use_fabric(
        *backend,
        {.transport = options_.transport.value_or(Transport::kNonblocking),
         .lazy_groups = options_.lazy_groups,
         .seed = schedule.kind == SchedulerKind::kSeeded ? schedule.seed + 1 : 0,
         .log = options_.log != nullptr && options_.log->events.empty() ? options_.log : nullptr});
  }
  RankRuns run(options_, *scheduler_, std::move(devices), std::move(backend), body);
  scheduler_->run(options_.ranks, [&run](std::int64_t rank) { run.serve(rank); });
  if (channel_ != nullptr) run.share_outcomes(*channel_);
  WorldResult result = run.result();
  result.steps = drawn_steps(*scheduler_);
  return result;
}

WorldResult World::run(const std::function<void(RankContext&)>& body) {
  return run([&](RankContext& rank, const RunsFor&) { body(rank); });
}

WorldResult run_world(WorldOptions options, const RankBody& body) {
  return World(std::move(options)).run(body);
}

WorldResult run_world(WorldOptions options, const std::function<void(RankContext&)>& body) {
  return World(std::move(options)).run(body);
}

}  // namespace shardlab
