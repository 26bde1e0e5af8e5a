#include "tests/bench/timed_communicator.h"

#include <exception>
#include <string>
#include <utility>

#include "comm/communicator.h"

namespace shardlab::bench {

namespace {

class TimedCommunicator final : public Communicator {
  template <typename Body>
  auto timed(const Body& body) {
    times_.entered = Clock::now();
    try {
      return body();
    } catch (const Error& error) {
      if (error.find("verdict") != nullptr) times_.told = Clock::now();
      throw;
    }
  }
  std::unique_ptr<Communicator> part(std::unique_ptr<Communicator> real) {
    if (!real) return nullptr;
    return std::make_unique<TimedCommunicator>(std::move(real), times_, Of::kPart);
  }

 public:
  enum class Of : std::uint8_t { kWorld, kPart };
  TimedCommunicator(std::unique_ptr<Communicator> real, RankTimes& times, Of group)
      : real_(std::move(real)), times_(times), group_(group) {}
  ~TimedCommunicator() override {
    if (group_ == Of::kPart) return;  // the rank's program ends with the world
    times_.ended = Clock::now();
    times_.threw = std::uncaught_exceptions() > 0;
  }

  std::int64_t rank() const override { return real_->rank(); }
  std::int64_t size() const override { return real_->size(); }
  std::span<const std::int64_t> ranks() const override { return real_->ranks(); }
  const std::string& name() const override { return real_->name(); }

  Tensor all_reduce(const Tensor& x, ReduceOp op, Issue issue) override {
    return timed([&] { return real_->all_reduce(x, op, issue); });
  }
  Tensor all_gather(const Tensor& x, std::int64_t dim, Lengths lengths, Issue issue) override {
    return timed([&] { return real_->all_gather(x, dim, lengths, issue); });
  }
  Tensor reduce_scatter(const Tensor& x, std::int64_t dim, Lengths lengths, ReduceOp op,
                        Issue issue) override {
    return timed([&] { return real_->reduce_scatter(x, dim, lengths, op, issue); });
  }
  Tensor all_to_all(const Tensor& x, std::int64_t split_dim, Lengths split_lengths,
                    std::int64_t concat_dim, Lengths concat_lengths, Issue issue) override {
    return timed([&] {
      return real_->all_to_all(x, split_dim, split_lengths, concat_dim, concat_lengths, issue);
    });
  }
  Tensor broadcast(const Tensor& x, std::int64_t source, const TensorMeta& meta) override {
    return timed([&] { return real_->broadcast(x, source, meta); });
  }
  Tensor scatter(const Tensor& x, std::int64_t source, std::int64_t dim, Lengths lengths,
                 const TensorMeta& meta) override {
    return timed([&] { return real_->scatter(x, source, dim, lengths, meta); });
  }
  Tensor gather(const Tensor& x, std::int64_t destination, std::int64_t dim,
                Lengths lengths) override {
    return timed([&] { return real_->gather(x, destination, dim, lengths); });
  }
  Tensor permute(const Tensor& x, std::int64_t to, std::int64_t from,
                 const TensorMeta& received) override {
    return timed([&] { return real_->permute(x, to, from, received); });
  }
  std::vector<Tensor> batch(std::span<const SendRecv> exchange) override {
    return timed([&] { return real_->batch(exchange); });
  }
  std::vector<std::string> all_gather_bytes(std::string_view bytes) override {
    return timed([&] { return real_->all_gather_bytes(bytes); });
  }
  void barrier() override {
    timed([&] { real_->barrier(); });
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override {
    return part(timed([&] { return real_->split(color, key, std::move(name)); }));
  }
  std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                      std::span<const std::size_t> mesh_dims) override {
    return part(timed([&] { return real_->along(layout, mesh_dims); }));
  }
  void abort(const Error& reason) override { real_->abort(reason); }

 private:
  const std::unique_ptr<Communicator> real_;
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

}  // namespace shardlab::bench
