// Everything is looked up before a line is written: a name that nothing gives, a kind that is not
// read and an op that does not exist are found here, with the node that has them.
#include "sim/record/exported_program.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <unordered_map>

#include "base/dtype.h"
#include "base/error.h"
#include "base/fix.h"
#include "base/nearest.h"
#include "schema/aten_schemas.h"
#include "schema/op_descriptor.h"
#include "sim/record/json_value.h"
#include "sim/record/size_text.h"
#include "sim/record/zip_archive.h"

namespace shardlab {

namespace {

constexpr std::string_view kExportAgain = "export the program again: torch.export.save(ep, FILE)";

// torch.export's numbers of dtypes; what is not read has no name.
std::string dtype_name(const Json& number) {
  static const std::map<std::int64_t, std::string> kNames = {
      {1, "u8"},    {2, "i8"},    {3, "i16"},   {4, "i32"},       {5, "i64"},
      {6, "f16"},   {7, "f32"},   {8, "f64"},   {9, "c32"},       {10, "c64"},
      {11, "c128"}, {12, "bool"}, {13, "bf16"}, {29, "f8e4m3fn"}, {35, "u64"}};
  const auto found = kNames.find(integer_of<std::int64_t>(number));
  if (found != kNames.end()) return found->second;
  fail(ErrorKind::kUnsupported, Fix{"export it in another dtype"}, "dtype {} is not read",
       number.dump());
}

std::string memory_format_name(const Json& number) {
  static const std::vector<std::string> kNames = {"", "contiguous", "channels_last",
                                                  "channels_last_3d", "preserve"};
  const auto index = integer_of<std::size_t>(number);
  if (index > 0 && index < kNames.size()) return kNames[index];
  fail(ErrorKind::kUnsupported, Fix{std::string(kExportAgain)}, "memory format {} is not read",
       number.dump());
}

// A union has one member: its kind, and what it holds.
std::pair<std::string, const Json*> only(const Json& json) {
  const Json* found = nullptr;
  std::string kind;
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() && json.size() > 1) continue;  // older files write all members
    if (found != nullptr) fail(ErrorKind::kValue, "{} has two kinds", json_line(json));
    found = &value;
    kind = key;
  }
  if (found == nullptr) fail(ErrorKind::kValue, "{} has no kind", json_line(json));
  return {kind, found};
}

Json real_of(const Json& number) {
  if (number.is_number()) return number;
  static const std::map<std::string, std::string> kNames = {
      {"Infinity", "inf"}, {"-Infinity", "-inf"}, {"NaN", "nan"}};
  const auto found = kNames.find(number.get<std::string>());
  if (found == kNames.end()) fail(ErrorKind::kValue, "{} is no number", json_line(number));
  return {{"f", found->second}};
}

std::vector<std::string> parts_of(std::string_view text, char at) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

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

// A forward of a module that has begun.
struct OpenModule {
  std::string key, path, type;
  std::size_t first = 0;  // its first call
};

class ExportReader {
 public:
  ExportReader(ExportedFiles files, const ExportOptions& options)
      : files_(std::move(files)), options_(options) {}

  StepFile read() {
    guarded([&] { read_all(); });
    step_.path = files_.path;
    step_.raw = std::move(files_.raw);
    return std::move(step_);
  }

 private:
  struct Value {
    std::size_t number = 0;
    std::size_t maker = kGiven;  // the call that gives it
    bool state = false;          // a parameter, a buffer or a constant
    std::size_t last_use = 0;    // one past the last call that takes it
  };
  static constexpr std::size_t kGiven = ~std::size_t{0};

  [[noreturn]] void refuse(ErrorKind kind, const std::string& what, const std::string& fix) {
    reported_ = true;
    fail(kind, Fix{fix.empty() ? std::string(kExportAgain) : fix}, "{}: {}{}", files_.path, at_,
         what);
  }

  // An error inside says at which place of the program it is.
  template <typename Read>
  void guarded(const Read& read) {
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
    file_ = read_json(files_.program);
    if (!file_.is_object()) refuse(ErrorKind::kValue, "no JSON", "");
    check_version();
    const Json& module = file_.at("graph_module");
    graph_ = &module.at("graph");
    for (const auto& [path, text] : files_.configs) read_config(path, text);
    const Json& signature = module.at("signature");
    bind_sizes(signature);
    write_head();
    find_bounds();
    for (const Json& input : signature.at("input_specs")) read_input(input);
    for (const Json& node : graph_->at("nodes")) read_node(node);
    at_ = "outputs: ";
    read_outputs(signature);
    write_modules();
    write_backward();
    write_end();
  }

  void check_version() {
    const Json& version = file_.at("schema_version");
    const auto major = integer_of<std::int64_t>(version.at("major"));
    if (major == 7 || major == 8) return;
    refuse(ErrorKind::kUnsupported,
           fmt::format("a program of schema {}.{}, and this shardlab reads 7 and 8", major,
                       version.at("minor").dump()),
           "use another PyTorch, or a newer shardlab");
  }

  // {"config": {"l.weight": {"path_name": "weight_1", "tensor_meta": {...}, ...}}}
  void read_config(const std::string& path, const std::string& text) {
    at_ = path + ": ";
    const Json config = read_json(text);
    if (!config.is_object()) refuse(ErrorKind::kValue, "no JSON", "");
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    for (const auto& [name, entry] : config.at("config").items()) {
      stored_[name] = entry;
      stored_[name]["file"] = folder + entry.at("path_name").get<std::string>();
    }
    at_ = "model.json: ";
  }

  // Sizes.

  // A symbol has the size that is asked for, or that of the example that the program was exported
  // with.
  void bind_sizes(const Json& signature) {
    const Json& ranges = file_.at("range_constraints");
    for (const auto& [symbol, range] : ranges.items()) {
      symbols_[symbol] = {{"of", Json::array()}};
      for (const char* bound : {"min_val", "max_val"}) {
        if (range.contains(bound) && range.at(bound).is_number_integer())
          symbols_[symbol][bound] = range.at(bound);
      }
      const auto asked = options_.sizes.find(symbol);
      if (asked != options_.sizes.end()) sizes_[symbol] = asked->second;
    }
    for (const Json& spec : signature.at("input_specs")) {
      if (!spec.contains("user_input") || !spec.at("user_input").at("arg").contains("as_tensor"))
        continue;
      const auto name =
          spec.at("user_input").at("arg").at("as_tensor").at("name").get<std::string>();
      std::size_t dim = 0;
      for (const Json& size : meta_of(name).at("sizes")) {
        if (size.contains("as_expr")) note_symbol(size.at("as_expr"), name, dim);
        ++dim;
      }
    }
    for (const auto& [symbol, size] : sizes_) check_range(symbol, size);
  }

  void note_symbol(const Json& expression, const std::string& input, std::size_t dim) {
    const std::string symbol = symbol_in_text(expression.at("expr_str").get<std::string>());
    if (symbol.empty()) return;
    symbols_[symbol]["of"].push_back(fmt::format("dim {} of {}", dim, input));
    const Json hint = expression.value("hint", Json());
    const bool known = hint.is_object() && hint.contains("as_int");
    if (known) sizes_.try_emplace(symbol, integer_of<std::int64_t>(hint.at("as_int")));
  }

  void check_range(const std::string& symbol, std::int64_t size) {
    const Json& known = symbols_[symbol];
    const bool below = known.contains("min_val") && size < known.at("min_val").get<std::int64_t>();
    const bool above = known.contains("max_val") && size > known.at("max_val").get<std::int64_t>();
    if (!below && !above && size >= 0) return;
    at_.clear();
    refuse(ErrorKind::kValue,
           fmt::format("the size {} is {}, and {}", symbol, size, range_text(known)),
           "give another with --set");
  }

  static std::string range_text(const Json& known) {
    std::string text = "the program takes";
    if (known.contains("min_val")) text += " " + known.at("min_val").dump();
    text += " or more";
    if (known.contains("max_val")) text += ", at most " + known.at("max_val").dump();
    return text;
  }

  std::int64_t in_text(const std::string& text) {
    const auto known = texts_.find(text);
    if (known != texts_.end()) return known->second;
    const std::int64_t value = size_in_text(text, [&](const std::string& symbol) {
      const auto size = sizes_.find(symbol);
      if (size != sizes_.end()) return size->second;
      const bool given = symbols_.contains(symbol) && !symbol.starts_with("u");
      fail(ErrorKind::kUnsupported,
           Fix{given ? fmt::format("--set {}=8", symbol)
                     : "take numbers of data out of the program"},
           "{} {}", symbol, given ? "is a size without a value" : "is a number that data has");
    });
    texts_.emplace(text, value);
    return value;
  }

  std::int64_t size_of(const Json& size) {
    if (size.is_number()) return integer_of<std::int64_t>(size);
    if (size.contains("as_int")) return integer_of<std::int64_t>(size.at("as_int"));
    return in_text(size.at("as_expr").at("expr_str").get<std::string>());
  }

  // A number that an earlier node gave, by its name.
  Json symbolic(const Json& argument) {
    if (!argument.contains("as_name")) return *only(argument).second;
    const auto name = argument.at("as_name").get<std::string>();
    for (const char* table : {"sym_int_values", "sym_float_values", "sym_bool_values"}) {
      const auto values = graph_->find(table);
      if (values == graph_->end() || !values->contains(name)) continue;
      const Json& value = values->at(name);
      if (!value.contains("as_expr")) return *only(value).second;
      return in_text(value.at("as_expr").at("expr_str").get<std::string>());
    }
    fail(ErrorKind::kValue, "nothing has given the number '{}'", name);
  }

  const Json& meta_of(const std::string& name) const {
    const Json& all = graph_->at("tensor_values");
    const auto found = all.find(name);
    if (found == all.end()) fail(ErrorKind::kValue, "the tensor '{}' is not described", name);
    return *found;
  }

  // shape, dtype and strides of a tensor
  Json described(const std::string& name) {
    const Json& meta = meta_of(name);
    Json value = {
        {"dtype", dtype_name(meta.at("dtype"))}, {"shape", Json::array()}, {"local", true}};
    constexpr std::int64_t kStrided = 7;
    if (meta.at("layout") != kStrided) {
      fail(ErrorKind::kUnsupported, Fix{"make it dense: x.to_dense()"}, "'{}' is a sparse tensor",
           name);
    }
    for (const Json& size : meta.at("sizes")) value["shape"].push_back(size_of(size));
    Json strides = Json::array();
    for (const Json& stride : meta.at("strides")) strides.push_back(size_of(stride));
    if (strides != contiguous(value.at("shape"))) value["stride"] = std::move(strides);
    return value;
  }

  static Json contiguous(const Json& shape) {
    std::vector<std::int64_t> strides(shape.size());
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      strides[i] = step;
      const bool over = __builtin_mul_overflow(
          step, std::max<std::int64_t>(1, shape.at(i).get<std::int64_t>()), &step);
      if (over) fail(ErrorKind::kValue, "{} is no shape", shape.dump());
    }
    return strides;
  }

  // Inputs.

  // Below what the indices among the inputs have to be: from their use back to where they are
  // given.
  void find_bounds() {
    const Json& nodes = graph_->at("nodes");
    for (std::size_t i = nodes.size(); i-- > 0;) {
      const Json& node = nodes.at(i);
      const std::string op = bare_target(node.at("target").get<std::string>());
      const auto row = std::ranges::find(kIndexRows, op, &IndexRow::op);
      if (row != std::end(kIndexRows)) bound_index(node, *row);
      for (const Json& output : node.at("outputs")) {
        const auto bound = bounds_.find(tensor_name(output));
        if (bound == bounds_.end() || node.at("inputs").empty()) continue;
        bound_by(tensor_name(node.at("inputs").at(0).at("arg")), bound->second);
      }
    }
  }

  void bound_index(const Json& node, const IndexRow& row) {
    const Json index = argument_of(node, row.index), of = argument_of(node, row.of);
    const std::string points_into = tensor_name(of);
    if (points_into.empty()) return;
    const Json& sizes = meta_of(points_into).at("sizes");
    std::int64_t dim = row.dim;
    if (dim == kByArgument) {
      const Json named = argument_of(node, "dim");
      dim = named.contains("as_int") ? integer_of<std::int64_t>(named.at("as_int")) : 0;
      if (dim < 0) dim += static_cast<std::int64_t>(sizes.size());
    }
    dim = std::min(dim, static_cast<std::int64_t>(sizes.size()) - 1);
    if (dim >= 0) bound_by(tensor_name(index), size_of(sizes.at(static_cast<std::size_t>(dim))));
  }

  void bound_by(const std::string& name, std::int64_t bound) {
    if (name.empty() || bound < 1) return;
    const auto [known, fresh] = bounds_.emplace(name, bound);
    if (!fresh) known->second = std::min(known->second, bound);
  }

  static std::string tensor_name(const Json& argument) {
    if (!argument.is_object() || !argument.contains("as_tensor")) return "";
    return argument.at("as_tensor").at("name").get<std::string>();
  }

  static Json argument_of(const Json& node, std::string_view name) {
    for (const Json& input : node.at("inputs")) {
      if (input.at("name") == name) return input.at("arg");
    }
    return Json::object();
  }

  static std::string bare_target(const std::string& target) {
    const std::vector<std::string> parts = parts_of(target, '.');
    return parts.size() > 3 ? parts[3] : "";
  }

  void read_input(const Json& spec) {
    const auto [kind, given] = only(spec);
    at_ = "input: ";
    if (kind == "constant_input" || kind == "token") return;
    const Json& argument = given->at("arg");
    if (kind == "user_input") {
      const std::string name = tensor_name(argument);
      // Numbers are written down where they are used.
      if (!name.empty()) give_formula(name);
      return;
    }
    static const std::map<std::string, const char*> kStored = {
        {"parameter", "parameter_name"},
        {"buffer", "buffer_name"},
        {"tensor_constant", "tensor_constant_name"}};
    const auto stored = kStored.find(kind);
    if (stored == kStored.end()) {
      fail(ErrorKind::kUnsupported, Fix{"make it a tensor of the module"},
           "an input of the kind {} is not read", kind);
    }
    give_stored(argument.at("name").get<std::string>(),
                given->at(stored->second).get<std::string>(), kind == "parameter");
  }

  void give(const std::string& name, Json event, bool state) {
    const std::size_t number = values_++;
    event["k"] = "input";
    event["v"] = number;
    known_[name] = {.number = number, .state = state};
    emit(event);
  }

  void give_formula(const std::string& name) {
    Json event = described(name);
    event["name"] = name;
    event["open"] = true;
    const DType dtype = *parse_dtype(event.at("dtype").get<std::string>());
    event["fill"] = {{"seed", formulas_++}};
    if (is_integral(dtype) && dtype != DType::kBool) {
      constexpr std::int64_t kFlags = 2;
      const auto bound = bounds_.find(name);
      event["fill"]["mod"] = bound == bounds_.end() ? kFlags : bound->second;
    } else if (dtype != DType::kBool) {
      event["fill"]["bias"] = 0.0;
      event["fill"]["scale"] = 1.0;
    }
    event["batch"] = is_batch(name);
    give(name, std::move(event), false);
  }

  // Its first dim is that of the first input.
  bool is_batch(const std::string& name) {
    const Json& sizes = meta_of(name).at("sizes");
    if (sizes.empty()) return false;
    if (batch_.is_null()) batch_ = sizes.at(0);
    return sizes.at(0) == batch_;
  }

  void give_stored(const std::string& name, const std::string& of, bool parameter) {
    at_ = fmt::format("{}: ", of);
    const auto found = stored_.find(of);
    if (found == stored_.end()) fail(ErrorKind::kValue, "its elements are not in the archive");
    const Json& entry = found->second;
    if (entry.value("use_pickle", false)) {
      fail(ErrorKind::kUnsupported, Fix{"make it a tensor without a class of its own"},
           "its elements are a pickle");
    }
    Json event = described(name);
    event["name"] = of;
    if (parameter) event["requires_grad"] = meta_of(name).value("requires_grad", true);
    // Weights that are tied are one tensor.
    const std::string place = json_line({entry.at("file"), entry.at("tensor_meta")});
    if (const auto tied = tied_.find(place); tied != tied_.end()) {
      known_[name] = known_.at(tied->second);
      return;
    }
    tied_.emplace(place, name);
    event["raw"] = elements_of(entry, event);
    event.erase("stride");
    give(name, std::move(event), true);
  }

  // The place of the elements, row-major: in the archive, or put in order behind it.
  Json elements_of(const Json& entry, const Json& event) {
    const Json& meta = entry.at("tensor_meta");
    std::vector<std::int64_t> sizes, strides;
    for (const Json& size : meta.at("sizes")) sizes.push_back(size_of(size));
    for (const Json& stride : meta.at("strides")) strides.push_back(size_of(stride));
    const bool same = event.at("shape") == Json(sizes) && sizes.size() == strides.size() &&
                      event.at("dtype") == dtype_name(meta.at("dtype"));
    if (!same) fail(ErrorKind::kValue, "its elements have another type than the program says");
    const std::int64_t bytes = item_bytes(*parse_dtype(event.at("dtype").get<std::string>()));
    const auto file = files_.elements.find(entry.at("file").get<std::string>());
    if (file == files_.elements.end()) {
      fail(ErrorKind::kValue, "{} is not in the archive", entry.at("file").dump());
    }
    const auto [begin, size] = file->second;
    const std::int64_t offset = size_of(meta.at("storage_offset"));
    std::int64_t count = 1, last = offset;
    bool fits = offset >= 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      std::int64_t reach = 0;
      fits = fits && sizes[i] >= 0 && strides[i] >= 0 &&
             !__builtin_mul_overflow(count, sizes[i], &count) &&
             !__builtin_mul_overflow(std::max<std::int64_t>(sizes[i], 1) - 1, strides[i], &reach) &&
             !__builtin_add_overflow(last, reach, &last);
    }
    const auto held = static_cast<std::int64_t>(size) / bytes;
    if (!fits || (count > 0 && last >= held)) fail(ErrorKind::kValue, "its file is cut short");
    if (count == 0) return {0, 0};
    const auto first = begin + static_cast<std::size_t>(offset * bytes);
    const auto total = static_cast<std::size_t>(count * bytes);
    if (Json(strides) == contiguous(sizes)) return {first, total};
    // A stride of 0 may make much of little.
    if (count > held) fail(ErrorKind::kValue, "it has more elements than its file");
    const std::size_t ordered = files_.raw.size();
    files_.raw.reserve(ordered + total);
    std::vector<std::int64_t> index(sizes.size(), 0);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t from = 0;
      for (std::size_t dim = 0; dim < index.size(); ++dim) from += index[dim] * strides[dim];
      files_.raw.append(files_.raw, first + static_cast<std::size_t>(from * bytes),
                        static_cast<std::size_t>(bytes));
      for (std::size_t dim = index.size(); dim-- > 0 && ++index[dim] == sizes[dim];) index[dim] = 0;
    }
    return {ordered, total};
  }

  // Calls.

  void read_node(const Json& node) {
    const auto target = node.at("target").get<std::string>();
    const std::string name = node.value("name", Json()).is_string() ? node.at("name") : Json("");
    node_ = &node;
    ++nodes_;
    const std::vector<OpenModule> modules = modules_of(metadata_of(node, "nn_module_stack"));
    const auto place = place_of(metadata_of(node, "stack_trace"));
    at_ = fmt::format("node {}{}{}, {}: ", nodes_, name.empty() ? "" : " " + name,
                      place_text(modules, place), target);
    if (gives_numbers(node) || is_check(target)) return;
    const OpDescriptor& op = op_of(target);
    enter(modules);
    Json event = {{"k", "call"}, {"c", calls_}, {"op", target.substr(target.find('.', 6) + 1)}};
    if (!modules.empty()) event["m"] = modules.back().path;
    if (place) event["p"] = number_of_place(*place);
    read_arguments(node, op, event);
    event["out"] = Json::array();
    for (const Json& output : node.at("outputs")) read_result(output, event["out"]);
    emit(std::move(event));
    ++calls_;
  }

  // A text of the node's metadata; empty if it has none.
  static const std::string& metadata_of(const Json& node, const char* key) {
    static const std::string kNone;
    const auto metadata = node.find("metadata");
    if (metadata == node.end() || !metadata->contains(key)) return kNone;
    return metadata->at(key).get_ref<const std::string&>();
  }

  // Sizes and what is computed of them are known by what they stand for.
  static bool gives_numbers(const Json& node) {
    const Json& outputs = node.at("outputs");
    return !outputs.empty() && std::ranges::all_of(outputs, [](const Json& output) {
      return output.contains("as_sym_int") || output.contains("as_sym_float") ||
             output.contains("as_sym_bool");
    });
  }

  // Says what has to hold of sizes and types, and gives nothing.
  static bool is_check(const std::string& target) {
    return target.starts_with("torch.ops.aten._assert") ||
           target.starts_with("torch.ops.aten.sym_constrain");
  }

  const OpDescriptor& op_of(const std::string& target) {
    const auto known = ops_.find(target);
    if (known != ops_.end()) return known->second;
    const std::vector<std::string> parts = parts_of(target, '.');
    std::string name;
    const bool call = parts.size() == 5 && parts[0] == "torch" && parts[1] == "ops";
    if (call) name = parts[2] + "::" + parts[3] + (parts[4] == "default" ? "" : "." + parts[4]);
    for (const std::string_view schema : aten_schemas_of(name)) {
      if (!call || !schema.starts_with(name + "(")) continue;
      return ops_.emplace(target, parse_literal_schema(schema)).first->second;
    }
    const bool nested = target.starts_with("torch.ops.higher_order.");
    fail(ErrorKind::kUnsupported,
         Fix{nested ? "take with torch.no_grad(), torch.cond and the like out of the forward"
                    : "write it with ops of aten"},
         "{}", nested ? "a program inside of the program is not read" : "no such op here");
  }

  void read_arguments(const Json& node, const OpDescriptor& op, Json& event) {
    std::map<std::string, Json, std::less<>> given;
    for (const Json& input : node.at("inputs")) {
      const auto name = input.at("name").get<std::string>();
      const bool fits = op.find_argument(name) && !given.contains(name);
      if (!fits) fail(ErrorKind::kUnsupported, "the op takes no argument '{}'", name);
      given.emplace(name, argument(name, input.at("arg")));
    }
    event["args"] = Json::array();
    std::vector<Json> skipped;  // defaults of those in front that are not given
    bool by_place = true;
    for (const SchemaArgument& declared : op.arguments) {
      const auto found = given.find(declared.name);
      by_place = by_place && !declared.keyword_only;
      if (found == given.end()) {
        const auto otherwise = default_of(declared);
        by_place = by_place && otherwise.has_value();
        if (by_place) skipped.push_back(*otherwise);
      } else if (by_place) {
        for (Json& value : skipped) event["args"].push_back(std::move(value));
        skipped.clear();
        event["args"].push_back(std::move(found->second));
      } else {
        event["kwargs"][found->first] = std::move(found->second);
      }
    }
  }

  // A default that recordings can say; those of words (a format, a reduction) they cannot.
  static std::optional<Json> default_of(const SchemaArgument& declared) {
    if (!declared.default_text) return std::nullopt;
    std::string text(*declared.default_text);
    if (text == "None") text = "null";
    if (text == "True" || text == "False") text[0] = static_cast<char>(text[0] + ('a' - 'A'));
    Json value = read_json(text);
    if (value.is_discarded()) return std::nullopt;
    return value;
  }

  Json argument(const std::string& name, const Json& given) {
    const auto [kind, held] = only(given);
    const Json& value = *held;
    if (kind == "as_none") return nullptr;
    if (kind == "as_tensor") return operand(value.at("name").get<std::string>());
    if (kind == "as_tensors" || kind == "as_optional_tensors") {
      Json list = Json::array();
      for (const Json& one : value) {
        list.push_back(kind == "as_tensors" ? operand(one.at("name").get<std::string>())
                                            : argument(name, one));
      }
      return list;
    }
    if (kind == "as_optional_tensor") return argument(name, value);
    if (kind == "as_int") return integer_of<std::int64_t>(value);
    if (kind == "as_ints") return integers_of(value);
    if (kind == "as_float") return real_of(value);
    if (kind == "as_floats") {
      Json list = Json::array();
      for (const Json& one : value) list.push_back(real_of(one));
      return list;
    }
    if (kind == "as_bool") return value.get<bool>();
    if (kind == "as_bools") return value.get<std::vector<bool>>();
    if (kind == "as_string") return value.get<std::string>();
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool")
      return symbolic(value);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools") {
      Json list = Json::array();
      for (const Json& one : value) list.push_back(symbolic(one));
      return list;
    }
    if (kind == "as_scalar_type") return {{"dtype", dtype_name(value)}};
    if (kind == "as_memory_format") return {{"memory_format", memory_format_name(value)}};
    if (kind == "as_layout") return {{"layout", "torch.strided"}};
    if (kind == "as_device") return {{"device", "cpu"}};
    if (kind == "as_complex") {
      return {{"complex", {value.at("real").get<double>(), value.at("imag").get<double>()}}};
    }
    fail(ErrorKind::kUnsupported, Fix{"write the call without it"},
         "the argument '{}' is of the kind {}, which is not read", name, kind);
  }

  Json operand(const std::string& name) {
    const auto found = known_.find(name);
    if (found == known_.end()) fail(ErrorKind::kValue, "nothing has given the tensor '{}'", name);
    found->second.last_use = std::max(found->second.last_use, calls_ + 1);
    takes_.emplace_back(calls_, &found->second);
    return {{"v", found->second.number}};
  }

  void read_result(const Json& output, Json& out) {
    const auto [kind, held] = only(output);
    if (kind == "as_tensor") {
      out.push_back(result(held->at("name").get<std::string>()));
    } else if (kind == "as_tensors") {
      for (const Json& one : *held) out.push_back(result(one.at("name").get<std::string>()));
    } else if (kind == "as_none") {
      out.push_back(nullptr);
    } else {
      fail(ErrorKind::kUnsupported, Fix{"write the call without it"},
           "a result of the kind {} is not read", kind);
    }
  }

  Json result(const std::string& name) {
    Json value = described(name);
    value["v"] = values_;
    const auto [known, fresh] = known_.emplace(name, Value{.number = values_, .maker = calls_});
    if (!fresh) fail(ErrorKind::kValue, "'{}' is given twice", name);
    made_.push_back(&known->second);
    ++values_;
    return value;
  }

  // Places and modules.

  // "L__self__,,__main__.M;L__self__l,l,torch.nn.modules.linear.Linear"
  static std::vector<OpenModule> modules_of(const std::string& stack) {
    std::vector<OpenModule> modules;
    for (const std::string& one : parts_of(stack, ';')) {
      const std::vector<std::string> parts = parts_of(one, ',');
      if (parts.size() < 3 || parts[1].empty()) continue;
      modules.push_back({parts[0], parts[1], parts[2].substr(parts[2].rfind('.') + 1)});
    }
    return modules;
  }

  // The deepest line that is not PyTorch's: file and number.
  static std::optional<std::pair<std::string, std::int64_t>> place_of(const std::string& trace) {
    constexpr std::string_view kFile = "File \"", kLine = "\", line ";
    std::optional<std::pair<std::string, std::int64_t>> place;
    for (std::size_t at = 0; (at = trace.find(kFile, at)) != std::string::npos; ++at) {
      const std::size_t begin = at + kFile.size(), end = trace.find(kLine, begin);
      if (end == std::string::npos) break;
      const std::string path = trace.substr(begin, end - begin);
      if (path.find("/torch/") != std::string::npos) continue;
      std::int64_t line = 0;
      for (std::size_t i = end + kLine.size(); i < trace.size() && line < 100'000'000; ++i) {
        if (trace[i] < '0' || trace[i] > '9') break;
        line = line * 10 + (trace[i] - '0');
      }
      place = {path.substr(path.rfind('/') + 1), line};
    }
    return place;
  }

  static std::string place_text(const std::vector<OpenModule>& modules,
                                const std::optional<std::pair<std::string, std::int64_t>>& place) {
    std::string text = modules.empty() ? "" : modules.back().path;
    if (place) {
      text += fmt::format("{}{}:{}", text.empty() ? "" : "  ", place->first, place->second);
    }
    return text.empty() ? "" : " (" + text + ")";
  }

  std::size_t number_of_place(const std::pair<std::string, std::int64_t>& place) {
    const auto [found, fresh] = places_.emplace(place, places_.size());
    if (fresh) {
      emit({{"k", "place"}, {"p", found->second}, {"file", place.first}, {"line", place.second}});
    }
    return found->second;
  }

  // Modules that the next call is not in have ended, and those that it is in have begun.
  void enter(const std::vector<OpenModule>& modules) {
    std::size_t same = 0;
    while (same < open_.size() && same < modules.size() && open_[same].key == modules[same].key &&
           open_[same].path == modules[same].path) {
      ++same;
    }
    while (open_.size() > same) leave();
    for (; same < modules.size(); ++same) {
      open_.push_back(modules[same]);
      open_.back().first = calls_;
    }
  }

  void leave() {
    closed_.emplace_back(std::move(open_.back()), calls_);
    open_.pop_back();
  }

  // A module takes what comes into its calls from outside, and gives what of theirs is taken there.
  void write_modules() {
    while (!open_.empty()) leave();
    for (const auto& [module, end] : closed_) {
      Json in = Json::array(), out = Json::array();
      const auto from = std::ranges::lower_bound(takes_, module.first, {}, &Take::first);
      for (auto take = from; take != takes_.end() && take->first < end; ++take) {
        const Value& value = *take->second;
        const bool outside = value.maker == kGiven || value.maker < module.first;
        if (!outside || value.state) continue;
        if (std::ranges::find(in, Json(value.number)) == in.end()) in.push_back(value.number);
      }
      const auto maker = [](const Value* value) { return value->maker; };
      const auto made = std::ranges::lower_bound(made_, module.first, {}, maker);
      for (auto value = made; value != made_.end() && maker(*value) < end; ++value) {
        if ((*value)->last_use > end) out.push_back((*value)->number);
      }
      emit({{"k", "module"},
            {"m", module.path},
            {"class", module.type},
            {"in", std::move(in)},
            {"out", std::move(out)},
            {"c", {module.first, end}}});
    }
  }

  // The end.

  void read_outputs(const Json& signature) {
    for (const Json& spec : signature.at("output_specs")) {
      const auto [kind, held] = only(spec);
      if (kind != "user_output" && kind != "loss_output") continue;
      const Json& argument = held->at("arg");
      const std::string name =
          kind == "user_output" ? tensor_name(argument) : argument.at("name").get<std::string>();
      if (name.empty()) continue;
      const auto found = known_.find(name);
      if (found == known_.end()) fail(ErrorKind::kValue, "nothing has given '{}'", name);
      found->second.last_use = kGiven;
      outputs_.push_back(name);
    }
  }

  // A sum of its elements where the output is no number.
  void write_backward() {
    const std::string& of = options_.backward;
    if (of.empty()) return;
    at_.clear();
    const auto named = std::ranges::find(outputs_, of);
    if (named == outputs_.end()) {
      refuse(ErrorKind::kValue, fmt::format("--backward {}: no output is called so", of),
             suggest(of, outputs_));
    }
    const Json value = described(of);
    const DType dtype = *parse_dtype(value.at("dtype").get<std::string>());
    if (!is_floating(dtype)) {
      refuse(ErrorKind::kValue, fmt::format("--backward {}: it holds no real numbers", of),
             "name another output");
    }
    const std::size_t number = known_.at(of).number;
    Json backward = {{"k", "backward"}, {"of", Json::array({number})}};
    if (!value.at("shape").empty()) {
      Json ones = value;
      ones["v"] = values_;
      ones.erase("stride");
      emit({{"k", "call"},
            {"c", calls_},
            {"op", "aten.ones_like.default"},
            {"args", {{{"v", number}}}},
            {"out", Json::array({ones})}});
      backward["grads"] = Json::array({values_++});
    }
    emit(backward);
  }

  void write_head() {
    Json sizes = symbols_;
    for (auto& [symbol, known] : sizes.items()) {
      if (sizes_.contains(symbol)) known["is"] = sizes_.at(symbol);
    }
    emit({{"k", "program"},
          {"form", "recording"},
          {"schema", 2},
          {"program", files_.name},
          {"torch",
           file_.value("torch_version", Json()).is_string() ? file_.at("torch_version") : Json("")},
          {"exported", true},
          {"sizes", sizes.is_null() ? Json::object() : sizes}});
  }

  void write_end() {
    Json outputs = Json::array();
    for (const std::string& name : outputs_) {
      outputs.push_back({{"name", name}, {"v", known_.at(name).number}});
    }
    emit({{"k", "end"},
          {"events", step_.events.size()},
          {"n_values", values_},
          {"raw", files_.raw.size()},
          {"outputs", std::move(outputs)}});
  }

  void emit(Json event) {
    make_natural(event);
    step_.events.push_back(std::move(event));
  }

  // Counts are unsigned, as where they are read from text.
  static void make_natural(Json& json) {
    if (json.is_structured()) {
      for (Json& item : json) make_natural(item);
    } else if (json.is_number_integer() && !json.is_number_unsigned()) {
      const auto number = json.get<std::int64_t>();
      if (number >= 0) json = static_cast<std::uint64_t>(number);
    }
  }

  using Take = std::pair<std::size_t, const Value*>;  // a call takes a tensor

  ExportedFiles files_;
  const ExportOptions& options_;
  StepFile step_;
  Json file_;
  const Json* graph_ = nullptr;
  const Json* node_ = nullptr;
  std::string at_;  // the part that is being read, for messages
  bool reported_ = false;
  std::map<std::string, Json> symbols_;                  // known facts of a size
  std::map<std::string, std::int64_t> sizes_;            // the size itself
  std::unordered_map<std::string, std::int64_t> texts_;  // sizes that were read
  std::map<std::string, Json> stored_;                   // entries of configs, by name
  std::map<std::string, std::string> tied_;              // by place in the archive
  std::map<std::string, std::int64_t> bounds_;           // of indices, by tensor
  std::unordered_map<std::string, Value> known_;         // tensors by name
  std::vector<const Value*> made_;                       // by calls, in their order
  std::vector<Take> takes_;                              // in the order of calls
  std::map<std::string, OpDescriptor> ops_;              // by target
  std::map<std::pair<std::string, std::int64_t>, std::size_t> places_;
  std::vector<OpenModule> open_;
  std::vector<std::pair<OpenModule, std::size_t>> closed_;  // and one past the last call
  std::vector<std::string> outputs_;
  Json batch_;  // the first dim of the first input
  std::size_t values_ = 0, calls_ = 0, nodes_ = 0, formulas_ = 0;
};

}  // namespace

ExportedFiles open_exported(const std::string& path, std::string bytes) {
  ZipArchive archive(path, std::move(bytes));
  ExportedFiles files{
      .path = path, .name = {}, .program = {}, .configs = {}, .elements = {}, .raw = {}};
  std::string folder;
  for (const auto& [name, range] : archive.files()) {
    const std::size_t models = name.find("models/");
    const bool program = name.ends_with(".json") && models != std::string::npos &&
                         name.find('/', models + 7) == std::string::npos;
    if (!program) continue;
    folder = name.substr(0, models);
    files.program = archive.text(range);
    files.name = name.substr(models + 7, name.size() - models - 7 - 5);
  }
  if (files.program.empty()) {
    const bool older = archive.files().contains("serialized_exported_program.json");
    fail(older ? ErrorKind::kUnsupported : ErrorKind::kValue,
         Fix{older ? "export it with PyTorch 2.8 or later" : std::string(kExportAgain)}, "{}: {}",
         path,
         older ? "the weights of this program are a pickle, which is not read"
               : "an archive, and no program of torch.export in it");
  }
  const std::string data = folder + "data/";
  for (const auto& [name, range] : archive.files()) {
    if (name == folder + "byteorder" && archive.text(range) != "little") {
      fail(ErrorKind::kUnsupported, Fix{"export it on a machine of the other kind"},
           "{}: its elements are big-endian", path);
    }
    if (!name.starts_with(data)) continue;
    if (name.ends_with(files.name + "_weights_config.json") ||
        name.ends_with(files.name + "_constants_config.json")) {
      files.configs[name] = archive.text(range);
    } else {
      files.elements[name] = {range.begin, range.size};
    }
  }
  if (!folder.empty()) files.name = folder.substr(0, folder.size() - 1);
  files.raw = std::move(archive).take();
  return files;
}

StepFile step_of_exported(ExportedFiles files, const ExportOptions& options) {
  return ExportReader(std::move(files), options).read();
}

}  // namespace shardlab
