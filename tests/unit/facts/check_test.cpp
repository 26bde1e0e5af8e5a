#include "tests/facts/check.h"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "tests/facts/known_differences.h"
#include "tests/support/temporary_folder.h"

using namespace shardlab;

namespace {

std::string compressed(const TemporaryFolder& folder, const std::string& name,
                       const std::string& content) {
  const std::string path = folder.write(name, "");
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return path;
}

/// A family whose lines hold a number and its double.
class DoubleChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    if (fact.contains("skip")) return report.skip(SkipReason::kNoInput, fact.value("why", ""));
    if (fact.contains("later")) report.skip_field(SkipReason::kLaterField);
    if (fact.contains("error")) {
      return report.expect_error("error", fact["error"], [] { fail(ErrorKind::kValue, "no"); });
    }
    report.expect("double", fact.at("double"), 2 * fact.at("number").get<int>());
  }
};
constexpr CheckFamily kDoubles[] = {
    {"test/doubles", [](std::string_view stem, const Json&) { return stem == "doubles"; },
     [](std::string_view) -> std::unique_ptr<FactChecker> {
       return std::make_unique<DoubleChecker>();
     }}};

CheckSummary check(const std::string& file, const KnownDifferences* known = nullptr,
                   CheckOptions options = {}) {
  CheckRun run(kDoubles, known, options);
  run.check_file(file);
  return run.finish();
}

constexpr const char* kKnown = R"(
[[difference]]
cause = "X-99"
family = "test/doubles"
when = { number = { at_least = 10 } }
ours = { double = 20 }
count = 1
proof = "some test"
)";

}  // namespace

TEST_CASE("lines pass, fail with id, expected and got, or are skipped for a reason") {
  const TemporaryFolder folder;
  const std::string file = folder.write("doubles.jsonl",
                                        "{\"number\":1,\"double\":2}\n"
                                        "{\"number\":2,\"double\":5}\n"
                                        "{\"skip\":true}\n"
                                        "{\"number\":3,\"double\":6,\"later\":1}\n"
                                        "{\"error\":\"ValueError\"}\n"
                                        "{\"error\":{\"type\":\"RuntimeError\"}}\n"
                                        "no json\n"
                                        "{\"number\":3}\n");
  const CheckSummary summary = check(file);
  CHECK(summary.passed == 3);
  CHECK(summary.failed == 4);
  CHECK(summary.skipped == 1);
  CHECK(summary.skips.at(SkipReason::kNoInput) == 1);
  CHECK(summary.field_skips.at(SkipReason::kLaterField) == 1);
  REQUIRE(summary.failures.size() == 4);
  CHECK(summary.failures[0].id == file + ":2");
  CHECK(summary.failures[0].field == "double");
  CHECK(summary.failures[0].expected == "5");
  CHECK(summary.failures[0].got == "4");
  CHECK(summary.failures[1].got == "\"Value\"");
  CHECK(summary.failures[2].id == file + ":7");
  CHECK(summary.text().ends_with("\n3 passed, 4 failed, 1 skipped\n"));
  CHECK(summary.json()["failures"][0]["id"] == file + ":2");
}

TEST_CASE("lines that are skipped are named where it is asked for, with what is known of each") {
  const TemporaryFolder folder;
  const std::string file = folder.write("doubles.jsonl",
                                        "{\"id\":\"two\",\"skip\":true,\"why\":\"it is odd\"}\n"
                                        "{\"skip\":true}\n"
                                        "{\"number\":1,\"double\":2}\n");
  CHECK(check(file).skipped_lines.empty());
  const CheckSummary summary = check(file, nullptr, {.list_skipped = true});
  CHECK(summary.text() ==
        "skipped two: the line does not record its input: it is odd\n"
        "skipped " +
            file +
            ":2: the line does not record its input\n"
            "skipped 2 lines: the line does not record its input\n"
            "1 passed, 0 failed, 2 skipped\n");
  CHECK(summary.json()["skipped_lines"][0]["why"] == "it is odd");
}

TEST_CASE("all failures count, the first few are shown") {
  const TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 10; ++i) lines += "{\"number\":1,\"double\":3}\n";
  const CheckSummary summary =
      check(folder.write("doubles.jsonl", lines), nullptr, {.max_shown = 2});
  CHECK(summary.failed == 10);
  CHECK(summary.failures.size() == 2);
}

TEST_CASE("a missing, empty or damaged file is a failure, never a skip") {
  const TemporaryFolder folder;
  const std::string whole = compressed(folder, "doubles.jsonl.gz", "{\"number\":1,\"double\":2}\n");
  CHECK(check(whole).passed == 1);
  std::filesystem::resize_file(whole, std::filesystem::file_size(whole) - 6);
  CHECK(check(whole).failed == 1);
  CHECK(check(folder.write("doubles.jsonl", "")).failed == 1);
  CHECK(check(compressed(folder, "doubles.jsonl.gz", "")).failed == 1);
  CHECK(check("nowhere/doubles.jsonl").failed == 1);
}

TEST_CASE("files that no family takes are skipped line by line, with the reason") {
  const TemporaryFolder folder;
  const CheckSummary summary = check(folder.write("other.jsonl", "{}\n{}\n"));
  CHECK(summary.skipped == 2);
  CHECK(summary.skips.at(SkipReason::kNoChecker) == 2);
}

TEST_CASE("a family that tells its files by a field may find it in a later line") {
  constexpr CheckFamily kByField[] = {
      {"test/doubles", [](std::string_view, const Json& line) { return line.contains("number"); },
       kDoubles[0].make}};
  const TemporaryFolder folder;
  const std::string file =
      folder.write("renamed.jsonl", "{\"skip\":true}\n{\"number\":1,\"double\":2}\n");
  CheckRun run(kByField, nullptr, {});
  run.check_file(file);
  const CheckSummary summary = run.finish();
  CHECK(summary.passed == 1);
  CHECK(summary.skipped == 1);
}

TEST_CASE("a known difference needs family, predicate and our answer to agree") {
  const TemporaryFolder folder;
  const auto known = KnownDifferences::read(folder.write("known_differences.toml", kKnown));
  const auto line = [&](const std::string& text) {
    return check(folder.write("doubles.jsonl", text + "\n"), &known);
  };
  const CheckSummary summary = line(R"({"number":10,"double":7})");
  CHECK(summary.known == 1);
  CHECK(summary.failed == 0);
  CHECK(summary.known_by_cause.at("X-99") == 1);
  CHECK(line(R"({"number":11,"double":7})").failed == 1);  // ours would be 22
  CHECK(line(R"({"number":9,"double":20})").failed == 1);  // the predicate does not hold
  CHECK(line(R"({"number":10,"double":20})").passed == 1);
}

TEST_CASE("a changed count of known differences fails for the project's own facts only") {
  const TemporaryFolder folder;
  const auto known = KnownDifferences::read(folder.write("known_differences.toml", kKnown));
  const std::string lines = "{\"number\":10,\"double\":7}\n{\"number\":10,\"double\":8}\n";
  const CheckSummary own = check(folder.write("facts/test/doubles.jsonl", lines), &known);
  CHECK(own.known == 2);
  CHECK(own.failed == 1);
  CHECK(own.failures[0].field == "count of 'X-99' in test/doubles");
  CHECK(own.failures[0].expected == "1");
  CHECK(own.failures[0].got == "2");
  CHECK(check(folder.write("kept_back/doubles.jsonl", lines), &known).failed == 0);
}

TEST_CASE("errors compare by kind") {
  CHECK(same_error("RuntimeError", ErrorKind::kRuntime));
  CHECK(same_error("AssertionError", ErrorKind::kInternal));
  CHECK(same_error("AssertionError", ErrorKind::kValue));
  CHECK(same_error("not_implemented", ErrorKind::kUnsupported));
  CHECK_FALSE(same_error("ValueError", ErrorKind::kRuntime));
  CHECK_FALSE(same_error("SyntaxError", ErrorKind::kValue));
}

TEST_CASE("the stem of a fact file has no folder and no extensions") {
  CHECK(fact_stem("a/b/plans_2x2-2.15.jsonl.gz") == "plans_2x2-2.15");
  CHECK(fact_stem("ops.json") == "ops");
}
