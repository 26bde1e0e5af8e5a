// Elements that need no change stay where the file has them.
#include "sim/scenario/recorded_tensors.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "mesh/local_shape.h"
#include "sim/recording/advice.h"
#include "sim/recording/elements.h"
#include "sim/recording/recorded_program.h"
#include "sim/recording/recording.h"
#include "trace/graph_meshes.h"

namespace shardlab {

struct RecordedTensors::File {
  struct Entry {
    const EventValue* value;
    const RecordedEvent* event;
  };
  std::shared_ptr<const RecordedProgram> program;
  std::map<std::string, Entry> tensors;  // by name and by number, "v12"

  explicit File(std::shared_ptr<const RecordedProgram> recorded) : program(std::move(recorded)) {
    for (const RecordedEvent& event : program->events) {
      for_each_given(event, [&](const EventValue& value) { add(event, value); });
    }
  }

 private:
  void add(const RecordedEvent& event, const EventValue& value) {
    const bool view = event.kind == RecordedKind::kAlias;
    if (value.elements.empty() && !view) return;
    const std::string number = fmt::format("v{}", value.id.id);
    std::string key = number;
    const Entry entry{&value, &event};
    for (int time = 2; !tensors.emplace(key, entry).second && !view; ++time) {
      key = fmt::format("{}:{}", number, time);
    }
    const bool named = event.kind == RecordedKind::kInput || event.kind == RecordedKind::kCheck;
    if (named) tensors.emplace(event.name, entry);
  }
};

std::vector<Scalar> elements_of_pieces(const RecordedProgram& program, const EventValue& value) {
  const Dims& shape = value.type.shape;
  std::vector<std::optional<Scalar>> whole(static_cast<std::size_t>(product(shape)));
  for (std::size_t rank = 0; rank < program.ranks; ++rank) {
    Arena arena;
    GraphMeshes meshes(program.meshes, static_cast<std::int64_t>(rank), arena);
    const DTensorSpec* spec = meshes.spec_of(value.type);
    const auto here = spec->layout()->coordinate_of(static_cast<std::int64_t>(rank));
    if (!here) continue;
    const LocalView view = local_view(*spec, *here);
    const std::int64_t count = product(local_shape(*spec, *here));
    const std::vector<Scalar> piece =
        scalars_of(value.elements[rank], *program.raw, value.type.dtype, count);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t rest = i, at = 0, step = 1;
      for (std::size_t dim = shape.size(); dim-- > 0; step *= shape[dim]) {
        const std::int64_t size = view.dims[dim].local_size();
        at += view.dims[dim].global_index(rest % size) * step;
        rest /= size;
      }
      const Scalar& own = piece[static_cast<std::size_t>(i)];
      const Scalar& known = whole[static_cast<std::size_t>(at)].value_or(own);
      const bool nan = std::isnan(known.to_double()) && std::isnan(own.to_double());
      if (known != own && !nan) {
        fail(ErrorKind::kValue, Fix{"give all ranks one value, and record again"},
             "ranks have other elements of the same whole");
      }
      whole[static_cast<std::size_t>(at)] = own;
    }
  }
  std::vector<Scalar> elements;
  for (const auto& element : whole) {
    if (!element) fail(ErrorKind::kValue, Fix{record_again()}, "no rank has all of its elements");
    elements.push_back(*element);
  }
  return elements;
}

RecordedTensors::RecordedTensors() = default;
RecordedTensors::~RecordedTensors() = default;

namespace {

// Programs that are in memory, by path.
struct KeptPrograms {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const RecordedProgram>> programs;
};
KeptPrograms& kept_programs() {
  static KeptPrograms kept;
  return kept;
}

std::string plain_path(const std::string& path) {
  return std::filesystem::path(path).lexically_normal().string();
}

std::vector<Scalar> elements_of(const RecordedProgram& program, const EventValue& value,
                                const Dims& shape) {
  if (value.elements.empty()) {
    fail(ErrorKind::kValue, Fix{record_again()}, "value {} has no elements in the file",
         value.id.id);
  }
  if (value.whole() && value.elements.size() > 1) return elements_of_pieces(program, value);
  return scalars_of(value.elements[0], *program.raw, value.type.dtype, product(shape));
}

// The elements of a view, from those of the memory that it is of.
std::vector<Scalar> elements_of_view(const RecordedProgram& program, const RecordedEvent& view,
                                     const EventValue& whole) {
  const TensorMeta meta = view.out[0].meta();
  if (whole.type.dtype != meta.dtype) {
    fail(ErrorKind::kValue, Fix{record_again()},
         "it is a view of value {}, which has no elements of its dtype in the file", whole.id.id);
  }
  const std::vector<Scalar> memory = elements_of(program, whole, whole.type.shape);
  std::vector<Scalar> elements;
  for (std::int64_t i = 0; i < product(meta.shape); ++i) {
    std::int64_t at = view.offsets[0], rest = i;
    for (std::size_t dim = meta.shape.size(); dim-- > 0; rest /= meta.shape[dim]) {
      at += rest % meta.shape[dim] * meta.stride[dim];
    }
    if (at < 0 || at >= std::ssize(memory)) {
      fail(ErrorKind::kValue, Fix{record_again()}, "it is a view beyond the memory of value {}",
           whole.id.id);
    }
    elements.push_back(memory[static_cast<std::size_t>(at)]);
  }
  return elements;
}

// Elements that need no change.
std::string_view bytes_of(const RecordedProgram& program, const EventValue& value,
                          const ScenarioInput& input) {
  const bool as_stored = value.elements.size() == 1 &&
                         value.elements[0].stored == RecordedElements::Stored::kBytes &&
                         std::ranges::equal(value.type.shape, input.type.sizes) &&
                         value.type.dtype == input.type.dtype && value.type.dtype != DType::kBool;
  const auto bytes =
      static_cast<std::size_t>(product(value.type.shape) * item_bytes(value.type.dtype));
  if (!as_stored || value.elements[0].bytes < bytes) return {};
  return std::string_view(*program.raw).substr(value.elements[0].at, bytes);
}

// A program may be run in another dtype than it was recorded in; a formula has elements for any
// shape.
void check_type(const RecordedEvent& event, const EventValue& value, const ScenarioInput& input) {
  const DType dtype = value.type.dtype;
  const bool fits =
      dtype == input.type.dtype || (is_floating(dtype) && is_floating(*input.type.dtype));
  if (fits && (std::ranges::equal(value.type.shape, input.type.sizes) || event.open)) return;
  fail(ErrorKind::kValue, Fix{"give the input the type of the tensor"},
       "the tensor is {}[{}], the input another", to_string(dtype),
       text_of_list(value.type.shape, ", "));
}

}  // namespace

std::shared_ptr<const void> RecordedTensors::keep(const std::string& path,
                                                  std::shared_ptr<const RecordedProgram> program) {
  const std::lock_guard lock(kept_programs().mutex);
  kept_programs().programs[plain_path(path)] = program;
  return program;
}

const std::shared_ptr<const RecordedTensors::File>& RecordedTensors::opened(
    const std::string& path, const ScenarioInput& input) {
  std::shared_ptr<const File>& slot = files_[path];
  if (slot) return slot;
  std::shared_ptr<const RecordedProgram> program;
  {
    const std::lock_guard lock(kept_programs().mutex);
    program = kept_programs().programs[plain_path(path)].lock();
  }
  try {
    if (!program && !is_recording_file(path)) {
      const bool there = std::filesystem::exists(path);
      fail(
          ErrorKind::kValue,
          Fix{there ? "write it with shardlab_record.py" : "give the path of a file that is there"},
          "{} {}", path, there ? "is no recording of a training step" : "cannot be read");
    }
    if (!program) program = std::make_shared<const RecordedProgram>(read_recording(path));
  } catch (const Error& error) {
    input.where.refuse(error.summary(), fix_of(error));
  }
  slot = std::make_shared<const File>(std::move(program));
  return slot;
}

void RecordedTensors::read(const std::string& path, const std::string& tensor,
                           ScenarioInput& input) {
  const std::shared_ptr<const File>& file = opened(path, input);
  const RecordedProgram& program = *file->program;
  const auto found = file->tensors.find(tensor);
  if (found == file->tensors.end()) {
    std::vector<std::string> known;
    for (const auto& [name, value] : file->tensors) known.push_back(name);
    input.where.refuse(fmt::format("{} has no tensor '{}' with elements", path, tensor),
                       suggest(tensor, known));
  }
  const auto [value, event] = found->second;
  try {
    check_type(*event, *value, input);
    if (event->kind == RecordedKind::kAlias) {
      const auto whole = file->tensors.find(fmt::format("v{}", event->takes[0]));
      const EventValue none{.id = {event->takes[0]}};
      input.recipe.values = elements_of_view(
          program, *event, whole == file->tensors.end() ? none : *whole->second.value);
      return;
    }
    input.elements = {file, bytes_of(program, *value, input)};
    if (!input.elements.bytes.empty()) return;
    input.recipe.values =
        elements_of(program, *value, Dims(input.type.sizes.begin(), input.type.sizes.end()));
  } catch (const Error& error) {
    input.where.refuse(fmt::format("'{}' of {}: {}", tensor, path, error.summary()), fix_of(error));
  }
}

}  // namespace shardlab
