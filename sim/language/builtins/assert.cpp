// Assertions of a program about its own values. The comparison of two values up to rounding is
// decided when both are known in f64, after the run (sim/verify).
#include "base/error.h"
#include "sim/language/run/interpreter.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_pair(std::string_view what, const Value& a, const Value& b) {
  const auto text = [](const Value& value) {
    return value.is_tensor() ? type_string(value.as<DTensor>()) : repr(value);
  };
  throw Error(ErrorKind::kAssert, fmt::format("assert_close: {}", what))
      .with("op", fmt::format("a {}, b {}", text(a), text(b)));
}

// Shapes and dtypes are compared at once; elements are compared once the program has run in f64,
// too.
void assert_pair(Interpreter& in, const Value& a, const Value& b) {
  if (a.is_sequence() && b.is_sequence()) {
    const Values &left = items_of(a), &right = items_of(b);
    if (left.size() != right.size()) refuse_pair("the lists have different lengths", a, b);
    for (std::size_t i = 0; i < left.size(); ++i) assert_pair(in, left[i], right[i]);
    return;
  }
  const bool numbers = (a.is_tensor() || a.is_number()) && (b.is_tensor() || b.is_number());
  if (!numbers) {
    fail(Fix{"compare values of other kinds with assert a == b"},
         "assert_close takes tensors, numbers and lists of them, not {} and {}", a_kind(a),
         a_kind(b));
  }
  if (a.is_tensor() && b.is_tensor()) {
    const auto &left = a.as<DTensor>(), &right = b.as<DTensor>();
    if (left.shape() != right.shape()) refuse_pair("the shapes differ", a, b);
    if (left.dtype() != right.dtype()) refuse_pair("the dtypes differ", a, b);
  } else if (a.is_tensor() != b.is_tensor()) {
    const auto& tensor = (a.is_tensor() ? a : b).as<DTensor>();
    if (tensor.numel() != 1) refuse_pair("a number against a tensor of several elements", a, b);
  }
  in.assert_close(a, b);
}

Value run_assert_close(Interpreter& in, const Value*, const Parameters& given) {
  assert_pair(in, given["a"], given["b"]);
  return {};
}

}  // namespace

BuiltinTable assert_builtins() {
  static const Builtin kTable[] = {{"assert_close", "(a, b)", run_assert_close}};
  return kTable;
}

}  // namespace shardlab
