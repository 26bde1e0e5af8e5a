// Functions that programs call only make an event each here: the meaning of an event is in
// on_tape.h and src/api, at the end of the chain.
#include "autograd/program.h"

#include <array>

#include "autograd/at_place.h"
#include "autograd/grad_mode.h"
#include "autograd/view.h"
#include "base/error.h"
#include "base/rank_context.h"
#include "dispatch/prepare.h"
#include "mesh/local_shape.h"
#include "mesh/placement_dims.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

DTensor one(const ProgramEvent& event) { return program_calls().perform(event).at(0).tensor(); }

const DTensor& defined(const DTensor& x, const char* function) {
  if (!x.defined()) refuse_undefined(function);
  return x;
}

}  // namespace

std::string_view kind_name(const ProgramEvent& event) {
  static constexpr std::array<std::string_view, std::variant_size_v<ProgramEvent>> kNames = {
      "op",          "factory",      "distribute",   "redistribute", "from_local", "to_local",
      "collective",  "mesh",         "require_grad", "detach",       "backward",   "deal",
      "check_piece", "read",         "seed",         "drop_grad",    "hook",       "hook_gradients",
      "remove_hook", "collect_into", "wait",         "function"};
  return kNames[event.index()];
}

Results ProgramCalls::call(const OpRow& row, const Arguments& args) {
  return perform(OpEvent{&row, &args});
}

const OpRow& ProgramCalls::find(std::string_view name) const { return plain_calls().find(name); }

DTensor ProgramCalls::redistribute(const DTensor& x, const Placements& placements) {
  if (!x.distributed()) return x;
  return perform(RedistributeEvent{x, x.spec()->with(placements), {}, {}}).at(0).tensor();
}

ProgramCalls& program_calls() {
  ProgramCalls* calls = current_rank().calls;
  check_invariant(calls != nullptr, "a rank that runs a program has calls");
  return *calls;
}

ProgramScope::ProgramScope(ProgramCalls& calls) : rank_(current_rank()), before_(rank_.calls) {
  rank_.calls = &calls;
}

ProgramScope::~ProgramScope() { rank_.calls = before_; }

void check_own(std::string_view name, const DTensor& x) {
  constexpr int kRankBits = 32;
  const std::uint64_t maker = x.defined() ? x.impl()->maker : 0, here = current_rank().identity;
  if (maker == here || maker == 0 || maker >> kRankBits != here >> kRankBits) return;
  fail(Fix{"ranks have no memory in common: broadcast() it, or send() it"},
       "{}: a tensor that rank {} has made is used on rank {}", name,
       (maker & ((std::uint64_t{1} << kRankBits) - 1)) - 1, current_rank().rank);
}

void PlaceScope::add_to(Error& error) const {
  if (outermost_) error.with("at", place_text(rank_));
}

DTensor redistribute(Operand x, const DTensorSpec* target, const RedistributeOptions& options,
                     const RedistributeDTypes& dtypes) {
  return at_place(x.place, [&] {
    if (!x.tensor.distributed()) {
      fail(Fix{"distribute_tensor(x, mesh, ...) places a plain tensor"},
           "redistribute: {} is not distributed", type_string(x.tensor));
    }
    return one(RedistributeEvent{x.tensor, target, options, dtypes});
  });
}

DTensor from_local(const DTensor& local, const MeshLayout* layout, const Placements& written,
                   const std::optional<TensorMeta>& global) {
  if (local.distributed()) {
    fail(Fix{"redistribute() it, or pass x.to_local()"}, "from_local: {} is distributed",
         type_string(local));
  }
  bring_up_to_date(local);
  const Placements placements = normalized(written, local.ndim());
  const TensorMeta meta = global ? *global : global_meta(*layout, placements, local.local().meta());
  return one(FromLocalEvent{local, layout->arena().spec(layout, placements, meta)});
}

DTensor to_local(const DTensor& x, const std::optional<Placements>& gradient) {
  if (!x.distributed()) return x;
  bring_up_to_date(x);
  const DTensorSpec& spec = *x.spec();
  const DTensorSpec* here = gradient ? spec.with(*gradient)
                                     : spec.with(without_partials(spec.placements()), spec.order());
  return one(ToLocalEvent{x, here});
}

DTensor full_tensor(Operand operand) {
  const DTensor& x = operand.tensor;
  if (!x.distributed()) return x;
  return at_place(operand.place, [&] {
    const Placements replicated(x.spec()->layout()->ndim());
    return to_local(redistribute(x, x.spec()->with(replicated)));
  });
}

void require_grad(Operand x) {
  at_place(x.place, [&] { program_calls().perform(RequireGradEvent{x.tensor, true}); });
}

void require_no_grad(const DTensor& x) { program_calls().perform(RequireGradEvent{x, false}); }

void drop_grad(const DTensor& leaf) {
  program_calls().perform(DropGradEvent{defined(leaf, "drop_grad")});
}

HookHandle register_hook(const DTensor& x, GradientHook hook) {
  HookHandle handle;
  program_calls().perform(HookEvent{defined(x, "register_hook"), &hook, &handle});
  return handle;
}

void HookHandle::remove() { program_calls().perform(RemoveHookEvent{this}); }

std::vector<DTensor> hook_gradients(const std::vector<DTensor>& tensors, MissingGradients missing,
                                    GradientsHook hook) {
  std::vector<DTensor> passed;
  for (const Argument& x : program_calls().perform(HookGradientsEvent{&tensors, missing, &hook})) {
    passed.push_back(x.tensor());
  }
  return passed;
}

std::vector<DTensor> apply_function(CustomFunction function,
                                    const std::vector<DTensor>& arguments) {
  const auto context = FunctionContext::of(arguments);
  const std::vector<DTensor> results =
      no_grad([&] { return std::exchange(function.forward, nullptr)(*context); });
  const auto shared = std::make_shared<const CustomFunction>(std::move(function));
  std::vector<DTensor> passed;
  for (const Argument& x :
       program_calls().perform(FunctionEvent{context, shared, &arguments, &results})) {
    passed.push_back(x.is_tensor() ? x.tensor() : DTensor());
  }
  return passed;
}

DTensor detach(const DTensor& x) { return one(DetachEvent{defined(x, "detach"), false}); }

void detach_in_place(const DTensor& x) {
  program_calls().perform(DetachEvent{defined(x, "detach_"), true});
}

void backward(Operand loss, const DTensor& seed) { backward(loss, seed, Graph::kFree); }

void backward(Operand loss, const DTensor& seed, Graph graph) {
  at_place(loss.place, [&] {
    const DTensor& start = defined(loss.tensor, "backward");
    program_calls().perform(BackwardEvent{start, seed, graph, nullptr});
  });
}

std::vector<DTensor> gradients(Operand loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed) {
  return gradients(loss, inputs, seed, Graph::kFree);
}

std::vector<DTensor> gradients(Operand loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed, Graph graph) {
  Results results = at_place(loss.place, [&] {
    return program_calls().perform(BackwardEvent{loss.tensor, seed, graph, &inputs});
  });
  std::vector<DTensor> found;
  found.reserve(results.size());
  for (Argument& result : results) {
    DTensor* gradient = std::get_if<DTensor>(&result.variant());
    found.push_back(gradient != nullptr ? std::move(*gradient) : DTensor());
  }
  return found;
}

}  // namespace shardlab
