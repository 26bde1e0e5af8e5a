#include "tests/unit/dispatch/op_mesh.h"

#include <doctest/doctest.h>

#include <numeric>

#include "api/distribute.h"
#include "dispatch/all_ops.h"
#include "sim/world/world.h"
#include "tensor/host.h"
#include "tests/unit/plan/plan_support.h"
#include "tests/unit/redistribute/on_mesh.h"

namespace shardlab::test {
OpMesh::OpMesh(Dims mesh, std::vector<std::int64_t> ranks, std::int64_t world)
    : OpMesh(all_ops(), std::move(mesh), std::move(ranks), world) {}

OpMesh::OpMesh(const OpRegistry& ops, Dims mesh, std::vector<std::int64_t> ranks,
               std::int64_t world)
    : layout_(arena_.layout({std::move(mesh), {}, std::move(ranks)})),
      world_(world != 0 ? world : layout_->size()),
      propagator_(ops, PlanOptions{}) {}

const DTensorSpec* OpMesh::spec(std::string_view text, Dims shape, DType dtype) {
  return arena_.spec(layout_, placements(text), contiguous_meta(shape, dtype));
}

DTensor OpMesh::place(std::string_view text, Dims shape, const std::vector<double>& values,
                      DType dtype) {
  return distribute(tensor(shape, values, dtype), spec(text, shape, dtype));
}

void OpMesh::run(const std::function<void(RankContext&)>& body) {
  WorldOptions options;
  options.ranks = world_;
  options.device = [](std::int64_t) -> Device& { return cpu(); };
  options.seed = 5;
  options.propagator = &propagator_;
  options.plans = &propagator_.plans();
  run_world(options, [&](RankContext& context) {
    context.meshes->construct(layout_);
    body(context);
  }).rethrow();
}

DTensor plain(Dims shape, const std::vector<double>& values, DType dtype) {
  return DTensor(tensor(std::move(shape), values, dtype));
}

std::vector<double> whole(const DTensor& x) {
  return read_doubles((x.distributed() ? full_tensor(x) : x).local());
}

std::vector<double> local_values(const DTensor& x) { return read_doubles(x.local()); }

ErrorKind kind_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  FAIL("nothing was thrown");
  return ErrorKind::kInternal;
}

std::vector<double> counted(std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

}  // namespace shardlab::test
