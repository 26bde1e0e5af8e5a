#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/unit/facts/check_line.h"

using namespace shardlab;

namespace {

// A fact about 20000 draws. The numbers of the laws below are those of the textbooks.
std::string law(const std::string& op, const std::string& args, const std::string& dtype,
                const std::string& support, const std::string& mean_and_std,
                const std::string& quantiles) {
  return fmt::format(
      R"({{"id": "rand:{0}#0", "op": "aten.{0}", "draws": 20000, "args": [{1}], "kwargs": {{}}, )"
      R"("outputs": [{{"shape": [20000], "dtype": "{2}", {4}, "quantiles_1_25_50_75_99": [{5}], )"
      R"("zeros": 0.0}}], "support": "{3}", "note": ""}})",
      op, args, dtype, support, mean_and_std, quantiles);
}

std::string room(const std::string& dtype) {
  return R"({"shape": [20000], "dtype": ")" + dtype + R"(", "fill": 0.0})";
}

// sqrt(1 / 12) is 0.288675.
constexpr const char* kUniformQuantiles = "0.01, 0.25, 0.5, 0.75, 0.99";
std::string uniform(const std::string& dtype) {
  return law("rand_like.default", room(dtype), dtype, "[0,1)", R"("mean": 0.5, "std": 0.288675)",
             kUniformQuantiles);
}

std::string normal() {
  return law("randn_like.default", room("f64"), "f64", "all reals", R"("mean": 0.0, "std": 1.0)",
             "-2.326348, -0.674490, 0.0, 0.674490, 2.326348");
}

}  // namespace

TEST_CASE("V-22 draws of an op follow the recorded law") {
  for (const char* dtype : {"f32", "f64", "bf16"}) CHECK(check_line(uniform(dtype)).passed == 1);
  CHECK(check_line(normal()).passed == 1);
  CHECK(check_line(law("bernoulli_.float", room("f32") + ", 0.25", "f32", "{0,1}",
                       R"("mean": 0.25, "std": 0.433013)", "0, 0, 0, 0.5, 1"))
            .passed == 1);
  CHECK(check_line(law("geometric_.default", room("f32") + ", 0.5", "f32", "{1,2,...}",
                       R"("mean": 2.0, "std": 1.414214)", "1, 1, 1.5, 2.5, 7"))
            .passed == 1);
  // Every draw is alike: there is no sampling error.
  const std::string always = law("bernoulli_.float", room("f32") + ", 1.0", "f32", "{0,1}",
                                 R"("mean": 1.0, "std": 0.0)", "1, 1, 1, 1, 1");
  CHECK(check_line(always).passed == 1);
  check_field(changed(always, R"("mean": 1.0)", R"("mean": 0.9999)"), "outputs.0.mean");
}

// The standard error of both means is 0.0029, that of the standard deviations 0.0013.
TEST_CASE("V-22 another law than the recorded one is found") {
  const std::string right = uniform("f32");
  check_field(changed(right, R"("dtype": "f32", "mean")", R"("dtype": "f64", "mean")"),
              "outputs.0");
  check_field(changed(right, "[20000], \"dtype\": \"f32\", \"mean\"",
                      "[19999], \"dtype\": \"f32\", \"mean\""),
              "outputs.0");
  check_field(changed(right, "[0,1)", "[0.001,1)"), "outputs.0.support");
  check_field(changed(right, "[0,1)", "[0,0.999)"), "outputs.0.support");
  check_field(changed(right, "[0,1)", "{0..9}"), "outputs.0.support");
  check_field(changed(right, "[0,1)", "{0,1}"), "outputs.0.support");
  check_field(changed(right, "[0,1)", "a permutation of 0..n-1"), "outputs.0.support");
  check_field(changed(right, R"("mean": 0.5)", R"("mean": 0.52)"), "outputs.0.mean");
  check_field(changed(right, R"("std": 0.288675)", R"("std": 0.3)"), "outputs.0.std");
}

TEST_CASE("V-22 a law of the recorded mean and deviation is found by its quantiles") {
  // Normal numbers of the mean and the deviation of the uniform law.
  const std::string line = law("normal_.default", room("f64") + ", 0.5, 0.288675", "f64",
                               "all reals", R"("mean": 0.5, "std": 0.288675)", kUniformQuantiles);
  check_field(line, "outputs.0.quantiles.0");
}

TEST_CASE("V-22 a support that says nothing is refused") {
  CHECK(check_line(changed(normal(), "all reals", "somewhere")).failed == 1);
}
