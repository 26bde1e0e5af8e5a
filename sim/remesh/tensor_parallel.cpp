// Facts of each value, in one pass each. In order, through ops that keep features apart: the linear
// layers that it comes from; a residual stream comes from others, too. Back from the end: whether
// every value that is computed from it becomes the input of a linear layer.
#include "sim/remesh/tensor_parallel.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <variant>

#include "base/text_of_list.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

// Ops that take each feature by itself, heads of attention included: a cut passes through.
bool keeps_features(std::string_view bare) {
  static const std::vector<std::string_view> kOps = parts_of_text(
      "silu gelu relu relu6 leaky_relu elu celu selu mish tanh sigmoid hardswish hardtanh "
      "softplus square pow neg exp abs clamp dropout native_dropout to _to_copy contiguous "
      "clone alias type_as view reshape _unsafe_view flatten unflatten transpose permute t "
      "split split_with_sizes chunk unbind slice select unsqueeze squeeze expand "
      "repeat_interleave stack cat mul add sub div rsub scaled_dot_product_attention "
      "matmul bmm softmax masked_fill where view_as_complex view_as_real movedim swapaxes "
      "glu",
      " ");
  return std::ranges::find(kOps, bare) != kOps.end();
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
    const std::size_t count = program_.statements.size();
    for (std::size_t i = 0; i < count; ++i) note_others(i);
    for (std::size_t i = count; i-- > 0;) note_reach(i);
    for (std::size_t i = 0; i < count; ++i) {
      const std::string_view op = program_.statements[i].bare();
      if (op == "linear" && has_weight(i, 1)) decide_linear(i);
      if (op == "embedding" && has_weight(i, 0) && program_.statements[i].takes.size() > 1) {
        decide_embedding(i);
      }
      note_layers(i);
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

  // Whether a value comes from one that is no parameter, mask or table of positions, without a
  // linear layer between.
  bool others(std::int32_t value) const {
    if (maker_.contains(value)) return others_.contains(value);
    const CallInput* input = program_.input(value);
    return input != nullptr && input->batch && !is_mask(value);
  }

  void note_others(std::size_t i) {
    const Statement& one = statement(i);
    if (is_linear(i) || one.kind == StatementKind::kFactory) return;
    const bool has = !keeps_features(one) ||
                     std::ranges::any_of(one.takes, [&](std::int32_t v) { return others(v); });
    if (has) others_.insert(one.outs.begin(), one.outs.end());
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

  // The linear layers that results come from: some, all of them cut by columns.
  void note_layers(std::size_t i) {
    const Statement& one = statement(i);
    Layers all;
    if (is_linear(i)) {
      const auto cut = cuts_.find(i);
      all = {true, cut == cuts_.end() || cut->second != LayerCut::kColumn};
    } else if (one.kind != StatementKind::kFactory && keeps_features(one)) {
      for (const std::int32_t v : one.takes) {
        const Layers& from = layers_[v];
        all = {all.any || from.any, all.other_cuts || from.other_cuts};
      }
    }
    for (const std::int32_t v : one.outs) layers_.try_emplace(v, all);
  }

  // Values from which all that is computed is, feature by feature, an input of linear layers.
  void note_reach(std::size_t i) {
    for (const std::int32_t value : statement(i).outs) {
      const auto users = users_.find(value);
      if (users == users_.end()) continue;
      const bool all = std::ranges::all_of(users->second, [&](std::size_t user) {
        return is_linear(user) ? statement(user).takes[0] == value : passes(user, value);
      });
      if (all) reaching_.insert(value);
    }
  }

  bool passes(std::size_t i, std::int32_t value) const {
    const Statement& one = statement(i);
    if (one.outs.empty() || !keeps_features(one)) return false;
    const auto is_other = [&](std::int32_t v) { return v != value && others(v); };
    if (std::ranges::any_of(one.takes, is_other)) return false;
    bool reached = false;  // one of the parts of a split may be left unused
    for (const std::int32_t v : one.outs) {
      if (!users_.contains(v)) continue;
      if (!reaching_.contains(v)) return false;
      reached = true;
    }
    return reached;
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
    const std::int32_t x = statement(i).takes[0];
    const Layers& from = layers_[x];
    if (!others(x) && from.any && !from.other_cuts) {
      cuts_[i] = LayerCut::kRow;
    } else if (reaching_.contains(statement(i).outs[0])) {
      cuts_[i] = LayerCut::kColumn;
    } else if (ends(statement(i).outs[0])) {
      cuts_[i] = LayerCut::kHead;
    }
  }

  // A table of words, which batches, or parts of them, index; positions are few.
  void decide_embedding(std::size_t i) {
    std::int32_t index = statement(i).takes.at(1);
    for (auto made = maker_.find(index); made != maker_.end(); made = maker_.find(index)) {
      const Statement& maker = statement(made->second);
      if (maker.takes.empty() || maker.takes[0] == index) return;
      index = maker.takes[0];
    }
    const CallInput* input = program_.input(index);
    if (input != nullptr && input->batch) cuts_[i] = LayerCut::kEmbedding;
  }

  const CallProgram& program_;
  std::unordered_map<std::int32_t, std::size_t> maker_;               // by value
  std::unordered_map<std::int32_t, std::vector<std::size_t>> users_;  // by value
  struct Layers {
    bool any = false, other_cuts = false;
  };
  std::unordered_set<std::int32_t> others_, reaching_;  // values
  std::unordered_map<std::int32_t, Layers> layers_;     // by value
  std::map<std::size_t, LayerCut> cuts_;
};

}  // namespace

std::map<std::size_t, LayerCut> tensor_parallel_cuts(const CallProgram& program) {
  return Cutter(program).cut();
}

}  // namespace shardlab
