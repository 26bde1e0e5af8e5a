// reshard: from any format to safetensors, with edits and placements; or whether two hold the same.
#include "sim/cli/reshard_command.h"

#include <unistd.h>
#include <cstdio>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "mesh/shard_pattern.h"
#include "sim/checkpoint/writer.h"
#include "sim/cli/spec_arguments.h"
#include "sim/files/json_value.h"
#include "sim/recording/recording.h"
#include "sim/remesh/plan.h"
#include "sim/remesh/program.h"
#include "sim/report/checkpoint_report.h"

namespace shardlab {

namespace {

using ShowProgress = std::function<void(std::int64_t, std::int64_t)>;

ShowProgress progress_of(const char* what) {
  if (isatty(STDERR_FILENO) == 0) return nullptr;
  return [what](std::int64_t done, std::int64_t all) {
    constexpr std::int64_t kWidth = 40;
    const std::int64_t filled = all == 0 ? kWidth : kWidth * done / all;
    const std::string bar(static_cast<std::size_t>(filled), '=');
    std::fputs(fmt::format("\r{} [{:{}}] {}", what, bar, kWidth,
                           done == all ? "\r\x1b[K" : bytes_text(static_cast<double>(done)))
                   .c_str(),
               stderr);
  };
}

// The edits that undo all of these, the last one first.
std::string undone_by(const std::vector<Edit>& edits, MadeTensors& tensors) {
  std::vector<Edit> inverse;
  std::string lost;
  for (const Edit& edit : edits) {
    const std::vector<Edit> undo = apply(edit, tensors);
    if (undo.empty()) lost += " " + edit.command();
    inverse.insert(inverse.begin(), undo.begin(), undo.end());
  }
  std::string text;
  for (const Edit& edit : inverse) text += " " + edit.command();
  return lost.empty() ? text : ", which is lost with" + lost;
}

// The placements of a plan of `run` for weights with the names of common models.
std::string planned(const std::string& plan, const MeshLayout& mesh, const MadeTensor& tensor) {
  constexpr std::string_view kCut[] = {
      " q k v qkv wq wk wv wqkv q_proj k_proj v_proj qkv_proj query key value query_key_value w1 "
      "w3 w13 gate up gate_up gate_proj up_proj gate_up_proj fc1 dense_h_to_4h linear_qkv "
      "linear_fc1 embed embed_tokens tok_embeddings wte word_embeddings head lm_head output ",
      " o wo o_proj out_proj dense w2 down down_proj fc2 dense_4h_to_h linear_proj linear_fc2 "};
  if (std::ranges::find(plan_names(), plan) == plan_names().end())
    fail(Fix{suggest(plan, plan_names())}, "--plan {}: no such plan", plan);
  std::vector<std::string> cuts(tensor.shape.size());
  const auto cut = [&](std::size_t dim, std::size_t mesh_dim) {
    if (dim < cuts.size()) cuts[dim] += (cuts[dim].empty() ? "" : ",") + mesh.names()[mesh_dim];
  };
  const std::size_t all = mesh.ndim(),
                    end = std::min(tensor.name.rfind(".weight"), tensor.name.rfind(".bias"));
  const bool fsdp = plan.find("sdp") != std::string::npos, both = plan == "fsdp+tp";
  if (end != std::string::npos && (both || plan == "megatron" || plan == "sequence")) {
    const std::size_t begin = tensor.name.rfind('.', end - 1) + 1;
    const std::string part = fmt::format(" {} ", tensor.name.substr(begin, end - begin));
    for (const std::size_t dim : {0, 1}) {
      if (kCut[dim].find(part) != std::string::npos) cut(dim, all - 1);
    }
  }
  for (std::size_t i = plan == "hsdp" && all > 1 ? 1 : 0; fsdp && i + (both ? 1 : 0) < all; ++i)
    cut(0, i);
  for (std::string& names : cuts) names = names.empty() ? "_" : fmt::format("_@({})", names);
  return fmt::format("[{}]", text_of_list(cuts, ", "));
}

std::vector<const DTensorSpec*> specs_of(const ReshardArguments& arguments,
                                         const MadeTensors& tensors, const MeshLayout* mesh) {
  std::vector<const DTensorSpec*> specs;
  std::set<std::string> used;
  for (const MadeTensor& tensor : tensors) {
    std::string type = planned(arguments.plan, *mesh, tensor);
    for (const std::string& text : arguments.placements) {
      const auto [pattern, placements] = two_parts({"to", text}, "=");
      if (!name_fits(pattern, tensor.name)) continue;
      type = placements;
      used.insert(text);
      break;
    }
    specs.push_back(parse_spec(with_sizes(type, tensor.shape, tensor.text()), mesh));
    if (specs.back()->has_partial() || specs.back()->shape() != tensor.shape) {
      fail(Fix{"write _ for each size, and cuts alone"}, "--to {}: {} cannot be stored so", type,
           tensor.text());
    }
  }
  for (const std::string& text : arguments.placements) {
    if (!used.contains(text))
      fail(Fix{"names are those after all edits"}, "--to '{}' is the first for no tensor", text);
  }
  return specs;
}

int convert(const ReshardArguments& arguments) {
  const Checkpoint from = Checkpoint::open(arguments.paths[0]);
  MadeTensors tensors = tensors_of(from);
  std::int64_t overlaps = 0;
  for (const StoredTensor& tensor : from.tensors()) {
    from.check_whole(tensor);
    overlaps += faults_of(tensor, 1).empty() ? 0 : 1;
  }
  const std::string undo = undone_by(arguments.edits, tensors);
  WriteOptions options{.most_bytes = arguments.most_bytes,
                       .replace = arguments.force,
                       .progress = progress_of("writing")};
  std::vector<const DTensorSpec*> specs;
  if (!arguments.mesh.empty()) {
    options.mesh = parse_mesh(arguments.mesh);
    specs = specs_of(arguments, tensors, options.mesh);
    options.placed = [&specs](std::size_t i) { return specs[i]; };
  }
  const std::vector<std::string> files = write_tensors(arguments.paths[1], tensors, options);
  std::int64_t bytes = 0;
  for (const MadeTensor& tensor : tensors) bytes += tensor.bytes();
  if (arguments.common.json) {
    Json edits = Json::array();
    for (const Edit& edit : arguments.edits) edits.push_back(edit.command());
    print_text(
        json_line(
            {{"files", files}, {"tensors", tensors.size()}, {"bytes", bytes}, {"edits", edits}}) +
        "\n");
    return kFine;
  }
  print_text(fmt::format("{}: {}, {}, {}\n", arguments.paths[1], counted(std::ssize(files), "file"),
                         counted(std::ssize(tensors), "tensor"),
                         bytes_text(static_cast<double>(bytes))));
  for (const Edit& edit : arguments.edits) print_text("  edit     " + edit.command() + "\n");
  if (!arguments.edits.empty())
    print_text(fmt::format("  undo     shardlab reshard {} BACK{}\n", arguments.paths[1], undo));
  if (overlaps > 0)
    print_text(fmt::format("  overlaps in {}, whose first pieces count: shardlab show {}\n",
                           counted(overlaps, "tensor"), arguments.paths[0]));
  if (!from.objects().empty())
    print_text(fmt::format("  left out {}: safetensors holds tensors alone\n",
                           counted(std::ssize(from.objects()), "object")));
  return kFine;
}

void compare_objects(const Checkpoint& a, const Checkpoint& b, CheckpointComparison& out) {
  for (const StoredObject& object : a.objects()) {
    const auto other = std::ranges::find(b.objects(), object.name, &StoredObject::name);
    if (other == b.objects().end()) continue;
    const std::string x = a.print(object), y = b.print(*other);
    if (x != y)
      out.others.push_back(
          fmt::format("{}: {} in A, {} in B", object.name, x.substr(0, 60), y.substr(0, 60)));
  }
}

// Parameters of a recording as tensors without elements.
MadeTensors parameters_of(const std::string& path) {
  const RecordedProgram recording = read_recording(path);
  const CallProgram program = program_of(recording);
  MadeTensors tensors;
  for (const CallInput& input : program.inputs) {
    if (input.parameter)
      tensors.push_back(
          {input.recorded, &stored_type(input.meta.dtype), input.meta.shape, nullptr});
  }
  return tensors;
}

int check(const ReshardArguments& arguments) {
  const Checkpoint a = Checkpoint::open(arguments.paths[0]);
  MadeTensors tensors = tensors_of(a);
  undone_by(arguments.edits, tensors);
  CheckpointComparison comparison;
  if (!arguments.against.empty()) {
    for (MadeTensor& tensor : tensors) tensor.elements = nullptr;
    comparison = compare(tensors, parameters_of(arguments.against), nullptr);
  } else {
    const Checkpoint b = Checkpoint::open(arguments.paths[1]);
    comparison = compare(tensors, tensors_of(b), progress_of("comparing"));
    compare_objects(a, b, comparison);
  }
  const std::string repair =
      arguments.paths.size() < 2 ? "" : fmt::format("shardlab reshard {} C", arguments.paths[1]);
  print_text(arguments.common.json ? comparison_json(comparison) + "\n"
                                   : comparison_text(comparison, repair));
  return comparison.ok() ? kFine : kFailed;
}

void check_arguments(const ReshardArguments& arguments) {
  const bool one = !arguments.against.empty();
  if (one && !arguments.check)
    fail(Fix{"--check A --against step.json.gz"}, "--against: no --check");
  if (arguments.paths.size() != (one ? 1 : 2)) {
    fail(Fix{"shardlab reshard FROM TO, --check A B or --check A --against step.json.gz"},
         "reshard: {} given", counted(std::ssize(arguments.paths), "path"));
  }
  const bool placed = !arguments.placements.empty() || arguments.plan != ReshardArguments().plan;
  if (arguments.check && (placed || !arguments.mesh.empty() || arguments.force)) {
    fail(Fix{"leave --mesh, --to, --plan and --force out"}, "--check compares, and writes nothing");
  }
  if (placed && arguments.mesh.empty())
    fail(Fix{"add the mesh: --mesh dp=2,tp=4"}, "--to and --plan: files of ranks are of a mesh");
}

}  // namespace

int reshard_command(const ReshardArguments& arguments) {
  check_arguments(arguments);
  return arguments.check ? check(arguments) : convert(arguments);
}

}  // namespace shardlab
