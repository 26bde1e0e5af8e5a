// conformance.h - the suite that every backend passes (B-1, B-5 to B-7), for backends outside of
// the repository. Link it with the output of `pkg-config --cflags --libs shardlab-conformance`.
#pragma once

#include <string>

namespace shardlab {

/// Runs the suite on worlds of the registered backend `name` and returns main()'s result: 0 when
/// all cases passed. Arguments are doctest's, which the library includes: "--test-case=K-21*",
/// "--list-test-cases". SHARDLAB_STAGE, if it is set, names the scheduler instead of `pool`:
/// "NAME/threads", "NAME/pool-3" (on three OS threads). Once in a program.
int run_conformance(const std::string& name, int argc, char** argv);

}  // namespace shardlab
