// Text blocks of these programs.
#include "tests/facts/semantics_text.h"

namespace shardlab::semantics {

std::string placed(const Json& placements) {
  std::string text;
  for (std::size_t dim = 0; dim < placements.size(); ++dim) {
    text += fmt::format("{}m{}={}", dim == 0 ? "" : ", ", dim, placements[dim].get<std::string>());
  }
  return text;
}

bool has_partial(const Json& placements) {
  for (const Json& placement : placements) {
    if (placement.get_ref<const std::string&>().starts_with('P')) return true;
  }
  return false;
}

std::string distributed(std::string_view value, const Json& placements) {
  return fmt::format("distribute({}, mesh=mesh, {})", value, placed(placements));
}

std::string made(std::string_view value, const Json& placements) {
  if (!has_partial(placements)) return distributed(value, placements);
  Json cuts = placements;
  for (Json& cut : cuts) {
    if (cut.get_ref<const std::string&>().starts_with('P')) cut = "R";
  }
  return fmt::format("from_local({}.to_local() + rank, mesh=mesh, {})", distributed(value, cuts),
                     placed(placements));
}

Json rows_of(const Json& mesh) {
  Json placements = Json::array({"S(0)"});
  while (placements.size() < mesh.size()) placements.push_back("R");
  return placements;
}

Json whole_of(const Json& mesh) {
  Json placements = Json::array();
  for (std::size_t dim = 0; dim < mesh.size(); ++dim) placements.push_back("R");
  return placements;
}

std::string find(std::span<const Named> table, std::string_view name) {
  for (const Named& row : table) {
    if (row.name == name) return std::string(row.code);
  }
  return "";
}

std::string alike(std::string_view piece, const Json& placements) {
  return fmt::format("from_local({}, mesh=mesh, {})", piece, placed(placements));
}

}  // namespace shardlab::semantics
