// Equal parameters are taken in their order, where both programs have as many. Their modules follow
// from below; one of which the rank has only some parameters is none of A's.
#include "sim/replay/stage_names.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"

namespace shardlab {

namespace {

using Names = std::map<std::string, std::optional<std::string>>;

// The number in the name of a parameter of no module, or of its gradient: "v14.grad".
std::optional<std::int32_t> leaf_number(const RecordedEvent& event) {
  std::string_view name = event.name;
  if (name.ends_with(".grad")) name.remove_suffix(5);
  if (event.kind != RecordedKind::kCheck || !name.starts_with('v')) return std::nullopt;
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(name.data() + 1, name.data() + name.size(), number);
  const bool read = error == std::errc() && end == name.data() + name.size();
  return read ? std::optional(number) : std::nullopt;
}

struct StageParameter {
  std::string name;
  std::int32_t rank;
};

struct StageModel {
  std::map<std::string, std::vector<StageParameter>> by_value;         // shape and bytes
  std::map<std::int32_t, std::set<std::string>> parameters;            // by rank
  std::map<std::int32_t, std::map<std::string, std::string>> classes;  // of modules, likewise
};

// The shape and the bytes of a value on a rank; empty where the file has no elements.
std::string value_key(const RecordedProgram& program, const EventValue& value, std::size_t rank) {
  if (value.elements[rank].bytes == 0) return "";
  return text_of_list(value.type.shape, ",") + ":" +
         program.raw->substr(value.elements[rank].at, value.elements[rank].bytes);
}

StageModel model_of(const RecordedProgram& program) {
  StageModel model;
  const LeafNames leaves(program);
  std::map<std::int32_t, const EventValue*> constants;  // by number
  const auto add = [&](const std::string& name, std::int32_t rank, const EventValue& value) {
    model.parameters[rank].insert(name);
    const std::string key = value.elements.size() == 1 ? value_key(program, value, 0) : "";
    if (!key.empty()) model.by_value[key].push_back({name, rank});
  };
  for (const RecordedEvent& event : program.events) {
    if (event.kind == RecordedKind::kModule) {
      const std::string& path = module_of(program, event);
      model.classes[event.rank][path == event.name ? "" : without_wrapper(path)] = event.name;
    }
    if (event.kind == RecordedKind::kConstant) constants[event.out[0].id.id] = &event.out[0];
    const std::string leaf = leaves.of(event);
    const bool ends = !leaf.empty() && constants.contains(event.out[0].id.id);
    if (ends) add(leaf, event.rank, *constants.at(event.out[0].id.id));
    if (event.kind != RecordedKind::kInput || !event.requires_grad || event.name.empty()) continue;
    add(without_wrapper(event.name), event.rank, event.out[0]);
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

LeafNames::LeafNames(const RecordedProgram& program) {
  for (const RecordedEvent& event : program.events) {
    const auto number = leaf_number(event);
    if (number) numbers_[event.rank].insert(*number);
  }
}

std::string LeafNames::of(const RecordedEvent& check) const {
  const auto number = leaf_number(check);
  if (!number) return "";
  const std::set<std::int32_t>& all = numbers_.at(check.rank);
  return fmt::format("leaf[{} of {}]{}", std::distance(all.begin(), all.find(*number)) + 1,
                     all.size(), check.name.ends_with(".grad") ? ".grad" : "");
}

StageNames::StageNames(const RecordedProgram& a, const RecordedProgram& b) {
  if (a.ranks != 1 || b.ranks == 1) return;
  StageModel whole = model_of(a), stages = model_of(b);
  for (const RecordedEvent& event : b.events) {
    if (event.kind != RecordedKind::kInput || !event.requires_grad || event.name.empty()) continue;
    const EventValue& value = event.out[0];
    for (std::size_t rank = 0; event.rank < 0 && rank < value.elements.size(); ++rank) {
      const auto there = whole.by_value.find(value_key(b, value, rank));
      if (value.elements.size() != b.ranks || there == whole.by_value.end()) continue;
      shared_.resize(b.ranks);
      if (there->second.size() == 1)
        pair_names(without_wrapper(event.name), there->second[0].name, shared_[rank]);
    }
  }
  std::vector<Names> all(b.ranks);
  bool differ = false;
  for (const auto& [key, here] : stages.by_value) {
    const auto there = whole.by_value.find(key);
    if (there == whole.by_value.end()) continue;
    const bool one = there->second.size() == 1;
    for (std::size_t i = 0; (one || here.size() == there->second.size()) && i < here.size(); ++i) {
      const std::string& name = there->second[one ? 0 : i].name;
      if (here[i].rank < 0) {
        if (!here[i].name.starts_with("leaf[")) return;
        leaves_[here[i].name] = name;
        continue;
      }
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

std::map<std::string, std::vector<std::size_t>> StageNames::ranks_by_name(
    const std::string& name) const {
  std::map<std::string, std::vector<std::size_t>> all;
  for (std::size_t rank = 0; rank < shared_.size(); ++rank) {
    std::string own = name;
    for (std::string here = name; !here.empty(); here = parted(here).first) {
      const auto found = shared_[rank].find(here);
      if (found == shared_[rank].end()) continue;
      if (found->second) own = *found->second + name.substr(here.size());
      break;
    }
    all[own].push_back(rank);
  }
  if (all.size() < 2) all.clear();
  return all;
}

std::string StageNames::of(std::int32_t rank, const std::string& name) const {
  const auto leaf = leaves_.find(name.substr(0, name.find(".grad")));
  if (rank < 0 && leaf != leaves_.end()) return leaf->second + name.substr(leaf->first.size());
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
