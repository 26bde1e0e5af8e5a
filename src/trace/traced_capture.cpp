// A guard holds where the same source, read again, gives the same fact.
#include "trace/traced_capture.h"

#include <algorithm>

#include "base/rank_context.h"
#include "base/text.h"
#include "mesh/spec.h"
#include "trace/guards.h"

namespace shardlab {

namespace {

// The facts that a capture would note now for all inputs and global names.
std::vector<Guard> traced_facts(const std::vector<DTensor>& inputs) {
  Tracing now;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].distributed()) continue;
    const Source source = Source::input(fmt::format("arg{}", i));
    const DTensorSpec& spec = *inputs[i].spec();
    now.wrap(spec.layout(), source.attribute("mesh")).as_constant();
    for (std::size_t dim = 0; dim < spec.placements().size(); ++dim) {
      const std::string name = fmt::format("placements[{}]", dim);
      now.wrap(spec.placements()[dim], source.attribute(name)).as_constant();
    }
  }
  for (const WorldMeta meta : {WorldMeta::kGroup, WorldMeta::kGroupMember}) {
    const TracedValue world = now.wrap(meta, Source::global(to_string(meta)));
    world.get_attr("WORLD");
    world.get_attr("NON_GROUP_MEMBER");
  }
  return now.guards();
}

Error refusal_of_rank(const std::vector<Fold>& folds, std::int64_t captured, std::int64_t now) {
  Error error(ErrorKind::kValue,
              fmt::format("the graph is that of rank {}, and this is rank {}", captured, now));
  std::vector<std::string> reasons;
  for (const Fold& fold : folds) {
    if (!fold.by_rank) continue;
    const std::string line = fold.line > 0 ? fmt::format("line {}: ", fold.line) : "";
    reasons.push_back(fmt::format("{}{}.{} was {}", line, fold.object, fold.member, fold.value));
  }
  return error.with("folded", text_of_list(reasons, "\n"))
      .with("fix", "capture the program on this rank, too");
}

}  // namespace

TracedFunction capture_traced(const TracedProgram& program, const std::vector<DTensor>& inputs,
                              const TraceOptions& options) {
  TracedFunction traced;
  Tracing tracing(options);
  traced.program_ =
      capture([&](const std::vector<DTensor>& given) { return program(tracing, given); }, inputs);
  traced.guards_ = tracing.guards();
  traced.folds_ = tracing.folds();
  traced.rank_ = current_rank().rank;
  return traced;
}

std::vector<DTensor> TracedFunction::replay(const std::vector<DTensor>& inputs) const {
  const std::int64_t rank = current_rank().rank;
  const bool by_rank = std::ranges::any_of(folds_, &Fold::by_rank);
  if (by_rank && rank != rank_) throw refusal_of_rank(folds_, rank_, rank);
  if (const auto broken = first_broken(guards_, traced_facts(inputs))) throw refusal_of(*broken);
  return program_.replay(inputs);
}

}  // namespace shardlab
