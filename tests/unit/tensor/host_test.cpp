// Numbers on their way to a device and back: every dtype, written and read through strides, rounded
// as the dtype rounds; a tensor that is not one number, or has no values, is refused.
#include "tensor/host.h"
#include "tests/support/refusal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "backends/fake/shape_device.h"
#include "tensor/cpu_device.h"

using namespace shardlab;

namespace {

Tensor one(Device& device, DType dtype, const std::vector<double>& values) {
  const Tensor tensor = empty(device, Dims{}, dtype);
  write_doubles(tensor, values);
  return tensor;
}

}  // namespace

TEST_CASE("write_doubles and read_doubles: each dtype keeps what it can hold of a number") {
  struct Row {
    DType dtype;
    std::vector<double> given, read;
  };
  const double inf = std::numeric_limits<double>::infinity();
  const Row rows[] = {
      {DType::kBool, {0, 1, -3, 0.5}, {0, 1, 1, 1}},
      {DType::kU8, {0, 255, 7, 200.9}, {0, 255, 7, 200}},
      {DType::kI8, {-128, 127, -1.9, 1.9}, {-128, 127, -1, 1}},
      {DType::kI16, {-32768, 32767, 5, -5}, {-32768, 32767, 5, -5}},
      {DType::kI32, {-2147483648.0, 2147483647.0, 1, 0}, {-2147483648.0, 2147483647.0, 1, 0}},
      {DType::kI64,
       {-9007199254740992.0, 9007199254740992.0, 3, 4},
       {-9007199254740992.0, 9007199254740992.0, 3, 4}},
      {DType::kU64, {0, 18446744073709549568.0, 1, 2}, {0, 18446744073709549568.0, 1, 2}},
      {DType::kF16, {0.1, 65504, -inf, 2049}, {0.0999755859375, 65504, -inf, 2048}},
      {DType::kBF16, {0.1, 257, inf, -1}, {0.10009765625, 256, inf, -1}},
      {DType::kF8E4M3FN, {0.1, 17, -448, 1000}, {0.1015625, 16, -448, 448}},
      {DType::kF32, {0.1, 16777217, inf, -2}, {0.100000001490116119384765625, 16777216, inf, -2}},
      {DType::kF64, {0.1, 1e300, -inf, 5e-324}, {0.1, 1e300, -inf, 5e-324}},
  };
  const auto device = make_cpu_device({});
  for (const Row& row : rows) {
    CAPTURE(to_string(row.dtype));
    const Tensor base = empty(*device, Dims{2, 4}, row.dtype);
    write_doubles(base, std::vector<double>(8, 1));
    // [2, 2] inside of [2, 4], turned and every other column.
    const Tensor view = base.as_view({{2, 2}, {2, 4}, row.dtype}, 1);
    write_doubles(view, row.given);
    CHECK(read_doubles(view) == row.read);
    const std::vector<double> all = read_doubles(base);
    CHECK(all ==
          std::vector<double>{1, row.read[0], 1, row.read[2], 1, row.read[1], 1, row.read[3]});
    CHECK(read_bytes(view).size() == static_cast<std::size_t>(4 * item_bytes(row.dtype)));
  }
}

TEST_CASE("write_integers and read_integers are exact up to 64 bits") {
  const auto device = make_cpu_device({});
  const std::int64_t big = (std::int64_t{1} << 53) + 1;
  const Tensor wide = empty(*device, Dims{3}, DType::kI64);
  const std::vector<std::int64_t> values{big, INT64_MIN, INT64_MAX};
  write_integers(wide, values);
  CHECK(read_integers(wide) == values);
  CHECK(read_doubles(wide)[0] == 9007199254740992.0);  // as in the header
  struct Row {
    DType dtype;
    std::int64_t given, read;
  };
  const Row rows[] = {{DType::kBool, -7, 1},     {DType::kBool, 0, 0},
                      {DType::kU8, 255, 255},    {DType::kI8, -128, -128},
                      {DType::kI16, -300, -300}, {DType::kI32, 70000, 70000}};
  for (const Row& row : rows) {
    const Tensor tensor = empty(*device, Dims{1}, row.dtype);
    write_integers(tensor, std::vector<std::int64_t>{row.given});
    CAPTURE(to_string(row.dtype));
    CHECK(read_integers(tensor) == std::vector<std::int64_t>{row.read});
  }
  CHECK(refusal_of([&] {
          read_integers(empty(*device, Dims{1}, DType::kF32));
        }).starts_with("Value: read_integers: the elements are f32, no integers"));
  CHECK(refusal_of([&] {
          write_integers(empty(*device, Dims{1}, DType::kF32), std::vector<std::int64_t>{1});
        }).starts_with("Value: write_integers: the elements are f32, no integers"));
  CHECK(refusal_of([&] {
          write_doubles(wide, std::vector<double>{1, 2});
        }).starts_with("Value: 2 numbers are to be written to "));
}

TEST_CASE("complex numbers are two numbers each") {
  const auto device = make_cpu_device({});
  for (const DType dtype : {DType::kC64, DType::kC128}) {
    const Tensor tensor = empty(*device, Dims{2, 2}, dtype);
    write_doubles(tensor, std::vector<double>{1, -1, 2, -2, 3, -3, 4, -4});
    const Tensor turned = tensor.as_view({{2, 2}, {1, 2}, dtype}, 0);
    CHECK(read_doubles(turned) == std::vector<double>{1, -1, 3, -3, 2, -2, 4, -4});
    const Tensor last = tensor.as_view({{}, {}, dtype}, 3);
    CHECK(read_scalar(last) == Scalar(std::complex<double>(4, -4)));
  }
  for (const DType dtype : {DType::kC32, DType::kBC32}) {
    CAPTURE(to_string(dtype));
    CHECK(refusal_of([&] { read_doubles(empty(*device, Dims{1}, dtype)); }) ==
          fmt::format("Unsupported: values of dtype {} cannot be read or written | cast the tensor "
                      "to a dtype of 32 or 64 bits first",
                      to_string(dtype)));
  }
}

TEST_CASE("read_scalar takes the category of the dtype, and tensors of one element alone") {
  const auto device = make_cpu_device({});
  CHECK(read_scalar(one(*device, DType::kBool, {2})) == Scalar(true));
  CHECK(read_scalar(one(*device, DType::kU8, {200})) == Scalar(200));
  CHECK(read_scalar(one(*device, DType::kI64, {-3})) == Scalar(-3));
  CHECK(read_scalar(one(*device, DType::kF16, {1.5})) == Scalar(1.5));
  CHECK(read_scalar(empty(*device, Dims{1, 1, 1}, DType::kI32)).category() == Category::kInteger);
  for (const Dims& shape : {Dims{2}, Dims{0}, Dims{3, 0}, Dims{2, 2}}) {
    CHECK(refusal_of([&] { read_scalar(empty(*device, shape, DType::kF32)); }) ==
          fmt::format("Value: a tensor of {} elements is not one number; it must have exactly 1 "
                      "element | index it or reduce it first: x[0], x.sum()",
                      product(shape)));
  }
}

TEST_CASE("Scalar: texts as Python's, categories keep numbers apart, truth and truncation") {
  struct Row {
    Scalar scalar;
    const char* text;
    std::int64_t integer;
    double real;
    bool truth, one;
  };
  // text: repr() of Python 3.
  const Row rows[] = {
      {true, "True", 1, 1, true, true},
      {false, "False", 0, 0, false, false},
      {-7, "-7", -7, -7, true, false},
      {INT64_MIN, "-9223372036854775808", INT64_MIN, -9223372036854775808.0, true, false},
      {2.0, "2.0", 2, 2, true, false},
      {-2.75, "-2.75", -2, -2.75, true, false},
      {1e300 * 1e10, "inf", 0, std::numeric_limits<double>::infinity(), true, false},
      {-0.0, "-0.0", 0, 0, false, false},
      {1e22, "1e+22", 0, 1e22, true, false},
      {std::complex<double>(0, 0), "0j", 0, 0, false, false},
      {std::complex<double>(1, 0), "(1+0j)", 1, 1, true, true},
      {std::complex<double>(1, -2.5), "(1-2.5j)", 1, 1, true, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(row.scalar.text() == row.text);
    if (std::fabs(row.real) < 1e19) CHECK(row.scalar.to_int() == row.integer);
    CHECK(row.scalar.to_double() == row.real);
    CHECK(row.scalar.to_bool() == row.truth);
    CHECK(row.scalar.is_one() == row.one);
  }
  CHECK_FALSE(Scalar(1) == Scalar(1.0));
  CHECK_FALSE(Scalar(true) == Scalar(1));
  CHECK_FALSE(Scalar(2.0) == Scalar(std::complex<double>(2, 0)));
}

TEST_CASE("a device without data has shapes and sizes, and refuses to be read") {
  const auto device = make_shape_device();
  CHECK(device->type() == "meta");
  CHECK(device->shape_only());
  const Tensor tensor = empty(*device, Dims{1 << 20, 1 << 10}, DType::kF64);
  CHECK(tensor.size_bytes() == std::int64_t{8} << 30);
  write_doubles(empty(*device, Dims{2}, DType::kF32), std::vector<double>{1, 2});
  CHECK(refusal_of([&] { read_doubles(tensor); }) ==
        "Unsupported: a shape-only device holds no values to read | run it on a backend that "
        "computes");
  CHECK(refusal_of([&] {
          read_scalar(empty(*device, Dims{}, DType::kF32));
        }).starts_with("Unsupported: a shape-only device holds no values"));
}
