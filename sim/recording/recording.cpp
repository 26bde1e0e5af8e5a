// The first bytes tell an archive of torch.export from the lines of a recorder.
#include "sim/recording/recording.h"

#include <algorithm>

#include "sim/checkpoint/zip_archive.h"
#include "sim/recording/exported_program.h"
#include "sim/recording/weights.h"

namespace shardlab {

RecordedProgram read_recording(const std::string& path, const ExportOptions& options) {
  const FileBytes bytes = FileBytes::open(path);
  const bool exported = ZipArchive::begins(bytes.text(0, std::min<std::uint64_t>(bytes.size(), 4)));
  RecordedProgram program = exported ? exported_program(open_exported(bytes), options)
                                     : read_recording(read_recording_file(bytes));
  take_weights(program, options);
  return program;
}

}  // namespace shardlab
