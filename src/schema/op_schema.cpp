// The key of a decision holds each deciding argument with its position, so that (spec, 2)
// and (2, spec) differ. Specs hash by address, because they are interned.
#include "schema/op_schema.h"

#include <algorithm>

#include "base/hash.h"
#include "schema/op_row.h"
#include "schema/schema_queries.h"

namespace shardlab {
namespace {

void collect_specs(const Argument& argument, std::vector<const DTensorSpec*>& specs) {
  if (argument.is_spec()) {
    specs.push_back(argument.spec());
  } else if (argument.is_list()) {
    for (const Argument& element : argument.list()) collect_specs(element, specs);
  }
}

/// the arguments that decide, by position.
bool in_key(const OpRow& row, std::size_t index, const Argument& argument) {
  const SchemaArgument& declared = row.op.arguments[index];
  if (tensor_like(argument)) return true;
  if (!declared.keyword_only) return static_cast<int>(index) >= row.info.static_argnum;
  const std::vector<std::string>& names = row.info.static_kwargs;
  return std::find(names.begin(), names.end(), declared.name) != names.end();
}

}  // namespace

const Argument& OpSchema::arg(std::string_view name) const {
  const std::optional<std::size_t> index = row->op.find_argument(name);
  if (!index) fail(ErrorKind::kInternal, "{} has no argument named {}", row->name(), name);
  return args[*index];
}

std::vector<const DTensorSpec*> OpSchema::tensor_specs() const {
  std::vector<const DTensorSpec*> specs;
  const std::size_t count = std::min(row->op.positional_count(), args.size());
  for (std::size_t i = 0; i < count; ++i) collect_specs(args[i], specs);
  return specs;
}

std::vector<const DTensorSpec*> OpSchema::keyword_tensor_specs() const {
  std::vector<const DTensorSpec*> specs;
  for (std::size_t i = row->op.positional_count(); i < args.size(); ++i) {
    collect_specs(args[i], specs);
  }
  return specs;
}

std::uint64_t OpSchema::key_hash() const {
  std::uint64_t hash =
      hash_mix(reinterpret_cast<std::uintptr_t>(row), reinterpret_cast<std::uintptr_t>(layout));
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (in_key(*row, i, args[i])) hash = hash_mix(hash_mix(hash, i), args[i].hash());
  }
  return hash;
}

bool OpSchema::same_key(const OpSchema& other) const {
  if (row != other.row || layout != other.layout || args.size() != other.args.size()) return false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool counts = in_key(*row, i, args[i]);
    if (counts != in_key(*row, i, other.args[i])) return false;
    if (counts && !(args[i] == other.args[i])) return false;
  }
  return true;
}

std::string OpSchema::text() const {
  std::string text = row->name() + "(";
  bool first = true;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const SchemaArgument& declared = row->op.arguments[i];
    if (declared.default_text && args[i] == row->defaults()[i]) continue;
    if (!first) text += ", ";
    first = false;
    const bool named_value = args[i].is_spec() || args[i].is_tensor() || args[i].is_list();
    text.append(declared.name).append(named_value ? " " : "=").append(args[i].text());
  }
  return text + ")";
}

}  // namespace shardlab
