// A line passes when every field that it records equals our answer. A difference is only excused by
// a row of known_differences.toml that predicts exactly our answer; such rows carry counts, and a
// wrong count fails as well, so that no row excuses more than it was written for.
#include "tests/facts/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"
#include "tests/facts/case_report.h"
#include "tests/facts/known_row.h"

namespace shardlab {

struct CheckRun::State {
  std::span<const CheckFamily> families;
  const KnownDifferences* known;
  CheckOptions options;
  CheckSummary summary;
  std::int64_t shown = 0;            // failed lines whose fields are in summary.failures
  std::set<std::string> own_files;   // "folder/stem" of the project's own facts that were read
  std::vector<std::int64_t> counts;  // per known difference: lines of the project's own facts

  void add_failure(CheckFailure failure) { summary.failures.push_back(std::move(failure)); }

  void fail_file(const std::string& path, std::string reason) {
    ++summary.failed;
    add_failure({path, "", "facts", std::move(reason)});
  }

  /// One line: counts it as passed, failed, skipped or known. `stem`: of the file, if it is one of
  /// the project's own facts.
  void count(const CheckFamily& family, const std::string& id, const Json& fact,
             const CaseReport& report, const std::optional<std::string>& stem) {
    for (const SkipReason reason : report.skipped_fields()) ++summary.field_skips[reason];
    if (report.differences().empty() && report.skipped()) {
      ++summary.skipped;
      ++summary.skips[*report.skipped()];
      if (options.list_skipped) {
        const std::string own_id = fact.is_object() ? fact.value("id", id) : id;
        summary.skipped_lines.push_back({own_id, *report.skipped(), report.why_skipped()});
      }
      return;
    }
    if (report.differences().empty()) {
      ++summary.passed;
      return;
    }
    if (still_wrong(fact)) {
      ++summary.still_wrong;
      return;
    }
    Json asked = fact;
    if (!report.candidates().empty()) asked["candidates"] = report.candidates();
    std::set<std::size_t> rows;
    for (const auto& difference : report.differences()) {
      const auto row = known == nullptr
                           ? std::nullopt
                           : known->explain(family.name, asked, difference.field, difference.got);
      if (!row) return count_failure(id, report);
      rows.insert(*row);
    }
    ++summary.known;
    for (const std::size_t row : rows) {
      ++summary.known_by_cause[known->row(row).cause];
      if (stem && std::ranges::count(known->row(row).files, *stem) > 0) ++counts[row];
    }
  }

  void count_failure(const std::string& id, const CaseReport& report) {
    ++summary.failed;
    if (shown++ >= options.max_shown) return;
    for (const auto& difference : report.differences()) {
      add_failure({id, difference.field, json_line(difference.expected), json_line(difference.got),
                   difference.scenario});
    }
  }

  bool selected(const Json& fact) const {
    return options.id.empty() || (fact.is_object() && fact.value("id", "") == options.id);
  }
  bool still_wrong(const Json& fact) const {
    return !options.still_wrong.empty() && options.still_wrong.contains(fact.value("id", ""));
  }
};

namespace {

/// Checks a line; one that is not JSON, or whose check threw, is a difference.
void check_line(FactChecker& checker, const Json& fact, CaseReport& report) {
  try {
    checker.check(fact, report);
  } catch (const Error& error) {
    report.differs("", "an answer", error.text());
  } catch (const Json::exception& error) {
    report.differs("", "a line of the family's format", error.what());
  }
}

/// The family that takes the file. The first line that any family knows decides, since not every
/// line has the fields that identify a family.
const CheckFamily* family_of(std::span<const CheckFamily> families, std::string_view stem,
                             std::span<const std::string> lines) {
  constexpr std::size_t kTried = 100;
  for (const std::string& line : lines.first(std::min(lines.size(), kTried))) {
    const Json fact = read_json(line);
    for (const CheckFamily& family : families) {
      if (family.takes(stem, fact)) return &family;
    }
  }
  return nullptr;
}

}  // namespace

CheckRun::CheckRun(std::span<const CheckFamily> families, const KnownDifferences* known,
                   CheckOptions options)
    : state_(std::make_unique<State>(State{families, known, std::move(options), {}, 0, {}, {}})) {
  state_->counts.resize(known ? known->size() : 0);
}

std::string_view fact_stem(std::string_view path) {
  path.remove_prefix(path.find_last_of('/') + 1);  // npos + 1 is 0
  for (const std::string_view ending : {".gz", ".jsonl", ".json"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  return path;
}

CheckRun::~CheckRun() = default;

void CheckRun::check_file(const std::string& path) {
  std::vector<std::string> lines;
  try {
    lines = read_lines(path);
    // One object on many lines.
    const bool whole = path.ends_with(".json") && lines.size() > 1;
    if (whole && read_json(lines[0]).is_discarded()) lines = {read_text(path)};
  } catch (const Error& error) {
    state_->fail_file(path, error.summary());
    return;
  }
  const std::string stem(fact_stem(path));
  const bool own = state_->known != nullptr && state_->known->counts_apply(path);
  const CheckFamily* family = family_of(state_->families, stem, lines);
  if (std::none_of(lines.begin(), lines.end(),
                   [](const std::string& line) { return Json::accept(line); })) {
    state_->fail_file(path, "no line of it is JSON");
    return;
  }
  if (family == nullptr) {
    const auto count = static_cast<std::int64_t>(lines.size());
    state_->summary.skipped += count;
    state_->summary.skips[SkipReason::kNoChecker] += count;
    return;
  }
  const std::unique_ptr<FactChecker> checker = family->make(stem);
  checker->begin(state_->options, path);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    if (lines[line].empty()) continue;
    const Json fact = read_json(lines[line]);
    if (!state_->selected(fact)) continue;
    CaseReport report;
    if (fact.is_discarded()) {
      report.differs("", "JSON", lines[line].substr(0, 60));
    } else {
      check_line(*checker, fact, report);
    }
    state_->count(*family, fmt::format("{}:{}", path, line + 1), fact, report,
                  own ? std::optional(stem) : std::nullopt);
  }
  checker->finish(state_->summary);
  if (own) {
    state_->own_files.insert(std::filesystem::absolute(path).parent_path().filename().string() +
                             "/" + stem);
  }
}

CheckSummary CheckRun::finish() {
  for (std::size_t index = 0; index < state_->counts.size(); ++index) {
    const KnownDifferences::Row& row = state_->known->row(index);
    const std::string folder = row.family.substr(0, row.family.find('/') + 1);
    const bool all_read = std::all_of(row.files.begin(), row.files.end(), [&](const auto& file) {
      return state_->own_files.contains(folder + file);
    });
    if (!all_read || state_->counts[index] == row.count) continue;
    ++state_->summary.failed;
    state_->add_failure({fmt::format("known_differences.toml:{}", row.line),
                         fmt::format("count of '{}' in {}", row.cause, row.family),
                         fmt::format("{}", row.count), fmt::format("{}", state_->counts[index])});
  }
  return std::move(state_->summary);
}

}  // namespace shardlab
