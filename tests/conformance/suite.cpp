// The suite as one call, which is the library's only entry: its cases register themselves, and the
// linker takes them all, since the library is one object.
#include <doctest/doctest.h>

#include <cstdlib>

#include "shardlab/conformance.h"
#include "sim/world/backends.h"

namespace shardlab {

int run_conformance(const std::string& name, int argc, char** argv) {
  find_backend(name);  // an unknown name fails here with the known ones, before every case
  setenv("SHARDLAB_STAGE", name.c_str(), 0);
  return doctest::Context(argc, argv).run();
}

}  // namespace shardlab
