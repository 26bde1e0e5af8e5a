// Rows are stored once, found by name and by base name, and never move, since their address is
// their identity (M-1). An unknown name is answered with the nearest ones, never with a guess.
#include "schema/op_registry.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/text.h"
#include "schema/binder.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

constexpr std::string_view kAten = "aten::";

std::string normal_name(std::string_view name) {
  std::string text(name);
  constexpr std::string_view kDefault = ".default";
  if (text.ends_with(kDefault)) text.resize(text.size() - kDefault.size());
  if (text.find("::") != std::string::npos) return text;
  for (const std::string_view space : {"aten.", "prims."}) {
    if (text.starts_with(space)) {
      return std::string(space.substr(0, space.size() - 1)) + "::" + text.substr(space.size());
    }
  }
  return std::string(kAten) + text;
}

/// The entry of a name that may be spelled in each way of find().
auto found_in(const auto& map, std::string_view name) {
  const auto found = map.find(name);
  return found == map.end() ? map.find(normal_name(name)) : found;
}

/// The arguments that decide a call when the row does not name any: every plain positional value,
/// and the keywords that shape, type or lay out a result.
RuntimeSchemaInfo default_info(const OpDescriptor& op) {
  RuntimeSchemaInfo info;
  info.static_argnum = 0;
  info.needs_pytree = op.takes_tensor_lists();
  for (const SchemaArgument& argument : op.arguments) {
    if (argument.type.is_tensor()) continue;
    const TypeKind kind = argument.type.kind;
    const bool decides = kind != TypeKind::kScalar && kind != TypeKind::kGenerator &&
                         kind != TypeKind::kDevice && kind != TypeKind::kFloat;
    if (argument.keyword_only && decides) info.static_kwargs.emplace_back(argument.name);
  }
  return info;
}

// Results that share memory with an argument, and numbers that belong to elements of the whole, are
// not for a program on pieces.
void check_computable(const OpRow& row) {
  const bool view = row.view() != nullptr;
  if (!view && !row.has(kRandom)) return;
  fail(ErrorKind::kUnsupported, Fix{"leave the rule without a local program"},
       "{}: no local program can compute an op that {}", row.name(),
       view ? "gives a view of its argument" : "draws numbers");
}

}  // namespace

OpRegistry::OpRegistry() = default;
OpRegistry::~OpRegistry() = default;
OpRegistry::OpRegistry(OpRegistry&&) noexcept = default;
OpRegistry& OpRegistry::operator=(OpRegistry&&) noexcept = default;

const OpRow& OpRegistry::add(OpRow row, SourceLine added) {
  if (row.source.line == 0) row.source = row.base != nullptr ? row.base->source : added;
  row.name_ = row.op.name();
  row.inplace_ = row.op.is_inplace();
  row.out_variant_ = row.op.is_out_variant();
  row.defaults_.clear();
  row.defaults_.reserve(row.op.arguments.size());
  for (const SchemaArgument& argument : row.op.arguments) {
    row.defaults_.push_back(parse_default(argument));
  }
  row.gradient_reads_ = row.gradient.reads == nullptr
                            ? GradientReads{.everything = row.gradient || row.parts() != nullptr}
                            : parse_gradient_reads(row.op, row.gradient.reads);
  if (row.info.static_argnum == RuntimeSchemaInfo{}.static_argnum) row.info = default_info(row.op);
  constexpr std::size_t kRowsOfAten = 2048;
  if (by_name_.empty()) {
    by_name_.reserve(2 * kRowsOfAten);
    by_base_.reserve(kRowsOfAten / 2);
    order_.reserve(kRowsOfAten);
  }
  const OpRow* stored = storage_.emplace_back(std::make_unique<OpRow>(std::move(row))).get();
  if (!by_name_.try_emplace(stored->name_, stored).second) {
    const std::unique_ptr<OpRow> doubled = std::move(storage_.back());
    storage_.pop_back();
    fail(ErrorKind::kInternal, "{} is registered twice", doubled->name_);
  }
  // The name that programs over ops use, so that they look it up without making its full name.
  if (stored->name_.starts_with(kAten)) {
    by_name_.try_emplace(std::string_view(stored->name_).substr(kAten.size()), stored);
  }
  order_.push_back(stored);
  by_base_[stored->op.base].push_back(stored);
  return *stored;
}

OpRow& OpRegistry::mutable_row(std::string_view name) {
  const OpRow* row = &at(name);
  return **std::ranges::find(storage_, row, [](const auto& stored) { return stored.get(); });
}

void OpRegistry::set_rule(std::string_view name, ShardingRule rule, PiecesProgram program) {
  OpRow& changed = mutable_row(name);
  std::shared_ptr<const PiecesProgram> on_pieces;
  if (program) {
    check_computable(changed);
    on_pieces = std::make_shared<const PiecesProgram>(std::move(program));
  }
  if (const PartsFn parts = changed.parts()) changed.compute = RuleOrParts{parts};
  for (const auto& stored : storage_) {
    const OpRow* row = stored.get();
    while (row != nullptr && row != &changed) row = row->base;
    if (row == nullptr || (on_pieces != nullptr && stored->has(kIndependentLists))) continue;
    stored->rule = rule;
    stored->on_pieces = on_pieces;
  }
}

void OpRegistry::set_handler(std::string_view name, Handler handler) {
  OpRow& changed = mutable_row(name);
  handler.kernel = changed.kernel();
  changed.compute = handler;
}

const char* OpRegistry::keep(std::string text) {
  return texts_.emplace_back(std::move(text)).c_str();
}

std::size_t OpRegistry::NameHash::operator()(std::string_view name) const {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (name.size() < kWord) return std::hash<std::string_view>()(name);
  std::uint64_t first = 0, last = 0;
  const std::size_t middle = (name.size() - kWord) / 2;
  std::memcpy(&first, name.data() + middle, kWord);
  std::memcpy(&last, name.data() + name.size() - kWord, kWord);
  const std::uint64_t mixed = (first * 0x9e3779b97f4a7c15u) ^ (last + name.size());
  return (mixed ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9u >> 17;
}

const OpRow* OpRegistry::find(std::string_view name) const {
  const auto found = found_in(by_name_, name);
  return found == by_name_.end() ? nullptr : found->second;
}

const OpRow& OpRegistry::at(std::string_view name) const {
  if (const OpRow* row = find(name)) return *row;
  const std::string wanted = normal_name(name);
  std::string names;
  for (const OpRow* row : overloads(wanted)) names += (names.empty() ? "" : ", ") + row->name();
  if (!names.empty()) {
    fail(ErrorKind::kUnsupported, Fix{"name one: " + names}, "{} has no default overload", wanted);
  }
  // The closest ones, in alphabetical order, so that the answer does not depend on the tables'
  // order.
  std::vector<std::pair<int, std::string>> near;
  for (const OpRow* row : order_) {
    near.emplace_back(edit_distance(wanted, row->name()), row->name());
  }
  const std::size_t shown = std::min<std::size_t>(3, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(shown), near.end());
  for (std::size_t i = 0; i < shown && near[i].first == near[0].first; ++i) {
    names += (i > 0 ? ", " : "") + near[i].second;
  }
  fail(ErrorKind::kUnsupported,
       Fix{names.empty() ? "register ops first" : "the nearest registered ops: " + names},
       "{}: no such op is registered", wanted);
}

const std::vector<const OpRow*>& OpRegistry::overloads(std::string_view base) const {
  static const std::vector<const OpRow*> none;
  const auto found = found_in(by_base_, base);
  return found == by_base_.end() ? none : found->second;
}

}  // namespace shardlab
