#include "sim/language/values/absent_names.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "dispatch/all_ops.h"
#include "sim/language/values/builtin.h"
#include "sim/language/values/global_names.h"

using namespace shardlab;

TEST_CASE(
    "names that programs are said not to have mean nothing, bare, below torch, or as methods") {
  OpRegistry registry;
  register_all_ops(registry);
  for (const AbsentName& row : absent_names()) {
    const std::string name(row.name);
    CAPTURE(name);
    CHECK_FALSE(find_global(name, registry));
    if (name != "nn") CHECK_FALSE(find_in_module("torch", name, registry));
    CHECK_FALSE(find_in_module("torch.nn.functional", name, registry));
    for (const BuiltinTable table : member_tables()) {
      CHECK(find_builtin(table, name) == nullptr);
    }
    CHECK_FALSE(row.instead.empty());
  }
}

TEST_CASE("advice is given on these names only") {
  CHECK(advice_on("numpy") == "programs do not have it: write x.tolist()");
  CHECK(advice_on("argsor") == "");
  CHECK(advice_on("") == "");
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
