// An in-place or out= row is its base row with another schema: the name, the alias marks and the
// out arguments change, nothing else. The metadata is derived from that of the base in
// infer_metas().
#include "ops/derive.h"

#include "ops/gradients.h"

namespace shardlab {
namespace {

std::string alias_name(std::size_t index) { return std::string(1, static_cast<char>('a' + index)); }

}  // namespace

OpRow inplace_variant(const OpRow& base, std::string_view overload) {
  OpRow row = base;
  row.base = &base;
  row.op.base += "_";
  row.op.overload = overload;
  row.op.arguments[0].alias = {alias_name(0), true};
  row.op.returns[0].alias = {alias_name(0), true};
  return row;
}

OpRow out_variant(const OpRow& base, std::string_view overload) {
  OpRow row = base;
  row.base = &base;
  if (overload.find('(') != std::string_view::npos) {
    row.op = parse_op_schema(overload);
    return row;
  }
  row.op.overload = overload;
  row.shape_argument = row.stride_argument = -1;  // shapes are those of the out tensors
  for (std::size_t i = 0; i < row.op.returns.size(); ++i) {
    SchemaReturn& result = row.op.returns[i];
    result.alias = {alias_name(i), true};
    SchemaArgument out;
    out.name = row.op.returns.size() == 1 ? (overload == "grad_input" ? "grad_input" : "out")
               : result.name.empty()      ? "out" + std::to_string(i)
                                          : result.name;
    out.type = result.type;
    out.alias = result.alias;
    out.keyword_only = true;
    out.is_out = true;
    row.op.arguments.push_back(std::move(out));
  }
  return row;
}

const OpRow& add_with_variants(OpRegistry& registry, OpRow row, const Variants& variants) {
  grad::set_gradient(row);
  const OpRow& base = registry.add(std::move(row));
  if (variants.inplace) registry.add(inplace_variant(base, base.op.overload));
  if (variants.out != nullptr) registry.add(out_variant(base, variants.out));
  return base;
}

}  // namespace shardlab
