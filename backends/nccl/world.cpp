// A process is one rank of one job for its whole life and runs worlds one after the other. The
// control channel carries NCCL's id, verdicts and the numbers of hosts.
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include <cstdio>

#include "backends/nccl/communicator.h"
#include "backends/nccl/launch.h"
#include "backends/nccl/library.h"
#include "backends/nccl/nccl.h"
#include "backends/process/last_resort.h"
#include "backends/process/presence.h"
#include "backends/process/rendezvous.h"
#include "backends/shared/meeting.h"

namespace shardlab::nccl {

namespace {

// The others hear why this process does not come.
template <typename Function>
auto told(const Function& function) {
  try {
    return function();
  } catch (const Error& error) {
    const std::optional<Launch> place = rank_zero_of(environment);
    if (place) process::tell_unfit(*place, error.summary());
    throw;
  }
}

// This process in its job, from the first world that needs it to the end of the process.
class Job {
 public:
  static Job& get() {
    static Job job;
    return job;
  }

  const Api& api() const { return api_; }
  ///   fails  Runtime where a rank has no device
  process::ControlChannel& channel() {
    if (without_device_) throw Error(*without_device_);
    return *channel_;
  }
  const std::vector<std::int64_t>& hosts() const { return channel_->hosts(); }
  int device() const { return device_; }
  /// "rank 0 sees 8 on its host, rank 1 sees 0": the first two of a host that do not see as many.
  std::string unequal_devices() const {
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (seats_[i].devices == seats_[j].devices || hosts()[i] != hosts()[j]) continue;
        return fmt::format("rank {} sees {} on its host, rank {} sees {}", j, seats_[j].devices, i,
                           seats_[i].devices);
      }
    }
    return "";
  }
  int worlds = 0;  ///< under way: 0 or 1

 private:
  ~Job() {
    // The program has called exit() in the middle of a run, whose threads use the channel. The
    // others hear of it from the system.
    if (worlds > 0) static_cast<void>(channel_.release());
  }
  Job()
      : launch_(told([] { return launch_of(environment); })), api_(*told([this] {
          mark_presence();
          return &open_library(environment("SHARDLAB_NCCL_LIBRARY").value_or(""));
        })) {
    channel_ = process::ControlChannel::open(launch_);
    channel_->learn_places();
    learn_devices();
  }

  void mark_presence() const {
    const std::string job = fmt::format("{} {} {}", launch_.job, launch_.host, launch_.port);
    if (process::mark_presence(job, launch_.rank, launch_.size) || launch_.size == 1) return;
    fail(ErrorKind::kValue, Fix{"give each process a RANK of its own"}, "two processes are rank {}",
         launch_.rank);
  }

  // The devices that a process sees, and why it cannot use its own.
  struct Seat {
    std::int64_t devices = 0;
    std::string refusal;
  };

  Seat own_seat() {
    Seat mine;
    try {
      const int devices = devices_of(api_, launch_.rank);
      mine.devices = devices;
      device_ = ordinal_of(launch_, environment, devices);
      check_device(device_, devices, launch_.rank);
    } catch (const Error& error) {
      mine.refusal = error.summary();
    }
    return mine;
  }

  // All processes refuse alike, before anything runs.
  void learn_devices() {
    const Seat mine = own_seat();
    for (const std::string& seat :
         channel_->exchange(process::packed(mine.devices, mine.refusal))) {
      Seat& one = seats_.emplace_back();
      if (!seat.empty()) process::Reader(seat).all(one.devices, one.refusal);
    }
    const auto unfit =
        std::ranges::find_if(seats_, [](const Seat& s) { return !s.refusal.empty(); });
    if (unfit == seats_.end()) return;
    without_device_.emplace(
        ErrorKind::kRuntime,
        fmt::format("rank {} cannot take part: {}", unfit - seats_.begin(), unfit->refusal));
    without_device_->with("fix", kOneRankADevice);
    if (const std::string counts = unequal_devices(); !counts.empty()) {
      without_device_->with("devices", counts);
    }
  }

  const Launch launch_;
  const Api& api_;
  std::unique_ptr<process::ControlChannel> channel_;
  int device_ = 0;
  std::vector<Seat> seats_;  ///< by rank
  std::optional<Error> without_device_;
};

class ChannelPeers final : public Peers {
 public:
  explicit ChannelPeers(process::ControlChannel& channel) : channel_(channel) {}
  std::optional<Error> failure() const override {
    if (!channel_.failed()) return std::nullopt;
    const Verdict verdict = channel_.verdict();
    const bool alive =
        verdict.kind == VerdictKind::kRankFailed && channel_.gone().empty() &&
        std::ranges::find(verdict.culprits, channel_.rank()) == verdict.culprits.end();
    if (alive && !last_messages_are_over()) return std::nullopt;
    return to_error(verdict);
  }
  void wait_on(std::chrono::milliseconds waited,
               std::chrono::milliseconds patience) const override {
    if (!channel_.failed()) channel_.wait_on(waited, patience);
  }
  [[noreturn]] void end_process(const std::string& what) const override {
    const bool failed = channel_.failed();
    const std::string text = failed ? to_error(channel_.verdict()).text() : what;
    if (channel_.speaks() || !process::somebody_spoke()) {
      fmt::print(stderr, "error: {}\n", text);
      process::tell_spoken();
    }
    channel_.write_errors(text, failed ? channel_.verdict().culprits : channel_.gone());
    std::fflush(nullptr);
    _exit(kOnlyByOthers);
  }
  void tell(const Error& reason) const override {
    if (channel_.failed()) return;
    channel_.report_failed(backends::verdict_on_failed({channel_.rank()}, reason.summary()));
  }

 private:
  bool last_messages_are_over() const {
    const std::lock_guard lock(mutex_);
    if (!heard_) heard_.emplace();
    return heard_->waited() > backends::kLastMessages;
  }

  process::ControlChannel& channel_;
  mutable std::mutex mutex_;
  mutable std::optional<backends::Patience> heard_;  ///< of a failure, for the first time
};

// One run of one rank.
class World final : public Backend {
 public:
  World(Job& job, CollectiveChecks checks)
      : job_(job), channel_(job.channel()), checks_(checks), peers_(channel_) {
    ++job_.worlds;
  }
  ~World() override { --job_.worlds; }

  std::unique_ptr<Communicator> world(std::int64_t rank) override {
    side_ = std::make_unique<LocalSide>(*current_rank().device);
    GroupPlace place;
    place.rank = rank;
    place.name = "world";
    place.hosts = job_.hosts();
    for (std::int64_t i = 0; i < channel_.size(); ++i) place.ranks.push_back(i);
    const UniqueId id = shared_id();
    try {
      session_ = std::make_shared<Session>(job_.api(), *side_, peers_, rank, job_.device());
      watch();
      channel_.waits_for("the start of NCCL");
      place.comm = session_->join(id, channel_.size(), rank);
    } catch (Error& error) {
      // The usual reason why two ranks take one device.
      const std::string counts = job_.unequal_devices();
      if (!counts.empty()) error.with("devices", counts);
      throw;
    }
    channel_.goes_on();
    turns_ = std::make_shared<Turns>(channel_, *session_, checks_);
    return make_communicator(
        session_, std::move(place),
        [this, rank](const Error& reason) { rank_failed(rank, reason); }, turns_);
  }

  // Before NCCL's communicators end, which waits for the other ranks.
  void settle(std::int64_t) override {
    turns_->settle();
    if (!channel_.failed()) channel_.report_ended();
    // A rank that has ended normally does not fail because of later failures of others.
    if (!session_->in_flight().idle()) session_->drain("the last collectives");
  }

  void rank_ended(std::int64_t) override {
    if (session_) session_->end();
  }

  // In this order: our abort waits for the others' aborts.
  void rank_failed(std::int64_t, const Error& cause) override {
    peers_.tell(cause);
    if (session_) session_->abort();
  }

  const Verdict* verdict() const override {
    if (!channel_.failed()) return nullptr;
    if (!verdict_) verdict_ = channel_.verdict();
    return &*verdict_;
  }

 private:
  // A rank that computes, or waits for its device, receives failures through these two.
  void watch() {
    channel_.on_failure([bell = session_->bell()] { bell->ring(); });
    side_->watch([session = std::weak_ptr<Session>(session_)](std::chrono::milliseconds waited) {
      if (const auto alive = session.lock()) alive->check_wait(waited, "its device");
    });
  }

  // Rank 0 makes it.
  UniqueId shared_id() {
    UniqueId mine{};
    if (channel_.rank() == 0) {
      check(job_.api(), job_.api().GetUniqueId(&mine), "ncclGetUniqueId", 0, nullptr);
    }
    process::Writer writer;
    writer.put(mine);
    const std::vector<std::string> all = channel_.exchange(writer.bytes());
    // A rank that fails before it has no part in it, and the verdict comes before the parts.
    if (channel_.failed()) throw to_error(channel_.verdict());
    return process::Reader(all[0]).get<UniqueId>();
  }

  Job& job_;
  process::ControlChannel& channel_;
  const CollectiveChecks checks_;
  const ChannelPeers peers_;
  std::unique_ptr<LocalSide> side_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Turns> turns_;
  mutable std::optional<Verdict> verdict_;
};

}  // namespace

process::ControlChannel& join() { return Job::get().channel(); }

std::unique_ptr<Backend> make_backend(CollectiveChecks checks) {
  return std::make_unique<World>(Job::get(), checks);
}

int device_ordinal() { return Job::get().device(); }

std::string libraries() { return versions(Job::get().api()); }

std::string launcher(std::int64_t ranks) {
  return fmt::format("torchrun --nproc-per-node {} --no-python", ranks);
}

}  // namespace shardlab::nccl
