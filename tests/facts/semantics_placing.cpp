// Recorded cases about placing tensors: distribute, from_local, to_local, redistribute, factories,
// and worlds of which the mesh is a part. Inputs are those of the recordings.
#include "tests/facts/semantics_text.h"

namespace shardlab::semantics {
namespace {

std::string from_local(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "t = arange(6, dtype=f32).reshape([2, 3])\n"
      "x = from_local(t, mesh=mesh, {})\n"
      "shape = x.shape\nstride = x.stride()\nplacements = x.placements\n"
      "y = x.to_local()\ny.add_(1)\nto_local_same_storage = bool((y == t).all())\n",
      placed(params.at("placements")));
}

std::string distribute_tensor(const Json& fact) {
  const Json& params = fact.at("params");
  const Json& shape = params.at("shape");
  std::string count = "1";
  for (const Json& size : shape) count += fmt::format("*{}", integer_of<int>(size));
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

/// A leaf, which is every rank's piece of x.
std::string leaf_in_pieces(const Json& placements) {
  return fmt::format("t = ones([2, 3])\nt.requires_grad_()\nx = {}\n", alike("t", placements));
}

std::string full_tensor_grad(const Json& fact) {
  return leaf_in_pieces(fact.at("params").at("placements")) +
         "print('comms')\nf = x.full_tensor()\nprint('')\nfull_shape = f.shape\n"
         "backward(f.sum())\ngrad = t.grad\n";
}

std::string redistribute_to_R_grad(const Json& fact) {
  return leaf_in_pieces(fact.at("params").at("placements")) +
         fmt::format("y = x.redistribute({})\nbackward((y * 2).sum())\ngrad = t.grad\n",
                     placed(whole_of(fact.at("mesh"))));
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
  return leaf_in_pieces(params.at("placements")) +
         fmt::format(
             "y = x.to_local({})\nprint('comms')\n"
             "backward(y, gradient=ones(y.shape) * (rank + 1))\nprint('')\ngrad = t.grad\n",
             gradient.is_null() ? "" : fmt::format("grad_placements=[{}]", labels));
}

std::string distribute_invalid(const Json& fact) {
  return fmt::format(
      "x = {}\nplacements = x.placements\n",
      distributed("arange(15, dtype=f32).reshape([5, 3])", fact.at("params").at("placements")));
}

std::string distribute_leaf(const Json& fact) {
  return fmt::format(
      "t = ones([4, 2])\nt.requires_grad_()\nx = {}\nrequires_grad = x.requires_grad\n"
      "is_leaf = x.is_leaf\n",
      distributed("t", rows_of(fact.at("mesh"))));
}

std::string distribute_non_leaf(const Json& fact) {
  return fmt::format("t = ones([4, 2])\nt.requires_grad_()\nx = {}\n",
                     distributed("(t * 2)", rows_of(fact.at("mesh"))));
}

std::string distribute_again(const Json& fact) {
  const Json& mesh = fact.at("mesh");
  const bool same = fact.at("case") == "distribute_dtensor_same";
  return fmt::format("x = {}\ny = {}\nplacements = y.placements\n",
                     distributed("ones([4, 2])", rows_of(mesh)),
                     distributed("x", same ? rows_of(mesh) : whole_of(mesh)));
}

std::string from_local_uneven(const Json& fact) {
  const Json rows = rows_of(fact.at("mesh"));
  const bool given = fact.at("params").at("shape_given").get<bool>();
  return fmt::format(
      "t = {}.to_local()\nx = from_local(t, mesh=mesh, {}{})\nshape = x.shape\n"
      "stride = x.stride()\nlocal_shape = x.to_local().shape\n{}",
      distributed("arange(15, dtype=f32).reshape([5, 3])", rows), placed(rows),
      given ? ", shape=[5, 3]" : "", given ? "full = x.full_tensor()\n" : "");
}

std::string from_local_shaped(const Json& fact) {
  const Json& params = fact.at("params");
  std::string given;
  for (const char* name : {"shape", "stride"}) {
    if (params.contains(name)) given += fmt::format(", {}={}", name, params.at(name).dump());
  }
  return fmt::format(
      "t = arange(6, dtype=f32).reshape([2, 3])\nx = from_local(t, mesh=mesh, {}{})\n"
      "shape = x.shape\nstride = x.stride()\n",
      placed(rows_of(fact.at("mesh"))), given);
}

std::string from_local_mismatched(const Json& fact) {
  return fmt::format("x = from_local(ones([2 + rank, 3]), mesh=mesh, run_check=True, {})\n",
                     placed(rows_of(fact.at("mesh"))));
}

std::string from_local_transposed(const Json& fact) {
  return fmt::format(
      "t = arange(6, dtype=f32).reshape([3, 2]).t()\nx = from_local(t, mesh=mesh, {})\n"
      "shape = x.shape\nstride = x.stride()\n",
      placed(fact.at("params").at("placements")));
}

std::string from_local_again(const Json& fact) {
  const Json rows = rows_of(fact.at("mesh"));
  return fmt::format("x = {}\ny = from_local(x, mesh=mesh, {})\n",
                     distributed("ones([4, 2])", rows), placed(rows));
}

/// The result of to_local() is a term of the gradient of the value that was gathered from pieces.
std::string to_local_grad_of_gathered(const Json& fact) {
  const Json rows = rows_of(fact.at("mesh"));
  std::string labels = "P(sum)";
  for (std::size_t dim = 1; dim < rows.size(); ++dim) labels += ", R";
  return leaf_in_pieces(rows) + fmt::format(
                                    "y = x.redistribute({}).to_local(grad_placements=[{}])\n"
                                    "backward(y.sum())\ngrad = t.grad\n",
                                    placed(whole_of(fact.at("mesh"))), labels);
}

std::string factory_empty(const Json& fact) {
  const Json& params = fact.at("params");
  return fmt::format(
      "x = empty({}, {})\nplacements = x.placements\nlocal_shape = x.to_local().shape\n"
      "local = None\n",  // the values on other ranks are never used
      params.at("shape").dump(), placed(params.at("placements")));
}

constexpr Named kRedistributions[] = {
    {"redistribute_none", "y = x.redistribute()"},
    {"redistribute_neg_dim", "p = x.redistribute(m0=S(-1)).placements"},
    {"redistribute_out_of_range_dim", "y = x.redistribute(m0=S(5))"},
};

std::string redistribution(const Json& fact) {
  return fmt::format("x = {}\n{}\n", distributed(kFour, rows_of(fact.at("mesh"))),
                     find(kRedistributions, fact.at("case").get<std::string>()));
}

std::string default_placements(const Json&) {
  return "p = distribute(ones([4, 2]), mesh=mesh).placements\n"
         "from_local = from_local(ones([4, 2]), mesh=mesh).placements\n";
}

/// Programs on two of four ranks; x is [4, 4] or, where only its placing is looked at, [5, 3].
constexpr Named kOnPart[] = {
    {"sub_coordinate", "coord = mesh.coordinate()"},
    {"sub_local_rank", "r = mesh.coordinate()[0]"},
    {"sub_distribute_tensor",
     "local = y.to_local()\nshape = y.shape\ndtype = str(y.to_local().dtype)"},
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
    {"sub_to_local_dtype", "z = (x > 0).to_local()\nshape = z.shape\ndtype = str(z.dtype)"},
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

std::string transposed_mesh(const Json&) {
  return "x = distribute(arange(12, dtype=f32).reshape([4, 3]), mesh=mesh, m0=S(0))\n"
         "coord = mesh.coordinate()\nlocal = x.to_local()\nfull = x.full_tensor()\n";
}

std::string reversed_mesh(const Json&) {
  return "x = distribute(arange(15, dtype=f32).reshape([5, 3]) + 1000 * rank, mesh=mesh, "
         "src_data_rank=0, m0=S(0))\n"
         "coord = mesh.coordinate()\nlocal = x.to_local()\nfull = x.full_tensor()\n"
         "t = from_local(arange(4, dtype=f32).reshape([4, 1]) + rank, mesh=mesh, m0=P(sum))\n"
         "reduce_scatter = t.redistribute(m0=S(0)).to_local()\n";
}

constexpr Case kPlacingCases[] = {
    {"from_local", from_local},
    {"distribute_tensor", distribute_tensor},
    {"factory_zeros", factory},
    {"factory_ones", factory},
    {"factory_full", factory},
    {"factory_empty", factory_empty},
    {"full_tensor_grad", full_tensor_grad},
    {"redistribute_to_R_grad", redistribute_to_R_grad},
    {"distribute_tensor_src_data_rank", distribute_source},
    {"distribute_tensor_invalid", distribute_invalid},
    {"distribute_tensor_leaf", distribute_leaf},
    {"distribute_tensor_non_leaf", distribute_non_leaf},
    {"distribute_dtensor_same", distribute_again},
    {"distribute_dtensor_other_placement", distribute_again},
    {"from_local_run_check", from_local_checked},
    {"from_local_uneven", from_local_uneven},
    {"from_local_shape_stride", from_local_shaped},
    {"from_local_check_mismatched_shapes", from_local_mismatched},
    {"from_local_noncontiguous", from_local_transposed},
    {"from_local_of_dtensor", from_local_again},
    {"to_local_grad", to_local_grad},
    {"to_local_grad_partial_of_gathered", to_local_grad_of_gathered},
    {"redistribute_none", redistribution},
    {"redistribute_neg_dim", redistribution},
    {"redistribute_out_of_range_dim", redistribution},
    {"default_placements", default_placements},
    {"transposed_mesh", transposed_mesh},
    {"reversed_mesh", reversed_mesh},
    {"sub_coordinate", on_part},
    {"sub_local_rank", on_part},
    {"sub_distribute_tensor", on_part},
    {"sub_full_tensor", on_part},
    {"sub_add", on_part},
    {"sub_sum", on_part},
    {"sub_redistribute", on_part},
    {"sub_split", on_part},
    {"sub_equal", on_part},
    {"sub_is_same_size", on_part},
    {"sub_max_dim", on_part},
    {"sub_local_scalar", on_part},
    {"sub_inplace", on_part},
    {"sub_to_local_dtype", on_part},
    {"sub_from_local", on_part},
    {"sub_zeros", on_part},
};

}  // namespace

std::span<const Case> placing_cases() { return kPlacingCases; }

}  // namespace shardlab::semantics
