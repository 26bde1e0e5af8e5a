// The suite on a backend of this repository, which SHARDLAB_STAGE names.
#include "shardlab/conformance.h"

int main(int argc, char** argv) { return shardlab::run_conformance("threads", argc, argv); }
