// A program's hooks on backward, as the recorder sees them: the hooks that reach the calls below
// are its own, which call those of the program and record their actions between two nodes.
#include <algorithm>
#include <utility>

#include "autograd/grad_node.h"
#include "trace/recorder.h"

namespace shardlab {

std::int32_t Recorder::number_of(const HookHandle& handle) const {
  const auto found = std::ranges::find(hooks_, handle);
  return found == hooks_.end() ? -1 : static_cast<std::int32_t>(found - hooks_.begin());
}

Results Recorder::pass_on(const ProgramEvent& event, std::int32_t hook) {
  if (const auto* one = std::get_if<HookEvent>(&event)) {
    lives_.push_back({.registered = {}, .stays = stays_on_tape(one->x)});
    const GradientsHook all = recorded(hook, [run = *one->hook](const Gradients& gradients) {
      return Gradients{run(gradients.at(0))};
    });
    const GradientHook single = [all](const DTensor& gradient) { return all({gradient}).at(0); };
    hooks_.emplace_back();
    Results results = next().perform(HookEvent{one->x, &single, one->handle});
    hooks_.back() = *one->handle;
    return results;
  }
  if (const auto* together = std::get_if<HookGradientsEvent>(&event)) {
    lives_.emplace_back();
    const GradientsHook all = recorded(hook, *together->hook);
    hooks_.emplace_back();
    return next().perform(HookGradientsEvent{together->tensors, together->missing, &all});
  }
  if (const auto* function = std::get_if<FunctionEvent>(&event)) {
    lives_.emplace_back();
    const auto backward = [this, node = current_, context = function->context,
                           own = function->function](const Gradients& gradients) {
      know_results(node, *context);
      return own->backward(*context, gradients);
    };
    CustomFunction shown{.name = function->function->name,
                         .forward = nullptr,
                         .backward = nullptr,
                         .once_differentiable = function->function->once_differentiable};
    shown.backward = [all = recorded(hook, backward)](
                         FunctionContext&, const Gradients& gradients) { return all(gradients); };
    hooks_.emplace_back();
    return next().perform(FunctionEvent{function->context,
                                        std::make_shared<const CustomFunction>(std::move(shown)),
                                        function->arguments, function->results});
  }
  return next().perform(event);
}

// Results that forward saved come back as other handles.
void Recorder::know_results(std::size_t node, const FunctionContext& context) {
  for (const auto& [index, saved] : context.saved_results()) {
    known_.insert_or_assign(saved.impl(),
                            Known{DTensorWatch(saved), graph_.nodes[node].results.at(index).value});
  }
}

GradientsHook Recorder::recorded(std::int32_t hook, GradientsHook run) {
  const auto registered = std::make_shared<char>();
  lives_.back().registered = registered;
  return [self = self_, hook, run = std::move(run), registered](Gradients gradients) {
    // In a backward that this recorder does not record, the hooks are not recorded either.
    const bool listens = *self != nullptr && (*self)->inside_;
    return listens ? (*self)->run_hook(hook, run, std::move(gradients)) : run(gradients);
  };
}

bool Recorder::stays_on_tape(const DTensor& x) const {
  const auto known = known_.find(x.impl());
  return is_leaf(x) || known == known_.end() || known->second.value.id < inputs_;
}

bool Recorder::hooks_left() const {
  return std::ranges::any_of(lives_, [](const HookLife& life) {
    return !life.registered.expired() && (life.stays || !life.passed);
  });
}

// One that another hook of this backward has made is a value of its own here, as hooks share none.
GraphResult Recorder::arrived(const DTensor& gradient) {
  const auto known = known_.find(gradient.impl());
  if (known != known_.end() && known->second.value.id >= first_inside_) known_.erase(known);
  return given(gradient);
}

Recorder::Gradients Recorder::run_hook(std::int32_t hook, const GradientsHook& run,
                                       Gradients gradients) {
  GraphNode call = begun(NodeKind::kHookCall);
  call.hook = hook;
  for (const DTensor& gradient : gradients) {
    call.results.push_back(gradient.defined() ? arrived(gradient) : GraphResult{});
  }
  const std::size_t index = graph_.nodes.size(), around = current_;
  const std::int32_t first = first_inside_;
  HookLife& life = lives_.at(static_cast<std::size_t>(hook));
  life.passed = life.passed || graph_.nodes[around].graph == Graph::kFree;
  graph_.nodes.push_back(std::move(call));
  inside_ = false;
  const auto resume = [&] {
    inside_ = true;
    current_ = around;
    first_inside_ = first;
  };
  Gradients out;
  try {
    out = run(std::move(gradients));
  } catch (...) {
    resume();
    throw;
  }
  GraphNode end = begun(NodeKind::kHookGives);
  end.hook = hook;
  end.line = graph_.nodes[index].line;
  end.column = graph_.nodes[index].column;
  for (const DTensor& gradient : out) end.args.push_back(taken(gradient));
  graph_.nodes.push_back(std::move(end));
  resume();
  return out;
}

}  // namespace shardlab
