// export_options.h - the choices that a program leaves open: of torch.export, and its weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace shardlab {

struct ExportOptions {
  std::map<std::string, std::int64_t> sizes =
      {};                                 ///< by symbol; what is no symbol is not looked at
  std::string backward = {};              ///< the output that gradients are of; empty: none
  std::string weights = {};               ///< a checkpoint; empty: the file's own elements
  std::vector<std::string> renames = {};  ///< of its tensors: "old.{i} -> new.{i}"
};

}  // namespace shardlab
