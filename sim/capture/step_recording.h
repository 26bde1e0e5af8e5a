// step_recording.h - a training step recorded in PyTorch (sim/record_torch/README.md), checked as
// it is read, so that its players need no checks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "sim/record/json_value.h"
#include "sim/record/step_file.h"
#include "tensor/device.h"

namespace shardlab {

/// A line of the user's program.
struct RecordedPlace {
  std::string file;
  std::int64_t line = 0;
};

/// One file. Immutable once read.
struct StepRecording {
  std::string path;
  std::string title;         ///< of the program: the file's name when it was recorded
  std::string torch;         ///< release that recorded it
  bool shapes_only = false;  ///< no elements and no fingerprints
  bool has_calls = false;    ///< the level above autograd, which a re-mesh needs
  bool exported = false;     ///< by torch.export: calls without values, and no step of an optimizer
  std::map<std::size_t, std::string> outputs;  ///< of an exported program: their names
  std::size_t values = 0;                      ///< they are numbered from 0
  std::size_t ranks = 1;
  Json mesh;                 ///< in the form of a recorded program's first line (recorded_form.h)
  std::vector<Json> events;  ///< all lines, in order
  std::vector<RecordedPlace> places;
  std::shared_ptr<const std::string> raw;  ///< elements
  std::string program_error;  ///< the program failed while it was recorded; empty: it did not
};

/// Reads and checks a file that is_step_file().
///   fails  Value: damaged, or contradicts itself: event and place are named. Unsupported: parts
///          that the recorder could not see, or this reader does not know
StepRecording read_step(const std::string& path, const ExportOptions& options = {});
/// The same of a file that was read.
StepRecording read_step(StepFile file);

/// "layers.0.attention.wo models.py:22", as far as the event has it; else empty.
std::string place_of(const StepRecording& recording, const Json& event);
/// Fails with Value: `event`, or the file if it is null, is not as a reader expects; `what` says
/// so.
[[noreturn]] void refuse_event(const StepRecording& recording, const Json* event,
                               std::string_view what);
/// The module's path, or empty.
std::string module_of(const Json& event);

/// dtype, shape and strides of a recorded value; of a plain one, as this rank has it.
TensorMeta recorded_meta(const Json& value, std::size_t rank = 0);
/// A tensor with the recorded elements of an input, a constant or a random result, or with those of
/// a rank's piece of it, whose shape is `meta`'s.
///   fails  Value: the file has none, or their number is that of another shape
Tensor recorded_tensor(Device& device, const StepRecording& recording, const Json& value,
                       std::size_t rank, const TensorMeta& meta);

}  // namespace shardlab
