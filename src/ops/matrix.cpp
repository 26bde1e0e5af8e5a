// Matrix products: einsum rules as data.
#include "kernels/kernel_id.h"
#include "mesh/type_string.h"
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"

namespace shardlab {
namespace {

[[noreturn]] void refuse_product(const OpDescriptor& op, const TensorMeta& a, const TensorMeta& b) {
  fail(ErrorKind::kValue, "{}: {} and {} cannot be multiplied", op.name(), type_string(a),
       type_string(b));
}

std::vector<OutputMeta> meta_mm(const MetaArgs& args) {
  const TensorMeta& a = *args.tensor(0);
  const TensorMeta& b = *args.tensor(1);
  if (a.shape.size() != 2 || b.shape.size() != 2 || a.shape[1] != b.shape[0] ||
      a.dtype != b.dtype) {
    refuse_product(args.op(), a, b);
  }
  return {{contiguous_meta(Dims{a.shape[0], b.shape[1]}, a.dtype)}};
}

struct MatrixRow {
  const char* schema;
  MetaFn meta;
  const char* factors;
  KernelId kernel;
  Variants variants;
  const char* why;
};

// clang-format off
constexpr MatrixRow kRows[] = {
    {"mm(Tensor self, Tensor mat2) -> Tensor", meta_mm, "mk,kn->mn", KernelId::kMm, {false, "out"},
     "linear in each operand; a cut contraction leaves partial sums"},
};
// clang-format on

}  // namespace

void register_matrix(OpRegistry& registry) {
  for (const MatrixRow& entry : kRows) {
    OpRow row;
    row.op = parse_op_schema(entry.schema);
    row.meta = entry.meta;
    row.rule = FactorRule{entry.factors};
    row.kernel = entry.kernel;
    row.why = entry.why;
    add_with_variants(registry, std::move(row), entry.variants);
  }
}

}  // namespace shardlab
