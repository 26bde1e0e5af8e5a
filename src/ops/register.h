// register.h - fills a registry with the rows of all families: one call per family, no static
// constructors. Handlers are set above, in dispatch/all_ops.h.
#pragma once

namespace shardlab {

class OpRegistry;

void register_families(OpRegistry& registry);

// Families of each wing; each is one file with one table: src/ops/<wing>/<name>.cpp.
// create
void register_copy(OpRegistry& registry);
void register_create(OpRegistry& registry);
void register_range_programs(OpRegistry& registry);
// elementwise
void register_activation(OpRegistry& registry);
void register_arithmetic(OpRegistry& registry);
void register_complex(OpRegistry& registry);
void register_elementary(OpRegistry& registry);
void register_fake_quantize(OpRegistry& registry);
void register_foreach(OpRegistry& registry);
void register_fused_steps(OpRegistry& registry);
void register_logic(OpRegistry& registry);
void register_slopes(OpRegistry& registry);
void register_special(OpRegistry& registry);
// index
void register_data_programs(OpRegistry& registry);
void register_embedding_bag(OpRegistry& registry);
void register_index(OpRegistry& registry);
void register_index_programs(OpRegistry& registry);
void register_lookup(OpRegistry& registry);
// linalg
void register_contraction(OpRegistry& registry);
void register_distance(OpRegistry& registry);
void register_factorization(OpRegistry& registry);
void register_fourier(OpRegistry& registry);
void register_least_squares(OpRegistry& registry);
void register_linalg(OpRegistry& registry);
void register_linalg_programs(OpRegistry& registry);
void register_matrix(OpRegistry& registry);
void register_scaled_products(OpRegistry& registry);
void register_short_time(OpRegistry& registry);
// loss
void register_loss(OpRegistry& registry);
void register_loss_parallel(OpRegistry& registry);
void register_margin_loss(OpRegistry& registry);
void register_pointwise_loss(OpRegistry& registry);
// nn
void register_attention(OpRegistry& registry);
void register_channel_norm(OpRegistry& registry);
void register_convolution(OpRegistry& registry);
void register_grid_sample(OpRegistry& registry);
void register_group_norm(OpRegistry& registry);
void register_norm(OpRegistry& registry);
void register_pooling(OpRegistry& registry);
void register_recurrent(OpRegistry& registry);
void register_resample(OpRegistry& registry);
// reduce
void register_along_dim(OpRegistry& registry);
void register_counting(OpRegistry& registry);
void register_finite_difference(OpRegistry& registry);
void register_histogram(OpRegistry& registry);
void register_reduction(OpRegistry& registry);
void register_segments(OpRegistry& registry);
void register_spread(OpRegistry& registry);
void register_statistics(OpRegistry& registry);
// shape
void register_diagonal(OpRegistry& registry);
void register_join(OpRegistry& registry);
void register_query(OpRegistry& registry);
void register_rearrange(OpRegistry& registry);
void register_select(OpRegistry& registry);
void register_stacking(OpRegistry& registry);
void register_view(OpRegistry& registry);
void register_windows(OpRegistry& registry);
// torch
void register_alias(OpRegistry& registry);
void register_composite(OpRegistry& registry);
void register_functional(OpRegistry& registry);
void register_prims(OpRegistry& registry);

}  // namespace shardlab
