// Collectives of backend nccl against a loop of NCCL's own calls on the same buffers' sizes, one
// rank a process:
//   ranks.py -n RANKS nccl_bench [cpu|cuda]
// "shardlab" is the door's call with its result in place (device cuda: ordered, not waited for),
// "NCCL" is the bare call; both wait for the device once, after the last of a round. Times are
// those of the fastest of five rounds, divided by the calls in it. Before that: the time of the
// first call of a world, which makes connections, and the device's memory that a communicator
// keeps, NCCL's own and that of a world together with its first call.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "backends/nccl/launch.h"
#include "backends/nccl/library.h"
#include "backends/nccl/nccl.h"
#include "backends/process/control_channel.h"
#include "comm/process_group.h"
#include "sim/world/devices.h"
#include "sim/world/world.h"
#include "tensor/host.h"

using namespace shardlab;

namespace {

constexpr int kCalls = 20;
constexpr int kRounds = 5;

template <typename Round>
double microseconds_a_call(Round round) {
  round();  // the first round also makes connections
  double best = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    round();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    best = i == 0 ? took.count() : std::min(best, took.count());
  }
  return best / kCalls;
}

// NCCL alone: a communicator and a stream of its own.
class BareLoop {
 public:
  explicit BareLoop(process::ControlChannel& channel)
      : api_(nccl::open_library(nccl::environment("SHARDLAB_NCCL_LIBRARY").value_or(""))),
        rank_(channel.rank()) {
    nccl::UniqueId id{};
    if (rank_ == 0) nccl::check(api_, api_.GetUniqueId(&id), "ncclGetUniqueId", 0, nullptr);
    const auto all = channel.exchange(std::string_view(id.internal, sizeof id.internal));
    std::memcpy(id.internal, all[0].data(), sizeof id.internal);
    nccl::check(api_, api_.SetDevice(nccl::device_ordinal()), "cudaSetDevice", rank_);
    nccl::check(api_, api_.StreamCreateWithFlags(&stream_, nccl::kStreamNonBlocking),
                "cudaStreamCreate", rank_);
    nccl::Config config;
    config.blocking = 1;
    nccl::check(api_,
                api_.CommInitRankConfig(&comm_, static_cast<int>(channel.size()), id,
                                        static_cast<int>(rank_), &config),
                "ncclCommInitRankConfig", rank_, nullptr);
  }
  ~BareLoop() {
    api_.StreamSynchronize(stream_);
    api_.CommDestroy(comm_);
    api_.StreamDestroy(stream_);
  }
  BareLoop(const BareLoop&) = delete;
  BareLoop& operator=(const BareLoop&) = delete;

  void all_reduce(const Tensor& x, const Tensor& y) {
    for (int i = 0; i < kCalls; ++i) {
      nccl::check(api_,
                  api_.AllReduce(address(x), address(y), static_cast<std::size_t>(x.numel()),
                                 nccl::DataType::kFloat32, nccl::RedOp::kSum, comm_, stream_),
                  "ncclAllReduce", rank_, comm_);
    }
    nccl::check(api_, api_.StreamSynchronize(stream_), "cudaStreamSynchronize", rank_);
  }
  void all_gather(const Tensor& x, const Tensor& y) {
    for (int i = 0; i < kCalls; ++i) {
      nccl::check(api_,
                  api_.AllGather(address(x), address(y), static_cast<std::size_t>(x.numel()),
                                 nccl::DataType::kFloat32, comm_, stream_),
                  "ncclAllGather", rank_, comm_);
    }
    nccl::check(api_, api_.StreamSynchronize(stream_), "cudaStreamSynchronize", rank_);
  }

 private:
  static void* address(const Tensor& x) { return x.storage()->buffer()->data(); }

  const nccl::Api& api_;
  const std::int64_t rank_;
  nccl::Comm comm_ = nullptr;
  nccl::Stream stream_ = nullptr;
};

// Orders the host after everything.
void wait_for(const Tensor& y) { read_doubles(y.narrow(0, 0, 1)); }

std::size_t free_bytes() {
  const nccl::Api& api =
      nccl::open_library(nccl::environment("SHARDLAB_NCCL_LIBRARY").value_or(""));
  std::size_t free = 0, total = 0;
  nccl::check(api, api.SetDevice(nccl::device_ordinal()), "cudaSetDevice", 0);
  nccl::check(api, api.MemGetInfo(&free, &total), "cudaMemGetInfo", 0);
  return free;
}

double mebibytes(std::size_t before, std::size_t after) {
  return (static_cast<double>(before) - static_cast<double>(after)) / (1 << 20);
}

double first_call(RankContext& rank) {
  const Tensor x = empty(*rank.device, Dims{1024}, DType::kF32);
  write_doubles(x, std::vector<double>(1024, 1));
  wait_for(x);
  const auto begin = std::chrono::steady_clock::now();
  wait_for(rank.world->all_reduce(x, ReduceOp::kSum));
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

// `sent`: bytes that pass each link of a ring, by the formulas of nccl-tests (its "busbw").
void report(std::string_view what, std::int64_t bytes, double sent, double ours, double bare) {
  if (current_rank().rank != 0) return;
  std::printf(
      "%-11s %8.3f MiB a rank   shardlab %10.1f us %8.2f GB/s   NCCL %10.1f us %8.2f GB/s   "
      "ratio %.2f\n",
      what.data(), static_cast<double>(bytes) / (1 << 20), ours, sent / ours / 1e3, bare,
      sent / bare / 1e3, ours / bare);
  std::fflush(stdout);
}

void measure(RankContext& rank, BareLoop& bare, std::int64_t elements) {
  ProcessGroup& world = *rank.world;
  const std::int64_t ranks = rank.world_size;
  const Tensor x = empty(*rank.device, Dims{elements}, DType::kF32);
  write_doubles(x, std::vector<double>(static_cast<std::size_t>(elements), 1));
  const Tensor reduced = empty(*rank.device, Dims{elements}, DType::kF32);
  const Tensor gathered = empty(*rank.device, Dims{elements * ranks}, DType::kF32);
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(ranks), elements);
  wait_for(x);
  const double reduce_time = microseconds_a_call([&] {
    Tensor y;
    for (int i = 0; i < kCalls; ++i) y = world.all_reduce(x, ReduceOp::kSum);
    wait_for(y);
  });
  const auto bytes = static_cast<double>(elements * 4);
  const auto others = static_cast<double>(ranks - 1);
  report("all_reduce", elements * 4, 2 * bytes * others / static_cast<double>(ranks), reduce_time,
         microseconds_a_call([&] { bare.all_reduce(x, reduced); }));
  const double gather_time = microseconds_a_call([&] {
    Tensor y;
    for (int i = 0; i < kCalls; ++i) y = world.all_gather(x, 0, lengths);
    wait_for(y);
  });
  report("all_gather", elements * 4, bytes * others, gather_time,
         microseconds_a_call([&] { bare.all_gather(x, gathered); }));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool on_host = argc > 1 && std::string_view(argv[1]) == "cpu";
    process::ControlChannel& channel = nccl::join();
    const std::unique_ptr<Device> device = make_device({.name = on_host ? "cpu" : "cuda"}, "nccl");
    WorldOptions options;
    options.ranks = channel.size();
    options.backend = "nccl";
    options.device = [&](std::int64_t) -> Device& { return *device; };
    const std::size_t empty_bytes = free_bytes();
    BareLoop bare(channel);
    const std::size_t bare_bytes = free_bytes();
    run_world(options, [&](RankContext& rank) {
      const double first = first_call(rank);
      const std::size_t world_bytes = free_bytes();
      const double second = first_call(rank);
      if (rank.rank == 0) {
        std::printf(
            "first all_reduce of a world %.1f ms, a second one %.3f ms\n"
            "memory of a communicator %.1f MiB, of a world with its first call %.1f MiB\n",
            first, second, mebibytes(empty_bytes, bare_bytes), mebibytes(bare_bytes, world_bytes));
      }
      // 4 KiB to 256 MiB; the double on the host would take long for more than 1 MiB.
      const std::int64_t most = on_host ? 1 << 18 : 1 << 26;
      for (std::int64_t elements = 1 << 10; elements <= most; elements *= 16) {
        measure(rank, bare, elements);
      }
    }).rethrow();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.text().c_str());
    return 1;
  }
}
