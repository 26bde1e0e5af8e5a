// Recorded cases about layers and training: losses, embeddings, convolutions, the check of
// gradients, optimizers. Inputs are those of the recordings.
#include "tests/facts/semantics_text.h"

namespace shardlab::semantics {
namespace {

std::string cross_entropy(const Json& fact) {
  const Json& params = fact.at("params");
  const bool parallel = params.at("loss_parallel").get<bool>();
  const Json whole = whole_of(fact.at("mesh"));
  Json rows = params.at("placements");  // the targets have the placements of the logits' rows
  for (Json& cut : rows) {
    if (cut != "S(0)") cut = "R";
  }
  const std::string weight =
      params.at("weight").get<bool>()
          ? fmt::format(", weight={}", distributed("(arange(8, dtype=f32) + 1)", whole))
          : "";
  const std::string reduction = params.at("reduction").get<std::string>();
  return fmt::format(
      "x = {}\nx.requires_grad_()\ntarget = {}\nprint('fwd_comms')\n"
      "loss = {}(x, target{}, reduction='{}', ignore_index={})\nprint('')\n"
      "loss_placements = loss.placements\nloss_local = loss.to_local()\ntotal = {}\n"
      "print('bwd_comms')\nbackward(total)\nprint('')\ngrad = x.grad\n",
      distributed(fmt::format("tensor({})", params.at("logits").dump()), params.at("placements")),
      distributed(fmt::format("tensor({})", params.at("target").dump()), rows),
      parallel ? "loss_parallel" : "F.cross_entropy", weight, reduction,
      integer_of<int>(params.at("ignore_index")), reduction == "none" ? "loss.sum()" : "loss");
}

/// Inputs of the other recorded losses, classes cut along the last mesh dim.
std::string loss_parallel(const Json& fact) {
  Json placements = whole_of(fact.at("mesh"));
  placements.back() = "S(1)";
  const Json& params = fact.at("params");
  return fmt::format("x = {}\nr = loss_parallel(x, tensor([0, 1, 2, 3])).to_local()\n",
                     distributed("tensor([[4.0, -4.0, -2.0, 2.0, 3.0, 2.0, 3.0, -3.0], "
                                 "[-3.0, -4.0, 4.0, -2.0, 2.0, -1.0, -3.0, -2.0], "
                                 "[-4.0, -4.0, 1.0, -1.0, 4.0, -2.0, 4.0, -2.0], "
                                 "[4.0, 1.0, 3.0, 4.0, 2.0, -4.0, -3.0, -4.0]])",
                                 params.value("placements", placements)));
}

std::string log_softmax(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "x = {}\nx.requires_grad_()\nprint('comms')\nout = log_softmax(x, dim={})\nprint('')\n"
      "total = out.sum()\nprint('bwd_comms')\nbackward(total)\nprint('')\n"
      "grad_placements = x.grad.placements\n",
      distributed(fmt::format("tensor({})", params.at("logits").dump()), params.at("placements")),
      integer_of<int>(params.at("dim")));
}

std::string embedding(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "w = {}\nw.requires_grad_()\nids = {}\nprint('fwd_comms')\nout = embedding(ids, w)\n"
      "print('')\nout_placements = out.placements\nprint('reduce_comms')\n"
      "whole = out.redistribute({})\nprint('')\nafter_R = whole.to_local()\ntotal = whole.sum()\n"
      "print('bwd_comms')\nbackward(total)\nprint('')\ngrad = w.grad\n",
      distributed(
          fmt::format("arange({0}*{1}, dtype=f32).reshape([{0}, {1}])",
                      integer_of<int>(params.at("vocab")), integer_of<int>(params.at("dim"))),
          params.at("weight_placements")),
      distributed(fmt::format("tensor({})", params.at("ids").dump()), params.at("ids_placements")),
      placed(whole_of(fact.at("mesh"))));
}

constexpr std::string_view kTable = "arange(30, dtype=f32).reshape([10, 3])";
constexpr std::string_view kIds = "tensor([[0, 3, 9, 5], [1, 2, 9, 0]])";

/// The table's rows cut along the last mesh dim, the indices whole, the result summed up.
std::string looked_up(const Json& fact, std::string_view more) {
  Json rows = whole_of(fact.at("mesh"));
  rows.back() = "S(0)";
  return fmt::format(
      "w = {}\nw.requires_grad_()\nids = {}\nprint('comms')\ny = embedding(ids, w{})\n",
      distributed(kTable, rows), distributed(kIds, whole_of(fact.at("mesh"))), more);
}

std::string embedding_reduce_scatter(const Json& fact) {
  return looked_up(fact, "") + fmt::format(
                                   "out = y.redistribute({})\nprint('')\nbackward(out.sum())\n"
                                   "grad = w.grad.redistribute({})\n",
                                   placed(fact.at("params").at("to")),
                                   placed(whole_of(fact.at("mesh"))));
}

std::string embedding_padding(const Json& fact) {
  const std::string whole = placed(whole_of(fact.at("mesh")));
  return looked_up(fact, fmt::format(", padding_idx={}",
                                     integer_of<int>(fact.at("params").at("padding_idx")))) +
         fmt::format(
             "out = y.redistribute({0})\nbackward(out.sum())\n"
             "grad = w.grad.redistribute({0})\n",
             whole);
}

std::string embedding_twice(const Json& fact) {
  const std::string whole = placed(whole_of(fact.at("mesh")));
  return looked_up(fact, "") +
         fmt::format("a = y.redistribute({0})\nb = y.redistribute({0})\n", whole);
}

std::string embedding_plus_one(const Json& fact) { return looked_up(fact, "") + "out = y + 1\n"; }

std::string embedding_bag(const Json& fact) {
  const Json whole = whole_of(fact.at("mesh"));
  return fmt::format(
      "w = {}\nout = aten._embedding_bag_forward_only.default(w, {}, tensor([0, 4]))\n",
      distributed(kTable, whole), distributed("tensor([0, 3, 9, 5, 1, 2, 9, 0])", whole));
}

constexpr std::string_view kClose = "bool(({} - {}).abs().max() < 1e-4)";

std::string close_to(std::string_view a, std::string_view b) {
  return fmt::format(fmt::runtime(kClose), a, b);
}

/// Writes the call of the recordings: `windows` are its strides, paddings, dilations and the
/// arguments after them.
std::string convolved(std::string_view x, std::string_view w,
                      std::string_view windows = "[1, 1], [1, 1], [1, 1], False, [0, 0], 1") {
  return fmt::format("aten.convolution.default({}, {}, None, {})", x, w, windows);
}

/// One channel; the width is cut, or the batch. A kernel of odd height is centred.
std::string conv2d(const Json& fact) {
  const Json& params = fact.at("params");
  const auto number = [&](const char* name) { return integer_of<int>(params.at(name)); };
  const int height = integer_of<int>(params.at("kernel")[0]);
  const std::string windows =
      fmt::format("[1, {}], [{}, {}], [1, {}], False, [0, 0], 1", number("stride_w"),
                  (height - 1) / 2, number("padding_w"), number("dilation_w"));
  return fmt::format(
      "x0 = randn([{}, 1, 3, {}])\nw0 = randn([1, 1, {}, {}])\nx0.requires_grad_()\n"
      "w0.requires_grad_()\ndense = {}\n"
      "backward(dense.sum())\nref_error = None\n"
      "x = {}\nw = {}\nprint('fwd_comms')\nout = {}\nprint('')\n"
      "out_placements = out.placements\nout_global = out.shape\n"
      "out_local_shape = out.to_local().shape\nmatches_dense = {}\n"
      "bwd_error = None\nloss = out.sum()\nprint('bwd_comms')\nbackward(loss)\nprint('')\n"
      "x_grad = {{'placements': x.grad.placements, 'local_shape': x.grad.to_local().shape}}\n"
      "x_grad_matches = {}\nw_grad = w.grad.placements\nw_grad_matches = {}\n",
      params.at("x") == Json{"S(0)"} ? 4 : 1, number("width"), height,
      integer_of<int>(params.at("kernel")[1]), convolved("x0", "w0", windows),
      distributed("x0.detach()", params.at("x")) + "\nx.requires_grad_()",
      distributed("w0.detach()", whole_of(fact.at("mesh"))) + "\nw.requires_grad_()",
      convolved("x", "w", windows), close_to("out.full_tensor()", "dense"),
      close_to("x.grad.full_tensor()", "x0.grad"), close_to("w.grad.full_tensor()", "w0.grad"));
}

std::string conv2d_placements(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "x0 = randn([4, 8, 16, 16])\nw0 = randn([8, 8, 3, 3])\nx = {}\nw = {}\n"
      "print('comms')\ny = {}\nprint('')\nout = y.placements\n"
      "local_shape = y.to_local().shape\ndense = {}\nmatches_dense = {}\n",
      made("x0", params.at("x")), distributed("w0", params.at("w")), convolved("x", "w"),
      convolved("x.full_tensor()", "w0"), close_to("y.full_tensor()", "dense"));
}

std::string conv2d_uneven(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
             "x0 = randn([1, 1, 3, {}])\nw0 = randn([1, 1, 3, 3])\n"
             "dense = {}\nx = distribute(x0, mesh=mesh, m0=S(3))\n"
             "w = distribute(w0, mesh=mesh, m0=R)\ny = {}\nlocal_in = "
             "x.to_local().shape\nlocal_out = y.to_local().shape\n"
             "matches_dense = {}\n",
             integer_of<int>(params.at("width")), convolved("x0", "w0"), convolved("x", "w"),
             close_to("y.full_tensor()", "dense")) +
         "global_ = y.shape\n";
}

constexpr std::string_view kUnscale =
    "aten._amp_foreach_non_finite_check_and_unscale_.default({}, found, scale)\n";

/// Every rank's piece is the same, except for an infinity in that of one.
std::string found_inf(const Json& fact) {
  const Json& params = fact.at("params");
  const Json& where = params.at("inf_on_rank");
  return fmt::format(
             "first = {}\nt = tensor([first, 2.0, 3.0, 4.0])\ng = from_local(t, mesh=mesh, {})\n"
             "found = tensor([0.0])\nscale = tensor([{}])\nprint('comms')\n",
             where.is_null()
                 ? "1.0"
                 : fmt::format("float('inf') if rank == {} else 1.0", integer_of<int>(where)),
             placed(params.at("placements")), params.at("inv_scale").get<double>()) +
         fmt::format(fmt::runtime(kUnscale), "[g]") +
         "print('')\nfound_inf = found.item()\nlocal = [str(v) for v in g.to_local().tolist()]\n";
}

std::string found_inf_mixed(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
             "a = from_local(ones([2]), mesh=mesh, {})\n"
             "b = from_local(ones([2]) * (float('nan') if rank == 0 else 1.0), mesh=mesh, {})\n"
             "found = tensor([0.0])\nscale = tensor([1.0])\n",
             placed(params.at("first")), placed(params.at("second"))) +
         fmt::format(fmt::runtime(kUnscale), "[a, b]") + "found_inf = found.item()\n";
}

/// Does what torch.nn.utils.clip_grad_norm_ does for two gradients of 0..15.
std::string clip_grad_norm(const Json& fact) {
  return fmt::format(
      "grads = [{0}, {0}]\nprint('comms')\n"
      "norms = [aten.linalg_vector_norm.default(g, 2) for g in grads]\n"
      "norm = aten.linalg_vector_norm.default(stack(norms), 2)\n"
      "clip = (1.0 / (norm + 1e-6)).clamp(max=1.0)\n"
      "aten._foreach_mul_.Tensor(grads, clip)\nprint('')\n"
      "full = norm.full_tensor()\nnorm = norm.redistribute({1})\ngrad = grads[0]\n",
      distributed(kFour, rows_of(fact.at("mesh"))), placed(whole_of(fact.at("mesh"))));
}

std::string foreach_add_number(const Json& fact) {
  const Json rows = rows_of(fact.at("mesh"));
  return fmt::format(
      "a = {}\nb = {}\naten._foreach_add_.Scalar([a, b], 1)\n"
      "full = [a.full_tensor(), b.full_tensor()]\n",
      distributed(kFour, rows), distributed(fmt::format("({} + 3)", kFour), rows));
}

std::string foreach_add_lists(const Json& fact) {
  const Json& params = fact.at("params");
  const auto list = [&](const char* name, std::string_view second) {
    return fmt::format("[{}, {}]", distributed(kFour, params.at(name)[0]),
                       distributed(second, params.at(name)[1]));
  };
  return fmt::format(
      "xs = {}\nys = {}\nprint('comms')\naten._foreach_add_.List(xs, ys)\nprint('')\n"
      "placements = [x.placements for x in xs]\nfull = [x.full_tensor() for x in xs]\n",
      list("self", fmt::format("({} + 3)", kFour)), list("other", kFour));
}

/// The first step, with a gradient of ones and the rate 0.1.
std::string adamw_step(const Json& fact) {
  const Json& placements = fact.at("params").at("placements");
  return fmt::format(
      "p = {}\ng = {}\nm = {}\nv = {}\nstep = {}\nprint('comms')\n"
      "aten._fused_adamw_.default([p], [g], [m], [v], [], [step], lr=0.1, beta1=0.9, "
      "beta2=0.999, weight_decay=0.01, eps=1e-8, amsgrad=False, maximize=False)\nprint('')\n"
      "placements = p.placements\nfull = p.full_tensor()\n",
      distributed(kFour, placements), distributed("ones([4, 4])", placements),
      distributed("zeros([4, 4])", placements), distributed("zeros([4, 4])", placements),
      distributed("tensor(1.0)", whole_of(fact.at("mesh"))));
}

constexpr Case kLayerCases[] = {
    {"cross_entropy", cross_entropy},
    {"log_softmax", log_softmax},
    {"loss_parallel_invalid", loss_parallel},
    {"loss_parallel_plain_target", loss_parallel},
    {"embedding", embedding},
    {"embedding_reduce_scatter", embedding_reduce_scatter},
    {"embedding_reduce_mask_partial_twice", embedding_twice},
    {"embedding_padding_idx", embedding_padding},
    {"embedding_mask_partial_plus_1", embedding_plus_one},
    {"embedding_bag", embedding_bag},
    {"conv2d", conv2d},
    {"conv2d_placements", conv2d_placements},
    {"conv2d_uneven_width", conv2d_uneven},
    {"found_inf", found_inf},
    {"found_inf_mixed_list", found_inf_mixed},
    {"clip_grad_norm_", clip_grad_norm},
    {"foreach_add_", foreach_add_number},
    {"foreach_add_list_", foreach_add_lists},
    {"adamw_step", adamw_step},
};

}  // namespace

std::span<const Case> layer_cases() { return kLayerCases; }

}  // namespace shardlab::semantics
