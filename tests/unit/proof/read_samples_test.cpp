// Expected values are written by hand.
#include "sim/proof/read_samples.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "base/error.h"
#include "sim/proof/read_samples.h"
#include "tensor/host.h"
#include "tests/support/on_ranks.h"

namespace shardlab {
namespace {

std::string refusal_of_table(std::string_view text) {
  try {
    read_samples(text, "own.txt");
  } catch (const Error& error) {
    return error.summary();
  }
  return "";
}

TEST_CASE("a line of samples: several names, inputs of every kind, arguments as Python has them") {
  const std::vector<OpSample> samples = read_samples(
      "# a comment\n"
      "\n"
      "abs my::neg($0) of real[7, 5]\r\n"
      "fixed: f($1, [0, -1], [$0, None], [], (), 2, 2.5, -1e-05, inf, True, f64, \"a, b\") of\n"
      "  index[3]<9; count[]<4;\n"
      "  unit[0, 2]; bool[1]; values[2](0.5, 3); whole[2](2, 1)\n"
      "unmarked: empty()\n",
      "own.txt");
  REQUIRE(samples.size() == 4);
  CHECK(samples[0].op == "abs");
  CHECK(samples[1].op == "my::neg");
  CHECK(samples[1].args == Arguments{"$0"});
  REQUIRE(samples[1].inputs.size() == 1);
  CHECK(samples[1].inputs[0].shape == Dims{7, 5});
  CHECK(samples[1].inputs[0].fill == Fill::kReal);
  CHECK((samples[1].marked && !samples[1].fixed));

  const OpSample& f = samples[2];
  CHECK((f.fixed && f.marked));
  CHECK(f.args == Arguments{"$1", Dims{0, -1}, ArgumentList{"$0", Argument()}, Dims{},
                            ArgumentList{}, 2, 2.5, -1e-5, std::numeric_limits<double>::infinity(),
                            true, DType::kF64, "a, b"});
  REQUIRE(f.inputs.size() == 6);
  CHECK((f.inputs[0].fill == Fill::kIndex && f.inputs[0].limit == 9));
  CHECK((f.inputs[1].fill == Fill::kCount && f.inputs[1].shape.empty()));
  CHECK((f.inputs[2].fill == Fill::kUnit && f.inputs[2].shape == Dims{0, 2}));
  CHECK(f.inputs[3].fill == Fill::kBool);
  REQUIRE((f.inputs[4].fill == Fill::kGiven && f.inputs[5].fill == Fill::kGiven));
  CHECK((f.inputs[4].given->placed && f.inputs[4].given->dtype == DType::kF32));
  CHECK((!f.inputs[5].given->placed && f.inputs[5].given->dtype == DType::kI64));
  on_ranks(1, [&](RankContext&) {
    const auto values = [&](std::size_t input, Precision precision) {
      return read_doubles(f.inputs[input].given->make(precision));
    };
    CHECK(values(4, Precision::kReference) == std::vector<double>{0.5, 3});
    CHECK(f.inputs[4].given->make(Precision::kReference).dtype() == DType::kF64);
    CHECK(values(5, Precision::kReference) == std::vector<double>{2, 1});
    CHECK(f.inputs[5].given->make(Precision::kReference).dtype() == DType::kI64);
  });
  CHECK((!samples[3].marked && samples[3].args.empty() && samples[3].inputs.empty()));
}

TEST_CASE("a wrong line of samples is refused by file and line, with what was expected") {
  // The table, and what is said behind "own.txt:1: expected ".
  for (const auto& [line, expected] : {
           std::pair("abs($0)", "an input $0, found '0 inputs'"),
           {"abs(\n  $0 of real[7]\n", "',', found 'of real[7]'"},
           {"abs($0) of real[7", "',', found ''"},
           {"abs($0) of reel[7]",
            "real, unit, index, count, bool, values or whole, found 'reel[7]'"},
           {"abs($0) of real[x]", "an integer, found 'x'"},
           {"abs($0) of index[7]", "'<', found ''"},
           {"abs($0) of values[2](1)", "2 numbers, found '1'"},
           {"abs($0) of values[1](None)", "a number, found 'None'"},
           {"abs($0, ten) of real[7]",
            "a number, None, True, False, $0, a dtype or a text, found 'ten'"},
           {"abs($0, \"ten) of real[7]", "a text that ends with \", found 'ten) of real[7]'"},
           {"abs($0) of real[7] real[7]", "the end of the line, found 'real[7]'"},
           {"abs", "the name of an op, or '(', found ''"},
       }) {
    const std::string text = line;
    CAPTURE(text);
    CHECK(refusal_of_table(text) == std::string("own.txt:1: expected ") + expected);
  }
  CHECK(refusal_of_table("# abs\nabs($0) of real[7]\n\nabs($1) of real[7]") ==
        "own.txt:4: expected an input $1, found '1 inputs'");
}

TEST_CASE("the shipped table has samples of both kinds, and those of several calls come last") {
  CHECK(op_samples().size() > 1000);
  CHECK(all_samples().size() > op_samples().size());
  for (const OpSample& sample : op_samples()) CHECK(!sample.fixed);
  CHECK(all_samples().back().calls != nullptr);
}

}  // namespace
}  // namespace shardlab
