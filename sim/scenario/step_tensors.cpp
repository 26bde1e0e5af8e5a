// Lines that have elements are found by their text, so that a file of many ops is read fast.
#include "sim/scenario/step_tensors.h"

#include <filesystem>
#include <mutex>
#include <stdexcept>

#include "base/fix.h"
#include "base/nearest.h"
#include "base/text_of_list.h"
#include "sim/record/json_value.h"
#include "sim/record/step_elements.h"
#include "sim/record/step_file.h"

namespace shardlab {

struct StepTensors::File {
  std::shared_ptr<const std::string> raw;
  std::map<std::string, Json> tensors;  // by name and by number, "v12"
};

StepTensors::StepTensors() = default;
StepTensors::~StepTensors() = default;

namespace {

void add_tensor(const Json& value, std::map<std::string, Json>& tensors) {
  const bool there =
      value.is_object() && value.contains("v") && (value.contains("raw") || value.contains("fill"));
  if (!there) return;
  const std::string number = "v" + value.at("v").dump();
  std::string key = number;
  for (int time = 2; !tensors.emplace(key, value).second; ++time) {
    key = fmt::format("{}:{}", number, time);
  }
  const auto name = value.find("name");
  if (name != value.end() && name->is_string()) tensors.emplace(name->get<std::string>(), value);
}

void add_tensors(const Json& event, std::map<std::string, Json>& tensors) {
  if (!event.is_object()) return;
  if (event.value("k", "") == "alias" && event.contains("v")) {
    tensors.emplace("v" + event.at("v").dump(), event);
  }
  add_tensor(event, tensors);
  for (const char* key : {"out", "mut"}) {
    if (!event.contains(key) || !event.at(key).is_array()) continue;
    for (const Json& value : event.at(key)) add_tensor(value, tensors);
  }
}

void add_tensors_of_line(const std::string& line, std::map<std::string, Json>& tensors) {
  const bool has = line.find("\"raw\"") != std::string::npos ||
                   line.find("\"fill\"") != std::string::npos ||
                   line.find("\"alias\"") != std::string::npos;
  if (has) add_tensors(read_json(line), tensors);
}

// Files that are in memory, by path.
struct KeptFiles {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const void>> files;
};
KeptFiles& kept_files() {
  static KeptFiles kept;
  return kept;
}

std::string plain_path(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

// The elements of a view, from those of the memory that it is of.
std::vector<Scalar> elements_of_view(const std::string& raw, const Json& view, const Json& whole) {
  const std::vector<std::int64_t> shape = integers_of(view.at("shape")),
                                  stride = integers_of(view.at("stride"));
  const auto dtype = parse_dtype(whole.at("dtype").get<std::string>());
  const bool stored = whole.contains("raw") || whole.contains("fill");
  if (!stored || whole.at("dtype") != view.at("dtype")) {
    fail(ErrorKind::kValue, Fix{"record the step again"},
         "it is a view of value {}, which has no elements of its dtype in the file",
         view.at("of").dump());
  }
  std::int64_t held = 1, count = 1;
  for (const std::int64_t size : integers_of(whole.at("shape"))) held *= size;
  for (const std::int64_t size : shape) count *= size;
  const std::vector<Scalar> memory = *step_elements(raw, whole, *dtype, held);
  std::vector<Scalar> elements;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = view.at("offset").get<std::int64_t>(), rest = i;
    for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
      at += rest % shape[d] * stride.at(d);
    elements.push_back(memory.at(static_cast<std::size_t>(at)));
  }
  return elements;
}

// Elements that need no change.
std::string_view bytes_of(const std::string& raw, const Json& value, const ScenarioInput& input) {
  const std::vector<std::int64_t> shape = integers_of(value.at("shape"));
  const auto dtype = parse_dtype(value.at("dtype").get<std::string>());
  const bool as_stored = value.contains("raw") && value.at("raw").is_array() &&
                         shape == input.type.sizes && dtype == input.type.dtype &&
                         dtype != DType::kBool;
  if (!as_stored) return {};
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return stored_bytes(raw, value, *dtype, count);
}

std::vector<Scalar> elements_of(const std::string& raw, const Json& value,
                                const std::map<std::string, Json>& all,
                                const ScenarioInput& input) {
  const std::vector<std::int64_t> shape = integers_of(value.at("shape"));
  const auto dtype = parse_dtype(value.at("dtype").get<std::string>());
  // A program may be run in another dtype than it was recorded in.
  const bool fits =
      dtype == input.type.dtype || (dtype && is_floating(*dtype) && is_floating(*input.type.dtype));
  const bool open = value.value("open", false);  // a formula has elements for any shape
  if ((shape != input.type.sizes && !open) || !fits) {
    fail(ErrorKind::kValue, Fix{"give the input the type of the tensor"},
         "the tensor is {}[{}], the input another", value.at("dtype").get<std::string>(),
         text_of_list(shape, ", "));
  }
  if (value.contains("of")) {
    return elements_of_view(raw, value, all.at("v" + value.at("of").dump()));
  }
  std::int64_t count = 1;
  for (const std::int64_t size : input.type.sizes) count *= size;
  return *step_elements(raw, value, *dtype, count);
}

}  // namespace

std::shared_ptr<const void> StepTensors::keep(const std::string& path,
                                              std::shared_ptr<const std::string> raw,
                                              const std::vector<Json>& events) {
  auto file = std::make_shared<File>();
  file->raw = std::move(raw);
  for (const Json& event : events) add_tensors(event, file->tensors);
  const std::lock_guard lock(kept_files().mutex);
  kept_files().files[plain_path(path)] = file;
  return file;
}

const std::shared_ptr<const StepTensors::File>& StepTensors::opened(const std::string& path,
                                                                    const ScenarioInput& input) {
  std::shared_ptr<const File>& slot = files_[path];
  if (slot) return slot;
  {
    const std::lock_guard lock(kept_files().mutex);
    slot = std::static_pointer_cast<const File>(kept_files().files[plain_path(path)].lock());
  }
  if (slot) return slot;
  auto made = std::make_shared<File>();
  try {
    if (!is_step_file(path)) {
      fail(ErrorKind::kValue, Fix{"write it with shardlab_record.py"},
           "{} is no recording of a training step", path);
    }
    StepFile read = read_step_file(path);
    for (const std::string& line : read.lines) add_tensors_of_line(line, made->tensors);
    for (const Json& event : read.events) add_tensors(event, made->tensors);
    made->raw = std::make_shared<const std::string>(std::move(read.raw));
  } catch (const Error& error) {
    input.where.refuse(error.summary(), fix_of(error));
  }
  slot = std::move(made);
  return slot;
}

void StepTensors::read(const std::string& path, const std::string& tensor, ScenarioInput& input) {
  const std::shared_ptr<const File>& open = opened(path, input);
  const File& file = *open;
  const auto found = file.tensors.find(tensor);
  if (found == file.tensors.end()) {
    std::vector<std::string> known;
    for (const auto& [name, value] : file.tensors) known.push_back(name);
    input.where.refuse(fmt::format("{} has no tensor '{}' with elements", path, tensor),
                       suggest(tensor, known));
  }
  try {
    input.elements = {open, bytes_of(*file.raw, found->second, input)};
    if (!input.elements.bytes.empty()) return;
    input.recipe.values = elements_of(*file.raw, found->second, file.tensors, input);
  } catch (const Error& error) {
    input.where.refuse(fmt::format("'{}' of {}: {}", tensor, path, error.summary()), fix_of(error));
  } catch (const std::out_of_range&) {
    input.where.refuse(fmt::format("'{}' of {} is a view beyond its memory", tensor, path),
                       "record the step again");
  } catch (const Json::exception& error) {
    input.where.refuse(fmt::format("'{}' of {}: {}", tensor, path, error.what()),
                       "record the step again");
  }
}

}  // namespace shardlab
