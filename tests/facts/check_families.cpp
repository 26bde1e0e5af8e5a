// The table of families. A file is recognised by fields of its lines, because files kept back from
// the repository may have other names.
#include "tests/facts/check_families.h"

#include "sim/files/json_value.h"
#include "tests/facts/chain_facts.h"
#include "tests/facts/check_programs.h"
#include "tests/facts/checkpoint_facts.h"
#include "tests/facts/collective_facts.h"
#include "tests/facts/kernel_facts.h"
#include "tests/facts/layout_facts.h"
#include "tests/facts/memory_facts.h"
#include "tests/facts/mesh_facts.h"
#include "tests/facts/order_facts.h"
#include "tests/facts/promise_facts.h"
#include "tests/facts/propagate_checkers.h"
#include "tests/facts/redistribute_facts.h"
#include "tests/facts/semantics_facts.h"
#include "tests/facts/type_facts.h"

namespace shardlab {
namespace {

using CheckLine = void (*)(Arena&, const Json&, CaseReport&);

/// Files whose lines need nothing but an arena.
template <CheckLine kLine>
class LineChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override { kLine(arena_, fact, report); }

 private:
  Arena arena_;
};

template <CheckLine kLine>
std::unique_ptr<FactChecker> make_line(std::string_view) {
  return std::make_unique<LineChecker<kLine>>();
}

using CheckPlanLine = void (*)(Arena&, PlanRules, const Json&, CaseReport&);

/// Files about plans: the name of a file has the release that it was recorded from.
template <CheckPlanLine kLine>
class PlanLineChecker : public FactChecker {
 public:
  explicit PlanLineChecker(PlanRules rules) : rules_(rules) {}
  void check(const Json& fact, CaseReport& report) override { kLine(arena_, rules_, fact, report); }

 private:
  PlanRules rules_;
  Arena arena_;
};

template <CheckPlanLine kLine>
std::unique_ptr<FactChecker> make_plan_line(std::string_view stem) {
  return std::make_unique<PlanLineChecker<kLine>>(rules_of(stem));
}

/// True when the first line is an object with this field.
bool has(const Json& first, const char* field) {
  return first.is_object() && first.contains(field);
}

// Recognised by a field that only this kind of file has, so that a renamed file is still taken.
constexpr CheckFamily kFamilies[] = {
    {"types/types", [](std::string_view, const Json& first) { return has(first, "spmd_types"); },
     make_type_checker},
    {"meshes/programs",
     [](std::string_view, const Json& first) { return has(first, "steps") && has(first, "world"); },
     make_mesh_program_checker},
    {"meshes/two",
     [](std::string_view, const Json& first) {
       return has(first, "meshes") || (has(first, "first") && has(first, "second"));
     },
     make_two_mesh_checker},
    {"meshes/values",
     [](std::string_view, const Json& first) {
       return has(first, "case") && has(first, "what") && has(first, "verdict");
     },
     make_mesh_value_checker},
    {"checkpoints/contents",
     [](std::string_view, const Json& first) {
       return has(first, "tensors") && has(first, "torch");
     },
     make_checkpoint_checker},
    {"checkpoints/pairs",
     [](std::string_view, const Json& first) { return has(first, "moved") && has(first, "wrong"); },
     make_pair_checker},
    {"layout/device_mesh",
     [](std::string_view, const Json& first) { return has(first, "bad_slice"); },
     make_line<check_device_mesh>},
    {"layout/global_info",
     [](std::string_view, const Json& first) { return has(first, "global_stride"); },
     make_line<check_global_info>},
    {"layout/local_shape_offset",
     [](std::string_view, const Json& first) {
       return has(first, "local_shape") && has(first, "offset");
     },
     make_line<check_local_shape_offset>},
    {"layout/shard_orders",
     [](std::string_view, const Json& first) { return has(first, "as_strided"); },
     make_line<check_shard_order>},
    {"layout/shard_size_offset",
     [](std::string_view, const Json& first) {
       return has(first, "chunks") && has(first, "offset");
     },
     make_line<check_shard_size_offset>},
    {"layout/split_tensor",
     [](std::string_view, const Json& first) { return has(first, "with_padding"); },
     make_line<check_split_tensor>},
    {"layout/strided_decode",
     [](std::string_view, const Json& first) { return has(first, "spec_order"); },
     make_line<check_strided_decode>},
    {"layout/strided_shard",
     [](std::string_view, const Json& first) { return has(first, "split_factor"); },
     make_line<check_strided_shard>},
    {"layout/text_and_equality",
     [](std::string_view, const Json& first) {
       return has(first, "is_shard") || has(first, "hash_equal");
     },
     make_line<check_text_and_equality>},
    {"redistribute/plans",
     [](std::string_view, const Json& first) { return has(first, "selected"); },
     make_plan_line<check_plan>},
    {"redistribute/plans_flat",
     [](std::string_view, const Json& first) { return has(first, "flattened_meshes"); },
     make_plan_line<check_flattened_plan>},
    {"redistribute/plans_strided",
     [](std::string_view, const Json& first) {
       return has(first, "plan") || has(first, "plan_error");
     },
     make_plan_line<check_strided_plan>},
    {"redistribute/cost",
     [](std::string_view, const Json& first) { return has(first, "cost") && has(first, "src"); },
     make_plan_line<check_cost>},
    {"redistribute/cost_primitives",
     [](std::string_view, const Json& first) { return has(first, "bandwidth"); },
     make_plan_line<check_cost_primitives>},
    {"propagate/cases",
     [](std::string_view, const Json& first) { return has(first, "expect") && has(first, "op"); },
     make_propagate_checker},
    {"propagate/strategies",
     [](std::string_view, const Json& first) { return has(first, "strategies"); },
     make_strategy_checker},
    {"redistribute/values",
     [](std::string_view, const Json& first) {
       return first.is_object() && first.value("kind", "") == "values";
     },
     make_values_checker},
    {"redistribute/backward",
     [](std::string_view, const Json& first) {
       return first.is_object() && first.value("kind", "") == "backward";
     },
     make_backward_checker},
    {"semantics/cases",
     [](std::string_view, const Json& first) { return has(first, "case") && has(first, "params"); },
     make_semantics_checker},
    {"semantics/rng_offsets",
     [](std::string_view, const Json& first) { return has(first, "offset_in_op"); },
     make_rng_offsets_checker},
    {"collectives/calls",
     [](std::string_view, const Json& first) { return has(first, "collectives"); },
     make_collective_checker},
    {"chains/programs",
     [](std::string_view, const Json& first) {
       return has(first, "program") && has(first, "coarsest");
     },
     make_chain_checker},
    {"memory/saved",
     [](std::string_view, const Json& first) {
       return has(first, "program") && has(first, "kept_inputs");
     },
     make_saved_checker},
    kRecordedPrograms,
    {"memory/peaks",
     [](std::string_view, const Json& first) {
       return has(first, "program") && has(first, "maxima");
     },
     make_peaks_checker},
    {"schedules/schedules",
     [](std::string_view, const Json& first) {
       return has(first, "csv") && has(first, "microbatches");
     },
     make_schedule_checker},
    {"schedules/programs",
     [](std::string_view, const Json& first) {
       return has(first, "groups") && has(first, "ranks") && has(first, "truth");
     },
     make_step_program_checker},
    {"autopsy/dumps",
     [](std::string_view, const Json& first) { return has(first, "dumps") && has(first, "truth"); },
     make_autopsy_checker},
    {"kernels/grads",
     [](std::string_view, const Json& first) { return has(first, "grad_outputs"); },
     make_gradient_checker},
    {"kernels/sequences",
     [](std::string_view, const Json& first) {
       return has(first, "opinfo") && has(first, "calls");
     },
     make_sequence_checker},
    {"kernels/values",
     [](std::string_view, const Json& first) {
       return has(first, "kwargs") && has(first, "src") && has(first, "op");
     },
     make_value_checker},
    {"kernels/random",
     [](std::string_view, const Json& first) {
       return has(first, "draws") && has(first, "support");
     },
     make_random_checker},
    {"memory/backward_order",
     [](std::string_view, const Json& first) {
       return has(first, "program") && has(first, "passes");
     },
     make_order_checker},
};

}  // namespace

std::span<const CheckFamily> check_families() { return kFamilies; }

}  // namespace shardlab
