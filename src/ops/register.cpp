#include "ops/register.h"

namespace shardlab {

void register_all_ops(OpRegistry& registry) {
  register_copy(registry);
  register_pointwise(registry);
  register_matrix(registry);
  register_index(registry);
  register_reduction(registry);
  register_select(registry);
  register_view(registry);
}

}  // namespace shardlab
