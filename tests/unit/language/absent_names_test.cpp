#include "sim/language/absent_names.h"

#include <doctest/doctest.h>

#include <string>

#include "dispatch/all_ops.h"
#include "sim/language/builtin.h"
#include "sim/language/global_names.h"

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
    for (const BuiltinTable table : {tensor_methods(), container_methods(), mesh_methods()}) {
      CHECK(find_builtin(table, name) == nullptr);
    }
    CHECK_FALSE(row.instead.empty());
  }
}

TEST_CASE("advice is given on these names only") {
  CHECK(advice_on("Replicate") == "programs do not have it: write R");
  CHECK(advice_on("Replicat") == "");
  CHECK(advice_on("") == "");
}
