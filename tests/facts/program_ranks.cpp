// The scenario's mesh is all ranks as one dim: programs of facts make theirs themselves.
#include "tests/facts/program_ranks.h"

#include "comm/device_mesh.h"
#include "dispatch/all_ops.h"
#include "kernels/cpu_kernels.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/parser.h"
#include "sim/world/world.h"

namespace shardlab {

ProgramRanks::ProgramRanks()
    : device_(make_cpu_device(cpu_kernel_table())), propagator_(all_ops(), PlanOptions{}) {}

std::string ProgramRanks::run(
    std::int64_t ranks, const std::string& program,
    const std::function<void(const Interpreter&, std::int64_t rank)>& look) {
  const ast::Program parsed = parse_program(std::make_shared<SourceText>("program", program));
  const Environment params;
  const MeshLayout* own = arena_.layout({.shape = {ranks}, .names = {"ours"}, .ranks = {}});
  WorldOptions options;
  options.ranks = ranks;
  options.device = [this](std::int64_t) -> Device& { return *device_; };
  options.propagator = &propagator_;
  options.plans = &propagator_.plans();
  const WorldResult result = run_world(options, [&](RankContext& context) {
    context.meshes->construct(own);
    Interpreter in({.program = &parsed,
                    .params = &params,
                    .registry = &all_ops(),
                    .layout = own,
                    .reported = own,
                    .rank = context.rank,
                    .world_size = ranks});
    in.run();
    look(in, context.rank);
  });
  return result.failures.empty() ? "" : result.merged().what();
}

}  // namespace shardlab
