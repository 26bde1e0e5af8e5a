#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "sim/verify/semantics_facts.h"

// Each case of the recorded behaviour as a program of a few lines. Inputs are what the recordings
// were made with; names set here are the recorded fields.

namespace shardlab {
namespace {

/// "m0=S(0), m1=R" for ["S(0)", "R"].
std::string placed(const Json& placements) {
  std::string text;
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    text += fmt::format("{}m{}={}", dim == 0 ? "" : ", ", dim, placements[dim].get<std::string>());
  }
  return text;
}

bool has_partial(const Json& placements) {
  for (const Json& placement : placements) {
    if (placement.get_ref<const std::string&>().starts_with('P')) return true;
  }
  return false;
}

/// A whole value cut into pieces.
std::string distributed(std::string_view value, const Json& placements) {
  return fmt::format("distribute({}, mesh=mesh, {})", value, placed(placements));
}

/// With a partial in it, every rank's piece of the value plus its rank is its own piece; else cut.
std::string made(std::string_view value, const Json& placements) {
  if (!has_partial(placements)) return distributed(value, placements);
  Json cuts = placements;
  for (Json& cut : cuts) {
    if (cut.get_ref<const std::string&>().starts_with('P')) cut = "R";
  }
  return fmt::format("from_local({}.to_local() + rank, mesh=mesh, {})", distributed(value, cuts),
                     placed(placements));
}

constexpr std::string_view kFour = "arange(16, dtype=f32).reshape([4, 4])";
constexpr std::string_view kFourUp = "(arange(16, dtype=f32).reshape([4, 4]) + 1)";

/// Cut along the first mesh dim, whole on the others.
Json rows_of(const Json& mesh) {
  Json placements = Json::array({"S(0)"});
  while (placements.size() < mesh.size()) placements.push_back("R");
  return placements;
}

Json whole_of(const Json& mesh) {
  Json placements = Json::array();
  for (std::size_t dim = 0; dim < mesh.size(); ++dim) placements.push_back("R");
  return placements;
}

struct Named {
  std::string_view name;
  std::string_view code;
};

std::string find(std::span<const Named> table, std::string_view name) {
  for (const Named& row : table) {
    if (row.name == name) return std::string(row.code);
  }
  return "";
}

constexpr Named kUnary[] = {
    {"sum", "x.sum()"},
    {"sum0", "x.sum(dim=0)"},
    {"mean", "x.mean()"},
    {"mean0", "x.mean(dim=0)"},
    {"max", "x.max()"},
    {"amax0", "x.amax(dim=0)"},
    {"var", "x.var()"},
    {"relu", "relu(x)"},
    {"exp", "exp(x)"},
    {"neg", "-x"},
    {"mul2", "x * 2"},
    {"add1", "x + 1"},
    {"div2", "x / 2"},
    {"x*x", "x * x"},
    {"x+x", "x + x"},
    {"softmax0", "softmax(x, dim=0)"},
    {"softmax1", "softmax(x, dim=1)"},
    {"t", "x.t()"},
    {"view_flat", "x.view(-1)"},
    {"unsq", "x.unsqueeze(0)"},
    {"cat", "cat([x, x], dim=0)"},
    {"stack", "stack([x, x], dim=0)"},
    {"split", "x.split(2, dim=0)[0]"},
    {"index", "x[0]"},
    {"slice", "x[1:3]"},
    {"clone", "x.clone()"},
    {"cumsum0", "x.cumsum(0)"},
    {"topk", "x.topk(2, dim=0)[0]"},
    {"sort", "x.sort(dim=0)[0]"},
    {"prod", "x.prod()"},
    {"norm", "x.norm()"},
    {"gelu", "F.gelu(x)"},
    {"dropout_eval", "F.dropout(x, training=False)"},
    {"triu", "x.triu()"},
    {"flip", "x.flip([0])"},
    {"roll", "x.roll(1, 0)"},
    {"expand", "x.expand(3, 8, 8)"},
    {"to_f64", "x.to(f64)"},
    {"all", "(x > 0).all()"},
    {"lerp", "x.lerp(x, 0.5)"},
};

std::string unary_comm(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string code = find(kUnary, params.at("op").get<std::string>());
  if (code.empty()) return "";
  return fmt::format("x = {}\nprint('comms')\nout = {}\nprint('')\nshape = out.shape\n",
                     made("arange(64, dtype=f32).reshape([8, 8])", params.at("placements")), code);
}

constexpr Named kBinary[] = {
    {"add", "a + b"}, {"mul", "a * b"}, {"mm", "mm(a, b)"}, {"where", "where(a > 0, a, b)"}};

std::string binary_comm(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string code = find(kBinary, params.at("op").get<std::string>());
  if (code.empty()) return "";
  constexpr std::string_view kEight = "arange(64, dtype=f32).reshape([8, 8])";
  return fmt::format("a = {}\nb = {}\nprint('comms')\nout = {}\n", made(kEight, params.at("a")),
                     made(kEight, params.at("b")), code);
}

/// What a user would write: named tensors with their shapes, then the forward program.
struct Sequence {
  std::string_view name;
  std::string_view inputs;  ///< "x [8, 16]; w [16, 32]": placed as recorded, else as the code says
  std::string_view code;    ///< TP: the last mesh dim
};

constexpr Sequence kSequences[] = {
    {"matmul", "x [8, 16]; w [16, 32]", "out = x @ w"},
    {"linear_bias", "x [8, 16]; w [32, 16]; b [32]", "out = linear(x, w, b)"},
    {"tp_mlp_allreduce", "x [8, 16]; w1 [32, 16] S(0); w2 [16, 32] S(1)",
     "out = linear(relu(linear(x.redistribute(TP=R), w1)), w2).redistribute(TP=R)"},
    {"tp_mlp_sequence_parallel", "x [8, 16] S(0); w1 [32, 16] S(0); w2 [16, 32] S(1)",
     "out = linear(relu(linear(x.redistribute(TP=R), w1)), w2).redistribute(TP=S(0))"},
    {"fsdp_like_linear", "x [8, 16] m0; w [8, 16] m0", "out = linear(x, w.redistribute(m0=R))"},
    {"ddp_like_linear", "x [8, 16] m0; w [8, 16]", "out = linear(x, w)"},
    {"attention_heads_sharded", "q [2, 4, 8, 4] S(1); k [2, 4, 8, 4] S(1); v [2, 4, 8, 4] S(1)",
     "out = softmax(q @ k.transpose(-1, -2), dim=-1) @ v"},
    {"attention_seq_sharded", "q [2, 4, 8, 4] S(2); k [2, 4, 8, 4] S(2); v [2, 4, 8, 4] S(2)",
     "out = softmax(q @ k.transpose(-1, -2), dim=-1) @ v"},
    {"attention_batch_sharded", "q [2, 4, 8, 4] S(0); k [2, 4, 8, 4] S(0); v [2, 4, 8, 4] S(0)",
     "out = softmax(q @ k.transpose(-1, -2), dim=-1) @ v"},
    {"layer_norm", "x [4, 8, 16]; w [16]; b [16]", "out = F.layer_norm(x, [16], w, b)"},
    {"rms_norm", "x [4, 8, 16]; w [16]", "out = F.rms_norm(x, [16], w)"},
    {"dp_tp_mlp", "x [8, 16] m0; w1 [32, 16] S(0); w2 [16, 32] S(1)",
     "out = linear(relu(linear(x.redistribute(TP=R), w1)), w2).redistribute(TP=R)"},
};

/// Placements of a sequence's input: recorded, or the one that its text names on the last mesh dim
/// ("m0": rows on the first).
Json placements_in(const Json& fact, std::string_view name, std::string_view cut) {
  const Json& params = fact.at("params");
  if (params.contains(name)) return params.at(std::string(name));
  if (cut == "m0") return rows_of(fact.at("mesh"));
  Json placements = whole_of(fact.at("mesh"));
  if (!cut.empty()) placements.back() = std::string(cut);
  return placements;
}

std::string comm_counts(const Json& fact) {
  for (const Sequence& row : kSequences) {
    if (row.name != fact.at("params").at("seq").get<std::string>()) continue;
    std::string text, ask, gradients;
    for (std::string_view left = row.inputs; !left.empty();) {
      const std::size_t end = std::min(left.find("; "), left.size());
      const std::string_view input = left.substr(0, end);
      left.remove_prefix(std::min(end + 2, left.size()));
      const std::size_t open = input.find(' '), close = input.find(']') + 1;
      const std::string_view name = input.substr(0, open);
      const std::string_view cut = close < input.size() ? input.substr(close + 1) : "";
      text += fmt::format("{} = {}\n", name,
                          made(fmt::format("randn({})", input.substr(open + 1, close - open - 1)),
                               placements_in(fact, name, cut)));
      ask += fmt::format("{}.requires_grad_()\n", name);
      gradients += fmt::format("'{0}': {0}.grad.placements, ", name);
    }
    std::string code(row.code);
    for (std::size_t at; (at = code.find("TP=")) != std::string::npos;) {
      code.replace(at, 2, fmt::format("m{}", fact.at("mesh").size() - 1));
    }
    return fmt::format(
        "{}{}print('fwd')\n{}\nprint('')\nout_placements = out.placements\n"
        "loss = out.sum()\nloss_placements = loss.placements\n"
        "print('bwd')\nbackward(loss)\nprint('')\ngrads = {{{}}}\n",
        text, ask, code, gradients);
  }
  return "";
}

/// norm, a column-wise and a row-wise layer; with sequence parallelism around the norm.
std::string parallelize_mlp(const Json& fact) {
  const bool sequence = fact.at("params").at("sequence_parallel").get<bool>();
  const std::string_view placed_norm =
      sequence ? "params = shard(params, 'norm.*', 'm0=R')\n"
                 "h = prepare_input(x, dim='m0', layout=S(1), given=S(1))\n"
               : "h = x\n";
  return fmt::format(
      "params = {{'norm.weight': ones([16]), 'norm.bias': zeros([16]), 'a.weight': randn([32, "
      "16]), "
      "'a.bias': zeros([32]), 'b.weight': randn([16, 32]), 'b.bias': zeros([16])}}\n"
      "for n in params:\n    params[n].requires_grad_()\n"
      "params = shard(params, 'a.*', 'm0=S(0)')\n"
      "params = shard(params, 'b.weight', '[_, _@m0]')\n"
      "params = shard(params, 'b.bias', 'm0=R')\n"
      "x = randn([2, 4, 16])\nx.requires_grad_()\n{}print('fwd')\n"
      "h = F.layer_norm(h, [16], params['norm.weight'], params['norm.bias'])\n"
      "h = relu(column_parallel(h, params['a.weight'], params['a.bias'], dim='m0'))\n"
      "out = row_parallel(h, params['b.weight'], params['b.bias'], dim='m0', "
      "output_layout={})\nprint('bwd')\nbackward(out.sum())\nprint('')\n"
      "grads = {{n: params[n].grad for n in params}}\nx_grad_type = x.grad\n",
      placed_norm, sequence ? "S(1)" : "R");
}

constexpr Named kInPlace[] = {{"add_", "x.add_(y)"},   {"mul_", "x.mul_(y)"},
                              {"copy_", "x.copy_(y)"}, {"sub_", "x.sub_(y)"},
                              {"div_", "x.div_(y)"},   {"lerp_", "x.lerp_(y, 0.5)"}};

std::string inplace(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "x = {}\ny = {}\nprint('comms')\nis_self = {}\nprint('')\nplacements = x.placements\n"
      "full = x.full_tensor()\n",
      made(kFour, params.at("self")), made(kFourUp, params.at("other")),
      find(kInPlace, params.at("op").get<std::string>()));
}

constexpr Named kInPlaceUnary[] = {
    {"add_scalar_", "x.add_(1)"},
    {"mul_scalar_", "x.mul_(2)"},
    {"zero_", "x.zero_()"},
    {"fill_", "x.fill_(3)"},
    {"relu_", "x.relu_()"},
    {"clamp_", "x.clamp_(1, 5)"},
    {"neg_", "x.neg_()"},
    {"t_", "x.t_()"},
    {"squeeze_", "x.squeeze_()"},
    {"unsqueeze_", "x.unsqueeze_(0)"},
    {"transpose_", "x.transpose_(0, 1)"},
    {"cumsum_", "x.cumsum_(0)"},
    {"masked_fill_", "x.masked_fill_(mask, 0)"},
    {"index_add_", "x.index_add_(0, index, source)"},
    {"detach_", "x.detach_()"},
};

std::string inplace_unary(const Json& fact) {
  const Json& params = fact.at("params");
  const Json whole = whole_of(fact.at("mesh"));
  std::string more;
  if (params.at("op") == "masked_fill_") {
    more = fmt::format("mask = {}\n", distributed(fmt::format("({} > 3)", kFour), whole));
  } else if (params.at("op") == "index_add_") {
    more = fmt::format("index = {}\nsource = {}\n", distributed("arange(2)", whole),
                       distributed("ones([2, 4])", whole));
  }
  return fmt::format(
      "x = {}\n{}print('comms')\nis_self = {}\nprint('')\nplacements = x.placements\n"
      "shape = x.shape\nfull = x.full_tensor()\n",
      made(kFour, params.at("self")), more,
      find(kInPlaceUnary, params.at("op").get<std::string>()));
}

std::string out_variant(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string op = params.at("op").get<std::string>();
  const bool sums = op == "sum_dim";
  return fmt::format(
      "x = {}\ny = {}\nout = {}\nprint('comms')\nis_out = {}\nprint('')\n"
      "placements = out.placements\nfull = out.full_tensor()\n",
      made(kFour, params.at("self")), made(kFourUp, params.at("other")),
      distributed(sums ? "zeros([4])" : "zeros([4, 4])", params.at("out")),
      sums ? "torch.sum(x, dim=[0], out=out)" : fmt::format("torch.{}(x, y, out=out)", op));
}

std::string equal(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format("a = {}\nb = {}\nprint('comms')\nequal = torch.equal(a, b)\n",
                     distributed(kFour, params.at("a")),
                     distributed(params.at("same").get<bool>() ? kFour : kFourUp, params.at("b")));
}

std::string arg_extreme(const Json& fact) {
  const Json& params = fact.at("params");
  const Json& values = params.at("values");
  const Json dim = params.at("dim");
  return fmt::format("x = {}\nprint('comms')\nout = x.{}({})\n",
                     distributed(fmt::format("tensor({})", values.dump()), params.at("placements")),
                     fact.at("case").get<std::string>(),
                     dim.is_null() ? "" : fmt::format("dim={}", dim.get<int>()));
}

std::string as_strided(const Json& fact) {
  const std::string name = fact.at("case").get<std::string>();
  const bool transposes = name == "as_strided_transpose";
  const std::string size = name == "as_strided_same" ? "[4, 4], [4, 1]" : "[2, 2], [4, 1]";
  return fmt::format("x = {}\nout = aten.as_strided.default(x, {})\n",
                     distributed(transposes ? "arange(24, dtype=f32).reshape([6, 4])" : kFour,
                                 fact.at("params").at("placements")),
                     transposes ? "[4, 6], [1, 4]" : size);
}

/// What a recording made with from_local alone holds: equal pieces on all ranks.
std::string alike(std::string_view piece, const Json& placements) {
  return fmt::format("from_local({}, mesh=mesh, {})", piece, placed(placements));
}

std::string vector_norm(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string ord = params.at("ord").get<std::string>();
  return fmt::format(
      "x = {}\nprint('comms')\nnorm = aten.linalg_vector_norm.default(x, {})\nprint('')\n"
      "placements = norm.placements\nfull = norm.full_tensor()\n",
      alike("arange(7, dtype=f32)", params.at("placements")), ord == "inf" ? "float('inf')" : ord);
}

constexpr Named kMixed[] = {{"add", "x + plain"},
                            {"mm", "mm(x, plain)"},
                            {"cat", "cat([x, plain], dim=1)"},
                            {"where", "where(x > 0, x, plain)"},
                            {"add_", "x.add_(plain)"},
                            {"radd", "plain + x"},
                            {"stack", "stack([x, plain])"}};

std::string mixed_tensor(const Json& fact) {
  return fmt::format("x = {}\nplain = {}\nprint('comms')\nout = {}\n",
                     distributed(kFour, rows_of(fact.at("mesh"))), kFour,
                     find(kMixed, fact.at("params").at("op").get<std::string>()));
}

constexpr Named kScalars[] = {{"0-d", "tensor(2.0)"},
                              {"1-d numel 1", "tensor([2.0])"},
                              {"2-d numel 1", "tensor([[2.0]])"},
                              {"numel 4", "full([4], 2.0)"},
                              {"python int", "2"},
                              {"python float", "2.5"}};

std::string scalar_tensor(const Json& fact) {
  return fmt::format("x = {}\ns = {}\nout = x * s\n", distributed(kFour, rows_of(fact.at("mesh"))),
                     find(kScalars, fact.at("params").at("scalar").get<std::string>()));
}

std::string scalar_tensor_partial(const Json& fact) {
  const Json& params = fact.at("params");
  Json placements = whole_of(fact.at("mesh"));
  placements[0] = params.at("placement");
  const std::string op = params.at("op").get<std::string>();
  return fmt::format("x = {}\ns = {}\nprint('comms')\nout = x {} s\n",
                     made("arange(4, dtype=f32).reshape([2, 2])", placements),
                     find(kScalars, params.at("scalar").get<std::string>()),
                     op == "mul"   ? "*"
                     : op == "add" ? "+"
                                   : "/");
}

std::string cross_entropy(const Json& fact) {
  const Json& params = fact.at("params");
  if (params.at("loss_parallel").get<bool>()) return "";
  const Json whole = whole_of(fact.at("mesh"));
  Json rows = params.at("placements");  // the targets go with the rows of the logits
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
      "loss = F.cross_entropy(x, target{}, reduction='{}', ignore_index={})\nprint('')\n"
      "loss_placements = loss.placements\nloss_local = loss.to_local()\ntotal = {}\n"
      "print('bwd_comms')\nbackward(total)\nprint('')\ngrad = x.grad\n",
      distributed(fmt::format("tensor({})", params.at("logits").dump()), params.at("placements")),
      distributed(fmt::format("tensor({})", params.at("target").dump()), rows), weight, reduction,
      params.at("ignore_index").get<int>(), reduction == "none" ? "loss.sum()" : "loss");
}

std::string log_softmax(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "x = {}\nx.requires_grad_()\nprint('comms')\nout = log_softmax(x, dim={})\nprint('')\n"
      "total = out.sum()\nprint('bwd_comms')\nbackward(total)\nprint('')\n"
      "grad_placements = x.grad.placements\n",
      distributed(fmt::format("tensor({})", params.at("logits").dump()), params.at("placements")),
      params.at("dim").get<int>());
}

std::string embedding(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "w = {}\nw.requires_grad_()\nids = {}\nprint('fwd_comms')\nout = embedding(ids, w)\n"
      "print('')\nout_placements = out.placements\nprint('reduce_comms')\n"
      "whole = out.redistribute({})\nprint('')\nafter_R = whole.to_local()\ntotal = whole.sum()\n"
      "print('bwd_comms')\nbackward(total)\nprint('')\ngrad = w.grad\n",
      distributed(fmt::format("arange({0}*{1}, dtype=f32).reshape([{0}, {1}])",
                              params.at("vocab").get<int>(), params.at("dim").get<int>()),
                  params.at("weight_placements")),
      distributed(fmt::format("tensor({})", params.at("ids").dump()), params.at("ids_placements")),
      placed(whole_of(fact.at("mesh"))));
}

std::string from_local(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "t = arange(6, dtype=f32).reshape([2, 3])\n"
      "x = from_local(t, mesh=mesh, {})\n"
      "shape = x.shape\nstride = x.stride()\nplacements = x.placements\n",
      placed(params.at("placements")));
}

std::string distribute_tensor(const Json& fact) {
  const Json& params = fact.at("params");
  const Json& shape = params.at("shape");
  std::string count = "1";
  for (const Json& size : shape) count += fmt::format("*{}", size.get<int>());
  return fmt::format(
      "t = arange({}, dtype=f32).reshape({})\nx = {}\nplacements = x.placements\n"
      "local = x.to_local()\nstride = x.to_local().stride()\n"
      "full = torch.equal(x.full_tensor(), t)\nglobal_shape = x.shape\n"
      "global_stride = x.stride()\n",
      count, shape.dump(), distributed("t", params.at("placements")));
}

std::string factory(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string name = fact.at("case").get<std::string>().substr(8);
  return fmt::format(
      "x = {}({}{}, {})\nplacements = x.placements\nlocal = x.to_local()\n"
      "local_shape = x.to_local().shape\n",
      name, params.at("shape").dump(), name == "full" ? ", 7.0" : "",
      placed(params.at("placements")));
}

std::string full_tensor_grad(const Json& fact) {
  return fmt::format(
      "t = ones([2, 3])\nt.requires_grad_()\nx = from_local(t, mesh=mesh, {})\n"
      "print('comms')\nf = x.full_tensor()\nprint('')\nfull_shape = f.shape\n"
      "backward(f.sum())\ngrad = t.grad\n",
      placed(fact.at("params").at("placements")));
}

std::string redistribute_to_R_grad(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "t = ones([2, 3])\nt.requires_grad_()\nx = from_local(t, mesh=mesh, {})\n"
      "y = x.redistribute({})\nbackward((y * 2).sum())\ngrad = t.grad\n",
      placed(params.at("placements")), placed(whole_of(fact.at("mesh"))));
}

std::string distribute_source(const Json& fact) {
  const Json& params = fact.at("params");
  const Json& source = params.at("src_data_rank");
  return fmt::format(
      "t = arange(15, dtype=f32).reshape([5, 3]) + 1000 * rank\n"
      "x = distribute(t, mesh=mesh, src_data_rank={}, {})\nlocal = x.to_local()\n",
      source.is_null() ? "None" : source.dump(), placed(params.at("placements")));
}

std::string from_local_checked(const Json& fact) {
  return fmt::format(
      "t = arange(6, dtype=f32).reshape([2, 3]) + rank\n"
      "x = from_local(t, mesh=mesh, run_check=True, {})\n"
      "shape = x.shape\nlocal = x.to_local()\nfull = x.full_tensor()\n",
      placed(fact.at("params").at("placements")));
}

std::string to_local_grad(const Json& fact) {
  const Json& params = fact.at("params");
  const Json& gradient = params.at("grad_placements");
  std::string labels;
  if (!gradient.is_null()) {
    for (const Json& label : gradient) labels += label.get<std::string>() + ", ";
  }
  return fmt::format(
      "t = ones([2, 3])\nt.requires_grad_()\nx = from_local(t, mesh=mesh, {})\n"
      "y = x.to_local({})\nprint('comms')\nbackward(y, gradient=ones(y.shape) * (rank + 1))\n"
      "print('')\ngrad = t.grad\n",
      placed(params.at("placements")),
      gradient.is_null() ? "" : fmt::format("grad_placements=[{}]", labels));
}

std::string item(const Json& fact) {
  Json placements = whole_of(fact.at("mesh"));
  const std::string label = fact.at("params").at("placement").get<std::string>();
  if (label == "R") return fmt::format("v = {}.item()\n", distributed("tensor(3.0)", placements));
  placements[0] = label;
  return fmt::format("v = {}.item()\n", alike("tensor(3.0)", placements));
}

std::string item_of_sum(const Json& fact) {
  return fmt::format("s = {}.sum()\nplacements = s.placements\nv = s.item()\n",
                     distributed(kFour, rows_of(fact.at("mesh"))));
}

/// Programs on two of four ranks; x is [4, 4] or, where only its placing is looked at, [5, 3].
constexpr Named kOnPart[] = {
    {"sub_coordinate", "coord = mesh.coordinate()"},
    {"sub_distribute_tensor", "local = y.to_local()\nshape = y.shape"},
    {"sub_full_tensor", "full = y.full_tensor()"},
    {"sub_add", "z = x + x\nlocal = z.to_local()\nplacements = z.placements\nshape = z.shape"},
    {"sub_sum", "z = x.sum()\nlocal = z.to_local()\nplacements = z.placements\nshape = z.shape"},
    {"sub_redistribute",
     "z = x.redistribute(m0=R)\nlocal = z.to_local()\nplacements = z.placements\nshape = z.shape"},
    {"sub_split", "locals = [p.to_local() for p in x.split(2, dim=1)]"},
    {"sub_equal", "v = torch.equal(x, x)"},
    {"sub_is_same_size", "v = aten.is_same_size.default(x, x)"},
    {"sub_max_dim", "locals = [p.to_local() for p in x.max(dim=1)]"},
    {"sub_local_scalar", "v = x.sum().item()"},
    {"sub_inplace", "x.add_(1)\nlocal = x.to_local()"},
    {"sub_to_local_dtype", "shape = (x > 0).to_local().shape"},
    {"sub_from_local",
     "z = from_local(arange(6, dtype=f32).reshape([2, 3]), mesh=mesh, m0=S(0))\n"
     "local = z.to_local()\nshape = z.shape"},
    {"sub_zeros", "z = zeros([5, 3], m0=S(0))\nlocal = z.to_local()\nshape = z.shape"},
};

std::string on_part(const Json& fact) {
  const Json placements = fact.at("params").value("placements", Json::array({"R"}));
  return fmt::format("x = {}\ny = {}\n{}\n", distributed(kFour, placements),
                     distributed("arange(15, dtype=f32).reshape([5, 3])", placements),
                     find(kOnPart, fact.at("case").get<std::string>()));
}

struct Case {
  std::string_view name;
  std::string (*write)(const Json& fact);
};

constexpr Case kCases[] = {
    {"unary_comm", unary_comm},
    {"binary_comm", binary_comm},
    {"comm_counts", comm_counts},
    {"parallelize_mlp", parallelize_mlp},
    {"inplace", inplace},
    {"inplace_unary", inplace_unary},
    {"out_variant", out_variant},
    {"equal", equal},
    {"argmax", arg_extreme},
    {"argmin", arg_extreme},
    {"as_strided_same", as_strided},
    {"as_strided_transpose", as_strided},
    {"as_strided_other", as_strided},
    {"vector_norm", vector_norm},
    {"mixed_tensor", mixed_tensor},
    {"scalar_tensor", scalar_tensor},
    {"scalar_tensor_partial", scalar_tensor_partial},
    {"cross_entropy", cross_entropy},
    {"log_softmax", log_softmax},
    {"embedding", embedding},
    {"from_local", from_local},
    {"distribute_tensor", distribute_tensor},
    {"factory_zeros", factory},
    {"factory_ones", factory},
    {"factory_full", factory},
    {"full_tensor_grad", full_tensor_grad},
    {"redistribute_to_R_grad", redistribute_to_R_grad},
    {"distribute_tensor_src_data_rank", distribute_source},
    {"from_local_run_check", from_local_checked},
    {"to_local_grad", to_local_grad},
    {"item", item},
    {"item_of_sum", item_of_sum},
};

}  // namespace

std::optional<SemanticsProgram> semantics_program(const Json& fact) {
  const std::string name = fact.at("case").get<std::string>();
  if (!find(kOnPart, name).empty()) {
    const auto ranks = fact.at("params").at("mesh_ranks").get<std::vector<std::int64_t>>();
    return SemanticsProgram{on_part(fact), {static_cast<std::int64_t>(ranks.size())}, ranks};
  }
  for (const Case& row : kCases) {
    if (row.name != name) continue;
    std::string text = row.write(fact);
    if (text.empty()) return std::nullopt;
    // Styles were recorded along one dim of the mesh.
    if (name == "parallelize_mlp") return SemanticsProgram{std::move(text), {4}, {}};
    return SemanticsProgram{std::move(text), fact.at("mesh").get<std::vector<std::int64_t>>(), {}};
  }
  return std::nullopt;
}

}  // namespace shardlab
