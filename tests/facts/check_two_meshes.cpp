// Calls with operands on two meshes, as programs on eight simulated ranks. The table of calls says
// which are computed here and refused by PyTorch, or the reverse (behaviour.md, O-35).
#include <algorithm>

#include "sim/language/run/interpreter.h"
#include "tests/facts/case_report.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/mesh_facts.h"
#include "tests/facts/program_ranks.h"

namespace shardlab {
namespace {

/// The outcome on unequal meshes; on equal ones every call is computed.
enum class OnTwo : std::uint8_t { kRefused, kComputed, kMoved, kMixed };

struct CallRow {
  std::string_view call;
  std::string_view program;
  OnTwo on_two = OnTwo::kRefused;
};

constexpr CallRow kCalls[] = {
    {"x + y", "r = x + y"},
    {"mm", "r = torch.mm(x, y)"},
    {"linear", "r = F.linear(x, y)"},
    {"bmm of unsqueezed", "r = torch.bmm(x.unsqueeze(0), y.unsqueeze(0))"},
    {"cat", "r = torch.cat([x, y])"},
    {"stack", "r = torch.stack([x, y])"},
    {"where", "r = torch.where(x > 0, x, y)"},
    {"addcmul", "r = torch.addcmul(x, x, y)"},
    {"lerp", "r = torch.lerp(x, y, 0.5)"},
    {"index_select", "r = torch.index_select(x, 1, index)"},
    {"embedding", "r = F.embedding(index, x)"},
    {"equal", "r = torch.equal(x, y)"},
    {"mse_loss", "r = F.mse_loss(x, y)"},
    {"scaled_dot_product_attention",
     "k = y.unsqueeze(0).unsqueeze(0)\n"
     "r = F.scaled_dot_product_attention(x.unsqueeze(0).unsqueeze(0), k, k)"},
    {"x.copy_(y)", "r = x.copy_(y)"},
    {"x.mul_(y)", "r = x.mul_(y)"},
    {"_foreach_add([x, x], [x, y])", "r = torch._foreach_add([x, x], [x, y])"},
    {"_foreach_add([x, y], [x, y])", "r = torch._foreach_add([x, y], [x, y])", OnTwo::kComputed},
    {"_foreach_mul_([x, y], 2.0)", "torch._foreach_mul_([x, y], 2.0)\nr = [x, y]",
     OnTwo::kComputed},
    {"_foreach_mul_([x, y], number on the mesh of x)", "torch._foreach_mul_([x, y], n)\nr = [x, y]",
     OnTwo::kComputed},
    {"_foreach_mul_([x, y], plain number)",
     "torch._foreach_mul_([x, y], torch.tensor(2.0))\nr = [x, y]", OnTwo::kComputed},
    {"_foreach_norm([x, y])", "r = torch._foreach_norm([x, y])", OnTwo::kComputed},
    {"stack of _foreach_norm", "r = torch.stack(torch._foreach_norm([x, y]))", OnTwo::kComputed},
    {"get_total_norm", "r = torch.nn.utils.get_total_norm([x, y])", OnTwo::kComputed},
    {"get_total_norm([x, x])", "r = torch.nn.utils.get_total_norm([x, x])", OnTwo::kComputed},
    {"clip_grad_norm_", "r = torch.nn.utils.clip_grad_norm_(parameters, 1.0)", OnTwo::kComputed},
    {"clip_grad_norm_(foreach=False)",
     "r = torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=False)", OnTwo::kComputed},
    {"clip_grads_with_norm_(norm on the mesh of x)",
     "r = torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, n)", OnTwo::kComputed},
    {"clip_grads_with_norm_(plain norm)",
     "r = torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, torch.tensor(2.0))",
     OnTwo::kComputed},
    {"x * number on the mesh of y", "r = x * number", OnTwo::kComputed},
    {"x.redistribute(mesh of y)", "r = x.redistribute(second, to)", OnTwo::kMoved},
    {"distribute_tensor(x, mesh of y)", "r = distribute_tensor(x, second, to)", OnTwo::kMoved},
    {"from_local(x.to_local(), mesh of y)", "r = DTensor.from_local(x.to_local(), second, to)",
     OnTwo::kComputed},
    {"local_map over both, result on the mesh of y",
     "r = local_map(lambda a, b: a + b.sum(), [to], device_mesh=second)(x, y)", OnTwo::kComputed},
    {"x.full_tensor() + y", "r = x.full_tensor() + y", OnTwo::kMixed},
    {"x.full_tensor() + y.full_tensor()",
     "inside = first.get_coordinate() is not None and second.get_coordinate() is not None\n"
     "a, b = x.full_tensor(), y.full_tensor()\n"
     "r = a + b if inside else w",
     OnTwo::kComputed},
    {"_fused_adamw_, plain steps", "fused(torch.tensor(1.0), torch.tensor(1.0))\nr = None",
     OnTwo::kComputed},
    {"_fused_adamw_, steps on the mesh of y", "fused(number, number)\nr = None", OnTwo::kComputed},
    {"AdamW(fused=True)", "fused(torch.tensor(1.0), torch.tensor(1.0))\nr = None",
     OnTwo::kComputed},
    {"AdamW(foreach=True)",
     "torch._foreach_lerp_([x, y], [x * 2, y * 2], 0.1)\n"
     "torch._foreach_addcdiv_([x, y], [x * 2, y * 2], [x + 2, y + 2], -0.1)\nr = None",
     OnTwo::kComputed},
    {"AdamW(foreach=False)",
     "for p in [x, y]:\n    p.lerp_(p * 2, 0.1)\n    p.addcdiv_(p * 2, p + 2, value=-0.1)\nr = "
     "None",
     OnTwo::kComputed},
};

/// The meshes, by the names of the first line of the facts.
struct MeshRow {
  std::string_view name, program;
};
constexpr std::string_view kRoot =
    "init_device_mesh(\"cpu\", (2, 2, 2), mesh_dim_names=(\"a\", \"b\", \"c\"))";
constexpr MeshRow kMeshes[] = {
    {"names", "init_device_mesh(\"cpu\", (2, 2, 2), mesh_dim_names=(\"x\", \"y\", \"z\"))"},
    {"nameless", "init_device_mesh(\"cpu\", (2, 2, 2))"},
    {"a", "root[\"a\"]"},
    {"a_again", "root[\"a\", \"b\"][\"a\"]"},
    {"b", "root[\"b\"]"},
    {"ab", "root[\"a\", \"b\"]"},
    {"flat_ab", "root[\"a\", \"b\"]._flatten(\"f\")"},
    {"joined", "DeviceMesh._concatenate([root[\"a\"], root[\"b\"]])"},
    {"world", "init_device_mesh(\"cpu\", (8,), mesh_dim_names=(\"w\",))"},
    {"unflat",
     "init_device_mesh(\"cpu\", (8,), mesh_dim_names=(\"w\",))._unflatten(0, (2, 2, 2), (\"a\", "
     "\"b\", \"c\"))"},
    {"ranks",
     "DeviceMesh(\"cpu\", [[[0, 1], [2, 3]], [[4, 5], [6, 7]]], mesh_dim_names=(\"a\", \"b\", "
     "\"c\"))"},
    {"turned",
     "DeviceMesh(\"cpu\", [[[0, 4], [2, 6]], [[1, 5], [3, 7]]], mesh_dim_names=(\"a\", \"b\", "
     "\"c\"), preserve_rank_order=True)"},
    {"from_group",
     "DeviceMesh.from_group(root.get_group(\"a\"), \"cpu\", mesh_dim_names=(\"a\",))"},
    {"half", "DeviceMesh(\"cpu\", [0, 1, 2, 3])"},
};

std::string program_of_mesh(std::string_view name) {
  for (const MeshRow& row : kMeshes) {
    if (row.name == name) return std::string(row.program);
  }
  return std::string(kRoot);
}

/// Meshes that PyTorch recorded as equal.
std::string_view class_of(std::string_view name) {
  if (name == "same" || name == "unflat" || name == "ranks") return "root";
  if (name == "a_again") return "a";
  if (name == "joined") return "ab";
  return name;
}

std::string placements_text(const Json& placements) {
  std::string text;
  for (const Json& one : placements) {
    text += (text.empty() ? "" : ", ") + one.get<std::string>();
  }
  return fmt::format("[{}]", text);
}

std::string program_of(const CallRow& row, const Json& fact) {
  const Json& placements = fact.at("placements");
  std::string text = fmt::format(
      "root = {}\nfirst = {}\nsecond = {}\nto = {}\n"
      "w = torch.arange(64, dtype=torch.float32).reshape(8, 8)\n"
      "x = distribute_tensor(w.clone(), first, {})\ny = distribute_tensor(w.clone(), second, to)\n"
      "n = distribute_tensor(torch.tensor(2.0), first, [R for p in range(first.ndim)])\n"
      "number = distribute_tensor(torch.tensor(2.0), second, [R for p in to])\n"
      "index = distribute_tensor(torch.tensor([1, 0]), second, [R for p in to])\n",
      kRoot, program_of_mesh(fact.at("first").get<std::string>()),
      program_of_mesh(fact.at("second").get<std::string>()), placements_text(placements[1]),
      placements_text(placements[0]));
  if (row.program.find("parameters") != std::string_view::npos) {
    text +=
        "parameters = [x.detach().requires_grad_(), y.detach().requires_grad_()]\n"
        "for p in parameters:\n    backward((p * p).sum())\n";
  }
  if (row.program.find("fused(") != std::string_view::npos) {
    text +=
        "def fused(s, t):\n"
        "    torch._fused_adamw_([x, y], [x * 1, y * 1], [x * 0, y * 0], [x * 0, y * 0], [], "
        "[s, t], lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, "
        "maximize=False)\n";
  }
  return text + std::string(row.program) + "\n";
}

class TwoMeshChecker final : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    if (fact.contains("meshes")) return;
    const std::string call = fact.at("call");
    const auto row = std::ranges::find(kCalls, call, &CallRow::call);
    if (row == std::end(kCalls)) return report.skip(SkipReason::kNotSupported, call);
    const bool equal = class_of(fact.at("first").get<std::string>()) ==
                       class_of(fact.at("second").get<std::string>());
    const bool passes = fact.at("ok");
    // Heads of 8 in pieces of one mesh: PyTorch's kernel alone refuses them.
    if (equal && !passes && row->on_two == OnTwo::kRefused) return;
    const bool computed = row->on_two != OnTwo::kMixed && (equal || row->on_two != OnTwo::kRefused);
    // Ranks 4 and 6 have no number of ranks 0 to 3, and only a move would bring it.
    const bool lacks = row->call == "x * number on the mesh of y" && fact.at("second") == "half" &&
                       fact.at("first") == "flat_ab";
    run(*row, fact, computed && !lacks, equal, report);
  }

 private:
  void run(const CallRow& row, const Json& fact, bool computed, bool equal, CaseReport& report) {
    std::vector<std::string> differences;
    const std::string error =
        ranks_.run(8, program_of(row, fact), [&](const Interpreter& in, std::int64_t rank) {
          if (rank == 0) differences = compare(in, row, fact, equal);
        });
    if (computed != error.empty()) {
      report.differs("result", computed ? "computed" : "refused",
                     error.empty() ? "computed" : error);
    } else if (!computed && row.on_two == OnTwo::kRefused &&
               error.find("redistribute") == std::string::npos) {
      report.differs("refusal", "the move that helps", error);
    }
    for (const std::string& text : differences) report.differs("value", nullptr, text);
  }

  // The program says on which mesh the result is.
  static bool labels(const CallRow& row) {
    return row.call.starts_with("from_local") || row.call.starts_with("local_map");
  }

  static std::vector<std::string> compare(const Interpreter& in, const CallRow& row,
                                          const Json& fact, bool equal) {
    std::vector<std::string> differences;
    const Value& got = *in.find("r");
    if (row.on_two == OnTwo::kMoved) {
      compare_tensor(got.as<DTensor>(), in, "second", fact.at("placements")[1], differences);
    } else if (fact.at("ok") && fact.contains("mesh") && (equal || labels(row))) {
      if (!row.call.starts_with("get_total") && !row.call.starts_with("clip")) {
        compare_tensor(got.as<DTensor>(), in, labels(row) ? "second" : "first",
                       labels(row) ? fact.at("placements_of_result") : Json(), differences);
      }
      if (json_of(got.as<DTensor>().shape()) != fact.at("shape")) differences.push_back("shape");
    } else if (fact.at("ok") && fact.contains("list")) {
      compare_tensor(items_of(got)[0].as<DTensor>(), in, "first", Json(), differences);
      compare_tensor(items_of(got)[1].as<DTensor>(), in,
                     row.call.find("[x, x]") == std::string_view::npos ? "second" : "first", Json(),
                     differences);
    }
    return differences;
  }

  static void compare_tensor(const DTensor& got, const Interpreter& in, const char* mesh,
                             const Json& placements, std::vector<std::string>& differences) {
    const MeshLayout* wanted = in.find(mesh)->as<MeshValue>().layout;
    if (!got.distributed() || got.spec()->layout() != wanted) {
      differences.push_back(fmt::format("{} is not on {}", type_string(got), wanted->text()));
    } else if (placements.is_array() && texts_of(got.spec()->placements()) != placements) {
      differences.push_back(type_string(got));
    }
  }

  ProgramRanks ranks_;
};

}  // namespace

std::unique_ptr<FactChecker> make_two_mesh_checker(std::string_view /*stem*/) {
  return std::make_unique<TwoMeshChecker>();
}

}  // namespace shardlab
