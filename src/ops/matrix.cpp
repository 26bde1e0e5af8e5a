// Matrix products: einsum rules as data.
#include "kernels/kernel_id.h"
#include "mesh/type_string.h"
#include "ops/derive.h"
#include "ops/meta.h"
#include "ops/register.h"

namespace shardlab {
namespace {

constexpr const char* kLinear = "linear in each operand; a cut contraction leaves partial sums";
constexpr const char* kLinearPlus = "as the product; the added operand is laid out like the result";

[[noreturn]] void refuse_product(const OpDescriptor& op, const TensorMeta& a, const TensorMeta& b) {
  fail(ErrorKind::kValue, "{}: {} and {} cannot be multiplied", op.name(), type_string(a),
       type_string(b));
}

/// Batch dims agree, the last dim of `a` is contracted with dim `contracted` of `b`.
TensorMeta product_meta(const OpDescriptor& op, const TensorMeta& a, const TensorMeta& b,
                        std::size_t ndim) {
  if (a.shape.size() != ndim || b.shape.size() != ndim || a.dtype != b.dtype ||
      a.shape[ndim - 1] != b.shape[ndim - 2] || (ndim == 3 && a.shape[0] != b.shape[0])) {
    refuse_product(op, a, b);
  }
  Dims shape = a.shape;
  shape[ndim - 1] = b.shape[ndim - 1];
  return contiguous_meta(shape, a.dtype);
}

template <std::size_t kNdim>
std::vector<OutputMeta> meta_product(const MetaArgs& args) {
  return {{product_meta(args.op(), *args.tensor(0), *args.tensor(1), kNdim)}};
}

template <std::size_t kNdim>
std::vector<OutputMeta> meta_product_plus(const MetaArgs& args) {
  const TensorMeta product = product_meta(args.op(), *args.tensor(1), *args.tensor(2), kNdim);
  const TensorMeta* const both[] = {&product, args.tensor(0)};
  if (!(broadcast_shapes(args.op(), both) == product.shape) ||
      args.tensor(0)->dtype != product.dtype) {
    fail(ErrorKind::kValue, "{}: {} cannot be added to {}", args.op().name(),
         type_string(*args.tensor(0)), type_string(product));
  }
  return {{product}};
}

std::vector<OutputMeta> meta_dot(const MetaArgs& args) {
  const TensorMeta& a = *args.tensor(0);
  const TensorMeta& b = *args.tensor(1);
  if (a.shape.size() != 1 || !(a.shape == b.shape) || a.dtype != b.dtype) {
    refuse_product(args.op(), a, b);
  }
  return {{contiguous_meta(Dims{}, a.dtype)}};
}

std::vector<OutputMeta> meta_mv(const MetaArgs& args) {
  const TensorMeta& matrix = *args.tensor(0);
  const TensorMeta& vector = *args.tensor(1);
  const bool fits = matrix.shape.size() == 2 && vector.shape.size() == 1 &&
                    matrix.shape[1] == vector.shape[0] && matrix.dtype == vector.dtype;
  if (!fits) fail(ErrorKind::kValue, "mv takes a matrix and a vector as long as its rows");
  return {{contiguous_meta(Dims{matrix.shape[0]}, matrix.dtype)}};
}

struct MatrixRow {
  const char* schema;
  MetaFn meta;
  const char* factors;
  KernelId kernel;
  Variants variants;
  const char* why;
};

constexpr MatrixRow kRows[] = {  // sorted by name
    {"addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
     meta_product_plus<2>, "+mn,mk,kn->mn", KernelId::kAddmm, {true, "out"}, kLinearPlus},
    {"baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> "
     "Tensor",
     meta_product_plus<3>, "+bmn,bmk,bkn->bmn", KernelId::kBaddbmm, {true, "out"}, kLinearPlus},
    {"bmm(Tensor self, Tensor mat2) -> Tensor",
     meta_product<3>, "bmk,bkn->bmn", KernelId::kBmm, {false, "out"}, kLinear},
    {"dot(Tensor self, Tensor tensor) -> Tensor",
     meta_dot, "i,i->", KernelId::kDot, {false, "out"}, kLinear},
    {"mm(Tensor self, Tensor mat2) -> Tensor",
     meta_product<2>, "mk,kn->mn", KernelId::kMm, {false, "out"}, kLinear},
    {"mv(Tensor self, Tensor vec) -> Tensor",
     meta_mv, "mk,k->m", KernelId::kMv, {false, "out"}, kLinear},
};

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
