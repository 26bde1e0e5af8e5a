// The first bytes tell an archive of torch.export from the lines of a recorder.
#include "sim/recording/recording.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "sim/checkpoint/edited.h"
#include "sim/checkpoint/zip_archive.h"
#include "sim/files/sha256.h"
#include "sim/recording/exported_program.h"

namespace shardlab {

namespace {

// Elements of checkpoints are put behind those of the file, so that nothing else asks for their
// origin.
using Names = std::vector<std::string>;

std::string told(const Names& names) { return text_of_list(names, ", "); }

/// An input, and the name of its tensor.
struct WantedTensor {
  RecordedEvent* event;
  std::string tensor;
};

struct WeightTaker {
  // Gives inputs their tensors, all or none.
  void take(const std::string& path, const std::vector<WantedTensor>& wanted,
            const std::vector<std::string>& renames) {
    Names wrong, kept, unused;
    if (!std::filesystem::exists(path)) {
      for (const WantedTensor& one : wanted) wrong.push_back(one.tensor);
      refuse(path + " is not there, which has ", wrong);
    }
    const Checkpoint checkpoint = Checkpoint::open(path);
    for (const StoredTensor& tensor : checkpoint.tensors()) checkpoint.check_whole(tensor);
    MadeTensors tensors = tensors_of(checkpoint);
    for (const std::string& text : renames) apply({"rename", text}, tensors);
    const bool by_name = wanted[0].event->checkpoint.empty();
    std::set<std::string> used;
    for (const auto& [event, name] : wanted) {
      const MadeTensor* tensor = find(tensors, name);
      const bool needed = event->requires_grad || !event->checkpoint.empty();
      used.insert(name);
      if (tensor == nullptr) {
        (needed ? wrong : kept).push_back(needed ? name + " is not there" : name);
      } else if (const std::string fault = take(*event, *tensor); !fault.empty()) {
        wrong.push_back(fmt::format("{} {}", name, fault));
      }
    }
    // A recording may refer to a part of a checkpoint.
    for (const MadeTensor& tensor : tensors) {
      if (by_name && !used.contains(tensor.name)) unused.push_back(tensor.name);
    }
    const std::string more =
        unused.empty() ? "" : fmt::format("tensors that no input takes: {}", told(unused));
    if (!wrong.empty()) refuse(fmt::format("in the checkpoint {} ", path), wrong, more);
    if (!more.empty()) program_.notes.push_back(fmt::format("{}: {}", path, more));
    if (!kept.empty())
      program_.notes.push_back(fmt::format("inputs as they were recorded: {}", told(kept)));
  }

  void end() { program_.raw = std::make_shared<const std::string>(std::move(raw_)); }

  [[noreturn]] void refuse(const std::string& what, const Names& names,
                           const std::string& more = "") const {
    fail(Fix{"--weights CHECKPOINT names another one, --rename 'old.{i} -> new.{i}' its tensors"},
         "{}: {}{}{}{}", program_.path, what, told(names), more.empty() ? "" : "; ", more);
  }

  // The reason if it is not the input's tensor.
  std::string take(RecordedEvent& event, const MadeTensor& tensor) {
    EventValue& value = event.out[0];
    const auto from = tensor.type == nullptr ? std::nullopt : tensor.type->dtype;
    const DType to = value.type.dtype;
    const bool fits = from && (from == to || (is_floating(*from) && is_floating(to)));
    if (!fits || tensor.shape != value.type.shape || !value.of_ranks.empty()) {
      return fmt::format("is {}, and not {}[{}]", tensor.type_text(), to_string(to),
                         text_of_list(value.type.shape, ", "));
    }
    std::string bytes = tensor.elements();
    if (from != to) bytes = converted(bytes, *from, to);
    if (!event.checkpoint.empty() && event.checkpoint[2] != sha256(bytes))
      return "has other contents";
    value.elements = {{.stored = RecordedElements::Stored::kBytes,
                       .whole = true,
                       .at = raw_.size(),
                       .bytes = bytes.size()}};
    raw_ += bytes;
    return "";
  }

  RecordedProgram& program_;
  std::string raw_ = *program_.raw;
};

// Gives inputs the elements of the tensors of their names in `options.weights`, rounded to the
// recorded dtype, and other inputs those of the checkpoint that they refer to, which have to be
// the recorded ones. Tensors that no input takes, and inputs without one, become notes.
//   fails  Value: a parameter without a tensor, or one of another shape or with other contents;
//          each is named. As Checkpoint::open
void take_weights(RecordedProgram& program, const ExportOptions& options) {
  std::map<std::string, std::vector<WantedTensor>> referred;
  std::vector<WantedTensor> named;
  for (RecordedEvent& event : program.events) {
    if (event.kind == RecordedKind::kInput && !options.weights.empty() && !event.name.empty()) {
      event.checkpoint.clear();
      named.push_back({&event, event.name});
    }
    if (event.checkpoint.empty() || program.shapes_only) continue;
    const auto path = std::filesystem::path(program.path).parent_path() / event.checkpoint[0];
    referred[path.lexically_normal().string()].push_back({&event, event.checkpoint[1]});
  }
  if (referred.empty() && named.empty()) return;
  WeightTaker taker{program};
  if (!named.empty()) taker.take(options.weights, named, options.renames);
  for (const auto& [path, wanted] : referred) taker.take(path, wanted, {});
  taker.end();
}

}  // namespace

RecordedProgram read_recording(const std::string& path, const ExportOptions& options) {
  const FileBytes bytes = FileBytes::open(path);
  const bool exported = ZipArchive::begins(bytes.text(0, std::min<std::uint64_t>(bytes.size(), 4)));
  RecordedProgram program = exported ? exported_program(open_exported(bytes), options)
                                     : read_recording(read_recording_file(bytes));
  take_weights(program, options);
  return program;
}

}  // namespace shardlab
