// Everything is looked up before a node becomes a call: a name that nothing gives, a kind that is
// not read and an op that does not exist are found here, with the node that has them.
#include "sim/recording/exported_program.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "schema/op_row.h"
#include "sim/recording/exported_arguments.h"
#include "sim/recording/exported_modules.h"
#include "sim/recording/recorded_arguments.h"

namespace shardlab {

namespace {

// A bound goes from a result to the first operand of its call, so that an index may be reshaped or
// moved before it is used.

// The numbers that a call's indices are below: the size of a dim of what they point into.
struct IndexRow {
  std::string_view op, index, of;
  int dim;  // kByArgument: the one that the call names
};
constexpr int kByArgument = -1;
constexpr IndexRow kIndexRows[] = {
    {"embedding", "indices", "weight", 0},
    {"cross_entropy_loss", "target", "self", 1},
    {"nll_loss", "target", "self", 1},
    {"nll_loss_nd", "target", "self", 1},
    {"nll_loss2d", "target", "self", 1},
    {"gather", "index", "self", kByArgument},
    {"index_select", "index", "self", kByArgument},
};

class Bounds {
 public:
  explicit Bounds(const RecordedProgram& program) {
    for (const RecordedEvent& event : program.events) {
      for (const EventValue& one : event.out) {
        if (one.id.id >= 0) shapes_[one.id.id] = &one.type.shape;
      }
    }
    for (std::size_t i = program.events.size(); i-- > 0;) {
      const RecordedEvent& event = program.events[i];
      if (event.row == nullptr) continue;
      const auto* row = std::ranges::find(kIndexRows, bare_op(event.op), &IndexRow::op);
      if (row != std::end(kIndexRows)) bound_index(event, *row);
      for (const EventValue& out : event.out) {
        const auto bound = bounds_.find(out.id.id);
        if (bound != bounds_.end() && !event.args.empty()) bound_by(event.args[0], bound->second);
      }
    }
  }

  std::int64_t of(std::int32_t value) const {
    constexpr std::int64_t kFlags = 2;
    const auto bound = bounds_.find(value);
    return bound == bounds_.end() ? kFlags : bound->second;
  }

 private:
  static const GraphArgument* named(const RecordedEvent& event, std::string_view name) {
    const auto at = event.row->op.find_argument(name);
    return at && *at < event.args.size() ? &event.args[*at] : nullptr;
  }

  static std::int32_t value_of(const GraphArgument* argument) {
    const auto* value = argument == nullptr ? nullptr : std::get_if<ValueRef>(&argument->value);
    return value == nullptr ? -1 : value->id;
  }

  void bound_index(const RecordedEvent& event, const IndexRow& row) {
    const auto shape = shapes_.find(value_of(named(event, row.of)));
    const GraphArgument* index = named(event, row.index);
    if (shape == shapes_.end() || index == nullptr) return;
    const Dims& sizes = *shape->second;
    std::int64_t dim = row.dim;
    if (dim == kByArgument) {
      const GraphArgument* given = named(event, "dim");
      const auto* number = given == nullptr ? nullptr : std::get_if<Scalar>(&given->value);
      dim = number == nullptr ? 0 : number->to_int();
      if (dim < 0) dim += std::ssize(sizes);
    }
    dim = std::min(dim, std::ssize(sizes) - 1);
    if (dim >= 0) bound_by(*index, sizes[static_cast<std::size_t>(dim)]);
  }

  void bound_by(const GraphArgument& argument, std::int64_t bound) {
    const std::int32_t value = value_of(&argument);
    if (value < 0 || bound < 1) return;
    const auto [known, fresh] = bounds_.emplace(value, bound);
    if (!fresh) known->second = std::min(known->second, bound);
  }

  std::unordered_map<std::int32_t, const Dims*> shapes_;
  std::unordered_map<std::int32_t, std::int64_t> bounds_;
};

// Gives the formulas of integer inputs their bounds: the size of what they point into, found from
// their use back to where they are given; 2 where nothing points.
void bound_indices(RecordedProgram& program) {
  const Bounds bounds(program);
  for (RecordedEvent& event : program.events) {
    if (event.kind != RecordedKind::kInput || !is_integral(event.out[0].type.dtype)) continue;
    for (RecordedElements& elements : event.out[0].elements) {
      const bool formula = elements.stored == RecordedElements::Stored::kFormula;
      if (formula) elements.below = bounds.of(event.out[0].id.id);
    }
  }
}

// A text of the node's metadata; empty if it has none.
std::string_view metadata_of(const JsonNode& node, std::string_view key) {
  const JsonNode* metadata = node.find("metadata");
  const JsonNode* text = metadata == nullptr ? nullptr : metadata->find(key);
  return text == nullptr ? std::string_view() : text->text();
}

// Sizes and numbers that are computed of them are known by the expressions at their uses.
bool gives_numbers(const JsonNode& node) {
  const JsonNode& outputs = node.at("outputs");
  return !outputs.empty() && std::ranges::all_of(outputs, [](const JsonNode& one) {
    return one.contains("as_sym_int") || one.contains("as_sym_float") ||
           one.contains("as_sym_bool");
  });
}

// It demands something of sizes and types, and gives nothing.
bool is_check(std::string_view target) {
  return target.starts_with("torch.ops.aten._assert") ||
         target.starts_with("torch.ops.aten.sym_constrain");
}

// "node 3 linear (l  model.py:5), torch.ops.aten.linear.default: "
std::string place_of(const JsonNode& node, std::size_t number, const std::string& module) {
  const auto text = [&](std::string_view key) {
    const JsonNode* found = node.find(key);
    return found != nullptr && found->is_text() ? std::string(found->text()) : "";
  };
  const std::string name = text("name");
  return fmt::format("node {}{}{}{}, {}: ", number, name.empty() ? "" : " ", name, module,
                     text("target"));
}

void check_version(const JsonNode& version) {
  const std::int64_t major = version.at("major").integer();
  if (major == 7 || major == 8) return;
  fail(ErrorKind::kUnsupported, Fix{"use another PyTorch, or a newer shardlab"},
       "a program of schema {}.{}, and this shardlab reads 7 and 8", major,
       version.at("minor").dump());
}

constexpr std::string_view kTarget = "torch.ops.";

// "torch.ops.aten.linear.default" is "aten.linear.default".
std::string op_of(std::string_view target) {
  return std::string(target.starts_with(kTarget) ? target.substr(kTarget.size()) : target);
}

// Stack traces are half of the text, and of each the deepest line of the user is needed: what is
// before it goes. A text inside of another one has its quotes behind backslashes.
std::string without_traces(std::string text) {
  constexpr std::string_view kKey = "\"stack_trace\": \"", kFrame = "File \\\"";
  std::size_t from = 0, kept = 0;
  const auto keep = [&](std::size_t end) {
    std::copy(text.begin() + static_cast<std::ptrdiff_t>(from),
              text.begin() + static_cast<std::ptrdiff_t>(end),
              text.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += end - from;
    from = end;
  };
  for (std::size_t at = 0; (at = text.find(kKey, at)) != std::string::npos;) {
    at += kKey.size();
    std::size_t end = at;
    while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
    const auto trace = std::string_view(text).substr(at, std::min(end, text.size()) - at);
    const std::size_t last = trace.rfind(kFrame);
    const bool own = trace.find("/torch/") == std::string_view::npos;
    keep(at);
    if (own && last != std::string_view::npos) from += last;
  }
  keep(text.size());
  text.resize(kept);
  return text;
}

// The tensors of the archive by the names that parameters, buffers and constants have.
class StoredTensors {
 public:
  // {"config": {"l.weight": {"path_name": "weight_1", "tensor_meta": {...}, ...}}}
  void read(const std::string& path, const std::string& text) {
    const JsonTree& config = *configs_.emplace_back(std::make_unique<JsonTree>(text));
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    for (const JsonNode& entry : config.root().at("config")) {
      entries_[entry.key()] = {&entry.at("tensor_meta"), entry.find("use_pickle"),
                               folder + std::string(entry.at("path_name").text())};
    }
  }

  struct Entry {
    const JsonNode* meta = nullptr;
    const JsonNode* pickle = nullptr;
    std::string file;
  };
  const Entry& at(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end()) {
      fail(Fix{"export the program again"}, "its elements are not in the archive");
    }
    if (found->second.pickle != nullptr && found->second.pickle->boolean()) {
      fail(ErrorKind::kUnsupported, Fix{"make it a tensor without a class of its own"},
           "its elements are a pickle");
    }
    return found->second;
  }

 private:
  std::vector<std::unique_ptr<JsonTree>> configs_;
  std::map<std::string_view, Entry, std::less<>> entries_;
};

const OpRow* row_of(std::string_view target, const std::string& op) {
  const OpRow* row = recorded_row(op);
  if (row != nullptr && target.starts_with(kTarget)) return row;
  const bool nested = target.starts_with("torch.ops.higher_order.");
  fail(ErrorKind::kUnsupported,
       Fix{nested ? "take with torch.no_grad(), torch.cond and the like out of the forward"
                  : without_op(op)},
       "{}", nested ? "a program inside of the program is not read" : "no such op here");
}

class ExportReader {
 public:
  ExportReader(ExportedFiles files, const ExportOptions& options)
      : files_(std::move(files)), options_(options), arguments_(program_, not_asked_) {}

  RecordedProgram read() {
    guarded([&] { read_all(); });
    for (std::size_t i = 0; i < program_.events.size(); ++i) program_.events[i].line = i + 1;
    program_.raw = std::make_shared<const std::string>(std::move(raw_));
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse(ErrorKind kind, const std::string& what, const std::string& fix) {
    reported_ = true;
    fail(kind, Fix{fix.empty() ? std::string(kExportAgain) : fix}, "{}: {}{}", files_.path, place(),
         what);
  }

  // An error inside says at which place of the program it is.
  void guarded(const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      if (reported_) throw;
      refuse(error.kind(), error.summary(), fix_of(error));
    } catch (const std::exception& error) {
      refuse(ErrorKind::kValue, error.what(), "");
    }
  }

  void read_all() {
    at_ = "model.json: ";
    const JsonNode& file = tree_.emplace(without_traces(std::move(files_.program))).root();
    check_version(file.at("schema_version"));
    const JsonNode& module = file.at("graph_module");
    const JsonNode& graph = module.at("graph");
    for (const auto& [path, text] : files_.configs) {
      at_ = path + ": ";
      stored_.read(path, text);
    }
    at_ = "model.json: ";
    const JsonNode& signature = module.at("signature");
    sizes_.emplace(file.at("range_constraints"), options_);
    tensors_.emplace(graph, *sizes_);
    read_sizes(signature);
    const JsonNode* torch = file.find("torch_version");
    write_head(torch != nullptr && torch->is_text() ? std::string(torch->text()) : "");
    for (const JsonNode& input : signature.at("input_specs")) read_input(input);
    read_nodes(graph);
    bound_indices(program_);
    at_ = "outputs: ";
    read_outputs(signature);
    modules_.write();
    write_backward();
    for (const std::string& name : outputs_) program_.outputs[known_.at(name)] = name;
  }

  void read_sizes(const JsonNode& signature) {
    for (const JsonNode& spec : signature.at("input_specs")) {
      const JsonNode* input = spec.find("user_input");
      if (input == nullptr) continue;
      const std::string name(tensor_name(input->at("arg")));
      std::size_t dim = 0;
      if (name.empty()) continue;
      for (const JsonNode& size : tensors_->meta_of(name).at("sizes"))
        sizes_->note(size, name, dim++);
    }
    const std::string misfit = sizes_->misfit();
    if (misfit.empty()) return;
    at_.clear();
    refuse(ErrorKind::kValue, misfit, "give another with --set");
  }

  void write_head(const std::string& torch) {
    program_.path = files_.path;
    program_.title = files_.name;
    program_.torch = torch;
    program_.exported = program_.has_calls = true;
    program_.sizes = sizes_->known();
    program_.meshes = {{.names = {"all"}, .shape = {1}, .ranks = {}, .part = {}}};
  }

  std::int32_t number_of_value(std::string_view name) const {
    const auto found = known_.find(name);
    if (found == known_.end()) fail(ErrorKind::kValue, "nothing has given the tensor '{}'", name);
    return found->second;
  }

  // Inputs.

  void read_input(const JsonNode& spec) {
    at_ = "input: ";
    const JsonNode& given = only_member(spec);
    const std::string_view kind = given.key();
    if (kind == "constant_input" || kind == "token") return;
    const JsonNode& argument = given.at("arg");
    if (kind == "user_input") {
      const std::string_view name = tensor_name(argument);
      // Numbers are written down where they are used.
      if (!name.empty()) give_formula(name);
      return;
    }
    static const std::map<std::string_view, const char*> kStored = {
        {"parameter", "parameter_name"},
        {"buffer", "buffer_name"},
        {"tensor_constant", "tensor_constant_name"}};
    const auto stored = kStored.find(kind);
    if (stored == kStored.end()) {
      fail(ErrorKind::kUnsupported, Fix{"make it a tensor of the module"},
           "an input of the kind {} is not read", kind);
    }
    give_stored(name_in(argument), std::string(given.at(stored->second).text()),
                kind == "parameter");
  }

  void give(std::string_view name, RecordedEvent event, ValueType type, RecordedElements elements,
            bool state) {
    const std::int32_t number = program_.values++;
    event.kind = RecordedKind::kInput;
    event.out.push_back({.id = {number}, .type = std::move(type), .elements = {elements}});
    known_[name] = number;
    modules_.give_input(number, state);
    program_.events.push_back(std::move(event));
  }

  void give_formula(std::string_view name) {
    RecordedEvent event{.name = std::string(name)};
    event.open = true;
    // Its first dim is that of the first input.
    const JsonNode& sizes = tensors_->meta_of(name).at("sizes");
    if (!sizes.empty() && batch_ == nullptr) batch_ = &sizes.at(0);
    event.batch = !sizes.empty() && sizes.at(0) == *batch_;
    ValueType type = tensors_->type_of(name);
    RecordedElements elements{.stored = RecordedElements::Stored::kFormula, .seed = formulas_++};
    elements.scale = 1;
    give(name, std::move(event), std::move(type), elements, false);
  }

  void give_stored(std::string_view name, const std::string& of, bool parameter) {
    at_ = fmt::format("{}: ", of);
    const StoredTensors::Entry& entry = stored_.at(of);
    ValueType type = tensors_->type_of(name);
    const ExportedTensor tensor = tensors_->read(*entry.meta);
    if (type.shape != tensor.meta.shape || type.dtype != tensor.meta.dtype) {
      fail(ErrorKind::kValue, "its elements have another type than the program says");
    }
    // Weights that are tied are one tensor.
    const auto [tied, fresh] = tied_.emplace(entry.file + entry.meta->dump(), name);
    if (!fresh) {
      known_[name] = known_.at(tied->second);
      return;
    }
    RecordedEvent event{.name = of};
    const JsonNode* graded = tensors_->meta_of(name).find("requires_grad");
    event.requires_grad = parameter && (graded == nullptr || graded->boolean());
    type.stride = contiguous_strides(type.shape);
    give(name, std::move(event), std::move(type), place_elements(files_, entry.file, tensor, raw_),
         true);
  }

  // Calls.

  void read_nodes(const JsonNode& graph) {
    const std::function<Argument(std::string_view)> operand = [&](std::string_view name) {
      const std::int32_t number = number_of_value(name);
      modules_.takes(number);
      return arguments_.value(number);
    };
    ExportedArguments given(graph, *sizes_, operand);
    const JsonNode& nodes = graph.at("nodes");
    program_.events.reserve(program_.events.size() + nodes.size());
    for (const JsonNode& node : nodes) {
      node_ = &node;
      ++nodes_;
      read_node(node, given);
    }
    node_ = nullptr;
  }

  std::string place() const {
    return node_ == nullptr ? at_ : place_of(*node_, nodes_, modules_.text());
  }

  void read_node(const JsonNode& node, ExportedArguments& arguments) {
    const std::string_view target = node.at("target").text();
    modules_.enter(metadata_of(node, "nn_module_stack"), metadata_of(node, "stack_trace"));
    if (gives_numbers(node) || is_check(target)) return;
    RecordedEvent event{.kind = RecordedKind::kCall, .op = op_of(target)};
    event.row = row_of(target, event.op);
    GivenArguments given;
    arguments_.begin();
    for (const JsonNode& input : node.at("inputs")) {
      const std::string_view named = input.at("name").text();
      if (!event.row->op.find_argument(named)) {
        fail(ErrorKind::kUnsupported, "the op takes no argument '{}'", named);
      }
      given.keywords.emplace_back(named, arguments.read(named, input.at("arg")));
    }
    arguments_.bind(given, event);
    if (!event.misfit.empty()) fail(ErrorKind::kUnsupported, "{}", event.misfit);
    for (const JsonNode& output : node.at("outputs")) read_result(output, event.out);
    modules_.describe(event);
    program_.events.push_back(std::move(event));
  }

  void read_result(const JsonNode& output, std::vector<EventValue>& out) {
    const JsonNode& held = only_member(output);
    const std::string_view kind = held.key();
    if (kind == "as_tensor") {
      out.push_back(result(name_in(held)));
    } else if (kind == "as_tensors") {
      for (const JsonNode& one : held) out.push_back(result(name_in(one)));
    } else if (kind == "as_none") {
      out.emplace_back();
    } else {
      fail(ErrorKind::kUnsupported, Fix{"write the call without it"},
           "a result of the kind {} is not read", kind);
    }
  }

  EventValue result(std::string_view name) {
    const auto [known, fresh] = known_.emplace(name, program_.values);
    if (!fresh) fail(ErrorKind::kValue, "'{}' is given twice", name);
    modules_.gives(program_.values);
    return {.id = {program_.values++}, .type = tensors_->type_of(name)};
  }

  // The end.

  void read_outputs(const JsonNode& signature) {
    for (const JsonNode& spec : signature.at("output_specs")) {
      const JsonNode& held = only_member(spec);
      if (held.key() != "user_output" && held.key() != "loss_output") continue;
      const JsonNode& argument = held.at("arg");
      const bool user = held.key() == "user_output";
      const std::string_view name = user ? tensor_name(argument) : name_in(argument);
      if (name.empty()) continue;
      modules_.returns(number_of_value(name));
      outputs_.emplace_back(name);
    }
  }

  // A sum of its elements where the output is no number.
  void write_backward() {
    const std::string& of = options_.backward;
    if (of.empty()) return;
    at_.clear();
    if (std::ranges::find(outputs_, of) == outputs_.end()) {
      refuse(ErrorKind::kValue, fmt::format("--backward {}: no output is called so", of),
             suggest(of, outputs_));
    }
    ValueType type = tensors_->type_of(of);
    if (!is_floating(type.dtype)) {
      refuse(ErrorKind::kValue, fmt::format("--backward {}: it holds no real numbers", of),
             "name another output");
    }
    const std::int32_t number = known_.at(of);
    RecordedEvent backward{.kind = RecordedKind::kBackward};
    backward.takes = {number};
    if (!type.shape.empty()) {
      RecordedEvent ones{.kind = RecordedKind::kCall, .op = "aten.ones_like.default"};
      arguments_.begin();
      ones.row = recorded_row(ones.op);
      arguments_.bind({.positional = {arguments_.value(number)}, .keywords = {}}, ones);
      type.stride = contiguous_strides(type.shape);
      backward.gradients = {program_.values};
      ones.out.push_back({.id = {program_.values++}, .type = std::move(type)});
      modules_.enter("", "");
      modules_.describe(ones);
      program_.events.push_back(std::move(ones));
    }
    program_.events.push_back(std::move(backward));
  }

  ExportedFiles files_;
  std::string raw_;  // elements of tensors
  const ExportOptions& options_;
  RecordedProgram program_;
  const TakeValue not_asked_;  // arguments have names here
  ArgumentReader arguments_;
  ExportedModules modules_{program_};
  std::optional<JsonTree> tree_;
  const JsonNode* node_ = nullptr;  // being read
  std::optional<ExportedSizes> sizes_;
  std::optional<ExportedTensors> tensors_;
  std::string at_;  // the part that is being read, for messages
  bool reported_ = false;
  StoredTensors stored_;
  std::map<std::string, std::string_view> tied_;              // by place in the archive
  std::unordered_map<std::string_view, std::int32_t> known_;  // numbers of tensors, by name
  std::vector<std::string> outputs_;
  const JsonNode* batch_ = nullptr;  // the first dim of the first input
  std::int64_t formulas_ = 0;
  std::size_t nodes_ = 0;
};

}  // namespace

RecordedProgram exported_program(ExportedFiles files, const ExportOptions& options) {
  return ExportReader(std::move(files), options).read();
}

}  // namespace shardlab
