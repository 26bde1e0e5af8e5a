// The effect of a chain of views on a tensor of its base's shape, forwards and backwards. Backwards
// it is the gradient programs of its ops, which put elements back at their old places. So a write
// to a part needs no op of its own for each kind of view, on any mesh.
#include "autograd/view_chain.h"

#include "dispatch/local_call.h"
#include "redistribute/redistribute.h"

namespace shardlab {

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

}  // namespace shardlab
