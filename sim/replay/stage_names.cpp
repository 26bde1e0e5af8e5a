// Equal parameters are taken in their order, where both programs have as many. Their modules follow
// from below; one of which the rank has only some parameters is none of A's.
#include "sim/replay/stage_names.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/text_of_list.h"

namespace shardlab {

namespace {

using Names = std::map<std::string, std::optional<std::string>>;

struct StageParameter {
  std::string name;
  std::int32_t rank;
};

struct StageModel {
  std::map<std::string, std::vector<StageParameter>> by_value;         // shape and bytes
  std::map<std::int32_t, std::set<std::string>> parameters;            // by rank
  std::map<std::int32_t, std::map<std::string, std::string>> classes;  // of modules, likewise
};

StageModel model_of(const RecordedProgram& program) {
  StageModel model;
  for (const RecordedEvent& event : program.events) {
    if (event.kind == RecordedKind::kModule) {
      const std::string& path = module_of(program, event);
      model.classes[event.rank][path == event.name ? "" : without_wrapper(path)] = event.name;
    }
    if (event.kind != RecordedKind::kInput || !event.requires_grad || event.name.empty()) continue;
    const std::string name = without_wrapper(event.name);
    const EventValue& value = event.out[0];
    model.parameters[event.rank].insert(name);
    const bool known = value.elements.size() == 1 && value.elements[0].bytes > 0;
    std::string key = text_of_list(value.type.shape, ",") + ":";
    if (known) key += program.raw->substr(value.elements[0].at, value.elements[0].bytes);
    if (known) model.by_value[key].push_back({name, event.rank});
  }
  for (auto& [key, all] : model.by_value) {
    std::ranges::stable_sort(all, {}, &StageParameter::rank);
  }
  return model;
}

// "layers.0" of "layers.0.up", and "up".
std::pair<std::string, std::string> parted(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::size_t count_in(const std::set<std::string>& parameters, const std::string& module) {
  if (module.empty()) return parameters.size();
  return static_cast<std::size_t>(
      std::distance(parameters.lower_bound(module + "."), parameters.lower_bound(module + "/")));
}

// The parameter and the modules around it, as far as they have one name in each other.
void pair_names(std::string here, std::string there, Names& names) {
  while (true) {
    const auto [known, added] = names.try_emplace(here, there);
    if (!added && known->second != there) known->second.reset();
    if (here.empty() || there.empty() || parted(here).second != parted(there).second) break;
    here = parted(here).first;
    there = parted(there).first;
  }
  while (!here.empty()) names[here = parted(here).first].reset();
}

}  // namespace

std::string without_wrapper(std::string name) {
  if (name.starts_with("module.")) name.erase(0, 7);
  return name;
}

StageNames::StageNames(const RecordedProgram& a, const RecordedProgram& b) {
  if (a.ranks != 1 || b.ranks == 1) return;
  StageModel whole = model_of(a), stages = model_of(b);
  std::vector<Names> all(b.ranks);
  bool differ = false;
  for (const auto& [key, here] : stages.by_value) {
    const auto there = whole.by_value.find(key);
    if (there == whole.by_value.end()) continue;
    const bool one = there->second.size() == 1;
    for (std::size_t i = 0; (one || here.size() == there->second.size()) && i < here.size(); ++i) {
      if (here[i].rank < 0) return;
      const std::string& name = there->second[one ? 0 : i].name;
      differ = differ || here[i].name != name;
      pair_names(here[i].name, name, all[static_cast<std::size_t>(here[i].rank)]);
    }
  }
  if (!differ) return;
  const auto& [of_a, others] = *whole.parameters.begin();
  auto& classes = whole.classes[of_a];
  for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(b.ranks); ++rank) {
    const std::set<std::string>& own = stages.parameters[rank];
    Names& names = all[static_cast<std::size_t>(rank)];
    if (std::ranges::includes(own, others)) names.clear();  // the whole model under its names
    if (names.empty()) continue;
    for (auto& [here, there] : names) {
      if (own.contains(here) || !there) continue;
      const std::string& kind = stages.classes[rank][here];
      if (count_in(own, here) == count_in(others, *there) && classes[*there] == kind) continue;
      there.reset();  // or a module whose table is tied to another one's
      if (count_in(others, here) == 0 && !kind.empty() && classes[here] == kind) there = here;
    }
    names.try_emplace("", std::nullopt);
  }
  names_ = std::move(all);
}

std::string StageNames::of(std::int32_t rank, const std::string& name) const {
  if (names_.empty() || rank < 0) return name;
  const auto& names = names_[static_cast<std::size_t>(rank)];
  if (names.empty()) return name;
  for (std::string here = name; true; here = parted(here).first) {
    const auto found = names.find(here);
    if (found == names.end()) continue;
    if (!found->second) break;
    const bool below = here.empty() && !name.empty() && !found->second->empty();
    return *found->second + (below ? "." : "") + name.substr(here.size());
  }
  return fmt::format("{} of rank {}", name, rank);
}

}  // namespace shardlab
