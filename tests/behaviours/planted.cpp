// The fault that is planted is chosen once, when the program starts. Faults are planted in the
// first copy of kernels, so that there is no second one here.
#include "tests/behaviours/planted.h"

#include <cstdlib>

namespace shardlab {

struct WideProducts;  // kernels/wide_products.h, which needs Eigen
const WideProducts* wide_products() { return nullptr; }

bool planted(std::string_view fault) {
  const char* chosen = std::getenv("SHARDLAB_FAULT");
  return chosen != nullptr && fault == chosen;
}

}  // namespace shardlab
