// Graphs that tests write as lines, and the files that they mean: both are written by hand here. A
// file reads back as the same graph.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/unit/trace/graph_lines.h"
#include "trace/graph_json.h"

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

// The file that the lines mean, which reads back as itself.
void check_alike(const std::string& lines, const std::string& objects) {
  CHECK(graph_json(read_graph_lines(lines).at(0)) == objects);
  CHECK(graph_json(read_graphs(objects).at(0)) == objects);
}

void check_node(const std::string& line, const std::string& object) {
  CAPTURE(line);
  check_alike(kHeaderLine + kInputLine + line + "\n", kHeaderObject + kInputObject + object + "\n");
}

TEST_CASE("T-60 guards, arguments, moves, collectives and failures read back from a graph's file") {
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

TEST_CASE("T-60 nodes of every kind read back from a graph's file") {
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

TEST_CASE("T-60 numbers that follow from sizes read back from a graph's file") {
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
TEST_CASE("T-60 types read back with placements, order, strides, mesh, or as plain tensors") {
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

}  // namespace
}  // namespace shardlab
