// Numbers cross between programs and tensors as int64 for integers and bool, and as double for
// floats, so that neither loses digits.
#include "sim/language/values/tensor_data.h"

#include "base/error.h"
#include "comm/device_mesh.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

std::string nested(const Dims& shape, std::size_t dim, const std::vector<Number>& numbers,
                   std::size_t& at, DType dtype) {
  if (dim == shape.size()) {
    const Number number = numbers[at++];
    if (dtype == DType::kBool) return to_double(number) != 0 ? "True" : "False";
    return number.index() == 0 ? to_string(number) : fmt::format("{:.6g}", std::get<1>(number));
  }
  std::string out = "[";
  for (std::int64_t i = 0; i < shape[dim]; ++i) {
    out += (i > 0 ? ", " : "") + nested(shape, dim + 1, numbers, at, dtype);
  }
  return out + "]";
}

}  // namespace

std::vector<Number> read_numbers(const Tensor& tensor) {
  if (const RankContext* rank = current_rank_or_null();
      rank != nullptr && rank->meshes != nullptr) {
    rank->meshes->in_flight().check(tensor, InFlight::Access::kRead);
  }
  if (is_complex(tensor.dtype())) {
    fail(ErrorKind::kUnsupported, Fix{"use view_as_real(x), which has the two parts as floats"},
         "not yet supported: complex numbers in programs");
  }
  if (is_integral(tensor.dtype())) {
    const auto values = read_integers(tensor);
    return {values.begin(), values.end()};
  }
  const auto values = read_doubles(tensor);
  return {values.begin(), values.end()};
}

Tensor tensor_of(Device& device, std::span<const std::int64_t> shape, DType dtype,
                 std::span<const Number> numbers) {
  const Tensor out = empty(device, shape, dtype);
  if (is_integral(dtype)) {
    std::vector<std::int64_t> values;
    for (const Number number : numbers) {
      values.push_back(std::visit([](auto v) { return static_cast<std::int64_t>(v); }, number));
    }
    write_integers(out, values);
    return out;
  }
  std::vector<double> values;
  for (const Number number : numbers) {
    values.push_back(to_double(number));
    if (is_complex(dtype)) values.push_back(0);
  }
  write_doubles(out, values);
  return out;
}

std::string tensor_text(const DTensor& tensor) {
  constexpr std::int64_t kMost = 64;
  const std::string type = type_string(tensor);
  const bool readable = !tensor.distributed() && tensor.numel() <= kMost &&
                        !is_complex(tensor.dtype()) && !tensor.local().device()->shape_only();
  if (!readable) return type;
  std::size_t at = 0;
  const auto numbers = read_numbers(tensor.local());
  return type + " " + nested(tensor.shape(), 0, numbers, at, tensor.dtype());
}

}  // namespace shardlab
