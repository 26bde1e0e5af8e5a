// The text form of a graph has the same content as its JSON, and reads back as the same graph; both
// are written by hand here. Damaged text is refused with its line, column and field.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "base/error.h"
#include "trace/graph_json.h"
#include "trace/graph_lines.h"

namespace shardlab {
namespace {

const std::string kHeaderLine =
    "program \"two words\"(world=6, seed=7, meshes=[{shape: [2, 3], names: [x, y]}, "
    "{shape: [2], names: [x], base: 0, part: [x]}], policies={implicit: allow}, n_values=1, "
    "generators=[{seed: 3, offset: 8}], outputs=[0, None], left=[0])\n";
const std::string kHeaderObject =
    R"j({"k":"program","form":"capture","program":"two words","world":6,"seed":7,)j"
    R"j("meshes":[{"shape":[2,3],"names":["x","y"]},{"shape":[2],"names":["x"],"base":0,)j"
    R"j("part":["x"]}],"policies":{"implicit":"allow"},"n_values":1,)j"
    R"j("generators":[{"seed":3,"offset":8}],"outputs":[0,null],"left":[0]})j"
    "\n";
const std::string kInputLine = "%0: f32[7@x, 2] = input a(init=randn, scale=0.5)\n";
const std::string kInputObject =
    R"j({"k":"input","name":"a","recipe":{"init":"randn","scale":0.5},)j"
    R"j("out":[{"v":0,"shape":[7,2],"dtype":"f32","placements":["S(0)","R"]}]})j"
    "\n";

// Both ways: the graph of the text, and the text of the graph.
void check_alike(const std::string& lines, const std::string& objects) {
  CHECK(graph_json(read_graphs(lines).at(0)) == objects);
  CHECK(graph_lines(read_graphs(objects).at(0)) == lines);
  CHECK(graph_lines(read_graphs(lines).at(0)) == lines);
}

void check_node(const std::string& line, const std::string& object) {
  CAPTURE(line);
  check_alike(kHeaderLine + kInputLine + line + "\n", kHeaderObject + kInputObject + object + "\n");
}

TEST_CASE("T-60 the text of a graph says what its JSON says, and reads back as it") {
  check_alike(kHeaderLine + "guard type inputs.a = \"f32[7@x, 2]\"    line 4\n" +
                  "guard rank \"a b\" = \"0\"\n" + kInputLine,
              kHeaderObject +
                  R"j({"k":"guard","guard":"type","source":"inputs.a","expected":"f32[7@x, 2]",)j"
                  R"j("line":4})j"
                  "\n" +
                  R"j({"k":"guard","guard":"rank","source":"a b","expected":"0"})j" + "\n" +
                  kInputObject);
  check_node(
      "_ = aten::add.Tensor(%0, 1.0, 2, True, None, \"x\", [1, 2], list[1, 2], bf16, nan, -inf, "
      "complex(1.0, -2.0), [%0, None], {generator: 0}, taped=False)    line 3:1\n"
      "    moves(t=1, op=aten::mm, from=\"f32[2]\", to=\"f32[2@x]\", plan=\"R->S(0)\")\n"
      "    all_reduce(f32[4], group=x, ranks=[0, 1], reduce=max, pass=bwd, waits=True)\n"
      "    fails(class=Value, message=\"it is 3\")",
      R"j({"k":"op","name":"aten::add.Tensor","args":[{"v":0},1.0,2,true,null,"x",[1,2],)j"
      R"j({"list":[1,2]},{"dtype":"bf16"},{"f":"nan"},{"f":"-inf"},{"c":[1.0,-2.0]},)j"
      R"j([{"v":0},null],{"generator":0}],"out":[null],"taped":false,"at":[3,1],)j"
      R"j("redist":[{"t":1,"op":"aten::mm","from":"f32[2]","to":"f32[2@x]","plan":"R->S(0)"}],)j"
      R"j("comm":[{"c":"all_reduce","group":"x","ranks":[0,1],"reduce":"max","dtype":"f32",)j"
      R"j("shape":[4],"pass":"bwd","waits":true}],)j"
      R"j("error":{"class":"Value","message":"it is 3"}})j");
}

TEST_CASE("T-60 nodes of every form are written and read") {
  check_node("collective all_gather(%0, group={mesh: 0, dims: [1]}, reduce=max, dim=1)",
             R"j({"k":"collective","name":"all_gather","args":[{"v":0}],)j"
             R"j("group":{"mesh":0,"dims":[1]},"reduce":"max","dim":1,"split_dim":0})j");
  check_node("factory aten::full([7, 2], 3.5, to=f32[7@y, 2], generator=0)",
             R"j({"k":"factory","name":"aten::full","args":[[7,2],3.5],"to":{"shape":[7,2],)j"
             R"j("dtype":"f32","placements":["R","S(0)"]},"generator":0})j");
  check_node("read(%0, data=[0.0, -0.0, inf, True, 7])    line 9:0",
             R"j({"k":"read","args":[{"v":0}],"data":[0.0,-0.0,{"f":"inf"},true,7],"at":[9,0]})j");
  check_node("read(%0, data_ranks=[[1], []])",
             R"j({"k":"read","args":[{"v":0}],"data_ranks":[[1],[]]})j");
  check_node("seed(generator=0, seed=18446744073709551615)",
             R"j({"k":"seed","generator":0,"seed":18446744073709551615})j");
  check_node("op \"no word\"()", R"j({"k":"op","name":"no word"})j");
}

TEST_CASE("T-60 numbers that follow from sizes are named before the node that makes them") {
  const std::string line =
      std::string(kHeaderLine)
          .replace(kHeaderLine.find(", generators"), 0, ", n_numbers=2, dynamic=True");
  const std::string object =
      std::string(kHeaderObject)
          .replace(kHeaderObject.find(",\"generators\""), 0, ",\"n_numbers\":2,\"dynamic\":true");
  check_alike(line + kInputLine +
                  "n0 = size(%0, 1)\n"
                  "n1 = number \"*\"(n0, 2)\n"
                  "size_guard \"==\"(n1, 4, required=False)    line 2:5\n",
              object + kInputObject + R"j({"k":"size","args":[{"v":0},1],"number":0})j" + "\n" +
                  R"j({"k":"number","name":"*","args":[{"n":0},2],"number":1})j" + "\n" +
                  R"j({"k":"size_guard","name":"==","args":[{"n":1},4],"required":false,)j" +
                  R"j("at":[2,5]})j" + "\n");
}

// Uneven and empty lengths, cuts out of order, pending reductions, strides, other meshes.
TEST_CASE("T-60 a type says placements, order, strides, mesh, and whether it is a plain tensor") {
  const std::pair<std::string, std::string> types[] = {
      {"f32[7, 2]", R"j("shape":[7,2],"dtype":"f32","placements":["R","R"])j"},
      {"f32[7, 2] local", R"j("shape":[7,2],"dtype":"f32","local":true)j"},
      {"i64[0@y]{max:x}", R"j("shape":[0],"dtype":"i64","placements":["P(max)","S(0)"])j"},
      {"f32[7@(x,y)]", R"j("shape":[7],"dtype":"f32","placements":["S(0)","S(0)"])j"},
      {"f32[7@(y,x)]", R"j("shape":[7],"dtype":"f32","placements":["S(0)","S(0)"],"order":[1,0])j"},
      {"bf16[3, 2@x] stride=[1, 3]",
       R"j("shape":[3,2],"dtype":"bf16","placements":["S(1)","R"],"stride":[1,3])j"},
      {"bool[] local", R"j("shape":[],"dtype":"bool","local":true)j"},
      {"f32[7@x] mesh=1", R"j("shape":[7],"dtype":"f32","placements":["S(0)"],"mesh":1)j"},
      {"f32[] placements=[\"S(0)\", \"R\"]",
       R"j("shape":[],"dtype":"f32","placements":["S(0)","R"])j"},
      {"f32[7] placements=[\"SS(0,3)\", \"S(0)\"]",
       R"j("shape":[7],"dtype":"f32","placements":["SS(0,3)","S(0)"])j"},
      {"f32[7] placements=[\"SS(0,2)\", \"S(0)\"] order=[1, 0]",
       R"j("shape":[7],"dtype":"f32","placements":["SS(0,2)","S(0)"],"order":[1,0])j"},
  };
  for (const auto& [text, object] : types) {
    check_node(
        fmt::format("_, %0: {} = detach(%0)", text),
        fmt::format(R"j({{"k":"detach","args":[{{"v":0}}],"out":[null,{{"v":0,{}}}]}})j", object));
  }
}

std::string text_refusal(const std::string& text) {
  try {
    read_graphs(text);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kValue);
    CHECK(error.find("fix") != nullptr);
    return error.summary();
  }
  return "accepted";
}

TEST_CASE("damaged text is refused with its line, column and field") {
  CHECK(text_refusal("\n  \n") == "line 2 of the graph is not JSON: it is damaged or cut off");
  CHECK(text_refusal(kInputLine) ==
        "line 1 of the graph, column 1: \"%0:\": a graph begins with its program");
  CHECK(text_refusal("    moves()") == "line 1 of the graph, column 1: \" \": is below no node");
  CHECK(text_refusal(kHeaderLine) ==
        "line 2 of the graph: 'n_values' is 1, and the nodes before it give 0: it is cut off");
  CHECK(text_refusal("program x(world=2, seed=1, meshes=[f32[2]])") ==
        "line 1 of the graph, column 36: 'meshes': \"f32\": there is no type here");
  const std::pair<std::string, std::string> nodes[] = {
      {"hop(", ", column 5: 'args': the line ends, a value is missing"},
      {"hop()", ": 'k' is 'hop', which is not a kind of node"},
      {"aten::mm(%1)", ": 'args' is 1; it must be from 0 to 0"},
      {"aten::mm(%)", ", column 11: 'args': \")\": is not a number"},
      {"aten::mm(%0", ", column 12: the line ends, ')' is missing"},
      {"aten::mm(%0) 3", ", column 14: \"3\": does not belong to the line"},
      {"aten::mm(\"a)", ", column 10: 'args': \"\\\"a\": its quotes do not end"},
      {"aten::mm(1e999)", ", column 10: 'args': \"1e999\": is not a value"},
      {"aten::mm(x=1, x=2)", ", column 18: 'x': \")\": 'x' is given twice"},
      {"aten::mm(colour=3)", ": 'colour' is not known"},
      {"aten::mm(args=[])", ", column 18: the line ends, 'args' is not known"},
      {"aten::mm()    line x", ", column 20: \"x\": is not a number"},
      {"aten::mm()    line 3", ": 'at' must be a line and a column"},
      {"%0: f32[7@z] = detach(%0)", ", column 11: \"z\": mesh {x:2, y:3} has no dim 'z'"},
      {"%0: f32[7] mesh=2 = detach(%0)", ", column 5: \"f32\": the graph has no mesh 2"},
      {"%0: f32[7@x] local = detach(%0)", ", column 11: \"x\": mesh {} has no dim 'x'"},
      {"detach(%0, to=f32[-1])", ", column 19: 'to': \"-1\": size -1 is negative"},
      {"aten::mm()\n    all_hop(f32[2])", ": 'comm.c' is not a collective"},
  };
  for (const auto& row : nodes) {
    const auto& node = row.first;
    const auto& said = row.second;
    CAPTURE(node);
    CHECK(text_refusal(kHeaderLine + kInputLine + node) == "line 3 of the graph" + said);
  }
  CHECK(text_refusal(kHeaderLine + kInputLine + "aten::mm()" + '\0' + "x") ==
        "line 3 of the graph, column 11: \"\\u0000x\": does not belong to the line");
  CHECK(text_refusal(kHeaderLine + kInputLine + "aten::mm()\n    all_reduce(2)") ==
        "line 4 of the graph, column 16: \"2\": is not a type");
}

TEST_CASE("text takes no more memory than it is long") {
  std::string deep(10'000, '[');
  CHECK(text_refusal(kHeaderLine + kInputLine + "aten::mm(" + deep).find("values in values") !=
        std::string::npos);
  std::string many = "aten::mm(";
  for (int i = 0; i < 100; ++i) many += fmt::format("x{}=1, ", i);
  CHECK(text_refusal(kHeaderLine + kInputLine + many).find("more than 64 fields") !=
        std::string::npos);
}

}  // namespace
}  // namespace shardlab
