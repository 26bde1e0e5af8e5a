// scenario_file.h - reads a scenario's TOML file, applies overrides, and expands its matrix.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario.h"
#include "sim/scenario/toml_tree.h"

namespace shardlab {

/// One value put in place of the file's: by `--set`, or by a point of the matrix.
struct Setting {
  std::string key;  ///< "seed", "world", "mesh.tp", "params.hidden"; a bare name is a param
  Literal value;
  Where where;
};

/// Reads "mesh.tp=4", as given to --set. Texts that are neither a number nor a boolean are strings.
///   fails  ScenarioError: no '=', empty key
Setting parse_setting(const std::string& text);

/// One combination of the matrix.
struct MatrixPoint {
  std::string name;  ///< "mesh.tp=2,hidden=17"; empty when the file has no matrix
  std::vector<Setting> settings;
};

/// A file that has been read and whose keys are known to be right. Immutable.
class ScenarioFile {
 public:
  /// A key that a setting gives is no longer part of the matrix.
  ///   fails  ScenarioError: malformed TOML, unknown keys and settings, syntax of the program
  static ScenarioFile read(SourcePtr file, std::vector<Setting> settings);
  /// Opens the file first; "-" is standard input.
  ///   fails  Value: cannot be read, larger than 16 MiB
  static ScenarioFile open(const std::string& path, std::vector<Setting> settings);

  /// The file's title, for reports.
  const std::string& title() const { return title_; }
  const std::string& about() const { return about_; }
  /// All combinations, the first key of [matrix] slowest. At least one.
  const std::vector<MatrixPoint>& points() const { return points_; }
  /// Evaluates everything at one point.
  ///   fails  ScenarioError: sizes, type strings, unknown names in expressions and in [expect]
  Scenario at(const MatrixPoint& point) const;
  /// At the first.
  Scenario first() const { return at(points_.front()); }

  /// Keeps a file of its inputs in memory (RecordedTensors::keep).
  void hold(std::shared_ptr<const void> input_file) { input_file_ = std::move(input_file); }

 private:
  ScenarioFile() = default;
  // All combinations of [matrix], less the keys that settings give.
  void expand_matrix();
  TomlSection root() const { return {{file_, {}}, "the file", &root_}; }

  SourcePtr file_;
  TomlTable root_;
  std::string title_;
  std::string about_;
  std::vector<Setting> settings_;
  std::vector<MatrixPoint> points_;
  std::shared_ptr<const ast::Program> program_;
  std::shared_ptr<const ast::Program> reference_;
  std::shared_ptr<const void> input_file_;
};

/// The mesh as written, in `arena`: the same one for the same mesh.
const MeshLayout* layout_of(const ScenarioMesh& mesh, Arena& arena);

}  // namespace shardlab
