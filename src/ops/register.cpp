// The list of families. One table, because static constructors would run in no known order and a
// test could not build a registry of its own.
#include "ops/register.h"

#include "ops/core/derived.h"

namespace shardlab {

namespace {

// clang-format off
constexpr OpFamily kFamilies[] = {
    // create
    {"copy", register_copy},
    {"create", register_create},
    {"range_programs", register_range_programs},
    // elementwise
    {"activation", register_activation},
    {"arithmetic", register_arithmetic},
    {"complex", register_complex},
    {"elementary", register_elementary},
    {"fused_steps", register_fused_steps},
    {"logic", register_logic},
    {"slopes", register_slopes},
    {"special", register_special},
    // index
    {"data_programs", register_data_programs},
    {"embedding_bag", register_embedding_bag},
    {"index", register_index},
    {"index_programs", register_index_programs},
    {"lookup", register_lookup},
    // linalg
    {"contraction", register_contraction},
    {"distance", register_distance},
    {"factorization", register_factorization},
    {"fourier", register_fourier},
    {"least_squares", register_least_squares},
    {"linalg", register_linalg},
    {"linalg_programs", register_linalg_programs},
    {"matrix", register_matrix},
    {"scaled_products", register_scaled_products},
    {"short_time", register_short_time},
    // loss
    {"loss", register_loss},
    {"loss_parallel", register_loss_parallel},
    {"margin_loss", register_margin_loss},
    {"pointwise_loss", register_pointwise_loss},
    // nn
    {"attention", register_attention},
    {"channel_norm", register_channel_norm},
    {"convolution", register_convolution},
    {"grid_sample", register_grid_sample},
    {"group_norm", register_group_norm},
    {"norm", register_norm},
    {"pooling", register_pooling},
    {"recurrent", register_recurrent},
    {"resample", register_resample},
    // reduce
    {"along_dim", register_along_dim},
    {"counting", register_counting},
    {"finite_difference", register_finite_difference},
    {"histogram", register_histogram},
    {"reduction", register_reduction},
    {"segments", register_segments},
    {"spread", register_spread},
    {"statistics", register_statistics},
    // shape
    {"diagonal", register_diagonal},
    {"join", register_join},
    {"query", register_query},
    {"rearrange", register_rearrange},
    {"select", register_select},
    {"stacking", register_stacking},
    {"view", register_view},
    {"windows", register_windows},
    // torch
    {"composite", register_composite},
    {"functional", register_functional},
    {"prims", register_prims},
    // The rest: further names, the same for lists, and the remaining names of ATen.
    {"alias", register_alias},
    {"foreach", register_foreach},
    {"derived", register_derived},
};
// clang-format on

}  // namespace

std::span<const OpFamily> op_families() { return kFamilies; }

void register_families(OpRegistry& registry) {
  for (const OpFamily& family : kFamilies) family.add(registry);
}

}  // namespace shardlab
