#include "autograd/autograd.h"
#include "autograd/grad_node.h"
#include "base/rank_context.h"
#include "dispatch/dispatcher.h"
#include "dispatch/local_call.h"
#include "dispatch/unwrap.h"
#include "propagate/propagator.h"

namespace shardlab {

namespace {

// A user's rule for a composite op comes before its decomposition (D-2), unless the rule does not
// take this call (D-19).
bool rule_takes(const OpRow& row, const Arguments& args) {
  try {
    const Unwrapped call = unwrap(row, args);
    if (call.distributed) current_rank().propagator->propagate(call.schema);
    return call.distributed;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    return false;
  }
}

bool is_composite(const OpRow& row, const Arguments& args) {
  if (row.decompose == nullptr || row.user_handler != nullptr) return false;
  return row.local == nullptr || !rule_takes(row, args);
}

// An error inside names the op that failed; this is what the user called.
Results decomposed(Calls& calls, const OpRow& row, const Arguments& args) {
  try {
    Results results = row.decompose(calls, args);
    if (results.empty() && !row.op.returns.empty()) {
      fail(ErrorKind::kInternal, "{}: its decomposition does not apply to this call", row.name());
    }
    return results;
  } catch (Error& error) {
    const std::string text = OpSchema{&row, args, nullptr}.text();
    error.with(error.find("op") == nullptr ? "op" : "part of", text);
    throw;
  }
}

class PlainCalls : public Calls {
 public:
  Results call(const OpRow& row, const Arguments& args) override {
    if (is_composite(row, args)) return decomposed(*this, row, args);
    return dispatch(row, args);
  }
  const OpRow& find(std::string_view name) const override {
    return current_rank().propagator->registry().at(name);
  }
  DTensor redistribute(const DTensor& x, const Placements& placements) override {
    if (!x.distributed()) return x;
    return redistribute_tensor(x, x.spec()->with(placements));
  }
};

template <typename Visit>
void for_each_result(const Results& results, Visit visit) {
  for (const Argument& result : results) {
    if (result.is_list()) {
      for (const Argument& element : result.list()) {
        visit(element.is_tensor() ? element.tensor() : DTensor());
      }
    } else {
      visit(result.is_tensor() ? result.tensor() : DTensor());
    }
  }
}

Argument detached_argument(const Argument& argument) {
  if (argument.is_tensor()) return detached(argument.tensor());
  if (!argument.is_list()) return argument;
  ArgumentList list;
  list.reserve(argument.list().size());
  for (const Argument& element : argument.list()) list.push_back(detached_argument(element));
  return list;
}

Arguments detached_all(const Arguments& arguments) {
  Arguments result;
  result.reserve(arguments.size());
  for (const Argument& argument : arguments) result.push_back(detached_argument(argument));
  return result;
}

// Variants have the gradient of the op they come from.
const OpRow& definition_of(const OpRow& row) {
  return row.gradient == nullptr && row.base != nullptr ? *row.base : row;
}

// A recorded row: its gradient program over the saved arguments and results.
class RowNode : public GradNode {
 public:
  /// Before the call: an in-place op changes its arguments.
  RowNode(const OpRow& row, const Arguments& args)
      : GradNode(row.name()), row_(&row), inputs_(detached_all(args)) {}

  void save_results(const Results& results, std::size_t count) {
    set_output_count(count);
    if (definition_of(*row_).gradient_takes_results) outputs_ = detached_all(results);
  }

  std::vector<DTensor> run(std::span<const DTensor> grads) override {
    const OpRow& definition = definition_of(*row_);
    if (definition.gradient == nullptr && definition.decompose != nullptr) {
      return gradients_of_parts(definition, grads);
    }
    if (definition.gradient == nullptr) {
      throw Error(ErrorKind::kUnsupported, fmt::format("{}: no gradient for this op", row_->name()))
          .with("fix", "detach the input that needs no gradient");
    }
    const GradContext context{plain_calls(), inputs_, outputs_, grads,
                              [this](std::size_t index) { return edges()[index].wanted(); }};
    return definition.gradient(context);
  }

 protected:
  void free_saved() override {
    inputs_.clear();
    outputs_.clear();
  }

 private:
  // What was decided as a whole by a user's rule (D-2) is run once more in parts, which are
  // recorded: their gradients are its own.
  std::vector<DTensor> gradients_of_parts(const OpRow& definition,
                                          std::span<const DTensor> grads) const;

  const OpRow* row_;
  Arguments inputs_;
  Results outputs_;
};

void refuse_leaf_write(const OpRow& row, const Arguments& args) {
  for_each_tensor_slot(row.op, args, [&](std::size_t index, const Argument& argument) {
    if (!row.op.arguments[index].alias.write || !argument.is_tensor()) return;
    const DTensor& target = argument.tensor();
    const bool leaf = target.requires_grad() && !target.impl()->grad_node;
    if (!leaf && !row.out_variant()) return;
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: writes {} while gradients are recorded", row.name(),
                            leaf ? "a leaf that requires a gradient" : "an out= tensor"))
        .with("op", fmt::format("{} {}", row.op.arguments[index].name, type_string(target)))
        .with("fix", "use the op that returns a new tensor");
  });
}

class RecordingCalls : public PlainCalls {
 public:
  Results call(const OpRow& row, const Arguments& args) override {
    if (is_composite(row, args)) return decomposed(*this, row, args);
    return needs_record(row, args) ? recorded(row, args) : dispatch(row, args);
  }

  DTensor redistribute(const DTensor& x, const Placements& placements) override {
    if (!x.distributed()) return x;
    return shardlab::redistribute(x, x.spec()->with(placements));
  }

 private:
  static bool needs_record(const OpRow& row, const Arguments& args) {
    if ((current_rank().mode & kModeAutograd) == 0 || row.has(kNotDifferentiable)) return false;
    bool needed = false;
    for_each_tensor_slot(row.op, args, [&](std::size_t, const Argument& argument) {
      needed |= argument.is_tensor() && records(argument.tensor());
    });
    return needed;
  }

  static Results recorded(const OpRow& row, const Arguments& args) {
    if (row.inplace() || row.out_variant()) refuse_leaf_write(row, args);
    const auto node = make_ref<RowNode>(row, args);
    Results results = dispatch(row, args);
    record(node, row, args, results);
    return results;
  }

  static void record(const Ref<RowNode>& node, const OpRow& row, const Arguments& args,
                     const Results& results) {
    std::size_t count = 0;
    for_each_result(results, [&](const DTensor&) { ++count; });
    node->save_results(results, count);
    node->reserve(args.size());
    for_each_tensor_slot(row.op, args, [&](std::size_t, const Argument& argument) {
      node->connect(argument.is_tensor() ? argument.tensor() : DTensor());
    });
    std::size_t index = 0;
    for_each_result(results, [&](const DTensor& result) {
      if (result.defined() && !is_integral(result.dtype())) attach(result, node, index);
      ++index;
    });
  }
};

// Records whatever the program around says: gradients may be asked for where nothing is recorded.
class RecordingScope {
 public:
  RecordingScope() : rank_(current_rank()), mode_(rank_.mode) { rank_.mode |= kModeAutograd; }
  ~RecordingScope() { rank_.mode = mode_; }
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  RankContext& rank_;
  std::uint32_t mode_;
};

std::vector<DTensor> RowNode::gradients_of_parts(const OpRow& definition,
                                                 std::span<const DTensor> grads) const {
  const RecordingScope recording;
  Arguments args = inputs_;
  std::vector<DTensor> leaves;
  const auto make_leaf = [&](Argument& argument) {
    const bool wanted = edges()[leaves.size()].wanted();
    if (wanted) {
      argument = detached(argument.tensor());
      argument.tensor().impl()->requires_grad = true;
    }
    leaves.push_back(wanted ? argument.tensor() : DTensor());
  };
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (!definition.op.arguments[i].type.is_tensor()) continue;
    if (!args[i].is_list()) {
      make_leaf(args[i]);
      continue;
    }
    ArgumentList list = args[i].list();
    for (Argument& element : list) make_leaf(element);
    args[i] = std::move(list);
  }
  std::vector<Seeded> seeded;
  std::size_t next = 0;
  for_each_result(decomposed(recording_calls(), definition, args), [&](const DTensor& result) {
    const DTensor& gradient = grads[next++];
    if (gradient.defined() && result.requires_grad()) seeded.push_back({result, gradient});
  });
  std::vector<DTensor> wanted;
  for (const DTensor& leaf : leaves) {
    if (leaf.defined()) wanted.push_back(leaf);
  }
  const std::vector<DTensor> found = gradients_of(seeded, wanted);
  std::vector<DTensor> result;
  next = 0;
  for (const DTensor& leaf : leaves) result.push_back(leaf.defined() ? found[next++] : DTensor());
  return result;
}

}  // namespace

Calls& plain_calls() {
  static PlainCalls calls;
  return calls;
}

Calls& recording_calls() {
  static RecordingCalls calls;
  return calls;
}

}  // namespace shardlab
