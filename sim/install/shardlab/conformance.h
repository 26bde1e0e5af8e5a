// conformance.h - the suite that every backend passes (B-1, B-5 to B-7), for backends that live
// elsewhere. Link it with what `pkg-config --cflags --libs shardlab-conformance` says.
#pragma once

#include <string>

namespace shardlab {

/// Runs the suite on worlds of the registered backend `name` and gives main()'s result: 0 when all
/// cases passed. Arguments are doctest's, which the library brings along: "--test-case=K-21*",
/// "--list-test-cases". Where SHARDLAB_STAGE is set, it says on which scheduler instead of `pool`:
/// "NAME/threads", "NAME/pool-3" (on three OS threads). Once in a program.
int run_conformance(const std::string& name, int argc, char** argv);

}  // namespace shardlab
