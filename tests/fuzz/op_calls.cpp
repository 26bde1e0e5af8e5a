#include "tests/fuzz/op_calls.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <optional>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"

namespace shardlab::fuzz {

namespace {

// Fields of a case about devices and memory layout, which programs do not say.
bool left_out(std::string_view name) {
  return name == "device" || name == "layout" || name == "pin_memory" || name == "memory_format";
}

std::optional<std::string_view> dtype_text(const std::string& dtype) {
  static const std::map<std::string, std::string_view> kNames = {
      {"f64", "torch.float64"},   {"f32", "torch.float32"},  {"f16", "torch.float16"},
      {"bf16", "torch.bfloat16"}, {"i64", "torch.int64"},    {"i32", "torch.int32"},
      {"i16", "torch.int16"},     {"i8", "torch.int8"},      {"u8", "torch.uint8"},
      {"bool", "torch.bool"},     {"c64", "torch.complex64"}};
  const auto found = kNames.find(dtype);
  if (found == kNames.end()) return std::nullopt;
  return found->second;
}

class CallText {
 public:
  explicit CallText(bool cut) : cut_(cut) {}

  /// The scenario of a case; empty where its arguments cannot be written.
  std::string scenario(const Json& value_case) {
    std::vector<std::string> arguments;
    for (const Json& argument : value_case.at("args")) arguments.push_back(text(argument));
    for (const auto& [name, argument] : value_case.at("kwargs").items()) {
      if (!left_out(name)) arguments.push_back(name + "=" + text(argument));
    }
    if (!writable_) return {};
    return fmt::format("[mesh]\nx = 2\n[inputs]\n{}[program]\ncode = \"\"\"\ny = {}({})\n\"\"\"\n",
                       inputs_, value_case.at("op").get<std::string>(), fmt::join(arguments, ", "));
  }

 private:
  std::string text(const Json& value) {
    if (value.is_null()) return "None";
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
    if (value.is_number() || value.is_string()) return value.dump();
    if (value.is_array()) {
      std::vector<std::string> items;
      for (const Json& item : value) items.push_back(text(item));
      return fmt::format("[{}]", fmt::join(items, ", "));
    }
    if (value.contains("t")) return input(value.at("t"));
    if (value.contains("dtype")) {
      if (const auto name = dtype_text(value.at("dtype"))) return std::string(*name);
    }
    writable_ = false;
    return {};
  }

  std::string input(const Json& tensor) {
    const auto shape = tensor.at("shape").get<std::vector<std::int64_t>>();
    const auto dtype = tensor.at("dtype").get<std::string>();
    std::vector<std::string> sizes;
    for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
    if (cut_ && !sizes.empty()) sizes[0] += "@x";
    const std::string name = fmt::format("a{}", count_++);
    inputs_ += fmt::format("{} = {{ type = \"{}[{}]\"", name, dtype, fmt::join(sizes, ", "));
    if (dtype == "bool" || dtype[0] == 'i' || dtype[0] == 'u') inputs_ += integers(tensor, shape);
    inputs_ += " }\n";
    return name;
  }

  // Programs draw no integers by themselves.
  std::string integers(const Json& tensor, const std::vector<std::int64_t>& shape) {
    constexpr std::size_t kMostValues = 100;
    if (!tensor.contains("data") || tensor.at("data").empty()) return ", init = \"zeros\"";
    const auto& data = tensor.at("data");
    if (data.size() > kMostValues) return ", init = \"randint(0, 2)\"";
    std::vector<std::string> rows;
    for (const Json& value : data) rows.push_back(value.dump());
    for (std::size_t dim = shape.size(); dim-- > 0;) {
      const auto length = static_cast<std::size_t>(shape[dim]);
      std::vector<std::string> outer;
      for (std::size_t i = 0; i < rows.size(); i += length) {
        outer.push_back(fmt::format("[{}]", fmt::join(&rows[i], &rows[i] + length, ", ")));
      }
      rows = std::move(outer);
    }
    return ", values = " + rows.at(0);
  }

  bool cut_;
  bool writable_ = true;
  int count_ = 0;
  std::string inputs_;
};

}  // namespace

std::vector<std::string> op_call_scenarios(const std::vector<std::string>& paths) {
  std::map<std::string, int> taken;
  std::vector<std::string> texts;
  for (const std::string& path : paths) {
    for (const std::string& line : read_lines(path)) {
      const Json value_case = read_json(line);
      if (!value_case.is_object() || !value_case.contains("op") || value_case.contains("raises") ||
          !value_case.contains("args")) {
        continue;
      }
      const auto op = value_case.at("op").get<std::string>();
      int& count = taken[op];
      if (count == 2 || !op.starts_with("aten.") || all_ops().find(op.substr(5)) == nullptr) {
        continue;
      }
      std::string text = CallText(count == 1).scenario(value_case);
      if (text.empty()) continue;
      ++count;
      texts.push_back(std::move(text));
    }
  }
  return texts;
}

}  // namespace shardlab::fuzz
