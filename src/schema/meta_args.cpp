// Lists of tensors are flattened, so that a shape function finds the metas of an argument by where
// its first one is.
#include "schema/meta_args.h"

#include <utility>

#include "base/error.h"

namespace shardlab {

MetaArgs::MetaArgs(const OpDescriptor& op, const Arguments& args, MetaList metas)
    : op_(&op), args_(&args), metas_(std::move(metas)) {
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < args.size(); ++i) {
    first_.push_back(next);
    const SchemaType& type = op.arguments[i].type;
    if (!type.is_tensor()) continue;
    next += type.is_list ? (args[i].is_list() ? args[i].list().size() : 0) : 1;
  }
  first_.push_back(next);
  check_invariant(next == metas_.size(), "one meta per tensor argument");
}

const TensorMeta* MetaArgs::tensor(std::size_t index) const {
  return first_[index] == first_[index + 1] ? nullptr : metas_[first_[index]];
}

std::span<const TensorMeta* const> MetaArgs::tensors(std::size_t index) const {
  return {metas_.data() + first_[index], first_[index + 1] - first_[index]};
}

}  // namespace shardlab
