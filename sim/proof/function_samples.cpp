// Samples of functions that are several ops in the reference: contractions, joins by numpy's names,
// pads, losses, linear algebra, and functions that torch writes in Python.
#include <limits>

#include "sim/proof/sample_inputs.h"

namespace shardlab {
namespace {

using namespace samples;

void add_contractions(std::vector<OpSample>& samples) {
  const SampleInput row = real({5}), square = real({4, 4});
  samples.insert(
      samples.end(),
      {{"einsum", {real({3, 4}), real({4, 5})}, {"ij,jk->ik", List{"$0", "$1"}}},
       {"einsum", {real({2, 3, 4}), real({2, 5, 4})}, {"b...d,bkd->b...k", List{"$0", "$1"}}},
       {"einsum",
        {real({2, 3}), real({3, 4}), real({2, 4})},
        {"ab,bc,ac->b", List{"$0", "$1", "$2"}}},
       {"einsum", {real({3, 5}), real({3, 5})}, {"ij,ij->", List{"$0", "$1"}}},
       {"einsum", {real({5, 5, 3})}, {"iij->ji", List{"$0"}}},
       {"tensordot", {real({3, 4, 2}), real({4, 3, 5})}, {"$0", "$1", Dims{0, 1}, Dims{1, 0}}},
       {"inner", {real({3, 5}), real({4, 5})}, {"$0", "$1"}},
       {"kron", {real({3, 2}), row}, {"$0", "$1"}},
       {"cross", {real({7, 3}), real({7, 3})}, {"$0", "$1"}},
       {"linalg_vecdot", {real({3, 5}), real({3, 5})}, {"$0", "$1", 0}},
       {"linalg_multi_dot", {real({3, 4}), real({4, 2}), real({2})}, {List{"$0", "$1", "$2"}}},
       {"chain_matmul", {real({3, 2}), real({2, 5}), real({5, 4})}, {List{"$0", "$1", "$2"}}},
       {"linalg_matrix_power", {square}, {"$0", 3}},
       {"matrix_power", {square}, {"$0", 0}},
       {"bilinear", {real({4, 3}), real({4, 2}), real({5, 3, 2}), row}, {"$0", "$1", "$2", "$3"}}});
}

void add_stacks(std::vector<OpSample>& samples) {
  for (const char* op : {"hstack", "vstack", "row_stack", "dstack", "column_stack"}) {
    samples.push_back({op, {real({5}), real({5})}, {List{"$0", "$1"}}});
    samples.push_back({op, {real({4, 5}), real({4, 5})}, {List{"$0", "$1"}}});
  }
  for (const char* op : {"atleast_1d", "atleast_2d", "atleast_3d"}) {
    samples.push_back({op, {real({5})}, {"$0"}});
  }
  for (const char* op : {"atleast_1d.Sequence", "atleast_2d.Sequence", "atleast_3d.Sequence"}) {
    samples.push_back({op, {real({5}), real({3, 2})}, {List{"$0", "$1"}}});
  }
  for (const char* op : {"hsplit.int", "vsplit.int", "dsplit.int"}) {
    samples.push_back({op, {real({4, 6, 2})}, {"$0", 2}});
  }
  for (const char* op : {"hsplit.array", "vsplit.array", "dsplit.array"}) {
    samples.push_back({op, {real({4, 6, 3})}, {"$0", Dims{1}}});
  }
  for (const char* op :
       {"fliplr", "flipud", "msort", "adjoint", "mH", "matrix_H", "diagflat", "nanmean"}) {
    samples.push_back({op, {real({3, 5})}, {"$0"}});
  }
  const Argument none;
  samples.insert(samples.end(),
                 {{"tile", {real({3, 5})}, {"$0", Dims{2}}},
                  {"tile", {real({3, 5})}, {"$0", Dims{2, 1, 2}}},
                  {"cartesian_prod", {real({3}), real({5})}, {List{"$0", "$1"}}},
                  {"combinations", {real({5})}, {"$0", 2}},
                  {"combinations", {real({4})}, {"$0", 3, true}},
                  {"vander", {real({5})}, {"$0", 3}},
                  {"vander", {real({5})}, {"$0", none, true}},
                  {"linalg_vander", {real({3, 5})}, {"$0", 4}},
                  {"sum_to_size", {real({3, 7, 5})}, {"$0", Dims{7, 1}}},
                  {"isreal", {real({7, 5})}, {"$0"}},
                  {"_is_all_true", {truth({7, 5})}, {"$0"}},
                  {"_is_any_true", {truth({7, 5})}, {"$0"}},
                  {"functional::unravel_index", {index({7}, 30)}, {"$0", Dims{5, 6}}},
                  {"diff", {real({7, 5})}, {"$0", 2, 0}},
                  {"diff", {real({7, 5}), real({7, 1})}, {"$0", 1, -1, "$1"}},
                  {"take_along_dim", {real({7, 5}), index({7, 2}, 5)}, {"$0", "$1", 1}},
                  {"take_along_dim", {real({7, 5}), index({4}, 35)}, {"$0", "$1", none}},
                  {"trapezoid.dx", {real({7, 5})}, {"$0", 0.5, 0}},
                  {"trapezoid.x", {real({7, 5}), real({5})}, {"$0", "$1", -1}},
                  {"trapz.dx", {real({7, 5})}, {"$0", 0.5, 0}},
                  {"trapz.x", {real({7, 5}), real({5})}, {"$0", "$1", -1}},
                  {"cumulative_trapezoid.dx", {real({7, 5})}, {"$0", 0.5, 0}},
                  {"cumulative_trapezoid.x", {real({7, 5}), real({5})}, {"$0", "$1", -1}}});
}

/// Pools that return positions, their gradients, bags of rows.
void add_pools_of_functions(std::vector<OpSample>& samples) {
  const SampleInput plane = real({3, 2, 4, 5});
  const Argument none;
  samples.insert(
      samples.end(),
      {{"functional::adaptive_max_pool1d", {real({3, 2, 5})}, {"$0", 3, true}},
       {"functional::adaptive_max_pool2d", {plane}, {"$0", List{2, none}, true}},
       {"functional::adaptive_max_pool3d", {real({2, 1, 2, 3, 4})}, {"$0", Dims{1, 2, 3}}},
       {"functional::fractional_max_pool2d",
        {plane, unit({3, 2, 2})},
        {"$0", Dims{2, 2}, Dims{2, 3}, none, true, "$1"}},
       {"functional::fractional_max_pool3d",
        {real({2, 1, 4, 4, 3}), unit({2, 1, 3})},
        {"$0", Dims{2, 2, 1}, none, 0.5, false, "$1"}},
       {"functional::max_pool1d",
        {real({3, 2, 6})},
        {"$0", Dims{2}, none, Dims{1}, Dims{1}, false, true}},
       {"functional::max_pool2d",
        {plane},
        {"$0", Dims{2, 2}, Dims{1, 2}, Dims{0, 1}, Dims{1, 1}, true, true}},
       {"functional::max_pool3d",
        {real({2, 1, 2, 4, 3})},
        {"$0", Dims{1, 2, 2}, none, Dims{0, 0, 0}, Dims{1, 1, 1}, false, true}},
       {"functional::max_unpool1d", {real({3, 2, 1}), index({3, 2, 1}, 3)}, {"$0", "$1", Dims{3}}},
       {"functional::max_unpool2d",
        {real({3, 2, 1, 1}), index({3, 2, 1, 1}, 6)},
        {"$0", "$1", Dims{2, 3}}},
       {"functional::max_unpool3d",
        {real({2, 1, 1, 1, 1}), index({2, 1, 1, 1, 1}, 8)},
        {"$0", "$1", Dims{2, 2, 2}}},
       {"functional::embedding_bag", {index({4, 3}, 5), real({5, 2})}, {"$0", "$1"}},
       {"functional::embedding_bag",
        {index({4, 3}, 5), real({5, 2}), real({4, 3})},
        {"$0", "$1", none, none, 2.0, false, "sum", false, "$2", false, 1}}});
}

void add_windows_of_functions(std::vector<OpSample>& samples) {
  const SampleInput plane = real({3, 2, 4, 5});
  const Argument none;
  samples.insert(
      samples.end(),
      {{"pad", {plane}, {"$0", Dims{1, -1, 0, 2}, "constant", 0.5}},
       {"pad", {plane}, {"$0", Dims{1, 2}, "constant"}},
       {"pad", {real({2, 3, 5})}, {"$0", Dims{2, 1}, "reflect"}},
       {"pad", {plane}, {"$0", Dims{1, 0, 2, 1}, "replicate"}},
       {"pad", {plane}, {"$0", Dims{1, 2, -1, 1}, "circular"}},
       {"_pad_circular", {real({2, 3, 5})}, {"$0", Dims{2, 1}}},
       {"conv_transpose1d",
        {real({3, 2, 5}), real({2, 2, 3}), real({2})},
        {"$0", "$1", "$2", Dims{2}, Dims{1}, Dims{1}}},
       {"conv_transpose2d.input", {plane, real({2, 3, 2, 2})}, {"$0", "$1"}},
       {"conv_transpose3d.input",
        {real({1, 2, 2, 3, 2}), real({2, 1, 2, 2, 1})},
        {"$0", "$1", none, Dims{1, 2, 1}}},
       {"conv2d", {real({2, 5, 4}), real({3, 2, 2, 2})}, {"$0", "$1"}},
       {"adaptive_avg_pool2d", {plane}, {"$0", Dims{1, 1}}},
       {"adaptive_avg_pool2d", {plane}, {"$0", Dims{2, 3}}},
       {"adaptive_avg_pool3d", {real({2, 3, 2, 3, 4})}, {"$0", Dims{1, 2, 3}}},
       {"feature_dropout", {plane}, {"$0", 0.5, true}},
       {"functional::local_response_norm", {real({2, 5, 4})}, {"$0", 3, 0.5}},
       {"functional::local_response_norm", {plane}, {"$0", 2, 0.5}},
       {"functional::lp_pool1d", {unit({3, 2, 6})}, {"$0", 3.0, Dims{2}, none}},
       {"functional::lp_pool2d", {unit({3, 2, 4, 4})}, {"$0", 2.0, Dims{2, 2}, none}},
       {"functional::lp_pool3d", {unit({1, 2, 2, 4, 2})}, {"$0", 2.0, Dims{1, 2, 2}, none}},
       {"functional::interpolate", {plane}, {"$0", Dims{7, 3}, none, "bilinear"}},
       {"functional::interpolate", {plane}, {"$0", none, 1.5, "bicubic"}},
       {"functional::interpolate", {real({3, 2, 5})}, {"$0", none, 0.5, "area"}},
       {"functional::interpolate", {plane}, {"$0", none, List{2.0, 1.5}}}});
}

/// Quantiles, covariances, slopes of samples.
void add_figures(std::vector<OpSample>& samples) {
  const SampleInput x = real({7, 5}), shares = unit({3});
  const Argument none;
  for (const char* op : {"quantile", "nanquantile"}) {
    samples.insert(samples.end(), {{op, {x, shares}, {"$0", "$1", 0, true}},
                                   {op, {x, shares}, {"$0", "$1", 1, false, "midpoint"}},
                                   {op, {x, unit({})}, {"$0", "$1"}}});
  }
  for (const char* op : {"quantile.scalar", "nanquantile.scalar"}) {
    for (const char* between : {"linear", "lower", "higher", "nearest"}) {
      samples.push_back({op, {x}, {"$0", 0.4, 1, false, between}});
    }
    samples.push_back({op, {x}, {"$0", 0.3, none, true}});
  }
  samples.insert(samples.end(),
                 {{"cov", {x}, {"$0"}},
                  {"cov", {x, pivots({5}, 3)}, {"$0", 0, "$1"}},
                  {"cov", {x, pivots({5}, 3), unit({5})}, {"$0", 1, "$1", "$2"}},
                  {"corrcoef", {x}, {"$0"}},
                  {"gradient.scalarint", {x}, {"$0"}},
                  {"gradient.scalarint", {x}, {"$0", 2.0, 1, 2}},
                  {"gradient.scalararray", {x}, {"$0", 0.5, Dims{1, 0}}},
                  {"gradient.array", {x}, {"$0", Dims{0}, 2}},
                  {"gradient.scalarrayint", {x}, {"$0", List{0.5, 2.0}}},
                  {"gradient.scalarrayarray", {x}, {"$0", List{0.5, 2.0}, Dims{0, 1}, 2}}});
}

/// One step of recurrent layers, choices that are drawn.
void add_cells(std::vector<OpSample>& samples) {
  const SampleInput x = real({7, 3}), state = real({7, 2});
  for (const auto& [op, rows] :
       {std::pair{"gru_cell", 6}, {"rnn_tanh_cell", 2}, {"rnn_relu_cell", 2}}) {
    const SampleInput bias = real({rows});
    samples.push_back({op,
                       {x, state, real({rows, 3}), real({rows, 2}), bias, bias},
                       {"$0", "$1", "$2", "$3", "$4", "$5"}});
  }
  samples.push_back({"lstm_cell",
                     {x, state, state, real({8, 3}), real({8, 2}), real({8}), real({8})},
                     {"$0", List{"$1", "$2"}, "$3", "$4", "$5", "$6"}});
  const SampleInput scores = real({7, 5});
  samples.insert(samples.end(),
                 {{"functional::gumbel_softmax", {scores}, {"$0", 0.7}},
                  {"functional::gumbel_softmax", {scores}, {"$0", 1.0, true, 1e-10, 0}},
                  {"functional::feature_alpha_dropout", {real({3, 4, 5})}, {"$0", 0.5, true}},
                  {"functional::rrelu", {scores}, {"$0", 0.1, 0.4, true}}});
}

/// Attention by several heads, of one source and of two with a mask.
void add_attention(std::vector<OpSample>& samples) {
  const SampleInput query = real({3, 2, 4}), weight = unit({12, 4}), out = unit({4, 4});
  const Argument none;
  const char* op = "functional::multi_head_attention_forward";
  samples.insert(samples.end(),
                 {{op,
                   {query, weight, out},
                   {"$0", "$0", "$0", 4, 2, "$1", none, none, none, false, 0.0, "$2", none}},
                  {op,
                   {query, real({5, 2, 4}), weight, out, real({3, 5})},
                   {"$0", "$1", "$1", 4, 2, "$2", none, none, none, true, 0.0, "$3", none, true,
                    none, true, "$4"}}});
  samples.push_back({"functional::linear_cross_entropy",
                     {real({7, 3}), real({5, 3}), index({7}, 5), real({5})},
                     {"$0", "$1", "$2", "$3"}});
  samples.push_back({"functional::linear_cross_entropy",
                     {real({7, 3}), real({5, 2, 3}), index({7, 2}, 5)},
                     {"$0", "$1", "$2", none, none, "sum", 1, 0.1}});
}

/// Losses of alignments, whose gradients are those of a softmax, and tables that a call bounds.
void add_placed_functions(std::vector<OpSample>& samples) {
  const SampleInput scores = real({5, 3, 4}), table = real({5, 3});
  const Argument none;
  const Dims steps{5, 4, 5}, labels{2, 1, 0};
  samples.insert(
      samples.end(),
      {{"ctc_loss.IntList", {scores, index({3, 2}, 4)}, {"$0", "$1", steps, labels}},
       {"ctc_loss.IntList", {scores, index({3}, 4)}, {"$0", "$1", steps, labels, 3, 0, true}},
       {"ctc_loss.Tensor",
        {scores, index({3, 2}, 4), pivots({3}, 5), pivots({3}, 2)},
        {"$0", "$1", "$2", "$3", 0, 2, true}},
       {"_ctc_loss", {scores, index({3, 2}, 4)}, {"$0", "$1", steps, labels}},
       {"_ctc_loss_backward",
        {unit({3}), unit({5, 3, 4}), index({3, 2}, 4), unit({3}), unit({3, 5, 5})},
        {"$0", "$1", "$2", steps, labels, "$3", "$4", 0}},
       // They shorten rows of the table through another handle.
       {"functional::embedding",
        {index({4, 3}, 5), table},
        {"$0", "$1", none, 0.5},
        nullptr,
        false},
       {"functional::embedding_bag",
        {index({4, 3}, 5), table},
        {"$0", "$1", none, 0.5},
        nullptr,
        false}});
}

void add_losses_of_functions(std::vector<OpSample>& samples) {
  const SampleInput x = real({7, 5}), chance = unit({7, 5});
  const Argument none;
  for (const int reduction : {0, 1, 2}) {
    samples.insert(
        samples.end(),
        {{"l1_loss", {x, unit({7, 5})}, {"$0", "$1", reduction}},
         {"poisson_nll_loss", {x, chance}, {"$0", "$1", true, false, 1e-8, reduction}},
         {"cosine_embedding_loss", {x, x, index({7}, 2)}, {"$0", "$1", "$2", -0.5, reduction}},
         {"triplet_margin_loss", {x, x, x}, {"$0", "$1", "$2", 1.0, 2.0, 1e-6, true, reduction}},
         {"multilabel_margin_loss", {x, index({7, 5}, 5)}, {"$0", "$1", reduction}}});
  }
  for (const char* word : {"none", "mean", "sum"}) {
    samples.insert(
        samples.end(),
        {{"functional::l1_loss", {x, unit({7, 5}), chance}, {"$0", "$1", none, none, word, "$2"}},
         {"functional::mse_loss", {x, x, chance}, {"$0", "$1", none, none, word, "$2"}}});
    samples.insert(samples.end(), {{"functional::gaussian_nll_loss",
                                    {chance, unit({7, 5}), unit({7})},
                                    {"$0", "$1", "$2", true, 1e-6, word}},
                                   {"functional::multilabel_soft_margin_loss",
                                    {x, chance, unit({5})},
                                    {"$0", "$1", "$2", none, none, word}}});
  }
  samples.insert(samples.end(),
                 {{"functional::huber_loss", {x, x, chance}, {"$0", "$1", "mean", 0.7, "$2"}},
                  {"functional::gaussian_nll_loss.float", {x, x}, {"$0", "$1", 0.5}},
                  {"functional::kl_div", {x, chance}, {"$0", "$1", none, none, "batchmean"}},
                  {"functional::kl_div", {x, x}, {"$0", "$1", none, none, "mean", true}},
                  {"poisson_nll_loss", {chance, unit({7, 5})}, {"$0", "$1", false, true, 1e-8, 1}},
                  {"cosine_similarity", {x, real({1, 5})}, {"$0", "$1", 1}},
                  {"functional::normalize", {x}, {"$0", 2.0, Dims{1}}},
                  {"functional::normalize", {x}, {"$0", 1.0, Dims{0}}},
                  {"functional::softmin", {x}, {"$0", 1}},
                  {"functional::softsign", {x}, {"$0"}},
                  {"functional::tanhshrink", {x}, {"$0"}},
                  {"log_sigmoid", {x}, {"$0"}},
                  {"_scaled_dot_product_attention_math",
                   {real({2, 3, 5, 4}), real({2, 3, 6, 4}), real({2, 3, 6, 4}), real({5, 6})},
                   {"$0", "$1", "$2", "$3"}},
                  {"_scaled_dot_product_attention_math",
                   {real({2, 4, 5, 2}), real({2, 2, 5, 2}), real({2, 2, 5, 2})},
                   {"$0", "$1", "$2", none, 0.0, true, none, none, true}}});
}

void add_solutions(std::vector<OpSample>& samples) {
  const SampleInput square = real({3, 4, 4}), wide = real({3, 4, 5});
  for (const char* op : {"linalg_inv", "inverse", "linalg_det", "det", "linalg_slogdet", "slogdet",
                         "linalg_lu_factor", "matrix_exp"}) {
    samples.push_back({op, {square}, {"$0"}});
  }
  for (const char* op : {"linalg_solve", "linalg_solve_ex"}) {
    samples.push_back({op, {square, real({3, 4, 2})}, {"$0", "$1"}});
  }
  const double all = std::numeric_limits<double>::infinity();
  samples.insert(samples.end(),
                 {{"linalg_matmul", {square, wide}, {"$0", "$1"}},
                  {"linalg_diagonal", {square}, {"$0"}},
                  {"linalg_svdvals", {wide}, {"$0"}},
                  {"logdet", {unit({3, 1, 1})}, {"$0"}},
                  {"linalg_cond", {square}, {"$0"}},
                  {"linalg_cond", {wide}, {"$0", -2}},
                  {"linalg_cond", {square}, {"$0", all}},
                  {"linalg_cond.p_str", {square}, {"$0", "fro"}},
                  {"linalg_cond.p_str", {square}, {"$0", "nuc"}},
                  {"linalg_matrix_rank", {wide}, {"$0", 0.5}},
                  {"linalg_matrix_rank.atol_rtol_float", {wide}, {"$0"}},
                  {"linalg_matrix_rank.atol_rtol_tensor", {wide, unit({3})}, {"$0", "$1"}},
                  {"linalg_matrix_rank.tol_tensor", {wide, unit({3})}, {"$0", "$1"}},
                  {"functional::lu", {square}, {"$0"}},
                  {"lu_solve", {real({3, 4, 2}), square, pivots({3, 4}, 4)}, {"$0", "$1", "$2"}},
                  {"functional::norm", {wide}, {"$0", "fro"}},
                  {"functional::norm", {wide}, {"$0", "nuc", Dims{0, 2}}},
                  {"pinverse", {real({1, 2})}, {"$0"}},
                  {"linalg_matrix_norm", {wide}, {"$0", 1.0, Dims{-2, -1}}},
                  {"linalg_matrix_norm", {wide}, {"$0", all, Dims{0, 2}, true}},
                  {"linalg_matrix_norm", {wide}, {"$0", 2.0, Dims{-2, -1}, true}},
                  {"linalg_matrix_norm.str_ord", {wide}, {"$0", "fro"}},
                  {"linalg_matrix_norm.str_ord", {wide}, {"$0", "nuc", Dims{1, 2}}},
                  {"linalg_norm", {wide}, {"$0"}},
                  {"linalg_norm", {real({7, 5})}, {"$0", 1.0}},
                  {"linalg_norm.ord_str", {real({7, 5})}, {"$0", "fro"}},
                  {"linalg_tensorinv", {real({4, 2, 2})}, {"$0", 1}},
                  {"linalg_tensorsolve", {real({4, 2, 2}), real({4})}, {"$0", "$1"}}});
}

/// Programs over the others; last, since ahead of the others they would change their draws.
void add_late_programs(std::vector<OpSample>& samples) {
  samples.insert(
      samples.end(),
      {{"_weight_norm", {real({7, 5}), real({1, 5})}, {"$0", "$1", 1}},
       {"_weight_norm", {real({7, 5}), real({})}, {"$0", "$1", -1}},
       {"trace_backward", {real({})}, {"$0", Dims{7, 5}}},
       {"fill_diagonal_", {real({7, 3})}, {"$0", 0.5, true}},
       {"fill_diagonal_", {real({5, 5, 5})}, {"$0", 0.5}},
       {"embedding_bag", {real({7, 3}), index({5}, 7), index({1}, 1)}, {"$0", "$1", "$2"}},
       {"embedding_bag.padding_idx",
        {real({7, 3}), index({5}, 7), index({1}, 1)},
        {"$0", "$1", "$2", false, 1, false, Argument(), false, -2}},
       {"rrelu", {real({7, 5})}, {"$0", 0.125, 0.25, true}},
       {"conv_tbc", {real({5, 3, 2}), real({3, 2, 4}), real({4})}, {"$0", "$1", "$2", 1}}});
}

}  // namespace

void add_function_samples(std::vector<OpSample>& samples) {
  add_contractions(samples);
  add_stacks(samples);
  add_windows_of_functions(samples);
  add_pools_of_functions(samples);
  add_attention(samples);
  add_placed_functions(samples);
  add_losses_of_functions(samples);
  add_figures(samples);
  add_cells(samples);
  add_solutions(samples);
  add_late_programs(samples);
}

}  // namespace shardlab
