// Each key has a row with its reader, each kind of event one with the keys that it needs. A number
// of a value that nothing has given, or an argument that does not fit, is found here.
#include "sim/recording/event_reader.h"

#include <algorithm>
#include <set>

#include "base/error.h"

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
      {"typed", kTyped, {"call", "args", "types"}},
      {"wait", kOther, {}},
  };
  return kRows;
}

namespace {

// Keys whose readers take {"ranks": [...]}.
const std::set<std::string_view> kOfEachRank = {"grads", "leaves", "detached", "only", "offset"};

// An event of one rank alone: its values are plain.
bool may_be_of_one_rank(const RecordedEvent& event) {
  using enum RecordedKind;
  constexpr RecordedKind kAlone[] = {kInput,   kConstant, kAlias, kCollect, kCheck,
                                     kArrived, kStorage,  kTyped, kOther,   kCall,
                                     kModule,  kBackward, kRule,  kFunction};
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
      {"joins", flag<&Event::joins>},
      {"any", flag<&Event::any>},
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
      {"call", text<&Event::name>},
      {"label", text<&Event::name>},
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
      {"error", by<&Reader::read_error>},
      {"constant", by<&Reader::read_constant>},
      {"only", by<&Reader::read_wanted>},
      {"through", by<&Reader::read_through>},
      {"offset", by<&Reader::read_offsets>},
      {"checkpoint", by<&Reader::read_checkpoint>},
      {"types", by<&Reader::read_types>},
  };
  return kFields;
}

std::int32_t EventReader::taken_on(const Json& number, std::size_t rank) const {
  if (number.is_null()) return -1;
  const Json& own = number.is_object() ? number.at("v") : number;
  const auto v = integer_of<std::int32_t>(is_of_ranks(own) ? of_rank(own, rank) : own);
  const auto renamed = numbers_.find(v);
  const std::int32_t here = renamed == numbers_.end() ? v : renamed->second[rank];
  if (!is_given(here)) {
    refuse_recorded(fmt::format("nothing has given value {}", v));
  }
  return here;
}

std::int32_t EventReader::taken(const Json& number, std::int32_t rank) {
  const bool of_ranks = is_of_ranks(number);
  if (of_ranks) require_ranks(number, program_.ranks);
  if (rank < 0) rank = event_.rank;
  if (rank >= 0) {
    const auto own = static_cast<std::size_t>(rank);
    return taken_on(of_ranks ? of_rank(number, own) : number, own);
  }
  if (!of_ranks && numbers_.empty() && !number.is_object()) return taken_on(number, 0);
  std::vector<std::int32_t> numbers;
  for (std::size_t own = 0; own < program_.ranks; ++own) {
    numbers.push_back(taken_on(of_ranks ? of_rank(number, own) : number, own));
  }
  return chosen(numbers);
}

std::int32_t EventReader::chosen(const std::vector<std::int32_t>& of_ranks) {
  const std::int32_t first = of_ranks[0];
  if (std::ranges::all_of(of_ranks, [&](std::int32_t one) { return one == first; })) return first;
  const auto [known, fresh] = chosen_.try_emplace(of_ranks, program_.values);
  if (!fresh) return known->second;
  RecordedEvent choice{.kind = RecordedKind::kOfRanks, .place = event_.place};
  choice.takes = of_ranks;
  const auto some = std::ranges::find_if(of_ranks, [](std::int32_t one) { return one >= 0; });
  EventValue& value = choice.out.emplace_back();
  value.type = types_.at(*some).type;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    const EventValue& own = types_.at(of_ranks[rank] < 0 ? *some : of_ranks[rank]);
    if (own.whole() != value.whole()) refuse_recorded("a DTensor on some of the ranks");
    value.of_ranks.push_back(own.meta(rank));
  }
  const TensorMeta& one = value.of_ranks[0];
  const bool alike = std::ranges::all_of(value.of_ranks, [&](const TensorMeta& own) {
    return own.shape == one.shape && own.stride == one.stride && own.dtype == one.dtype;
  });
  if (value.whole() || alike) value.of_ranks.clear();
  value.id.id = program_.values++;
  given_.push_back(true);
  types_[value.id.id] = value;
  program_.events.push_back(std::move(choice));
  return known->second;
}

std::int32_t EventReader::number_on(const Json& number, std::size_t rank) const {
  const auto own = integer_of<std::int32_t>(of_rank(number, rank));
  if (own < 0 || own >= std::ssize(given_)) refuse_recorded("a value that is not there");
  return own;
}

std::int32_t EventReader::made(const Json& number) {
  std::int32_t result = -1;
  if (!is_of_ranks(number)) {
    result = integer_of<std::int32_t>(number);
    if (result < 0 || result >= std::ssize(given_)) {
      refuse_recorded(fmt::format("value {} of {}", result, given_.size()));
    }
    numbers_.erase(result);
    given_[static_cast<std::size_t>(result)] = true;
    return result;
  }
  require_ranks(number, program_.ranks);
  result = program_.values++;
  for (std::size_t rank = 0; rank < program_.ranks; ++rank) {
    const std::int32_t own = number_on(number, rank);
    numbers_.try_emplace(own, program_.ranks, own).first->second[rank] = result;
  }
  given_.push_back(true);
  return result;
}

void EventReader::take_as_given(const Json& number, const EventValue& value) {
  require_ranks(number, program_.ranks);
  for (std::size_t rank = 0; rank < program_.ranks; ++rank) {
    const std::int32_t own = number_on(number, rank);
    const auto renamed = numbers_.find(own);
    const std::int32_t here = renamed == numbers_.end() ? own : renamed->second[rank];
    if (is_given(here)) continue;
    given_[static_cast<std::size_t>(here)] = true;
    types_[here] = {.id = ValueRef{here}, .type = value.type, .of_ranks = value.of_ranks};
  }
}

void EventReader::take_list(const std::string& key, const Json& list, std::int32_t rank,
                            std::vector<std::int32_t>& numbers) {
  if (list.is_null()) return;
  require_list(key, list);
  for (const Json& one : list) numbers.push_back(taken(one, rank));
}

// Lists of several lengths are put together.
void EventReader::read_numbers(const std::string& key, const Json& list,
                               std::vector<std::int32_t>& numbers) {
  if (!is_of_ranks(list)) return take_list(key, list, -1, numbers);
  require_ranks(list, program_.ranks);
  for (std::size_t rank = 0; rank < program_.ranks; ++rank) {
    take_list(key, of_rank(list, rank), static_cast<std::int32_t>(rank), numbers);
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

void EventReader::read_checkpoint(const std::string& key, const Json& place) {
  const bool fits = place.is_array() && place.size() == 3 &&
                    std::ranges::all_of(place, [](const Json& part) { return part.is_string(); });
  const bool given = event_.kind == RecordedKind::kInput || event_.kind == RecordedKind::kConstant;
  if (!fits || !given) refuse_key(key, place, "path, name and sha256 of an input's tensor");
  event_.checkpoint = place.get<std::vector<std::string>>();
}

void EventReader::read_types(const std::string& key, const Json& list) {
  require_list(key, list);
  for (const Json& one : list) {
    RecordedType type{.dim = one.at("dim").get<std::string>(), .of = {}, .type = {}};
    for (const Json& part : one.at("of")) {
      type.of.emplace_back(integer_of<std::int64_t>(part.at(0)),
                           integer_of<std::int64_t>(part.at(1)));
      const auto& [size, stride] = type.of.back();
      if (size < 1 || stride < 1) refuse_recorded("a mesh dim has sizes and strides of 1 or more");
    }
    const auto said = parse_spmd_type(one.value("type", "V"));
    if (!said) refuse_key(key, one, "R, I, V, P or S(dim)");
    type.type = *said;
    type.order = integer_or<std::int64_t>(one, "order", 0);
    event_.types.push_back(std::move(type));
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

EventValue EventReader::value(const Json& json, Role role) {
  EventValue value = recorded_value(json, program_);
  if (json.is_null() || !json.contains("v")) return value;
  const Json& number = json.at("v");
  if (role != Role::kMade && is_of_ranks(number)) take_as_given(number, value);
  const bool known = is_of_ranks(number) || is_given(integer_of<std::int32_t>(number));
  value.id.id = role == Role::kMade || !known ? made(number) : taken(number);
  if (program_.ranks > 1) {
    types_[value.id.id] = {.id = value.id, .type = value.type, .of_ranks = value.of_ranks};
  }
  return value;
}

void EventReader::read_call(const Json& json) {
  static const Json kNone = Json::object();
  const auto keywords = json.find("kwargs");
  if (keywords != json.end() && !keywords->is_object()) {
    refuse_key("kwargs", *keywords, "an object");
  }
  if (!is_of_ranks(json.at("args"))) require_list("args", json.at("args"));
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
    if (kind != kAlias && kind != kBackward) event_.of = natural("of", of_first_rank(*of));
  }
  if (const Json* in = part("in")) {
    if (is_move(kind)) event_.takes = {taken(*in)};
    if (!is_move(kind)) read_numbers("in", *in, event_.takes);
  }
  if (const Json* call = part("c")) {
    if (kind == kModule) read_calls("c", of_first_rank(*call));
    if (kind != kModule) event_.call = natural("c", of_first_rank(*call));
  }
  if (const Json* to = part("to")) {
    event_.asks = kind == kBackward;
    if (kind == kBackward) read_numbers("to", *to, event_.wanted);
    if (kind != kBackward) placements<&RecordedEvent::label>(*this, "to", *to);
  }
  const bool by_number = kind == kModule || kind == kFunction || kind == kRule || kind == kTyped;
  if (const Json* args = part("args")) {
    if (by_number) event_.takes.clear();  // a function has its tensors in `in`, too
    by_number ? read_numbers("args", *args, event_.takes) : read_call(json);
    for (std::size_t i = 0; by_number && args->is_array() && i < args->size(); ++i) {
      const Json& one = args->at(i);
      if (!one.is_object() || !one.contains("f")) continue;
      event_.marks.push_back({i, integer_of<std::int32_t>(one.at("f")), false});
    }
  }
  // Others look at what these have made.
  const bool makes = kind == kOp || kind == kCollect || kind == kInput || kind == kConstant ||
                     kind == kAlias || is_move(kind);
  for (const auto& [key, values] : {std::pair{"out", &event_.out}, {"mut", &event_.written}}) {
    const Json* list = part(key);
    if (list == nullptr) continue;
    require_list(key, *list);
    if (by_number) {
      const auto number = [](const Json& one) {
        return one.is_null() || one.is_number() || is_of_ranks(one);
      };
      if (!std::ranges::all_of(*list, number)) refuse_key(key, *list, "numbers of values");
      read_numbers(key, *list, event_.gives);
    } else {
      const Role role = makes && values == &event_.out ? Role::kMade : Role::kTaken;
      for (const Json& one : *list) values->push_back(value(one, role));
    }
  }
  if (kind == kStorage || kind == kCheck || kind == kArrived) event_.takes = {taken(json.at("v"))};
  if (json.contains("v") && kind != kStorage) {
    event_.out = {value(json, makes ? Role::kMade : Role::kTaken)};
  }
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
    const auto peer = number_at(event_.args, 2);
    const bool one = tensors != nullptr && tensors->size() == 1 && peer &&
                     number_at(event_.args, 3) &&
                     std::holds_alternative<ValueRef>(tensors->front().value) && event_.group >= 0;
    if (!one || event_.rank < 0) {
      refuse_recorded("a send or receive without tensor, group, peer and tag");
    }
    const auto& group = program_.groups[static_cast<std::size_t>(event_.group)].front();
    if (*peer < 0 || *peer >= std::ssize(group)) {
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
  chosen_.clear();
  if (const auto at = json.find("at"); at != json.end()) read_rank("at", *at);
  for (const auto& [key, value] : json.items()) {
    const auto field = fields().find(key);
    if (field == fields().end()) continue;
    field->second(*this, key, kOfEachRank.contains(key) ? value : of_first_rank(value));
  }
  read_parts(json, row);
  check(json, row);
  return std::move(event_);
}

}  // namespace shardlab
