// A guard holds where the same source has the same fact now: facts are listed for every source that
// an input or a global name leads to.
#include "trace/traced_capture.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/rank_context.h"
#include "mesh/spec.h"
#include "tensor/device.h"
#include "trace/guards.h"

namespace shardlab {

namespace {

void add_fact(std::vector<Guard>& facts, Guard::Kind kind, const Source& source, std::string text) {
  facts.push_back({.kind = kind, .source = source.text(), .expected = std::move(text)});
}

void add_input(std::vector<Guard>& facts, const Source& source, const DTensorSpec& spec) {
  const Source mesh = source.attribute("mesh");
  add_fact(facts, Guard::Kind::kIdentity, mesh, mesh_fact(*spec.layout()));
  add_fact(facts, Guard::Kind::kEquality, mesh.attribute("device_type"),
           std::string(current_rank().device->type()));
  for (std::size_t dim = 0; dim < spec.placements().size(); ++dim) {
    add_fact(facts, Guard::Kind::kEquality, source.attribute(fmt::format("placements[{}]", dim)),
             placement_fact(spec.placements()[dim]));
  }
}

std::vector<Guard> traced_facts(const std::vector<DTensor>& inputs) {
  std::vector<Guard> facts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].distributed()) continue;
    add_input(facts, Source::input(fmt::format("arg{}", i)), *inputs[i].spec());
  }
  for (const WorldMeta meta : {WorldMeta::kGroup, WorldMeta::kGroupMember}) {
    const Source source = Source::global(to_string(meta));
    add_fact(facts, Guard::Kind::kIdentity, source.attribute("WORLD"),
             group_fact(*current_rank().world));
    add_fact(facts, Guard::Kind::kIdentity, source.attribute("NON_GROUP_MEMBER"),
             EnumConstant().name);
  }
  return facts;
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
  return error.with("folded", fmt::format("{}", fmt::join(reasons, "\n")))
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
