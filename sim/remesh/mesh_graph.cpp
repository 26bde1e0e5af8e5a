// A statement becomes nodes of which the last has its name; the others are written inside of it.
#include "sim/remesh/mesh_graph.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/recording/advice.h"
#include "sim/remesh/mesh_nodes.h"
#include "sim/remesh/reading.h"
#include "trace/graph_meshes.h"

namespace shardlab {

namespace {

// Vectors with the signs of the recorded ones: of their products' sums.
void add_signed(MeshNodes& nodes, const Statement& one) {
  const GraphArgument own = value_argument(nodes.operand(one.takes[0]));
  const std::int32_t product =
      nodes.inside("aten::mul.Tensor", {own, value_argument(nodes.operand(one.mask))});
  const std::int32_t sum = nodes.inside(
      "aten::sum.dim_IntList",
      {value_argument(product), {Dims{static_cast<std::int64_t>(one.scale)}}, {Scalar(true)}});
  const std::int32_t sign = nodes.inside("aten::sign", {value_argument(sum)});
  nodes.call("aten::mul.Tensor", {own, value_argument(sign)}, one.outs[0]);
}

// The elements of a row at the recorded indices.
void add_chosen(MeshNodes& nodes, const Statement& one) {
  if (one.scale < 0) return add_signed(nodes, one);
  const double dim = number_of(one, "dim").value_or(-1);
  const auto dims = [&](std::int32_t v) { return nodes.program.shape_of(v).size(); };
  const bool keeps = dims(one.mask) == dims(one.takes[0]);
  const GraphArgument at = int_argument(static_cast<std::int64_t>(dim));
  const std::int32_t x = nodes.operand(one.takes[0]), indices = nodes.operand(one.mask);
  if (keeps)
    return nodes.call("aten::gather", {value_argument(x), at, value_argument(indices)},
                      one.outs[0]);
  const std::int32_t wide = nodes.inside("aten::unsqueeze", {value_argument(indices), at});
  const std::int32_t picked =
      nodes.inside("aten::gather", {value_argument(x), at, value_argument(wide)});
  nodes.call("aten::squeeze.dim", {value_argument(picked), at}, one.outs[0]);
}

// One direction of one layer of an LSTM, as the library of a CPU has it: (input, w_ih, w_hh, b_ih,
// b_hh, h, c, reverse, ...), states without a dim of layers.
void add_lstm_layer(MeshNodes& nodes, const Statement& one) {
  std::vector<std::int32_t> own;
  for (const std::int32_t v : one.takes) own.push_back(nodes.operand(v));
  const auto* reverse = std::get_if<Scalar>(&one.args.at(7).value);
  const bool turned = reverse != nullptr && reverse->to_bool();
  const GraphArgument steps{Dims{0}};
  if (turned) own[0] = nodes.inside("aten::flip", {value_argument(own[0]), steps});
  for (const std::size_t i : {5, 6}) {
    own[i] = nodes.inside("aten::unsqueeze", {value_argument(own[i]), int_argument(0)});
  }
  const std::int32_t output = nodes.fresh("layer"), hidden = nodes.fresh("h"),
                     cell = nodes.fresh("c");
  nodes.call("aten::lstm.input",
             {value_argument(own[0]),
              list_argument({own[5], own[6]}),
              list_argument({own[1], own[2], own[3], own[4]}),
              {Scalar(true)},
              int_argument(1),
              {Scalar(0.0)},
              {Scalar(false)},
              {Scalar(false)},
              {Scalar(false)}},
             output);
  for (const std::int32_t state : {hidden, cell}) {
    nodes.graph.nodes.back().results.push_back({ValueRef{state}, {}});
  }
  nodes.call("aten::flip", {value_argument(output), turned ? steps : GraphArgument{Dims{}}},
             one.outs[0]);
  nodes.call("aten::squeeze.dim", {value_argument(hidden), int_argument(0)}, one.outs[1]);
  nodes.call("aten::squeeze.dim", {value_argument(cell), int_argument(0)}, one.outs[2]);
}

// softmax(q k / sqrt(d)) v, with the recorded mask between the two.
void add_attention(MeshNodes& nodes, const Statement& one) {
  const Dims q = nodes.program.shape_of(one.takes[0]), k = nodes.program.shape_of(one.takes[1]);
  if (q.size() < 2 || k.size() < 2) {
    fail(ErrorKind::kValue, Fix{record_again()}, "{}: attention of values with fewer than 2 dims",
         nodes.program.recording->path);
  }
  // PyTorch computes it in f32 for half types: the mask has that dtype.
  const DType given_dtype = one.event->out.at(0).type.dtype,
              dtype = nodes.program.metas.at(one.mask).dtype;
  const bool casts = is_floating(dtype) && dtype != given_dtype;
  const auto operand = [&](std::size_t i) {
    const std::int32_t own = nodes.operand(one.takes[i]);
    if (!casts) return own;
    return nodes.inside("aten::to.dtype", {value_argument(own), {nodes.dtype_of_all(dtype)}});
  };
  const std::int32_t keys = nodes.inside(
      "aten::transpose.int", {value_argument(operand(1)), int_argument(-2), int_argument(-1)});
  std::int32_t scores =
      nodes.inside("aten::matmul", {value_argument(operand(0)), value_argument(keys)});
  const auto scale = number_of(one, "scale");
  scores = scale ? nodes.inside("aten::mul.Scalar", {value_argument(scores), {Scalar(*scale)}})
                 : nodes.inside("aten::div.Scalar",
                                {value_argument(scores),
                                 {Scalar(std::sqrt(static_cast<double>(q.back())))}});
  const GraphArgument minus{Scalar(-std::numeric_limits<double>::infinity())};
  const GraphArgument* mask = argument_of(one, "attn_mask");
  const auto* given = mask == nullptr ? nullptr : std::get_if<ValueRef>(&mask->value);
  if (given != nullptr && nodes.program.metas.at(given->id).dtype == DType::kBool) {
    const std::int32_t hidden =
        nodes.inside("aten::logical_not", {value_argument(nodes.operand(given->id))});
    scores = nodes.inside("aten::masked_fill.Scalar",
                          {value_argument(scores), value_argument(hidden), minus});
  } else if (given != nullptr) {
    scores = nodes.inside("aten::add.Tensor",
                          {value_argument(scores), value_argument(nodes.operand(given->id))});
  } else if (number_of(one, "is_causal").value_or(0) != 0) {
    const Dims shape = {q[q.size() - 2], k[k.size() - 2]};
    const std::int32_t ones = nodes.inside("aten::ones", {{shape}, {DType::kBool}});
    const std::int32_t seen = nodes.inside("aten::tril", {value_argument(ones)});
    const std::int32_t hidden = nodes.fresh();
    nodes.distribute(nodes.inside("aten::logical_not", {value_argument(seen)}),
                     plain_type(contiguous_meta(shape, DType::kBool)), hidden,
                     MeshNodes::Written::kInside);
    scores = nodes.inside("aten::masked_fill.Scalar",
                          {value_argument(scores), value_argument(hidden), minus});
  }
  std::int32_t weights =
      nodes.inside("aten::softmax.int", {value_argument(scores), int_argument(-1)});
  weights = nodes.inside("aten::mul.Tensor", {value_argument(weights), value_argument(one.mask)});
  weights = nodes.inside("aten::mul.Scalar", {value_argument(weights), {Scalar(one.scale)}});
  const std::vector<GraphArgument> both = {value_argument(weights), value_argument(operand(2))};
  if (!casts) return nodes.call("aten::matmul", both, one.outs[0]);
  nodes.call(
      "aten::to.dtype",
      {value_argument(nodes.inside("aten::matmul", both)), {nodes.dtype_of_all(given_dtype)}},
      one.outs[0]);
}

// Whether a change of shape joins dims, or takes one apart, that ranks cannot share out evenly. On
// the meshes of a recording of ranks PyTorch's own views decide.
bool parts_unevenly(const CallProgram& program, const Statement& one, std::int64_t ranks) {
  if (!one.reshapes || program.recording->ranks > 1) return false;
  const Dims from = program.shape_of(one.takes[0]), to = one.event->out.at(0).type.shape;
  std::int64_t before = 1, after = 1;
  bool uneven = false;
  for (std::size_t i = 0, j = 0, count = 0; i < from.size() || j < to.size();) {
    const bool level = before == after && i < from.size();
    if (level && j < to.size() && from[i] == 1 && to[j] == 1) {
      ++i, ++j;
      continue;
    }
    const bool first = j == to.size() || (i < from.size() && before <= after);
    const std::int64_t size = first ? from[i++] : to[j++];
    (first ? before : after) *= size;
    uneven = uneven || size % ranks != 0;
    ++count;
    if (before != after) continue;
    if (uneven && (count > 2 || (count == 1 && first))) return true;
    count = 0;
    uneven = false;
  }
  return false;
}

class Emitter : private MeshNodes {
 public:
  using MeshNodes::MeshNodes;

  std::string emit() {
    for (const CallInput& input : program.inputs) add_input(input);
    for (at = 0; at < program.statements.size(); ++at) add(program.statements[at]);
    for (const Statement& update : program.updates) {
      ++at;  // the plan has no entry for these: parameters keep their placements
      add(update);
    }
    for (std::size_t i = 0; i < functions_.size(); ++i) add_backward(static_cast<std::int32_t>(i));
    const bool differentiates = std::ranges::any_of(program.statements, [](const Statement& one) {
      return one.kind == StatementKind::kBackward;
    });
    for (const CallInput& input : program.inputs) {
      if (differentiates && input.graded) names.gradients.push_back(input.name);
    }
    return graph_scenario(graph, all_ops(), names);
  }

 private:
  void add_input(const CallInput& input) {
    comment = input.user == nullptr ? "" : comment_of(*input.user);
    GraphNode& one = node(NodeKind::kInput, Written::kStatement);
    one.name = input.name;
    one.results = {{ValueRef{input.value}, input_type(input)}};
    one.requires_grad = input.parameter;
    if (program.recording->shapes_only) {
      one.recipe.init = "zeros";
    } else {
      const std::string& path = program.recording->path;
      one.recipe.file = path.substr(path.rfind('/') + 1);
      one.recipe.tensor = input.tensor;
    }
  }

  // Statements.

  void add(const Statement& one) {
    now = &one;
    comment = comment_of(*one.event);
    for (const std::int32_t leaf : one.leaves) {
      if (!program.names.contains(leaf)) continue;  // nothing takes it
      node(NodeKind::kRequireGrad, Written::kStatement).args = {value_argument(leaf)};
      forget_moved();
    }
    add_kind(one);
    // A moved copy is the old value, once something is written.
    if (is_in_place(one.op)) forget_moved();
    now = nullptr;
  }

  void add_kind(const Statement& one) {
    using enum StatementKind;
    if (one.kind == kCall) return add_call(one);
    if (one.kind == kFactory) return add_factory(one);
    if (one.kind == kDropout) {
      const std::int32_t kept = inside(
          "aten::mul.Tensor", {value_argument(operand(one.takes[0])), value_argument(one.mask)});
      return call("aten::mul.Scalar", {value_argument(kept), {Scalar(one.scale)}}, one.outs[0]);
    }
    if (one.kind == kDrawn) {
      return call("aten::copy_", {value_argument(one.takes[0]), value_argument(one.takes[1])},
                  one.outs[0]);
    }
    if (one.kind == kChosen) return add_chosen(*this, one);
    if (one.kind == kAttention) return add_attention(*this, one);
    if (one.kind == kBackward || one.kind == kGradients) return differentiate(one);
    if (one.kind == kFunction) return add_function(one);
    if (one.kind == kGradient) return add_gradient(one);
    made_of(NodeKind::kDetach, one.takes[0], one.outs[0], Written::kStatement);
  }

  const OpRow& row_of(const Statement& one) {
    const OpRow* row = one.renewed != nullptr ? one.renewed : one.row;
    const bool complex = std::ranges::any_of(one.args, is_complex_number);
    if (complex && row != nullptr) row = all_ops().find(row->op.base + ".Tensor");
    if (row == nullptr || !one.event->misfit.empty()) {
      fail(ErrorKind::kUnsupported, Fix{without_op(one.op)}, "{}: {} at {} {}",
           program.recording->path, one.op, place_of(*program.recording, *one.event),
           complex          ? "has a complex number, which programs cannot say"
           : row == nullptr ? "does not exist here"
                            : "has arguments that no overload takes");
    }
    return *row;
  }

  void add_call(const Statement& one) {
    if (is_lstm_layer(one.op)) return add_lstm_layer(*this, one);
    const OpRow* row = &row_of(one);
    std::vector<GraphArgument> args = arguments(one, *row);
    if (parts_unevenly(program, one, ranks())) {  // a copy gathers
      row = all_ops().find("aten::view_copy");
      args = {args[0], {one.event->out.at(0).type.shape}};
    }
    if (one.writes()) place_as_written(one, args);
    if (is_cast(one.bare())) {  // a copy also on one device in f64, and without a device
      row = all_ops().find("aten::_to_copy");
      args = {args[0], {dtype_of_all(one.event->out.at(0).type.dtype)}, {}, {}, {}, {}, {}};
      args[5] = {Scalar(false)};
    }
    const bool bias = std::ranges::find(plan.bias_behind, at) != plan.bias_behind.end();
    const auto after = plan.after.find(at);
    const bool moves = after != plan.after.end();
    if (moves && is_move(one.event->kind)) {
      moved(operand(one.takes[0]), after->second, own(one.outs[0]), Written::kStatement);
      return;
    }
    const GraphArgument added = bias ? std::exchange(args.at(2), {}) : GraphArgument{};
    const bool one_result = one.outs.size() == 1;
    const bool more = one_result && (bias || moves);
    std::int32_t result = more ? before_end(one.outs[0]) : -1;
    GraphNode& op = node(NodeKind::kOp, Written::kStatement);
    op.name = row->op.name();
    op.args = std::move(args);
    // A write behind autograd has no result: that would have no gradient.
    const bool behind = (!program.updates.empty() && at >= program.statements.size()) ||
                        (one.writes() && one.takes_detached(one.takes[0], 0));
    if (!behind || !is_in_place(one.op) || one.renewed != nullptr) {
      for (const std::int32_t out : one.outs) op.results.push_back({ValueRef{own(out)}, {}});
    }
    if (!more && !moves) return;
    if (more) op.results = {{ValueRef{result}, {}}};
    comment.clear();
    if (moves && one_result) {
      result = moved(result, after->second, bias ? before_end(one.outs[0]) : one.outs[0],
                     Written::kStatement);
    } else if (moves && !one.outs.empty()) {
      moved(one.outs[0], after->second, one.outs[0], Written::kStatement);
    }
    // A bias is no part of a pending sum.
    if (bias && one_result) call("aten::add.Tensor", {value_argument(result), added}, one.outs[0]);
  }

  void add_factory(const Statement& one) {
    const OpRow& row = row_of(one);
    const std::int32_t made = fresh();
    GraphNode& op = node(NodeKind::kOp, Written::kInside);
    op.name = row.op.name();
    op.args = arguments(one, row);
    op.results = {{ValueRef{made}, {}}};
    distribute(made, one.event->out.at(0).type, own(one.outs.at(0)), Written::kStatement);
  }

  // Several values are one sum, in which each has its gradient as a factor.
  void differentiate(const Statement& one) {
    for (const std::int32_t parameter : one.resets) {
      if (program.input(parameter) == nullptr) continue;
      const std::string own_comment = std::exchange(comment, "");
      node(NodeKind::kDropGrad, Written::kStatement).args = {value_argument(parameter)};
      comment = own_comment;
    }
    std::int32_t root = -1;
    GraphArgument seed;
    for (std::size_t i = 0; i < one.roots.size(); ++i) {
      std::int32_t term = operand(one.roots[i]);
      if (one.incoming[i]) {
        const std::int32_t by = detach(operand(*one.incoming[i]));
        if (one.roots.size() == 1) seed = value_argument(by);
        if (one.roots.size() > 1) {
          term = inside("aten::sum",
                        {value_argument(inside("aten::mul.Tensor",
                                               {value_argument(term), value_argument(by)}))});
        }
      }
      root =
          i == 0 ? term : inside("aten::add.Tensor", {value_argument(root), value_argument(term)});
    }
    GraphNode& backward = node(NodeKind::kBackward, Written::kStatement);
    backward.args = {value_argument(root), seed};
    backward.of_inputs = one.kind == StatementKind::kGradients;
    if (one.event->retain_graph) backward.graph = Graph::kRetain;
    if (one.event->create_graph) backward.graph = Graph::kCreate;
    const std::size_t first = one.takes.size() - one.outs.size();
    for (std::size_t i = 0; backward.of_inputs && i < one.outs.size(); ++i) {
      backward.args.push_back(value_argument(one.takes[first + i]));
      backward.results.push_back({ValueRef{one.outs[i]}, {}});
    }
  }

  void add_gradient(const Statement& one) {
    std::int32_t gradient = fresh();
    made_of(NodeKind::kGradient, one.takes[0], gradient, Written::kInside);
    const CallInput* input = program.input(one.takes[0]);
    if (input != nullptr) gradient = as_placed(gradient, *input);
    call("aten::clone", {value_argument(gradient)}, one.outs[0]);
  }

  // Functions.

  void add_body(const std::vector<Statement>& body) {
    const std::size_t before_at = std::exchange(at, ~std::size_t{0});
    const Statement* before = now;
    const std::string own_comment = comment;
    for (const Statement& one : body) {
      Statement untaped = one;
      untaped.no_grad = true;
      now = &untaped;
      comment = comment_of(*one.event);
      // A function inside of another: the outer one has the gradient.
      one.function ? add_forward(*one.function, one.outs) : add_kind(untaped);
    }
    now = before;
    comment = own_comment;
    at = before_at;
  }

  void add_forward(const CallFunction& function, const std::vector<std::int32_t>& outs) {
    add_body(function.forward);
    for (std::size_t i = 0; i < outs.size(); ++i) {
      if (outs[i] != function.results[i])
        names.values[outs[i]] = names.values.at(function.results[i]);
    }
  }

  // The results are there already, and get their places on the tape.
  void add_function(const Statement& one) {
    const CallFunction& function = *one.function;
    std::vector<std::int32_t> operands;
    std::map<std::int32_t, std::int32_t> placed;
    for (const std::int32_t v : one.takes) {
      operands.push_back(operand(v, ~std::size_t{0}, false));
      if (operands.back() != own(v)) placed[v] = operands.back();
    }
    renamed.insert(placed.begin(), placed.end());
    add_body(function.forward);
    const auto hook = static_cast<std::int32_t>(functions_.size());
    GraphNode& apply = node(NodeKind::kFunction, Written::kStatement);
    apply.name = function.name;
    apply.hook = hook;
    apply.zeros =
        std::ranges::all_of(function.arrives, [](const auto& v) { return v.has_value(); });
    std::vector<std::int32_t> saved;
    for (const std::int32_t v : function.saved) saved.push_back(own(v));
    apply.args = {list_argument(operands), list_argument(function.results), list_argument(saved),
                  list_argument(function.constant)};
    for (const std::int32_t out : one.outs) apply.results.push_back({ValueRef{out}, {}});
    for (const auto& [v, moved] : placed) renamed.erase(v);
    functions_.push_back({&function, std::move(placed)});
  }

  // The writer finds the nodes of a backward by the function's number.
  void add_backward(std::int32_t hook) {
    const auto& [applied, placed] = functions_[static_cast<std::size_t>(hook)];
    const CallFunction& function = *applied;
    renamed = placed;
    const auto rename = [&](std::int32_t value) {
      const auto name = names.values.find(value);
      renamed[value] = fresh(name == names.values.end() ? "gradient" : name->second);
    };
    GraphNode& arrives = node(NodeKind::kHookCall, Written::kStatement);
    arrives.hook = hook;
    std::vector<GraphResult> results;
    for (const auto& value : function.arrives) {
      if (value) rename(*value);
      results.push_back({ValueRef{value ? own(*value) : -1}, {}});
    }
    graph.nodes.back().results = std::move(results);
    for (const Statement& one : function.backward) {
      Statement untaped = one;
      untaped.no_grad = true;
      now = &untaped;
      comment = comment_of(*one.event);
      // Operands have their names of before, results new ones.
      Statement renumbered = untaped;
      std::vector<std::int32_t> outs;
      const auto before = renamed;
      for (const std::int32_t out : one.outs) {
        const bool in_place = is_in_place(one.op) && before.contains(out);
        if (!in_place) rename(out);
        outs.push_back(own(out));
      }
      const auto after = std::exchange(renamed, before);
      renumbered.outs = outs;
      at = ~std::size_t{0};
      now = &renumbered;
      add_kind(renumbered);
      renamed = after;
    }
    now = nullptr;
    GraphNode& gives = node(NodeKind::kHookGives, Written::kStatement);
    gives.hook = hook;
    for (const auto& value : function.gives) {
      gives.args.push_back(value ? value_argument(own(*value)) : GraphArgument{});
    }
    renamed.clear();
  }

  // Functions that are applied, by hook, with their operands that were moved before.
  std::vector<std::pair<const CallFunction*, std::map<std::int32_t, std::int32_t>>> functions_;
};

}  // namespace

std::string mesh_scenario(const CallProgram& program, const PlanMesh& mesh, const MeshPlan& plan,
                          std::optional<DType> dtype) {
  return Emitter(program, mesh, plan, dtype).emit();
}

}  // namespace shardlab
