// Values that may share memory are grouped by the schemas of the calls that made them. A group is
// left alone at a write if a later call takes another value of it that was made before.
#include "sim/remesh/writes.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// They may return a view, without a mark in their schema.
const std::set<std::string_view> kUnmarkedViews = {"broadcast_tensors", "meshgrid",   "atleast_1d",
                                                   "atleast_2d",        "atleast_3d", "einsum",
                                                   "cartesian_prod",    "block_diag", "type_as"};
// The written tensor keeps its dtype, and a new one has another.
const std::set<std::string_view> kOtherDType = {
    "eq",    "ne",          "lt",         "le",           "gt",          "ge",
    "equal", "logical_and", "logical_or", "logical_xor",  "logical_not", "not_equal",
    "less",  "less_equal",  "greater",    "greater_equal"};

class Renewer {
 public:
  explicit Renewer(CallProgram& program) : program_(program) {
    for (const auto& [v, meta] : program.metas) dtypes_[v] = meta.dtype;
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      const Statement& one = program.statements[i];
      for (const std::int32_t v : one.takes) last_use_[v] = i;
      for (const EventValue& out : one.event->out) {
        if (out.id.id >= 0) note_result(one, out);
      }
    }
    for (const Statement& update : program.updates) {
      for (const std::int32_t v : update.takes) last_use_[v] = program.statements.size();
    }
    for (const auto& [v, name] : program.recording->outputs) {
      last_use_[v] = program.statements.size();
    }
    for (const auto& [v, dtype] : dtypes_) members_[group_of(v)].push_back(v);
  }

  void renew() {
    std::set<std::int32_t> made;
    for (const CallInput& input : program_.inputs) made.insert(input.value);
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      Statement& one = program_.statements[i];
      if (writes_result(one) && !shared_later(one.takes[0], i, made)) one.renewed = other_row(one);
      made.insert(one.outs.begin(), one.outs.end());
    }
    renew_views();
  }

 private:
  // Results have other strides here than in some releases, which a view may not fit. A reshape is
  // the same, if nothing writes to the memory.
  void renew_views() {
    std::set<std::int32_t> written;
    for (const Statement& one : program_.statements) {
      const bool writes = one.writes() && one.renewed == nullptr;
      if (writes && !one.takes.empty()) written.insert(group_of(one.takes[0]));
    }
    for (Statement& one : program_.statements) {
      const bool is_view = one.kind == StatementKind::kCall && one.op == "aten.view.default";
      if (is_view && !written.contains(group_of(one.takes[0])))
        one.renewed = all_ops().find("aten::reshape");
    }
  }

  void note_result(const Statement& one, const EventValue& out) {
    const std::int32_t v = out.id.id;
    dtypes_[v] = out.type.dtype;
    if (one.takes.empty()) return;
    if (one.row != nullptr && one.row->op.is_view()) return join(v, one.takes[0]);
    if (one.row != nullptr && !kUnmarkedViews.contains(one.bare())) return;
    for (const std::int32_t operand : one.takes) join(v, operand);
  }

  std::int32_t group_of(std::int32_t v) const {
    for (auto found = group_.find(v); found != group_.end(); found = group_.find(v)) {
      v = found->second;
    }
    return v;
  }

  void join(std::int32_t a, std::int32_t b) {
    const std::int32_t from = group_of(a), to = group_of(b);
    if (from != to) group_[from] = to;
  }

  // A call that writes to a result of the program, and returns it.
  bool writes_result(const Statement& one) const {
    return one.kind == StatementKind::kCall && is_in_place(one.op) && one.returns_first() &&
           program_.input(one.takes[0]) == nullptr;
  }

  bool shared_later(std::int32_t written, std::size_t at,
                    const std::set<std::int32_t>& made) const {
    const auto members = members_.find(group_of(written));
    if (members == members_.end()) return false;
    return std::ranges::any_of(members->second, [&](std::int32_t v) {
      const auto last = last_use_.find(v);
      return v != written && last != last_use_.end() && last->second > at && made.contains(v);
    });
  }

  // The row that returns a new tensor of the same dtype. Null if there is none.
  const OpRow* other_row(const Statement& one) const {
    const std::string_view bare = one.bare();
    if (one.row == nullptr) return nullptr;
    const std::string& base = one.row->op.base;
    const std::string& overload = one.row->op.overload;
    if (!base.ends_with('_')) return nullptr;
    const OpRow* other =
        all_ops().find(base.substr(0, base.size() - 1) + (overload.empty() ? "" : "." + overload));
    if (other == nullptr || !other->runs() ||
        kOtherDType.contains(bare.substr(0, bare.size() - 1))) {
      return nullptr;
    }
    const bool same = std::ranges::equal(one.row->op.arguments, other->op.arguments, {},
                                         &SchemaArgument::name, &SchemaArgument::name);
    const DType dtype = dtypes_.at(one.takes[0]);
    const bool promotes = std::ranges::any_of(one.takes, [&](std::int32_t v) {
      return dtypes_.at(v) != dtype && !is_integral(dtypes_.at(v));
    });
    return same && !promotes ? other : nullptr;
  }

  CallProgram& program_;
  std::map<std::int32_t, DType> dtypes_;
  std::map<std::int32_t, std::int32_t> group_;                 // to a value of the same group
  std::map<std::int32_t, std::vector<std::int32_t>> members_;  // of each group
  std::map<std::int32_t, std::size_t> last_use_;  // the statement; one past the end: an update
};

}  // namespace

void renew_written(CallProgram& program) { Renewer(program).renew(); }

}  // namespace shardlab
