// A line that passes here can be read with at(): all fields that are read exist and have their
// kind.
#include "tests/facts/recorded_form.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "mesh/placement.h"
#include "sim/files/json_value.h"
#include "tests/facts/fact_json.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMostRanks = 4096, kMostValues = 10'000'000;
constexpr std::int64_t kMostHeld = std::int64_t{1} << 25;  // values of all ranks that are played
constexpr std::size_t kMostDims = 8;                       // of a mesh
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr int kDeepest = 64;  // lists in lists

[[noreturn]] void refuse(const std::string& at, std::string_view wanted, const Json& found) {
  std::string text = json_line(found);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
       "'{}' has to be {}, and is {}", at, wanted, text);
}

const Json& field(const Json& object, const char* name, const std::string& at) {
  static const Json none;
  if (!object.is_object()) refuse(at, "an object", object);
  const auto found = object.find(name);
  if (found == object.end()) refuse(at.empty() ? name : at + "." + name, "there", none);
  return *found;
}

std::string inside(const std::string& at, std::string_view name) {
  return at.empty() ? std::string(name) : fmt::format("{}.{}", at, name);
}

void require_text(const Json& value, const std::string& at) {
  if (!value.is_string()) refuse(at, "a text", value);
}

void require_list(const Json& value, const std::string& at) {
  if (!value.is_array()) refuse(at, "a list", value);
}

std::int64_t integer_between(const Json& value, std::int64_t least, std::int64_t most,
                             const std::string& at) {
  std::int64_t number = 0;
  bool fits = value.is_number_integer();
  try {
    if (fits) number = integer_of<std::int64_t>(value);
  } catch (const Error&) {  // more than 64 bits
    fits = false;
  }
  if (!fits || number < least || number > most) {
    refuse(at, fmt::format("a whole number from {} to {}", least, most), value);
  }
  return number;
}

void require_flag(const Json& event, const char* name, const std::string& at = "") {
  if (!event.contains(name)) return;
  if (!event.at(name).is_boolean()) refuse(inside(at, name), "true or false", event.at(name));
}

bool is_a_number(const Json& value) {
  if (value.is_number()) return true;
  return value.is_string() && (value == "nan" || value == "inf" || value == "-inf");
}

// Numbers in lists however deep.
void require_numbers(const Json& data, const std::string& at, int depth = 0) {
  if (depth > kDeepest) refuse(at, "less deep", "lists in lists");
  if (data.is_array()) {
    for (const Json& item : data) require_numbers(item, at, depth + 1);
    return;
  }
  const bool boxed = data.is_object() && data.contains("f") && is_a_number(data.at("f"));
  if (!boxed && !data.is_boolean() && !is_a_number(data)) refuse(at, "numbers", data);
}

void require_shape(const Json& list, const std::string& at) {
  require_list(list, at);
  std::int64_t elements = 1;
  for (const Json& size : list) {
    const std::int64_t next = integer_between(size, 0, kMostElements, at);
    if (next > 0 && elements > kMostElements / next) refuse(at, "the shape of a tensor", list);
    elements *= next;
  }
}

void require_dtype(const Json& name, const std::string& at) {
  require_text(name, at);
  if (!parse_dtype(name.get<std::string>())) refuse(at, "a dtype", name);
}

// Two sums, or those of each rank.
void require_print(const Json& value, const char* name, std::int64_t ranks, const std::string& at) {
  if (!value.contains(name)) return;
  const Json& print = value.at(name);
  const std::string here = inside(at, name);
  const auto of_one = [&](const Json& sums) {
    if (!sums.is_array() || sums.size() != 2) refuse(here, "two numbers", sums);
    require_numbers(sums, here);
  };
  if (!print.is_object()) return of_one(print);
  const Json& all = field(print, "ranks", here);
  if (!all.is_array() || std::ssize(all) != ranks) {
    refuse(here + ".ranks", fmt::format("a list of {}", ranks), all);
  }
  for (const Json& sums : all) of_one(sums);
}

void require_numbers_of(const Json& value, const char* name, const std::string& at) {
  if (value.contains(name)) require_numbers(value.at(name), inside(at, name));
}

void check_fill(const Json& event) {
  if (!event.contains("fill")) return;
  const Json& fill = event.at("fill");
  integer_between(field(fill, "seed", "fill"), -kMostElements, kMostElements, "fill.seed");
  if (fill.contains("mod")) integer_between(fill.at("mod"), 1, kMostElements, "fill.mod");
  const std::string dtype = event.at("dtype").get<std::string>();
  const DType type = *parse_dtype(dtype);
  if (type == DType::kBool) return;
  if (is_integral(type)) {
    integer_between(field(fill, "mod", "fill"), 1, kMostElements, "fill.mod");
    return;
  }
  for (const char* name : {"bias", "scale"}) {
    if (!field(fill, name, "fill").is_number()) {
      refuse(inside("fill", name), "a number", fill.at(name));
    }
  }
}

bool is_call(const std::string& kind) { return kind == "op" || kind == "local_op"; }

}  // namespace

RecordedForm::RecordedForm(const Json& program) {
  for (const char* name : {"program", "backend"}) require_text(field(program, name, ""), name);
  if (!field(program, "values", "").is_boolean()) {
    refuse("values", "true or false", program.at("values"));
  }
  const Json& mesh = field(program, "mesh", "");
  require_list(mesh, "mesh");
  if (mesh.empty() || mesh.size() > kMostDims) {
    refuse("mesh", fmt::format("1 to {} sizes", kMostDims), mesh);
  }
  for (const Json& size : mesh) {
    ranks_ *= integer_between(size, 1, kMostElements, "mesh");
    if (ranks_ <= kMostRanks) continue;
    fail(ErrorKind::kUnsupported, Fix{"record it on fewer ranks"},
         "'mesh' has over {} ranks, and one process plays them all", kMostRanks);
  }
  const Json& names = field(program, "mesh_dim_names", "");
  if (!names.is_array() || names.size() != mesh.size()) {
    refuse("mesh_dim_names", fmt::format("a list of {} texts", mesh.size()), names);
  }
  for (const Json& name : names) {
    require_text(name, "mesh_dim_names");
    names_.push_back(name.get<std::string>());
    if (std::ranges::count(names_, names_.back()) > 1 || names_.back().empty()) {
      refuse("mesh_dim_names", "different names", names);
    }
  }
  values_ = static_cast<std::size_t>(integer_between(
      field(program, "n_values", ""), 0,
      program.at("backend") == "fake" ? kMostValues : kMostHeld / ranks_, "n_values"));
}

void RecordedForm::check_number(const Json& number, const std::string& at) const {
  if (values_ == 0) refuse(at, "left out, as the recording has no values", number);
  integer_between(number, 0, static_cast<std::int64_t>(values_) - 1, at);
}

void RecordedForm::check_placements(const Json& list, const std::string& at,
                                    std::size_t dims) const {
  if (!list.is_array() || list.size() != dims) {
    refuse(at, fmt::format("a list of {} placements", dims), list);
  }
  for (const Json& text : list) {
    require_text(text, at);
    const auto placement = parse_placement(text.get<std::string>());
    if (!placement || (placement->is_shard() && placement->dim < 0)) {
      refuse(at, "a placement", text);
    }
  }
}

std::size_t RecordedForm::dims_of_mesh(const Json& value, const std::string& at) const {
  if (!value.contains("mesh")) return names_.size();
  const Json& part = value.at("mesh");
  const std::string here = inside(at, "mesh");
  require_list(part, here);
  std::vector<std::string> seen;
  for (const Json& name : part) {
    require_text(name, here);
    seen.push_back(name.get<std::string>());
    const bool known = std::ranges::count(names_, seen.back()) > 0;
    if (!known || std::ranges::count(seen, seen.back()) > 1) {
      refuse(here, "different dims of the mesh", part);
    }
  }
  if (seen.empty()) refuse(here, "different dims of the mesh", part);
  return seen.size();
}

// A value that is given, written or looked at.
void RecordedForm::check_value(const Json& value, const std::string& at) const {
  if (value.is_null()) return;
  if (!value.is_object()) refuse(at, "an object", value);
  if (value.contains("scalar")) return require_numbers(value.at("scalar"), inside(at, "scalar"));
  check_number(field(value, "v", at), inside(at, "v"));
  require_dtype(field(value, "dtype", at), inside(at, "dtype"));
  if (value.contains("shapes")) {
    const Json& shapes = value.at("shapes");
    const std::string here = inside(at, "shapes");
    if (!shapes.is_array() || std::ssize(shapes) != ranks_) {
      refuse(here, fmt::format("a list of {} shapes", ranks_), shapes);
    }
    for (const Json& shape : shapes) require_shape(shape, here);
  } else {
    require_shape(field(value, "shape", at), inside(at, "shape"));
  }
  require_flag(value, "local", at);
  if (!value.value("local", false)) {
    if (value.contains("shapes")) refuse(inside(at, "shapes"), "left out", value.at("shapes"));
    const Json& placements = field(value, "placements", at);
    check_placements(placements, inside(at, "placements"), dims_of_mesh(value, at));
    for (const Json& text : placements) {
      const auto placement = parse_placement(text.get<std::string>());
      if (placement->is_shard() && placement->dim >= std::ssize(value.at("shape"))) {
        refuse(inside(at, "placements"), "cuts of dims that the shape has", text);
      }
    }
  }
  if (value.contains("stride")) {
    const std::string here = inside(at, "stride");
    require_list(value.at("stride"), here);
    for (const Json& step : value.at("stride")) integer_between(step, 0, kMostElements, here);
  }
  for (const char* print : {"fp", "single_fp"}) require_print(value, print, ranks_, at);
  for (const char* data : {"data", "single_data"}) require_numbers_of(value, data, at);
}

// Values in an argument; all else is as the schema of the op has it.
void RecordedForm::check_operands(const Json& argument, const std::string& at, int depth) const {
  if (depth > kDeepest) refuse(at, "less deep", "lists in lists");
  if (argument.is_array()) {
    for (const Json& item : argument) check_operands(item, at, depth + 1);
    return;
  }
  if (argument.is_number_unsigned()) {
    integer_between(argument, 0, std::numeric_limits<std::int64_t>::max(), at);
  }
  if (!argument.is_object()) return;
  if (argument.size() != 1) refuse(at, "an object of one field", argument);
  const std::string& kind = argument.begin().key();
  const Json& held = argument.begin().value();
  if (kind == "v") return check_number(held, at);
  if (kind == "f" || kind == "float") {
    if (!is_a_number(held)) refuse(at, "a number", held);
  } else if (kind == "complex") {
    if (!held.is_array() || held.size() != 2) refuse(at, "two numbers", held);
    require_numbers(held, at);
  } else if (kind == "dtype") {
    require_dtype(held, at);
  } else if (kind == "ranks") {
    if (!held.is_array() || std::ssize(held) != ranks_) {
      refuse(at, fmt::format("a list of {}", ranks_), held);
    }
    for (const Json& own : held) check_operands(own, at, depth + 1);
  } else {
    require_text(held, at);
  }
}

void RecordedForm::check_call(const Json& event) const {
  require_text(field(event, "op", ""), "op");
  require_list(field(event, "args", ""), "args");
  check_operands(event.at("args"), "args", 0);
  if (!event.contains("kwargs")) return;
  if (!event.at("kwargs").is_object()) refuse("kwargs", "an object", event.at("kwargs"));
  for (const auto& [name, value] : event.at("kwargs").items()) {
    check_operands(value, "kwargs." + name, 0);
  }
}

void RecordedForm::check_moves(const Json& event) const {
  const auto last_dim = static_cast<std::int64_t>(names_.size()) - 1;
  for (const char* list : {"redist", "comm", "inner"}) {
    if (!event.contains(list)) continue;
    require_list(event.at(list), list);
    for (const Json& item : event.at(list)) {
      if (!item.is_object()) refuse(list, "a list of objects", item);
    }
  }
  for (const Json& move : list_at(event, "redist")) {
    integer_between(field(move, "t", "redist"), 0, kMostValues, "redist.t");
    for (const char* side : {"from", "to"}) {
      const Json& placements = field(move, side, "redist");
      require_list(placements, inside("redist", side));
      check_placements(placements, inside("redist", side),
                       std::clamp<std::size_t>(placements.size(), 1, names_.size()));
    }
  }
  for (const Json& collective : list_at(event, "comm")) {
    require_text(field(collective, "c", "comm"), "comm.c");
    // One over several dims of the mesh has none.
    if (collective.contains("dim")) {
      integer_between(collective.at("dim"), 0, last_dim, "comm.dim");
    }
    if (collective.contains("reduce")) require_text(collective.at("reduce"), "comm.reduce");
  }
}

void RecordedForm::check(const Json& event) const {
  const Json& named = field(event, "k", "");
  require_text(named, "k");
  const std::string kind = named.get<std::string>();
  constexpr std::string_view kMoves[] = {"redistribute", "redistribute_bwd", "to_local",
                                         "to_local_bwd", "from_local",       "from_local_bwd"};
  if (kind == "input" || kind == "const" || kind == "check") {
    check_value(event, "");
    if (kind != "const") require_text(field(event, "name", ""), "name");
    check_fill(event);
    if (event.contains("data_ranks")) {
      const Json& all = event.at("data_ranks");
      if (!all.is_array() || std::ssize(all) != ranks_) {
        refuse("data_ranks", fmt::format("a list of {}", ranks_), all);
      }
      require_numbers(all, "data_ranks");
    }
  } else if (is_call(kind)) {
    check_call(event);
  } else if (std::ranges::count(kMoves, kind) > 0) {
    check_number(field(event, "in", ""), "in");
    if (kind == "redistribute" || kind == "from_local") field(event, "to", "");
    if (kind == "redistribute_bwd" || kind == "to_local_bwd") field(event, "forward_from", "");
    if (kind == "from_local_bwd") field(event, "forward_to", "");
    require_list(field(event, "out", ""), "out");
    if (event.at("out").size() != 1) refuse("out", "a list of one value", event.at("out"));
  } else {
    refuse("k", "a kind of event", named);
  }
  for (const char* name : {"from", "to", "forward_from", "forward_to"}) {
    if (!event.contains(name)) continue;
    const Json& placements = event.at(name);
    require_list(placements, name);
    check_placements(placements, name,
                     std::clamp<std::size_t>(placements.size(), 1, names_.size()));
  }
  for (const char* list : {"out", "mut"}) {
    if (!event.contains(list)) continue;
    require_list(event.at(list), list);
    for (const Json& value : event.at(list)) check_value(value, list);
  }
  check_moves(event);
  for (const char* flag : {"random", "loss_parallel", "requires_grad"}) require_flag(event, flag);
  if (event.contains("error")) {
    require_text(field(event.at("error"), "class", "error"), "error.class");
    if (!is_call(kind)) refuse("error", "left out, but of a call", event.at("error"));
  }
}

}  // namespace shardlab
