// The first bytes tell an archive of torch.export from the lines of a recorder.
#include "sim/recording/recording.h"

#include "sim/checkpoint/zip_archive.h"
#include "sim/recording/exported_program.h"
#include "sim/recording/recording_file.h"
#include "sim/recording/recording_reader.h"

namespace shardlab {

RecordedProgram read_recording(const std::string& path, const ExportOptions& options) {
  std::string bytes = recording_bytes(path);
  if (ZipArchive::begins(bytes)) {
    return exported_program(open_exported(FileBytes(path, std::move(bytes))), options);
  }
  return read_recording(recording_file_of(path, std::move(bytes)));
}

}  // namespace shardlab
