// check_line.h - single lines of facts through the families of `check`, right and with a
// fault planted.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "sim/files/json_value.h"
#include "tests/facts/check.h"
#include "tests/facts/check_families.h"
#include "tests/support/temporary_folder.h"

namespace shardlab {

/// The answer of `check` to one line.
inline CheckSummary check_line(const std::string& line) {
  const TemporaryFolder folder;
  CheckRun run(check_families(), nullptr, {});
  run.check_file(folder.write("lines.jsonl", line + "\n"));
  return run.finish();
}

/// The line with one of its texts replaced by another.
inline std::string changed(std::string line, const std::string& text, const std::string& other) {
  const std::size_t at = line.find(text);
  REQUIRE(at != std::string::npos);
  return line.replace(at, text.size(), other);
}

/// The line fails, and this field of it first.
inline void check_field(const std::string& line, const std::string& field) {
  const CheckSummary summary = check_line(line);
  CAPTURE(line);
  CHECK(summary.failed == 1);
  REQUIRE(!summary.failures.empty());
  CHECK(summary.failures[0].field == field);
}

}  // namespace shardlab
