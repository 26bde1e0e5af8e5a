// Sizes that torch.export writes as text, and exported programs as they are stored: what they are
// as programs, and that a size is what it is asked to be.
#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"
#include "base/program_path.h"
#include "sim/recording/exported_sizes.h"
#include "sim/recording/recording.h"
#include "sim/remesh/program.h"

using namespace shardlab;

namespace {

std::int64_t size_of(const std::string& text) {
  return size_in_text(
      text, [](const std::string& symbol) -> std::int64_t { return symbol == "s0" ? 12 : 5; });
}

// Above the program, which is built inside of the repository.
std::string exported(const std::string& name) {
  namespace fs = std::filesystem;
  const std::string file = "tests/golden/exported/" + name + "__2.15.0.pt2";
  fs::path folder = program_path().parent_path();
  while (!fs::exists(folder / file) && folder != folder.root_path()) folder = folder.parent_path();
  return (folder / file).string();
}

}  // namespace

TEST_CASE("B-30 a size is what its text says, in both spellings") {
  const std::pair<const char*, std::int64_t> kSizes[] = {
      {"Symbol('s0', positive=True, integer=True)", 12},
      {"Mul(Integer(16), Symbol('s0', positive=True, integer=True))", 192},
      {"Add(Mul(Integer(-1), Symbol('s0')), Integer(3), Symbol('s1'))", -4},
      {"FloorDiv(Add(Symbol('s1'), Integer(-20)), Integer(2))", -8},
      {"Mod(Integer(-7), Symbol('s1'))", 3},
      {"Max(Integer(1), Pow(Symbol('s1'), Integer(2)))", 25},
      {"Min(Symbol('s0'), Symbol('s1'))", 5},
      {"CeilDiv(Symbol('s0'), Symbol('s1'))", 3},
      {"16*s0 + 1", 193},
      {"-3 + 2*(s0 - s1)**2", 95},
      {"(s0//s1)", 2},
      {"s0 % s1", 2},
      {"7", 7},
  };
  for (const auto& one : kSizes) {
    CAPTURE(one.first);
    CHECK(size_of(one.first) == one.second);
  }
  for (const char* text : {"", "s0 +", "(s0", "Mod(s0, 0)", "s0//0", "2**99", "s0 s1", "Symbol(s0)",
                           "Mul(9223372036854775807, 2)", "Integer()", "FloorDiv(s0)"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(size_of(text), Error);
  }
  CHECK_THROWS_AS(size_of("Rational(1, 2)"), Error);
}

TEST_CASE("B-30 the nodes of an exported program are its statements, its archive the inputs") {
  const RecordedProgram recording =
      read_recording(exported("llama"), {.sizes = {{"s52", 3}}, .backward = {}});
  const CallProgram program = program_of(recording);
  CHECK(recording.exported);
  CHECK(program.statements.size() == 116);
  std::size_t parameters = 0;
  for (const CallInput& input : program.inputs) {
    parameters += input.parameter ? 1 : 0;
    if (input.batch) CHECK(input.meta.shape == Dims{3, 8});
  }
  CHECK(parameters == 21);
  CHECK(module_of(recording, *program.statements[1].event) == "model.layers.0.attention_norm");
}
