// Each field of a graph's file, with a value that it cannot have: the refusal names line, path and
// reason. The texts follow from the rule "line N of the graph: 'path' reason"; the paths are those
// of the objects that are damaged.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "tests/support/read_expression.h"
#include "trace/graph_json.h"

namespace shardlab {
namespace {

/// A header with one field put in, or in the place of another.
std::string header_with(const std::string& field, const std::string& without = "") {
  const std::pair<std::string, std::string> fields[] = {
      {"world", "\"world\":4"},
      {"seed", "\"seed\":7"},
      {"meshes", R"j("meshes":[{"shape":[2,2],"names":["x","y"]}])j"},
      {"policies", R"j("policies":{})j"},
      {"n_values", "\"n_values\":1"},
  };
  std::string text = R"j({"k":"program","form":"capture","program":"p")j";
  for (const auto& [name, one] : fields) {
    if (name != without) text += "," + one;
  }
  return text + (field.empty() ? "" : "," + field) + "}\n";
}

const std::string kInputNode =
    R"j({"k":"input","name":"a","out":[{"v":0,"shape":[7],"dtype":"f32",)j"
    R"j("placements":["S(0)","R"]}]})j"
    "\n";

std::string graph_refusal(const std::string& text) {
  try {
    read_graphs(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    REQUIRE(error.find("fix") != nullptr);
    CHECK(error.find("fix")->starts_with("capture the program again"));
    return error.summary();
  }
  return "accepted";
}

struct FieldRow {
  std::string field, without, said;
};

}  // namespace

TEST_CASE("T-60 fields of the program: each that is missing or cannot be is named") {
  const FieldRow rows[] = {
      {"", "world", "'world' is missing"},
      {"", "seed", "'seed' is missing"},
      {"", "policies", "'policies' is missing"},
      {"", "meshes", "'meshes' must begin with the program's own mesh"},
      {R"j("meshes":[])j", "meshes", "'meshes' must begin with the program's own mesh"},
      {R"j("meshes":[3])j", "meshes", "'meshes' must be an object"},
      {R"j("meshes":[{"shape":[2],"names":["x","y"]}])j", "meshes",
       "'meshes.names' is not one per dim"},
      {R"j("meshes":[{"shape":[2],"names":[1]}])j", "meshes",
       "'meshes.names' must be a list of texts"},
      {R"j("meshes":[{"shape":[2],"ranks":[-1,0]}])j", "meshes",
       "'meshes.ranks' is -1; it must be from 0 to 9223372036854775807"},
      {R"j("meshes":[{"shape":[2]},{"shape":[2],"base":1}])j", "meshes",
       "'meshes.base' is 1; it must be from 0 to 0"},
      {R"j("meshes":[{"shape":[2],"size":2}])j", "meshes", "'meshes.size' is not known"},
      {R"j("world":0)j", "world", "'world' is 0; it must be from 1 to 16777216"},
      {R"j("world":2.5)j", "world", "'world' must be an integer"},
      {R"j("world":18446744073709551615)j", "world", "'world' must be an integer"},
      {R"j("seed":-1)j", "seed", "'seed' must be an integer of at least 0"},
      {R"j("seed":"7")j", "seed", "'seed' must be an integer of at least 0"},
      {R"j("ranks":[1,1])j", "", "'ranks' do not ascend"},
      {R"j("ranks":[4])j", "", "'ranks' is 4; it must be from 0 to 3"},
      {R"j("ranks":3)j", "", "'ranks' must be a list"},
      {R"j("digests":["0"])j", "", "'digests' must be texts of 16 hex digits"},
      {R"j("digests":["0123456789abcdeF"])j", "", "'digests' must be texts of 16 hex digits"},
      {R"j("digests":[7])j", "", "'digests' must be texts of 16 hex digits"},
      {R"j("digests":["0123456789abcdef"])j", "", "'digests' are not one for each rank"},
      {R"j("generators":[{"seed":1}])j", "", "'generators.offset' is missing"},
      {R"j("n_numbers":-1)j", "", "'n_numbers' is -1; it must be from 0 to 2147483647"},
      {R"j("dynamic":1)j", "", "'dynamic' must be true or false"},
      {R"j("sizes":[{"name":"n"}])j", "", "'sizes.size' is missing"},
      {R"j("outputs":[1])j", "", "'outputs' is 1; it must be from 0 to 0"},
      {R"j("left":[null])j", "", "'left' must be an integer"},
      {R"j("policies":[])j", "policies", "'policies' must be an object"},
      {R"j("policies":{"rules":[{"op":"aten::mm"}]})j", "policies",
       "'policies.rules.rule' is missing"},
      {R"j("policies":{"links":[{"dim":"x","gbps":"fast"}]})j", "policies",
       "'policies.links.gbps' must be a number"},
      {R"j("policies":{"planer":"graph"})j", "policies", "'policies.planer' is not known"},
      {R"j("colour":"red")j", "", "'colour' is not known"},
  };
  for (const FieldRow& row : rows) {
    CAPTURE(row.field);
    CHECK(graph_refusal(header_with(row.field, row.without) + kInputNode) ==
          "line 1 of the graph: " + row.said);
  }
  CHECK(graph_refusal(R"j({"k":"program","form":"record"})j") ==
        "line 1 of the graph: 'form' is not 'capture'");
  CHECK(graph_refusal("[1]") == "line 1 of the graph: the line must be an object");
  CHECK(graph_refusal("{}") == "line 1 of the graph: 'k' is missing");
}

TEST_CASE("T-60 fields of guards and nodes: each that cannot be is named with its path") {
  const std::pair<std::string, std::string> nodes[] = {
      {R"j({"k":"guard","guard":"hope","source":"a","expected":"b"})j",
       "'guard' is not a kind of guard"},
      {R"j({"k":"guard","guard":"type","expected":"b"})j", "'source' is missing"},
      {R"j({"k":"guard","guard":"type","source":"a","expected":"b","line":-1})j",
       "'line' is -1; it must be from 0 to 2147483647"},
      {R"j({"k":"op","args":[{"dtype":"f31"}]})j", "'args' names an unknown dtype"},
      {R"j({"k":"op","args":[{"generator":0}]})j", "'args' is 0; it must be from 0 to -1"},
      {R"j({"k":"op","args":[{"n":0}]})j", "'args' is 0; it must be from 0 to -1"},
      {R"j({"k":"op","args":[{"c":[1]}]})j", "'args' must have two parts"},
      {R"j({"k":"op","args":[{"c":[1,"x"]}]})j", "'args' must be a number"},
      {R"j({"k":"op","args":[{"f":"infinite"}]})j", "'args' must be a number"},
      {R"j({"k":"op","generator":0})j", "'generator' is 0; it must be from 0 to -1"},
      {R"j({"k":"op","group":{"mesh":1}})j", "'group.mesh' is 1; it must be from 0 to 0"},
      {R"j({"k":"op","group":{"mesh":0,"dims":[65]}})j",
       "'group.dims' is 65; it must be from 0 to 64"},
      {R"j({"k":"op","reduce":"median"})j", "'reduce' is not a reduction"},
      {R"j({"k":"op","dim":-1})j", "'dim' is -1; it must be from 0 to 64"},
      {R"j({"k":"op","source":-2})j", "'source' is -2; it must be from -1 to 9223372036854775807"},
      {R"j({"k":"op","forward_dtype":"half"})j", "'forward_dtype' is not a dtype"},
      {R"j({"k":"op","async":"yes"})j", "'async' must be true or false"},
      {R"j({"k":"op","recipe":{"init":"randn","scale":"x"}})j", "'recipe.scale' must be a number"},
      {R"j({"k":"op","recipe":{"init":"randn","written":["n"],"open":[1]}})j",
       "'recipe.open' is 1; it must be from 0 to 0"},
      {R"j({"k":"op","data":3})j", "'data' must be a list"},
      {R"j({"k":"op","data_ranks":[3]})j", "'data_ranks' must be a list"},
      {R"j({"k":"op","out":[{"v":1,"shape":[],"dtype":"f32"}]})j",
       "'out.v' is 1; it must be from 0 to 0"},
      {R"j({"k":"op","out":[{"v":0,"dtype":"f32"}],"colour":1})j", "'colour' is not known"},
      {R"j({"k":"op","out":[{"v":0,"shape":[2,3],"stride":[1],"dtype":"f32"}]})j",
       "'out.stride' is not one per dim"},
      {R"j({"k":"op","redist":[{"t":0,"op":"a","from":"b","to":"c"}]})j",
       "'redist.plan' is missing"},
      {R"j({"k":"op","comm":[{"c":"barrier","group":"x","dtype":"f32","reduce":"mean"}]})j",
       "'comm.reduce' is not a reduction"},
      {R"j({"k":"op","error":{"class":"Value"}})j", "'error.message' is missing"},
      {R"j({"k":"op","at":[3,"x"]})j", "'at' must be an integer"},
      {R"j({"k":"size","number":0})j", "'number' is more than 'n_numbers' allows"},
      {R"j({"k":"hook","args":[{"v":0}],"hook":1})j", "'hook' is 1; it must be from 0 to 0"},
      {R"j({"k":"hook_call","hook":0})j", "'hook' is 0; it must be from 0 to -1"},
      {R"j({"k":"seed","seed":-3})j", "'seed' must be an integer of at least 0"},
  };
  for (const auto& row : nodes) {
    const std::string& node = row.first;
    const std::string& said = row.second;
    CAPTURE(node);
    CHECK(graph_refusal(header_with("") + kInputNode + node) == "line 3 of the graph: " + said);
  }
}

TEST_CASE("T-60 a shape has at most 64 dims, and a file that ends early says what is missing") {
  std::string sizes;
  for (int i = 0; i < 65; ++i) sizes += i > 0 ? ",1" : "1";
  CHECK(
      graph_refusal(header_with("") + kInputNode +
                    fmt::format(R"j({{"k":"op","to":{{"dtype":"f32","shape":[{}]}}}})j", sizes)) ==
      "line 3 of the graph: 'to.shape' has more than 64 dims");
  std::string placements;
  for (int i = 0; i < 65; ++i) placements += i > 0 ? R"j(,"R")j" : R"j("R")j";
  CHECK(graph_refusal(
            header_with("") + kInputNode +
            fmt::format(R"j({{"k":"op","to":{{"dtype":"f32","shape":[1],"placements":[{}]}}}})j",
                        placements)) == "line 3 of the graph: 'to.placements' are more than 64");
  CHECK(
      graph_refusal(header_with("\"n_numbers\":2") + kInputNode + R"j({"k":"size","number":0})j") ==
      "line 4 of the graph: 'n_numbers' is 2, and the nodes before it give 1: it is cut off");
  CHECK(graph_refusal(header_with("") + header_with("")) ==
        "line 2 of the graph: 'n_values' is 1, and the nodes before it give 0: it is cut off");
}

TEST_CASE("T-60 parts of a program other than nodes come back as they were") {
  const std::string policies =
      R"j("policies":{"planner":"graph","implicit":"warn","mixed":"replicate",)j"
      R"j("rules":[{"op":"aten::mm","rule":"S(0),R->S(0)"},)j"
      R"j({"op":"mine","rule":"R->R","local":"x + 1"}],)j"
      R"j("links":[{"dim":"x","gbps":25.0},{"dim":"y","us":1.5}]})j";
  const std::string text = header_with(
      policies +
          R"j(,"generators":[{"seed":18446744073709551615,"offset":4}],"n_numbers":1,)j"
          R"j("dynamic":true,"sizes":[{"name":"n","size":7}],"outputs":[0,null],"left":[0],)j"
          R"j("digests":["0123456789abcdef","0000000000000000","ffffffffffffffff",)j"
          R"j("00000000000000ff"])j",
      "policies");
  const std::string nodes =
      R"j({"k":"input","name":"a","recipe":{"init":"values","scale":0.5,"values":[1,2.5,true],)j"
      R"j("written":["n"],"open":[0]},"requires_grad":true,)j"
      R"j("out":[{"v":0,"shape":[7],"dtype":"f32","placements":["S(0)","S(0)"],"order":[1,0]}]})j"
      "\n"
      R"j({"k":"size","args":[{"v":0},0],"number":0})j"
      "\n"
      R"j({"k":"mesh","mesh":0,"mesh_dims":[0,1]})j"
      "\n"
      R"j({"k":"hooks","args":[{"v":0}],"hook":0,"zeros":true})j"
      "\n"
      R"j({"k":"hook_call","hook":0})j"
      "\n"
      R"j({"k":"backward","args":[{"v":0},null],"create":true,"of_inputs":true})j"
      "\n";
  const ProgramGraph graph = read_graphs(text + nodes).at(0);
  CHECK(graph.policies.rules.at(1).local == "x + 1");
  CHECK(graph.policies.links.at(1).us == 1.5);
  CHECK_FALSE(graph.policies.links.at(1).gbps.has_value());
  CHECK(graph.generators.at(0).seed == UINT64_MAX);
  CHECK(graph.digests.at(3) == 255);
  CHECK(graph.sizes.at(0) == std::pair<std::string, std::int64_t>("n", 7));
  CHECK(graph.outputs.at(1).id == -1);
  CHECK(graph.nodes.at(0).results.at(0).type.order == ShardOrder{1, 0});
  CHECK(graph.nodes.at(0).recipe.values.size() == 3);
  CHECK(graph.nodes.at(0).recipe.dynamic == std::vector<std::int64_t>{0});
  CHECK(graph.nodes.at(3).zeros);
  CHECK(graph.nodes.at(5).graph == Graph::kCreate);
  CHECK(graph_json(read_graphs(graph_json(graph)).at(0)) == graph_json(graph));
  CHECK(read_graphs(graph_json(graph)).at(0).nodes == graph.nodes);
}

TEST_CASE("T-60 expressions of objects: what is missing is named with its byte") {
  const std::pair<std::string, std::string> rows[] = {
      {"", "a name is expected at byte 0"},
      {"Shard(", "a name is expected at byte 6"},
      {"Shard(0", "')' is expected at byte 7"},
      {"Shard(0) Shard(1)", "nothing behind the expression is expected at byte 9"},
      {"Shard(x)", "a number, a text, None or a list is expected at byte 7"},
      {"Shard(\"a)", "a closing quote is expected at byte 6"},
      {"[1, 2", "',' is expected at byte 5"},
      {"mesh.", "a name is expected at byte 5"},
      {"mesh.size", "'(' is expected at byte 9"},
      {"-", "a number is expected at byte 0"},
      {"[[[[[[[[[[[[[[[[[1]", "fewer lists inside of each other is expected at byte 16"},
  };
  for (const auto& row : rows) {
    const std::string& text = row.first;
    CAPTURE(text);
    TextEmitter into;
    try {
      read_expression(text, into);
      FAIL_CHECK("it was read");
    } catch (const Error& error) {
      CHECK(error.summary() == "\"" + text + "\" is not an expression of an object: " + row.second);
      CHECK(*error.find("fix") == "give a text that a graph has, such as Shard(0)");
    }
  }
}

TEST_CASE("T-60 an expression that is read is written as it was") {
  for (const char* text :
       {"None", "True", "3", "-2.5", "\"word\"", "[1, 2]", "[1, \"a\", None]", "mesh", "Shard(0)",
        "_StridedShard(1, 4)", "Partial(\"sum\")", "group.WORLD", "mesh.get_group(\"x\")",
        "mesh.get_group(0).size()", "f([1, 2], True, -1)"}) {
    CAPTURE(text);
    TextEmitter into;
    read_expression(text, into);
    CHECK(into.take() == text);
  }
}

}  // namespace shardlab
