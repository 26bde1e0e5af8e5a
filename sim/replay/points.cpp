// A call is named by its module, its op and how often both were met before, since numbers of calls
// differ where a library adds its own; an op of backward by the call that it belongs to.
#include "sim/replay/points.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "sim/replay/event_flow.h"
#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

bool takes_norms(const std::string& op) {
  const std::string_view bare = bare_op(op);
  return bare == "_foreach_norm" || bare == "linalg_vector_norm" || bare == "norm";
}

bool is_named(const RecordedEvent& event) {
  using enum RecordedKind;
  return event.kind == kInput || event.kind == kCheck ||
         (event.kind == kFromLocal && !event.name.empty());
}

PointPart part_of(const Dims& shape, DType dtype, std::vector<double> elements) {
  Fingerprint print(elements);
  return {shape, dtype, std::move(elements), print};
}

// The whole on the mesh that the rank's tensor lives on.
PointPart whole_of(const std::vector<DTensor>& values, std::size_t rank) {
  const DTensorSpec& spec = *values[rank].spec();
  std::vector<AssemblyFault> faults;
  const GlobalValue whole = assemble(spec, pieces_of(*spec.layout(), values), faults);
  return part_of(whole.meta.shape, whole.meta.dtype, in_reals(whole).reals);
}

}  // namespace

std::vector<PointPart> parts_of_value(const EventValues& given, std::int32_t number,
                                      const std::vector<std::size_t>& ranks) {
  std::vector<PointPart> parts;
  std::vector<DTensor> values;
  for (const std::size_t rank : ranks) {
    values.push_back(given.on(number, rank));
    if (!values.back().defined() || is_complex(values.back().dtype())) return {};
  }
  const DTensor& first = values.front();
  if (!first.distributed()) {
    for (const DTensor& value : values) {
      parts.push_back(part_of(value.local().shape(), value.dtype(), read_doubles(value.local())));
    }
    return parts;
  }
  if (values.size() != given.ranks()) return {};
  try {
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const MeshLayout& layout = *values[rank].spec()->layout();
      const auto before = static_cast<std::size_t>(layout.rank_at_index(0));
      parts.push_back(before < rank ? parts[before] : whole_of(values, rank));
      if (static_cast<std::size_t>(layout.size()) == values.size()) break;
    }
  } catch (const Error&) {
    return {};  // a mask, or pieces that make no whole
  }
  return parts;
}

constexpr std::string_view kLine = " at ";

bool is_key_by_line(const std::string& key) { return key.find(kLine) != std::string::npos; }

PointNames::PointNames(const RecordedProgram& program, bool by_rank, StageNames stages,
                       bool by_line)
    : program_(program), by_rank_(by_rank), leaves_(program), stages_(std::move(stages)) {
  for (const RecordedEvent& event : program.events) {
    const bool root = event.kind == RecordedKind::kModule && !event.name.empty() &&
                      event.name == module_of(program, event);
    if (root) roots_.insert(event.name);
  }
  std::map<std::pair<std::int32_t, std::size_t>, std::string> inside;  // functions, by calls
  for (const RecordedEvent& event : program.events) {
    if (event.kind != RecordedKind::kFunction) continue;
    for_each_name(event, [&](const auto&) {
      const std::string module = name_in(event, module_of(program, event));
      if (event.function) {
        functions_[{rank_of(event), *event.function}] = {
            counted(event, fmt::format("{}|{}", module, event.name)), module + ":" + event.name};
      }
    });
    for (std::size_t call = event.first_call; call < event.end_call; ++call)
      inside.try_emplace({event.rank, call}, ":" + event.name);
  }
  for (const RecordedEvent& event : program.events) {
    if (event.kind != RecordedKind::kCall || event.by_library || !event.call) continue;
    const std::string module = module_of(program, event);
    const std::string& of = inside[{event.rank, *event.call}];
    for_each_name(event, [&](const auto&) {
      std::string name = name_in(event, module) + of + "|" + event.op;
      if (by_line && module.empty()) name.append(kLine).append(place_of(program, event));
      calls_[{rank_of(event), *event.call}] = counted(event, name);
    });
  }
  counts_.clear();
}

// A wrapped model has the names of its own modules, and the outermost one none.
std::string PointNames::name_in(const RecordedEvent& event, const std::string& module) const {
  if (module.empty()) return "";
  return name_on_rank(event, roots_.contains(module) ? "" : without_wrapper(module));
}

std::string PointNames::name_on_rank(const RecordedEvent& event, const std::string& name) const {
  if (event.rank >= 0 || only_ < 0) return stages_.of(event.rank, name);
  const auto own = static_cast<std::size_t>(only_);
  for (const auto& [there, ranks] : stages_.ranks_by_name(name)) {
    if (std::ranges::count(ranks, own) > 0) return there;
  }
  return name;
}

// Calls visit(ranks) for all that have an event, or for those of each name.
template <typename Visit>
void PointNames::for_each_name(const RecordedEvent& event, const Visit& visit) {
  const std::string& name = is_named(event) ? event.name : module_of(program_, event);
  const auto names = stages_.ranks_by_name(event.rank < 0 ? own_name(name) : "");
  if (names.empty()) visit(ranks_meant(event.rank, program_.ranks));
  for (const auto& [there, ranks] : names) {
    only_ = static_cast<std::int32_t>(ranks[0]);
    visit(ranks);
  }
  only_ = -1;
}

// In the model, whatever is around it.
std::string PointNames::own_name(const std::string& name) const {
  std::string own = without_wrapper(name);
  for (const std::string& root : roots_) {
    if (own.starts_with(root + ".")) own.erase(0, root.size() + 1);
  }
  return own;
}

std::string PointNames::counted(const RecordedEvent& event, const std::string& name) {
  const std::size_t count = counts_[fmt::format("{}@{}", name, rank_of(event))]++;
  return fmt::format("{}|{}", name, count);
}

const RecordedEvent* PointNames::backward_of(std::int32_t rank) const {
  const auto last = backwards_.find(rank);
  return last == backwards_.end() ? nullptr : last->second;
}

// A gradient is looked at once more behind a hook that writes it, in the same backward.
std::size_t PointNames::looks_before(const RecordedEvent& event, const std::string& name) {
  return looks_[{rank_of(event), backward_of(event.rank), name}]++;
}

ComparedPoint PointNames::point_of(const RecordedEvent& event, std::string key,
                                   PointKind kind) const {
  ComparedPoint point{.key = std::move(key), .kind = kind};
  point.name = name_in(event, module_of(program_, event));
  point.op = event.op;
  point.place = place_of(program_, event);
  return point;
}

std::string PointNames::name_of(const RecordedEvent& event) const {
  const std::string leaf = leaves_.of(event);
  if (!leaf.empty()) return stages_.of(event.rank, leaf);
  return name_on_rank(event, own_name(event.name));
}

// Backward plays nothing itself: its first op takes the losses.
std::vector<std::int32_t> PointNames::losses_of(const RecordedEvent& event) {
  const RecordedEvent* backward = backward_of(event.rank);
  const bool seeds = event.kind == RecordedKind::kOp && event.pass != RecordedPass::kBackward &&
                     bare_op(event.op) == "ones_like";
  std::vector<std::int32_t> losses;
  if (!seeds || backward == nullptr) return losses;
  for_each_operand(event, [&](std::int32_t number) {
    if (std::ranges::count(backward->takes, number) > 0) losses.push_back(number);
  });
  return losses;
}

// Clipping hides a factor of all gradients, and no factor of some.
void PointNames::add_clipped(const RecordedEvent& event, std::vector<ComparedPoint>& points) {
  for_each_operand(event, [&](std::int32_t number) {
    const auto known = gradients_.find(number);
    if (known == gradients_.end()) return;
    points.push_back(point_of(event, counted(event, "clipped " + known->second), PointKind::kEnd));
    points.back().value = number;
    points.back().name = known->second;
  });
}

// An op of an optimizer by hand, or of backward; empty: of none of them.
std::string PointNames::op_name(const RecordedEvent& event) const {
  const bool step = event.pass == RecordedPass::kOptimizer;
  if (step && event.kind == RecordedKind::kOp && event.place >= 0 && !event.by_library)
    return "call :step|" + event.op;
  const bool back = event.pass == RecordedPass::kBackward && !event.op.empty();
  if (!back || event.recomputed || bare_op(event.op) == "detach") return "";
  const auto call = event.of ? calls_.find({rank_of(event), *event.of}) : calls_.end();
  if (call != calls_.end())
    return fmt::format("backward {}|{}|{}", call->second, event.node, event.op);
  const auto function =
      event.function ? functions_.find({rank_of(event), *event.function}) : functions_.end();
  if (function == functions_.end()) return "";
  return fmt::format("call {} backward|{}", function->second.second, event.op);
}

void PointNames::add_named(const RecordedEvent& event, std::vector<ComparedPoint>& points) {
  using enum RecordedKind;
  const auto add = [&](std::string key, PointKind kind, std::int32_t number) {
    if (number < 0) return;
    points.push_back(point_of(event, std::move(key), kind));
    points.back().value = number;
  };
  const auto add_results = [&](const std::string& key, PointKind kind) {
    // One of so many results: a list of pieces has others where another dim, or none, is cut.
    const std::size_t count = event.out.size();
    for (std::size_t i = 0; i < count; ++i) {
      const EventValue& value = event.out[i];
      const std::string of = count > 1 ? fmt::format(" of {}", count) : "";
      add(fmt::format("{}[{}{}]", key, i, of), kind, value.id.id);
      if (value.id.id < 0 || !value.whole()) continue;
      std::vector<std::string> held;
      for (const Placement& one : value.type.placements) held.push_back(to_string(one));
      points.back().held_as = text_of_list(held, ", ");
    }
  };
  const bool back = event.pass == RecordedPass::kBackward;
  const auto call = event.call ? calls_.find({rank_of(event), *event.call}) : calls_.end();
  const auto function =
      event.function ? functions_.find({rank_of(event), *event.function}) : functions_.end();
  const auto add_all = [&](const std::string& key, PointKind kind) {
    for (std::size_t i = 0; i < event.gives.size(); ++i)
      add(fmt::format("{}[{}]", key, i), kind, event.gives[i]);
  };
  if (is_named(event)) {
    const bool check = event.kind == kCheck;
    const char* prefix = !check ? "input " : back ? "gradient " : "end ";
    const PointKind kind = !check ? PointKind::kInput
                           : back ? PointKind::kGradient
                                  : PointKind::kEnd;
    const std::string name = name_of(event);
    const std::string marks(check && back ? looks_before(event, name) : 0, '+');
    add(counted(event, prefix + name + marks), kind, event.out[0].id.id);
    if (check && back) gradients_[event.out[0].id.id] = name;
    const RecordedEvent* backward = check && back ? backward_of(event.rank) : nullptr;
    for (ComparedPoint& point : points) {
      point.name = name;
      if (backward != nullptr) point.place = place_of(program_, *backward);
    }
  } else if (event.kind == kModule) {
    add_all(counted(event, "module " + name_in(event, module_of(program_, event))),
            PointKind::kResult);
  } else if (function != functions_.end() && event.kind == kFunction) {
    add_all("function " + function->second.first, PointKind::kResult);
  } else if (function != functions_.end() && event.kind == kRule) {
    add_all(counted(event, "gradients " + function->second.first), PointKind::kFlow);
  } else if (event.kind == kCall && call != calls_.end()) {
    add_results("call " + call->second, PointKind::kResult);
  } else if (!back && event.kind == kOp && takes_norms(event.op)) {
    add_clipped(event, points);
  } else if (const std::string of = op_name(event); !of.empty()) {
    add_results(counted(event, of), back ? PointKind::kFlow : PointKind::kResult);
  }
}

// A reduce leaves on ranks that are not its root what the library likes: no value of the program.
bool PointNames::is_undefined(const RecordedEvent& event, std::size_t rank) const {
  if (event.kind != RecordedKind::kCheck || program_.shapes_only) return false;
  const EventValue& value = event.out[0];
  const bool own = event.rank >= 0 && !value.whole() && value.prints.empty();
  return own || std::ranges::find(value.unwritten, rank) != value.unwritten.end();
}

std::vector<ComparedPoint> PointNames::named(std::size_t index) {
  const RecordedEvent& event = program_.events[index];
  std::vector<ComparedPoint> points;
  if (event.kind == RecordedKind::kBackward) backwards_[event.rank] = &event;
  for_each_name(event, [&](const std::vector<std::size_t>& ranks) {
    const std::size_t known = points.size();
    add_named(event, points);
    for (std::size_t i = known; i < points.size(); ++i) points[i].ranks = ranks;
  });
  for (const std::int32_t loss : losses_of(event)) {
    points.push_back(point_of(event, counted(event, "loss "), PointKind::kResult));
    points.back().value = loss;
    points.back().ranks = ranks_meant(event.rank, program_.ranks);
  }
  for (ComparedPoint& point : points) {
    point.event = index;
    point.line = event.line;
    if (by_rank_ && event.rank >= 0) point.key += fmt::format("@{}", event.rank);
    std::erase_if(point.ranks, [&](std::size_t rank) { return is_undefined(event, rank); });
    std::size_t tensors = 0;
    const auto take = [&](std::int32_t number) {
      ++tensors;
      if (reads(program_, event, number)) point.operands.push_back(number);
    };
    const bool looks = event.kind == RecordedKind::kCheck || event.kind == RecordedKind::kInput;
    if (!looks && point.kind != PointKind::kEnd) for_each_operand(event, point.ranks[0], take);
    point.by_number = tensors == 1 && event.args_of_ranks.empty();
  }
  std::erase_if(points, [](const ComparedPoint& point) { return point.ranks.empty(); });
  return points;
}

std::vector<ComparedPoint> PointNames::at(std::size_t index, const EventValues& values) {
  std::vector<ComparedPoint> points = named(index);
  for (ComparedPoint& point : points) {
    point.parts = parts_of_value(values, point.value, point.ranks);
  }
  return points;
}

PointsOfA points_of(const RecordedProgram& program, PointNames names, double& largest_gradient,
                    const OnPoints& on_points) {
  constexpr std::size_t kMostElements = std::size_t{1} << 26;
  PointsOfA all;
  std::size_t kept = 0;
  play_events(program, {}, [&](std::size_t index, const EventValues& values) {
    std::vector<ComparedPoint> points = names.at(index, values);
    if (on_points) on_points(index, points);
    for (ComparedPoint& point : points) {
      for (PointPart& part : point.parts) {
        if (point.kind == PointKind::kGradient) {
          largest_gradient = std::max(largest_gradient, largest_finite(part.elements));
        }
        kept += part.elements.size();
        if (kept > kMostElements) part.elements = {};
      }
      all.insert_or_assign(point.key, std::move(point.parts));
    }
  });
  return all;
}

bool is_gradient(const ComparedPoint& point) {
  return point.kind == PointKind::kFlow || point.kind == PointKind::kGradient;
}

bool is_stepped(const ComparedPoint& point) {
  return point.kind == PointKind::kEnd && !point.name.ends_with(".grad");
}

bool is_loss(const ComparedPoint& point) { return point.key.starts_with("loss "); }

ComparedPoint of_rank(const ComparedPoint& point, std::size_t i) {
  ComparedPoint own{.key = point.key, .kind = point.kind, .name = point.name};
  own.ranks = {point.ranks.at(i)};
  own.parts = {point.parts[i]};
  return own;
}

void leave_out(ComparedPoint& point, const std::function<bool(std::size_t i)>& is_out) {
  for (std::size_t i = point.ranks.size(); i-- > 0;) {
    if (!is_out(i)) continue;
    point.parts.erase(point.parts.begin() + static_cast<std::ptrdiff_t>(i));
    point.ranks.erase(point.ranks.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace shardlab
