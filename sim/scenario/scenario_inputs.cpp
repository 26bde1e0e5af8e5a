// [inputs]: types, and the sources of elements.
#include <algorithm>
#include <cctype>

#include "api/inputs.h"
#include "base/text.h"
#include "sim/checkpoint/checkpoint.h"
#include "sim/language/syntax/parser.h"
#include "sim/scenario/checkpoint_input.h"
#include "sim/scenario/recorded_tensors.h"
#include "sim/scenario/scenario_parts.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

const std::vector<std::string>& reserved_names() {
  static const std::vector<std::string> kNames = {"mesh", "rank", "world_size", "torch", "F",
                                                  "aten", "R",    "S",          "P"};
  return kNames;
}

Scalar scalar_of(const Number& number) {
  return std::visit([](auto value) { return Scalar(value); }, number);
}

bool draws_reals(const ScenarioInput& input) {
  return input.recipe.init == "randn" || input.recipe.init == "rand";
}

class InputReader {
 public:
  InputReader(const Environment& environment, RecordedTensors& tensors,
              CheckpointInputs& checkpoints)
      : environment_(environment), tensors_(tensors), checkpoints_(checkpoints) {}

  ScenarioInput read(const TomlEntry& entry) {
    input_.name = entry.key;
    input_.where = entry.where;
    check_identifier(input_.where, entry.key, "an input");
    const auto& reserved = reserved_names();
    if (std::find(reserved.begin(), reserved.end(), entry.key) != reserved.end()) {
      input_.where.refuse(fmt::format("'{}' already means something in programs", entry.key),
                          "rename the input");
    }
    if (const auto* text = std::get_if<SourcePtr>(&entry.value.value)) {
      read_type(*text);
      return std::move(input_);
    }
    if (!std::holds_alternative<TomlTable>(entry.value.value)) {
      refuse_kind(entry.value, entry.key, "a type string or a table");
    }
    read_section(section_of(entry, fmt::format("input '{}'", entry.key)));
    return std::move(input_);
  }

 private:
  void read_type(const SourcePtr& text) {
    input_.type = resolve_type(text, environment_);
    if (!input_.type.mesh.empty()) {
      refuse(*text, {0, static_cast<std::uint32_t>(text->text().size())},
             "an input is on the scenario's mesh",
             "leave the mesh out, and move it in the program");
    }
    if (!input_.type.dtype) {
      refuse(*text, {0, 0}, "the type of an input needs a dtype", "write f32[...]");
    }
  }

  void read_section(const TomlSection& section) {
    section.check_keys(
        {"type", "init", "scale", "values", "file", "tensor", "requires_grad", "dynamic"});
    const TomlEntry* type = section.find("type");
    if (type == nullptr) {
      section.where.refuse(fmt::format("{} has no type", section.name), "add type = \"f32[...]\"");
    }
    read_type(read_text(*type));
    refuse_two_sources(section);
    if (const TomlEntry* init = section.find("init")) read_init(read_text(*init));
    if (const TomlEntry* values = section.find("values")) read_values(*values);
    const TomlEntry* file = section.find("file");
    if (const TomlEntry* tensor = section.find("tensor"); tensor != nullptr && file == nullptr) {
      tensor->where.refuse(fmt::format("{} names a tensor of no file", section.name),
                           "add file = \"model.safetensors\", or \"step.json.gz\"");
    }
    if (file != nullptr) {
      input_.recipe.init = "values";
      input_.file = read_text(*file)->text();
      const TomlEntry* tensor = section.find("tensor");
      const std::string path = path_in_folder_of(input_.where.source->file(), input_.file);
      const std::string name = tensor == nullptr ? "" : read_text(*tensor)->text();
      if (tensor == nullptr || (!path.ends_with(".pt2") && Checkpoint::is_one(path))) {
        checkpoints_.read(path, name, input_);
      } else {
        tensors_.read(path, name, input_);
      }
    }
    if (const TomlEntry* scale = section.find("scale")) {
      input_.recipe.scale = scalar(*scale).to_double();
    }
    if (const TomlEntry* dynamic = section.find("dynamic")) read_dynamic(section, *dynamic);
    if (const TomlEntry* grad = section.find("requires_grad")) {
      input_.requires_grad = read_bool(*grad);
      const bool floating = is_floating(*input_.type.dtype) || is_complex(*input_.type.dtype);
      if (input_.requires_grad && !floating) {
        grad->value.where.refuse(
            "the input requires a gradient, but is neither floating nor complex",
            "leave requires_grad out, or give the input a floating dtype");
      }
    }
  }

  // Reads what trace(f, dynamic={"x": 0}) takes: a dim, a list of dims, or true for all dims with a
  // param in their size.
  void read_dynamic(const TomlSection& section, const TomlEntry& entry) {
    const auto ndim = static_cast<std::int64_t>(input_.type.sizes.size());
    std::vector<std::int64_t> given;
    std::vector<std::int64_t>& dynamic = input_.recipe.dynamic;
    if (const auto* all = std::get_if<bool>(&entry.value.value)) {
      for (std::int64_t dim = 0; *all && dim < ndim; ++dim) {
        if (!names_in(input_.type.written[at(dim)]).empty()) given.push_back(dim);
      }
    } else if (const auto* items = std::get_if<std::vector<TomlValue>>(&entry.value.value)) {
      for (const TomlValue& item : *items) given.push_back(dim_of(item));
    } else {
      given.push_back(dim_of(entry.value));
    }
    for (const std::int64_t dim : given) {
      if (dim < -ndim || dim >= ndim) {
        entry.value.where.refuse(
            fmt::format("{} has no dim {}: it has {}", section.name, dim, ndim),
            "count dims from 0");
      }
      dynamic.push_back(dim < 0 ? dim + ndim : dim);
    }
    std::ranges::sort(dynamic);
    dynamic.erase(std::unique(dynamic.begin(), dynamic.end()), dynamic.end());
    if (!lists_values(input_.recipe) || dynamic.empty()) return;
    entry.value.where.refuse(
        fmt::format("{} has dynamic dims and lists its values", section.name),
        "give it an init, as randn or arange, which has values for every size");
  }

  std::int64_t dim_of(const TomlValue& value) const {
    if (const auto* dim = std::get_if<std::int64_t>(&value.value)) return *dim;
    refuse_kind(value, "dynamic", "a dim, a list of dims, or true");
  }

  static std::size_t at(std::int64_t dim) { return static_cast<std::size_t>(dim); }

  void draws_with(std::string_view expression) {
    for (std::string& name : names_in(expression)) input_.drawn_with.push_back(std::move(name));
  }

  // A number, or an expression over params.
  Scalar scalar(const TomlEntry& entry) {
    if (const auto* text = std::get_if<SourcePtr>(&entry.value.value)) {
      draws_with((*text)->text());
      const auto end = static_cast<std::uint32_t>((*text)->text().size());
      return scalar_of(evaluate_number(**text, {0, end}, environment_));
    }
    return scalar_of(read_number(entry));
  }

  void refuse_two_sources(const TomlSection& section) const {
    const TomlEntry* first = nullptr;
    for (const char* key : {"init", "values", "file"}) {
      const TomlEntry* entry = section.find(key);
      if (entry == nullptr) continue;
      if (first != nullptr) {
        entry->where.refuse(fmt::format("{} has both '{}' and '{}'", section.name, first->key, key),
                            "keep one");
      }
      first = entry;
    }
  }

  void read_init(const SourcePtr& text) {
    const ast::ExpressionPtr expression = parse_expression(*text);
    const ast::Expression* called = expression.get();
    const auto* call = std::get_if<ast::Call>(&expression->node);
    if (call != nullptr) called = call->function.get();
    const auto* name = std::get_if<ast::Name>(&called->node);
    const InputInit* init = name == nullptr ? nullptr : find_input_init(name->id);
    if (init == nullptr) refuse_init(*text, called->span);
    std::vector<Scalar>& arguments = input_.recipe.arguments;
    if (call != nullptr) {
      for (const ast::CallArgument& argument : call->arguments) {
        if (!argument.keyword.empty() || argument.starred) {
          refuse(*text, argument.span, "only positional arguments here",
                 "leave the name out: full(0.5)");
        }
        const SourceSpan span = argument.value->span;
        draws_with(text->text(span));
        arguments.push_back(scalar_of(evaluate_number(*text, span, environment_)));
      }
    }
    const std::size_t given = arguments.size();
    if (given < init->fewest || given > init->most) {
      refuse(*text, expression->span,
             fmt::format("{} takes {} arguments, not {}", init->name,
                         init->fewest == init->most
                             ? fmt::format("{}", init->most)
                             : fmt::format("{} or {}", init->fewest, init->most),
                         given),
             fmt::format("write {}{}", init->name,
                         init->fewest == 0   ? ""
                         : init->fewest == 1 ? "(1)"
                                             : "(0, 1)"));
    }
    input_.recipe.init = init->name;
    check_init(*text, expression->span);
  }

  [[noreturn]] static void refuse_init(const SourceText& text, SourceSpan span) {
    std::vector<std::string> known;
    for (const InputInit& init : input_inits()) known.emplace_back(init.name);
    refuse(text, span, fmt::format("unknown init '{}'", text.text(span)),
           suggest(text.text(span), known));
  }

  void check_init(const SourceText& text, SourceSpan span) const {
    const bool floating = is_floating(*input_.type.dtype) || is_complex(*input_.type.dtype);
    if (draws_reals(input_) && !floating) {
      refuse(text, span, fmt::format("{} needs a floating dtype", text.text(span)),
             "use randint(low, high), arange, zeros, ones or values");
    }
    if (input_.recipe.init == "eye" && input_.type.sizes.size() != 2) {
      refuse(text, span, "eye needs a matrix", "give the type two dims");
    }
    if (input_.recipe.init != "randint") return;
    if (!(input_.recipe.arguments[0].to_double() < input_.recipe.arguments[1].to_double())) {
      refuse(text, span, "randint: low must be less than high",
             "write the smaller number first: randint(0, 10)");
    }
  }

  void read_values(const TomlEntry& entry) {
    input_.recipe.init = "values";
    flatten(entry.value, 0);
  }

  void flatten(const TomlValue& value, std::size_t depth) {
    const auto& sizes = input_.type.sizes;
    if (depth == sizes.size()) {
      if (const auto* flag = std::get_if<bool>(&value.value)) {
        input_.recipe.values.emplace_back(std::int64_t{*flag ? 1 : 0});
      } else if (const auto* integer = std::get_if<std::int64_t>(&value.value)) {
        input_.recipe.values.emplace_back(*integer);
      } else if (const auto* real = std::get_if<double>(&value.value)) {
        check_real(value);
        input_.recipe.values.emplace_back(*real);
      } else {
        refuse_kind(value, "values", "a number");
      }
      return;
    }
    const auto* items = std::get_if<std::vector<TomlValue>>(&value.value);
    if (items == nullptr) {
      refuse_kind(value, "values", fmt::format("an array for tensor dim {}", depth));
    }
    if (static_cast<std::int64_t>(items->size()) != sizes[depth]) {
      value.where.refuse(fmt::format("{} values along tensor dim {} of size {}", items->size(),
                                     depth, sizes[depth]),
                         "nest the values like the shape");
    }
    for (const TomlValue& item : *items) flatten(item, depth + 1);
  }

  void check_real(const TomlValue& value) const {
    if (!is_integral(*input_.type.dtype)) return;
    value.where.refuse(
        fmt::format("a value is a float, the input's dtype is {}", to_string(*input_.type.dtype)),
        "write integers, or give the input a floating dtype");
  }

  const Environment& environment_;
  RecordedTensors& tensors_;
  CheckpointInputs& checkpoints_;
  ScenarioInput input_;
};

// randn is the default, which integers do not have.
void check_default(const ScenarioInput& input) {
  if (!draws_reals(input) || !is_integral(*input.type.dtype)) return;
  input.where.refuse(
      fmt::format("input '{}' is {} and says no values", input.name, to_string(*input.type.dtype)),
      fmt::format("write {} = {{ type = \"{}\", init = \"arange\" }}", input.name,
                  input.type.text->text()));
}

}  // namespace

std::vector<ScenarioInput> read_inputs(const TomlSection& root, const Environment& environment) {
  std::vector<ScenarioInput> out;
  const TomlEntry* entry = root.find("inputs");
  if (entry == nullptr) return out;
  RecordedTensors tensors;
  CheckpointInputs checkpoints;
  for (const TomlEntry& input : read_table(*entry)) {
    out.push_back(InputReader(environment, tensors, checkpoints).read(input));
    check_default(out.back());
  }
  return out;
}

std::vector<std::string> names_in(std::string_view expression) {
  const auto part = [](char c, bool first) {
    return c == '_' || std::isalpha(static_cast<unsigned char>(c)) != 0 ||
           (!first && std::isdigit(static_cast<unsigned char>(c)) != 0);
  };
  std::vector<std::string> names;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    if (!part(expression[i], true)) continue;
    const std::size_t begin = i;
    while (i < expression.size() && part(expression[i], false)) ++i;
    names.emplace_back(expression.substr(begin, i - begin));
  }
  return names;
}

bool is_dynamic(const Scenario& scenario) {
  return std::ranges::any_of(
      scenario.inputs, [](const ScenarioInput& input) { return !input.recipe.dynamic.empty(); });
}

std::vector<std::pair<std::string, std::int64_t>> size_params(const Scenario& scenario) {
  std::vector<std::pair<std::string, std::int64_t>> sizes;
  for (const auto& [name, value] : scenario.params) {
    const auto* number = std::get_if<std::int64_t>(&value);
    // Clang before 16 captures no structured binding that is not named again.
    const auto sized_by = [&name = name](const ScenarioInput& input) {
      return std::ranges::any_of(input.type.written, [&](const std::string& text) {
        return std::ranges::count(names_in(text), name) > 0;
      });
    };
    if (number != nullptr && std::ranges::any_of(scenario.inputs, sized_by)) {
      sizes.emplace_back(name, *number);
    }
  }
  return sizes;
}

}  // namespace shardlab
