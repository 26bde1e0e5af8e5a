// One run of this process's rank: failures and verdicts use the control channel, data uses MPI.
#include "backends/mpi/communicator.h"
#include "backends/mpi/mpi.h"
#include "backends/shared/meeting.h"
#include "base/error.h"

namespace shardlab::mpi {

namespace {

/// One run of this process's rank.
class MpiBackend final : public Backend {
 public:
  explicit MpiBackend(CollectiveChecks checks) : run_(Session::get(), checks) {}

  std::unique_ptr<Communicator> world(std::int64_t rank) override {
    check_invariant(rank == channel().rank(), "a process runs its own rank only");
    return make_world(run_);
  }
  void settle(std::int64_t) override { mpi::settle(run_); }
  void rank_ended(std::int64_t rank) override {
    static_cast<void>(rank);
    if (!channel().failed()) channel().report_ended();
  }
  void rank_failed(std::int64_t rank, const Error& cause) override {
    if (channel().failed()) return;
    channel().report_failed(backends::verdict_on_failed({rank}, cause.summary()));
  }
  const Verdict* verdict() const override {
    if (!channel().failed()) return nullptr;
    verdict_ = channel().verdict();
    return &*verdict_;
  }

 private:
  process::ControlChannel& channel() const { return Session::get().channel(); }

  Run run_;
  mutable std::optional<Verdict> verdict_;
};

}  // namespace

process::ControlChannel& join() { return Session::get().channel(); }

std::unique_ptr<Backend> make_backend(CollectiveChecks checks) {
  return std::make_unique<MpiBackend>(checks);
}

std::string libraries() { return Session::get().api().version; }

std::string launcher(std::int64_t ranks) { return fmt::format("mpirun -n {}", ranks); }

}  // namespace shardlab::mpi
