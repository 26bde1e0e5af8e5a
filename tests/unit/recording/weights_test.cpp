#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "sim/recording/recording.h"
#include "tests/unit/checkpoint/stored_elements.h"

using namespace shardlab;

namespace {

std::string bytes_of(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float)};
}

// A file of safetensors with one tensor.
std::string checkpoint(const std::string& name, const std::string& dtype, const std::string& shape,
                       const std::string& bytes) {
  std::string header = "{\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
                       ",\"data_offsets\":[0," + std::to_string(bytes.size()) + "]}}";
  const std::uint64_t size = header.size();
  header.insert(0, reinterpret_cast<const char*>(&size), sizeof size);
  return header + bytes;
}

// A recording of an input "w" of two floats, with this besides.
std::string recording(const std::string& more) {
  return R"({"k":"program","form":"recording","schema":2,"program":"p","torch":"2.15.0","world":1})"
         "\n"
         R"({"k":"input","name":"w","v":0,"shape":[2],"dtype":"f32","requires_grad":true)" +
         more + "}\n" + R"({"k":"end","events":3,"n_values":1,"raw":0})" + "\n";
}

std::vector<double> numbers_of(const RecordedProgram& program) {
  const EventValue& value = program.events.at(0).out[0];
  std::vector<double> numbers;
  for (const Scalar& one : scalars_of(value.elements.at(0), *program.raw, value.type.dtype, 2))
    numbers.push_back(one.to_double());
  return numbers;
}

std::string fault_of_reading(const std::string& path, const ExportOptions& options = {}) {
  try {
    read_recording(path, options);
    return "";
  } catch (const Error& error) {
    return error.summary();
  }
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The sum of the bytes of 1 and 2, by Python's hashlib.
const std::string kSum = "b9c80b5adeca450753a16950c3cc655d271f7bef7a485bc83f112b72fef21d37";

}  // namespace

TEST_CASE("B-53 an input that refers to a tensor of a checkpoint has its elements") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/steps");
  folder.write("a.safetensors", checkpoint("old.w", "F32", "[2]", bytes_of({1, 2})));
  const auto referring = [&](const std::string& tensor, const std::string& sum) {
    return folder.write("steps/s.json", recording(",\"checkpoint\":[\"../a.safetensors\",\"" +
                                                  tensor + "\",\"" + sum + "\"]"));
  };
  CHECK(numbers_of(read_recording(referring("old.w", kSum))) == std::vector<double>{1, 2});
  CHECK(has(fault_of_reading(referring("w", kSum)), "w is not there"));
  folder.write("a.safetensors", checkpoint("old.w", "F32", "[2]", bytes_of({1, 3})));
  CHECK(has(fault_of_reading(referring("old.w", kSum)), "old.w has other contents"));
  folder.write("a.safetensors", checkpoint("old.w", "F32", "[1,2]", bytes_of({1, 2})));
  CHECK(has(fault_of_reading(referring("old.w", kSum)), "old.w is f32[1, 2], and not f32[2]"));
}

TEST_CASE("B-53 parameters are those of a checkpoint that is given, in the recorded dtype") {
  const TemporaryFolder folder;
  const std::string file = folder.write("s.json", recording(",\"raw\":{\"all\":7}"));
  // 1 and -2 as bf16.
  const std::string narrow =
      folder.write("a.safetensors", checkpoint("old.w", "BF16", "[2]", {"\x80\x3f\x00\xc0", 4}));
  const ExportOptions renamed{.weights = narrow, .renames = {"old.w -> w"}};
  const RecordedProgram program = read_recording(file, renamed);
  CHECK(numbers_of(program) == std::vector<double>{1, -2});
  CHECK(program.notes.empty());
  CHECK(numbers_of(read_recording(file)) == std::vector<double>{7, 7});
  const std::string fault = fault_of_reading(file, {.weights = narrow});
  CHECK(has(fault, "w is not there"));
  CHECK(has(fault, "tensors that no input takes: old.w"));
}
