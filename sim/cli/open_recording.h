// open_recording.h - a recorded program, or an exported program, as a scenario: `shardlab run`
// and `trace`.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "sim/cli/commands.h"
#include "sim/edit/advice.h"
#include "sim/recording/recording.h"
#include "sim/replay/self_test.h"
#include "sim/run/run_options.h"
#include "sim/scenario/scenario_file.h"

namespace shardlab {

class RecordedAlone;
struct KnownAlone;
struct Remesh;

/// A recording as a scenario.
struct OpenedRecording {
  ScenarioFile file;
  std::shared_ptr<KnownAlone> alone;           ///< its run on one device; null: there was none
  std::shared_ptr<const Remesh> remesh = {};   ///< what its scenario is made of; null: a scenario
  std::shared_ptr<RecordedAlone> beside = {};  ///< not compared with PyTorch yet; else null
};

/// The time at which one device runs, for the comparison with PyTorch.
enum class SelfTesting : std::uint8_t {
  kFirst,
  kBeside,  ///< while the ranks run, if their values may go once they are judged
};

/// The recording on the given mesh, or on one rank, after its run on one device was compared with
/// PyTorch; prints the result of the comparison. None: --toml has printed the scenario, or the
/// self-test fails, and `code` is the exit code.
std::optional<OpenedRecording> open_recording(const std::string& path,
                                              const RunArguments& arguments, int& code);
std::optional<OpenedRecording> open_recording(std::shared_ptr<const RecordedProgram> recording,
                                              const RunArguments& arguments, int& code,
                                              SelfTesting when = SelfTesting::kFirst);

/// The program of a recording on one device, while its ranks run.
class RecordedAlone final : public AloneListener {
 public:
  RecordedAlone(std::shared_ptr<const Remesh> remesh, Scenario scenario, RunArguments arguments);
  void kept(const RecordedValue& value) override;
  void ends(bool whole) override;
  /// After the run: prints the result of the comparison. If it fails, the run is made once more,
  /// for everything that can be said.
  bool holds();

 private:
  std::shared_ptr<const Remesh> remesh_;
  Scenario scenario_;
  RunArguments arguments_;
  std::optional<SelfTestRuns> values_;  // until the run ends
  std::optional<SelfTest> test_;        // nothing: the run did not get to its end
};

/// Other layouts of a recording on the mesh of the arguments that it was opened with, for `shardlab
/// advise`; none of another file.
OtherLayouts other_layouts(const OpenedRecording& opened, const RunArguments& arguments);

/// Prints them on stderr, a line each.
void print_notes(const std::vector<std::string>& notes);

/// The command line's choices for a recording.
ExportOptions export_options(const RunArguments& arguments);

/// The first of the options that a recorded step alone has; null: none is given.
const char* step_option(const RunArguments& arguments);

/// Refuses options of recordings where a file is a scenario.
void refuse_recording_options(const std::string& path, const RunArguments& arguments);

// The scenario that is meant where a file has a matrix: the first that fails.

/// A scenario, or a graph in place of one.
ScenarioFile open_scenario(const std::string& path, const RunArguments& arguments);
/// The same, or a recording.
///   fails  Value: a recording whose program does not give PyTorch's values on one device
OpenedRecording open_any(const std::string& path, const RunArguments& arguments);
/// The only point of a file, whether it fails or not.
///   fails  Value: nothing is wrong at any of several
Scenario failing_point(const std::string& path, const RunArguments& arguments);

}  // namespace shardlab
