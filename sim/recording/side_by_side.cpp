// Numbers of values, places and groups are those of one process: here each gets a number of all.
#include "sim/recording/side_by_side.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"

namespace shardlab {

namespace {

// A group is known by its ranks, since their own numbers of it differ.
struct GroupKey {
  std::vector<std::size_t> ranks;  // in group order
  std::string name;
  auto operator<=>(const GroupKey&) const = default;
};

// From, to, tag, group.
using Route = std::tuple<std::size_t, std::size_t, std::int64_t, GroupKey>;

// The collectives of each group, in the order of each of its ranks, and the messages that arrived
// with those that were sent. Orders among groups are left to a replay.
class Exchanges {
 public:
  explicit Exchanges(const std::vector<RankFile>& files)
      : files_(files), arrived_(files.size()), meetings_(files.size()) {
    for (std::size_t rank = 0; rank < files.size(); ++rank) read(rank);
  }

  /// The rank of each event, in the order of all: a message is sent before it arrives, and
  /// nobody leaves a collective before all have come. If handles allow another order, the first
  /// rank goes on.
  std::vector<std::size_t> order() const {
    std::vector<std::size_t> all, next(files_.size(), 0);
    std::map<Route, std::size_t> sent;
    std::map<std::pair<GroupKey, std::size_t>, std::set<std::size_t>> come;
    const auto may_go = [&](std::size_t rank) {
      const auto meeting = meetings_[rank].find(next[rank]);
      if (meeting == meetings_[rank].end()) return true;
      const Meeting& one = meeting->second;
      if (one.sends) ++sent[one.route];
      if (!one.collective) return one.sends || sent[one.route] > one.place;
      std::set<std::size_t>& here = come[{one.group, one.place}];
      here.insert(rank);
      return here.size() == one.group.ranks.size();
    };
    bool waits = false;
    while (true) {
      bool went = false, left = false;
      for (std::size_t rank = 0; rank < files_.size(); ++rank) {
        while (next[rank] < files_[rank].events.size() && (waits || may_go(rank))) {
          waits = false;
          went = true;
          all.push_back(rank);
          ++next[rank];
        }
        left = left || next[rank] < files_[rank].events.size();
      }
      if (!left) return all;
      waits = !went;
    }
  }

  void check() const {
    for (const auto& [group, entered] : collectives_) check_group(group, entered);
    for (std::size_t rank = 0; rank < files_.size(); ++rank) {
      for (const auto& [at, route, place] : arrived_[rank]) {
        const auto sent = sent_.find(route);
        if (sent != sent_.end() && sent->second > place) continue;
        refuse_stuck(rank, at, "for a message that no rank has sent");
      }
    }
  }

 private:
  struct Arrival {
    std::size_t at;  // the event
    Route route;
    std::size_t place;  // among the messages of the route
  };
  using Entered = std::map<std::size_t, std::vector<std::size_t>>;  // by rank, events
  // A collective, or one end of a message.
  struct Meeting {
    Route route;
    GroupKey group;
    std::size_t place = 0;  // among those of the route or the group
    bool sends = false, collective = false;
  };

  void read(std::size_t rank) {
    std::map<std::size_t, GroupKey> groups;                        // by the rank's number
    std::map<std::size_t, std::pair<Route, std::size_t>> awaited;  // by value
    const std::vector<Json>& events = files_[rank].events;
    for (std::size_t at = 0; at < events.size(); ++at) {
      const Json& event = events[at];
      const Json& kind = event.at("k");
      if (kind == "group") {
        GroupKey key{.ranks = {}, .name = event.value("desc", "") + event.value("name", "")};
        for (const Json& one : event.at("ranks")) key.ranks.push_back(integer_of<std::size_t>(one));
        groups[integer_of<std::size_t>(event.at("g"))] = std::move(key);
      } else if (kind == "arrived") {
        const auto found = awaited.find(integer_of<std::size_t>(event.at("v")));
        if (found == awaited.end()) continue;
        arrived_[rank].push_back({at, found->second.first, found->second.second});
      } else if (is_message_line(event)) {
        const Route route = route_of(rank, event, groups);
        if (event.at("op") == "c10d.send.default") {
          meetings_[rank][at] = {.route = route, .sends = true};
          ++sent_[route];
          continue;
        }
        const std::size_t place = received_[route]++;
        meetings_[rank][at] = {.route = route, .place = place};
        for (const Json& value : event.value("mut", Json::array())) {
          awaited[integer_of<std::size_t>(value.at("v"))] = {route, place};
        }
      } else if (kind == "coll") {
        const Json* group = group_in(event);
        if (group == nullptr) continue;
        const GroupKey& key = groups.at(integer_of<std::size_t>(*group));
        std::vector<std::size_t>& entered = collectives_[key][rank];
        meetings_[rank][at] = {.group = key, .place = entered.size(), .collective = true};
        entered.push_back(at);
      }
    }
  }

  static const Json* group_in(const Json& event) {
    for (const Json& argument : event.at("args")) {
      if (argument.is_object() && argument.contains("pg")) return &argument.at("pg");
    }
    return nullptr;
  }

  static Route route_of(std::size_t rank, const Json& event,
                        const std::map<std::size_t, GroupKey>& groups) {
    const Json& args = event.at("args");
    const GroupKey& group = groups.at(integer_of<std::size_t>(args.at(1).at("pg")));
    const std::size_t peer = group.ranks.at(integer_of<std::size_t>(args.at(2)));
    const auto tag = integer_of<std::int64_t>(args.at(3));
    if (event.at("op") == "c10d.send.default") return {rank, peer, tag, group};
    return {peer, rank, tag, group};
  }

  void check_group(const GroupKey& group, const Entered& entered) const {
    std::size_t most = 0;
    for (const auto& [rank, events] : entered) most = std::max(most, events.size());
    for (std::size_t i = 0; i < most; ++i) {
      std::vector<std::pair<std::size_t, std::size_t>> here;  // ranks with their events
      for (const auto& [rank, events] : entered) {
        if (i < events.size()) here.emplace_back(rank, events[i]);
      }
      const auto op = [&](const auto& one) -> const Json& {
        return files_[one.first].events[one.second].at("op");
      };
      const bool same =
          std::ranges::all_of(here, [&](const auto& one) { return op(one) == op(here[0]); });
      if (!same) refuse_parted(here);
      if (here.size() == group.ranks.size()) continue;
      refuse_stuck(here[0].first, here[0].second,
                   fmt::format("in {} for ranks that do not come to it",
                               op(here[0]).template get<std::string>()));
    }
  }

  [[noreturn]] void refuse_parted(
      const std::vector<std::pair<std::size_t, std::size_t>>& here) const {
    std::string text;
    for (const auto& [rank, at] : here) {
      const Json& event = files_[rank].events[at];
      text += fmt::format("{}rank {} {}{}", text.empty() ? "" : ", ", rank, event.value("op", ""),
                          recorded_place(files_[rank], event));
    }
    fail(ErrorKind::kUnsupported, Fix{"enter the same collectives on all ranks, in one order"},
         "ranks part at event {}: {}", here[0].second + 1, text);
  }

  [[noreturn]] void refuse_stuck(std::size_t rank, std::size_t at, const std::string& what) const {
    const RankFile& file = files_[rank];
    // A value that arrived has no place of its own: the last line before it.
    std::size_t last = at;
    while (last > 0 && !file.events[last].contains("p")) --last;
    fail(Fix{"record one step on all ranks, with all that it exchanges"},
         "{}: event {}: rank {} waits {}{}", file.path, at + 1, rank, what,
         recorded_place(file, file.events[last]));
  }

  const std::vector<RankFile>& files_;
  std::map<GroupKey, Entered> collectives_;
  std::map<Route, std::size_t> sent_, received_;
  std::vector<std::vector<Arrival>> arrived_;             // by rank
  std::vector<std::map<std::size_t, Meeting>> meetings_;  // by rank and event
};

struct SideBySide {
  // `order`: the rank of each event.
  std::vector<Json> write(const std::vector<std::size_t>& order) {
    all_.push_back(files_[0].events.at(0));
    all_.back()["rank"] = "all";
    all_.back()["levels"] = {"op"};
    std::vector<Rank> ranks;
    std::size_t values = 0;
    for (const RankFile& file : files_) {
      ranks.push_back({.values = values});
      values += integer_of<std::size_t>(file.events.back().at("n_values"));
    }
    for (const std::size_t rank : order) {
      rank_ = rank;
      own_ = &ranks[rank];
      add(files_[rank].events[own_->at]);
      ++own_->at;
    }
    add_end(values);
    return std::move(all_);
  }

  void add(const Json& event) {
    static const std::set<std::string> kLeftOut = {"program", "read", "gradients", "end"};
    static const std::set<std::string> kLooks = {"call", "module", "backward", "function", "rule"};
    const auto& kind = event.at("k").get_ref<const std::string&>();
    if (kLeftOut.contains(kind)) return;
    if (kind == "mesh" || event.contains("placements")) refuse_labels();
    if (kind == "place") {
      const std::string key = event.at("file").dump() + event.at("line").dump();
      return declare(event, "p", key, place_numbers_, own_->places);
    }
    if (kind == "group") {
      const std::string key =
          event.at("ranks").dump() + event.value("desc", "") + event.value("name", "");
      return declare(event, "g", key, group_numbers_, own_->groups);
    }
    Json line = own(event);
    if (kLooks.contains(kind) && lacks_values(line)) return;
    if (const auto out = line.find("out"); out != line.end()) {
      for_each_value(*out, [&](std::size_t v) { own_->given.insert(v); });
    }
    if (const auto v = line.find("v"); v != line.end()) {
      own_->given.insert(integer_of<std::size_t>(*v));
    }
    all_.push_back(std::move(line));
  }

  // Results of functions are not all results of ops.
  bool lacks_values(const Json& line) const {
    bool lacks = false;
    const auto see = [&](std::size_t v) { lacks = lacks || !own_->given.contains(v); };
    for (const char* key : kOfNumbers) {
      if (!line.contains(key)) continue;
      const Json& numbers = line.at(key);
      for (const Json& one : numbers.is_array() ? numbers : Json::array({numbers})) {
        if (one.is_number_unsigned()) see(integer_of<std::size_t>(one));
      }
    }
    for (const char* key : {"args", "kwargs"}) {
      if (line.contains(key)) for_each_value(line.at(key), see);
    }
    return lacks;
  }

  template <typename Visit>
  static void for_each_value(const Json& node, const Visit& visit) {
    if (node.is_object() && node.contains("v") && node.at("v").is_number_unsigned()) {
      visit(integer_of<std::size_t>(node.at("v")));
    } else if (node.is_structured()) {
      for (const Json& item : node) for_each_value(item, visit);
    }
  }

  // Keys of bare numbers, of modules, calls and backwards.
  static constexpr std::array kOfNumbers = {"of", "in",   "out",    "grads",
                                            "to", "only", "leaves", "detached"};

  using Numbers = std::map<std::size_t, std::size_t>;
  struct Rank {
    std::size_t at = 0;      // the next event
    std::size_t values = 0;  // of the ranks before
    Numbers places, groups;  // numbers here
    std::set<std::size_t> given;
  };

  // A line that others name by its number: one for all ranks that have it.
  void declare(const Json& event, const char* number, const std::string& key,
               std::map<std::string, std::size_t>& known, Numbers& here) {
    const auto [found, added] = known.try_emplace(key, known.size());
    here[integer_of<std::size_t>(event.at(number))] = found->second;
    if (!added) return;
    all_.push_back(event);
    all_.back()[number] = found->second;
  }

  Json own(const Json& event) {
    Json result = event;
    const bool of_value = event.at("k") == "alias" || event.at("k") == "backward";
    for (const char* key : {"v", "of", "in"}) {
      const bool number = result.contains(key) && result.at(key).is_number_unsigned();
      // An op has the number of a call there.
      if (number && (key[0] != 'o' || of_value)) {
        result[key] = integer_of<std::size_t>(result.at(key)) + own_->values;
      }
    }
    for (const char* key : kOfNumbers) {
      if (!result.contains(key) || !result.at(key).is_array()) continue;
      for (Json& one : result.at(key)) {
        if (one.is_number_unsigned()) one = integer_of<std::size_t>(one) + own_->values;
      }
    }
    if (result.contains("known")) {
      result["known"] = integer_of<std::size_t>(result.at("known")) + own_->values;
    }
    if (result.contains("p"))
      result["p"] = own_->places.at(integer_of<std::size_t>(result.at("p")));
    if (result.contains("raw")) move_raw(result["raw"]);
    for (const char* key : {"args", "kwargs", "out", "mut"}) {
      if (result.contains(key)) renumber(result[key]);
    }
    result["at"] = rank_;
    return result;
  }

  void renumber(Json& node) {
    if (node.is_object() && node.contains("v") && node.at("v").is_number_unsigned()) {
      if (node.contains("placements")) refuse_labels();
      node["v"] = integer_of<std::size_t>(node.at("v")) + own_->values;
      if (node.contains("raw")) move_raw(node["raw"]);
    } else if (node.is_object() && node.contains("pg")) {
      node["pg"] = own_->groups.at(integer_of<std::size_t>(node.at("pg")));
    } else if (node.is_structured()) {
      for (Json& item : node) renumber(item);
    }
  }

  void move_raw(Json& where) {
    if (!where.is_array()) return;
    const std::string_view bytes = raw_part(files_[rank_], own_->at, where);
    const auto [found, added] = blocks_.try_emplace(bytes, raw_.size());
    if (added) raw_ += bytes;
    where = {found->second, bytes.size()};
  }

  [[noreturn]] void refuse_labels() const {
    const RankFile& file = files_[rank_];
    fail(
        ErrorKind::kUnsupported,
        Fix{"record pieces in place of DTensors: level=\"pieces\", shardlab record --level pieces"},
        "{}: event {}{}: a DTensor in a program whose ranks make different calls", file.path,
        own_->at + 1, recorded_place(file, file.events[own_->at]));
  }

  void add_end(std::size_t values) {
    Json end = files_[0].events.back();
    end["events"] = all_.size() + 1;
    end["n_values"] = values;
    end["raw"] = raw_.size();
    for (const RankFile& file : files_) {
      const Json& own = file.events.back();
      const Json refused = own.value("refused", Json::object());
      for (const auto& [what, found] : refused.items()) end["refused"][what] = found;
      if (own.contains("error") && !end.contains("error")) end["error"] = own.at("error");
    }
    all_.push_back(std::move(end));
  }

  const std::vector<RankFile>& files_;
  std::string& raw_;
  std::size_t rank_ = 0;
  Rank* own_ = nullptr;
  std::map<std::string, std::size_t> place_numbers_, group_numbers_;
  std::map<std::string_view, std::size_t> blocks_;  // of elements, and where they are
  std::vector<Json> all_;
};

}  // namespace

std::string_view raw_part(const RankFile& file, std::size_t event, const Json& range) {
  const auto from = integer_of<std::size_t>(range.at(0)),
             size = integer_of<std::size_t>(range.at(1));
  if (from > file.raw.size() || size > file.raw.size() - from) {
    fail(Fix{"record it again"}, "{}: event {}: elements outside of the file", file.path,
         event + 1);
  }
  return std::string_view(file.raw).substr(from, size);
}

bool is_message_line(const Json& event) {
  const Json op = event.value("op", Json());
  return op == "c10d.send.default" || op == "c10d.recv_.default";
}

std::string recorded_place(const RankFile& file, const Json& event) {
  for (const Json& place : file.events) {
    if (place.at("k") != "place" || place.value("p", Json()) != event.value("p", Json(-1))) {
      continue;
    }
    return fmt::format(" at {}:{}", place.value("file", ""), place.value("line", Json()).dump());
  }
  return "";
}

std::vector<Json> side_by_side(const std::vector<RankFile>& ranks, std::string& raw) {
  const Exchanges exchanges(ranks);
  // A program that failed waits for what never came: prove and replay tell of it.
  const bool failed = std::ranges::any_of(
      ranks, [](const RankFile& file) { return file.events.back().contains("error"); });
  if (!failed) exchanges.check();
  return SideBySide{ranks, raw}.write(exchanges.order());
}

}  // namespace shardlab
