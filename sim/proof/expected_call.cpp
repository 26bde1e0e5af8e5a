// The rule of scenarios/README.md, section 7, with a tolerance in addition to the envelope: one
// sample may be rounded little by luck, and its envelope be too narrow then.
#include "sim/proof/expected_call.h"

#include <algorithm>

#include "sim/verify/compare.h"

namespace shardlab {

namespace {

// Relative to the largest element; beyond it a difference is no rounding, since inputs are
// multiples of 1/64, and sums short.
constexpr double kRoom = 4e-5;
// For numbers that are 0 in exact arithmetic: inputs are numbers near 1.
constexpr double kRoomInF64 = 1e-15;

}  // namespace

ExpectedCall expected_call(const SampleValues& single, const SampleValues& reference) {
  ExpectedCall call{{}, single.results, single.roots};
  for (std::size_t i = 0; i < single.values.size(); ++i) {
    const DTensor& value = single.values[i];
    ExpectedValue& expected = call.values.emplace_back();
    if (!value.defined()) continue;
    expected = {true, value.meta(), whole_value(value.local()),
                whole_value(reference.values.at(i).local())};
  }
  return call;
}

std::string difference_in_f64(const GlobalValue& value, const ExpectedValue& expected) {
  F64Noise noise = f64_noise(expected.single, expected.reference);
  noise.of_zero = std::max(noise.of_zero, kRoomInF64);
  const Comparison result = compare_in_f64(value, expected.reference, noise);
  return result.agreement == Agreement::kWrong ? result.what : "";
}

std::string difference(const GlobalValue& value, const ExpectedValue& expected, bool exact) {
  const Comparison result = compare(value, expected.single, expected.reference,
                                    {.exact = exact, .relative_tolerance = kRoom});
  return result.agreement == Agreement::kWrong ? result.what : "";
}

}  // namespace shardlab
