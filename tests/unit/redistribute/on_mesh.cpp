#include "tests/unit/redistribute/on_mesh.h"

#include "kernels/cpu_kernels.h"
#include "tensor/host.h"
#include "tests/unit/plan/plan_support.h"

namespace shardlab::test {

Device& cpu() {
  static const std::unique_ptr<Device> device = make_cpu_device(cpu_kernel_table());
  return *device;
}

Tensor tensor(Dims shape, const std::vector<double>& values, DType dtype) {
  const Tensor result = empty(cpu(), shape, dtype);
  write_doubles(result, values);
  return result;
}

OnMesh::OnMesh(Dims mesh, std::vector<std::int64_t> ranks, std::int64_t world)
    : layout_(arena_.layout({std::move(mesh), {}, std::move(ranks)})),
      world_(world ? world : layout_->size()) {}

const DTensorSpec* OnMesh::spec(std::string_view text, Dims shape, DType dtype) {
  return arena_.spec(layout_, placements(text), contiguous_meta(shape, dtype));
}

const DTensorSpec* OnMesh::spec(std::string_view text, ShardOrder order, Dims shape) {
  return arena_.spec(layout_, placements(text), order, contiguous_meta(shape, DType::kF32));
}

void OnMesh::run(const std::function<void(RankContext&)>& body) {
  WorldOptions options;
  options.ranks = world_;
  options.device = [](std::int64_t) -> Device& { return cpu(); };
  options.plans = &plans_;
  const WorldResult result = run_world(options, [&](RankContext& context) {
    context.meshes->construct(layout_);
    body(context);
  });
  result.rethrow();
}

std::vector<std::vector<double>> OnMesh::moved(const std::vector<Tensor>& inputs,
                                               const DTensorSpec* source, const DTensorSpec* target,
                                               const RedistributeOptions& options) {
  std::vector<std::vector<double>> results(static_cast<std::size_t>(world_));
  run([&](RankContext& context) {
    const auto rank = static_cast<std::size_t>(context.rank);
    results[rank] = read_doubles(redistribute_local(inputs[rank], source, target, options));
  });
  return results;
}

}  // namespace shardlab::test
