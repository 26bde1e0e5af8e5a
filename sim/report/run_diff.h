// run_diff.h - two outputs of `shardlab run --json`, compared with each other.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "sim/report/show.h"

namespace shardlab {

/// One thing that is not the same in both.
struct Difference {
  std::string about;  ///< "value y", "decision 12", "collective 3"
  std::string text;   ///< in plain words; may have several lines
  /// Its time: the number of earlier events of the run; an earlier difference is nearer to the
  /// cause.
  std::size_t event = 0;
};

/// One theme of the comparison.
struct DiffSection {
  std::string name;  ///< "outcome", "decisions", "collectives", "values", "times"
  std::string text;  ///< "38 compared, all equal"
  std::vector<Difference> differences;
  bool compared = true;  ///< false: nothing of it, or of values no element
};

/// Two runs of one point.
struct RunDiff {
  std::string title;               ///< of the scenario, with its point
  std::vector<std::string> setup;  ///< settings that differ: "backend: threads and mpi"
  std::vector<DiffSection> sections;
  bool equal() const;
  /// The earliest; null when equal.
  const Difference* first() const;
};

/// Decisions are compared if both meshes have the same dims, by name; shapes of pieces, bytes and
/// times if the meshes are equal. Elements of values are the same when their distance is at most
/// the sum of the errors that both runs allow around the single-device run in f64 (0 if both are
/// exact); if that is not known, 32 roundings of the largest element. Values, and output of
/// programs, are compared if products are of the same instructions.
RunDiff diff_run(const nlohmann::json& a, const nlohmann::json& b);
/// The runs of a file that `run --json` wrote.
///   fails  Value: a line that it did not write; names file and line
std::vector<nlohmann::json> read_runs(const std::string& path);
/// All runs of two files, in their order.
///   fails  as read_runs
std::vector<RunDiff> diff_runs(const std::string& a, const std::string& b);

std::string diff_text(const std::vector<RunDiff>& runs, const std::string& a, const std::string& b,
                      Color color);
/// One object, keys in alphabetical order.
std::string diff_json(const std::vector<RunDiff>& runs);

/// True when products of the two runs add up in orders of their own, as those of AVX2 and AVX-512
/// do.
bool other_products(const nlohmann::json& a, const nlohmann::json& b);
/// The value of a run with the name and occurrence of this one; null: it has none.
const nlohmann::json* same_value(const nlohmann::json& run, const nlohmann::json& value);
/// "value y", "value y, assignment 2".
std::string about_value(const nlohmann::json& value);
/// The theme "values"; `a` and `b` are runs.
DiffSection diff_values(const nlohmann::json& a, const nlohmann::json& b);

}  // namespace shardlab
