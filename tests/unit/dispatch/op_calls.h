// op_calls.h - calls that tests of the tape and of gradients make, in short.
#pragma once

#include <string_view>
#include <utility>

#include "tests/unit/dispatch/op_mesh.h"

namespace shardlab::test {

/// The first result of an op.
inline DTensor call(std::string_view op, Arguments args) {
  return ops()(op, std::move(args))[0].tensor();
}
inline DTensor times(const DTensor& x, const DTensor& y) {
  return call("aten::mul.Tensor", {x, y});
}
inline DTensor times(const DTensor& x, double y) { return call("aten::mul.Scalar", {x, y}); }
inline DTensor sum(const DTensor& x) { return call("aten::sum", {x}); }
/// Rows `from` to `to`, a view.
inline DTensor rows(const DTensor& x, std::int64_t from, std::int64_t to) {
  return call("aten::slice.Tensor", {x, 0, from, to});
}

}  // namespace shardlab::test
