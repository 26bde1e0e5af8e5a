// Sizes that are equal belong together more often than not, in types, params and the program, and
// shrink together first.
#include <algorithm>
#include <set>

#include "sim/edit/shrink_passes.h"
#include "sim/edit/type_inference.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMostTried = 8;

std::string text_at(const TomlValue& value) { return std::get<SourcePtr>(value.value)->text(); }

// The first `sizes` of each dim of what is nested like a shape.
void cut_values(TomlValue& values, const std::vector<std::int64_t>& sizes, std::size_t dim) {
  auto* items = std::get_if<std::vector<TomlValue>>(&values.value);
  if (items == nullptr || dim == sizes.size()) return;
  if (items->size() > static_cast<std::size_t>(sizes[dim])) {
    items->resize(static_cast<std::size_t>(sizes[dim]));
  }
  for (TomlValue& item : *items) cut_values(item, sizes, dim + 1);
}

void resize(TomlEntry& input, std::int64_t from, std::int64_t to) {
  TomlValue* type = type_of(input);
  if (type == nullptr) return;
  TypeSizes sizes(text_at(*type));
  std::ranges::replace(sizes.sizes, from, to);
  *type = toml_string(sizes.text());
  auto* table = std::get_if<TomlTable>(&input.value.value);
  if (table == nullptr) return;
  if (TomlEntry* values = find(*table, "values")) cut_values(values->value, sizes.sizes, 0);
}

std::set<std::int64_t> sizes_of(TomlTable inputs) {
  std::set<std::int64_t> all;
  for (TomlEntry& input : inputs) {
    const TomlValue* type = type_of(input);
    if (type == nullptr) continue;
    for (const std::int64_t size : TypeSizes(text_at(*type)).sizes) all.insert(size);
  }
  return all;
}

Sketch resized(const Sketch& sketch, std::int64_t from, std::int64_t to, bool in_program) {
  Sketch out = sketch;
  for (TomlEntry& input : *table_of(out, "inputs")) resize(input, from, to);
  if (TomlTable* params = table_of(out, "params")) {
    for (TomlEntry& param : *params) {
      auto* value = std::get_if<std::int64_t>(&param.value.value);
      if (value != nullptr && *value == from) *value = to;
    }
  }
  const auto is_size = [&](const Token& token) {
    return token.kind == TokenKind::kInt && token.integer == from;
  };
  if (in_program) replace_tokens(out.program, is_size, std::to_string(to));
  return out;
}

void shrink_size(Trials& trials, std::int64_t from) {
  for (std::int64_t to = 2; to < std::min(from, kMostTried); ++to) {
    for (const bool in_program : {true, false}) {
      if (trials.keeps(resized(trials.best(), from, to, in_program))) return;
    }
  }
}

// "@dp", "@(dp,tp)", "{sum:dp}" without one mesh dim.
std::string without_cut(std::string text, const std::string& dim) {
  const std::pair<std::string, std::string> kWays[] = {
      {"@" + dim, ""}, {"(" + dim + ",", "("}, {"," + dim, ""}};
  for (const auto& [from, to] : kWays) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; ++at) {
      const std::size_t end = at + from.size();
      const char next = end < text.size() ? text[end] : ' ';
      const bool whole = from.ends_with(',') ||
                         (std::isalnum(static_cast<unsigned char>(next)) == 0 && next != '_');
      if (whole) text.replace(at, from.size(), to);
    }
  }
  return text;
}

// A mistake of several ranks needs several.
bool has_one_rank(const Sketch& sketch) {
  std::int64_t ranks = 1;
  for (const TomlEntry& dim : *table_of(sketch, "mesh")) {
    if (const auto* size = std::get_if<std::int64_t>(&dim.value.value)) ranks *= *size;
  }
  return ranks == 1;
}

bool drop_mesh_dim(Trials& trials, const std::string& dim) {
  Sketch candidate = trials.best();
  remove(*table_of(candidate, "mesh"), dim);
  if (has_one_rank(candidate)) return false;
  if (TomlTable* inputs = table_of(candidate, "inputs")) {
    for (TomlEntry& input : *inputs) {
      if (TomlValue* type = type_of(input)) *type = toml_string(without_cut(text_at(*type), dim));
    }
  }
  return trials.keeps(candidate);
}

}  // namespace

void shrink_sizes(Trials& trials) {
  const std::set<std::int64_t> sizes = sizes_of(trials.entries("inputs"));
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) {
    shrink_size(trials, *size);
  }
}

void shrink_mesh(Trials& trials) {
  for (const TomlEntry& dim : trials.entries("mesh")) {
    if (drop_mesh_dim(trials, dim.key)) continue;
    const auto* size = std::get_if<std::int64_t>(&dim.value.value);
    for (std::int64_t to = 1; size != nullptr && to < std::min(*size, kMostTried); ++to) {
      Sketch candidate = trials.best();
      put(*table_of(candidate, "mesh"), {dim.key, {}, {{}, to}});
      if (!has_one_rank(candidate) && trials.keeps(candidate)) break;
    }
  }
}

}  // namespace shardlab
