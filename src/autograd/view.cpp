// The base of a view is never a view itself; its version is that of its storage. A view remembers
// the version of the base for which its place on the tape and its value hold.
#include "autograd/view.h"

#include <algorithm>

#include "base/rank_context.h"
#include "dispatch/local_call.h"
#include "kernels/kernel_id.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "ops/core/meta.h"
#include "propagate/propagator.h"
#include "redistribute/redistribute.h"
#include "schema/op_row.h"

namespace shardlab {

// The effect of a chain of views on a tensor of its base's shape, forwards and backwards. Backwards
// it is the gradient programs of its ops, which put elements back at their old places. So a write
// to a part needs no op of its own for each kind of view, on any mesh.

namespace {

DTensor result_at(const Results& results, std::size_t output) {
  DTensor found;
  std::size_t next = 0;
  for_each_result(results, [&](const DTensor& result) {
    if (next++ == output) found = result;
  });
  return found;
}

// The same memory and placements as `like`, filled with the values of `source`.
DTensor laid_out(const DTensor& source, const DTensor& like, Graph graph) {
  if (source.spec() == like.spec() && source.meta() == like.meta()) return source;
  Calls& calls = calls_of(graph);
  const DTensor target = calls.one("aten::empty_like", {like});
  const DTensor placed = records(graph) && source.distributed()
                             ? calls.redistribute(source, target.spec()->placements())
                             : placed_like(source, target.spec());
  calls("aten::copy_", {target, placed});
  return target;
}

DTensor shape_without_terms(const DTensor& x) {
  DTensor shape = without_values(x);
  if (!x.distributed()) return shape;
  const DTensorSpec* spec = x.spec();
  return DTensor(shape.local(), spec->with(without_partials(spec->placements()), spec->order()));
}

}  // namespace

DTensor placed_like(const DTensor& x, const DTensorSpec* spec) {
  if (spec == nullptr) return x;
  return redistribute_tensor(
      x, spec->with(x.meta()),
      {.direction =
           current_rank().pass == Pass::kBackward ? Direction::kBackward : Direction::kForward});
}

ViewChain::ViewChain(std::vector<ViewStep> steps, const DTensor& base, const DTensor& view)
    : steps_(std::move(steps)), whole_(base.numel() == view.numel()) {}

DTensor ViewChain::of(const DTensor& base, Graph graph) const {
  DTensor x = base;
  for (const ViewStep& step : steps_) {
    Arguments args = step.args;
    args[0] = x;
    x = result_at(calls_of(graph).call(*step.row, args), step.output);
  }
  return x;
}

DTensor ViewChain::spread(const DTensor& part, Graph graph) const {
  DTensor x = part;
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    const Ref<RowNode> node = RowNode::unconnected(*step->row, step->args);
    node->connect(DTensor());
    node->save_results(step->results);
    std::vector<DTensor> grads(node->output_count());
    grads[step->output] = x;
    x = node->run(grads, graph).front();
  }
  return x;
}

DTensor ViewChain::replaced(const DTensor& base, const DTensor& part, Graph graph) const {
  if (whole_) return spread(part, graph);
  Calls& calls = calls_of(graph);
  const DTensor shown = spread(calls.one("aten::ones_like", {part}), graph);
  return calls.one("aten::where.self",
                   {calls.one("aten::ne.Scalar", {shown, 0}), spread(part, graph), base});
}

GradNode::Edge ViewChain::recorded(const DTensor& base) const {
  GradNode::Edge last;
  for (const ViewStep& step : steps_) {
    const Ref<RowNode> node = RowNode::unconnected(*step.row, step.args);
    if (last.node) {
      node->connect(std::move(last));
    } else {
      node->connect(base);
    }
    node->save_results(step.results);
    last = {node, step.output, {}};
  }
  return last;
}

WriteNode::WriteNode(Ref<GradNode> write, ViewChain chain, const DTensor& base)
    : GradNode(write->name()),
      write_(std::move(write)),
      chain_(std::move(chain)),
      base_(shape_without_terms(base)) {
  connect(base);
  for (std::size_t i = 1; i < write_->edges().size(); ++i) connect(write_->edges()[i]);
}

std::vector<DTensor> WriteNode::run(std::span<const DTensor> grads, Graph graph) {
  const DTensor whole = laid_out(grads[0], base_, graph);
  const DTensor part = chain_.of(whole, graph);
  std::vector<DTensor> result = write_->run({&part, 1}, graph);
  if (!edges()[0].wanted()) {
    result[0] = {};
    return result;
  }
  const DTensor own =
      result[0].defined() ? result[0] : plain_calls().one("aten::zeros_like", {part});
  result[0] = chain_.replaced(whole, own, graph);
  return result;
}

bool WriteNode::free_saved() {
  write_->free();
  return write_->freed();
}

namespace {

constexpr std::uint32_t kModeTargets = 1u << 8;  // next to the bits of ModeBit
constexpr std::uint64_t kNever = ~std::uint64_t{0};

/// The way a view was made: the tape can't follow writes to some kinds.
enum class Origin : std::uint8_t {
  kOp,
  kList,        ///< one of several that an op returned
  kUnrecorded,  ///< made while nothing was recorded
  kLocal,       ///< the local tensor of a distributed one
};

class View : public TapePlace {
 public:
  View() : TapePlace(Kind::kView) {}
  ~View() override;

  bool is_elsewhere(const DTensor& x) const { return x.local().storage() != base->local.storage(); }
  /// A rank outside the mesh holds nothing that could be a copy.
  bool is_copy(const DTensor& x) const {
    return is_elsewhere(x) &&
           (base->spec == nullptr || device_mesh(base->spec->layout()).participates());
  }
  std::uint64_t base_version() const { return base->local.storage()->version(); }

  Ref<DTensorImpl> base;
  Ref<GradNode> node;                      ///< its place on the tape; null: none
  const OpRow* row = nullptr;              ///< null for kLocal
  Arguments args;                          ///< args[0]: the base, or a view of it
  std::shared_ptr<const Results> results;  ///< for kList: of all, without values
  std::uint32_t output = 0;
  Origin origin = Origin::kOp;
  bool tracked = true;              ///< takes part in the gradient of its base
  std::uint64_t tape_version = 0;   ///< of the base, when the place on the tape was found
  std::uint64_t value_version = 0;  ///< of the base, when a copy was made
};

View* view_of(const DTensor& x) {
  auto* place = static_cast<TapePlace*>(x.impl()->grad_node.get());
  return place != nullptr && place->is_view() ? static_cast<View*>(place) : nullptr;
}

// A view needs a gradient as soon as its base does.
void note_need(const DTensor& x, const View& view) {
  if (view.tracked && view.base->requires_grad) x.impl()->requires_grad = true;
}

// A long chain would otherwise recurse once per view.
View::~View() {
  Arguments dying = std::move(args);
  while (!dying.empty() && dying[0].is_tensor()) {
    const DTensor input = dying[0].tensor();
    dying.clear();
    View* next = input.defined() && input.ref()->use_count() == 1 ? view_of(input) : nullptr;
    if (next == nullptr || next->use_count() > 1) return;
    dying = std::move(next->args);
    next->args.clear();
  }
}

DTensor base_of(const View& view) { return DTensor(view.base); }

Ref<View> made_of(const DTensor& x) {
  const auto made = make_ref<View>();
  if (const View* of = view_of(x)) {
    made->base = of->base;
    made->tracked = of->tracked;
    made->origin = of->origin;
  } else {
    made->base = x.ref();
  }
  made->tape_version = made->value_version = made->base_version();
  return made;
}

ViewChain chain_of(const DTensor& x) {
  std::vector<ViewStep> steps;
  DTensor at = x;
  while (const View* view = view_of(at)) {
    ViewStep step{view->row, view->args, {}, view->output};
    const DTensor input = view->args[0].tensor();
    step.args[0] = without_values(input);
    if (view->results) {
      step.results = *view->results;
    } else {
      step.results.push_back(without_values(at));
    }
    steps.push_back(std::move(step));
    at = input;
  }
  std::ranges::reverse(steps);
  return ViewChain(std::move(steps), at, x);
}

[[noreturn]] void refuse_following(const DTensor& x, const View& view) {
  const char* why = "its shape is changed in place";
  if (view.origin == Origin::kUnrecorded) why = "it was made while nothing was recorded";
  if (view.origin == Origin::kList) why = "its op returned several views";
  if (view.origin == Origin::kLocal) why = "it is the local tensor of a distributed one";
  throw Error(ErrorKind::kRuntime,
              fmt::format("the gradient can't follow a write to the memory of this view: {}", why))
      .with("op", fmt::format("view {} of {}", type_string(x), type_string(base_of(view))))
      .with("fix", "clone() it, or take the part with x[...], narrow or select");
}

void find_place(const DTensor& x, View& view) {
  if (view.origin != Origin::kOp) refuse_following(x, view);
  const GradNode::Edge edge = chain_of(x).recorded(base_of(view));
  view.node = edge.node;
  x.impl()->output_index = edge.output;
  view.tape_version = view.base_version();
}

[[noreturn]] void refuse_leaf(const OpRow& row, const DTensor& target, const char* what) {
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: writes {} while gradients are recorded", row.name(), what))
      .with("op", fmt::format("self {}", type_string(target)))
      .with(
          "fix",
          "use the op that returns a new tensor; a step of an optimizer writes under no_grad(), or "
          "to x.detach(), which shares memory");
}

// True when several elements share one place in memory. A dim of size 1 has no second element.
bool overlaps_itself(const TensorMeta& meta) {
  bool overlaps = false;
  for (std::size_t dim = 0; dim < meta.shape.size(); ++dim) {
    if (meta.shape[dim] == 0) return false;
    overlaps = overlaps || (meta.shape[dim] > 1 && meta.stride[dim] == 0);
  }
  return overlaps;
}

// True for two tensors that share memory, but not as the same elements in the same order. Tensors
// with gaps are not checked (false), as in the reference.
bool overlap_in_part(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage() || a.numel() == 0 || b.numel() == 0) return false;
  if (!is_dense(a.meta()) || !is_dense(b.meta())) return false;
  if (a.offset() == b.offset() && a.numel() == b.numel()) return a.stride() != b.stride();
  return a.offset() < b.offset() + b.numel() && b.offset() < a.offset() + a.numel();
}

void check_read(const OpRow& row, const DTensor& target, const DTensor& read) {
  if (!target.local().defined() || !overlap_in_part(target.local(), read.local())) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("{}: reads memory that it writes to, at other places", row.name()))
      .with("op", fmt::format("{} with strides [{}] next to {} with strides [{}]",
                              type_string(target), text_of_list(target.local().stride(), ", "),
                              type_string(read), text_of_list(read.local().stride(), ", ")))
      .with("fix", "clone() what is read before");
}

void check_write(const OpRow& row, const DTensor& target, Recorded recorded) {
  if (overlaps_itself(target.meta())) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: writes an expanded tensor, several elements of which are one in "
                            "memory",
                            row.name()))
        .with("op", fmt::format("{} with strides [{}]", type_string(target),
                                text_of_list(target.meta().stride, ", ")))
        .with("fix", "clone() it before");
  }
  const View* view = view_of(target);
  if (view != nullptr && view->origin == Origin::kLocal && view->is_copy(target)) {
    throw Error(ErrorKind::kRuntime,
                fmt::format("{}: writes a local tensor that is a gathered copy", row.name()))
        .with("op", fmt::format("{} of {}", type_string(target), type_string(base_of(*view))))
        .with("fix", "write to the distributed tensor, or clone() the local one before");
  }
  if (recorded == Recorded::kNo) return;
  if (row.out_variant()) refuse_leaf(row, target, "an out= tensor");
  if (!target.requires_grad() && view == nullptr) return;
  if (view != nullptr) {
    const bool held = view->tracked || view->origin == Origin::kLocal || view->is_copy(target);
    const bool follows = view->tracked && view->origin == Origin::kOp && row.view() == nullptr;
    if (held && !follows) refuse_following(target, *view);
    const bool of_leaf = view->tracked && view->base->requires_grad && is_leaf(base_of(*view));
    if (of_leaf) refuse_leaf(row, target, "a view of a leaf that requires a gradient");
  }
  if (target.requires_grad() && is_leaf(target)) {
    refuse_leaf(row, target, "a leaf that requires a gradient");
  }
}

}  // namespace

TargetScope::TargetScope() : mode_(current_rank().mode) { current_rank().mode |= kModeTargets; }
TargetScope::~TargetScope() { current_rank().mode = mode_; }

bool views_are_targets() { return (current_rank().mode & kModeTargets) != 0; }

DTensor view_to_write(const OpRow& row, const Arguments& args) {
  const DTensor& x = args[0].tensor();
  if (!views_are_targets() || !x.distributed()) return {};
  const DeviceMesh& mesh = device_mesh(x.spec()->layout());
  if (!mesh.participates()) return {};
  OpSchema schema{&row, args, x.spec()->layout()};
  schema.args[0] = x.spec();
  const InUse<OutputSharding> decision = current_rank().propagator->propagate(schema);
  if (x.local().defined() && decision->inputs[0] == x.spec()) return {};
  const DTensorSpec* spec = decision->outputs[0];
  const DTensor target(Tensor(Ref<Storage>(), local_meta(*spec, *mesh.coordinate())), spec);
  note_views(row, args, {target});
  View& view = *view_of(target);
  view.tape_version = view.value_version = kNever;
  return target;
}

bool overwrites(const OpRow& row) {
  const bool all = row.kernel() == KernelId::kFill || row.kernel() == KernelId::kZeros ||
                   row.kernel() == KernelId::kCopy;
  return all && row.inplace();
}

void make_room(const DTensor& target) {
  if (target.local().defined()) return;
  target.impl()->local = plain_calls().one("aten::empty_like", {target}).local();
}

bool makes_views(const OpRow& row) {
  return row.view() != nullptr && !row.inplace() && !row.op.returns.front().alias.marks.empty();
}

void note_views(const OpRow& row, const Arguments& args, const Results& results) {
  const DTensor& x = args[0].tensor();
  const bool list = results[0].is_list();
  std::shared_ptr<Results> all;
  if (list) {
    all = std::make_shared<Results>();
    ArgumentList shapes;
    for (const Argument& each : results[0].list()) {
      shapes.emplace_back(without_values(each.tensor()));
    }
    all->emplace_back(std::move(shapes));
  }
  const bool recording = (current_rank().mode & kModeAutograd) != 0;
  std::uint32_t output = 0;
  for_each_result(results, [&](const DTensor& result) {
    const Ref<View> view = made_of(x);
    view->row = &row;
    view->args = args;
    view->results = all;
    view->output = output++;
    if (view->origin == Origin::kOp && list) view->origin = Origin::kList;
    if (view->origin == Origin::kOp && !recording) view->origin = Origin::kUnrecorded;
    view->tracked = view->tracked && !is_integral(result.dtype());
    result.impl()->grad_node = view;
  });
}

void note_local(const DTensor& x, const DTensor& local) {
  const View* of = view_of(x);
  const bool copy = of != nullptr && of->is_copy(x);
  if (!copy && !records(x)) return;
  const Ref<View> view = made_of(x);
  view->origin = Origin::kLocal;
  view->tracked = false;
  local.impl()->grad_node = view;
}

const Ref<Storage>& versioned_storage(const DTensor& x) {
  const View* view = view_of(x);
  return view != nullptr ? view->base->local.storage() : x.local().storage();
}

void bring_up_to_date(const DTensor& x) {
  View* view = view_of(x);
  if (view == nullptr) return;
  note_need(x, *view);
  if (!view->is_copy(x) || view->value_version == view->base_version()) return;
  if (view->origin == Origin::kLocal) refuse_following(x, *view);
  const DTensor now = chain_of(x).of(base_of(*view));
  x.impl()->local = now.local();
  x.impl()->spec = now.spec();
  copy_marks(x, now);
  view->value_version = view->base_version();
}

GradNode::Edge edge_of(const DTensor& x) {
  View* view = view_of(x);
  const bool moved = view != nullptr && view->tracked &&
                     (view->node || view->base->requires_grad) &&
                     view->tape_version != view->base_version();
  if (moved) find_place(x, *view);
  GradNode::Edge edge;
  auto* place = static_cast<TapePlace*>(x.impl()->grad_node.get());
  if (view != nullptr) {
    edge.node = view->node;
  } else if (place != nullptr && place->is_node()) {
    edge.node = Ref(static_cast<GradNode*>(place));
  }
  if (edge.node) {
    edge.output = x.impl()->output_index;
  } else {
    edge.leaf = x;
  }
  return edge;
}

bool requires_grad(const DTensor& x) {
  if (const View* view = view_of(x)) note_need(x, *view);
  return x.requires_grad();
}

bool is_leaf(const DTensor& x) { return edge_of(x).leaf.defined(); }

namespace on_tape {

DTensor detach(const DTensor& x) {
  bring_up_to_date(x);
  DTensor result(x.local(), x.spec());
  copy_marks(result, x);
  // A gathered copy still represents its base.
  const View* view = view_of(x);
  if (view != nullptr && view->is_copy(x)) {
    const Ref<View> copy = made_of(x);
    copy->row = view->row;
    copy->args = view->args;
    copy->results = view->results;
    copy->output = view->output;
    copy->tracked = false;
    result.impl()->grad_node = copy;
  }
  return result;
}

void detach_in_place(const DTensor& x) {
  if (view_of(x) != nullptr) {
    throw Error(ErrorKind::kRuntime, "detach_: a view can't be detached in place")
        .with("op", type_string(x))
        .with("fix", "x = x.detach()");
  }
  x.impl()->grad_node = {};
  x.impl()->requires_grad = false;
}

}  // namespace on_tape

void attach(const DTensor& result, const Ref<GradNode>& node, std::size_t index) {
  DTensorImpl* impl = result.impl();
  if (View* view = view_of(result)) {
    view->node = node;
  } else {
    impl->grad_node = node;
  }
  impl->output_index = static_cast<std::uint32_t>(index);
  impl->requires_grad = true;
}

void check_writes(const OpRow& row, const Arguments& args, Recorded recorded) {
  for_each_tensor_slot(row.op, args, [&](std::size_t index, const Argument& argument) {
    if (!row.op.arguments[index].alias.write || !argument.is_tensor()) return;
    if (!argument.tensor().defined()) return;
    check_write(row, argument.tensor(), recorded);
    if (args[index].is_list()) return;
    for_each_tensor_slot(row.op, args, [&](std::size_t other, const Argument& read) {
      if (other == index || !read.is_tensor() || !read.tensor().defined()) return;
      check_read(row, argument.tensor(), read.tensor());
    });
  });
}

void write_back(const DTensor& written) {
  View* view = view_of(written);
  if (view == nullptr || !view->is_elsewhere(written)) return;
  if (!view->is_copy(written)) {
    view->base->local.storage()->writable();
    return;
  }
  const DTensor base = base_of(*view);
  const DTensor part(written.local(), written.spec());
  const DTensor whole = chain_of(written).replaced(base, part);
  plain_calls()("aten::copy_", {base, placed_like(whole, base.spec())});
  view->value_version = view->base_version();
}

void attach_written(const DTensor& written, const Ref<GradNode>& node) {
  View* view = view_of(written);
  if (view == nullptr || !view->tracked) {
    attach(written, node, 0);
    return;
  }
  const DTensor base = base_of(*view);
  attach(base, make_ref<WriteNode>(node, chain_of(written), base), 0);
  written.impl()->requires_grad = true;
  find_place(written, *view);
}

}  // namespace shardlab
