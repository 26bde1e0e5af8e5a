// Floats are read as doubles and rounded twice where the recording was: to f32, then to the dtype.
#include "tests/facts/value_case.h"

#include <algorithm>
#include <complex>

#include "base/error.h"
#include "kernels/convert.h"
#include "tensor/bounds.h"
#include "tests/facts/fact_json.h"

namespace shardlab {

namespace {

double recorded_real(const Json& value) {
  return value.is_boolean() ? double(value.get<bool>()) : number_of(value);
}

std::complex<double> recorded_complex(const Json& parts) {
  return {recorded_real(parts.at(0)), recorded_real(parts.at(1))};
}

std::vector<std::complex<double>> numbers_of(const Json& data, DType dtype) {
  std::vector<std::complex<double>> values;
  if (is_complex(dtype)) {
    for (std::size_t i = 0; i + 1 < data.size(); i += 2) {
      values.emplace_back(recorded_real(data[i]), recorded_real(data[i + 1]));
    }
    return values;
  }
  for (const Json& number : data) values.emplace_back(recorded_real(number));
  return values;
}

// An element of a bool or an integer tensor; those of u64 keep their bits.
std::int64_t bits_of(const Json& number) {
  if (number.is_boolean()) return number.get<bool>() ? 1 : 0;
  if (number.is_number_unsigned()) {
    return static_cast<std::int64_t>(integer_of<std::size_t>(number));
  }
  return integer_of<std::int64_t>(number);
}

// The elements of `data` as bytes of `dtype`, one after another.
std::vector<std::byte> bytes_of(const Json& data, DType dtype) {
  const std::size_t pieces = is_complex(dtype) ? 2 : 1;
  const std::size_t count = data.size() / pieces;
  std::vector<std::byte> bytes(count * static_cast<std::size_t>(item_bytes(dtype)));
  const auto size = static_cast<std::int64_t>(count);
  if (is_integral(dtype)) {
    std::vector<std::int64_t> values;
    for (const Json& number : data) {
      values.push_back(bits_of(number));
    }
    convert_run({bytes.data(), 1, dtype}, {values.data(), 1, DType::kI64}, size);
    return bytes;
  }
  const auto values = numbers_of(data, dtype);
  if (dtype == DType::kF64 || dtype == DType::kC128) {
    convert_run({bytes.data(), 1, dtype}, {values.data(), 1, DType::kC128}, size);
    return bytes;
  }
  std::vector<std::complex<float>> rounded(values.begin(), values.end());
  convert_run({bytes.data(), 1, dtype}, {rounded.data(), 1, DType::kC64}, size);
  return bytes;
}

// The same value with strides that no allocator would choose.
Tensor turned(Device& device, const Tensor& tensor) {
  TensorMeta meta = tensor.meta();
  std::int64_t next = 2;
  for (std::size_t d = 0; d < meta.shape.size(); ++d) {
    meta.stride[d] = next;
    next *= std::max<std::int64_t>(meta.shape[d], 1);
  }
  const Tensor room = empty(device, Dims{next + 1}, tensor.dtype());
  const Tensor copy = room.as_view(meta, 1);
  device.copy(copy, tensor);
  return copy;
}

// An object that is no tensor.
Argument plain_object(const Json& json) {
  if (json.contains("f")) return recorded_real(json.at("f"));
  if (json.contains("dtype")) return dtype_of(json.at("dtype"));
  if (json.contains("c")) return Scalar(recorded_complex(json.at("c")));
  const std::string text = json.empty() ? "" : json.begin()->get<std::string>();
  // Two formats that are called so in ATen's schemas.
  const bool format = text == "contiguous" || text == "preserve";
  return format && json.contains("memory_format") ? text + "_format" : text;
}

Argument recorded_list(const Json& json, const ArgumentOf& known) {
  const bool integers = std::all_of(json.begin(), json.end(),
                                    [](const Json& item) { return item.is_number_integer(); });
  if (integers) return dims_of(json);
  ArgumentList list;
  // "nan" and "inf" among numbers.
  for (const Json& item : json) {
    list.push_back(item.is_string() ? Argument(recorded_real(item))
                                    : recorded_argument(item, known));
  }
  return list;
}

Scalar recorded_scalar(const Json& number) {
  if (number.is_object()) return Scalar(recorded_complex(number.at("c")));
  if (number.is_boolean()) return Scalar(number.get<bool>());
  if (number.is_number_integer()) return Scalar(integer_of<std::int64_t>(number));
  return Scalar(recorded_real(number));
}

RecordedOutput tensor_output(const Json& json) {
  RecordedOutput output;
  output.meta = contiguous_meta(dims_of(json.at("shape")), dtype_of(json.at("dtype")));
  const Json data = json.value("data", Json());
  output.comparable = !data.is_null();
  if (!output.comparable) return output;
  output.values = numbers_of(data, output.meta.dtype);
  if (static_cast<std::int64_t>(output.values.size()) != product(output.meta.shape)) {
    fail(ErrorKind::kValue, Fix{"give one number per element"},
         "a result of {} elements is recorded with {}", product(output.meta.shape),
         output.values.size());
  }
  if (is_integral(output.meta.dtype)) {
    for (const Json& number : data) output.integers.push_back(bits_of(number));
  }
  return output;
}

std::string without_library(const std::string& op) {
  return op.rfind("aten.", 0) == 0 ? op.substr(5) : op;
}

}  // namespace

bool has_half_complex(const Json& line) {
  if (line.is_string()) return line == "c32" || line == "bc32";
  return line.is_structured() && std::any_of(line.begin(), line.end(), has_half_complex);
}

RecordedTensor read_recorded_tensor(const Json& json) {
  const DType dtype = dtype_of(json.at("dtype"));
  RecordedTensor tensor{contiguous_meta(dims_of(json.at("shape")), dtype), {}, 0};
  const bool strided = json.contains("storage");
  tensor.storage = bytes_of(json.at(strided ? "storage" : "data"), dtype);
  if (strided) tensor.meta.stride = dims_of(json.at("stride"));
  tensor.offset = integer_or<std::int64_t>(json, "offset", 0);
  if (tensor.meta.stride.size() == tensor.meta.shape.size()) return tensor;
  fail(ErrorKind::kValue, Fix{"give one stride per dim"}, "{} strides of {} dims",
       tensor.meta.stride.size(), tensor.meta.shape.size());
}

Tensor tensor_of(const RecordedTensor& recorded, Device& device, Layout layout) {
  const DType dtype = recorded.meta.dtype;
  const auto elements = static_cast<std::int64_t>(recorded.storage.size()) / item_bytes(dtype);
  const Tensor flat = empty(device, Dims{elements}, dtype);
  device.write(flat, recorded.storage.data());
  const Tensor tensor = flat.as_view(recorded.meta, recorded.offset);
  check_within_storage(tensor);
  return layout == Layout::kTurned ? turned(device, tensor) : tensor;
}

Argument recorded_argument(const Json& json, const ArgumentOf& known) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return integer_of<std::int64_t>(json);
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_object()) return recorded_list(json, known);
  const std::optional<Argument> argument = known(json);
  return argument ? *argument : plain_object(json);
}

// None and numbers are results too.
RecordedOutput recorded_output(const Json& json) {
  if (json.is_object() && json.contains("shape")) return tensor_output(json);
  RecordedOutput output;
  output.defined = false;
  if (!json.is_object() || !json.contains("scalar") || json["scalar"].is_null()) return output;
  output.scalar = recorded_scalar(json["scalar"]);
  return output;
}

ValueCase read_value_case(const Json& json, Device& device, Layout layout) {
  const ArgumentOf tensor = [&](const Json& object) -> std::optional<Argument> {
    if (!object.contains("t")) return std::nullopt;
    return DTensor(tensor_of(read_recorded_tensor(object.at("t")), device, layout));
  };
  ValueCase result;
  result.id = json.at("id").get<std::string>();
  result.op = without_library(json.at("op").get<std::string>());
  const auto source = json.value("src", std::string());
  if (source.rfind("derived:", 0) == 0) result.derived = without_library(source.substr(8));
  result.emulated = source == "emulated";
  result.raises = json.value("raises", std::string());
  result.outputs_are_mutated = json.contains("outputs_are");
  for (const Json& argument : json.at("args")) {
    result.args.push_back(recorded_argument(argument, tensor));
  }
  for (const auto& [name, argument] : json.at("kwargs").items()) {
    result.kwargs.emplace_back(name, recorded_argument(argument, tensor));
  }
  if (!result.raises.empty()) return result;
  for (const Json& output : json.at("outputs")) result.outputs.push_back(recorded_output(output));
  if (!json.contains("grad_outputs")) return result;
  for (const Json& grad : json["grad_outputs"]) {
    result.grad_outputs.push_back(
        grad.is_null() ? Tensor() : tensor_of(read_recorded_tensor(grad), device, layout));
  }
  for (const auto& [index, grad] : json.at("grad_inputs").items()) {
    result.grad_inputs[std::stoul(index)] = recorded_output(grad);
  }
  return result;
}

}  // namespace shardlab
