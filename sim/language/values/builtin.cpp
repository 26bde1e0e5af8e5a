// Finding built-in functions, and reading their arguments: positional ones by place, keywords by
// name, and for each mistake an error with the function's name and parameters.
#include "sim/language/values/builtin.h"

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "sim/language/values/object.h"

namespace shardlab {

Signature::Signature(std::string_view text) : function(text.substr(0, text.find('('))) {
  const std::string_view inside = text.substr(function.size() + 1);
  for (std::size_t at = 0, end = 0; at + 1 < inside.size(); at = end + 2) {
    end = std::min(inside.find(", ", at), inside.size() - 1);
    parameters.push_back(inside.substr(at, end - at));
  }
  keeps_others = !parameters.empty() && parameters.back() == "**";
  if (keeps_others) parameters.pop_back();
}

Builtin::Builtin(std::string own_name, std::string_view signature, OnParameters run, Member used)
    : name(std::move(own_name)), member(used), on_parameters_(run) {
  if (const std::size_t end = signature.find(": ("); end != signature.npos) {
    owner_ = signature.substr(0, end);
    signature.remove_prefix(end + 2);
  }
  signature_ = Signature(signature);
}

Value Builtin::run(Interpreter& interpreter, const Value* self, CallValues call) const {
  if (on_values_ != nullptr) return on_values_(interpreter, self, std::move(call));
  const std::string_view kind = owner_.empty() ? "" : kind_name(*self);
  if (owner_.find(kind == "str" ? "string" : kind) == owner_.npos) {
    fail(Fix{fmt::format("use it on {}", owner_)}, "{} has no '{}'", a_kind(*self), name);
  }
  return on_parameters_(interpreter, self, {signature_, std::move(call), name});
}

const Builtin* find_builtin(BuiltinTable table, std::string_view name) {
  const auto found =
      std::ranges::find_if(table, [&](const Builtin& builtin) { return builtin.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::span<const BuiltinTable> function_tables() {
  static const BuiltinTable kTables[] = {
      python_builtins(),     distributed_builtins(), placement_builtins(), parallel_builtins(),
      collective_builtins(), group_builtins(),       factory_builtins(),   assert_builtins(),
      context_builtins(),    trace_builtins(),       inquiry_builtins(),   functools_builtins(),
      text_builtins(),       mesh_builtins(),        norm_builtins(),      checkpoint_builtins(),
      funcol_builtins()};  // names of earlier ones win
  return kTables;
}

std::span<const BuiltinTable> member_tables() {
  static const BuiltinTable kTables[] = {tensor_methods(),
                                         container_methods(),
                                         mesh_methods(),
                                         placement_methods(),
                                         group_methods(),
                                         function_methods(),
                                         function_class_methods(),
                                         handle_methods(),
                                         function_context_methods(),
                                         debug_mode_methods(),
                                         traced_methods(),
                                         generator_methods(),
                                         work_methods()};
  return kTables;
}

BuiltinTable members_of(const Value& object) {
  if (object.is_tensor()) return tensor_methods();
  if (object.is<MeshValue>()) return mesh_methods();
  if (object.is<Placement>()) return placement_methods();
  if (object.is<GroupValue>()) return group_methods();
  if (object.is<FunctionValue>()) return function_methods();
  if (const auto* other = object.get<ObjectValue>()) return other->object->members();
  return container_methods();
}

const Builtin* find_function(std::string_view name) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const Builtin*> by_name;
    for (const BuiltinTable table : function_tables()) {
      for (const Builtin& function : table) by_name.emplace(function.name, &function);
    }
    return by_name;
  }();
  const auto found = kByName.find(name);
  return found == kByName.end() ? nullptr : found->second;
}

namespace {

bool may_be_left_out(std::string_view name) { return name.ends_with('='); }
std::string_view plain(std::string_view name) {
  return may_be_left_out(name) ? name.substr(0, name.size() - 1) : name;
}

// "f(t, mesh=...)"
std::string usage(std::string_view function, const std::vector<std::string_view>& names) {
  std::vector<std::string> written;
  for (const std::string_view name : names) {
    written.push_back(fmt::format("{}{}", name, may_be_left_out(name) ? "..." : ""));
  }
  return fmt::format("call it as {}({})", function, text_of_list(written, ", "));
}

}  // namespace

Parameters::Parameters(const Signature& signature, CallValues call, std::string_view otherwise)
    : function_(signature.function.empty() ? otherwise : signature.function) {
  const std::vector<std::string_view>& names = signature.parameters;
  if (call.positional.size() > names.size()) {
    fail(Fix{usage(function_, names)}, "{}: the number of arguments is {}, and it takes at most {}",
         function_, call.positional.size(), names.size());
  }
  given_.reserve(names.size());
  for (std::size_t i = 0; i < call.positional.size(); ++i) {
    given_.emplace_back(plain(names[i]), std::move(call.positional[i]));
  }
  for (auto& [keyword, value] : call.keywords) {
    const auto name = std::ranges::find(names, keyword, plain);
    // redistribute(t, x=S(0)) on a mesh dim x: the first parameter is given already, so x is the
    // mesh dim.
    const bool another = name == names.end() || given(plain(*name));
    if (another && signature.keeps_others) {
      others_.emplace_back(keyword, std::move(value));
      continue;
    }
    if (name == names.end()) {
      std::vector<std::string> known;
      for (const std::string_view candidate : names) known.emplace_back(plain(candidate));
      fail(Fix{suggest(keyword, known)}, "{}: unknown argument '{}'", function_, keyword);
    }
    if (given(plain(*name))) {
      fail(Fix{"leave one of them out"}, "{}: argument '{}' is given twice", function_, keyword);
    }
    given_.emplace_back(plain(*name), std::move(value));
  }
  for (const std::string_view name : names) {
    if (!may_be_left_out(name) && !given(plain(name))) {
      fail(Fix{usage(function_, names)}, "{}: argument '{}' is missing", function_, name);
    }
  }
}

const Value& Parameters::operator[](std::string_view name) const {
  static const Value kNone;
  for (const auto& [key, value] : given_) {
    if (key == name) return value;
  }
  return kNone;
}

bool Parameters::given(std::string_view name) const {
  return std::ranges::any_of(given_, [&](const auto& entry) { return entry.first == name; });
}

bool Parameters::has(std::string_view name) const { return !(*this)[name].is_none(); }

void Parameters::refuse(std::string_view name, std::string_view wanted,
                        std::string_view example) const {
  const Value& value = (*this)[name];
  const std::string what =
      value.is_none() ? a_kind(value) : fmt::format("{}, {}", a_kind(value), repr(value));
  fail(Fix{fmt::format("write for example {}={}", name, example)},
       "{}: argument '{}' is {}, not {}", function_, name, what, wanted);
}

DTensor Parameters::tensor(std::string_view name) const {
  const Value& value = (*this)[name];
  if (const auto* tensor = value.get<DTensor>()) return *tensor;
  const auto* none = value.get<ast::None>();
  if (given(name) && none != nullptr && !none->from.empty()) {
    fail(Fix{"go on with the tensor that the call wrote"}, "{}: argument '{}' is {}, not a tensor",
         function_, name, a_kind(value));
  }
  if (given(name) && none != nullptr) {
    fail(Fix{"if it is a gradient: there is none before backward(), and only of leaves, of which a "
             "w.to_local() is none; w.grad.to_local() is its piece"},
         "{}: argument '{}' is None, not a tensor", function_, name);
  }
  refuse(name, "a tensor", "x");
}

std::int64_t Parameters::integer(std::string_view name) const {
  if (const auto* integer = (*this)[name].get<std::int64_t>()) return *integer;
  refuse(name, "an int", "1");
}

std::int64_t Parameters::integer_or(std::string_view name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}

double Parameters::number(std::string_view name) const {
  const Value& value = (*this)[name];
  if (value.is_number()) return to_double(number_of(value));
  refuse(name, "a number", "0.5");
}

bool Parameters::flag_or(std::string_view name, bool otherwise) const {
  if (!has(name)) return otherwise;
  if (const auto* flag = (*this)[name].get<bool>()) return *flag;
  refuse(name, "True or False", "True");
}

std::string Parameters::text(std::string_view name) const {
  if (const auto* text = (*this)[name].get<std::string>()) return *text;
  refuse(name, "a string", "\"text\"");
}

std::string Parameters::text_or(std::string_view name, std::string otherwise) const {
  return has(name) ? text(name) : otherwise;
}

std::optional<DType> Parameters::dtype(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  if (const auto* dtype = (*this)[name].get<DType>()) return *dtype;
  refuse(name, "a dtype", "f32");
}

Dims Parameters::sizes(std::string_view name) const {
  if (auto dims = dims_of((*this)[name])) return std::move(*dims);
  refuse(name, "a list of ints", "[2, 3]");
}

Dims Parameters::sizes_or(std::string_view name, Dims otherwise) const {
  return has(name) ? sizes(name) : otherwise;
}

std::optional<Dims> dims_of(const Value& value) {
  if (const auto* integer = value.get<std::int64_t>()) return Dims{*integer};
  if (!value.is_sequence()) return std::nullopt;
  Dims dims;
  for (const Value& item : items_of(value)) {
    if (!item.is<std::int64_t>()) return std::nullopt;
    dims.push_back(item.as<std::int64_t>());
  }
  return dims;
}

}  // namespace shardlab
