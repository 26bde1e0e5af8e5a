// files.h - tensors in files of the format safetensors, which other programs read and write, too.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/parallel.h"

namespace shardlab {

/// Writes whole values by name: save(path, model.named_parameters()). Distributed values are put
/// together; rank 0 writes its own of plain ones. Every rank calls this, and it returns when the
/// file is there.
///   fails  Value: the path cannot be written; Unsupported: a dtype that the format has not
void save(const std::string& path, const std::vector<std::pair<std::string, DTensor>>& values,
          SourceLine place = {});
/// Plain tensors, by name, as every rank reads them: model.replace(load(path)), or placed first by
/// shard(load(path), mesh, patterns).
///   fails  Value: it cannot be read, or is no such file
NamedTensors load(const std::string& path, SourceLine place = {});

}  // namespace shardlab
