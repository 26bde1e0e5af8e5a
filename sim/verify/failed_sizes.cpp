// The error has sizes without names. The names are those of the statement, and their sizes on one
// device tell pieces from whole tensors.
#include "sim/verify/failed_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "mesh/local_shape.h"
#include "sim/language/syntax/ast_walk.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

const DTensor* last_of(const Recording& recording, const std::string& name) {
  const std::int64_t last = recording.last_number(name);
  const RecordedValue* value = recording.at_last_write(name, std::max<std::int64_t>(last, 0));
  return value == nullptr ? nullptr : &value->value;
}

// The sizes on a rank and on one device; no recording has an input that nothing writes.
std::optional<std::pair<Dims, Dims>> sizes_of(const std::string& name, const Scenario& scenario,
                                              const MeshLayout& layout, std::int64_t rank,
                                              const Recording& own, const Recording& alone) {
  const DTensor *held = last_of(own, name), *all = last_of(alone, name);
  if (held != nullptr && all != nullptr) return std::pair(held->local().shape(), all->shape());
  const auto at = layout.coordinate_of(rank);
  for (const ScenarioInput& input : scenario.inputs) {
    if (input.name != name || !at) continue;
    const DTensorSpec* spec = spec_of(input.type, &layout);
    return std::pair(local_shape(*spec, *at), spec->shape());
  }
  return std::nullopt;
}

// Those that the line makes whole are left out.
std::vector<std::string> names_in(const ast::Program& program, int line) {
  const std::string& text = program.source->text();
  std::vector<std::string> names;
  ast::any_part(program.body, [&](const ast::Expression& part) {
    const auto* name = std::get_if<ast::Name>(&part.node);
    const bool here = name != nullptr && program.source->place(part.span.begin).line == line &&
                      text.compare(part.span.end, 5, ".full") != 0 &&
                      text.compare(part.span.end, 7, ".redist") != 0;
    if (here && std::ranges::count(names, name->id) == 0) names.push_back(name->id);
    return false;
  });
  return names;
}

}  // namespace

Cause piece_meets_whole(const Scenario& scenario, const MeshLayout& layout, int line,
                        std::int64_t rank, const Recording& own, const Recording& alone) {
  std::vector<std::string> pieces, wholes;
  for (const std::string& name : names_in(*scenario.program, line)) {
    const auto sizes = sizes_of(name, scenario, layout, rank, own, alone);
    if (!sizes || sizes->first.size() != sizes->second.size() || sizes->first.empty()) continue;
    const auto& [held, whole] = *sizes;
    std::size_t dim = 0;
    while (dim < held.size() && held[dim] == whole[dim]) ++dim;
    if (dim == held.size()) {
      wholes.push_back(fmt::format("{} is whole, [{}]", name, text_of_list(whole, ", ")));
    } else if (held[dim] < whole[dim]) {
      pieces.push_back(
          fmt::format("{} is this rank's {} of {} along dim {}", name, held[dim], whole[dim], dim));
    }
  }
  if (pieces.empty() || wholes.empty()) return {};
  return {causes::kOnPieces,
          fmt::format("in line {} {}, and {}: cut the whole one in the same way", line,
                      text_of_list(pieces, ", "), text_of_list(wholes, ", ")),
          line};
}

}  // namespace shardlab
