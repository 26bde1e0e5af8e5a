// Rows are written below the dispatcher, handlers above it: here both meet.
#include "dispatch/all_ops.h"

#include <memory>

#include "dispatch/handlers.h"
#include "ops/register.h"
#include "schema/op_registry.h"

namespace shardlab {

void register_all_ops(OpRegistry& registry) {
  register_families(registry);
  register_handlers(registry);
}

const OpRegistry& all_ops() {
  static const std::unique_ptr<const OpRegistry> registry = [] {
    auto made = std::make_unique<OpRegistry>();
    register_all_ops(*made);
    return made;
  }();
  return *registry;
}

}  // namespace shardlab
