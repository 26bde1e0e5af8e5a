// Two walks. Back from a value through ops that keep features apart, to the linear layers that it
// comes from: a residual stream comes from others, too. Forward from a linear layer: every value
// that it reaches must be the input of another one.
#include "sim/remesh/tensor_parallel.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "schema/op_row.h"
#include "schema/sharding_rule.h"

namespace shardlab {

namespace {

// Ops that take each feature by itself, heads of attention included: a cut passes through.
bool keeps_features(std::string_view bare) {
  static const std::set<std::string_view> kOps = {"silu",         "gelu",
                                                  "relu",         "relu6",
                                                  "leaky_relu",   "elu",
                                                  "celu",         "selu",
                                                  "mish",         "tanh",
                                                  "sigmoid",      "hardswish",
                                                  "hardtanh",     "softplus",
                                                  "square",       "pow",
                                                  "neg",          "exp",
                                                  "abs",          "clamp",
                                                  "dropout",      "native_dropout",
                                                  "to",           "_to_copy",
                                                  "contiguous",   "clone",
                                                  "alias",        "type_as",
                                                  "view",         "reshape",
                                                  "_unsafe_view", "flatten",
                                                  "unflatten",    "transpose",
                                                  "permute",      "t",
                                                  "split",        "split_with_sizes",
                                                  "chunk",        "unbind",
                                                  "slice",        "select",
                                                  "unsqueeze",    "squeeze",
                                                  "expand",       "repeat_interleave",
                                                  "stack",        "cat",
                                                  "mul",          "add",
                                                  "sub",          "div",
                                                  "rsub",         "scaled_dot_product_attention",
                                                  "matmul",       "bmm",
                                                  "softmax",      "masked_fill",
                                                  "where",        "view_as_complex",
                                                  "view_as_real", "movedim",
                                                  "swapaxes",     "glu"};
  return kOps.contains(bare);
}

// A function of the program does, if all of its calls take each element by itself.
bool keeps_features(const Statement& one) {
  if (!one.function) return keeps_features(one.bare());
  const auto by_itself = [](const Statement& call) {
    return call.row != nullptr && std::holds_alternative<PointwiseRule>(call.row->rule);
  };
  return std::ranges::all_of(one.function->forward, by_itself) &&
         std::ranges::all_of(one.function->backward, by_itself);
}

class Cutter {
 public:
  explicit Cutter(const CallProgram& program) : program_(program) {
    for (std::size_t i = 0; i < program.statements.size(); ++i) {
      for (const std::int32_t v : program.statements[i].outs) maker_.emplace(v, i);
      for (const std::int32_t v : program.statements[i].takes) users_[v].push_back(i);
    }
  }

  std::map<std::size_t, LayerCut> cut() {
    for (std::size_t i = 0; i < program_.statements.size(); ++i) {
      const std::string_view op = program_.statements[i].bare();
      if (op == "linear" && has_weight(i, 1)) decide_linear(i);
      if (op == "embedding" && has_weight(i, 0)) decide_embedding(i);
    }
    return std::move(cuts_);
  }

 private:
  const Statement& statement(std::size_t i) const { return program_.statements[i]; }

  bool has_weight(std::size_t i, std::size_t operand) const {
    const Statement& one = statement(i);
    const CallInput* input =
        one.takes.size() > operand ? program_.input(one.takes[operand]) : nullptr;
    return input != nullptr && input->parameter && input->meta.shape.size() == 2;
  }

  bool is_linear(std::size_t i) const {
    return statement(i).bare() == "linear" && has_weight(i, 1);
  }

  // The linear layers that a value comes from; `others`: also from a value that is no parameter,
  // mask or table of positions.
  void origins(std::int32_t value, std::set<std::size_t>& linear, bool& others) {
    const auto made = maker_.find(value);
    if (made == maker_.end()) {
      const CallInput* input = program_.input(value);
      others = others || (input != nullptr && input->batch && !is_mask(value));
      return;
    }
    const std::size_t i = made->second;
    if (is_linear(i)) {
      linear.insert(i);
      return;
    }
    if (statement(i).kind == StatementKind::kFactory) return;
    if (!keeps_features(statement(i))) {
      others = true;
      return;
    }
    if (!seen_.insert(value).second) return;
    for (const std::int32_t v : statement(i).takes) origins(v, linear, others);
  }

  bool is_mask(std::int32_t value) const {
    const auto users = users_.find(value);
    return users != users_.end() && std::ranges::all_of(users->second, [&](std::size_t i) {
             return (statement(i).kind == StatementKind::kDropout ||
                     statement(i).kind == StatementKind::kChosen ||
                     statement(i).kind == StatementKind::kAttention) &&
                    statement(i).mask == value;
           });
  }

  struct Origins {
    std::set<std::size_t> linear;
    bool others = false;
  };
  Origins origins_of(std::int32_t value) {
    Origins found;
    seen_.clear();
    origins(value, found.linear, found.others);
    return found;
  }

  // True when all values computed from the value are, feature by feature, inputs of linear layers.
  bool reaches_linear(std::int32_t value, std::set<std::size_t>& visited) {
    const auto users = users_.find(value);
    if (users == users_.end()) return false;
    bool any = false;
    for (const std::size_t i : users->second) {
      if (is_linear(i)) {
        if (statement(i).takes[0] != value) return false;
        any = true;
        continue;
      }
      if (!visited.insert(i).second) {
        any = true;
        continue;
      }
      if (statement(i).outs.empty() || !keeps_features(statement(i))) return false;
      for (const std::int32_t v : statement(i).takes) {
        if (v != value && origins_of(v).others) return false;
      }
      bool reached = false;  // one of the parts of a split may be left unused
      for (const std::int32_t v : statement(i).outs) {
        if (!users_.contains(v)) continue;
        if (!reaches_linear(v, visited)) return false;
        reached = true;
      }
      any = any || reached;
    }
    return any;
  }

  // The result is used by the loss, and not by another layer.
  bool ends(std::int32_t value, int depth = 0) const {
    const auto users = users_.find(value);
    if (users == users_.end() || depth > 6) return false;
    return std::ranges::any_of(users->second, [&](std::size_t i) {
      const std::string_view op = statement(i).bare();
      if (op.find("loss") != std::string::npos || op.find("log_softmax") != std::string::npos) {
        return true;
      }
      const bool passes = op == "view" || op == "reshape" || op == "flatten" || op == "to" ||
                          op == "slice" || op == "contiguous" || op == "transpose";
      return passes && !statement(i).outs.empty() && ends(statement(i).outs[0], depth + 1);
    });
  }

  void decide_linear(std::size_t i) {
    const Origins from = origins_of(statement(i).takes[0]);
    const bool all_cut = !from.others && !from.linear.empty() &&
                         std::ranges::all_of(from.linear, [&](std::size_t l) {
                           const auto cut = cuts_.find(l);
                           return cut != cuts_.end() && cut->second == LayerCut::kColumn;
                         });
    if (all_cut) {
      cuts_[i] = LayerCut::kRow;
      return;
    }
    std::set<std::size_t> visited;
    if (reaches_linear(statement(i).outs[0], visited)) {
      cuts_[i] = LayerCut::kColumn;
    } else if (ends(statement(i).outs[0])) {
      cuts_[i] = LayerCut::kHead;
    }
  }

  // A table of words, which batches index; positions are few.
  void decide_embedding(std::size_t i) {
    const Statement& one = statement(i);
    const CallInput* index = one.takes.size() > 1 ? program_.input(one.takes[1]) : nullptr;
    if (index != nullptr && index->batch) cuts_[i] = LayerCut::kEmbedding;
  }

  const CallProgram& program_;
  std::unordered_map<std::int32_t, std::size_t> maker_;               // by value
  std::unordered_map<std::int32_t, std::vector<std::size_t>> users_;  // by value
  std::set<std::int32_t> seen_;
  std::map<std::size_t, LayerCut> cuts_;
};

}  // namespace

std::map<std::size_t, LayerCut> tensor_parallel_cuts(const CallProgram& program) {
  return Cutter(program).cut();
}

}  // namespace shardlab
