// Counts the collectives of a program, on any backend.
#include <shardlab/backend.h>
#include <shardlab/shardlab.h>

#include <atomic>
#include <cstdio>

using namespace shardlab;

static std::atomic<int> calls = 0;

struct Counting final : ForwardingCommunicator {
  using ForwardingCommunicator::ForwardingCommunicator;
  Tensor perform(Call& call) override { return ++calls, real().perform(call); }
  std::unique_ptr<Communicator> wrap(std::unique_ptr<Communicator> part) override {
    return std::make_unique<Counting>(std::move(part));
  }
};

int main(int argc, char** argv) {
  WorldOptions options{.ranks = 4};
  options.communicator = [](auto real) { return std::make_unique<Counting>(std::move(real)); };
  const int code = run_main(argc, argv, options, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
    const DTensor x = distribute_tensor(randn({7, 8}), mesh, "dp=S(0), tp=S(1)");
    x.matmul(x.transpose(0, 1)).full_tensor();
  });
  std::printf("%d calls\n", calls.load());
  return code;
}
