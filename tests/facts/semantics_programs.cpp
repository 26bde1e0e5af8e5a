// Each case of the recorded behaviour as a program of a few lines. Inputs are those of the
// recordings; names set here are the recorded fields. Here: counts of collectives, ops in place and
// with out=, comparisons, plain tensors mixed with distributed ones.
#include "tests/facts/semantics_facts.h"
#include "tests/facts/semantics_text.h"

namespace shardlab {
namespace semantics {
namespace {

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
    {"expand", "x.expand(3, *x.shape)"},
    {"to_f64", "x.to(f64)"},
    {"all", "(x > 0).all()"},
    {"lerp", "x.lerp(x, 0.5)"},
};

/// The recordings' inputs are square and cut evenly: the least such size from 6 on.
std::string square(const Json& fact) {
  std::int64_t ranks = 1;
  for (const Json& size : fact.at("mesh")) ranks *= integer_of<std::int64_t>(size);
  const std::int64_t side = (6 + ranks - 1) / ranks * ranks;
  return fmt::format("arange({}, dtype=f32).reshape([{}, {}])", side * side, side, side);
}

std::string unary_comm(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string code = find(kUnary, params.at("op").get<std::string>());
  if (code.empty()) return "";
  return fmt::format("x = {}\nprint('comms')\nout = {}\nprint('')\nshape = out.shape\n",
                     made(square(fact), params.at("placements")), code);
}

constexpr Named kBinary[] = {
    {"add", "a + b"}, {"mul", "a * b"}, {"mm", "mm(a, b)"}, {"where", "where(a > 0, a, b)"}};

std::string binary_comm(const Json& fact) {
  const Json& params = fact.at("params");
  const std::string code = find(kBinary, params.at("op").get<std::string>());
  if (code.empty()) return "";
  return fmt::format("a = {}\nb = {}\nprint('comms')\nout = {}\n",
                     made(square(fact), params.at("a")), made(square(fact), params.at("b")), code);
}

/// A user's program: named tensors with their shapes, then the forward program.
struct Sequence {
  std::string_view name;
  std::string_view inputs;  ///< "x [8, 16]; w [16, 32]": placed as recorded, else as in the code
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
  const std::string_view before = sequence ? "norm = shard(norm, {'norm.*': '[_]'})\n" : "";
  const std::string_view normed =
      sequence ? "h = F.layer_norm(from_local(x, mesh=mesh, m0=S(1)), [16], *norm.values())\n"
               : "h = from_local(F.layer_norm(x, [16], *norm.values()), mesh=mesh)\n";
  return fmt::format(
      "norm = {{'norm.weight': ones([16]), 'norm.bias': zeros([16])}}\n{}"
      "layers = shard({{'a.weight': randn([32, 16]), 'a.bias': zeros([32]), "
      "'b.weight': randn([16, 32]), 'b.bias': zeros([16])}}, {{'a.weight': '[_@m0, _]', "
      "'a.bias': '[_@m0]', 'b.weight': '[_, _@m0]', 'b.bias': '[_]'}})\n"
      "params = {{n: v for n, v in list(norm.items()) + list(layers.items())}}\n"
      "for n in params:\n    params[n].requires_grad_()\n"
      "x = randn([2, 4, 16])\nx.requires_grad_()\nprint('fwd')\n{}"
      "h = relu(column_wise(h, params['a.weight'], params['a.bias']))\n"
      "out = row_wise(h, params['b.weight'], params['b.bias'], output={})\n"
      "print('bwd')\nbackward(out.sum())\nprint('')\n"
      "grads = {{n: params[n].grad for n in params}}\nx_grad_type = x.grad\n",
      before, normed, sequence ? "S(1)" : "R");
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
    more = fmt::format("index = {}\nsource = {}\n", distributed("arange(1)", whole),
                       distributed("ones([1, 4])", whole));
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
                     dim.is_null() ? "" : fmt::format("dim={}", integer_of<int>(dim)));
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

std::string implicit_replication(const Json& fact) {
  if (fact.at("params").at("op") != "cat") return mixed_tensor(fact);
  return fmt::format("x = {}\nplain = {}\nprint('comms')\nout = cat([x, plain], dim=0)\n",
                     distributed(kFour, rows_of(fact.at("mesh"))), kFour);
}

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

std::string equal_alone(const Json& fact) {
  return fmt::format(
      "a = from_local(ones([4]), mesh=mesh, {0})\n"
      "b = from_local(ones([4]) + (1 if rank == 1 else 0), mesh=mesh, {0})\n"
      "equal = torch.equal(a, b)\n",
      placed(whole_of(fact.at("mesh"))));
}

std::string equal_other_shape(const Json& fact) {
  const Json rows = rows_of(fact.at("mesh"));
  return fmt::format("a = {}\nb = {}\nequal = torch.equal(a, b)\n",
                     distributed("ones([4, 3])", rows), distributed("ones([3, 4])", rows));
}

std::string equal_partial(const Json& fact) {
  Json placements = whole_of(fact.at("mesh"));
  placements[0] = "P(sum)";
  return fmt::format("a = {0}\nequal = torch.equal(a, a)\n", alike("ones([4])", placements));
}

/// "(4,3) S(0)": a shape and how the first mesh dim holds it; R when it is not said.
std::string is_same_size(const Json& fact) {
  const auto value = [&](const char* name) {
    const std::string text = fact.at("params").at(name).get<std::string>();
    const std::size_t end = text.find(')') + 1;
    Json placements = whole_of(fact.at("mesh"));
    if (end < text.size()) placements[0] = text.substr(end + 1);
    return distributed(fmt::format("ones({})", text.substr(0, end)), placements);
  };
  return fmt::format("v = aten.is_same_size.default({}, {})\n", value("a"), value("b"));
}

std::string nonzero(const Json& fact) {
  return fmt::format("out = aten.nonzero.default({})\n",
                     distributed(kFour, rows_of(fact.at("mesh"))));
}

std::string bool_of_reduced(const Json& fact) {
  return fmt::format("v = bool({}.sum() > 0)\n", distributed(kFour, rows_of(fact.at("mesh"))));
}

constexpr Case kProgramCases[] = {
    {"unary_comm", unary_comm},
    {"binary_comm", binary_comm},
    {"comm_counts", comm_counts},
    {"parallelize_mlp", parallelize_mlp},
    {"inplace", inplace},
    {"inplace_unary", inplace_unary},
    {"out_variant", out_variant},
    {"equal", equal},
    {"equal_rank_dependent", equal_alone},
    {"equal_other_shape", equal_other_shape},
    {"equal_partial", equal_partial},
    {"is_same_size", is_same_size},
    {"argmax", arg_extreme},
    {"argmin", arg_extreme},
    {"as_strided_same", as_strided},
    {"as_strided_transpose", as_strided},
    {"as_strided_other", as_strided},
    {"vector_norm", vector_norm},
    {"mixed_tensor", mixed_tensor},
    {"implicit_replication", implicit_replication},
    {"no_strategy_op", nonzero},
    {"bool_of_sharded", bool_of_reduced},
    {"scalar_tensor", scalar_tensor},
    {"scalar_tensor_partial", scalar_tensor_partial},
    {"item", item},
    {"item_of_sum", item_of_sum},
};

std::string text_of(const Json& fact) {
  const std::string& name = fact.at("case").get_ref<const std::string&>();
  for (const std::span<const Case> cases :
       {std::span<const Case>(kProgramCases), placing_cases(), layer_cases()}) {
    for (const Case& row : cases) {
      if (row.name == name) return row.write(fact);
    }
  }
  return "";
}

struct Unwritten {
  std::string_view name;
  SkipReason reason;
};

/// Cases that none of our programs can express.
constexpr Unwritten kUnwritten[] = {
    {"repr", SkipReason::kReferenceText},
    {"cpu_rng_supported", SkipReason::kReferenceText},               // its tracker, its warnings
    {"redistribute_wrong_len", SkipReason::kNotExpressible},         // one placement a mesh dim
    {"loss_parallel_label_smoothing", SkipReason::kNotExpressible},  // no such argument
    {"loss_parallel_leak_after_exception", SkipReason::kNotExpressible},  // nothing is switched on
    {"cross_mesh", SkipReason::kNotExpressible},                          // a program has one mesh
    {"cross_mesh_redistribute", SkipReason::kNotExpressible},
};

}  // namespace
}  // namespace semantics

std::optional<SkipReason> semantics_skip(const Json& fact) {
  const std::string& name = fact.at("case").get_ref<const std::string&>();
  const Json& params = fact.at("params");
  for (const semantics::Unwritten& row : semantics::kUnwritten) {
    if (row.name == name) return row.reason;
  }
  // Strides follow from the shape; a list of eigenvalues is recorded as the text of its object.
  if (name == "from_local_shape_stride") return SkipReason::kNotExpressible;
  if (params.value("op", "") == "torch.linalg.eigh") return SkipReason::kReferenceText;
  const std::string seq = params.value("seq", "");  // errors, recorded without shapes
  if (seq == "sdpa_heads_sharded" || seq == "vocab_parallel_embedding_head_loss") {
    return SkipReason::kNoInput;
  }
  return std::nullopt;
}

std::optional<SemanticsProgram> semantics_program(const Json& fact) {
  SemanticsProgram program;
  program.text = semantics::text_of(fact);
  if (program.text.empty()) return std::nullopt;
  const std::string& name = fact.at("case").get_ref<const std::string&>();
  const Json& params = fact.at("params");
  program.mesh = integers_of(fact.at("mesh"));
  if (params.contains("mesh_ranks")) {  // a part of the world
    program.mesh_ranks = integers_of(params.at("mesh_ranks"));
    program.mesh = {static_cast<std::int64_t>(program.mesh_ranks.size())};
  } else if (name == "transposed_mesh") {
    program.mesh = {2, 2};
    program.mesh_ranks = {0, 2, 1, 3};
  } else if (name == "reversed_mesh") {
    program.mesh_ranks = {3, 2, 1, 0};
  } else if (name == "parallelize_mlp") {  // styles were recorded along one dim of the mesh
    program.mesh = {4};
  }
  if (name == "implicit_replication") program.mixed = MixedTensors::kReplicate;
  return program;
}

}  // namespace shardlab
