#include <fmt/format.h>

#include "base/error.h"

int main() {
  fmt::print("shardlab\n");
  return 0;
}
