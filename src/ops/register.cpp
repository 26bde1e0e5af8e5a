// The list of families. Calls in one function, because static constructors would run in no known
// order and a test could not build a registry of its own.
#include "ops/register.h"

namespace shardlab {

void register_families(OpRegistry& registry) {
  register_along_dim(registry);
  register_attention(registry);
  register_channel_norm(registry);
  register_complex(registry);
  register_composite(registry);
  register_convolution(registry);
  register_copy(registry);
  register_counting(registry);
  register_create(registry);
  register_data_programs(registry);
  register_diagonal(registry);
  register_distance(registry);
  register_embedding_bag(registry);
  register_factorization(registry);
  register_fourier(registry);
  register_grid_sample(registry);
  register_group_norm(registry);
  register_histogram(registry);
  register_index(registry);
  register_index_programs(registry);
  register_join(registry);
  register_least_squares(registry);
  register_linalg(registry);
  register_lookup(registry);
  register_loss(registry);
  register_loss_parallel(registry);
  register_margin_loss(registry);
  register_matrix(registry);
  register_norm(registry);
  register_pointwise(registry);
  register_pointwise_loss(registry);
  register_prims(registry);
  register_query(registry);
  register_range_programs(registry);
  register_rearrange(registry);
  register_recurrent(registry);
  register_reduction(registry);
  register_resample(registry);
  register_scaled_products(registry);
  register_select(registry);
  register_slopes(registry);
  register_short_time(registry);
  register_view(registry);
  register_windows(registry);
  register_alias(registry);    // of the others
  register_foreach(registry);  // derived from all others
  register_derived(registry);  // what is left of ATen's names for them
}

}  // namespace shardlab
