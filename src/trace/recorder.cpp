// Every event becomes a node before it runs, so that its parts, and its failure, are recorded with
// that node. Handles are identified by the object that their copies share; the recorder holds those
// that the program may still use, since the address of a freed one may be used for another.
#include "trace/recorder.h"

#include <algorithm>
#include <utility>

#include "autograd/grad_node.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "plan/plan.h"
#include "schema/op_row.h"
#include "schema/op_strategy.h"
#include "trace/digest.h"
#include "trace/graph_break.h"

namespace shardlab {

namespace {

// More would make the graph a file of data.
constexpr std::int64_t kMostConstantElements = 1 << 16;

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduce ||
         kind == CollectiveKind::kReduceScatter;
}

bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::kReduce || kind == CollectiveKind::kBroadcast ||
         kind == CollectiveKind::kGather || kind == CollectiveKind::kScatter || is_message(kind);
}

void for_each_result_of(const Results& results, const auto& visit) {
  for (const Argument& result : results) {
    if (result.is_list()) {
      for (const Argument& item : result.list()) visit(item);
    } else {
      visit(result);
    }
  }
}

// An item of a list of sizes that is not the capture's own makes it a list of arguments.
void put_number(GraphArgument& argument, const Recorder::SizeArgument& follows) {
  if (!follows.item) {
    argument.value = follows.number;
    return;
  }
  if (const auto* sizes = std::get_if<Dims>(&argument.value)) {
    std::vector<GraphArgument> items;
    for (const std::int64_t size : *sizes) items.push_back({Scalar(size)});
    argument.value = std::move(items);
  }
  std::get<std::vector<GraphArgument>>(argument.value).at(*follows.item).value = follows.number;
}

// Sizes that are written out; -1 and 1 mean the same for tensors of any size.
bool writes_sizes(const OpRow& row, const Arguments& args) {
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (row.op.arguments[i].type.name != "SymInt") continue;
    const auto size = [](std::int64_t value) { return value != 1 && value != -1; };
    if (args[i].is_ints() && std::ranges::any_of(args[i].ints(), size)) return true;
    if (args[i].is_scalar() && args[i].scalar().is_integral() && size(args[i].scalar().to_int())) {
      return true;
    }
  }
  return false;
}

GraphArgument argument_of(const Recorder::Number& number) {
  if (const auto* known = std::get_if<NumberRef>(&number)) return {*known};
  return {Scalar(std::get<std::int64_t>(number))};
}

}  // namespace

// Records everything inside of the event that runs.
class Recorder::Listener final : public ForwardingObserver {
 public:
  Listener(Recorder& recorder, Observer* next) : ForwardingObserver(next), recorder_(recorder) {}

  void op_begins(const OpSchema& schema, const OutputSharding& sharding) override {
    ops_.push_back(schema.row);
    ForwardingObserver::op_begins(schema, sharding);
  }
  void op_ends() override {
    ops_.pop_back();
    ForwardingObserver::op_ends();
  }
  void redistribution(const RedistributionRecord& record) override {
    if (recorder_.inside_ && record.argument >= 0) {
      GraphMove move{.argument = record.argument,
                     .op = ops_.empty() ? "" : ops_.back()->name(),
                     .from = type_string(*record.source),
                     .to = type_string(*record.target),
                     .plan = record.plan != nullptr ? record.plan->text() : ""};
      node().moves.push_back(std::move(move));
    }
    ForwardingObserver::redistribution(record);
  }
  void collective(const CollectiveRecord& record) override {
    if (recorder_.inside_) node().collectives.push_back(described(record));
    ForwardingObserver::collective(record);
  }
  void collective_waits(const CollectiveRecord& record) override {
    if (recorder_.inside_) {
      node().collectives.push_back(described(record));
      node().collectives.back().waits = true;
    }
    ForwardingObserver::collective_waits(record);
  }

 private:
  GraphNode& node() const { return recorder_.graph_.nodes[recorder_.current_]; }

  static GraphCollective described(const CollectiveRecord& record) {
    GraphCollective collective{.kind = record.kind,
                               .group = record.group.name,
                               .ranks = record.group.ranks(),
                               .op = {},
                               .dtype = record.dtype,
                               .shape = record.input_shape,
                               .pass = record.pass};
    if (reduces(record.kind)) collective.op = record.op;
    return collective;
  }

  Recorder& recorder_;
  std::vector<const OpRow*> ops_;  // being dispatched, the outermost first
};

Recorder::Recorder(ProgramCalls& next, const MeshLayout* mesh)
    : ForwardingProgram(next), meshes_(graph_.meshes, current_rank().rank) {
  graph_.world = current_rank().world_size;
  graph_.ranks = {current_rank().rank};
  graph_.seed = current_rank().random.seed;
  if (mesh != nullptr) meshes_.number_of(mesh);
}

Recorder::~Recorder() { *self_ = nullptr; }

Observer& Recorder::listen(Observer* next) {
  listener_ = std::make_unique<Listener>(*this, next);
  return *listener_;
}

void Recorder::input(const std::string& name, InputRecipe recipe, const DTensor& value) {
  GraphNode node = begun(NodeKind::kInput);
  node.name = name;
  node.recipe = std::move(recipe);
  node.requires_grad = value.requires_grad();
  node.results.push_back(given(value));
  graph_.nodes.push_back(std::move(node));
  inputs_ = graph_.values;
}

void Recorder::check_close(const DTensor& got, const DTensor& expected) {
  GraphNode node = begun(NodeKind::kCheckClose, {taken(got), taken(expected)});
  graph_.nodes.push_back(std::move(node));
}

Results Recorder::perform(const ProgramEvent& event) {
  // A hook from before the graph runs inside of a backward, which is marked: its ops are not nodes.
  if (inside_) {
    GraphNode& outer = graph_.nodes[current_];
    if (outer.kind == NodeKind::kBackward) outer.name = kWithHooks;
    return next().perform(event);
  }
  const auto* removed = std::get_if<RemoveHookEvent>(&event);
  if (removed != nullptr && number_of(*removed->handle) < 0) {
    removed_other_hooks_ = true;
    return next().perform(event);
  }
  GraphNode node = std::visit([this](const auto& one) { return node_of(one); }, event);
  const std::size_t index = graph_.nodes.size();
  const std::int32_t hook = node.hook, values = graph_.values;
  graph_.nodes.push_back(std::move(node));
  const std::size_t around = std::exchange(current_, index);
  const std::int32_t first = std::exchange(first_inside_, values);
  inside_ = true;
  try {
    Results results = pass_on(event, hook);
    inside_ = false;
    current_ = around;
    first_inside_ = first;
    give(graph_.nodes[index], results);
    if (std::holds_alternative<BackwardEvent>(event)) note_gradients(values);
    const auto* into = std::get_if<CollectIntoEvent>(&event);
    if (into != nullptr && into->work != nullptr) works_.push_back(*into->work);
    if (known_.size() > most_known_) forget_dead();
    return results;
  } catch (const Error& error) {
    inside_ = false;
    current_ = around;
    first_inside_ = first;
    graph_.nodes[index].error = NodeError{std::string(to_string(error.kind())), error.summary()};
    throw;
  }
}

GraphNode Recorder::begun(NodeKind kind, std::vector<GraphArgument> args) {
  const RankContext& rank = current_rank();
  GraphNode node;
  node.kind = kind;
  node.args = std::move(args);
  // A graph has one file, which a program in C++ may not have.
  const bool first = kind != NodeKind::kMesh && graph_.file.empty();
  if (cpp_places_ && first && rank.position.in_cpp()) graph_.file = rank.position.file;
  if (!rank.position.in_cpp() || rank.position.file == graph_.file) {
    node.line = rank.position.line;
    node.column = rank.position.column;
  }
  node.taped = (rank.mode & kModeAutograd) != 0;
  node.replicates = rank.mixed == MixedTensors::kReplicate;
  node.target_view = views_are_targets();
  return node;
}

GraphNode Recorder::call_of(NodeKind kind, const OpRow& row, const Arguments& args,
                            const Generator& generator) {
  GraphNode node = begun(kind);
  node.name = row.name();
  for (const Argument& argument : args) node.args.push_back(taken(argument));
  node.generator = numbered(generator);
  if (!graph_.dynamic) return node;
  if (following_) {
    for (const SizeArgument& follows : *following_) {
      put_number(node.args.at(follows.index), follows);
    }
  } else if (!sized_at_ && writes_sizes(row, args)) {
    sized_at_ = node.line;
  }
  following_.reset();
  return node;
}

NumberRef Recorder::size(const DTensor& x, std::int64_t dim) {
  GraphNode node = begun(NodeKind::kSize, {taken(x), {Scalar(dim)}});
  node.number = graph_.numbers++;
  graph_.nodes.push_back(std::move(node));
  return {graph_.numbers - 1};
}

NumberRef Recorder::number(const std::string& op, const Number& a, const Number& b) {
  GraphNode node = begun(NodeKind::kNumber, {argument_of(a), argument_of(b)});
  node.name = op;
  node.number = graph_.numbers++;
  graph_.nodes.push_back(std::move(node));
  return {graph_.numbers - 1};
}

void Recorder::guard_sizes(const std::string& op, const Number& a, const Number& b, bool holds) {
  GraphNode node = begun(NodeKind::kSizeGuard, {argument_of(a), argument_of(b)});
  node.name = op;
  node.required = holds;
  graph_.nodes.push_back(std::move(node));
}

GraphNode Recorder::node_of(const OpEvent& event) {
  return call_of(NodeKind::kOp, *event.row, *event.args, event.generator);
}

GraphNode Recorder::node_of(const FactoryEvent& event) {
  GraphNode node = call_of(NodeKind::kFactory, *event.row, *event.args, event.generator);
  node.target = meshes_.type_of(*event.spec);
  return node;
}

GraphNode Recorder::node_of(const DistributeEvent& event) {
  GraphNode node = begun(NodeKind::kDistribute, {taken(event.value)});
  node.target = meshes_.type_of(*event.spec);
  node.source = event.source;
  return node;
}

GraphNode Recorder::node_of(const RedistributeEvent& event) {
  GraphNode node = begun(NodeKind::kRedistribute, {taken(event.x)});
  node.target = meshes_.type_of(*event.target);
  node.async = event.options.issue == Issue::kAsync;
  if (event.options.planner) node.planner = std::string(to_string(*event.options.planner));
  node.forward_dtype = event.dtypes.forward;
  node.backward_dtype = event.dtypes.backward;
  return node;
}

GraphNode Recorder::node_of(const FromLocalEvent& event) {
  GraphNode node = begun(NodeKind::kFromLocal, {taken(event.local)});
  const TensorMeta equal =
      global_meta(*event.spec->layout(), event.spec->placements(), event.local.local().meta());
  if (graph_.dynamic && !sized_at_ && equal.shape != event.spec->shape()) sized_at_ = node.line;
  node.target = meshes_.type_of(*event.spec);
  return node;
}

GraphNode Recorder::node_of(const ToLocalEvent& event) {
  GraphNode node = begun(NodeKind::kToLocal, {taken(event.x)});
  node.target = meshes_.type_of(*event.gradient);
  return node;
}

GraphNode Recorder::collective(CollectiveKind kind, const ProcessGroup& of, ReduceOp op) {
  GraphNode node = begun(NodeKind::kCollective);
  node.name = to_string(kind);
  const GroupIdentity& group = of.identity();
  if (group.layout != nullptr) {
    node.group.mesh = meshes_.number_of(group.layout);
    node.group.dims.assign(group.mesh_dims.begin(), group.mesh_dims.end());
  }
  if (reduces(kind)) node.op = op;
  return node;
}

GraphNode Recorder::node_of(const CollectiveEvent& event) {
  GraphNode node = collective(event.kind, *event.group, event.op);
  if (event.x.defined()) node.args = {taken(event.x)};
  node.dim = event.dim;
  node.split_dim = event.split_dim;
  node.sent.assign(event.sent.begin(), event.sent.end());
  node.received.assign(event.received.begin(), event.received.end());
  if (event.kind == CollectiveKind::kBroadcast) node.source = event.source;
  return node;
}

GraphNode Recorder::node_of(const CollectIntoEvent& event) {
  GraphNode node = collective(event.kind, *event.group, event.op);
  for (const std::vector<DTensor>* side : {event.inputs, event.outputs}) {
    std::vector<GraphArgument> values;
    for (const DTensor& x : *side) values.push_back(taken(x));
    node.args.push_back({std::move(values)});
  }
  node.in_place = true;
  if (has_root(event.kind)) node.source = event.root;
  node.tag = event.tag;
  node.async = event.work != nullptr;
  if (node.async) node.work = static_cast<std::int32_t>(works_.size());
  return node;
}

GraphNode Recorder::node_of(const WaitEvent& event) {
  GraphNode node = begun(NodeKind::kWait);
  const auto found = std::ranges::find(works_, event.work, &std::shared_ptr<CollectiveWork>::get);
  check_invariant(found != works_.end(), "what a graph waits for began in it");
  node.work = static_cast<std::int32_t>(found - works_.begin());
  return node;
}

GraphNode Recorder::node_of(const MeshEvent& event) {
  GraphNode node = begun(NodeKind::kMesh);
  node.mesh = meshes_.number_of(event.layout);
  node.mesh_dims.assign(event.flattened.begin(), event.flattened.end());
  return node;
}

GraphNode Recorder::node_of(const RequireGradEvent& event) {
  GraphNode node = begun(NodeKind::kRequireGrad, {taken(event.x)});
  node.required = event.required;
  return node;
}

GraphNode Recorder::node_of(const DetachEvent& event) {
  GraphNode node = begun(NodeKind::kDetach, {taken(event.x)});
  node.in_place = event.in_place;
  return node;
}

GraphNode Recorder::node_of(const BackwardEvent& event) {
  GraphNode node = begun(NodeKind::kBackward, {taken(event.loss), taken(event.seed)});
  node.graph = event.graph;
  node.of_inputs = event.inputs != nullptr;
  if (event.inputs == nullptr) return node;
  for (const DTensor& input : *event.inputs) node.args.push_back(taken(input));
  return node;
}

GraphNode Recorder::node_of(const DealEvent& event) {
  GraphNode node = begun(NodeKind::kDeal, {taken(event.pieces)});
  node.target = meshes_.type_of(*event.spec);
  return node;
}

GraphNode Recorder::node_of(const CheckPieceEvent& event) {
  GraphNode node = begun(NodeKind::kCheckPiece, {taken(event.local)});
  node.target = ValueType{.dtype = event.local.dtype(),
                          .shape = {},
                          .stride = {},
                          .mesh = meshes_.number_of(event.mesh),
                          .placements = *event.placements,
                          .order = {}};
  return node;
}

GraphNode Recorder::node_of(const ReadEvent& event) {
  GraphNode node = begun(NodeKind::kRead, {taken(event.x)});
  const Tensor& local = event.x.local();
  if (local.numel() <= kMostConstantElements) node.data = {scalars_of(local)};
  return node;
}

GraphNode Recorder::node_of(const SeedEvent& event) {
  GraphNode node = begun(NodeKind::kSeed);
  node.generator = numbered(event.generator);
  node.seed = event.seed;
  return node;
}

GraphNode Recorder::node_of(const DropGradEvent& event) {
  return begun(NodeKind::kDropGrad, {taken(event.leaf)});
}

GraphNode Recorder::node_of(const HookEvent& event) {
  GraphNode node = begun(NodeKind::kHook, {taken(event.x)});
  node.hook = static_cast<std::int32_t>(hooks_.size());
  return node;
}

GraphNode Recorder::node_of(const HookGradientsEvent& event) {
  GraphNode node = begun(NodeKind::kHooks);
  for (const DTensor& x : *event.tensors) node.args.push_back(taken(x));
  node.hook = static_cast<std::int32_t>(hooks_.size());
  node.zeros = event.missing == MissingGradients::kZeros;
  return node;
}

GraphNode Recorder::node_of(const RemoveHookEvent& event) {
  GraphNode node = begun(NodeKind::kRemoveHook);
  node.hook = number_of(*event.handle);
  return node;
}

GraphNode Recorder::node_of(const FunctionEvent& event) {
  GraphNode node = begun(NodeKind::kFunction);
  node.name = event.function->name;
  const std::vector<DTensor> saved = event.context->saved_tensors();
  for (const auto* list :
       {event.arguments, event.results, &saved, &event.context->non_differentiable()}) {
    std::vector<GraphArgument> values;
    for (const DTensor& x : *list) values.push_back(taken(x));
    node.args.push_back({std::move(values)});
  }
  node.hook = static_cast<std::int32_t>(hooks_.size());
  node.zeros = event.context->materialize_grads();
  node.once = event.function->once_differentiable;
  return node;
}

GraphArgument Recorder::taken(const DTensor& x) {
  if (!x.defined()) return {};
  return {number(x)};
}

GraphArgument Recorder::taken(const Argument& argument) {
  struct Visitor {
    Recorder& recorder;
    GraphArgument operator()(std::monostate) const { return {}; }
    GraphArgument operator()(const Scalar& value) const { return {value}; }
    GraphArgument operator()(const DTensor& value) const { return recorder.taken(value); }
    GraphArgument operator()(const DTensorSpec*) const {
      fail(ErrorKind::kInternal, "a program gives no spec to an op");
    }
    GraphArgument operator()(const Dims& value) const { return {value}; }
    GraphArgument operator()(DType value) const { return {value}; }
    GraphArgument operator()(const std::string& value) const { return {value}; }
    GraphArgument operator()(const Generator& value) const { return recorder.taken(value); }
    GraphArgument operator()(const ArgumentList& value) const {
      std::vector<GraphArgument> items;
      for (const Argument& item : value) items.push_back(recorder.taken(item));
      return {std::move(items)};
    }
  };
  return std::visit(Visitor{*this}, argument.variant());
}

GraphArgument Recorder::taken(const Generator& generator) {
  const std::optional<GeneratorRef> number = numbered(generator);
  return number ? GraphArgument{*number} : GraphArgument{};
}

std::optional<GeneratorRef> Recorder::numbered(const Generator& generator) {
  if (generator == nullptr) return std::nullopt;
  const auto found = std::ranges::find(generators_, generator);
  const auto index = static_cast<std::int32_t>(found - generators_.begin());
  if (found == generators_.end()) {
    generators_.push_back(generator);
    graph_.generators.push_back(*generator);
  }
  return GeneratorRef{index};
}

ValueRef Recorder::number(const DTensor& x) {
  const auto found = known_.find(x.impl());
  return found != known_.end() ? found->second.value : appeared(x);
}

ValueRef Recorder::number_new(const DTensor& x) {
  const ValueRef value{graph_.values++};
  known_.insert_or_assign(x.impl(), Known{DTensorWatch(x), value});
  return value;
}

// A value that no event has made: the gradient of a leaf, or one from outside.
ValueRef Recorder::appeared(const DTensor& x) {
  GraphNode node = begun(NodeKind::kConstant);
  if (const auto leaf = leaf_of(x)) {
    node.kind = NodeKind::kGradient;
    node.args = {{*leaf}};
  } else {
    if (x.requires_grad() && !is_leaf(x)) {
      throw error_of({.gb_type = "a value with a history from outside",
                      .context = type_string(x),
                      .explanation = "its gradient flows on into ops that are not in the graph",
                      .hints = {"make it an input", "detach() it"}});
    }
    if (x.local().numel() > kMostConstantElements) {
      throw error_of({.gb_type = "a captured constant is too large",
                      .context = fmt::format("{}, {} elements on this rank", type_string(x),
                                             x.local().numel()),
                      .explanation = "its elements would be part of the graph",
                      .hints = {"make it an input", "let the program compute it"}});
    }
    node.requires_grad = x.requires_grad();
    node.data = {scalars_of(x.local())};
  }
  node.results.push_back(given(x));
  const ValueRef value = node.results[0].value;
  graph_.nodes.push_back(std::move(node));
  return value;
}

// A program may hold a gradient for longer than its leaf. A hook's result may have become the
// gradient of a leaf, or have been copied into it: from here on it is known as that gradient alone.
// `first`: the first value that backward made.
void Recorder::note_gradients(std::int32_t first) {
  for (const auto& [impl, known] : known_) {
    if (!known.handle.alive()) continue;
    const DTensor gradient = grad_of(DTensor(Ref<DTensorImpl>(known.handle.impl())));
    if (!gradient.defined()) continue;
    gradients_.insert_or_assign(gradient.impl(), Known{DTensorWatch(gradient), known.value});
  }
  std::erase_if(known_, [&](const auto& entry) {
    return entry.second.value.id >= first && gradients_.contains(entry.first);
  });
}

// Gradients that leaves had before the graph began are found at the leaves.
std::optional<ValueRef> Recorder::leaf_of(const DTensor& gradient) const {
  const auto noted = gradients_.find(gradient.impl());
  if (noted != gradients_.end()) return noted->second.value;
  for (const auto& [impl, known] : known_) {
    if (impl->grad.get() == gradient.impl()) return known.value;
  }
  return std::nullopt;
}

GraphResult Recorder::given(const DTensor& x) {
  const auto found = known_.find(x.impl());
  const ValueRef value = found != known_.end() ? found->second.value : number_new(x);
  return {value, x.distributed() ? meshes_.type_of(*x.spec()) : plain_type(x.local().meta())};
}

void Recorder::give(GraphNode& node, const Results& results) {
  for_each_result_of(results, [&](const Argument& result) {
    const bool tensor = result.is_tensor() && result.tensor().defined();
    node.results.push_back(tensor ? given(result.tensor()) : GraphResult{});
  });
}

void Recorder::forget_dead() {
  const auto dead = [](const auto& entry) { return !entry.second.handle.alive(); };
  std::erase_if(known_, dead);
  std::erase_if(gradients_, dead);
  most_known_ = std::max<std::size_t>(1024, 2 * known_.size());
}

ProgramGraph Recorder::function(const std::vector<DTensor>& outputs) {
  for (const DTensor& x : outputs) {
    graph_.outputs.push_back(x.defined() ? number(x) : ValueRef{});
  }
  return broken_off();
}

ProgramGraph Recorder::finish() {
  forget_dead();
  std::vector<const Known*> left;
  for (const auto& [impl, known] : known_) left.push_back(&known);
  std::ranges::sort(left, {}, [](const Known* known) { return known->value.id; });
  for (const Known* known : left) {
    graph_.left.push_back(known->value);
    graph_.left_digests.push_back(digest_of(known->handle.impl()->local));
  }
  graph_.digests = {combined_digest(graph_.left_digests)};
  return broken_off();
}

ProgramGraph Recorder::broken_off() {
  hooks_.clear();
  known_.clear();
  gradients_.clear();
  generators_.clear();
  return std::move(graph_);
}

}  // namespace shardlab
