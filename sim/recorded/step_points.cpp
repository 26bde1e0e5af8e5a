// A call is named by its module, its op and how often both were met before, since numbers of calls
// differ where a library adds its own; an op of backward by the call that it belongs to.
#include "sim/recorded/step_points.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/text_of_list.h"
#include "sim/verify/global_value.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

PointPart part_of(const Dims& shape, DType dtype, std::vector<double> elements) {
  StepPrint print(elements);
  return {shape, dtype, std::move(elements), print};
}

std::int64_t rank_of(const Json& event) { return integer_or<std::int64_t>(event, "at", -1); }

std::size_t call_of(const Json& event) { return integer_or<std::size_t>(event, "c", 0); }

bool by_library(const Json& event) { return event.contains("by"); }

}  // namespace

std::vector<PointPart> parts_of_value(const ProgramPlayer& player, std::size_t number,
                                      const std::vector<std::size_t>& ranks) {
  std::vector<PointPart> parts;
  std::vector<DTensor> values;
  for (const std::size_t rank : ranks) {
    values.push_back(player.value(number, rank));
    if (!values.back().defined() || is_complex(values.back().dtype())) return {};
  }
  const DTensor& first = values.front();
  if (!first.distributed()) {
    for (const DTensor& value : values) {
      parts.push_back(part_of(value.local().shape(), value.dtype(), read_doubles(value.local())));
    }
    return parts;
  }
  if (values.size() != player.ranks()) return {};
  std::vector<DTensor> pieces;
  const MeshLayout& layout = *first.spec()->layout();
  for (std::int64_t i = 0; i < layout.size(); ++i) {
    pieces.push_back(values.at(static_cast<std::size_t>(layout.rank_at_index(i))));
  }
  try {
    std::vector<AssemblyFault> faults;
    GlobalValue whole = assemble(*first.spec(), pieces, faults);
    if (whole.is_integral()) whole.reals.assign(whole.integers.begin(), whole.integers.end());
    parts.push_back(part_of(whole.meta.shape, whole.meta.dtype, std::move(whole.reals)));
  } catch (const Error&) {
    return {};  // a mask, or pieces that make no whole
  }
  return parts;
}

StepNames::StepNames(const StepRecording& recording, bool by_rank)
    : recording_(recording), by_rank_(by_rank) {
  for (const Json& event : recording.events) {
    if (event.at("k") != "module" || !event.contains("class")) continue;
    if (event.at("m") == event.at("class")) roots_[event.at("m").get<std::string>()] = true;
  }
  for (const Json& event : recording.events) {
    if (event.at("k") != "call" || by_library(event) || !event.contains("c")) continue;
    const auto number = integer_of<std::size_t>(event.at("c"));
    calls_[{rank_of(event), number}] =
        counted(event, name_in(module_of(event)) + "|" + event.at("op").get<std::string>());
  }
  counts_.clear();
}

// A wrapped model has the names of its own modules, and the outermost one none.
std::string StepNames::name_in(std::string module) const {
  if (roots_.contains(module)) return "";
  if (module.starts_with("module.")) module.erase(0, 7);
  return module;
}

std::string StepNames::counted(const Json& event, const std::string& name) {
  const std::size_t count = counts_[fmt::format("{}@{}", name, rank_of(event))]++;
  return fmt::format("{}|{}", name, count);
}

StepPoint StepNames::point_of(const Json& event, std::string key, PointKind kind,
                              const Json& value) const {
  StepPoint point{.key = std::move(key), .kind = kind};
  point.name = name_in(module_of(event));
  point.op = event.value("op", "");
  point.place = place_of(recording_, event);
  const Json& number = value.is_object() ? value.at("v") : value;
  point.value = integer_of<std::size_t>(number);
  const auto placed = value.is_object() ? value.find("placements") : value.end();
  if (value.is_object() && placed != value.end()) {
    point.held_as = text_of_list(placed->get<std::vector<std::string>>(), ", ");
  }
  return point;
}

std::vector<StepPoint> StepNames::at(std::size_t index, const ProgramPlayer& player) {
  const Json& event = recording_.events[index];
  const auto kind = event.at("k").get<std::string>();
  std::vector<StepPoint> points;
  const auto add_list = [&](const std::string& key, PointKind of, const char* list) {
    std::size_t i = 0;
    for (const Json& value : list_at(event, list)) {
      const bool known = value.is_number() || (value.is_object() && value.contains("v"));
      if (known) points.push_back(point_of(event, fmt::format("{}[{}]", key, i), of, value));
      ++i;
    }
  };
  if (kind == "input" || kind == "check" || (kind == "wrap" && event.contains("name"))) {
    std::string name = name_in(event.at("name").get<std::string>());
    for (const auto& [root, is] : roots_) {
      if (name.starts_with(root + ".")) name.erase(0, root.size() + 1);
    }
    const bool gradient = event.value("pass", "") == "bwd";
    const PointKind of = kind != "check" ? PointKind::kInput
                         : gradient      ? PointKind::kGradient
                                         : PointKind::kEnd;
    const char* prefix = kind != "check" ? "input " : gradient ? "gradient " : "end ";
    const Json& value = kind == "wrap" ? event.at("out").at(0) : event;
    points.push_back(point_of(event, counted(event, prefix + name), of, value));
    points.back().name = name;
  } else if (kind == "module") {
    add_list(counted(event, "module " + name_in(module_of(event))), PointKind::kResult, "out");
  } else if (kind == "call" && calls_.contains({rank_of(event), call_of(event)})) {
    add_list("call " + calls_.at({rank_of(event), call_of(event)}), PointKind::kResult, "out");
  } else if (event.value("pass", "") == "bwd" && event.contains("of") && event.contains("op") &&
             !event.contains("recompute") && event.at("op") != "aten.detach.default") {
    const auto call = calls_.find({rank_of(event), integer_of<std::size_t>(event.at("of"))});
    if (call != calls_.end()) {
      const std::string name = fmt::format("backward {}|{}|{}", call->second,
                                           event.value("node", ""), event.value("op", ""));
      add_list(counted(event, name), PointKind::kFlow, "out");
    }
  }
  for (StepPoint& point : points) {
    point.event = index + 1;
    if (by_rank_ && event.contains("at")) point.key += fmt::format("@{}", rank_of(event));
    if (event.contains("at")) {
      point.ranks = {integer_of<std::size_t>(event.at("at"))};
    } else {
      for (std::size_t rank = 0; rank < player.ranks(); ++rank) point.ranks.push_back(rank);
    }
    const auto take = [&](std::size_t number) { point.operands.push_back(number); };
    if (kind == "module") {
      for (const Json& number : list_at(event, "in")) take(integer_of<std::size_t>(number));
    } else if (kind != "check" && kind != "input") {
      for_each_taken(event, take);
    }
    point.parts = parts_of_value(player, point.value, point.ranks);
  }
  return points;
}

}  // namespace shardlab
