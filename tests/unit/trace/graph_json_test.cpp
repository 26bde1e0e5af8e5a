// Files that are no graphs are refused with the line and the field; the parts of a graph come back.
#include <doctest/doctest.h>

#include "base/error.h"
#include "trace/graph_json.h"

namespace shardlab {
namespace {

const std::string kHeader =
    R"j({"k":"program","form":"capture","program":"p","world":2,"seed":7,"meshes":[{"shape":[2],)j"
    R"j("names":["x"]}],"policies":{"implicit":"allow"},"n_values":1,"left":[0]})j"
    "\n";
const std::string kInput =
    R"j({"k":"input","name":"a","recipe":{"init":"randn"},"out":[{"v":0,"shape":[7,2],)j"
    R"j("dtype":"f32","placements":["S(0)"]}]})j"
    "\n";

std::string refusal(const std::string& text) {
  try {
    read_graphs(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.find("fix") != nullptr);
    return error.summary();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  return text.replace(text.find(what), what.size(), by);
}

TEST_CASE("T-60 a graph that is read is printed as it was") {
  const std::string node =
      R"j({"k":"op","name":"aten::add.Tensor","args":[{"v":0},1.0,2,true,null,"x",[1,2],)j"
      R"j({"list":[1,2]},{"dtype":"bf16"},{"f":"nan"},{"c":[1.0,-2.0]},[{"v":0},null]],)j"
      R"j("out":[null],"taped":false,"at":[3,1],"redist":[{"t":1,"op":"aten::mm","from":"f32[2]",)j"
      R"j("to":"f32[2@x]","plan":"R->S(0)"}],"comm":[{"c":"all_reduce","group":"x","ranks":[0,1],)j"
      R"j("reduce":"max","dtype":"f32","shape":[4],"pass":"bwd","waits":true}],)j"
      R"j("error":{"class":"Value","message":"m"}})j"
      "\n";
  const std::string guard =
      R"j({"k":"guard","guard":"type","source":"inputs.a","expected":"f32[7@x, 2]","line":4})j"
      "\n";
  const std::string text = kHeader + guard + kInput + node;
  CHECK(graph_json(read_graphs(text).at(0)) == text);
}

TEST_CASE("a file with graphs of several classes of ranks has them one after the other") {
  const std::string first = replaced(kHeader, R"("seed")", R"("ranks":[0],"seed")");
  const std::string second = replaced(kHeader, R"("seed")", R"("ranks":[1],"seed")");
  const auto graphs = read_graphs(first + kInput + second + kInput);
  REQUIRE(graphs.size() == 2);
  CHECK(graphs[0].of_rank(0));
  CHECK_FALSE(graphs[0].of_rank(1));
  CHECK(graphs[1].of_rank(1));
}

TEST_CASE("a damaged graph is refused with its line and field") {
  CHECK(refusal("") == "the file is empty: a graph begins with its program");
  CHECK(refusal(kInput) == "line 1 of the graph: 'k' must be 'program' on the first line");
  CHECK(refusal(kHeader) ==
        "line 2 of the graph: 'n_values' is 1, and the nodes before it give 0: "
        "it is cut off");
  CHECK(refusal(kHeader + kInput.substr(0, 40)) ==
        "line 2 of the graph is not JSON: it is damaged or cut off");
  const std::pair<std::string, std::string> nodes[] = {
      {R"j({"k":"hop"})j", "'k' is 'hop', which is not a kind of node"},
      {R"j({"k":"op","args":[{"v":1}]})j", "'args' is 1; it must be from 0 to 0"},
      {R"j({"k":"op","args":{}})j", "'args' must be a list"},
      {R"j({"k":"op","at":[1]})j", "'at' must be a line and a column"},
      {R"j({"k":"op","name":3})j", "'name' must be a text"},
      {R"j({"k":"op","colour":3})j", "'colour' is not known"},
      {R"j({"k":"op","comm":[{"c":"all_hop"}]})j", "'comm.c' is not a collective"},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[-1]}})j",
       "'to.shape' is -1; it must be from 0 to 281474976710656"},
      {R"j({"k":"op","to":{"dtype":"f33","shape":[1]}})j", "'to.dtype' is not a dtype"},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[100000000000,100000000000]}})j",
       "'to.shape' is too large"},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[1],"placements":["Q"]}})j",
       "'to.placements' 'Q' is not a placement"},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[1],"placements":["S(-1)"]}})j",
       "'to.placements' 'S(-1)' is not a placement"},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[1],"placements":["S(0)"],"order":[1]}})j",
       "'to.order' does not say which mesh dim cuts first, second, ..."},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[1],"placements":["R"],"order":[0]}})j",
       "'to.order' does not say which mesh dim cuts first, second, ..."},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[1],"placements":["S(0)"],"order":[]}})j",
       "'to.order' does not say which mesh dim cuts first, second, ..."},
      {R"j({"k":"op","to":{"dtype":"f32","shape":[1],"mesh":1}})j",
       "'to.mesh' is 1; it must be from 0 to 0"},
      {R"j({"k":"op","args":[[[[[[[[[[[true]]]]]]]]]]]})j", "'args' has lists in lists in lists"},
  };
  for (const auto& row : nodes) {
    const auto& node = row.first;
    const auto& said = row.second;
    CAPTURE(node);
    CHECK(refusal(kHeader + kInput + node) == "line 3 of the graph: " + said);
  }
}

TEST_CASE("a count that no lines stand for takes no memory") {
  const std::string many = replaced(kHeader, R"("n_values":1)", R"("n_values":2000000000)");
  CHECK(refusal(many + kInput).find("'n_values' is 2000000000") != std::string::npos);
  const std::string world = replaced(kHeader, R"("world":2)", R"("world":99999999999)");
  CHECK(refusal(world + kInput).find("'world' is 99999999999") != std::string::npos);
}

}  // namespace
}  // namespace shardlab
