// An op is computed in one of several forms; these questions look into each of them.
#include "schema/op_row.h"

namespace shardlab {

KernelId OpRow::kernel() const {
  if (const auto* kernel = std::get_if<KernelId>(&compute)) return *kernel;
  if (const auto* lookup = std::get_if<MaskedLookup>(&compute)) return lookup->kernel;
  if (const auto* handled = std::get_if<Handler>(&compute)) return handled->kernel;
  return KernelId{};
}

PartsFn OpRow::parts() const {
  if (const auto* parts = std::get_if<PartsFn>(&compute)) return *parts;
  const auto* either = std::get_if<RuleOrParts>(&compute);
  return either == nullptr ? nullptr : either->parts;
}

bool OpRow::opaque() const {
  const auto* handled = std::get_if<Handler>(&compute);
  return handled != nullptr && !handled->gives_the_op;
}

}  // namespace shardlab
