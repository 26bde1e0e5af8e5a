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
  Renewer(const CallProgram& program, std::vector<std::vector<Statement>*> passes,
          const std::vector<std::int32_t>& results)
      : program_(program) {
    for (std::vector<Statement>* statements : passes) {
      for (Statement& one : *statements) order_.push_back(&one);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Statement& one = *order_[i];
      for (const std::int32_t v : one.takes) uses_[v].emplace(i, true);
      for (const std::int32_t v : one.outs) uses_[v].emplace(i, false);
      if (one.kind == StatementKind::kGradient) continue;  // a clone
      for (const EventValue& out : one.event->out) {
        if (out.id.id >= 0) note_result(one, out);
      }
      if (!one.no_grad) taped_.insert(one.outs.begin(), one.outs.end());
    }
    for (const std::int32_t v : results) uses_[v].emplace(order_.size(), true);
    for (const auto& [v, meta] : program.metas) members_[group_of(v)].push_back(v);
  }

  void renew() {
    std::set<std::int32_t> made;
    for (const auto& [v, uses] : uses_) {
      if (uses.begin()->second) made.insert(v);  // before the first statement
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      Statement& one = *order_[i];
      if (writes_result(one) && !shared_later(one.takes[0], i, made)) one.renewed = other_row(one);
      made.insert(one.outs.begin(), one.outs.end());
    }
    renew_views();
  }

 private:
  // Results have other strides here than in some releases, which a view may not fit. A reshape is
  // the same, if nothing writes to the memory.
  void renew_views() {
    static const std::set<std::string_view> kReshaping = {"view", "reshape", "flatten", "unflatten",
                                                          "_unsafe_view"};
    std::set<std::int32_t> written;
    for (const Statement* one : order_) {
      const bool writes = one->writes() && one->renewed == nullptr;
      if (writes && !one->takes.empty()) written.insert(group_of(one->takes[0]));
    }
    for (Statement* one : order_) {
      const bool call = one->kind == StatementKind::kCall && kReshaping.contains(one->bare());
      if (!call || one->op.ends_with(".dtype") || written.contains(group_of(one->takes[0]))) {
        continue;
      }
      one->reshapes = true;
      if (one->op == "aten.view.default") one->renewed = all_ops().find("aten::reshape");
    }
  }

  void note_result(const Statement& one, const EventValue& out) {
    const std::int32_t v = out.id.id;
    if (one.takes.empty()) return;
    if (one.row != nullptr && one.row->op.is_view()) return join(v, one.takes[0]);
    const bool product = one.bare() == "einsum" && one.takes.size() > 1;
    if (one.row != nullptr && (product || !kUnmarkedViews.contains(one.bare()))) return;
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

  // A call that writes to a result of the program, and returns it. Without a gradient it writes
  // behind autograd: the result keeps its own.
  bool writes_result(const Statement& one) const {
    return one.kind == StatementKind::kCall && is_in_place(one.op) && one.returns_first() &&
           program_.input(one.takes[0]) == nullptr &&
           (!(one.no_grad || one.takes_detached(one.takes[0], 0)) ||
            !taped_.contains(one.takes[0]));
  }

  bool shared_later(std::int32_t written, std::size_t at,
                    const std::set<std::int32_t>& made) const {
    const auto members = members_.find(group_of(written));
    if (members == members_.end()) return false;
    return std::ranges::any_of(members->second, [&](std::int32_t v) {
      const auto uses = uses_.find(v);
      if (v == written || uses == uses_.end() || !made.contains(v)) return false;
      const auto next = uses->second.upper_bound(at);
      return next != uses->second.end() && next->second;
    });
  }

  // The row that returns a new tensor of the same dtype, by name and arguments: pow_.Scalar is
  // pow.Tensor_Scalar. Null if there is none.
  const OpRow* other_row(const Statement& one) const {
    if (one.row == nullptr || !one.row->op.base.ends_with('_')) return nullptr;
    const std::string base = one.row->op.base.substr(0, one.row->op.base.size() - 1);
    const DType dtype = program_.metas.at(one.takes[0]).dtype;
    const bool promotes = std::ranges::any_of(one.takes, [&](std::int32_t v) {
      const DType other = program_.metas.at(v).dtype;
      return other != dtype && !is_integral(other);
    });
    const std::string_view bare = one.bare();
    if (promotes || kOtherDType.contains(bare.substr(0, bare.size() - 1))) return nullptr;
    const auto alike = [](const SchemaArgument& a, const SchemaArgument& b) {
      return a.name == b.name && a.type == b.type;
    };
    for (const OpRow* other : all_ops().overloads(base)) {
      const bool same = std::ranges::equal(one.row->op.arguments, other->op.arguments, alike);
      if (same && other->runs()) return other;
    }
    return nullptr;
  }

  const CallProgram& program_;
  std::vector<Statement*> order_;
  std::set<std::int32_t> taped_;                // results of calls that have a gradient
  std::map<std::int32_t, std::int32_t> group_;  // to a value of the same group
  std::map<std::int32_t, std::vector<std::int32_t>> members_;  // of each group
  // Statements that take a value (true) or make it anew, by value; one past the end: a result.
  std::map<std::int32_t, std::map<std::size_t, bool>> uses_;
};

}  // namespace

void renew_written(CallProgram& program) {
  std::vector<std::int32_t> results;
  for (const auto& [v, name] : program.recording->outputs) results.push_back(v);
  Renewer(program, {&program.statements, &program.updates}, results).renew();
  for (Statement& one : program.statements) {
    if (one.function == nullptr) continue;
    CallFunction own = *one.function;
    results = own.results;
    results.insert(results.end(), own.saved.begin(), own.saved.end());
    Renewer(program, {&own.forward}, results).renew();
    results.clear();
    for (const auto& v : own.gives) {
      if (v) results.push_back(*v);
    }
    Renewer(program, {&own.backward}, results).renew();
    one.function = std::make_shared<const CallFunction>(std::move(own));
  }
}

}  // namespace shardlab
