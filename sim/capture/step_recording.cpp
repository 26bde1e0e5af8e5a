// Each kind of event has a row with its required fields. An unknown number of a value, a range
// outside of the file or a shape that does not fit its bytes is found here, not by a kernel.
#include "sim/capture/step_recording.h"

#include <algorithm>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "base/error.h"
#include "base/fix.h"
#include "base/text_of_list.h"
#include "sim/capture/recorded_event.h"
#include "sim/capture/recorded_form.h"
#include "sim/capture/recorded_json.h"
#include "sim/capture/step_statement.h"
#include "sim/record/step_elements.h"
#include "sim/record/step_streams.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;

/// The keys of a kind of event, without "k".
struct KindRow {
  std::string_view kind;
  std::vector<std::string_view> keys;
  std::string_view unsupported;  ///< the reason for its refusal; empty: it is accepted
};

constexpr std::string_view kOneProcess =
    "record the program on one process and give it a mesh here: shardlab run FILE --mesh tp=4";

const std::vector<KindRow>& kinds() {
  static const std::vector<KindRow> kRows = {
      {"program", {"program", "torch"}, ""},
      {"place", {"p", "file", "line"}, ""},
      {"input", {"name", "v", "dtype"}, ""},
      {"const", {"v", "dtype"}, ""},
      {"alias", {"of", "v", "dtype", "offset"}, ""},
      {"module", {"m"}, ""},
      {"call", {"c", "op", "args", "out"}, ""},
      {"local_op", {"op", "args"}, ""},
      {"backward", {"of"}, ""},
      {"check", {"name", "v", "dtype"}, ""},
      {"function", {"name"}, ""},
      {"rule", {"f", "args", "out"}, ""},
      {"gradients", {"out"}, ""},
      {"end", {"events", "n_values", "raw"}, ""},
      {"mesh", {"mesh", "shape", "names", "ranks"}, ""},
      {"group", {"g", "ranks"}, ""},
      {"op", {"op", "args"}, ""},
      {"redistribute", {"in", "to", "out"}, ""},
      {"redistribute_bwd", {"in", "forward_from", "out"}, ""},
      {"to_local", {"in", "out"}, ""},
      {"to_local_bwd", {"in", "forward_from", "out"}, ""},
      {"from_local", {"in", "to", "out"}, ""},
      {"from_local_bwd", {"in", "forward_to", "out"}, ""},
      {"wrap", {"in", "out"}, ""},
      {"unwrap", {"in", "out"}, ""},
      {"coll", {"op", "args"}, ""},
      {"each", {"each"}, ""},
      {"wait", {}, ""},
      {"read", {"in", "out"}, ""},
      {"arrived", {"v", "dtype"}, ""},
      {"storage", {"v", "bytes"}, ""},
  };
  return kRows;
}

/// The type of a key, the same in every kind of event that has it.
struct KeyRow {
  std::string_view key;
  bool (Json::*is)() const noexcept;
  std::string_view what;
};

constexpr bool (Json::*kText)() const noexcept = &Json::is_string;
constexpr bool (Json::*kFlag)() const noexcept = &Json::is_boolean;
constexpr bool (Json::*kList)() const noexcept = &Json::is_array;
constexpr bool (Json::*kObject)() const noexcept = &Json::is_object;
constexpr bool (Json::*kCount)() const noexcept = &Json::is_number_unsigned;

constexpr KeyRow kKeys[] = {
    {"m", kText, "a text"},
    {"class", kText, "a text"},
    {"pass", kText, "a text"},
    {"node", kText, "a text"},
    {"op", kText, "a text"},
    {"name", kText, "a text"},
    {"program", kText, "a text"},
    {"torch", kText, "a text"},
    {"file", kText, "a text"},
    {"no_grad", kFlag, "a flag"},
    {"random", kFlag, "a flag"},
    {"undefined", kFlag, "a flag"},
    {"requires_grad", kFlag, "a flag"},
    {"batch", kFlag, "a flag"},
    {"local", kFlag, "a flag"},
    {"args", kList, "a list"},
    {"out", kList, "a list"},
    {"mut", kList, "a list"},
    {"grads", kList, "a list"},
    {"to", kList, "a list"},
    {"placements", kList, "a list"},
    {"detached", kList, "a list"},
    {"leaves", kList, "a list"},
    {"kwargs", kObject, "an object"},
    {"fill", kObject, "an object"},
    {"p", kCount, "a count"},
    {"v", kCount, "a count"},
    {"line", kCount, "a count"},
    {"offset", kCount, "a count"},
    {"at", kCount, "a count"},
    {"each", kList, "a list"},
    {"f", kCount, "a count"},
    {"constant", kList, "a list"},
    {"through", kList, "a list"},
    {"calls", kList, "a list"},
    {"retain_graph", kFlag, "a flag"},
    {"create_graph", kFlag, "a flag"},
    {"known", kCount, "a count"},
    {"taped", kFlag, "a flag"},
    {"ties", kFlag, "a flag"},
};

// Keys of an object with one text: {"dtype": "f32"}.
constexpr std::string_view kNamed[] = {"dtype",  "device", "layout", "memory_format",
                                       "object", "pg",     "reduce"};

bool nests_deeper(const Json& json, int most) {
  if (most == 0) return true;
  if (!json.is_structured()) return false;
  return std::ranges::any_of(json, [&](const Json& item) { return nests_deeper(item, most - 1); });
}

constexpr std::string_view kMoving[] = {
    "redistribute", "redistribute_bwd", "to_local", "to_local_bwd",
    "from_local",   "from_local_bwd",   "wrap",     "unwrap"};

[[noreturn]] void refuse_at(const StepRecording& recording, std::size_t at, std::string_view what) {
  std::string place = at < recording.events.size() && recording.events[at].is_object()
                          ? place_of(recording, recording.events[at])
                          : "";
  if (!place.empty()) place = " (" + place + ")";
  fail(ErrorKind::kValue, Fix{record_again()}, "{}: event {}{}: {}", recording.path, at + 1, place,
       what);
}

class StepReader {
 public:
  explicit StepReader(StepFile file) : file_(std::move(file)) {
    recording_.path = file_.path;
    recording_.raw = std::make_shared<const std::string>(std::move(file_.raw));
  }

  StepRecording read() {
    parse_lines();
    const Json& end = recording_.events.back();
    recording_.values = bounded(end.at("n_values"), 10'000'000);
    recording_.exported = recording_.events.front().value("exported", Json()) == true;
    given_.assign(recording_.values, false);
    guarded([&] { read_meshes(); });
    for (at_ = 0; at_ < recording_.events.size(); ++at_) {
      guarded([&] { check(recording_.events[at_]); });
    }
    refuse_unseen(end);
    guarded([&] {
      for (const Json& output : list_at(end, "outputs")) {
        taken(output.at("v"));
        recording_.outputs[output.at("v").get<std::size_t>()] = output.at("name");
      }
    });
    const Json failed = end.value("error", Json(""));
    if (failed.is_string()) recording_.program_error = failed.get<std::string>();
    return std::move(recording_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) {
    reported_ = true;
    refuse_at(recording_, at_, what);
  }

  template <typename Read>
  void guarded(const Read& read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUnsupported || reported_) throw;
      refuse(error.summary());
    } catch (const std::exception& error) {
      refuse(error.what());
    }
  }

  void parse_lines() {
    for (const std::string& line : file_.lines) add_event(read_json(line));
    for (Json& event : file_.events) add_event(std::move(event));
    const Json& end = recording_.events.back();
    if (end.at("k") != "end" || !end.contains("n_values")) refuse("the last line is not the end");
  }

  void add_event(Json event) {
    at_ = recording_.events.size();
    const bool whole = event.is_object() && event.contains("k") && event.at("k").is_string();
    if (!whole) refuse("not a line of a recording");
    if (nests_deeper(event, 12)) refuse("lists inside of lists, deeper than arguments are");
    recording_.events.push_back(std::move(event));
  }

  static std::size_t bounded(const Json& number, std::size_t most) {
    const auto value = integer_of<std::size_t>(number);
    if (value > most) fail(ErrorKind::kValue, "{} is more than {}", value, most);
    return value;
  }

  // Values are on meshes by number, collectives run over groups by number. The player knows both by
  // the names of dims of the mesh that holds all others.
  void read_meshes() {
    std::vector<std::int64_t> shape = {1};
    for (at_ = 0; at_ < recording_.events.size(); ++at_) {
      const Json& event = recording_.events[at_];
      if (event.at("k") == "program") {
        const Json values = event.value("values", Json("fp"));
        // The first recorders said true or false.
        recording_.shapes_only = values == "none" || values == false;
        shape = {integer_of<std::int64_t>(event.value("world", Json(1)))};
      }
      if (event.at("k") != "mesh") continue;
      check_row(event, "mesh");
      const auto number = integer_of<std::size_t>(event.at("mesh"));
      std::vector<std::string> names;
      const auto sizes = dims_of(event.at("shape"));
      for (std::size_t i = 0; i < sizes.size(); ++i) names.push_back(fmt::format("dim_{}", i));
      if (!event.at("names").empty()) names = event.at("names").get<std::vector<std::string>>();
      if (number == 0) {
        check_root(event, shape.at(0));
        shape.assign(sizes.begin(), sizes.end());
        names_ = names;
      }
      meshes_[number] = std::move(names);
    }
    recording_.mesh = {{"program", recording_.path},
                       {"backend", recording_.shapes_only ? "fake" : "local"},
                       {"values", true},
                       {"mesh", shape},
                       {"mesh_dim_names", names_},
                       {"n_values", recording_.values},
                       {"meshes", Json::array()},
                       {"groups", Json::array()}};
    for (const auto& [number, names] : meshes_) {
      if (number > 0) recording_.mesh["meshes"].push_back(names);
    }
    const RecordedForm& form = form_.emplace(recording_.mesh);
    recording_.ranks = static_cast<std::size_t>(form.ranks());
    at_ = 0;
  }

  // Ranks of a mesh are counted through row by row.
  void check_root(const Json& mesh, std::int64_t world) {
    const auto ranks = dims_of(mesh.at("ranks"));
    bool counted = std::ssize(ranks) == world;
    for (std::size_t i = 0; counted && i < ranks.size(); ++i) {
      counted = ranks[i] == static_cast<std::int64_t>(i);
    }
    if (counted) return;
    fail(ErrorKind::kUnsupported, Fix{"make one mesh of all ranks, in their order"},
         "{}: event {}: a mesh of ranks {} in a world of {}", recording_.path, at_ + 1,
         mesh.at("ranks").dump(), world);
  }

  // Replaces numbers of meshes and groups by their names.
  void lower(Json& event) {
    lower_mesh(event);
    for (const char* key : {"out", "mut"}) {
      if (!event.contains(key)) continue;
      for (Json& value : event.at(key)) {
        if (value.is_object()) lower_mesh(value);
      }
    }
    const Json kind = event.at("k");
    if (kind == "wrap") event["to"] = event.at("out").at(0).at("placements");
    if (kind == "wrap") event["k"] = "from_local";
    if (kind == "unwrap") event["k"] = "to_local";
    if (kind == "coll" && is_recorded_message(event)) return lower_message(event);
    if (kind == "coll") lower_groups(event);
    if (!event.contains("comm")) return;
    for (Json& collective : event.at("comm")) {
      if (collective.contains("dim") || !collective.contains("g")) continue;
      if (const auto dim = dim_of(groups_at(collective.at("g")))) collective["dim"] = *dim;
    }
  }

  // A group by the name of its dim; empty: all ranks; else by its ranks.
  void lower_groups(Json& event) {
    for (Json& argument : event.at("args")) {
      if (!argument.is_object() || !argument.contains("pg")) continue;
      const std::vector<Dims>& groups = groups_at(argument.at("pg"));
      if (const auto dim = dim_of(groups)) {
        argument["pg"] = names_.at(*dim);
        continue;
      }
      if (groups.size() == 1) {
        argument["pg"] = group_text(groups[0]);
        continue;
      }
      Json all = Json::array();
      for (const Dims& group : groups) all.push_back({{"pg", group_text(group)}});
      argument = {{"ranks", std::move(all)}};
    }
  }

  // Empty for all ranks in their order. The player makes the group.
  std::string group_text(const Dims& group) {
    bool counted = group.size() == recording_.ranks;
    for (std::size_t i = 0; counted && i < group.size(); ++i) {
      counted = group[i] == static_cast<std::int64_t>(i);
    }
    if (counted) return "";
    Json& known = recording_.mesh["groups"];
    if (std::ranges::find(known, Json(group)) == known.end()) known.push_back(group);
    return text_of_list(group, ",");
  }

  // The other rank of a message gets its number in the world.
  void lower_message(Json& event) {
    const Json& args = event.at("args");
    const bool one = args.size() >= 4 && args.at(0).is_array() && args.at(0).size() == 1 &&
                     args.at(0).at(0).is_object() && args.at(0).at(0).contains("v") &&
                     args.at(1).is_object() && args.at(1).contains("pg") && event.contains("at");
    if (!one) refuse("a message that says not who sends what");
    const Dims& group = groups_at(args.at(1).at("pg")).at(0);
    integer_of<std::int64_t>(args.at(3));
    const auto place = integer_of<std::size_t>(args.at(2));
    if (place >= group.size()) refuse("a message to a rank that is not in the group");
    event["peer"] = group[place];
    event["group"] = args.at(1).at("pg");
    event["args"][1] = nullptr;
  }

  const std::vector<Dims>& groups_at(const Json& number) {
    const auto found = groups_.find(integer_of<std::size_t>(number));
    if (found == groups_.end()) refuse("a group that is not there");
    return found->second;
  }

  void lower_mesh(Json& value) {
    if (!value.contains("on")) return;
    const auto found = meshes_.find(integer_of<std::size_t>(value.at("on")));
    if (found == meshes_.end()) refuse("a mesh that is not there");
    if (found->first > 0) value["mesh"] = found->second;
  }

  // The dim of the root along which all the groups are, if they are along one.
  std::optional<std::size_t> dim_of(const std::vector<Dims>& groups) const {
    const Dims shape = dims_of(recording_.mesh.at("mesh"));
    std::int64_t step = 1;
    for (std::size_t dim = shape.size(); dim-- > 0; step *= shape[dim]) {
      const auto along = [&](const Dims& ranks) {
        if (std::ssize(ranks) != shape[dim] || ranks[0] / step % shape[dim] != 0) return false;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
          if (ranks[i] != ranks[0] + static_cast<std::int64_t>(i) * step) return false;
        }
        return true;
      };
      if (std::ranges::all_of(groups, along)) return dim;
    }
    return std::nullopt;
  }

  void check_row(const Json& event, const std::string& kind) {
    const auto row = std::ranges::find(kinds(), kind, &KindRow::kind);
    for (const std::string_view key : row->keys) {
      if (!event.contains(key)) refuse(fmt::format("{} without '{}'", kind, key));
    }
  }

  void check(Json& event) {
    const auto kind = event.at("k").get<std::string>();
    const auto row = std::ranges::find(kinds(), kind, &KindRow::kind);
    if (row == kinds().end()) refuse("this shardlab knows no event '" + kind + "'");
    if (!row->unsupported.empty()) {
      const std::string place = place_of(recording_, event);
      fail(ErrorKind::kUnsupported, Fix{std::string(kOneProcess)},
           "{}: event {}{}: {} is not played yet", recording_.path, at_ + 1,
           place.empty() ? "" : " (" + place + ")", row->unsupported);
    }
    check_row(event, kind);
    check_keys(event);
    if (event.contains("at")) check_rank(event, kind);
    if (event.contains("p") && kind != "place") bounded_place(event.at("p"));
    if (kind == "program") {
      read_head(event);
    } else if (kind == "place") {
      read_place(event);
    } else if (kind == "group") {
      read_group(event);
    } else if (kind == "each") {
      check_each(event.at("each"));
    } else if (kind != "end" && kind != "mesh") {
      lower(event);
      check_values(event, kind);
    }
  }

  // The groups that the ranks are in under one number: one, or one of each rank.
  void read_group(const Json& event) {
    auto& groups = groups_[integer_of<std::size_t>(event.at("g"))];
    groups.clear();
    if (!event.contains("each")) {
      groups.push_back(group_of(event.at("ranks")));
      return;
    }
    if (!lists_ranks(event.at("each"))) refuse("'each' of a group has one of each rank");
    for (const Json& one : event.at("each")) groups.push_back(group_of(one));
  }

  Dims group_of(const Json& list) {
    const Dims ranks = dims_of(list);
    std::set<std::int64_t> seen;
    for (const std::int64_t rank : ranks) {
      const bool inside = rank >= 0 && rank < static_cast<std::int64_t>(recording_.ranks);
      if (!inside || !seen.insert(rank).second) refuse("a group of ranks that are not there");
    }
    if (ranks.empty()) refuse("a group without ranks");
    return ranks;
  }

  // One collective as the ranks that take part have it.
  void check_each(Json& all) {
    std::set<std::size_t> seen;
    for (Json& one : all) {
      const bool call = one.is_object() && one.value("k", Json()) == "coll" && one.contains("at");
      if (!call) refuse("'each' has collectives of one rank");
      check(one);
      if (!seen.insert(integer_of<std::size_t>(one.at("at"))).second) refuse("a rank twice");
    }
    if (all.empty()) refuse("a collective without ranks");
  }

  // An event of one rank alone: its values are plain.
  void check_rank(const Json& event, const std::string& kind) {
    constexpr std::string_view kAlone[] = {"input", "const", "alias",   "local_op",
                                           "coll",  "check", "arrived", "storage"};
    if (std::ranges::find(kAlone, kind) == std::end(kAlone)) {
      refuse(kind + " is no event of one rank");
    }
    if (integer_of<std::size_t>(event.at("at")) >= recording_.ranks) refuse("a rank too many");
    const auto plain = [&](const Json& value) {
      for (const char* key : {"placements", "shapes", "raw_ranks"}) {
        if (value.is_object() && value.contains(key))
          refuse("an event of one rank with all of them");
      }
    };
    plain(event);
    for (const char* key : {"out", "mut"}) {
      for (const Json& value : list_at(event, key)) plain(value);
    }
  }

  // A part of a batch that each rank has taken for itself.
  bool counts_of_ranks(const Json& value) const {
    const Json ranks = value.is_object() ? value.value("ranks", Json()) : Json();
    return lists_ranks(ranks) &&
           std::ranges::all_of(ranks, [](const Json& one) { return one.is_number_unsigned(); });
  }

  void check_keys(const Json& object) {
    static const auto kRows = [] {
      std::unordered_map<std::string_view, const KeyRow*> rows;
      for (const KeyRow& row : kKeys) rows.emplace(row.key, &row);
      return rows;
    }();
    for (const auto& [key, value] : object.items()) {
      const auto row = kRows.find(key);
      if (row == kRows.end() || (value.*row->second->is)()) continue;
      if (key == "offset" && counts_of_ranks(value)) continue;
      refuse(fmt::format("'{}' is {}, and not {}", key, value.dump(), row->second->what));
    }
  }

  void bounded_place(const Json& place) {
    if (integer_of<std::size_t>(place) >= recording_.places.size())
      refuse("a place that is not there");
  }

  void read_head(const Json& head) {
    recording_.title = head.at("program").get<std::string>();
    recording_.torch = head.at("torch").get<std::string>();
    const Json rank = head.value("rank", Json("all"));
    if (recording_.ranks > 1 && rank != "all" && !recording_.shapes_only) {
      fail(ErrorKind::kUnsupported, Fix{"put those of all ranks together: shardlab merge FILE..."},
           "{}: the recording of rank {} of {} alone", recording_.path, rank.dump(),
           recording_.ranks);
    }
  }

  void read_place(const Json& event) {
    if (integer_of<std::size_t>(event.at("p")) != recording_.places.size())
      refuse("places out of order");
    recording_.places.push_back(
        {event.at("file").get<std::string>(), integer_of<std::int64_t>(event.at("line"))});
  }

  void check_values(const Json& event, const std::string& kind) {
    if (kind == "call") recording_.has_calls = true;
    for (const char* key : {"args", "kwargs"}) {
      if (!event.contains(key)) continue;
      for (const Json& argument : event.at(key)) check_argument(argument);
    }
    if (kind == "call") integer_of<std::size_t>(event.at("c"));
    if (event.contains("op")) check_op(event);
    if (kind == "module") check_module(event);
    const bool moves = std::ranges::find(kMoving, kind) != std::end(kMoving);
    if (moves) taken(event.at("in"));
    for (const char* key : {"in", "detached", "leaves"}) {
      if (moves) break;
      const Json& numbers = list_at(event, key);
      if (!numbers.is_array()) refuse(fmt::format("'{}' is a list", key));
      for (const Json& number : numbers) taken(number);
    }
    if (kind == "backward") {
      if (!event.at("of").is_array()) refuse("'of' of a backward is a list");
      for (const char* key : {"of", "grads", "to", "only"}) {
        for (const Json& number : list_at(event, key)) {
          if (!number.is_null() || key[0] != 'g') taken(number);
        }
      }
    }
    if (kind == "function" || kind == "rule") check_function(event);
    for (const Json& one : list_at(event, "through")) {
      if (!one.is_null() && !one.is_number_unsigned()) refuse("'through' has functions");
    }
    if (kind == "alias") taken(event.at("of"));
    if (kind == "check" || kind == "arrived" || kind == "storage") taken(event.at("v"));
    const bool value = event.contains("v") && kind != "storage";
    if (value) check_value(event);
    for (const char* key : {"out", "mut"}) {
      if (kind == "module" || kind == "function" || kind == "rule") break;
      for (const Json& out : list_at(event, key)) {
        if (out.is_null() || out.contains("scalar")) continue;
        check_value(out);
      }
    }
    // Fields of DTensor events, which the player reads.
    if (kind == "op" || moves) form_->check(event);
  }

  void check_op(const Json& event) {
    const auto op = event.at("op").get<std::string>();
    if (bare_op(op).find_first_not_of('_') == std::string::npos) {
      refuse("'" + op + "' is no name of an op");
    }
    const bool ends = event.contains("out") || event.contains("error");
    if (event.at("k") == "local_op" && !ends) refuse(op + " without 'out'");
  }

  void taken(const Json& number) {
    const auto v = integer_of<std::size_t>(number);
    if (v >= given_.size() || !given_[v]) refuse(fmt::format("nothing has given value {}", v));
  }

  void check_module(const Json& event) {
    for (const Json& number : list_at(event, "out")) taken(number);
    if (!is_range(event.value("c", Json()))) refuse("'c' of a module is the range of its calls");
  }

  static bool is_range(const Json& calls) {
    return calls.is_array() && calls.size() == 2 && calls.at(0).is_number_unsigned() &&
           calls.at(1).is_number_unsigned();
  }

  // An autograd.Function, or its backward. Older recorders wrote numbers.
  void check_function(const Json& event) {
    if (event.contains("calls") && !is_range(event.at("calls"))) {
      refuse("'calls' of a function is the range of its calls");
    }
    for (const Json& value : list_at(event, "args")) {
      if (!value.is_null()) taken(value.at("v"));
    }
    for (const Json& number : list_at(event, "out")) {
      if (!number.is_null()) taken(number);
    }
    if (!event.contains("f") || event.at("k") == "rule") return;
    bool whole = true;
    for (const char* key : {"args", "calls", "known", "out", "constant"}) {
      whole = whole && event.contains(key);
    }
    if (!whole || event.at("constant").size() != event.at("out").size()) {
      refuse("a function without all that is known of one");
    }
  }

  // {"v": 3}, {"f": "inf"}, {"dtype": "f32"}, {"complex": [0, 1]}, numbers, texts, lists of them.
  void check_argument(const Json& argument) {
    if (argument.is_array()) {
      for (const Json& item : argument) check_argument(item);
      return;
    }
    if (!argument.is_object()) return;
    const bool marked = argument.contains("f") || argument.contains("taped");
    if (argument.contains("v") && marked) {
      check_keys(argument);
      return taken(argument.at("v"));
    }
    if (argument.size() == 1) {
      const std::string& key = argument.begin().key();
      const Json& value = argument.begin().value();
      if (key == "v") return taken(value);
      if (key == "f" && value.is_string()) return static_cast<void>(number_of(value));
      if (key == "dtype") return static_cast<void>(dtype_of(value));
      if (std::ranges::find(kNamed, key) != std::end(kNamed) && value.is_string()) return;
      if (key == "ranks" && value.is_array() && value.size() == recording_.ranks) {
        for (const Json& own : value) check_argument(own);
        return;
      }
      const bool parts = key == "complex" && value.is_array() && value.size() == 2;
      if (parts) {
        for (const Json& part : value) number_of(part);
        return;
      }
    }
    refuse(argument.dump() + " is no argument");
  }

  void check_value(const Json& value) {
    const auto v = integer_of<std::size_t>(value.at("v"));
    if (v >= given_.size()) refuse(fmt::format("value {} of {}", v, given_.size()));
    given_[v] = true;
    const bool labelled = value.contains("placements");
    if (value.contains("shapes") && (labelled || !lists_ranks(value.at("shapes")))) {
      refuse("'shapes' are those of a plain value on each rank");
    }
    const TensorMeta meta = recorded_meta(value);
    if (value.contains("shapes")) {
      for (std::size_t rank = 1; rank < recording_.ranks; ++rank) recorded_meta(value, rank);
    }
    check_keys(value);
    if (labelled) check_label(value);
    if (value.contains("raw")) check_raw(value.at("raw"), labelled ? nullptr : &meta);
    if (value.contains("raw_ranks")) {
      if (!lists_ranks(value.at("raw_ranks"))) refuse("'raw_ranks' has elements of each rank");
      for (const Json& raw : value.at("raw_ranks")) check_raw(raw, nullptr);
    }
    if (value.contains("fill")) check_fill(value.at("fill"), meta.dtype);
    if (value.contains("fp")) check_print(value.at("fp"));
  }

  bool lists_ranks(const Json& list) const {
    return list.is_array() && list.size() == recording_.ranks;
  }

  void check_label(const Json& value) {
    Json check = {{"k", "check"}, {"name", ""}};
    for (const char* key : {"v", "shape", "dtype", "placements", "mesh"}) {
      if (value.contains(key)) check[key] = value.at(key);
    }
    form_->check(check);
  }

  void check_print(const Json& print) {
    if (print.is_object()) {
      const Json all = print.value("ranks", Json());
      if (!lists_ranks(all)) refuse("'ranks' of a fingerprint has one of each rank");
      for (const Json& one : all) {
        if (!one.is_array()) refuse("a fingerprint is two numbers");
        check_print(one);
      }
      return;
    }
    if (!print.is_array() || print.size() != 2) refuse("a fingerprint is two numbers");
    for (const Json& sum : print) number_of(sum);
  }

  void check_fill(const Json& fill, DType dtype) {
    const auto seed = integer_of<std::int64_t>(fill.at("seed"));
    if (seed < 0 || seed > 1'000'000) refuse("the seed of a formula");
    if (is_integral(dtype) && dtype != DType::kBool) {
      if (integer_of<std::int64_t>(fill.at("mod")) <= 0) refuse("'mod' of a formula");
    } else if (dtype != DType::kBool) {
      const bool numbers = fill.at("bias").is_number() && fill.at("scale").is_number();
      if (!numbers) refuse("a formula's bias and scale are numbers");
    }
  }

  // The number of elements of a piece is checked when it is laid out.
  void check_raw(const Json& raw, const TensorMeta* meta) {
    if (raw.is_object()) return static_cast<void>(number_of(raw.at("all")));
    if (!raw.is_array() || raw.size() != 2) refuse("'raw' is where elements begin, and bytes");
    const auto from = integer_of<std::size_t>(raw.at(0)),
               bytes = integer_of<std::size_t>(raw.at(1));
    const std::size_t held = recording_.raw->size();
    if (from > held || bytes > held - from) {
      refuse(fmt::format("elements at {} to {} of {} bytes", from, from + bytes, held));
    }
    if (meta == nullptr) return;
    const auto wanted = static_cast<std::size_t>(product(meta->shape) * item_bytes(meta->dtype));
    if (bytes != wanted) refuse(fmt::format("{} bytes of elements where {} belong", bytes, wanted));
  }

  // Compiled regions, transforms of torch.func: the calls in the file are not the program.
  void refuse_unseen(const Json& end) const {
    const Json refused = end.value("refused", Json::object());
    if (!refused.is_object() || refused.empty()) return;
    const auto first = refused.begin();
    const Json& found = first.value();
    std::string place = found.is_array() && found.size() > 1 ? found.at(1).dump() : "";
    std::erase(place, '"');
    fail(ErrorKind::kUnsupported, Fix{"take it out of the step that is recorded"},
         "{}: the recorder could not see {}{}, so the file is not the program", recording_.path,
         first.key(), place.empty() ? "" : " at " + place);
  }

  StepFile file_;
  StepRecording recording_;
  std::vector<bool> given_;                   // by number of a value: an earlier event has made it
  std::vector<std::string> names_ = {"all"};  // of the root's dims
  std::map<std::size_t, std::vector<std::string>> meshes_;  // by number, the names of their dims
  std::map<std::size_t, std::vector<Dims>> groups_;  // by number, the ranks of rank 0's, or all
  std::optional<RecordedForm> form_;
  std::size_t at_ = 0;
  bool reported_ = false;
};

}  // namespace

StepRecording read_step(const std::string& path, const ExportOptions& options) {
  return read_step(read_step_file(path, options));
}

StepRecording read_step(StepFile file) { return StepReader(std::move(file)).read(); }

void refuse_event(const StepRecording& recording, const Json* event, std::string_view what) {
  if (event == nullptr) {
    fail(ErrorKind::kValue, Fix{record_again()}, "{}: {}", recording.path, what);
  }
  refuse_at(recording, static_cast<std::size_t>(event - recording.events.data()), what);
}

std::string module_of(const Json& event) {
  const auto found = event.find("m");
  return found != event.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string place_of(const StepRecording& recording, const Json& event) {
  std::string text = module_of(event);
  const auto place = event.find("p");
  if (place == event.end() || !place->is_number_unsigned()) return text;
  const auto number = place->get<std::size_t>();
  if (event.at("k") == "place" || number >= recording.places.size()) return text;
  const RecordedPlace& line = recording.places[number];
  return fmt::format("{}{}{}:{}", text, text.empty() ? "" : "  ", line.file, line.line);
}

TensorMeta recorded_meta(const Json& value, std::size_t rank) {
  const auto shapes = value.find("shapes");
  const Json& shape = shapes == value.end() ? value.at("shape") : shapes->at(rank);
  TensorMeta meta = {dims_of(shape), {}, dtype_of(value.at("dtype"))};
  std::int64_t bytes = item_bytes(meta.dtype);
  for (const std::int64_t size : meta.shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes) ||
        bytes > kMostBytes) {
      fail(ErrorKind::kValue, "{} is no shape", shape.dump());
    }
  }
  meta.stride =
      value.contains("stride") ? dims_of(value.at("stride")) : contiguous_strides(meta.shape);
  bool fits = meta.stride.size() == meta.shape.size();
  for (const std::int64_t step : meta.stride) fits = fits && step >= 0 && step <= kMostBytes;
  if (!fits) fail(ErrorKind::kValue, "{} are no strides", value.at("stride").dump());
  return meta;
}

Tensor recorded_tensor(Device& device, const StepRecording& recording, const Json& value,
                       std::size_t rank, const TensorMeta& meta) {
  Tensor tensor = empty(device, meta);
  if (device.shape_only()) return tensor;
  const std::int64_t count = tensor.numel();
  Json own = {{"v", value.at("v")}};
  for (const char* key : {"raw", "fill"}) {
    if (value.contains(key)) own[key] = value.at(key);
  }
  if (value.contains("raw_ranks")) own["raw"] = value.at("raw_ranks").at(rank);
  if (const auto raw = own.find("raw"); raw != own.end() && raw->is_array()) {
    if (integer_of<std::int64_t>(raw->at(1)) != count * item_bytes(meta.dtype)) {
      fail(ErrorKind::kValue, Fix{record_again()},
           "{}: value {} has {} bytes on rank {}, whose piece has {} elements", recording.path,
           value.at("v").dump(), raw->at(1).dump(), rank, count);
    }
    const auto bytes = std::string_view(*recording.raw).substr(raw->at(0).get<std::size_t>());
    device.write(tensor, bytes.data());
    return tensor;
  }
  if (value.value("undefined", false)) return tensor;
  const auto elements = step_elements(*recording.raw, own, tensor.dtype(), count);
  if (!elements) {
    fail(ErrorKind::kValue, Fix{"record it with a larger data_limit"},
         "{}: the elements of value {} are not in the file", recording.path, value.at("v").dump());
  }
  if (is_integral(tensor.dtype())) {
    std::vector<std::int64_t> integers;
    for (const Scalar& element : *elements) integers.push_back(element.to_int());
    write_integers(tensor, integers);
  } else {
    std::vector<double> reals;
    for (const Scalar& element : *elements) {
      reals.push_back(element.to_double());
      if (is_complex(tensor.dtype())) reals.push_back(element.imaginary());
    }
    write_doubles(tensor, reals);
  }
  return tensor;
}

}  // namespace shardlab
