// The list of families. One list, because static constructors would run in no known order and a
// test could not build a registry of its own.
#include "ops/register.h"

#include "ops/core/derived.h"

namespace shardlab {

namespace {

// Later families derive rows from earlier ones.
// clang-format off
constexpr void (*kFamilies[])(OpRegistry&) = {
    // create
    register_copy, register_create, register_range_programs,
    // elementwise
    register_activation, register_arithmetic, register_complex, register_elementary,
    register_fake_quantize, register_fused_steps, register_logic, register_slopes,
    register_special,
    // index
    register_data_programs, register_embedding_bag, register_index, register_index_programs,
    register_lookup,
    // linalg
    register_contraction, register_distance, register_factorization, register_fourier,
    register_least_squares, register_linalg, register_linalg_programs, register_matrix,
    register_scaled_products, register_short_time,
    // loss
    register_loss, register_loss_parallel, register_margin_loss, register_pointwise_loss,
    // nn
    register_attention, register_channel_norm, register_convolution, register_grid_sample,
    register_group_norm, register_norm, register_pooling, register_recurrent, register_resample,
    // reduce
    register_along_dim, register_counting, register_finite_difference, register_histogram,
    register_reduction, register_segments, register_spread, register_statistics,
    // shape
    register_diagonal, register_join, register_query, register_rearrange, register_select,
    register_stacking, register_view, register_windows,
    // torch
    register_composite, register_functional, register_prims,
    // Further names, the same for lists, and the remaining names of ATen.
    register_alias, register_foreach, register_derived,
};
// clang-format on

}  // namespace

void register_families(OpRegistry& registry) {
  for (auto* const add : kFamilies) add(registry);
}

}  // namespace shardlab
