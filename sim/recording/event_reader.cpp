// Each key has a row with its reader, each kind of event one with the keys that it needs. A number
// of a value that nothing has given, or an argument that does not fit, is found here.
#include "sim/recording/event_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/fix.h"

namespace shardlab {

const std::vector<KindRow>& event_kinds() {
  using enum RecordedKind;
  static const std::vector<KindRow> kRows = {
      {"input", kInput, {"name", "v", "dtype"}},
      {"const", kConstant, {"v", "dtype"}},
      {"alias", kAlias, {"of", "v", "dtype", "offset"}},
      {"call", kCall, {"c", "op", "args", "out"}},
      {"local_op", kOp, {"op", "args"}},
      {"op", kOp, {"op", "args"}},
      {"coll", kCollect, {"op", "args"}},
      {"redistribute", kRedistribute, {"in", "to", "out"}},
      {"redistribute_bwd", kRedistributeBack, {"in", "forward_from", "out"}},
      {"to_local", kToLocal, {"in", "out"}},
      {"to_local_bwd", kToLocalBack, {"in", "forward_from", "out"}},
      {"from_local", kFromLocal, {"in", "to", "out"}},
      {"from_local_bwd", kFromLocalBack, {"in", "forward_to", "out"}},
      {"wrap", kFromLocal, {"in", "out"}},
      {"unwrap", kToLocal, {"in", "out"}},
      {"module", kModule, {"m"}},
      {"function", kFunction, {"name"}},
      {"rule", kRule, {"f", "args", "out"}},
      {"backward", kBackward, {"of"}},
      {"gradients", kGradients, {"out"}},
      {"read", kRead, {"in", "out"}},
      {"check", kCheck, {"name", "v", "dtype"}},
      {"arrived", kArrived, {"v", "dtype"}},
      {"storage", kStorage, {"v", "bytes"}},
      {"wait", kOther, {}},
  };
  return kRows;
}

namespace {

bool is_move(RecordedKind kind) {
  return kind >= RecordedKind::kRedistribute && kind <= RecordedKind::kFromLocalBack;
}

// An event of one rank alone: its values are plain.
bool may_be_of_one_rank(const RecordedEvent& event) {
  using enum RecordedKind;
  constexpr RecordedKind kAlone[] = {kInput, kConstant, kAlias,  kCollect,
                                     kCheck, kArrived,  kStorage};
  return std::ranges::find(kAlone, event.kind) != std::end(kAlone) ||
         (event.kind == kOp && !event.distributed);
}

}  // namespace

void EventReader::refuse_key(const std::string& key, const Json& value, std::string_view wanted) {
  refuse_recorded(fmt::format("'{}' is {}, and not {}", key, value.dump(), wanted));
}

const std::unordered_map<std::string_view, EventReader::Field>& EventReader::fields() {
  using Event = RecordedEvent;
  using Reader = EventReader;
  static const std::unordered_map<std::string_view, Field> kFields = {
      {"no_grad", flag<&Event::no_grad>},
      {"random", flag<&Event::random>},
      {"ties", flag<&Event::ties>},
      {"recompute", flag<&Event::recomputed>},
      {"undefined", flag<&Event::undefined>},
      {"requires_grad", flag<&Event::requires_grad>},
      {"batch", flag<&Event::batch>},
      {"reentrant", flag<&Event::reentrant>},
      {"loss_parallel", flag<&Event::loss_parallel>},
      {"retain_graph", flag<&Event::retain_graph>},
      {"create_graph", flag<&Event::create_graph>},
      {"autocast", said<&Event::autocast>},
      {"by", said<&Event::by_library>},
      {"seq", said<&Event::in_sequence>},
      {"node", text<&Event::node>},
      {"name", text<&Event::name>},
      {"class", text<&Event::name>},
      {"op", text<&Event::op>},
      {"grads", numbers<&Event::gradients>},
      {"leaves", numbers<&Event::leaves>},
      {"detached", numbers<&Event::detached>},
      {"known", count<&Event::known>},
      {"f", count<&Event::function>},
      {"from", placements<&Event::from>},
      {"forward_from", placements<&Event::label>},
      {"forward_to", placements<&Event::label>},
      {"m", by<&Reader::read_module>},
      {"calls", by<&Reader::read_calls>},
      {"redist", by<&Reader::read_moves>},
      {"comm", by<&Reader::read_collectives>},
      {"p", by<&Reader::read_place>},
      {"pass", by<&Reader::read_pass>},
      {"at", by<&Reader::read_rank>},
      {"error", by<&Reader::read_error>},
      {"constant", by<&Reader::read_constant>},
      {"only", by<&Reader::read_wanted>},
      {"through", by<&Reader::read_through>},
      {"offset", by<&Reader::read_offsets>},
  };
  return kFields;
}

std::int32_t EventReader::taken(const Json& number) const {
  const auto v = integer_of<std::int32_t>(number);
  if (v < 0 || v >= std::ssize(given_) || !given_[static_cast<std::size_t>(v)]) {
    refuse_recorded(fmt::format("nothing has given value {}", v));
  }
  return v;
}

void EventReader::read_numbers(const std::string& key, const Json& list,
                               std::vector<std::int32_t>& numbers) {
  require_list(key, list);
  for (const Json& one : list) {
    const Json& number = one.is_object() ? one.at("v") : one;
    numbers.push_back(number.is_null() ? -1 : taken(number));
  }
}

void EventReader::read_module(const std::string& key, const Json& path) {
  if (!path.is_string()) refuse_key(key, path, "a text");
  const auto next = static_cast<std::int32_t>(program_.modules.size());
  const auto [known, fresh] = modules_.try_emplace(path.get<std::string>(), next);
  if (fresh) program_.modules.push_back(known->first);
  event_.module = known->second;
}

void EventReader::read_calls(const std::string& key, const Json& range) {
  if (!range.is_array() || range.size() != 2) {
    refuse_recorded(fmt::format("'{}' of a {} is the range of its calls", key,
                                event_.kind == RecordedKind::kModule ? "module" : "function"));
  }
  event_.first_call = natural(key, range.at(0));
  event_.end_call = natural(key, range.at(1));
}

void EventReader::read_moves(const std::string&, const Json& list) {
  for (const Json& move : list) {
    const Placements to = placements_of(move.at("to"));
    const bool masks = std::ranges::any_of(
        to, [](const Placement& one) { return one.kind == PlacementKind::kMaskPartial; });
    if (masks) continue;
    event_.moves.push_back(
        {integer_of<std::int64_t>(move.at("t")), placements_of(move.at("from")), to});
  }
}

void EventReader::read_place(const std::string& key, const Json& number) {
  if (natural(key, number) >= program_.places.size()) refuse_recorded("a place that is not there");
  event_.place = integer_of<std::int32_t>(number);
}

void EventReader::read_pass(const std::string& key, const Json& name) {
  using enum RecordedPass;
  if (!name.is_string()) refuse_key(key, name, "a text");
  event_.pass = name == "fwd"   ? kForward
                : name == "bwd" ? kBackward
                : name == "opt" ? kOptimizer
                                : kNone;
}

void EventReader::read_rank(const std::string& key, const Json& number) {
  if (natural(key, number) >= program_.ranks) refuse_recorded("a rank too many");
  event_.rank = integer_of<std::int32_t>(number);
}

void EventReader::read_constant(const std::string& key, const Json& flags) {
  require_list(key, flags);
  for (const Json& one : flags) event_.constant.push_back(one == true);
}

void EventReader::read_wanted(const std::string& key, const Json& list) {
  event_.only = true;
  read_numbers(key, list, event_.wanted);
}

void EventReader::read_through(const std::string& key, const Json& functions) {
  require_list(key, functions);
  for (const Json& one : functions) {
    if (!one.is_null() && !one.is_number_unsigned()) refuse_recorded("'through' has functions");
    event_.through.push_back(one.is_null() ? -1 : integer_of<std::int32_t>(one));
  }
}

void EventReader::read_offsets(const std::string& key, const Json& offset) {
  const Json ranks = offset.is_object() ? offset.value("ranks", Json()) : Json::array({offset});
  if (!ranks.is_array() || (ranks.size() != 1 && ranks.size() != program_.ranks)) {
    refuse_key(key, offset, "a count");
  }
  for (const Json& one : ranks) {
    natural(key, one);
    event_.offsets.push_back(integer_of<std::int64_t>(one));
  }
}

void EventReader::read_collectives(const std::string&, const Json& list) {
  for (const Json& one : list) {
    RecordedCollective collective{.kind = one.at("c").get<std::string>(), .dim = {}, .reduce = {}};
    if (one.contains("reduce")) collective.reduce = one.at("reduce").get<std::string>();
    if (one.contains("dim")) {
      collective.dim = integer_of<std::int64_t>(one.at("dim"));
    } else if (one.contains("g")) {
      const auto group = integer_of<std::size_t>(one.at("g"));
      if (group >= program_.groups.size()) refuse_recorded("a group that is not there");
      collective.dim = dim_along(program_.meshes[0].shape, program_.groups[group]);
    }
    event_.collectives.push_back(std::move(collective));
  }
}

EventValue EventReader::value(const Json& json) {
  EventValue value = recorded_value(json, program_);
  if (value.id.id >= 0) given_[static_cast<std::size_t>(value.id.id)] = true;
  return value;
}

void EventReader::read_call(const Json& json) {
  static const Json kNone = Json::object();
  const auto keywords = json.find("kwargs");
  if (keywords != json.end() && !keywords->is_object()) {
    refuse_key("kwargs", *keywords, "an object");
  }
  require_list("args", json.at("args"));
  arguments_.read(json.at("args"), keywords == json.end() ? kNone : *keywords, event_);
}

void EventReader::read_parts(const Json& json, const KindRow& row) {
  using enum RecordedKind;
  const RecordedKind kind = row.kind;
  const auto part = [&](const char* key) {
    const auto found = json.find(key);
    return found == json.end() ? nullptr : &*found;
  };
  if (const Json* of = part("of")) {
    if (kind == kAlias) event_.takes = {taken(*of)};
    if (kind == kBackward) read_numbers("of", *of, event_.takes);
    if (kind != kAlias && kind != kBackward) event_.of = natural("of", *of);
  }
  if (const Json* in = part("in")) {
    if (is_move(kind)) event_.takes = {taken(*in)};
    if (!is_move(kind)) read_numbers("in", *in, event_.takes);
  }
  if (const Json* call = part("c")) {
    if (kind == kModule) read_calls("c", *call);
    if (kind != kModule) event_.call = natural("c", *call);
  }
  if (const Json* to = part("to")) {
    event_.asks = kind == kBackward;
    if (kind == kBackward) read_numbers("to", *to, event_.wanted);
    if (kind != kBackward) placements<&RecordedEvent::label>(*this, "to", *to);
  }
  const bool by_number = kind == kModule || kind == kFunction || kind == kRule;
  if (const Json* args = part("args")) {
    if (by_number) event_.takes.clear();  // a function has its tensors in `in`, too
    by_number ? read_numbers("args", *args, event_.takes) : read_call(json);
    for (std::size_t i = 0; by_number && i < args->size(); ++i) {
      const Json& one = args->at(i);
      if (!one.is_object() || !one.contains("f")) continue;
      event_.marks.push_back({i, integer_of<std::int32_t>(one.at("f")), false});
    }
  }
  for (const auto& [key, values] : {std::pair{"out", &event_.out}, {"mut", &event_.written}}) {
    const Json* list = part(key);
    if (list == nullptr) continue;
    require_list(key, *list);
    if (by_number) {
      const auto number = [](const Json& one) { return one.is_null() || one.is_number(); };
      if (!std::ranges::all_of(*list, number)) refuse_key(key, *list, "numbers of values");
      read_numbers(key, *list, event_.gives);
    } else {
      for (const Json& one : *list) values->push_back(value(one));
    }
  }
  if (kind == kStorage || kind == kCheck || kind == kArrived) event_.takes = {taken(json.at("v"))};
  if (json.contains("v") && kind != kStorage) event_.out = {value(json)};
  if (row.name == "wrap" && !event_.out.empty()) event_.label = event_.out[0].type.placements;
}

void EventReader::check_function(const Json& json) const {
  if (!event_.function || event_.kind == RecordedKind::kRule) return;
  bool whole = true;
  for (const char* key : {"args", "calls", "known", "out", "constant"}) {
    whole = whole && json.contains(key);
  }
  if (!whole) refuse_recorded("event \"function\": args, out, known or calls are missing");
  if (event_.constant.size() != event_.gives.size()) {
    refuse_recorded("'constant' has a flag for each result in 'out'");
  }
}

void EventReader::check(const Json& json, const KindRow& row) const {
  if (!event_.op.empty()) {
    if (bare_op(event_.op).find_first_not_of('_') == std::string_view::npos) {
      refuse_recorded("'" + event_.op + "' is no name of an op");
    }
    const bool ends = json.contains("out") || json.contains("error");
    if (row.name == "local_op" && !ends) refuse_recorded(event_.op + " without 'out'");
  }
  if (event_.kind == RecordedKind::kFunction) check_function(json);
  if (is_move(event_.kind) && (event_.out.size() != 1 || event_.out[0].id.id < 0)) {
    refuse_recorded("'out' has one value");
  }
  if (is_recorded_message(event_)) {
    const auto* tensors = event_.args.empty()
                              ? nullptr
                              : std::get_if<std::vector<GraphArgument>>(&event_.args[0].value);
    const auto is_number = [&](std::size_t at) {
      const auto* number =
          at < event_.args.size() ? std::get_if<Scalar>(&event_.args[at].value) : nullptr;
      return number != nullptr && number->category() == Category::kInteger;
    };
    const bool one = tensors != nullptr && tensors->size() == 1 && is_number(2) && is_number(3) &&
                     std::holds_alternative<ValueRef>(tensors->front().value) && event_.group >= 0;
    if (!one || event_.rank < 0) {
      refuse_recorded("a send or receive without tensor, group, peer and tag");
    }
    const auto peer = std::get<Scalar>(event_.args[2].value).to_int();
    const auto& group = program_.groups[static_cast<std::size_t>(event_.group)].front();
    if (peer < 0 || peer >= std::ssize(group)) {
      refuse_recorded("a message to a rank that is not in the group");
    }
  }
  if (event_.rank < 0) return;
  if (!may_be_of_one_rank(event_))
    refuse_recorded(std::string(row.name) + " is no event of one rank");
  for (const auto* values : {&event_.out, &event_.written}) {
    for (const EventValue& one : *values) {
      if (!one.whole() && one.of_ranks.empty() && one.elements.size() <= 1) continue;
      refuse_recorded("an event of one rank with all of them");
    }
  }
}

RecordedEvent EventReader::read(const Json& json, const KindRow& row) {
  event_ = {.kind = row.kind};
  event_.distributed = row.name == "op";
  event_.described = json.contains("args") && json.contains("calls");
  for (const std::string_view key : row.keys) {
    if (!json.contains(key)) refuse_recorded(fmt::format("{} without '{}'", row.name, key));
  }
  for (const auto& [key, value] : json.items()) {
    const auto field = fields().find(key);
    if (field != fields().end()) field->second(*this, key, value);
  }
  read_parts(json, row);
  check(json, row);
  return std::move(event_);
}

}  // namespace shardlab
