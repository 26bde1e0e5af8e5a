// One rank of a job falls silent, dies, or calls something else than the others, as its argument
// says; the others print what they hear, and when. With "launches" they do not wait for the sum
// that never comes, but launch more after it than a device takes; with "message" they receive from
// the odd rank in place of the sum. Driven by ways_test.py, over MPI and over the double of NCCL.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "comm/process_group.h"
#include "sim/world/spmd.h"
#include "tensor/host.h"

using namespace shardlab;

namespace {

constexpr std::int64_t kOdd = 1;  // the rank

void say(std::int64_t rank, const std::string& text) {
  // Processes of one machine read the same clock.
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  std::string line =
      fmt::format("{} {:.3f} {}\n", rank, std::chrono::duration<double>(now).count(), text);
  // At once, and in one piece: several processes write to one pipe.
  if (write(STDOUT_FILENO, line.data(), line.size()) < 0) std::abort();
}

Tensor ones(RankContext& rank, std::int64_t count, DType dtype = DType::kF32) {
  const Tensor x = empty(*rank.device, Dims{count}, dtype);
  write_doubles(x, std::vector<double>(static_cast<std::size_t>(count), 1));
  return x;
}

void fall_silent(std::string_view way) {
  if (way == "stop") raise(SIGSTOP);
  for (const volatile bool on = true; way == "loop" && on;) {
  }
  while (way == "sleep") sleep(1000);
}

void die(std::string_view way) {
  if (way == "kill") raise(SIGKILL);
  if (way == "segv") raise(SIGSEGV);
  if (way == "throw") throw std::runtime_error("mine");
  if (way == "exit") std::exit(0);
  if (way == "abort") std::abort();
  if (way == "_exit") _exit(0);
}

// The odd rank's call in place of the others' second sum; false: the same.
bool call_otherwise(std::string_view way, RankContext& rank) {
  if (way == "skip") return true;
  if (way == "dtype") rank.world->all_reduce(ones(rank, 300, DType::kF64), ReduceOp::kSum);
  if (way == "size") rank.world->all_reduce(ones(rank, 3'000), ReduceOp::kSum);
  if (way == "other") rank.world->barrier();
  return way == "dtype" || way == "size" || way == "other";
}

// The odd rank sends to all others, in their order.
void pass_messages(RankContext& rank) {
  const TensorMeta meta = contiguous_meta(Dims{300}, DType::kF32);
  if (rank.rank != kOdd) {
    rank.world->recv(meta, kOdd, 0);
    return;
  }
  for (std::int64_t other = 0; other < rank.world_size; ++other) {
    if (other != kOdd) rank.world->send(ones(rank, 300), other, 0);
  }
}

}  // namespace

int main(int count, char** arguments) {
  WorldOptions defaults;
  defaults.ranks = 4;
  const WorldOptions options = options_from(count, arguments, defaults);
  const std::string_view way = count > 1 ? arguments[1] : "";
  const bool at_the_end = count > 2 && std::string_view(arguments[2]) == "end";
  const bool message = count > 2 && std::string_view(arguments[2]) == "message";
  const bool launches = count > 2 && std::string_view(arguments[2]) == "launches";
  std::int64_t me = -1;
  try {
    spmd(options, [&](RankContext& rank) {
      me = rank.rank;
      const bool odd = rank.rank == kOdd;
      rank.world->all_reduce(ones(rank, 300), ReduceOp::kSum);
      if (odd && !at_the_end) {
        say(me, "goes its way");
        fall_silent(way);
        die(way);
        if (call_otherwise(way, rank)) return;
      }
      if (message) return pass_messages(rank);
      const Tensor sum = rank.world->all_reduce(ones(rank, 300), ReduceOp::kSum);
      for (int i = 0; launches && i < 3'000; ++i) clone_contiguous(sum);
      if (odd && at_the_end) {
        say(me, "goes its way");
        fall_silent(way);
        die(way);
      }
    });
  } catch (const Error& error) {
    say(me, error.text());
    return 1;
  } catch (const std::exception& error) {
    say(me, error.what());
    return 1;
  }
  say(me, "fine");
  return 0;
}
