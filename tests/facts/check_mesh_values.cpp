// Values of programs of several meshes on four ranks. Each case is written as a program whose `r`
// is compared on every rank. A fault of PyTorch has its right value beside it.
#include <algorithm>
#include <array>
#include <cmath>
#include <regex>

#include "mesh/placement.h"
#include "sim/language/run/interpreter.h"
#include "tests/facts/case_report.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/mesh_facts.h"
#include "tests/facts/program_ranks.h"

namespace shardlab {
namespace {

constexpr std::int64_t kRanks = 4;

struct CaseRow {
  std::string_view what;
  std::string_view program;
};

/// On a mesh m with ranks in some order, with a tensor `whole`; the shape is left out of `what`.
constexpr CaseRow kOrdered[] = {
    {"coordinate, local rank",
     "r = list(m.get_coordinate()) + [m.get_local_rank(d) for d in range(m.ndim)]"},
    {"distribute_tensor S(0), full_tensor", "r = distribute_tensor(whole, m, [S(0)])"},
    {"pieces by coordinate, from_local S(0), full_tensor", "r = of_pieces(m.get_coordinate()[0])"},
    {"from_local S(0) of the piece of the local rank, full_tensor",
     "r = of_pieces(m.get_local_rank())"},
    {"R to S(0) to R",
     "r = distribute_tensor(whole, m, [R]).redistribute(m, [S(0)]).redistribute(m, [R])"},
    {"S(0) to S(1), full_tensor",
     "r = distribute_tensor(whole, m, [S(0)]).redistribute(m, [S(1)])"},
    {"P to S(0), full_tensor",
     "r = DTensor.from_local(whole, m, [Partial()]).redistribute(m, [S(0)])"},
    {"S(0) S(0), full_tensor", "r = distribute_tensor(whole, m, [S(0), S(0)])"},
    {"S(0) S(1), full_tensor", "r = distribute_tensor(whole, m, [S(0), S(1)])"},
    {"flattened, S(0), full_tensor", "r = distribute_tensor(whole, m._flatten(\"f\"), [S(0)])"},
};

/// On root, of dims dp and tp.
constexpr CaseRow kOnRoot[] = {
    {"tp S(0) as a tensor of the root: from_local R S(0) [8], full_tensor",
     "x = distribute_tensor(torch.arange(8.), root[\"tp\"], [S(0)])\n"
     "r = DTensor.from_local(x.to_local(), root, [R, S(0)])"},
    {"gradient of a move with equal placements, w R to dp R",
     "x = distribute_tensor(torch.arange(4.), w, [R]).requires_grad_()\n"
     "backward((x.redistribute(root[\"dp\"], [R]) * 4).sum())\nr = x.grad"},
    {"full_tensor of each norm, then stack",
     "r = [torch.stack([t.norm().full_tensor() for t in [a, b]]).norm().item()]"},
    {"norm taken by .item() of a pending norm, squares added",
     "r = [math.sqrt(sum([t.norm().full_tensor().item() ** 2 for t in [a, b]]))]"},
    {"norm of the local pieces, all_reduce of squares over dp only",
     "s = sum([(t.to_local() ** 2).sum() for t in [a, b]])\n"
     "dist.all_reduce(s, group=root.get_group(\"dp\"))\nr = [s.sqrt().item()]"},
    {"gradient of x without in_grad_placements",
     "backward(local_map(torch.mm, [S(0), S(1)])(x, v).sum())\nr = x.grad"},
    {"gradient of x with in_grad_placements S(0) P",
     "f = local_map(torch.mm, [S(0), S(1)], in_grad_placements=([S(0), Partial()], [S(1)]))\n"
     "backward(f(x, v).sum())\nr = x.grad"},
    {"flattened mesh: pieces over all", "t = fully_shard(weight, mesh=root._flatten(\"all\"))\n"},
    {"TP on tp first, then FSDP on dp",
     "t = fully_shard(parallelize_module(weight, root[\"tp\"], ColwiseParallel()), "
     "mesh=root[\"dp\"])\n"},
    {"TP on a mesh that is no slice of the mesh of FSDP",
     "tp = init_device_mesh(\"cpu\", (2, 2), mesh_dim_names=(\"dp\", \"tp\"))[\"tp\"]\n"
     "t = fully_shard(parallelize_module(weight, tp, ColwiseParallel()), mesh=root[\"dp\"])\n"},
    {"gradient of w on tp: terms over dp stay unsummed",
     "backward(local_map(torch.mm, [S(0), S(1)])(x, v).sum())\nr = v.grad"},
};

constexpr std::string_view kRootMeshes =
    "root = init_device_mesh(\"cpu\", (2, 2), mesh_dim_names=(\"dp\", \"tp\"))\n"
    "w = init_device_mesh(\"cpu\", (4,), mesh_dim_names=(\"w\",))\n"
    "square = torch.arange(16.).reshape(4, 4)\n"
    "a = distribute_tensor(square, root[\"dp\"], [S(0)])\n"
    "b = distribute_tensor(square, root, [S(0), S(1)])\n"
    "weight = torch.zeros(8, 4)\nt = None\n"
    "x = distribute_tensor(square, root, [S(0), R]).requires_grad_()\n"
    "v = distribute_tensor(square, root[\"tp\"], [S(1)]).requires_grad_()\n";

template <std::size_t kRows>
std::string_view row_of_case(const CaseRow (&rows)[kRows], std::string_view what) {
  const auto row = std::ranges::find(rows, what, &CaseRow::what);
  return row == std::end(rows) ? std::string_view() : row->program;
}

/// "order 1032, preserve_rank_order=True" and "2 x 2: flattened, S(0) [8], full_tensor".
std::string ordered_program(const std::string& name, std::string what) {
  static const std::regex kShape(" \\[([0-9, ]+)\\]");
  const bool square = what.starts_with("2 x 2: ") || what.ends_with(", 2 x 2");
  what = std::regex_replace(what, std::regex("^2 x 2: |, 2 x 2$"), "");
  std::smatch shape;
  std::string sizes = "1";
  if (std::regex_search(what, shape, kShape)) sizes = shape[1];
  const std::string_view row = row_of_case(kOrdered, std::regex_replace(what, kShape, ""));
  if (row.empty()) return {};
  const char* ranks = name.c_str() + std::string_view("order ").size();
  const char* form = square ? "[[{}, {}], [{}, {}]], mesh_dim_names=(\"dp\", \"tp\")"
                            : "[{}, {}, {}, {}], mesh_dim_names=(\"w\",)";
  return fmt::format(
      "t = None\nm = DeviceMesh(\"cpu\", {}, preserve_rank_order={})\n"
      "sizes = [{}]\n"
      "whole = torch.arange(float(math.prod(sizes))).reshape(sizes)\n"
      "def of_pieces(place):\n"
      "    k = (sizes[0] + 3) // 4\n"
      "    piece = whole[min(place * k, sizes[0]):min((place + 1) * k, sizes[0])]\n"
      "    return DTensor.from_local(piece, m, [S(0)], shape=sizes, stride=whole.stride())\n"
      "{}\n",
      fmt::format(fmt::runtime(form), ranks[0], ranks[1], ranks[2], ranks[3]),
      name.ends_with("=True") ? "True" : "False", sizes, row);
}

/// "dp S(0) redistribute to w S(0) [8], shapes".
std::string moved_program(const std::string& what) {
  static const std::regex kMove("(\\w+) (\\S+) redistribute to (\\w+) (\\S+) \\[(\\d+)\\](.*)");
  std::smatch found;
  if (!std::regex_match(what, found, kMove)) return {};
  const auto mesh = [](const std::string& name) {
    return name == "w" || name == "root" ? name : fmt::format("root[\"{}\"]", name);
  };
  return fmt::format(
      "x = distribute_tensor(torch.arange({}.), {}, [{}]).redistribute({}, [{}])\nr = {}\n",
      found[5].str(), mesh(found[1]), found[2].str(), mesh(found[3]), found[4].str(),
      found[6] == ", shapes" ? "[list(x.shape), list(x.to_local().shape)]" : "x");
}

std::string program_of_case(const Json& fact) {
  const std::string name = fact.at("case"), what = fact.at("what");
  std::string program;
  if (name.starts_with("order ")) {
    program = ordered_program(name, what);
  } else {
    program = moved_program(what);
    if (program.empty()) program = row_of_case(kOnRoot, what);
    if (!program.empty()) program = std::string(kRootMeshes) + program;
  }
  if (program.empty()) return {};
  return program +
         "\nif t is not None:\n"
         "    r = [t.device_mesh, t.placements, list(t.to_local().shape)]\n"
         "if isinstance(r, torch.Tensor):\n    r = r.full_tensor().reshape(-1).tolist()\n";
}

Json json_of_result(const Value& value) {
  if (value.is<std::int64_t>()) return value.as<std::int64_t>();
  if (value.is<double>()) return value.as<double>();
  if (value.is<Placement>()) return to_string(value.as<Placement>());
  // PyTorch's text of a mesh, without the parts that follow from its shape.
  if (value.is<MeshValue>()) return value.as<MeshValue>().reported->text();
  Json list = Json::array();
  if (!value.is_sequence()) return nullptr;
  for (const Value& item : items_of(value)) list.push_back(json_of_result(item));
  return list;
}

bool close(const Json& wanted, const Json& got) {
  if (wanted.is_array()) {
    return got.is_array() && std::ranges::equal(wanted, got, close);
  }
  if (!wanted.is_number() || !got.is_number()) return wanted == got;
  const double a = wanted, b = got;
  return std::abs(a - b) <= 1e-6 * std::abs(a);
}

/// "DeviceMesh((dp=2, tp=2), 'cpu', stride=(2, 1))" as we print it.
std::string mesh_text(const std::string& recorded) {
  const std::size_t begin = recorded.find("((") + 2;
  const std::string dims = recorded.substr(begin, recorded.find(')') - begin);
  return "{" + std::regex_replace(dims, std::regex("="), ":") + "}";
}

/// The recorded value of a rank, or ours where a program is told apart by what PyTorch lacks.
Json wanted_on(const Json& fact, std::size_t rank) {
  const std::string what = fact.at("what");
  const Json& all = fact.at("by_rank");
  Json recorded = all[all.size() == 1 ? 0 : rank];
  // The coordinate is the local rank.
  if (what.starts_with("coordinate")) {
    const std::size_t half = recorded.size() / 2;
    for (std::size_t i = 0; i < half; ++i) recorded[half + i] = recorded[i];
  }
  // PyTorch ignored the mesh: a piece of one of 2 ranks, where 4 share the tensor.
  if (what.ends_with("to w S(0) [8], shapes")) recorded[1][0] = 8 / kRanks;
  if (fact.at("case") == "fully_shard") {
    recorded[0] = mesh_text(recorded[0]);
    for (Json& text : recorded[1]) text = to_string(*parse_placement(text.get<std::string>()));
  }
  // Programs that leave a sum out say so themselves: their values are as in PyTorch.
  const bool says_so = fact.at("case") == "local_map" || fact.at("case") == "norm";
  return says_so || fact.at("right").is_null() ? recorded : fact.at("right");
}

class MeshValueChecker final : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const std::string program = program_of_case(fact);
    if (program.empty()) return report.skip(SkipReason::kNotSupported, fact.at("what"));
    std::array<Json, kRanks> got;
    const std::string error =
        ranks_.run(kRanks, program, [&](const Interpreter& in, std::int64_t rank) {
          got[static_cast<std::size_t>(rank)] = json_of_result(*in.find("r"));
        });
    if (!error.empty()) return report.differs("result", "computed", error);
    for (std::size_t rank = 0; rank < got.size(); ++rank) {
      const Json wanted = wanted_on(fact, rank);
      if (!close(wanted, got[rank])) {
        report.differs(fmt::format("rank {}", rank), wanted, got[rank]);
      }
    }
  }

 private:
  ProgramRanks ranks_;
};

}  // namespace

std::unique_ptr<FactChecker> make_mesh_value_checker(std::string_view /*stem*/) {
  return std::make_unique<MeshValueChecker>();
}

}  // namespace shardlab
