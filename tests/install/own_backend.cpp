// A backend outside of the repository that runs the conformance suite. It passes its work to the
// backend `threads`. With SPOILT in the environment the first rank of each group forgets the
// others' terms of a sum: the suite must notice.
#include <shardlab/backend.h>
#include <shardlab/conformance.h>

#include <cstdlib>

using namespace shardlab;

class RelayCommunicator final : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

  Tensor perform(Call& call) override {
    Tensor result = real().perform(call);
    const bool sum = call.kind == CollectiveKind::kAllReduce && call.op == ReduceOp::kSum;
    const bool spoilt = std::getenv("SPOILT") != nullptr && sum && rank() == 0;
    return spoilt ? call.x->snapshot() : result;
  }

 protected:
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
    return std::make_unique<RelayCommunicator>(std::move(part));
  }
};

class Relay final : public Backend {
 public:
  explicit Relay(std::unique_ptr<Backend> real) : real_(std::move(real)) {}

  std::unique_ptr<Communicator> world(std::int64_t rank) override {
    return std::make_unique<RelayCommunicator>(real_->world(rank));
  }
  void settle(std::int64_t rank) override { real_->settle(rank); }
  void rank_ended(std::int64_t rank) override { real_->rank_ended(rank); }
  void rank_failed(std::int64_t rank, const Error& cause) override {
    real_->rank_failed(rank, cause);
  }
  const Verdict* verdict() const override { return real_->verdict(); }

 private:
  std::unique_ptr<Backend> real_;
};

std::unique_ptr<Backend> make_relay(std::int64_t ranks, Scheduler& scheduler) {
  return std::make_unique<Relay>(make_threads_backend(ranks, scheduler));
}

#include <own_backend.inc>
