// Values that may share memory are grouped by the schemas of the calls that made them. A group is
// left alone at a write if a later call takes another value of it that was made before.
#include "sim/capture/step_writes.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "sim/capture/recorded_event.h"

namespace shardlab {

namespace {

// They may return a view, without a mark in their schema.
const std::set<std::string> kUnmarkedViews = {"broadcast_tensors", "meshgrid",   "atleast_1d",
                                              "atleast_2d",        "atleast_3d", "einsum",
                                              "cartesian_prod",    "block_diag", "type_as"};
// The written tensor keeps its dtype, and a new one has another.
const std::set<std::string> kOtherDType = {
    "eq",    "ne",          "lt",         "le",           "gt",          "ge",
    "equal", "logical_and", "logical_or", "logical_xor",  "logical_not", "not_equal",
    "less",  "less_equal",  "greater",    "greater_equal"};

class Renewer {
 public:
  explicit Renewer(StepProgram& program) : program_(program) {
    for (const auto& [v, meta] : program.metas) dtypes_[v] = meta.dtype;
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      const StepStatement& one = program.statements[i];
      for (const std::size_t v : one.takes) last_use_[v] = i;
      for (const Json& out : list_at(*one.event, "out")) {
        if (out.is_object() && out.contains("v")) note_result(one, out);
      }
    }
    for (const StepStatement& update : program.updates) {
      for (const std::size_t v : update.takes) last_use_[v] = program.statements.size();
    }
    for (const auto& [v, name] : program.recording->outputs) {
      last_use_[v] = program.statements.size();
    }
    for (const auto& [v, dtype] : dtypes_) members_[group_of(v)].push_back(v);
  }

  void renew() {
    std::set<std::size_t> made;
    for (const StepInput& input : program_.inputs) made.insert(input.value);
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      StepStatement& one = program_.statements[i];
      if (writes_result(one) && !shared_later(one.takes[0], i, made)) one.renewed = other_op(one);
      made.insert(one.outs.begin(), one.outs.end());
    }
    renew_views();
  }

 private:
  // Results have other strides here than in some releases, which a view may not fit. A reshape is
  // the same, if nothing writes to the memory.
  void renew_views() {
    std::set<std::size_t> written;
    for (const StepStatement& one : program_.statements) {
      const bool writes = one.writes() && one.renewed.empty();
      if (writes && !one.takes.empty()) written.insert(group_of(one.takes[0]));
    }
    for (StepStatement& one : program_.statements) {
      const bool is_view = one.kind == StatementKind::kCall && one.op == "aten.view.default";
      if (is_view && !written.contains(group_of(one.takes[0])))
        one.renewed = "aten.reshape.default";
    }
  }

  void note_result(const StepStatement& one, const Json& out) {
    const auto v = integer_of<std::size_t>(out.at("v"));
    dtypes_[v] = recorded_meta(out).dtype;
    if (one.takes.empty()) return;
    const OpRow* row = recorded_row(*one.event);
    if (row != nullptr && row->op.is_view()) return join(v, one.takes[0]);
    if (row != nullptr && !kUnmarkedViews.contains(bare_op(one.op))) return;
    for (const std::size_t operand : one.takes) join(v, operand);
  }

  std::size_t group_of(std::size_t v) const {
    for (auto found = group_.find(v); found != group_.end(); found = group_.find(v)) {
      v = found->second;
    }
    return v;
  }

  void join(std::size_t a, std::size_t b) {
    const std::size_t from = group_of(a), to = group_of(b);
    if (from != to) group_[from] = to;
  }

  // A call that writes to a result of the program, and returns it.
  bool writes_result(const StepStatement& one) const {
    return one.kind == StatementKind::kCall && is_in_place(one.op) && one.returns_first() &&
           program_.input(one.takes[0]) == nullptr;
  }

  bool shared_later(std::size_t written, std::size_t at, const std::set<std::size_t>& made) const {
    const auto members = members_.find(group_of(written));
    if (members == members_.end()) return false;
    return std::ranges::any_of(members->second, [&](std::size_t v) {
      const auto last = last_use_.find(v);
      return v != written && last != last_use_.end() && last->second > at && made.contains(v);
    });
  }

  // The op that returns a new tensor of the same dtype; empty: there is none.
  std::string other_op(const StepStatement& one) const {
    std::string bare = bare_op(one.op);
    const std::size_t end = one.op.find(bare) + bare.size();
    const std::string op = one.op.substr(0, end - 1) + one.op.substr(end);
    bare.pop_back();
    const OpRow* written = recorded_row(*one.event);
    const OpRow* other = recorded_row(Json{{"op", op}});
    if (written == nullptr || other == nullptr || !other->runs() || kOtherDType.contains(bare)) {
      return "";
    }
    const auto& theirs = other->op.arguments;
    const bool same = std::ranges::equal(written->op.arguments, theirs, {}, &SchemaArgument::name,
                                         &SchemaArgument::name);
    const DType dtype = dtypes_.at(one.takes[0]);
    const bool promotes = std::ranges::any_of(one.takes, [&](std::size_t v) {
      return dtypes_.at(v) != dtype && !is_integral(dtypes_.at(v));
    });
    return same && !promotes ? op : "";
  }

  StepProgram& program_;
  std::map<std::size_t, DType> dtypes_;
  std::map<std::size_t, std::size_t> group_;                 // to a value of the same group
  std::map<std::size_t, std::vector<std::size_t>> members_;  // of each group
  std::map<std::size_t, std::size_t> last_use_;  // the statement; one past the end: an update
};

}  // namespace

void renew_written(StepProgram& program) { Renewer(program).renew(); }

}  // namespace shardlab
