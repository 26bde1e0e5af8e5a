// The list of families. One table, because static constructors would run in no known order and a
// test could not build a registry of its own.
#include "ops/register.h"

#include "ops/core/pointwise.h"

namespace shardlab {

namespace {

// clang-format off
constexpr OpFamily kFamilies[] = {
    {"along_dim", register_along_dim},
    {"attention", register_attention},
    {"channel_norm", register_channel_norm},
    {"complex", register_complex},
    {"composite", register_composite},
    {"contraction", register_contraction},
    {"convolution", register_convolution},
    {"copy", register_copy},
    {"counting", register_counting},
    {"create", register_create},
    {"data_programs", register_data_programs},
    {"diagonal", register_diagonal},
    {"distance", register_distance},
    {"embedding_bag", register_embedding_bag},
    {"factorization", register_factorization},
    {"finite_difference", register_finite_difference},
    {"fourier", register_fourier},
    {"functional", register_functional},
    {"fused_steps", register_fused_steps},
    {"grid_sample", register_grid_sample},
    {"group_norm", register_group_norm},
    {"histogram", register_histogram},
    {"index", register_index},
    {"index_programs", register_index_programs},
    {"join", register_join},
    {"least_squares", register_least_squares},
    {"linalg", register_linalg},
    {"linalg_programs", register_linalg_programs},
    {"lookup", register_lookup},
    {"loss", register_loss},
    {"loss_parallel", register_loss_parallel},
    {"margin_loss", register_margin_loss},
    {"matrix", register_matrix},
    {"norm", register_norm},
    {"activation", register_activation},
    {"elementary", register_elementary},
    {"arithmetic", register_arithmetic},
    {"logic", register_logic},
    {"special", register_special},
    {"pointwise_loss", register_pointwise_loss},
    {"pooling", register_pooling},
    {"prims", register_prims},
    {"query", register_query},
    {"range_programs", register_range_programs},
    {"rearrange", register_rearrange},
    {"recurrent", register_recurrent},
    {"reduction", register_reduction},
    {"resample", register_resample},
    {"scaled_products", register_scaled_products},
    {"segments", register_segments},
    {"select", register_select},
    {"slopes", register_slopes},
    {"short_time", register_short_time},
    {"spread", register_spread},
    {"stacking", register_stacking},
    {"statistics", register_statistics},
    {"view", register_view},
    {"windows", register_windows},
    {"alias", register_alias},  // of the others
    {"foreach", register_foreach},  // derived from all others
    {"derived", register_derived},  // what is left of ATen's names for them
};
// clang-format on

}  // namespace

std::span<const OpFamily> op_families() { return kFamilies; }

void register_families(OpRegistry& registry) {
  for (const OpFamily& family : kFamilies) family.add(registry);
}

}  // namespace shardlab
