// The functions of host_table.h as a module, which a program opens in place of the one for GPUs
// when SHARDLAB_MODULES names its folder: for tests.
#include "tests/support/host_table.h"

extern "C" __attribute__((visibility("default"))) const shardlab::cuda::Table*
shardlab_cuda_table() {
  return &shardlab::cuda::host_table();
}
