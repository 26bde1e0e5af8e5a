#include "sim/language/values/absent_names.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/language/values/builtin.h"
#include "sim/language/values/global_names.h"
#include "tests/unit/language/program_runner.h"

using namespace shardlab;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

// Tensors that the lines of the table name.
constexpr const char* kTensors = R"(
x, y, w, b = torch.randn(4, 6), torch.randn(4, 6), torch.randn(8, 6), torch.randn(8)
a, g, m = torch.randn(1), torch.randn(8, 6), torch.zeros(8, 6)
i, offsets = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2])
labels = torch.tensor([[0, 1, -1, 0, 0, 0]] * 4)
img, seq, vol = torch.randn(2, 3, 8, 8), torch.randn(2, 3, 8), torch.randn(1, 3, 4, 4, 4)
q = torch.randn(2, 4, 6, 8)
k1, k2, k3 = torch.randn(5, 3, 3), torch.randn(5, 3, 3, 3), torch.randn(2, 6, 6)
k3d = torch.randn(5, 3, 2, 2, 2)
p = torch.randn(3, requires_grad=True)
loss = x.sum()
class Twice(torch.autograd.Function):
  @staticmethod
  def forward(ctx, t):
    return t * 2
  @staticmethod
  def backward(ctx, grad):
    return grad * 2
)";

}  // namespace

TEST_CASE(
    "names that programs are said not to have mean nothing, bare, below torch, or as methods") {
  OpRegistry registry;
  register_all_ops(registry);
  std::set<std::string> seen;
  for (const AbsentNames& row : absent_names()) {
    for (const std::string& name : words_of(row.names)) {
      CAPTURE(name);
      CHECK(seen.insert(name).second);
      CHECK_FALSE(find_global(name, registry));
      CHECK_FALSE(find_in_module("torch", name, registry));
      CHECK_FALSE(find_in_module("torch.nn.functional", name, registry));
      for (const BuiltinTable table : member_tables()) {
        CHECK(find_builtin(table, name) == nullptr);
      }
    }
  }
  CHECK(seen.size() >= 300);
}

TEST_CASE("each line that is advised runs") {
  for (const AbsentNames& row : absent_names()) {
    CAPTURE(std::string(row.names));
    CHECK(test::run(std::string(kTensors) + std::string(row.instead) + "\n").error == "");
  }
}

TEST_CASE("advice is given on these names only") {
  CHECK(advice_on("ReLU") == "programs do not have it: write F.relu(x)");
  CHECK(advice_on("Linear") ==
        "programs do not have it: write F.linear(x, w, b); keep w and b as inputs");
  CHECK(advice_on("argsor") == "");
  CHECK(advice_on("") == "");
  CHECK(advice_on("ReLU GELU") == "");
}

TEST_CASE("namespaces of ops are modules, and so is an op with overloads") {
  OpRegistry registry;
  register_all_ops(registry);
  OpRow row;
  row.op = parse_op_schema("my::twice(Tensor x) -> Tensor");
  registry.add(std::move(row));
  using Names = std::vector<std::string>;
  const Names spaces = names_in_module("torch.ops", registry);
  for (const char* space : {"aten", "my", "prims"}) CHECK(std::ranges::count(spaces, space) == 1);
  CHECK(names_in_module("torch.ops.my", registry) == Names{"twice"});
  CHECK(names_in_module("torch.ops.my.twice", registry) == Names{"default"});
  CHECK(std::ranges::count(names_in_module("aten.add", registry), "Tensor") == 1);
  CHECK(op_of_module("torch.ops.my.twice") == "my::twice");
  CHECK(op_of_module("aten.add") == "aten::add");
  for (const char* module : {"aten", "torch.ops.my", "torch.ops", "torch"}) {
    CHECK(op_of_module(module).empty());
  }
  CHECK(find_in_module("torch.ops.my.twice", "default", registry)->is<RowValue>());
  CHECK(find_in_module("torch.ops.my", "twice", registry)->is<ModuleValue>());
  CHECK_FALSE(find_in_module("torch.ops", "yours", registry));
  CHECK_FALSE(find_in_module("torch.ops.my", "thrice", registry));
  CHECK_FALSE(find_in_module("torch.ops.my.twice", "out", registry));
  CHECK_FALSE(find_global("twice", registry));
}
