// Pointwise ops: output dims follow the broadcast input dims, so a row only says which pending
// reductions pass without communication, on ONE mesh dim. The letters are those of PointwiseRule.
#include "kernels/kernel_id.h"
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"

namespace shardlab {
namespace {

constexpr const char* kNone = "";
constexpr const char* kNonDecreasing = "xx nn";
constexpr const char* kAdditive = "sss aaa aar xxr nnr ara";

struct PointwiseRow {
  const char* schema;
  MetaFn meta;
  const char* passes;
  KernelId kernel;
  Variants variants;
  const char* why;
};

// clang-format off
constexpr PointwiseRow kRows[] = {
    {"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", meta_promoted, kAdditive,
     KernelId::kAdd, {true, "out"}, "P(sum) + R counts R n times"},
    {"relu(Tensor self) -> Tensor", meta_promoted, kNonDecreasing, KernelId::kRelu, {true, "out"},
     "max(relu(a), relu(b)) = relu(max(a, b))"},
};
// clang-format on

}  // namespace

void register_pointwise(OpRegistry& registry) {
  for (const PointwiseRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = PointwiseRule{entry.passes};
    row.kernel = entry.kernel;
    row.flags = kAllowUneven;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
