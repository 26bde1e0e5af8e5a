// MPI is opened as a module when a world needs it. Rank 0's host and port are sent in one MPI
// broadcast; from then on control messages have a channel of their own, because MPI does not report
// that a rank has died.
#include "backends/mpi/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "backends/process/last_resort.h"
#include "backends/process/presence.h"
#include "backends/shared/module.h"
#include "backends/shared/patience.h"
#include "comm/verdict.h"

namespace shardlab::mpi {

namespace {

// The variables of a launcher, by which it is known: Open MPI's, those of MPICH and its kin,
// Slurm's.
struct Launcher {
  const char *rank, *size, *local_size, *job;
};
constexpr Launcher kLaunchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_ID"},
    {"PMIX_RANK", "SLURM_NTASKS", "SLURM_TASKS_PER_NODE", "SLURM_JOB_ID"},
};

const Launcher* launcher_here() {
  const auto* const found = std::ranges::find_if(
      kLaunchers, [](const Launcher& launcher) { return std::getenv(launcher.rank) != nullptr; });
  return found == std::end(kLaunchers) ? nullptr : found;
}

std::int64_t number(const char* variable, std::int64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoll(text);
}

void mark_own_presence(const Launcher& launcher) {
  const char* job = std::getenv(launcher.job);
  process::mark_presence(job != nullptr ? job : fmt::format("of process {}", getppid()),
                         number(launcher.rank, 0), number(launcher.size, 0));
}

// Names those that have not come to MPI_Init; empty where another process of this host says so.
std::string who_is_missing(const Launcher& launcher, std::chrono::milliseconds join) {
  if (!process::must_speak()) return "";
  const std::int64_t size = number(launcher.size, 0), here = number(launcher.local_size, size);
  const std::vector<std::int64_t> present = process::ranks_present();
  const auto came = static_cast<std::int64_t>(present.size());
  std::string who = "not all processes of the job have";
  if (came > 0 && came < size && here == size) {
    std::vector<std::int64_t> missing;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      if (!std::ranges::binary_search(present, rank)) missing.push_back(rank);
    }
    who = fold_ranks(missing) + (missing.size() == 1 ? " has" : " have");
  } else if (came > 0 && came < size) {
    who += fmt::format(", on this host {} of {} ({}), have", came, here, fold_ranks(present));
  }
  const bool named = here == size && came > 0 && came < size;
  return fmt::format(
      "{}{} come to MPI_Init within {:g} s (SHARDLAB_JOIN_SECONDS=SECONDS waits "
      "longer)",
      who, named ? " not" : "", std::chrono::duration<double>(join).count());
}

const Api* open_api() {
  if (launcher_here() == nullptr) {
    throw Error(ErrorKind::kRuntime,
                "backend mpi runs each rank in a process, and no launcher started "
                "the others")
        .with("fix", "mpirun -n RANKS in front of the command");
  }
  void* function = backends::module_function(
      "shardlab_mpi", kTableSymbol,
      "apt-get install libopenmpi-dev openmpi-bin, then build again (-Dmpi=enabled says what is "
      "missing)");
  return reinterpret_cast<TableFunction>(function)();
}

// The place where rank 0 listens, sent to all through MPI.
struct Meeting {
  std::array<char, 256> host{};
  std::uint16_t port = 0;
  std::int64_t process = 0;  ///< of rank 0: separates its job from others
};

}  // namespace

Session& Session::get() {
  static Session session;
  return session;
}

Session::Session() : api_(open_api()), patience_(backends::longest_wait()) {
  const std::chrono::milliseconds join = backends::longest_join();
  std::optional<process::LastResort> last_resort;
  const Launcher& launcher = *launcher_here();
  mark_own_presence(launcher);
  last_resort.emplace(join, [&launcher, join] { return who_is_missing(launcher, join); });
  int rank = 0, size = 1;
  check(api_->start(&rank, &size), "MPI_Init");
  std::array<char, 256> here{};
  gethostname(here.data(), here.size() - 1);
  Meeting meeting;
  std::optional<process::Listener> listener;
  if (rank == 0) {
    listener.emplace(std::uint16_t{0});
    meeting = {here, listener->port(), getpid()};
  }
  check(api_->broadcast(&meeting, sizeof meeting, 0), "MPI_Bcast");
  last_resort.reset();
  // On one host the name need not resolve.
  const std::string host = meeting.host == here ? "localhost" : meeting.host.data();
  channel_ = process::ControlChannel::open({.rank = rank,
                                            .size = size,
                                            .host = host,
                                            .port = meeting.port,
                                            .job = fmt::format("mpi {}", meeting.process),
                                            .patience = join},
                                           std::move(listener));
  channel_->learn_places();
  marks_.resize(static_cast<std::size_t>(size));
}

Session::~Session() {
  const bool whole = channel_->leave();
  const bool speaks = channel_->speaks();
  channel_.reset();
  if (!whole) return;
  const process::LastResort last_resort(patience_, [this, speaks] {
    if (!speaks && process::somebody_spoke()) return std::string();
    return fmt::format("not all processes of the job have come to MPI_Finalize within {:g} s",
                       std::chrono::duration<double>(patience_).count());
  });
  api_->finish();
}

void Session::begin_run() { check(api_->renew(), "the next run's tags"); }

FirstMessageRef Session::take_first() {
  if (spare_.empty()) return std::make_unique_for_overwrite<FirstMessage>();
  FirstMessageRef first = std::move(spare_.back());
  spare_.pop_back();
  return first;
}

void Session::check(int code, const char* what) const {
  if (code != 0) fail(ErrorKind::kRuntime, "{} failed: {}", what, api_->error_text(code));
}

}  // namespace shardlab::mpi
