// step_file.h - a training step recorded in PyTorch, as it is stored (sim/record_torch/README.md).
//
//   gzip of JSON lines, the first {"k":"program","form":"recording","schema":2,...}, the last
//   {"k":"end","events":N,"raw":BYTES,...}; then at once BYTES of elements, not compressed
#pragma once

#include <string>
#include <string_view>

#include "sim/record/step_lines.h"

namespace shardlab {

/// Advice where a recording is damaged, or contradicts itself.
inline std::string record_again() { return "record the step again: shardlab record train.py"; }
/// Advice, before its path, where a Python file is given in place of one.
inline constexpr std::string_view kRecordFirst = "record a PyTorch program first: shardlab record ";

/// True when the first line is that of a recording with a schema number of its own, or the file is
/// an archive, as torch.export writes it. False for recordings without a number (schema 1) and
/// files that cannot be read. `form` "dump": values by name alone.
bool is_step_file(const std::string& path, std::string_view form = "recording");

/// The whole file, which is_step_file(); an exported program at the sizes that it was exported with
/// where there are no others.
///   fails  Value: cut short, damaged, of a newer schema, or more than 1 GiB of lines
///          as step_of_exported() does
StepFile read_step_file(const std::string& path, const ExportOptions& options = {});

}  // namespace shardlab
