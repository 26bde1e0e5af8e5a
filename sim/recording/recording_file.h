// recording_file.h - a recorded program as it is stored (sim/record_torch/format.md).
//
//   gzip of JSON lines, the first {"k":"program","form":"recording","schema":2,...}, the last
//   {"k":"end","events":N,"raw":BYTES,...}; then at once BYTES of elements, not compressed
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/checkpoint/file_bytes.h"

namespace shardlab {

/// A whole file, of which only the end is checked.
struct RecordingFile {
  std::string path;
  std::vector<std::string> lines;  ///< JSON, from "program" to "end"
  std::string raw;                 ///< elements; little-endian, row-major, without padding
};

/// True when the first line is that of a recording with a schema number, or the file is an archive,
/// as torch.export writes it. False for recordings without a number (schema 1) and files that
/// cannot be read. `form` "dump": values by name alone.
bool is_recording_file(const std::string& path, std::string_view form = "recording");

/// The lines and elements of a file that is_recording_file().
///   fails  Value: cut short, damaged, an archive, of a newer schema, or over 1 GiB of lines
RecordingFile read_recording_file(const FileBytes& file);
RecordingFile read_recording_file(const std::string& path);

}  // namespace shardlab
