// junit.h - results of `shardlab test` for CI systems, as JUnit XML. Except for times, the same
// bytes for the same results.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/verify/verify.h"

namespace shardlab {

/// One scenario at one point of its matrix.
struct TestReport {
  enum class Verdict : std::uint8_t { kPassed, kFailed, kError, kSkipped };
  std::string file;  ///< path of the scenario: the class
  std::string name;  ///< path and point
  Verdict verdict = Verdict::kPassed;
  std::string message;                ///< one line, unless passed: the expected value, and ours
  std::string text;                   ///< the whole report, unless passed or skipped
  double seconds = 0;                 ///< its time
  std::optional<ValueCounts> values;  ///< none: no run was judged
  std::int64_t line = 0;              ///< of the file, to look at first; 0: none is known
};

/// Annotations of GitHub's actions, one for each failure: the file, the line if one is known, and
/// the message, with the whole refusal of a file that cannot be read.
std::string github_annotation(const TestReport& report);
/// One testsuite per folder, in the order given; ends with a newline. Bytes that XML cannot hold
/// (control characters, bytes that are not UTF-8) become U+FFFD.
std::string junit_xml(const std::vector<TestReport>& reports);

}  // namespace shardlab
