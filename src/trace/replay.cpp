// Each node becomes the event that it was captured from, and passes the same calls.
#include "trace/replay.h"

#include <algorithm>
#include <array>

#include "autograd/grad_node.h"
#include "autograd/program.h"
#include "base/error.h"
#include "comm/device_mesh.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "plan/planner_name.h"
#include "schema/meta_args.h"
#include "schema/op_row.h"
#include "tensor/device.h"
#include "trace/digest.h"
#include "trace/graph_break.h"
#include "trace/graph_meshes.h"
#include "trace/graph_text.h"
#include "trace/graph_values.h"
#include "trace/guards.h"

namespace shardlab {

namespace {

// The state that decides how the calls of a node run, besides their arguments.
class NodeScope {
 public:
  /// `in_hook`: backward records nothing there, unless a node says so. `placed`: the node has a
  /// line, or the program none.
  NodeScope(const char* file, const GraphNode& node, bool in_hook, bool placed)
      : rank_(current_rank()), mode_(rank_.mode), mixed_(rank_.mixed) {
    if (placed) rank_.position = {file, node.line, node.column};
    if (!node.taped) rank_.mode &= ~std::uint32_t{kModeAutograd};
    if (node.taped && in_hook) rank_.mode |= std::uint32_t{kModeAutograd};
    if (node.replicates) rank_.mixed = MixedTensors::kReplicate;
    if (node.target_view) target_.emplace();
  }
  ~NodeScope() {
    target_.reset();
    rank_.mode = mode_;
    rank_.mixed = mixed_;
  }
  NodeScope& operator=(NodeScope&&) = delete;

 private:
  RankContext& rank_;
  std::uint32_t mode_;
  MixedTensors mixed_;
  std::optional<TargetScope> target_;
};

class Player final : public ReplayState {
 public:
  Player(const ProgramGraph& graph, Arena& arena, std::span<const DTensor> inputs,
         const ReplayOptions& options)
      : graph_(graph),
        options_(options),
        file_(options.file != nullptr ? options.file : graph.file.c_str()),
        rank_(current_rank().rank),
        inputs_(inputs),
        meshes_(graph.meshes, rank_, arena),
        values_(graph),
        numbers_(static_cast<std::size_t>(graph.numbers)) {
    for (std::size_t i = 0; i < graph.generators.size(); ++i) {
      const bool given = i < options.generators.size() && options.generators[i] != nullptr;
      generators_.push_back(given ? options.generators[i]
                                  : std::make_shared<RandomState>(graph.generators[i]));
    }
  }

  ~Player() override { *self_ = nullptr; }
  Player& operator=(Player&&) = delete;

  Replayed run() {
    const std::size_t all = graph_.nodes.size();
    const std::size_t end =
        options_.until < 0 ? all : std::min(all, static_cast<std::size_t>(options_.until) + 1);
    while (next_ < end) play();
    Replayed replayed;
    replayed.complete = next_ == all;
    replayed.numbers = numbers_;
    for (const ValueRef& value : graph_.outputs) {
      replayed.outputs.push_back(value.id >= 0 ? values_[value] : DTensor());
    }
    std::vector<std::uint64_t> digests;
    for (const ValueRef& value : graph_.left) {
      const DTensor& x = values_[value];
      if (!x.defined()) continue;
      replayed.left.push_back(x);
      digests.push_back(digest_of(x.local()));
    }
    replayed.digest = combined_digest(digests);
    return replayed;
  }

 private:
  const std::vector<DTensor>& values() const override { return values_.all(); }
  void put(ValueRef number, DTensor value) override { values_[number] = std::move(value); }
  Results again(std::size_t node) override { return results_of(graph_.nodes[node]); }

  // One node, and with a backward the nodes of the hooks that are called inside of it.
  void play() {
    const std::size_t i = next_++;
    const std::int32_t only = graph_.nodes[i].rank;
    if (only >= 0 && only != rank_) return;
    ReplayListener* listener = options_.listener;
    if (listener == nullptr || listener->begins(i, *this)) run_node(i);
    if (listener != nullptr) listener->ended(i, *this);
    values_.let_go(i);
    const bool called =
        next_ < graph_.nodes.size() && graph_.nodes[next_].kind == NodeKind::kHookCall;
    if (!called || graph_.nodes[i].error) return;
    fail(Fix{kCaptureProgram}, "hook {} was called here, and is not now", graph_.nodes[next_].hook);
  }

  // The nodes behind the backward that runs, up to the result of the hook.
  std::vector<DTensor> play_hook(std::int32_t hook, const std::vector<DTensor>& gradients) {
    const std::size_t begin = next_;
    const bool here = begin < graph_.nodes.size() &&
                      graph_.nodes[begin].kind == NodeKind::kHookCall &&
                      graph_.nodes[begin].hook == hook;
    if (!here) fail(Fix{kCaptureProgram}, "hook {} is called, and was not here", hook);
    const GraphNode& call = graph_.nodes[begin];
    for (std::size_t i = 0; i < std::min(gradients.size(), call.results.size()); ++i) {
      const GraphResult& expected = call.results[i];
      if (expected.value.id >= 0) values_[expected.value] = gradients[i];
    }
    values_.let_go(begin);
    ++next_;
    ++hooks_inside_;
    while (next_ < graph_.nodes.size() && graph_.nodes[next_].kind != NodeKind::kHookGives) play();
    --hooks_inside_;
    if (next_ == graph_.nodes.size()) return gradients;  // it failed when it was captured
    const std::size_t end = next_++;
    std::vector<DTensor> out = tensors_of(graph_.nodes[end].args);
    values_.let_go(end);
    return out;
  }

  // Hooks live on values, which may outlive the player.
  GradientsHook hook_of(std::int32_t hook) {
    return [self = self_, hook](const std::vector<DTensor>& gradients) {
      if (*self != nullptr) return (*self)->play_hook(hook, gradients);
      fail(Fix{"let the graph run its backward itself"}, "hook {} belongs to a graph that is over",
           hook);
    };
  }

  Results register_again(ProgramCalls& calls, const GraphNode& node) {
    const GradientsHook all = hook_of(node.hook);
    hooks_.resize(std::max(hooks_.size(), static_cast<std::size_t>(node.hook) + 1));
    if (node.kind == NodeKind::kFunction) return function(calls, node, all);
    if (node.kind == NodeKind::kHook) {
      const GradientHook one = [all](const DTensor& gradient) { return all({gradient}).at(0); };
      return calls.perform(
          HookEvent{taken(node, 0), &one, &hooks_[static_cast<std::size_t>(node.hook)]});
    }
    std::vector<DTensor> tensors;
    for (std::size_t i = 0; i < node.args.size(); ++i) tensors.push_back(taken(node, i));
    const auto missing = node.zeros ? MissingGradients::kZeros : MissingGradients::kUndefined;
    return calls.perform(HookGradientsEvent{&tensors, missing, &all});
  }

  Results function(ProgramCalls& calls, const GraphNode& node, const GradientsHook& backward) {
    std::array<std::vector<DTensor>, 4> lists;
    for (std::size_t i = 0; i < lists.size(); ++i) {
      const auto* list = i < node.args.size()
                             ? std::get_if<std::vector<GraphArgument>>(&node.args[i].value)
                             : nullptr;
      if (list == nullptr) fail(Fix{kCaptureProgram}, "it takes four lists");
      lists[i] = tensors_of(*list);
    }
    const auto& [arguments, results, saved, constant] = lists;
    const auto context = FunctionContext::of(arguments);
    context->save_for_backward(saved);
    context->mark_non_differentiable(constant);
    context->set_materialize_grads(node.zeros);
    const auto again = std::make_shared<const CustomFunction>(CustomFunction{
        .name = node.name,
        .forward = nullptr,
        .backward = [backward](
                        FunctionContext&,
                        const std::vector<DTensor>& gradients) { return backward(gradients); },
        .once_differentiable = node.once});
    return calls.perform(FunctionEvent{context, again, &arguments, &results});
  }

  // Undefined where there is none.
  std::vector<DTensor> tensors_of(const std::vector<GraphArgument>& arguments) const {
    std::vector<DTensor> tensors;
    for (const GraphArgument& argument : arguments) {
      const auto* value = std::get_if<ValueRef>(&argument.value);
      tensors.push_back(value != nullptr ? values_.given(*value) : DTensor());
    }
    return tensors;
  }

  void run_node(std::size_t number) {
    const GraphNode& node = graph_.nodes[number];
    Results results;
    try {
      const NodeScope scope(file_, node, hooks_inside_ > 0, node.line > 0 || !options_.recorded);
      results = results_of(node);
      if (options_.listener != nullptr) options_.listener->made(number, results);
      options_.recorded ? take_named(node, results) : take(node, results);
    } catch (Error& error) {
      if (options_.listener != nullptr && options_.listener->failed(number, error, *this)) return;
      error.with("node",
                 fmt::format("{} of the graph: {} {}", number, kind_name(node.kind), node.name));
      if (error.kind() != ErrorKind::kInternal || node.error) throw;
      // A program cannot make such a call, but a file can.
      fail(Fix{kCaptureProgram}, "node {} does not fit the values that it takes: {}", number,
           error.summary());
    }
    // Without data, a call that others never enter is found only when all classes have run.
    if (!node.error || current_rank().device->shape_only()) return;
    fail(ErrorKind::kAssert, Fix{kCaptureProgram},
         "node {} failed when it was captured ({}), and runs now", number, node.error->message);
  }

  // A recording may name fewer results, and one number for two handles of the same elements, of
  // which the first stays.
  void take_named(const GraphNode& node, const Results& results) {
    std::size_t next = 0;
    for_each_result(results, [&](const Argument& result) {
      const ValueRef number = next < node.results.size() ? node.results[next].value : ValueRef{};
      ++next;
      if (number.id < 0 || !result.is_tensor() || values_[number].defined()) return;
      values_[number] = result.tensor();
    });
  }

  static void for_each_result(const Results& results, const auto& take) {
    for (const Argument& result : results) {
      if (!result.is_list()) take(result);
      if (!result.is_list()) continue;
      for (const Argument& item : result.list()) take(item);
    }
  }

  // Results become the values that the graph names: a known handle stays that handle.
  void take(const GraphNode& node, const Results& results) {
    std::size_t next = 0;
    const auto take_one = [&](const Argument& result) {
      if (next >= node.results.size()) return;
      const GraphResult& expected = node.results[next++];
      const bool tensor = result.is_tensor() && result.tensor().defined();
      if ((expected.value.id >= 0) != tensor) {
        if (node.error) return;
        fail(Fix{kCaptureProgram}, "result {} is {}", next - 1,
             tensor ? "a tensor, and was none" : "no tensor, and was one");
      }
      if (tensor) values_[expected.value] = result.tensor();
    };
    for_each_result(results, take_one);
    if (next < node.results.size() && !node.error) {
      fail(Fix{kCaptureProgram}, "the call gives {} results, and gave {}", next,
           node.results.size());
    }
  }

  Results results_of(const GraphNode& node) {
    switch (node.kind) {
      case NodeKind::kInput:
        return {next_input()};
      case NodeKind::kConstant:
        return {constant(node)};
      case NodeKind::kGradient:
        return {grad_of(taken(node, 0))};
      case NodeKind::kRead:
        read_again(node);
        return {};
      case NodeKind::kMesh:
        return make_mesh(node);
      case NodeKind::kSize:
      case NodeKind::kNumber:
        numbers_.at(static_cast<std::size_t>(node.number)) = number_of(node);
        return {};
      case NodeKind::kSizeGuard:
        check_sizes(node);
        return {};
      default:
        return call(node);
    }
  }

  DTensor next_input() {
    if (next_input_ >= inputs_.size()) {
      fail(Fix{"give one value for each input node"},
           "the graph has more inputs than the {} that are given", inputs_.size());
    }
    return inputs_[next_input_++];
  }

  DTensor constant(const GraphNode& node) {
    const ValueType& type = node.results.at(0).type;
    const std::vector<Scalar>& data = data_on(graph_, node, rank_);
    if (type.mesh < 0) return with_grad(node, DTensor(tensor_from(data, type.shape, type.dtype)));
    const DTensorSpec* spec = meshes_.spec_of(type);
    const DeviceMesh& mesh = device_mesh(spec->layout());
    const Dims own = mesh.participates() ? local_shape(*spec, *mesh.coordinate())
                                         : Dims{static_cast<std::int64_t>(data.size())};
    return with_grad(node, DTensor(tensor_from(data, own, type.dtype), spec));
  }

  static DTensor with_grad(const GraphNode& node, const DTensor& x) {
    if (node.requires_grad) require_grad(x);
    return x;
  }

  void read_again(const GraphNode& node) {
    const DTensor& x = taken(node, 0);
    program_calls().perform(ReadEvent{x});
    if (node.data.empty() || x.local().device()->shape_only()) return;
    const std::vector<Scalar> now = scalars_of(x.local());
    const std::vector<Scalar>& then = data_on(graph_, node, rank_);
    for (std::size_t i = 0; i < std::max(now.size(), then.size()); ++i) {
      if (i < now.size() && i < then.size() && same_number(now[i], then[i])) continue;
      fail(Fix{"the rest of the graph may rest on it: capture the program on these inputs"},
           "the program read {} here, which is {} now",
           i < then.size() ? then[i].text() : "nothing",
           i < now.size() ? now[i].text() : "nothing");
    }
  }

  std::int64_t number_at(const GraphNode& node, std::size_t position) const {
    if (position >= node.args.size()) {
      fail(Fix{kCaptureProgram}, "argument {} must be a number", position);
    }
    const Argument number = taken(node.args[position]);
    if (number.is_scalar() && number.scalar().is_integral()) return number.scalar().to_int();
    fail(Fix{kCaptureProgram}, "argument {} must be an integer", position);
  }

  std::int64_t number_of(const GraphNode& node) const {
    if (node.kind == NodeKind::kSize) {
      const Dims& shape = taken(node, 0).shape();
      const std::int64_t dim = number_at(node, 1);
      if (dim >= 0 && static_cast<std::size_t>(dim) < shape.size()) {
        return shape[static_cast<std::size_t>(dim)];
      }
      fail(Fix{kCaptureProgram}, "a tensor of {} dims has no dim {}", shape.size(), dim);
    }
    const auto result = size_arithmetic(node.name, number_at(node, 0), number_at(node, 1));
    if (result) return *result;
    fail(Fix{kCaptureProgram}, "{} has no value here",
         number_text(graph_, {NumberRef{node.number}}));
  }

  void check_sizes(const GraphNode& node) const {
    const auto holds = size_comparison(node.name, number_at(node, 0), number_at(node, 1));
    if (!holds) fail(Fix{kCaptureProgram}, "'{}' is not a comparison", node.name);
    if (*holds == node.required) return;
    Error error(ErrorKind::kValue,
                fmt::format("the graph does not fit: {} {} {} is {}, and was {}",
                            number_text(graph_, node.args.at(0)), node.name,
                            number_text(graph_, node.args.at(1)), *holds ? "True" : "False",
                            node.required ? "True" : "False"));
    if (node.line > 0) error.with("at", fmt::format("line {} needed it", node.line));
    error.with("fix", kCaptureProgram);
    throw error;
  }

  Results make_mesh(const GraphNode& node) {
    std::vector<std::size_t> dims(node.mesh_dims.begin(), node.mesh_dims.end());
    return program_calls().perform(MeshEvent{meshes_.layout(node.mesh), std::move(dims)});
  }

  Results call(const GraphNode& node) {
    ProgramCalls& calls = program_calls();
    switch (node.kind) {
      case NodeKind::kOp:
      case NodeKind::kFactory:
        return call_row(calls, node);
      case NodeKind::kDistribute:
        return calls.perform(DistributeEvent{taken(node, 0), target_of(node), node.source});
      case NodeKind::kRedistribute:
        return redistribute_again(calls, node);
      case NodeKind::kFromLocal:
        return calls.perform(FromLocalEvent{taken(node, 0), target(node)});
      case NodeKind::kToLocal:
        return calls.perform(ToLocalEvent{taken(node, 0), target(node)});
      case NodeKind::kCollective:
        return node.in_place ? collect_into(calls, node) : collective(calls, node);
      case NodeKind::kWait:
        return wait(calls, node);
      case NodeKind::kRequireGrad:
        return calls.perform(RequireGradEvent{taken(node, 0), node.required});
      case NodeKind::kDetach:
        return calls.perform(DetachEvent{taken(node, 0), node.in_place});
      case NodeKind::kBackward:
        return backward_again(calls, node);
      case NodeKind::kDeal:
        return calls.perform(DealEvent{taken(node, 0), target_of(node)});
      case NodeKind::kCheckPiece:
        return check_piece(calls, node);
      case NodeKind::kSeed:
        return calls.perform(SeedEvent{generator_of(node), node.seed});
      case NodeKind::kDropGrad:
        return calls.perform(DropGradEvent{taken(node, 0)});
      case NodeKind::kHook:
      case NodeKind::kHooks:
      case NodeKind::kFunction:
        return register_again(calls, node);
      case NodeKind::kRemoveHook:
        return calls.perform(RemoveHookEvent{&hooks_.at(static_cast<std::size_t>(node.hook))});
      case NodeKind::kCheckClose:
      case NodeKind::kLook:
        return {};
      case NodeKind::kHookCall:
      case NodeKind::kHookGives:
        break;
      default:
        fail(ErrorKind::kInternal, "{} is not a call", kind_name(node.kind));
    }
    fail(Fix{kCaptureProgram}, "hook {} is called outside of a backward", node.hook);
  }

  Results call_row(ProgramCalls& calls, const GraphNode& node) {
    const OpRow& row = calls.find(node.name);
    if (node.args.size() != row.op.arguments.size()) {
      fail(Fix{kCaptureProgram}, "{} has {} arguments, not {}", node.name, row.op.arguments.size(),
           node.args.size());
    }
    Arguments args;
    for (const GraphArgument& argument : node.args) args.push_back(taken(argument));
    if (options_.recorded) wrap_numbers(row, args);
    if (options_.listener != nullptr) {
      const auto at = static_cast<std::size_t>(&node - graph_.nodes.data());
      if (auto results = options_.listener->run(at, args)) return std::move(*results);
    }
    if (node.kind == NodeKind::kOp) {
      return calls.perform(OpEvent{&row, &args, generator_of(node)});
    }
    return calls.perform(FactoryEvent{&row, &args, target(node), generator_of(node)});
  }

  // Next to a tensor a number does not decide the dtype; alone it has Python's precision.
  static void wrap_numbers(const OpRow& row, Arguments& args) {
    const auto tensors = std::ranges::count_if(
        row.op.arguments, [](const SchemaArgument& one) { return one.type.is_tensor(); });
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (!args[i].is_scalar() || !row.op.arguments[i].type.is_tensor()) continue;
      const Scalar number = args[i].scalar();
      const bool wide = tensors == 1 && number.category() == Category::kComplex;
      args[i] = DTensor(
          tensor_from({number}, {}, wide ? DType::kC128 : default_dtype(number.category())));
    }
  }

  // A null generator is the rank's own.
  Generator generator_of(const GraphNode& node) const {
    if (!node.generator) return nullptr;
    return generators_.at(static_cast<std::size_t>(node.generator->index));
  }

  Results redistribute_again(ProgramCalls& calls, const GraphNode& node) {
    RedistributeOptions options;
    options.issue = node.async ? Issue::kAsync : Issue::kWait;
    if (node.back) options.direction = Direction::kBackward;
    if (node.planner) {
      options.planner = parse_planner(*node.planner);
      if (!options.planner) {
        fail(Fix{"greedy, graph or bytes"}, "'{}' is not a planner", *node.planner);
      }
    }
    return calls.perform(RedistributeEvent{
        taken(node, 0), target_of(node), options, {node.forward_dtype, node.backward_dtype}});
  }

  Results collective(ProgramCalls& calls, const GraphNode& node) {
    CollectiveEvent event{.kind = kind_of(node.name), .group = &group_of(node.group), .x = {}};
    if (!node.args.empty()) event.x = taken(node, 0);
    event.op = node.op;
    event.dim = node.dim;
    event.split_dim = node.split_dim;
    event.sent = Dims(node.sent);
    event.received = Dims(node.received);
    event.source = node.source.value_or(0);
    return calls.perform(event);
  }

  Results collect_into(ProgramCalls& calls, const GraphNode& node) {
    std::array<std::vector<DTensor>, 2> sides;
    if (node.args.size() != sides.size())
      fail(Fix{kCaptureProgram}, "{} into tensors takes two lists", node.name);
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const Argument side = taken(node.args[i]);
      for (const Argument& x : side.list()) sides[i].push_back(x.tensor());
    }
    std::shared_ptr<CollectiveWork> work;
    CollectIntoEvent event{.kind = kind_of(node.name),
                           .group = &group_of(node.group),
                           .inputs = &sides[0],
                           .outputs = &sides[1],
                           .op = node.op,
                           .root = node.source.value_or(0),
                           .tag = node.tag,
                           .work = node.async ? &work : nullptr};
    calls.perform(event);
    if (node.async) {
      const auto number = static_cast<std::size_t>(node.work);
      if (works_.size() <= number) works_.resize(number + 1);
      works_[number] = std::move(work);
    }
    return {};
  }

  // The start of a recorded message may have failed: that is noted, and nothing is on its way.
  Results wait(ProgramCalls& calls, const GraphNode& node) {
    const auto number = static_cast<std::size_t>(node.work);
    CollectiveWork* work = number < works_.size() ? works_[number].get() : nullptr;
    if (work == nullptr && options_.recorded) return {};
    if (work == nullptr) {
      fail(Fix{kCaptureProgram}, "a wait for what never began");
    }
    return calls.perform(WaitEvent{work});
  }

  static CollectiveKind kind_of(const std::string& name) {
    for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
      const auto kind = static_cast<CollectiveKind>(i);
      if (to_string(kind) == name) return kind;
    }
    fail(Fix{kCaptureProgram}, "'{}' is not a collective", name);
  }

  ProcessGroup& group_of(const GraphGroup& group) {
    if (group.mesh < 0) return *current_rank().world;
    const MeshLayout* layout = meshes_.layout(group.mesh);
    for (const std::int64_t dim : group.dims) {
      if (dim >= 0 && dim < static_cast<std::int64_t>(layout->ndim())) continue;
      fail(Fix{kCaptureProgram}, "a group along mesh dim {} of {}", dim, layout->ndim());
    }
    const DeviceMesh& mesh = device_mesh(layout);
    if (group.dims.size() == 1) return mesh.group(static_cast<std::size_t>(group.dims[0]));
    const std::vector<std::size_t> dims(group.dims.begin(), group.dims.end());
    return mesh.group(dims);
  }

  Results backward_again(ProgramCalls& calls, const GraphNode& node) {
    if (const auto hooks = break_at(node)) throw error_of(*hooks);
    if (node.args.size() < 2) fail(Fix{kCaptureProgram}, "backward takes loss and seed");
    std::vector<DTensor> inputs;
    for (std::size_t i = 2; i < node.args.size(); ++i) inputs.push_back(taken(node, i));
    const DTensor seed =
        std::holds_alternative<std::monostate>(node.args[1].value) ? DTensor() : taken(node, 1);
    return calls.perform(
        BackwardEvent{taken(node, 0), seed, node.graph, node.of_inputs ? &inputs : nullptr});
  }

  Results check_piece(ProgramCalls& calls, const GraphNode& node) {
    const ValueType& type = target_type(node);
    return calls.perform(
        CheckPieceEvent{taken(node, 0), meshes_.layout(type.mesh), &type.placements});
  }

  static const ValueType& target_type(const GraphNode& node) {
    if (!node.target) fail(Fix{kCaptureProgram}, "the node does not say what it makes");
    return *node.target;
  }

  // The target of the value, which stays the same tensor.
  const DTensorSpec* target_of(const GraphNode& node) {
    const DTensorSpec* wanted = target(node);
    const DTensor& x = taken(node, 0);
    if (wanted->shape() == x.shape() && wanted->dtype() == x.dtype()) return wanted;
    fail(Fix{kCaptureProgram}, "{} cannot become {}", type_string(x), type_string(*wanted));
  }

  const DTensorSpec* target(const GraphNode& node) {
    const ValueType& type = target_type(node);
    return meshes_.spec_of(graph_.dynamic ? resized(node, type) : type);
  }

  // The result of the node for its present inputs.
  ValueType resized(const GraphNode& node, ValueType type) {
    TensorMeta meta;
    if (node.kind == NodeKind::kFactory) {
      Arguments args;
      for (const GraphArgument& argument : node.args) args.push_back(taken(argument));
      const OpRow& row = program_calls().find(node.name);
      meta = row.meta(MetaArgs(row.op, args, {})).at(0).meta;
    } else if (node.kind == NodeKind::kFromLocal) {
      meta = taken(node, 0).local().meta();
      const TensorMeta equal = global_meta(*meshes_.layout(type.mesh), type.placements, meta);
      const GraphResult* then = result_of(node.args.at(0));
      const bool reported =
          then == nullptr || global_meta(*meshes_.layout(type.mesh), type.placements,
                                         {then->type.shape, then->type.stride, then->type.dtype})
                                     .shape != type.shape;
      if (reported) return type;
      meta = equal;
    } else {
      const DTensor& x = taken(node, 0);
      meta = x.distributed() ? x.spec()->meta() : x.local().meta();
    }
    type.shape = meta.shape;
    type.stride = meta.stride;
    type.dtype = meta.dtype;
    return type;
  }

  // The recorded facts about an argument when the graph was captured.
  const GraphResult* result_of(const GraphArgument& argument) const {
    const auto* value = std::get_if<ValueRef>(&argument.value);
    for (const GraphNode& node : graph_.nodes) {
      for (const GraphResult& result : node.results) {
        if (value != nullptr && result.value == *value) return &result;
      }
    }
    return nullptr;
  }

  const DTensor& taken(const GraphNode& node, std::size_t position) const {
    const ValueRef* value =
        position < node.args.size() ? std::get_if<ValueRef>(&node.args[position].value) : nullptr;
    if (value == nullptr) {
      fail(Fix{kCaptureProgram}, "argument {} must be a value", position);
    }
    return values_.given(*value);
  }

  Argument taken(const GraphArgument& argument) const {
    struct Visitor {
      const Player& player;
      Argument operator()(std::monostate) const { return {}; }
      Argument operator()(const Scalar& value) const { return value; }
      Argument operator()(ValueRef value) const { return player.values_.given(value); }
      Argument operator()(const Dims& value) const { return value; }
      Argument operator()(DType value) const { return value; }
      Argument operator()(const std::string& value) const { return value; }
      Argument operator()(GeneratorRef generator) const {
        return player.generators_.at(static_cast<std::size_t>(generator.index));
      }
      Argument operator()(const std::vector<GraphArgument>& items) const {
        ArgumentList list;
        bool sizes = false;
        for (const GraphArgument& item : items) {
          sizes = sizes || std::holds_alternative<NumberRef>(item.value);
          list.push_back(player.taken(item));
        }
        if (!sizes) return list;
        Dims dims;
        for (const Argument& item : list) dims.push_back(item.scalar().to_int());
        return dims;
      }
      Argument operator()(NumberRef number) const {
        return Scalar(player.numbers_.at(static_cast<std::size_t>(number.index)));
      }
    };
    return std::visit(Visitor{*this}, argument.value);
  }

  const ProgramGraph& graph_;
  const ReplayOptions& options_;
  const char* file_;
  std::int64_t rank_;
  std::span<const DTensor> inputs_;
  std::size_t next_input_ = 0;
  GraphMeshes meshes_;
  GraphValues values_;
  std::vector<std::int64_t> numbers_;
  std::vector<Generator> generators_;
  std::size_t next_ = 0;  ///< the next node
  int hooks_inside_ = 0;  ///< that run right now, one in a backward of another
  std::vector<HookHandle> hooks_;
  std::vector<std::shared_ptr<CollectiveWork>> works_;
  std::shared_ptr<Player*> self_ = std::make_shared<Player*>(this);
};

}  // namespace

const std::vector<Scalar>& data_on(const ProgramGraph& graph, const GraphNode& node,
                                   std::int64_t rank) {
  if (node.data.size() == 1) return node.data.front();
  const auto place =
      graph.ranks.empty() ? rank : std::ranges::find(graph.ranks, rank) - graph.ranks.begin();
  if (place < 0 || static_cast<std::size_t>(place) >= node.data.size()) {
    fail(Fix{kCaptureProgram}, "the graph has no elements for rank {}", rank);
  }
  return node.data[static_cast<std::size_t>(place)];
}

Replayed replay(const ProgramGraph& graph, Arena& arena, std::span<const DTensor> inputs,
                const ReplayOptions& options) {
  return Player(graph, arena, inputs, options).run();
}

}  // namespace shardlab
