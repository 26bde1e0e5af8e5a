#include "tests/property/redistribute_case.h"

#include <charconv>

#include "mesh/type_string.h"

namespace shardlab::test {
namespace {

std::string mesh_text(const RedistributeCase& one) {
  std::string text;
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    text += fmt::format("{}m{}={}", dim ? "," : "", dim, one.mesh[dim]);
  }
  return text;
}

/// Source and target as type strings.
std::pair<std::string, std::string> types(const RedistributeCase& one) {
  Arena arena;
  const MeshLayout* layout = arena.layout({one.mesh, {}, {}});
  const TensorMeta meta = contiguous_meta(one.shape, one.dtype);
  return {type_string(*arena.spec(layout, one.source, one.source_order, meta)),
          type_string(*arena.spec(layout, one.target, one.target_order, meta))};
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

template <typename T>
T number(const std::string& text) {
  T value = 0;
  const char* end = text.data() + text.size();
  if (std::from_chars(text.data(), end, value) != std::from_chars_result{end, {}}) {
    fail(ErrorKind::kValue, "'{}' is not a number of a case", text);
  }
  return value;
}

void read_option(RedistributeCase& one, const std::string& option) {
  const std::size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (name == "async") one.async = true;
  if (name == "outsiders") one.outsiders = number<std::int64_t>(value);
  if (name == "values") one.values = number<std::uint64_t>(value);
  for (const PlannerKind kind : {PlannerKind::kGreedy, PlannerKind::kGraph, PlannerKind::kBytes}) {
    if (name == "planner" && value == to_string(kind)) one.planner = kind;
  }
}

}  // namespace

std::string RedistributeCase::text() const {
  const auto [from, to] = types(*this);
  return fmt::format("{}|{}|{}|{}{}outsiders={} values={}", mesh_text(*this), from, to,
                     planner ? fmt::format("planner={} ", to_string(*planner)) : "",
                     async ? "async " : "", outsiders, values);
}

std::string RedistributeCase::commands() const {
  const auto [from, to] = types(*this);
  return fmt::format(
      "build/shardlab plan \"{}\" \"{}\" --mesh {}{}\n"
      "SHARDLAB_CASE='{}' build/tests/property/property_tests -tc='W-13*'",
      from, to, mesh_text(*this), planner ? fmt::format(" --planner {}", to_string(*planner)) : "",
      text());
}

RedistributeCase read_case(const std::string& text) {
  const std::vector<std::string> parts = split(text, '|');
  if (parts.size() != 4) fail(ErrorKind::kValue, "a case has four parts: {}", text);
  RedistributeCase one;
  for (const std::string& dim : split(parts[0], ',')) {
    one.mesh.push_back(number<std::int64_t>(dim.substr(dim.find('=') + 1)));
  }
  Arena arena;
  const MeshLayout* layout = arena.layout({one.mesh, {}, {}});
  const ParsedType from = parse_type(parts[1], *layout), to = parse_type(parts[2], *layout);
  one.shape = from.shape;
  one.dtype = from.dtype.value_or(DType::kF32);
  one.source = from.placements;
  one.source_order = from.order;
  one.target = to.placements;
  one.target_order = to.order;
  for (const std::string& option : split(parts[3], ' ')) read_option(one, option);
  return one;
}

std::vector<RedistributeCase> smaller(const RedistributeCase& one) {
  std::vector<RedistributeCase> cases;
  const auto add = [&](const RedistributeCase& next) { cases.push_back(next); };
  for (std::size_t dim = 0; dim < one.mesh.size(); ++dim) {
    if (one.mesh.size() > 1) {  // without this mesh dim
      RedistributeCase next = one;
      next.mesh.erase(dim);
      next.source.erase(dim);
      next.target.erase(dim);
      next.source_order = default_order(next.source);
      next.target_order = default_order(next.target);
      add(next);
    }
    if (one.mesh[dim] > 1) {
      RedistributeCase next = one;
      --next.mesh[dim];
      add(next);
    }
    for (Placements RedistributeCase::*side :
         {&RedistributeCase::source, &RedistributeCase::target}) {
      if ((one.*side)[dim].is_replicate()) continue;
      RedistributeCase next = one;
      (next.*side)[dim] = Placement::replicate();
      next.source_order = default_order(next.source);
      next.target_order = default_order(next.target);
      add(next);
    }
  }
  for (std::size_t dim = 0; dim < one.shape.size(); ++dim) {
    if (one.shape[dim] == 0) continue;
    RedistributeCase next = one;
    --next.shape[dim];
    add(next);
  }
  const auto change = [&](auto member, auto value) {
    if (one.*member == value) return;
    RedistributeCase next = one;
    next.*member = value;
    add(next);
  };
  change(&RedistributeCase::outsiders, std::int64_t{0});
  change(&RedistributeCase::async, false);
  change(&RedistributeCase::planner, std::optional<PlannerKind>());
  change(&RedistributeCase::dtype, DType::kF32);
  change(&RedistributeCase::source_order, default_order(one.source));
  change(&RedistributeCase::target_order, default_order(one.target));
  return cases;
}

}  // namespace shardlab::test
