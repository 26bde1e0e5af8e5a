// The fault that is planted is chosen once, when the program starts.
#include "tests/behaviours/planted.h"

#include <cstdlib>

namespace shardlab {

bool planted(std::string_view fault) {
  const char* chosen = std::getenv("SHARDLAB_FAULT");
  return chosen != nullptr && fault == chosen;
}

}  // namespace shardlab
