// An event becomes one node, or several of which the last gives its results. Each rank has nodes of
// its own for an event whose arguments differ by rank.
#include "sim/replay/played_graph.h"

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.h"
#include "mesh/placement_dims.h"
#include "redistribute/redistribute.h"
#include "schema/op_row.h"
#include "sim/replay/library_nodes.h"
#include "trace/graph_meshes.h"

namespace shardlab {

namespace {

// Makes nodes of events. Knows values as the last event gave them, and groups as parts of meshes.
class EventNodes {
 protected:
  explicit EventNodes(const RecordedProgram& program)
      : program_(program),
        values_(static_cast<std::size_t>(program.values)),
        meshes_(program.meshes, 0, arena_) {
    graph_.title = program.title;
    graph_.file = program.path;
    graph_.world = static_cast<std::int64_t>(program.ranks);
    graph_.meshes = program.meshes;
    graph_.values = program.values;
    played_.missing.assign(program.events.size(), false);
  }

  GraphNode& node(NodeKind kind, std::int32_t rank) {
    GraphNode& node = graph_.nodes.emplace_back();
    node.kind = kind;
    node.taped = false;  // a recorded gradient is a call like any other
    node.rank = rank;
    played_.event_of.push_back(event_);
    return node;
  }

  std::int32_t fresh() { return graph_.values++; }

  static GraphArgument value(std::int32_t number) { return {ValueRef{number}}; }

  void look(const RecordedEvent& event, const std::vector<std::int32_t>& numbers) {
    GraphNode& one = node(NodeKind::kLook, event.rank);
    for (const std::int32_t number : numbers) {
      if (number >= 0) one.args.push_back(value(number));
    }
  }

  const EventValue& value_of(std::int32_t number) const {
    static const EventValue kNone;
    const EventValue* given = values_.at(static_cast<std::size_t>(number));
    return given == nullptr ? kNone : *given;
  }
  const ValueType& type_of(std::int32_t number) const { return value_of(number).type; }

  // One, or that of each rank. None: the call has no group.
  std::vector<GraphGroup> groups_of(const RecordedEvent& event) {
    if (event.group < 0) return {};
    const RecordedGroup& ranks = program_.groups[static_cast<std::size_t>(event.group)];
    const auto is_first = [&](const auto& one) { return first_with(one) == event.group; };
    const auto dim = dim_along(program_.meshes[0].shape, ranks);
    if (dim && std::ranges::all_of(ranks, is_first)) return {{.mesh = 0, .dims = {*dim}}};
    std::vector<GraphGroup> groups;
    for (const std::vector<std::int64_t>& one : ranks) {
      groups.push_back(group_of(one, is_first(one) ? 0 : event.group));
    }
    return groups;
  }

  // Meshes have the communicators of the first groups with their ranks. Others have their own.
  std::int32_t first_with(const std::vector<std::int64_t>& ranks) const {
    const auto found = std::ranges::find_if(program_.groups, [&](const RecordedGroup& group) {
      return std::ranges::find(group, ranks) != group.end();
    });
    return static_cast<std::int32_t>(found - program_.groups.begin());
  }

  // `number`: 0 of the first one with these ranks.
  GraphGroup group_of(const std::vector<std::int64_t>& ranks, std::int32_t number) {
    bool all = std::ssize(ranks) == graph_.world && number == 0;
    for (std::size_t i = 0; all && i < ranks.size(); ++i) {
      all = ranks[i] == static_cast<std::int64_t>(i);
    }
    if (all) return {};
    const auto next = static_cast<std::int32_t>(graph_.meshes.size());
    const auto [known, fresh] = own_groups_.try_emplace({number, ranks}, next);
    if (fresh) {
      graph_.meshes.push_back({.names = {number == 0 ? "group" : fmt::format("group_{}", number)},
                               .shape = {static_cast<std::int64_t>(ranks.size())},
                               .ranks = ranks,
                               .part = {}});
    }
    return {.mesh = known->second, .dims = {0}};
  }

  const RecordedProgram& program_;
  std::vector<const EventValue*> values_;  // by number, as the last event gave it
  Arena arena_;
  GraphMeshes meshes_;
  ProgramGraph graph_;
  PlayedGraph played_;
  std::size_t event_ = 0;
  // Numbers of meshes, by number and ranks of groups.
  std::map<std::pair<std::int32_t, std::vector<std::int64_t>>, std::int32_t> own_groups_;
};

// Messages, and the works of each rank, which it waits for where a value is needed.
class Works : protected EventNodes {
 protected:
  explicit Works(const RecordedProgram& program)
      : EventNodes(program), works_(program.ranks), exchanges_(program.ranks) {
    match_messages();
    match_collectives();
    find_overlaps();
  }

  // The k-th message from one rank to another, by tag and group, belongs to the k-th receive.
  void match_messages() {
    std::map<MessageRoute, std::array<std::deque<std::size_t>, 2>> open;
    for (std::size_t i = 0; i < program_.events.size(); ++i) {
      const RecordedEvent& event = program_.events[i];
      if (!is_recorded_message(event)) continue;
      const bool sends = is_recorded_send(event);
      const MessageRoute route = route_of(program_, event);
      std::deque<std::size_t>& theirs = open[route][sends ? 1 : 0];
      if (theirs.empty()) {
        open[route][sends ? 0 : 1].push_back(i);
        continue;
      }
      const std::size_t other = theirs.front();
      theirs.pop_front();
      sends ? played_.messages.emplace(other, i) : played_.messages.emplace(i, other);
    }
    for (const auto& [route, sides] : open) {
      for (const auto& side : sides) played_.alone.insert(side.begin(), side.end());
    }
  }

  // The k-th collective of a group is one on all of its ranks.
  void match_collectives() {
    std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> counts;
    std::map<std::pair<std::int32_t, std::size_t>, std::vector<std::size_t>> met;
    for (std::size_t i = 0; i < program_.events.size(); ++i) {
      const RecordedEvent& event = program_.events[i];
      const bool own = event.kind == RecordedKind::kCollect && event.rank >= 0;
      if (!own || is_recorded_message(event)) continue;
      std::vector<std::size_t>& here = met[{event.group, counts[{event.group, event.rank}]++}];
      here.push_back(i);
      played_.meetings[i] = here[0];
    }
    for (const auto& [key, here] : met) {
      const auto group = static_cast<std::size_t>(std::max(key.first, 0));
      if (key.first < 0 || here.size() >= program_.groups[group][0].size()) continue;
      for (const std::size_t i : here) played_.missing[i] = !program_.events[i].out.empty();
      played_.alone.insert(here.begin(), here.end());
    }
  }

  // A send of a copy, since the program waits for it where it will; a receive that is waited for
  // where its value is looked at.
  void add_message(const RecordedEvent& event) {
    const std::int32_t x = value_of_message(event);
    const bool sends = is_recorded_send(event);
    std::int32_t moved = x;
    if (sends) {
      moved = fresh();
      GraphNode& copy = node(NodeKind::kOp, event.rank);
      copy.name = "aten::clone";
      copy.args = {value(x), {std::string("contiguous_format")}};
      copy.results = {{ValueRef{moved}, {}}};
    }
    GraphNode& message = node(NodeKind::kCollective, event.rank);
    message.name = to_string(sends ? CollectiveKind::kSend : CollectiveKind::kRecv);
    message.in_place = message.async = true;
    message.args = {{std::vector<GraphArgument>{}}, {std::vector<GraphArgument>{}}};
    message.args[sends ? 0 : 1] = {std::vector<GraphArgument>{value(moved)}};
    message.group = groups_of(event).at(0);
    message.source = number_at(event.args, 2);
    message.tag = *number_at(event.args, 3);
    std::vector<Pending>& works = works_[static_cast<std::size_t>(event.rank)];
    message.work = static_cast<std::int32_t>(works.size());
    works.push_back({.event = event_, .values = {}, .over = false});
    if (!sends) works.back().values = {x};
  }

  // Collectives of one rank that are waited for behind another one: ranks may have several
  // groups' in different orders. Those that are waited for at once need no work.
  void find_overlaps() {
    for (std::size_t i = 0; i < program_.events.size(); ++i) {
      const RecordedEvent& event = program_.events[i];
      if (event.rank < 0) continue;
      std::vector<std::size_t>& own = exchanges_[static_cast<std::size_t>(event.rank)];
      if (event.kind == RecordedKind::kCollect) own.push_back(i);
      const bool waits = event.kind == RecordedKind::kOther && event.of;
      if (!waits || *event.of + 1 >= own.size()) continue;
      const RecordedEvent& begun = program_.events[own[*event.of]];
      const bool fills = begun.op.starts_with("c10d.") && !is_recorded_message(begun);
      if (fills) overlapped_.insert(own[*event.of]);
    }
  }

  // The collectives among the event's nodes, from `begin` on.
  void begin_works(const RecordedEvent& event, std::size_t begin) {
    std::vector<std::int32_t> values;
    for_each_given(event, [&](const EventValue& one) { values.push_back(one.id.id); });
    std::vector<Pending>& works = works_[static_cast<std::size_t>(event.rank)];
    for (std::size_t i = begin; i < graph_.nodes.size(); ++i) {
      GraphNode& one = graph_.nodes[i];
      if (one.kind != NodeKind::kCollective) continue;
      one.async = true;
      one.work = static_cast<std::int32_t>(works.size());
      works.push_back({.event = event_, .values = values, .over = false});
    }
  }

  // PyTorch may have had a buffer for a message: here its send is waited for at the end.
  void wait_as_recorded(const RecordedEvent& event) {
    if (event.rank < 0 || !event.of) return;
    const auto& exchanges = exchanges_[static_cast<std::size_t>(event.rank)];
    if (*event.of >= exchanges.size()) return;
    add_waits(event.rank, [&](const Pending& one) {
      const bool sent = one.values.empty();
      return !sent && one.event == exchanges[*event.of];
    });
  }

  // Those of a rank's works that are not over, and that `is_meant` names.
  void add_waits(std::int32_t rank, const auto& is_meant) {
    std::vector<Pending>& works = works_[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (works[i].over || !is_meant(works[i])) continue;
      works[i].over = true;
      node(NodeKind::kWait, rank).work = static_cast<std::int32_t>(i);
    }
  }

  void wait_for_operands(const RecordedEvent& event) {
    if (event.rank < 0 || works_[static_cast<std::size_t>(event.rank)].empty()) return;
    std::set<std::int32_t> taken;
    for_each_operand(event, static_cast<std::size_t>(event.rank),
                     [&](std::int32_t number) { taken.insert(number); });
    add_waits(event.rank, [&](const Pending& one) {
      return std::ranges::any_of(one.values, [&](std::int32_t v) { return taken.contains(v); });
    });
  }

  void wait_for_all() {
    event_ = program_.events.size();
    for (std::size_t rank = 0; rank < works_.size(); ++rank) {
      add_waits(static_cast<std::int32_t>(rank), [](const Pending&) { return true; });
    }
  }

  struct Pending {
    std::size_t event = 0;
    std::vector<std::int32_t> values;  // filled by it
    bool over = false;
  };
  std::vector<std::vector<Pending>> works_;          // by rank
  std::vector<std::vector<std::size_t>> exchanges_;  // by rank, events
  std::set<std::size_t> overlapped_;                 // events that others overlap
};

class Lowering : Works {
 public:
  Lowering(const RecordedProgram& program, Looks looks, const std::vector<PlayedEdit>& edits)
      : Works(program), looks_(looks), edits_(edits) {}

  PlayedGraph lower() {
    for (event_ = 0; event_ < program_.events.size(); ++event_) {
      const RecordedEvent& event = program_.events[event_];
      add(event);
      for_each_given(event, [&](const EventValue& one) {
        values_[static_cast<std::size_t>(one.id.id)] = &one;
      });
      for (const PlayedEdit& edit : edits_) {
        if (edit.event == event_) change(edit);
      }
      played_.end_of.push_back(graph_.nodes.size());
    }
    wait_for_all();
    played_.graph = std::move(graph_);
    return std::move(played_);
  }

 private:
  static void give(const RecordedEvent& event, GraphNode& one) {
    for (const EventValue& out : event.out) one.results.push_back({out.id, out.type});
  }

  void add(const RecordedEvent& event) {
    using enum RecordedKind;
    wait_for_operands(event);
    switch (event.kind) {
      case kInput:
      case kConstant:
        return give(event, node(NodeKind::kInput, event.rank));
      case kAlias: {
        GraphNode& view = node(NodeKind::kDetach, event.rank);
        view.args = {value(event.takes[0])};
        return give(event, view);
      }
      case kOfRanks: {
        GraphNode& own = node(NodeKind::kDetach, event.rank);
        for_each_operand(event, [&](std::int32_t number) { own.args.push_back(value(number)); });
        return give(event, own);
      }
      case kCheck:
      case kArrived:
        return look(event, {event.out[0].id.id});
      case kCall:
        if (program_.exported) return add_call(event);
        if (looks_ == Looks::kAll) look_at_call(event);
        return;
      case kTyped:
      case kModule:
        if (looks_ != Looks::kAll) return;
        look(event, event.takes);
        if (event.kind == kModule) look(event, event.gives);
        return;
      case kOther:
        return wait_as_recorded(event);
      default:
        if (played_.alone.contains(event_)) return look_at_call(event);
        if (is_recorded_message(event)) return add_message(event);
        if (is_played(program_, event)) add_call(event);
    }
  }

  void look_at_given(const RecordedEvent& event, std::int32_t rank) {
    GraphNode& one = node(NodeKind::kLook, rank);
    for_each_given(event, [&](const EventValue& given) { one.args.push_back(value(given.id.id)); });
  }

  void look_at_call(const RecordedEvent& event) {
    std::vector<std::int32_t> numbers;
    for_each_operand(event, 0, [&](std::int32_t number) { numbers.push_back(number); });
    for (const EventValue& one : event.out) numbers.push_back(one.id.id);
    look(event, numbers);
  }

  void add_call(const RecordedEvent& event) {
    if (is_move(event.kind)) return add_move(event);
    const bool library = event.row == nullptr && is_library_call(event.op);
    if (!library && (event.row == nullptr || !event.row->runs())) {
      played_.missing[event_] = true;
      return look_at_call(event);
    }
    if (!event.misfit.empty()) return look_at_call(event);
    const std::vector<GraphGroup> groups = groups_of(event);
    const bool apart = library && (has_place(event.op) || differ(event));
    if (event.args_of_ranks.empty() && groups.size() <= 1 && !apart) {
      const GraphGroup group = groups.empty() ? GraphGroup{} : groups[0];
      return add_for(event, event.rank, event.args, group);
    }
    for (std::size_t rank = 0; rank < program_.ranks; ++rank) {
      const auto number = static_cast<std::int32_t>(rank);
      if (event.rank >= 0 && event.rank != number) continue;
      const GraphGroup group =
          groups.empty() ? GraphGroup{} : groups[groups.size() == 1 ? 0 : rank];
      add_for(event, number, event.args_on(rank), group);
    }
  }

  static std::int64_t place_in(const GraphMesh* mesh, const GraphGroup& group, std::int64_t rank) {
    if (mesh == nullptr) return rank;
    std::int64_t inside = 1;
    for (std::size_t dim = mesh->shape.size(); --dim > static_cast<std::size_t>(group.dims[0]);) {
      inside *= mesh->shape[dim];
    }
    const auto at = std::ranges::find(mesh->ranks, rank) - mesh->ranks.begin();
    const std::int64_t first = mesh->ranks.empty() ? rank : static_cast<std::int64_t>(at);
    return first / inside % mesh->shape[static_cast<std::size_t>(group.dims[0])];
  }

  // Operands have another shape or other strides on other ranks.
  bool differ(const RecordedEvent& event) const {
    bool any = false;
    for_each_operand(event, [&](std::int32_t v) { any = any || !value_of(v).of_ranks.empty(); });
    return any;
  }

  void add_for(const RecordedEvent& event, std::int32_t rank,
               const std::vector<GraphArgument>& args, const GraphGroup& group) {
    if (event.row == nullptr) {
      const GraphMesh* mesh =
          group.mesh < 0 ? nullptr : &graph_.meshes[static_cast<std::size_t>(group.mesh)];
      const std::int64_t ranks =
          mesh == nullptr ? graph_.world : mesh->shape[static_cast<std::size_t>(group.dims[0])];
      const std::size_t begin = graph_.nodes.size();
      add_library_nodes(
          {.event = event,
           .args = args,
           .group = group,
           .ranks = ranks,
           .place = place_in(mesh, group, rank),
           .type_of = [&](std::int32_t number) -> ValueType {
             const EventValue& given = value_of(number);
             if (rank < 0 || given.of_ranks.empty()) return given.type;
             return plain_type(given.meta(static_cast<std::size_t>(rank)));
           },
           .fresh = [&] { return fresh(); },
           .add = [&](NodeKind kind) -> GraphNode& { return node(kind, rank); },
           .reaches_behind = [&] { played_.unknown[played_.meeting(event_)] = event_; }});
      if (overlapped_.contains(event_)) begin_works(event, begin);
      // Its values are needed behind its last node.
      if (graph_.nodes.size() > begin + 1) look_at_given(event, rank);
      return;
    }
    GraphNode& call = node(NodeKind::kOp, rank);
    call.name = event.row->op.name();
    call.args = args;
    give(event, call);
  }

  // Moves.

  GraphNode& move(NodeKind kind, std::int32_t x, ValueType target, std::int32_t result) {
    GraphNode& one = node(kind, program_.events[event_].rank);
    one.args = {value(x)};
    one.results = {{ValueRef{result}, {}}};
    one.target = std::move(target);
    return one;
  }

  static ValueType placed(ValueType type, Placements placements) {
    type.placements = std::move(placements);
    type.order = default_order(type.placements);
    return type;
  }

  // The placements that a gradient has behind a backward, where the value had `forward` before.
  ValueType gradient_type(const ValueType& gradient, const Placements& forward) {
    const DTensorSpec* spec = meshes_.spec_of(gradient);
    const DTensorSpec* target = gradient_target(spec, spec->with(forward));
    ValueType type = gradient;
    type.placements = target->placements();
    type.order = target->order();
    return type;
  }

  void add_move(const RecordedEvent& event) {
    const std::int32_t x = event.takes[0], result = event.out[0].id.id;
    const ValueType& from = type_of(x);
    using enum RecordedKind;
    const bool labels = event.kind == kFromLocal || event.kind == kToLocalBack;
    if ((from.mesh >= 0) == labels) {
      refuse_event(program_, event,
                   fmt::format("'in' of {} has to be a {} tensor", to_string(event.kind),
                               labels ? "plain" : "distributed"));
    }
    if (labels) {
      ValueType target = event.out[0].type;
      require_dims(event, target.placements, event.label);
      move(NodeKind::kFromLocal, x, placed(target, event.label), result);
    } else if (event.kind == kToLocal) {
      to_local(x, from, result);
    } else {
      require_dims(event, from.placements, event.label);
      const bool back = event.kind != kRedistribute;
      ValueType target = back ? gradient_type(from, event.label) : placed(from, event.label);
      if (event.kind != kFromLocalBack) return redistribute(x, target, result, back);
      target = placed(target, without_partials(target.placements));
      const std::int32_t moved = fresh();
      redistribute(x, target, moved, back);
      to_local(moved, target, result);
    }
  }

  void require_dims(const RecordedEvent& event, const Placements& has, const Placements& label) {
    if (label.size() == has.size()) return;
    refuse_event(program_, event,
                 fmt::format("{} placements on a mesh of {} dims", label.size(), has.size()));
  }

  // A handle of its own, also where nothing moves.
  void redistribute(std::int32_t x, const ValueType& target, std::int32_t result, bool back) {
    const std::int32_t moved = fresh();
    move(NodeKind::kRedistribute, x, target, moved).back = back;
    GraphNode& apart = node(NodeKind::kDetach, program_.events[event_].rank);
    apart.args = {value(moved)};
    apart.results = {{ValueRef{result}, {}}};
  }

  // Below autograd the placements of its gradient do not matter.
  void to_local(std::int32_t x, const ValueType& from, std::int32_t result) {
    move(NodeKind::kToLocal, x, placed(from, without_partials(from.placements)), result);
  }

  GraphNode& edit_node(NodeKind kind, std::int32_t rank, std::string name, std::int32_t x) {
    played_.edits.insert(graph_.nodes.size());
    GraphNode& one = node(kind, rank);
    one.name = std::move(name);
    one.args = {value(x)};
    return one;
  }

  void regroup(const PlayedEdit& edit) {
    const auto dim = dim_along(program_.meshes[0].shape, edit.groups);
    const bool alone = edit.groups[0].size() == 1;
    const auto mesh = static_cast<std::int32_t>(alone ? graph_.meshes.size() : 0);
    if (alone) graph_.meshes.push_back({{"all", "alone"}, {graph_.world, 1}});
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      GraphNode& one = graph_.nodes[i];
      if (played_.event_of[i] != event_ || one.kind != NodeKind::kCollective) continue;
      if (one.rank < 0 && (dim || alone)) one.group = {mesh, {alone ? 1 : *dim}};
      for (const std::vector<std::int64_t>& group : edit.groups) {
        const bool own = std::ranges::find(group, one.rank) != group.end();
        if (own || (one.rank < 0 && edit.groups.size() == 1)) one.group = group_of(group, 0);
      }
    }
  }

  void change(const PlayedEdit& edit) {
    if (edit.instead) return regroup(edit);
    const std::int32_t rank = program_.events[event_].rank;
    for (std::size_t i = 0; edit.groups.empty() && edit.op && i < graph_.nodes.size(); ++i) {
      if (played_.event_of[i] == event_) graph_.nodes[i].op = *edit.op;
    }
    for (const std::vector<std::int64_t>& group : edit.groups) {
      for (const std::int64_t member : group) {
        if (rank >= 0 && member != rank) continue;  // it has an event of its own
        GraphNode& sum = edit_node(NodeKind::kCollective, static_cast<std::int32_t>(member),
                                   "all_reduce", edit.value);
        sum.in_place = true;
        sum.op = edit.op.value_or(ReduceOp::kSum);
        sum.args = {{std::vector{value(edit.value)}}, {std::vector{value(edit.value)}}};
        sum.group = group_of(group, 0);
      }
    }
    if (!edit.less.empty()) {
      const std::int32_t less = fresh();
      const ValueType& type = type_of(edit.value);
      Dims shape;
      for (std::size_t dim = type.shape.size(); dim-- > 0;) {
        if (product(shape) == static_cast<std::int64_t>(edit.less.size())) break;
        shape.insert(0, type.shape[dim]);
      }
      GraphNode& constant = edit_node(NodeKind::kConstant, rank, "", edit.value);
      constant.args.clear();
      constant.results = {{ValueRef{less}, plain_type(contiguous_meta(shape, type.dtype))}};
      std::vector<Scalar>& data = constant.data.emplace_back();
      for (const double one : edit.less) data.emplace_back(one);
      GraphNode& sub = edit_node(NodeKind::kOp, rank, "aten::sub_.Tensor", edit.value);
      sub.args.push_back(value(less));
      sub.args.push_back({Scalar(edit.times)});
    }
    if (edit.factor == 1) return;
    edit_node(NodeKind::kOp, rank, "aten::mul_.Scalar", edit.value)
        .args.push_back({Scalar(edit.factor)});
  }

  const Looks looks_;
  const std::vector<PlayedEdit>& edits_;
};

}  // namespace

bool PlayedGraph::last_on(std::size_t node, std::int32_t rank) const {
  if (event_of[node] == end_of.size()) return false;
  for (std::size_t later = node + 1; later < end_of[event_of[node]]; ++later) {
    const std::int32_t only = graph.nodes[later].rank;
    if (only < 0 || only == rank) return false;
  }
  return true;
}

MessageRoute route_of(const RecordedProgram& program, const RecordedEvent& event) {
  const auto& group = program.groups[static_cast<std::size_t>(event.group)].front();
  const bool sends = is_recorded_send(event);
  const std::int64_t own = event.rank,
                     peer = group[static_cast<std::size_t>(*number_at(event.args, 2))];
  return {sends ? own : peer, sends ? peer : own, *number_at(event.args, 3), event.group};
}

PlayedGraph played_graph(const RecordedProgram& program, Looks looks,
                         const std::vector<PlayedEdit>& edits) {
  return Lowering(program, looks, edits).lower();
}

bool of_loss_parallel(const RecordedEvent& event) {
  if (!event.distributed || !event.loss_parallel) return false;
  constexpr std::string_view kOps[] = {"_log_softmax", "nll_loss_forward", "nll_loss_backward",
                                       "_log_softmax_backward_data"};
  return std::ranges::find(kOps, bare_op(event.op)) != std::end(kOps);
}

bool is_played(const RecordedProgram& program, const RecordedEvent& event) {
  using enum RecordedKind;
  return event.kind == kOp || event.kind == kCollect || is_move(event.kind) ||
         (event.kind == kCall && program.exported);
}

}  // namespace shardlab
