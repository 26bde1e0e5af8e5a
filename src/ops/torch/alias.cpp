// Other names of ops: only the schema differs, so that rule, kernel and gradient are those of the
// op that is meant. The names are text (aliases.txt, which says its form).
#include "ops/family.h"
#include "schema/aten_schemas.h"

namespace shardlab {
namespace {

constexpr const char* kText =
#include "ops/aliases.inc"
    ;

enum class Rule : std::uint8_t { kSame, kBare };

bool called_alike(const OpDescriptor& a, const OpDescriptor& b) {
  bool same = a.arguments.size() == b.arguments.size();
  for (std::size_t i = 0; same && i < a.arguments.size(); ++i) {
    same = a.arguments[i].name == b.arguments[i].name;
  }
  return same;
}

void add_alias(OpRegistry& registry, std::string_view schema, std::string_view meant, Rule rule) {
  const OpRow& same = registry.at(meant);
  OpRow row;
  static_cast<OpColumns&>(row) = same;
  row.base = same.base;
  row.op = parse_literal_schema(schema);
  // A gradient lists the values that it keeps by the names of the arguments.
  if (!called_alike(row.op, same.op)) row.gradient.reads = nullptr;
  row.info = {};
  row.why = registry.keep("another name of " + std::string(meant));
  if (rule == Rule::kBare) row.rule = PointwiseRule{};
  registry.add(std::move(row));
}

/// "aten::arccos_(..": "acos_"; the base name ends at the underscore of writing in place, at the
/// overload or at the arguments.
void add_names(OpRegistry& registry, std::string_view name, std::string_view meant, Rule rule) {
  for (const std::string_view schema : aten_schemas_of("aten::" + std::string(name))) {
    const std::size_t start = std::string_view("aten::").size();
    const std::string_view full = schema.substr(start, schema.find('(') - start);
    const std::string_view rest = full.substr(name.size());
    const bool overload = rest.empty() || rest[0] == '.' || rest == "_" || rest.starts_with("_.");
    const std::string target = std::string(meant) + std::string(rest);
    if (overload && registry.find(target) != nullptr) add_alias(registry, schema, target, rule);
  }
}

}  // namespace

void register_alias(OpRegistry& registry) {
  for (const std::string& row : rows_of_table(kText)) {
    const std::size_t colon = row.find(": ");
    const bool all_overloads = row.substr(0, colon).ends_with("names");
    const Rule rule = row.starts_with("bare") ? Rule::kBare : Rule::kSame;
    for (const std::string_view one : parts_of_text(std::string_view(row).substr(colon + 2), " ")) {
      const std::string_view name = one.substr(0, one.find('='));
      const std::string_view meant = one.substr(name.size() + 1);
      if (all_overloads) {
        add_names(registry, name, meant, rule);
      } else {
        add_alias(registry, aten_schema(name), meant, rule);
      }
    }
  }
}

}  // namespace shardlab
