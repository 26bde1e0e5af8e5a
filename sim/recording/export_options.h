// export_options.h - the choices that a program of torch.export leaves open.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace shardlab {

struct ExportOptions {
  std::map<std::string, std::int64_t> sizes;  ///< by symbol; what is no symbol is not looked at
  std::string backward;                       ///< the output that gradients are of; empty: none
};

}  // namespace shardlab
