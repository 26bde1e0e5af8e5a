// A user's test on ranks whose second check fails: the scale of the scores is left out.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <shardlab/testing.h>

using namespace shardlab;
using testing::one_device;

SHARD_TEST("attention without its scale", "dp=2, tp=2") {
  const DTensor x = randn({8, 16}), w = randn({16, 16});
  const auto attend = [](const DTensor& x, const DTensor& w) {
    return softmax(matmul(matmul(x, w), transpose(x, 0, 1)) * 0.25, 1);
  };
  const DTensor rows = distribute_tensor(x, mesh, "dp=S(0)");
  const DTensor q = matmul(rows, distribute_tensor(w, mesh, "tp=S(1)"));
  CHECK_CLOSE(q, one_device([](auto& a, auto& b) { return matmul(a, b); }, x, w));
  CHECK_CLOSE(softmax(matmul(q, transpose(rows, 0, 1)), 1), one_device(attend, x, w));  // wrong
}
