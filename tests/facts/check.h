// check.h - comparing recordings made elsewhere with our answers, line by line: recorded programs
// (`shardlab replay`), and the facts of the golden tests (tests/facts). A family knows one kind of
// file; the run counts lines as passed, failed, skipped (for a reason from a fixed list) or as a
// known difference. A line's id is `file:line`. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "sim/files/json.h"

namespace shardlab {

class KnownDifferences;

/// Why a line, or a field of a line, is not compared. The list is fixed: nothing is skipped for a
/// reason that is not here.
enum class SkipReason : std::uint8_t {
  kNoChecker,       ///< no family takes this kind of file yet
  kNotRegistered,   ///< the op has no row yet
  kNoRule,          ///< the op has no rule: a handler decides
  kDecomposition,   ///< the fact runs through a composite decomposition
  kPlanner,         ///< needs a planner, planner rules or costs that come later
  kExecution,       ///< needs values of kernels that come later
  kNoInput,         ///< the line does not record the input that leads to its answer
  kNotExpressible,  ///< the input cannot be written here, so there is nothing to refuse
  kReferenceText,   ///< the reference's text for its own objects
  kLaterField,      ///< a field whose subject comes later
  kReferenceHangs,  ///< the reference waits for a collective that another rank never joins
  kStream,          ///< values of a random stream that is not promised
  kNotSupported,    ///< a program uses an op or a part of the language that does not exist yet
  kNoValue,         ///< it takes the result of a skipped call
  kNoField,         ///< recorded, but our program for the case does not ask for it
  kHalfComplex,     ///< c32 and bc32 are names only
  kWrongRecord,     ///< the recorded value is wrong in digits that matter
  kNoGradientIn,    ///< a gradient case without an incoming gradient
  kOtherChoice,     ///< gradients of one of several right results
  kNoGradient,      ///< the gradient of this op is not written yet
};
inline constexpr int kSkipReasonCount = 20;
/// "no checker for this kind of file", ...
std::string_view to_string(SkipReason reason);

/// The result of comparing one line. Families fill it through these calls.
class CaseReport {
 public:
  /// Compares a field. Lists and objects compare whole; numbers exactly.
  void expect(std::string_view field, const Json& expected, const Json& got);
  /// A field that was compared elsewhere and differs.
  void differs(std::string_view field, const Json& expected, const Json& got);
  /// A scenario (TOML) that shows the last difference.
  void show_scenario(std::string text);
  /// The recorded error (an object with "type", or the kind's name) against that of `call`. Errors
  /// compare by kind only (behaviour.md section 1).
  void expect_error(std::string_view field, const Json& recorded,
                    const std::function<void()>& call);
  /// The choices of a decision: { outputs, inputs, cost }, as these fields are compared.
  void add_candidate(Json candidate);
  /// Nothing of this line is compared; `why`: a reason for this line alone.
  void skip(SkipReason reason, std::string why = {}) {
    skipped_ = reason;
    why_skipped_ = std::move(why);
  }
  /// One field of it is not compared.
  void skip_field(SkipReason reason) { skipped_fields_.push_back(reason); }

  struct Difference;
  const std::vector<Difference>& differences() const { return differences_; }
  const std::vector<Json>& candidates() const { return candidates_; }
  std::optional<SkipReason> skipped() const { return skipped_; }
  const std::string& why_skipped() const { return why_skipped_; }
  const std::vector<SkipReason>& skipped_fields() const { return skipped_fields_; }

  CaseReport();
  ~CaseReport();
  CaseReport(const CaseReport&) = delete;
  CaseReport& operator=(const CaseReport&) = delete;

 private:
  std::vector<Difference> differences_;
  std::vector<Json> candidates_;
  std::optional<SkipReason> skipped_;
  std::string why_skipped_;
  std::vector<SkipReason> skipped_fields_;
};

/// True when `ours` is a kind for the recorded kind or exception class: "RuntimeError" and
/// "runtime" are Runtime, "AssertionError" is Internal or Value, ...
bool same_error(std::string_view recorded, ErrorKind ours);
/// Runs `call`; the kind of the Error it throws, or empty.
std::optional<ErrorKind> error_of(const std::function<void()>& call);

struct CheckSummary;

/// The lines to check and the number of failures to show.
struct CheckOptions {
  std::int64_t max_shown = 20;  ///< lines that failed
  std::string id;               ///< only lines with this "id"; empty: all
  bool list_skipped = false;    ///< names each line that is skipped
  // Seed for checkers that draw placements.
  std::uint64_t seed = 1;
  std::int64_t draws = 2;  ///< for each line
  /// Ids of lines that are known to fail, and are counted apart.
  std::set<std::string> still_wrong = {};
};

/// Compares the lines of one file, in order; may keep state from line to line.
class FactChecker {
 public:
  virtual ~FactChecker() = default;
  /// Before the first line of the file at `path`.
  virtual void begin(const CheckOptions&, const std::string& /*path*/) {}
  /// After the last line; may add to the summary.
  virtual void finish(CheckSummary&) {}
  /// An exception that leaves this is a failure of the line.
  virtual void check(const Json& fact, CaseReport& report) = 0;
};

/// One kind of file.
struct CheckFamily {
  /// "layout/shard_orders": its name in known_differences.toml.
  std::string_view name;
  /// Decides by the file's name without folder and extensions and by one of its first lines.
  bool (*takes)(std::string_view stem, const Json& line);
  std::unique_ptr<FactChecker> (*make)(std::string_view stem);
};

/// One field that differs.
struct CheckFailure {
  std::string id;  ///< file:line
  std::string field;
  std::string expected;  ///< as JSON text
  std::string got;
  std::string scenario;  ///< TOML that shows it; empty: none
};

/// A line that is not compared.
struct SkippedLine {
  std::string id;  ///< the case's own id; file:line if it has none
  SkipReason reason;
  std::string why;  ///< of this line alone; empty: nothing
};

/// Counts that a family adds to a summary.
class CheckTable {
 public:
  virtual ~CheckTable() = default;
  virtual std::string text() const = 0;  ///< lines for people
  virtual Json json() const = 0;
};

/// The result of a run over files. Every line is counted once: passed, failed, skipped, known or
/// still wrong.
struct CheckSummary {
  std::int64_t passed = 0, failed = 0, skipped = 0, known = 0;  ///< lines
  std::map<SkipReason, std::int64_t> skips;                     ///< lines by reason
  std::map<SkipReason, std::int64_t> field_skips;               ///< fields by reason
  std::vector<SkippedLine> skipped_lines;  ///< in order; empty unless they are asked for
  std::map<std::string, std::int64_t> known_by_cause;
  std::int64_t still_wrong = 0;  ///< lines of CheckOptions::still_wrong that fail; no failures
  std::vector<CheckFailure> failures;  ///< of the first `max_shown` lines that failed
  std::shared_ptr<CheckTable> chains;  ///< of chain facts; null: there were none
  std::vector<std::string> notes;      ///< of families, one line each

  /// The failures, then skips with reasons, then "N passed, N failed, N skipped".
  std::string text() const;
  Json json() const;
};

/// "layout/plans.jsonl.gz" -> "plans".
std::string_view fact_stem(std::string_view path);

/// One run over some files.
class CheckRun {
 public:
  /// `known` may be null: every difference is then a failure.
  CheckRun(std::span<const CheckFamily> families, const KnownDifferences* known,
           CheckOptions options);
  ~CheckRun();
  CheckRun(const CheckRun&) = delete;
  CheckRun& operator=(const CheckRun&) = delete;

  /// Compares a .jsonl or .jsonl.gz file. A missing, unreadable or empty one is a failure.
  void check_file(const std::string& path);
  /// Checks the exact counts of the known differences whose files were all read, then sums up.
  CheckSummary finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardlab
