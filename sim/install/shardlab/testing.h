// testing.h - tests on simulated ranks, with doctest. Include it instead of doctest/doctest.h.
//
//   SHARD_TEST("a column-parallel layer", "dp=2, tp=4") {
//     const DTensor x = randn({8, 16}), w = randn({16, 60});
//     const auto layer = [](const DTensor& x, const DTensor& w) { return gelu(matmul(x, w)); };
//     const DTensor y = layer(distribute_tensor(x, mesh, "dp=S(0)"),
//                             distribute_tensor(w, mesh, "tp=S(1)"));
//     CHECK(type_string(y) == "f32[8@dp, 60@tp]");
//     CHECK_CLOSE(y, one_device(layer, x, w));
//   }
//
// The body runs on every rank of the mesh; it sees `mesh` and `rank`. Failures of all ranks are
// merged: each place is reported once, with the ranks that failed there. A REQUIRE ends its rank
// only. In a SHARD_TEST, CHECK, CHECK_FALSE, REQUIRE, REQUIRE_FALSE and CHECK_CLOSE merge;
// doctest's other macros work, but report for each rank on its own, and its INFO and CAPTURE mix
// ranks.
//
// Ranks share the process: variables that the body captures or changes outside of itself must be
// safe for several threads. A rank that throws ends the test, and the others hear why. Linking:
// pkg-config shardlab, and a main of doctest.
#pragma once

#include <doctest/doctest.h>

#include "shardlab/shardlab.h"        // IWYU pragma: export
#include "sim/testing/rank_checks.h"  // IWYU pragma: export

namespace shardlab::testing {

/// The macro of doctest at a place.
inline doctest::assertType::Enum doctest_kind(CheckSite::Kind kind) {
  switch (kind) {
    case CheckSite::Kind::kCheckFalse:
      return doctest::assertType::DT_CHECK_FALSE;
    case CheckSite::Kind::kRequire:
      return doctest::assertType::DT_REQUIRE;
    case CheckSite::Kind::kRequireFalse:
      return doctest::assertType::DT_REQUIRE_FALSE;
    default:
      return doctest::assertType::DT_CHECK;
  }
}

/// Reports the findings of a run to doctest, each place as one assertion.
inline void report(const MeshRun& run, const char* file, int line) {
  for (const SiteReport& place : run.checks) {
    const CheckSite& site = place.site;
    doctest::detail::ResultBuilder found(doctest_kind(site.kind), site.file, site.line,
                                         site.expression);
    found.setResult({place.passed, place.text.c_str()});
    found.log();
  }
  if (!run.error.empty()) DOCTEST_ADD_FAIL_CHECK_AT(file, line, run.error);
}

/// `evaluate` gives doctest's result of an expression, or of its opposite.
template <typename Evaluate>
void check_expression(const CheckSite& site, Evaluate&& evaluate) {
  const doctest::detail::Result result = evaluate(doctest_kind(site.kind));
  check(site, result.m_passed, result.m_decomp.c_str());
}

}  // namespace shardlab::testing

#define SHARDLAB_CHECK(site_kind, otherwise, ...)                                               \
  do {                                                                                          \
    if (::shardlab::testing::on_rank()) {                                                       \
      ::shardlab::testing::check_expression(                                                    \
          {__FILE__, __LINE__, #__VA_ARGS__, ::shardlab::testing::CheckSite::Kind::site_kind},  \
          [&](doctest::assertType::Enum shardlab_kind) {                                        \
            DOCTEST_CLANG_SUPPRESS_WARNING_WITH_PUSH("-Woverloaded-shift-op-parentheses")       \
            return doctest::detail::Result(doctest::detail::ExpressionDecomposer(shardlab_kind) \
                                           << __VA_ARGS__);                                     \
            DOCTEST_CLANG_SUPPRESS_WARNING_POP                                                  \
          });                                                                                   \
    } else {                                                                                    \
      otherwise(__VA_ARGS__);                                                                   \
    }                                                                                           \
  } while (false)

#undef CHECK
#undef CHECK_FALSE
#undef REQUIRE
#undef REQUIRE_FALSE
// The same names as doctest's, so that a test reads like any other; outside of a SHARD_TEST they
// are doctest's own.
#define CHECK(...) SHARDLAB_CHECK(kCheck, DOCTEST_CHECK, __VA_ARGS__)
#define CHECK_FALSE(...) SHARDLAB_CHECK(kCheckFalse, DOCTEST_CHECK_FALSE, __VA_ARGS__)
#define REQUIRE(...) SHARDLAB_CHECK(kRequire, DOCTEST_REQUIRE, __VA_ARGS__)
#define REQUIRE_FALSE(...) SHARDLAB_CHECK(kRequireFalse, DOCTEST_REQUIRE_FALSE, __VA_ARGS__)

/// The whole value of a tensor of the program against one_device(program, arguments...), a plain
/// tensor, or a std::vector<double> of its elements in row-major order.
#define CHECK_CLOSE(value, ...)                                                    \
  ::shardlab::testing::check_close({__FILE__, __LINE__, #value ", " #__VA_ARGS__,  \
                                    ::shardlab::testing::CheckSite::Kind::kClose}, \
                                   value, ::shardlab::testing::Reference(__VA_ARGS__))

#define SHARDLAB_SHARD_TEST(body, name, ...)                                                   \
  static void body([[maybe_unused]] ::shardlab::RankContext& rank,                             \
                   [[maybe_unused]] const ::shardlab::MeshLayout* mesh);                       \
  DOCTEST_TEST_CASE(name) {                                                                    \
    ::shardlab::testing::report(::shardlab::testing::run_on_mesh(__VA_ARGS__, body), __FILE__, \
                                __LINE__);                                                     \
  }                                                                                            \
  static void body([[maybe_unused]] ::shardlab::RankContext& rank,                             \
                   [[maybe_unused]] const ::shardlab::MeshLayout* mesh)

/// A test case whose body runs on every rank of the mesh: SHARD_TEST("name", "dp=2, tp=4") { ... };
/// over a program's own ops (shardlab/ops.h): SHARD_TEST("name", "dp=2, tp=4", *ops) { ... }
#define SHARD_TEST(name, ...) \
  SHARDLAB_SHARD_TEST(DOCTEST_ANONYMOUS(shardlab_test_), name, __VA_ARGS__)
