#include "tests/bench/timed_communicator.h"

#include <string>
#include <utility>

#include "comm/forwarding_communicator.h"

namespace shardlab::bench {

namespace {

template <typename Body>
auto timed(RankTimes& times, const Body& body) {
  times.entered = Clock::now();
  try {
    return body();
  } catch (const Error& error) {
    if (error.find("verdict") != nullptr) times.told = Clock::now();
    throw;
  }
}

class TimedCommunicator final : public ForwardingCommunicator {
 public:
  enum class Of : std::uint8_t { kWorld, kPart };
  TimedCommunicator(std::unique_ptr<Communicator> real, RankTimes& times, Of group)
      : ForwardingCommunicator(std::move(real)), times_(times), group_(group) {}
  ~TimedCommunicator() override {
    if (group_ == Of::kPart) return;  // the rank's program ends with the world
    times_.ended = Clock::now();
  }

  Tensor perform(Call& call) override {
    return timed(times_, [&] { return real().perform(call); });
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override {
    return timed(times_,
                 [&] { return ForwardingCommunicator::split(color, key, std::move(name)); });
  }
  std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                      std::span<const std::size_t> mesh_dims) override {
    return timed(times_, [&] { return ForwardingCommunicator::along(layout, mesh_dims); });
  }

 protected:
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
    return std::make_unique<TimedCommunicator>(std::move(part), times_, Of::kPart);
  }

 private:
  RankTimes& times_;
  const Of group_;
};

}  // namespace

CommunicatorDecorator TimedWorld::decorator() {
  return [this](std::unique_ptr<Communicator> real) {
    RankTimes& times = ranks_[static_cast<std::size_t>(real->rank())];
    times.entered = Clock::now();
    return std::make_unique<TimedCommunicator>(std::move(real), times,
                                               TimedCommunicator::Of::kWorld);
  };
}

std::function<void(RankContext&)> TimedWorld::body(std::function<void(RankContext&)> program) {
  return [this, program = std::move(program)](RankContext& rank) {
    try {
      program(rank);
    } catch (...) {
      ranks_[static_cast<std::size_t>(rank.rank)].threw = Clock::now();
      throw;
    }
  };
}

}  // namespace shardlab::bench
