// A small world for recorded cases: each rank gets its recorded piece, runs the body, and the
// collectives of rank 0 are counted under the names of the recordings.
#include "tests/facts/fact_world.h"

#include <cmath>

#include "comm/device_mesh.h"
#include "comm/observer.h"
#include "kernels/cpu_kernels.h"
#include "sim/world/world.h"
#include "tensor/host.h"
#include "tests/facts/fact_json.h"

namespace shardlab {
namespace {

class CountingObserver : public Observer {
 public:
  explicit CountingObserver(FactCounts& counts) : counts_(counts) {}
  void op_begins(const OpSchema&, const OutputSharding&) override {}
  void op_ends() override {}
  void redistribution(const RedistributionRecord&) override {}
  void collective(const CollectiveRecord& record) override {
    ++counts_[recorded_collective(record.kind)];
  }

 private:
  FactCounts& counts_;
};

bool close(const Json& expected, const Json& got) {
  if (expected.size() != got.size()) return false;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i].get<double>();
    if (std::abs(got[i].get<double>() - want) > 1e-6 * std::max(1.0, std::abs(want))) return false;
  }
  return true;
}

}  // namespace

// A damaged line may ask for more than there is; recorded ones take a few KiB.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 28;

FactWorld::FactWorld()
    : device_(make_cpu_device(cpu_kernel_table(), kMostBytes)), plans_(PlanOptions{}) {}

FactWorld::~FactWorld() = default;

void FactWorld::run(const MeshLayout* layout, const std::function<void(std::size_t rank)>& body,
                    FactCounts* counts) {
  WorldOptions options;
  options.ranks = layout->size();
  options.device = [this](std::int64_t) -> Device& { return *device_; };
  options.plans = &plans_;
  const WorldResult result = run_world(options, [&](RankContext& context) {
    context.meshes->construct(layout);
    std::optional<CountingObserver> observer;
    std::optional<ObserverScope> observed;
    if (counts && context.rank == 0) observed.emplace(observer.emplace(*counts));
    body(static_cast<std::size_t>(context.rank));
  });
  result.rethrow();
}

Tensor FactWorld::tensor_of(const Json& piece, DType dtype) {
  const Dims shape = dims_of(piece.at(0));
  const auto values = piece.at(1).get<std::vector<double>>();
  // Looked at first: a damaged line may ask for more memory than there is.
  if (product(shape) != static_cast<std::int64_t>(values.size())) {
    fail(ErrorKind::kValue, "a piece of shape {} has {} elements", piece.at(0).dump(),
         values.size());
  }
  const Tensor tensor = empty(*device_, shape, dtype);
  write_doubles(tensor, values);
  return tensor;
}

Json FactWorld::json_of(const Tensor& tensor) {
  return Json::array({shardlab::json_of(tensor.shape()), read_doubles(tensor)});
}

void expect_pieces(std::string_view field, const Json& expected, const std::vector<Json>& got,
                   CaseReport& report) {
  bool same = expected.size() == got.size();
  for (std::size_t rank = 0; same && rank < got.size(); ++rank) {
    same = expected[rank].at(0) == got[rank].at(0) && close(expected[rank].at(1), got[rank].at(1));
  }
  if (!same) report.differs(field, expected, got);
}

}  // namespace shardlab
