// register.h - fills a registry with the rows of all families: one call per family, no static
// constructors. Handlers are set above, in dispatch/all_ops.h.
#pragma once

namespace shardlab {

class OpRegistry;

void register_families(OpRegistry& registry);

/// Adds the rows of one family: a file with one table, src/ops/<wing>/<name>.cpp.
using RegisterFamily = void(OpRegistry& registry);
// create
RegisterFamily register_copy, register_create, register_range_programs;
// elementwise
RegisterFamily register_activation, register_arithmetic, register_complex, register_elementary,
    register_fake_quantize, register_foreach, register_fused_steps, register_logic, register_slopes,
    register_special;
// index
RegisterFamily register_data_programs, register_embedding_bag, register_index,
    register_index_programs, register_lookup;
// linalg
RegisterFamily register_contraction, register_distance, register_factorization, register_fourier,
    register_least_squares, register_linalg, register_linalg_programs, register_matrix,
    register_scaled_products, register_short_time;
// loss
RegisterFamily register_loss, register_loss_parallel, register_margin_loss, register_pointwise_loss;
// nn
RegisterFamily register_attention, register_channel_norm, register_convolution,
    register_grid_sample, register_group_norm, register_norm, register_pooling, register_recurrent,
    register_resample;
// reduce
RegisterFamily register_along_dim, register_counting, register_finite_difference,
    register_histogram, register_reduction, register_segments, register_spread, register_statistics;
// shape
RegisterFamily register_diagonal, register_join, register_query, register_rearrange,
    register_select, register_stacking, register_view, register_windows;
// torch
RegisterFamily register_alias, register_composite, register_functional, register_prims;

}  // namespace shardlab
