// Lines of recordings with one field damaged: each is refused before it is played, and the error
// names the field.
#include "tests/facts/recorded_form.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "sim/files/json_value.h"

using namespace shardlab;

namespace {

const char* const kProgram = R"j({"k":"program","program":"p","mesh":[2,3],
  "mesh_dim_names":["dp","tp"],"backend":"local","values":true,"n_values":9})j";
const char* const kInput = R"j({"k":"input","name":"x","v":0,"shape":[7,6],"dtype":"f32",
  "placements":["S(0)","R"],"fill":{"seed":0,"scale":1.0,"bias":0.5},"requires_grad":true})j";
const char* const kLocal = R"j({"k":"const","v":1,"local":true,"dtype":"i64",
  "shapes":[[1],[1],[1],[1],[1],[2]],"data_ranks":[[1],[1],[1],[1],[1],[2,3]]})j";
const char* const kCall = R"j({"k":"op","pass":"fwd","op":"aten.add.Tensor",
  "args":[{"v":0},{"v":0}],"kwargs":{"alpha":{"f":"inf"}},"random":false,
  "redist":[{"t":1,"from":["S(0)","R"],"to":["R","R"]}],
  "comm":[{"c":"all_gather_into_tensor","dim":0,"dtype":"f32","shape":[4,6]}],
  "out":[{"v":2,"shape":[7,6],"dtype":"f32","placements":["R","R"],"fp":[1.5,"nan"]},null,
         {"scalar":1.5}],
  "mut":[{"v":3,"shape":[1],"dtype":"f32","local":true,"fp":{"ranks":
          [[0,0],[0,0],[0,0],[0,0],[0,0],[0,0]]}}]})j";
const char* const kMove = R"j({"k":"redistribute","pass":"fwd","in":0,"from":["S(0)","R"],
  "to":["R","R"],"out":[{"v":4,"shape":[7,6],"dtype":"f32","placements":["R"],"mesh":["tp"]}]})j";
const char* const kFailed = R"j({"k":"op","op":"aten.t_","args":[{"v":0}],"in":["S(0)"],
  "error":{"class":"RuntimeError","message":"no"}})j";

struct Damage {
  const char* line;
  const char* at;       // of the field, as a JSON pointer
  const char* instead;  // JSON; empty: the field is left out
  const char* says;
};

const Damage kOfProgram[] = {
    {kProgram, "/mesh/1", "-1", "'mesh' has to be a whole number from 1 to"},
    {kProgram, "/mesh/1", "0", "'mesh' has to be a whole number"},
    {kProgram, "/mesh/1", "4294967296", "'mesh' has over 4096 ranks"},
    {kProgram, "/mesh/1", "18446744073709551615", "'mesh' has to be a whole number"},
    {kProgram, "/mesh/1", "1.5", "'mesh' has to be a whole number"},
    {kProgram, "/mesh/1", "\"3\"", "'mesh' has to be a whole number"},
    {kProgram, "/mesh", "[]", "'mesh' has to be 1 to 8 sizes"},
    {kProgram, "/mesh", "3", "'mesh' has to be a list, and is 3"},
    {kProgram, "/mesh", "[1,1,1,1,1,1,1,1,1]", "'mesh' has to be 1 to 8 sizes"},
    {kProgram, "/mesh", "", "'mesh' has to be there"},
    {kProgram, "/mesh_dim_names", "[\"dp\"]", "'mesh_dim_names' has to be a list of 2 texts"},
    {kProgram, "/mesh_dim_names/1", "\"dp\"", "'mesh_dim_names' has to be different names"},
    {kProgram, "/mesh_dim_names/1", "7", "'mesh_dim_names' has to be a text"},
    {kProgram, "/n_values", "99999999999", "'n_values' has to be a whole number from 0 to"},
    {kProgram, "/n_values", "-1", "'n_values' has to be a whole number"},
    {kProgram, "/n_values", "null", "'n_values' has to be a whole number"},
    {kProgram, "/backend", "1", "'backend' has to be a text"},
    {kProgram, "/values", "\"yes\"", "'values' has to be true or false"},
};

const Damage kOfLines[] = {
    {kInput, "/k", "\"inputs\"", "'k' has to be a kind of event, and is \"inputs\""},
    {kInput, "/k", "", "'k' has to be there"},
    {kInput, "/name", "", "'name' has to be there"},
    {kInput, "/v", "99999999999", "'v' has to be a whole number from 0 to 8"},
    {kInput, "/v", "9", "'v' has to be a whole number from 0 to 8"},
    {kInput, "/v", "-1", "'v' has to be a whole number"},
    {kInput, "/shape", "[7,-6]", "'shape' has to be a whole number from 0"},
    {kInput, "/shape", "[1073741824,1073741824,0]", "'shape' has to be the shape of a tensor"},
    {kInput, "/shape", "", "'shape' has to be there"},
    {kInput, "/dtype", "\"f33\"", "'dtype' has to be a dtype"},
    {kInput, "/placements", "[\"R\"]", "'placements' has to be a list of 2 placements"},
    {kInput, "/placements/0", "\"S(\"", "'placements' has to be a placement"},
    {kInput, "/placements/0", "\"S(-1)\"", "'placements' has to be a placement"},
    {kInput, "/placements/0", "\"S(7)\"", "'placements' has to be cuts of dims that the shape has"},
    {kInput, "/placements", "{}", "'placements' has to be a list of 2 placements"},
    {kInput, "/fill", "{\"seed\":1}", "'fill.bias' has to be there"},
    {kInput, "/fill/seed", "0.5", "'fill.seed' has to be a whole number"},
    {kInput, "/fill/scale", "\"1\"", "'fill.scale' has to be a number"},
    {kInput, "/requires_grad", "1", "'requires_grad' has to be true or false"},
    {kInput, "/mesh", "[\"pp\"]", "'mesh' has to be different dims of the mesh"},
    {kInput, "/mesh", "[]", "'mesh' has to be different dims of the mesh"},
    {kInput, "/stride", "[-1]", "'stride' has to be a whole number"},
    {kInput, "/data", "[[1],\"one\"]", "'data' has to be numbers, and is \"one\""},
    {kLocal, "/shapes", "[[1]]", "'shapes' has to be a list of 6 shapes"},
    {kLocal, "/local", "false", "'shapes' has to be left out"},
    {kLocal, "/local", "1", "'local' has to be true or false"},
    {kLocal, "/data_ranks", "[1]", "'data_ranks' has to be a list of 6"},
    {kLocal, "/fill", "{\"seed\":0}", "'fill.mod' has to be there"},
    {kLocal, "/fill", "{\"seed\":0,\"mod\":0}", "'fill.mod' has to be a whole number from 1"},
    {kCall, "/op", "", "'op' has to be there"},
    {kCall, "/args", "7", "'args' has to be a list"},
    {kCall, "/args/1/v", "9", "'args' has to be a whole number from 0 to 8"},
    {kCall, "/args/1", "{}", "'args' has to be an object of one field"},
    {kCall, "/args/1", "{\"complex\":[1]}", "'args' has to be two numbers"},
    {kCall, "/args/1", "{\"dtype\":\"f0\"}", "'args' has to be a dtype"},
    {kCall, "/args/1", "18446744073709551615", "'args' has to be a whole number"},
    {kCall, "/kwargs", "[]", "'kwargs' has to be an object"},
    {kCall, "/kwargs/alpha/f", "\"one\"", "'kwargs.alpha' has to be a number"},
    {kCall, "/random", "0", "'random' has to be true or false"},
    {kCall, "/redist", "{}", "'redist' has to be a list"},
    {kCall, "/redist/0", "1", "'redist' has to be a list of objects"},
    {kCall, "/redist/0/t", "-1", "'redist.t' has to be a whole number"},
    {kCall, "/redist/0/to", "[\"R\",\"R\",\"R\"]", "'redist.to' has to be a list of 2"},
    {kCall, "/comm/0/dim", "2", "'comm.dim' has to be a whole number from 0 to 1"},
    {kCall, "/comm/0/c", "", "'comm.c' has to be there"},
    {kCall, "/comm/0/reduce", "3", "'comm.reduce' has to be a text"},
    {kCall, "/out", "3", "'out' has to be a list"},
    {kCall, "/out/0", "3", "'out' has to be an object"},
    {kCall, "/out/0/v", "77", "'out.v' has to be a whole number from 0 to 8"},
    {kCall, "/out/0/fp", "[1]", "'out.fp' has to be two numbers"},
    {kCall, "/out/2/scalar", "\"x\"", "'out.scalar' has to be numbers"},
    {kCall, "/mut/0/fp/ranks", "[[0,0]]", "'mut.fp.ranks' has to be a list of 6"},
    {kCall, "/mut/0/fp", "{}", "'mut.fp.ranks' has to be there"},
    {kMove, "/in", "", "'in' has to be there"},
    {kMove, "/in", "\"0\"", "'in' has to be a whole number from 0 to 8"},
    {kMove, "/to", "", "'to' has to be there"},
    {kMove, "/to/1", "\"Q\"", "'to' has to be a placement"},
    {kMove, "/out", "", "'out' has to be there"},
    {kMove, "/out", "[]", "'out' has to be a list of one value"},
    {kMove, "/error", "{\"class\":\"ValueError\"}", "'error' has to be left out"},
    {kFailed, "/error", "\"no\"", "'error' has to be an object"},
    {kFailed, "/error/class", "", "'error.class' has to be there"},
};

Json damaged(const Damage& damage) {
  Json line = Json::parse(damage.line);
  const Json::json_pointer at(damage.at);
  if (*damage.instead != '\0') {
    line[at] = Json::parse(damage.instead);
  } else {
    line.at(at.parent_pointer()).erase(at.back());
  }
  return line;
}

template <typename Check>
void refused(const Damage& damage, const Check& check) {
  CAPTURE(damage.at);
  CAPTURE(damage.instead);
  const Json line = damaged(damage);
  try {
    check(line);
  } catch (const Error& error) {
    CHECK_MESSAGE(error.text().find(damage.says) != std::string::npos, error.text());
    return;
  }
  FAIL_CHECK("it is taken");
}

}  // namespace

TEST_CASE("a recording: every line has the form that is written down") {
  const RecordedForm form(Json::parse(kProgram));
  CHECK(form.ranks() == 6);
  for (const char* line : {kInput, kLocal, kCall, kMove, kFailed}) form.check(Json::parse(line));
}

TEST_CASE("a recording: a damaged field is named before anything is played") {
  for (const Damage& damage : kOfProgram) {
    refused(damage, [](const Json& line) { return RecordedForm(line).ranks(); });
  }
  const RecordedForm form(Json::parse(kProgram));
  for (const Damage& damage : kOfLines) {
    refused(damage, [&](const Json& line) { form.check(line); });
  }
}

TEST_CASE("a recording: lists in lists have an end") {
  const RecordedForm form(Json::parse(kProgram));
  for (const char* field : {"args", "data"}) {
    Json deep = 1;
    for (int i = 0; i < 100; ++i) deep = Json::array({deep});
    Json line = Json::parse(*field == 'a' ? kCall : kInput);
    line[field] = deep;
    CHECK_THROWS_WITH_AS(form.check(line), doctest::Contains("has to be less deep"), Error);
  }
}
