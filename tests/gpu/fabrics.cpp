// NCCL's own answer to calls that ranks make in other orders than each other, for comparison with
// what `shardlab prove` says of them:
//   ranks.py -n RANKS fabrics SCHEDULE one|each BYTES ends|hangs|either
// SCHEDULE: CSV as of scenarios/hangs.md with one stage a rank, whose messages are made on one
// communicator and whose computations and waits are left out; SUM_g and SUM_h are all_reduces on
// two more. "one": all of them share a stream; "each": each has its own. BYTES: of a message and of
// a sum. All connections are there before. Exit code 1 where the last word does not hold; a rank
// whose calls are not over after SHARDLAB_PATIENCE hangs.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "backends/nccl/errand.h"
#include "backends/nccl/group.h"
#include "backends/nccl/launch.h"
#include "backends/nccl/library.h"
#include "backends/nccl/nccl.h"
#include "backends/process/control_channel.h"
#include "backends/shared/patience.h"
#include "base/error.h"
#include "sim/world/devices.h"
#include "tensor/tensor.h"

using namespace shardlab;
using namespace shardlab::nccl;

namespace {

constexpr std::string_view kComms[] = {"messages", "SUM_g", "SUM_h"};
constexpr std::size_t kCount = std::size(kComms);

// One call of a row.
struct Step {
  std::size_t comm;
  GroupCall call;
};

// This rank's communicators and streams, and memory for all calls.
struct Fabric {
  Fabric(process::ControlChannel& control, Device& memory, bool own_streams, std::size_t bytes)
      : channel(control),
        api(open_library(environment("SHARDLAB_NCCL_LIBRARY").value_or(""))),
        from(empty(memory, Dims{static_cast<std::int64_t>(bytes)}, DType::kU8)),
        to(empty(memory, Dims{static_cast<std::int64_t>(bytes)}, DType::kU8)) {
    const auto rank = static_cast<int>(channel.rank());
    check(api, api.SetDevice(device_ordinal()), "cudaSetDevice", rank);
    for (std::size_t i = 0; i < kCount; ++i) {
      Lane lane{.api = api, .device = device_ordinal(), .rank = rank};
      check(api, api.GetVersion(&lane.version), "ncclGetVersion", rank, nullptr);
      if (i == 0 || own_streams) {
        check(api, api.StreamCreateWithFlags(&lane.stream, kStreamNonBlocking), "cudaStreamCreate",
              rank);
      } else {
        lane.stream = lanes[0].stream;
      }
      lanes[i] = lane;
      UniqueId id{};
      if (rank == 0) check(api, api.GetUniqueId(&id), "ncclGetUniqueId", rank, nullptr);
      const auto all = channel.exchange(std::string_view(id.internal, sizeof id.internal));
      std::memcpy(id.internal, all[0].data(), sizeof id.internal);
      Config config;
      config.blocking = 1;
      check(api,
            api.CommInitRankConfig(&comms[i], static_cast<int>(channel.size()), id, rank, &config),
            "ncclCommInitRankConfig", rank, nullptr);
    }
  }

  GroupCall call(GroupCall::Kind kind, std::int64_t peer = -1) const {
    return {.kind = kind,
            .from = kind == GroupCall::Kind::kRecv ? nullptr : from.storage()->buffer()->data(),
            .to = kind == GroupCall::Kind::kSend ? nullptr : to.storage()->buffer()->data(),
            .count = static_cast<std::size_t>(from.numel()),
            .type = DataType::kUint8,
            .peer = static_cast<int>(peer)};
  }
  // Ends the process where NCCL refuses: an errand throws nothing.
  void make(std::size_t comm, const std::vector<GroupCall>& calls) const {
    const Outcome outcome = make_group(lanes[comm], comms[comm], calls);
    if (outcome.result == Result::kSuccess) return;
    std::fprintf(
        stderr, "error: rank %d: %s\n", static_cast<int>(channel.rank()),
        outcome.error ? outcome.error->text().c_str() : api.GetErrorString(outcome.result));
    std::_Exit(2);
  }
  // Messages in both directions between all neighbours, and the sums, as one group each.
  void connect() const {
    std::vector<GroupCall> calls;
    for (const std::int64_t peer : {channel.rank() - 1, channel.rank() + 1}) {
      if (peer < 0 || peer >= channel.size()) continue;
      calls.push_back(call(GroupCall::Kind::kSend, peer));
      calls.push_back(call(GroupCall::Kind::kRecv, peer));
    }
    make(0, calls);
    for (std::size_t i = 1; i < kCount; ++i) make(i, {call(GroupCall::Kind::kAllReduce)});
    for (const Lane& lane : lanes) {
      check(api, api.StreamSynchronize(lane.stream), "cudaStreamSynchronize", lane.rank);
    }
    static_cast<void>(channel.exchange("connected"));
  }
  bool over() const {
    bool all = true;
    for (const Lane& lane : lanes) {
      all = all && api.StreamQuery(lane.stream) == CudaError::kSuccess;
    }
    return all;
  }

  process::ControlChannel& channel;
  const Api& api;
  const Tensor from, to;
  std::array<Lane, kCount> lanes;
  std::array<Comm, kCount> comms{};
};

// "1SEND_B0" of the row of stage 1 sends to stage 0.
std::vector<Step> steps_of(const Fabric& fabric, const std::string& row) {
  std::vector<Step> steps;
  std::istringstream cells(row);
  for (std::string cell; std::getline(cells, cell, ',');) {
    for (std::size_t i = 1; i < kCount; ++i) {
      if (cell == kComms[i]) steps.push_back({i, fabric.call(GroupCall::Kind::kAllReduce)});
    }
    const bool sends = cell.find("SEND_") != std::string::npos;
    const bool waits = cell.find("WAIT") != std::string::npos;
    if (waits || (!sends && cell.find("RECV_") == std::string::npos)) continue;
    const bool forward = cell[cell.find('_') + 1] == 'F';
    steps.push_back({0, fabric.call(sends ? GroupCall::Kind::kSend : GroupCall::Kind::kRecv,
                                    fabric.channel.rank() + (sends == forward ? 1 : -1))});
  }
  return steps;
}

std::string row_of(const char* path, std::int64_t rank) {
  std::ifstream file(path);
  std::string row;
  for (std::int64_t i = 0; i <= rank; ++i) {
    if (!std::getline(file, row)) {
      fail(ErrorKind::kValue, Fix{"give it a row for each rank"}, "{} has no row {}", path, i);
    }
  }
  return row;
}

int run(char** words) {
  process::ControlChannel& channel = join();
  const auto device =
      make_device({.name = environment("SHARDLAB_DEVICE").value_or("cuda")}, "nccl");
  const Fabric fabric(channel, *device, std::string_view(words[2]) == "each",
                      std::strtoull(words[3], nullptr, 10));
  fabric.connect();
  const std::vector<Step> steps = steps_of(fabric, row_of(words[1], channel.rank()));
  // A call may wait as well, where the queue of the device is full.
  Errand calls;
  calls.begin([&] {
    fabric.api.SetDevice(fabric.lanes[0].device);
    for (const Step& step : steps) fabric.make(step.comm, {step.call});
  });
  backends::Patience patience;
  const auto over = [&] { return calls.over() && fabric.over(); };
  while (!over() && patience.waited() < backends::longest_wait()) patience.pause();
  const std::string came = over() ? "ends" : "hangs";
  // Nobody ends his communicators while others look.
  std::string all;
  for (const std::string& answer : channel.exchange(came)) all += " " + answer;
  const bool right = std::string_view(words[4]) == "either" || came == words[4];
  if (channel.rank() == 0 || !right) {
    std::printf("%s: expected %s, by rank%s\n", words[1], words[4], all.c_str());
  }
  std::fflush(stdout);
  static_cast<void>(channel.exchange("told"));
  // Destructors would wait for calls that hang.
  std::_Exit(right ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc == 5) return run(argv);
    std::fputs("usage: fabrics SCHEDULE one|each BYTES ends|hangs|either\n", stderr);
    return 2;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.text().c_str());
    return 2;
  }
}
