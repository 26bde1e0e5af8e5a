#include "tests/golden/kernels/value_cases.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "kernels/convert.h"

namespace shardlab {

namespace {

using Json = nlohmann::json;

double real_number(const Json& value) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    const double infinity = std::numeric_limits<double>::infinity();
    return text == "-inf" ? -infinity : infinity;
  }
  return value.is_boolean() ? double(value.get<bool>()) : value.get<double>();
}

std::vector<std::complex<double>> numbers_of(const Json& data, DType dtype) {
  std::vector<std::complex<double>> values;
  if (is_complex(dtype)) {
    for (std::size_t i = 0; i + 1 < data.size(); i += 2) {
      values.emplace_back(real_number(data[i]), real_number(data[i + 1]));
    }
    return values;
  }
  for (const Json& number : data) values.emplace_back(real_number(number));
  return values;
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
      values.push_back(number.is_boolean() ? number.get<bool>() : number.get<std::int64_t>());
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

DType dtype_named(const Json& name) {
  const auto dtype = parse_dtype(name.get<std::string>());
  if (!dtype) throw std::runtime_error("unknown dtype " + name.get<std::string>());
  return *dtype;
}

Dims dims_of(const Json& list) {
  Dims dims;
  for (const Json& size : list) dims.push_back(size.get<std::int64_t>());
  return dims;
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

Tensor read_tensor(const Json& json, Device& device, Layout layout) {
  const DType dtype = dtype_named(json.at("dtype"));
  TensorMeta meta = contiguous_meta(dims_of(json.at("shape")), dtype);
  const bool strided = json.contains("storage");
  const auto bytes = bytes_of(json.at(strided ? "storage" : "data"), dtype);
  const auto elements = static_cast<std::int64_t>(bytes.size()) / item_bytes(dtype);
  const Tensor flat = empty(device, Dims{elements}, dtype);
  device.write(flat, bytes.data());
  if (strided) meta.stride = dims_of(json.at("stride"));
  const Tensor tensor = flat.as_view(meta, json.value("offset", std::int64_t{0}));
  return layout == Layout::kTurned ? turned(device, tensor) : tensor;
}

LocalArg read_object(const Json& json, Device& device, Layout layout) {
  if (json.contains("t")) return read_tensor(json.at("t"), device, layout);
  if (json.contains("f")) return Scalar(real_number(json.at("f")));
  if (json.contains("dtype")) return dtype_named(json.at("dtype"));
  if (json.contains("c")) {
    return Scalar(std::complex<double>(real_number(json["c"][0]), real_number(json["c"][1])));
  }
  return json.begin()->is_string() ? json.begin()->get<std::string>() : std::string();
}

LocalArg read_argument(const Json& json, Device& device, Layout layout) {
  if (json.is_null()) return std::monostate{};
  if (json.is_boolean()) return Scalar(json.get<bool>());
  if (json.is_number_integer()) return Scalar(json.get<std::int64_t>());
  if (json.is_number()) return Scalar(json.get<double>());
  if (json.is_string()) return json.get<std::string>();
  if (json.is_object()) return read_object(json, device, layout);
  const bool tensors = std::any_of(json.begin(), json.end(), [](const Json& item) {
    return item.is_object() && item.contains("t");
  });
  if (tensors) {
    std::vector<Tensor> list;
    for (const Json& item : json) {
      list.push_back(item.is_null() ? Tensor() : read_tensor(item.at("t"), device, layout));
    }
    return list;
  }
  const bool integers = std::all_of(json.begin(), json.end(),
                                    [](const Json& item) { return item.is_number_integer(); });
  if (integers) return dims_of(json);
  std::vector<double> list;
  for (const Json& item : json) list.push_back(real_number(item));
  return list;
}

RecordedOutput read_output(const Json& json) {
  RecordedOutput output;
  output.meta = contiguous_meta(dims_of(json.at("shape")), dtype_named(json.at("dtype")));
  const Json& data = json.at("data");
  output.comparable = !data.is_null();
  if (!output.comparable) return output;
  output.values = numbers_of(data, output.meta.dtype);
  if (is_integral(output.meta.dtype)) {
    for (const Json& number : data) output.integers.push_back(number.get<std::int64_t>());
  }
  return output;
}

// None and numbers are results too.
RecordedOutput read_result(const Json& json) {
  if (json.is_object() && json.contains("shape")) return read_output(json);
  RecordedOutput output;
  output.defined = false;
  if (!json.is_object() || !json.contains("scalar") || json["scalar"].is_null()) return output;
  const Json& scalar = json["scalar"];
  if (scalar.is_object()) {
    output.scalar =
        Scalar(std::complex<double>(real_number(scalar["c"][0]), real_number(scalar["c"][1])));
  } else if (scalar.is_boolean()) {
    output.scalar = Scalar(scalar.get<bool>());
  } else if (scalar.is_number_integer()) {
    output.scalar = Scalar(scalar.get<std::int64_t>());
  } else {
    output.scalar = Scalar(real_number(scalar));
  }
  return output;
}

ValueCase read_case(const Json& json, Device& device, Layout layout) {
  const auto without_library = [](const std::string& op) {
    return op.rfind("aten.", 0) == 0 ? op.substr(5) : op;
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
    result.args.push_back(read_argument(argument, device, layout));
  }
  for (const auto& [name, argument] : json.at("kwargs").items()) {
    result.kwargs[name] = read_argument(argument, device, layout);
  }
  if (!result.raises.empty()) return result;
  for (const Json& output : json.at("outputs")) {
    result.outputs.push_back(read_result(output));
  }
  if (!json.contains("grad_outputs")) return result;
  for (const Json& grad : json["grad_outputs"]) {
    result.grad_outputs.push_back(grad.is_null() ? Tensor() : read_tensor(grad, device, layout));
  }
  for (const auto& [index, grad] : json.at("grad_inputs").items()) {
    result.grad_inputs[std::stoul(index)] = read_result(grad);
  }
  return result;
}

// [dtype, number of dims], or ["python_int", ..] for a number.
PromotionCase::Operand promoted_operand(const Json& json) {
  using Kind = PromotionCase::Kind;
  const auto name = json[0].get<std::string>();
  if (name == "python_bool") return {Kind::kNumber, DType::kBool};
  if (name == "python_int") return {Kind::kNumber, DType::kI64};
  if (name == "python_float") return {Kind::kNumber, DType::kF32};
  if (name == "python_complex") return {Kind::kNumber, DType::kC64};
  return {json[1].get<int>() > 0 ? Kind::kDims : Kind::kZeroDim, dtype_named(json[0])};
}

}  // namespace

std::vector<PromotionCase> read_promotions(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string text;
  char piece[1 << 16];
  while (const int size = gzread(file, piece, sizeof piece)) text.append(piece, std::size_t(size));
  gzclose(file);
  std::vector<PromotionCase> cases;
  for (const Json& json : Json::parse(text)) {
    cases.push_back({json.at("op").get<std::string>(),
                     {promoted_operand(json.at("a")), promoted_operand(json.at("b"))},
                     dtype_named(json.at("out"))});
  }
  return cases;
}

bool ValueCase::has_scalar_output() const {
  return std::ranges::any_of(
      outputs, [](const RecordedOutput& output) { return output.scalar.has_value(); });
}

void for_each_value_case(const std::string& path, Device& device, Layout layout,
                         const std::function<void(ValueCase&)>& visit) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) throw std::runtime_error("cannot open " + path);
  std::string line;
  char piece[1 << 16];
  while (gzgets(file, piece, sizeof piece) != nullptr) {
    line += piece;
    if (line.back() != '\n') continue;
    const Json json = Json::parse(line);
    line.clear();
    // c32 and bc32 are names only.
    if (json.dump().find("c32\"") != std::string::npos) continue;
    ValueCase read = read_case(json, device, layout);
    visit(read);
  }
  gzclose(file);
}

}  // namespace shardlab
