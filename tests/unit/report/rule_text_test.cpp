#include "sim/report/rule_text.h"

#include <doctest/doctest.h>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {

TEST_CASE("rules print as a person would write them") {
  OpRegistry registry;
  register_all_ops(registry);
  CHECK(rule_text(registry.at("mm")) == "mk,kn->mn");
  CHECK(rule_rows_text(registry.at("mm")) ==
        "of [8, 8]: S(1), S(0) -> P(sum) | S(0), R -> S(0) | R, S(1) -> S(1) | P(sum), R -> P(sum) "
        "| R, P(sum) -> P(sum) | P(avg), R -> P(avg) | R, P(avg) -> P(avg)");
  CHECK(rule_text(registry.at("relu")) == "pointwise, passing P(max) -> P(max) | P(min) -> P(min)");
  CHECK(rule_rows_text(registry.at("sum.dim_IntList")) ==
        "of [8, 8, 8], dim=[1]: S(0) -> S(0) | S(1) -> P(sum) | S(2) -> S(1) | P(sum) -> P(sum)");
  // In the reference's list, with wrong values.
  CHECK(rule_rows_text(registry.at("_fft_r2c")) ==
        "of [8, 8, 8], dim=[1]: S(0) -> S(0) | S(2) -> S(2) | P(sum) -> P(sum) | P(avg) -> P(avg); "
        "never P(max) -> P(max) | P(min) -> P(min)");
  CHECK(rule_rows_text(registry.at("equal")) ==
        "of [8, 8, 8]: S(0), S(0) -> () | S(1), S(1) -> () | S(2), S(2) -> ()");
}

TEST_CASE("every row can be shown") {
  OpRegistry registry;
  register_all_ops(registry);
  for (const OpRow* row : registry.rows()) {
    CAPTURE(row->name());
    CHECK_FALSE(rule_text(*row).empty());
    CHECK_NOTHROW(rule_rows_text(*row));
  }
}

}  // namespace shardlab
