// MPI is opened as a module when a world needs it. Rank 0's host and port are sent in one MPI
// broadcast; from then on control messages have a channel of their own, because MPI does not report
// that a rank has died.
#include "backends/mpi/session.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <optional>

#include "backends/process/hosts.h"
#include "backends/process/last_resort.h"
#include "backends/shared/module.h"
#include "backends/shared/patience.h"
#include "base/error.h"

namespace shardlab::mpi {

namespace {

// Set by the launchers of Open MPI, of MPICH and of Slurm.
bool launched() {
  const std::initializer_list<const char*> signs = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK",
                                                    "PMI_SIZE"};
  return std::ranges::any_of(signs, [](const char* name) { return std::getenv(name) != nullptr; });
}

const Api* open_api() {
  if (!launched()) {
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
  last_resort.emplace(join, fmt::format("not all processes of the job have come to MPI_Init within "
                                        "{:g} s (SHARDLAB_JOIN_SECONDS=SECONDS waits longer)",
                                        std::chrono::duration<double>(join).count()));
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
  hosts_ = process::host_numbers(*channel_);
}

Session::~Session() {
  const bool whole = channel_->leave();
  channel_.reset();
  if (!whole) return;
  const process::LastResort last_resort(
      patience_, fmt::format("not all processes of the job have come to MPI_Finalize within {:g} s",
                             std::chrono::duration<double>(patience_).count()));
  api_->finish();
}

void Session::begin_run() { check(api_->renew(), "the next run's tags"); }

void Session::check(int code, const char* what) const {
  if (code != 0) fail(ErrorKind::kRuntime, "{} failed: {}", what, api_->error_text(code));
}

}  // namespace shardlab::mpi
