#include "backends/process/messages.h"

#include <doctest/doctest.h>

using namespace shardlab;
using namespace shardlab::process;

TEST_CASE("an error keeps its kind, parts and causes between processes") {
  Error error(ErrorKind::kValue, "shapes differ");
  error.with("op", "mm(\n  x, y)").with("excerpt", "  12 | y = x @ w").with("at", "a.toml:12");
  error.with("fix", "  transpose w")
      .with("odd", "")
      .with("part of", "matmul(x)")
      .with("a rather long key", "here");
  error.caused_by(Error(ErrorKind::kRuntime, "inner").with("mesh", "[2]"));
  Writer writer;
  put(writer, error);
  const std::string bytes = writer.take();
  Reader reader(bytes);
  const Error copy = get_error(reader);
  CHECK(reader.at_end());
  CHECK(copy.kind() == ErrorKind::kValue);
  CHECK(copy.text() == error.text());
  CHECK(copy.cause()->kind() == ErrorKind::kRuntime);
}

TEST_CASE("a verdict keeps what every rank did between processes") {
  Verdict verdict;
  verdict.kind = VerdictKind::kDeadlock;
  verdict.culprits = {1, 3};
  verdict.ranks.push_back({.rank = 0,
                           .state = RankReport::State::kWaits,
                           .what = "barrier()",
                           .op = "aten::mm",
                           .group = "x",
                           .call = 7,
                           .where = "a.toml:3",
                           .missing = {1, 3}});
  verdict.ranks.push_back({.rank = 1, .state = RankReport::State::kEnded});
  const std::string bytes = packed(verdict);
  Reader reader(bytes);
  const auto copy = reader.read<Verdict>();
  CHECK(reader.at_end());
  CHECK(summary(copy) == summary(verdict));
  CHECK(text(copy) == text(verdict));
  CHECK(copy.culprits == verdict.culprits);
}

TEST_CASE("a message that is cut short is an error") {
  Writer writer;
  put(writer, Error(ErrorKind::kValue, "a summary of some length"));
  const std::string bytes = writer.take();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Reader reader(std::string_view(bytes).substr(0, size));
    CHECK_THROWS_WITH(get_error(reader),
                      doctest::Contains("a message of another process is cut short"));
  }
}
