#include "tests/behaviours/planted/base/planted.h"

#include <cstdlib>
#include <string>

namespace shardlab {

bool planted(std::string_view fault) {
  static const std::string chosen = [] {
    const char* name = std::getenv("SHARDLAB_FAULT");
    return std::string(name == nullptr ? "" : name);
  }();
  return fault == chosen;
}

}  // namespace shardlab
