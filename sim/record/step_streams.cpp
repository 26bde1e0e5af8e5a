// Each rank runs by itself as far as it can: up to the first use of data that another rank has yet
// to send, or to a collective. Events that only a re-mesh reads are left out, since a re-mesh needs
// a recording of one rank.
#include "sim/record/step_streams.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/fix.h"

namespace shardlab {

namespace {

// From, to, tag, group.
using Route = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::size_t>;

class Streams {
 public:
  Streams(const std::vector<RankFile>& files, std::string& raw)
      : files_(files), raw_(raw), next_(files.size()), awaited_(files.size()) {
    std::size_t values = 0;
    for (const RankFile& file : files) {
      first_value_.push_back(values);
      values += integer_of<std::size_t>(file.events.back().at("n_values"));
    }
    values_ = values;
    places_.resize(files.size());
    groups_.resize(files.size());
  }

  std::vector<Json> run() {
    add_head();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < files_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
      moved = moved || meet();
    }
    for (std::size_t rank = 0; rank < files_.size(); ++rank) {
      if (event_of(rank).at("k") != "end") refuse_stuck(rank);
    }
    add_end();
    return std::move(all_);
  }

 private:
  const Json& event_of(std::size_t rank) const { return files_[rank].events.at(next_[rank]); }

  void add_head() {
    all_.push_back(files_[0].events.at(0));
    all_.back()["rank"] = "all";
    all_.back()["levels"] = {"op"};
  }

  void add_end() {
    Json end = files_[0].events.back();
    end["events"] = all_.size() + 1;
    end["n_values"] = values_;
    end["raw"] = raw_.size();
    for (const RankFile& file : files_) {
      const Json& own = file.events.back();
      const Json refused = own.value("refused", Json::object());
      for (const auto& [what, found] : refused.items()) end["refused"][what] = found;
      if (own.contains("error") && !end.contains("error")) end["error"] = own.at("error");
    }
    all_.push_back(std::move(end));
  }

  // False: the rank is at its end, or has to wait.
  bool step(std::size_t rank) {
    const Json& event = event_of(rank);
    const std::string kind = event.at("k").get<std::string>();
    if (kind == "end") return false;
    if (kind == "coll" && !is_recorded_message(event) && group_in(event) != nullptr) return false;
    if (kind == "arrived" && !has_come(rank, event)) return false;
    if (kind == "mesh" || event.contains("placements")) refuse_labels(rank, event);
    if (kind == "place") {
      add_place(rank, event);
    } else if (kind == "group") {
      add_group(rank, event);
    } else if (is_recorded_message(event)) {
      note_message(rank, event);
    } else if (kind == "program" || kind == "call" || kind == "module" || kind == "function" ||
               kind == "rule" || kind == "backward" || kind == "gradients" || kind == "read") {
      ++next_[rank];
      return true;
    }
    if (kind != "place" && kind != "group") all_.push_back(own(rank, event));
    ++next_[rank];
    return true;
  }

  // A collective at which all ranks of its group are.
  bool meet() {
    for (std::size_t rank = 0; rank < files_.size(); ++rank) {
      const Json* group = group_at(rank);
      if (group == nullptr) continue;
      std::vector<std::size_t> ranks;
      for (const Json& member : *group) {
        const auto other = integer_of<std::size_t>(member);
        const Json* theirs = other < files_.size() ? group_at(other) : nullptr;
        if (theirs != nullptr && *theirs == *group) ranks.push_back(other);
      }
      if (ranks.size() != group->size()) continue;
      std::ranges::sort(ranks);
      check_same(ranks);
      Json each = Json::array();
      for (const std::size_t one : ranks) {
        each.push_back(own(one, event_of(one)));
        ++next_[one];
      }
      all_.push_back({{"k", "each"}, {"each", std::move(each)}});
      return true;
    }
    return false;
  }

  void check_same(const std::vector<std::size_t>& ranks) const {
    const Json& op = event_of(ranks[0]).at("op");
    const bool same =
        std::ranges::all_of(ranks, [&](std::size_t rank) { return event_of(rank).at("op") == op; });
    if (same) return;
    std::string text;
    for (const std::size_t rank : ranks) {
      const Json& event = event_of(rank);
      text += fmt::format("{}rank {} {}{}", text.empty() ? "" : ", ", rank, event.value("op", ""),
                          recorded_place(files_[rank], event));
    }
    fail(ErrorKind::kUnsupported, Fix{"enter the same collectives on all ranks, in one order"},
         "ranks part at event {}: {}", next_[ranks[0]] + 1, text);
  }

  // The ranks of the collective that a rank waits in; null: it waits for something else.
  const Json* group_at(std::size_t rank) const {
    const Json& event = event_of(rank);
    if (event.at("k") != "coll" || is_recorded_message(event)) return nullptr;
    const Json* group = group_in(event);
    return group == nullptr ? nullptr : &ranks_of(rank, *group);
  }

  static const Json* group_in(const Json& event) {
    for (const Json& argument : event.at("args")) {
      if (argument.is_object() && argument.contains("pg")) return &argument.at("pg");
    }
    return nullptr;
  }

  const Json& ranks_of(std::size_t rank, const Json& group) const {
    const std::size_t number = groups_[rank].at(integer_of<std::size_t>(group));
    return all_.at(group_events_.at(number)).at("ranks");
  }

  Route route_of(std::size_t rank, const Json& event) const {
    const Json& args = event.at("args");
    const auto own = static_cast<std::int64_t>(rank);
    const Json& group = args.at(1).at("pg");
    const auto peer =
        integer_of<std::int64_t>(ranks_of(rank, group).at(integer_of<std::size_t>(args.at(2))));
    const std::size_t number = groups_[rank].at(integer_of<std::size_t>(group));
    const auto tag = integer_of<std::int64_t>(args.at(3));
    if (is_recorded_send(event)) return {own, peer, tag, number};
    return {peer, own, tag, number};
  }

  void note_message(std::size_t rank, const Json& event) {
    const Route route = route_of(rank, event);
    if (is_recorded_send(event)) {
      ++sent_[route];
      return;
    }
    const std::size_t place = received_[route]++;
    for (const Json& value : list_at(event, "mut")) {
      awaited_[rank][integer_of<std::size_t>(value.at("v"))] = {route, place};
    }
  }

  bool has_come(std::size_t rank, const Json& event) const {
    const auto found = awaited_[rank].find(integer_of<std::size_t>(event.at("v")));
    if (found == awaited_[rank].end()) return true;
    const auto& [route, place] = found->second;
    const auto sent = sent_.find(route);
    return sent != sent_.end() && sent->second > place;
  }

  void add_place(std::size_t rank, const Json& event) {
    const std::string key = event.at("file").dump() + event.at("line").dump();
    const auto [found, added] = place_numbers_.try_emplace(key, place_numbers_.size());
    places_[rank][integer_of<std::size_t>(event.at("p"))] = found->second;
    if (!added) return;
    all_.push_back(event);
    all_.back()["p"] = found->second;
  }

  void add_group(std::size_t rank, const Json& event) {
    const std::string key = event.at("ranks").dump() + event.value("desc", "");
    const auto [found, added] = group_numbers_.try_emplace(key, group_numbers_.size());
    groups_[rank][integer_of<std::size_t>(event.at("g"))] = found->second;
    if (!added) return;
    group_events_.push_back(all_.size());
    all_.push_back(event);
    all_.back()["g"] = found->second;
  }

  // The event with the numbers that values, places and groups have here.
  Json own(std::size_t rank, const Json& event) {
    Json result = event;
    for (const char* key : {"v", "of", "in"}) {
      const bool number = result.contains(key) && result.at(key).is_number_unsigned();
      // For a call above autograd it is the call's number.
      if (number && (key[0] != 'o' || event.at("k") == "alias")) {
        result[key] = result.at(key).get<std::size_t>() + first_value_[rank];
      }
    }
    if (result.contains("p")) {
      result["p"] = places_[rank].at(integer_of<std::size_t>(result.at("p")));
    }
    if (result.contains("raw")) move_raw(rank, result["raw"]);
    for (const char* key : {"args", "kwargs", "out", "mut"}) {
      if (result.contains(key)) renumber(rank, result[key]);
    }
    result["at"] = rank;
    return result;
  }

  void renumber(std::size_t rank, Json& node) {
    if (node.is_object() && node.contains("v") && node.at("v").is_number_unsigned()) {
      if (node.contains("placements")) refuse_labels(rank, event_of(rank));
      node["v"] = node.at("v").get<std::size_t>() + first_value_[rank];
      if (node.contains("raw")) move_raw(rank, node["raw"]);
    } else if (node.is_object() && node.contains("pg")) {
      node["pg"] = groups_[rank].at(integer_of<std::size_t>(node.at("pg")));
    } else if (node.is_structured()) {
      for (Json& item : node) renumber(rank, item);
    }
  }

  // Elements that are stored already are not stored again.
  void move_raw(std::size_t rank, Json& where) {
    if (!where.is_array()) return;
    const auto from = integer_of<std::size_t>(where.at(0)),
               size = integer_of<std::size_t>(where.at(1));
    const std::string& raw = files_[rank].raw;
    if (from > raw.size() || size > raw.size() - from) {
      fail(ErrorKind::kValue, Fix{"record it again"}, "{}: event {}: elements outside of the file",
           files_[rank].path, next_[rank] + 1);
    }
    const std::string_view bytes = std::string_view(raw).substr(from, size);
    const auto [found, added] = blocks_.try_emplace(bytes, raw_.size());
    if (added) raw_ += bytes;
    where = {found->second, size};
  }

  [[noreturn]] void refuse_labels(std::size_t rank, const Json& event) const {
    fail(
        ErrorKind::kUnsupported,
        Fix{"record pieces in place of DTensors: level=\"pieces\", shardlab record --level pieces"},
        "{}: event {}{}: a DTensor in a program whose ranks make different calls",
        files_[rank].path, next_[rank] + 1, recorded_place(files_[rank], event));
  }

  [[noreturn]] void refuse_stuck(std::size_t rank) const {
    const Json& event = event_of(rank);
    const std::string what = event.at("k") == "arrived"
                                 ? "for a message that no rank has sent"
                                 : fmt::format("in {} for ranks that do not come to it",
                                               event.value("op", "a collective"));
    // A value that is checked has no place of its own: the last line before it.
    std::size_t last = next_[rank];
    while (last > 0 && !files_[rank].events[last].contains("p")) --last;
    fail(ErrorKind::kValue, Fix{"record one step on all ranks, with all that it exchanges"},
         "{}: event {}: rank {} waits {}{}", files_[rank].path, next_[rank] + 1, rank, what,
         recorded_place(files_[rank], files_[rank].events[last]));
  }

  const std::vector<RankFile>& files_;
  std::string& raw_;
  std::vector<std::size_t> next_;         // by rank
  std::vector<std::size_t> first_value_;  // by rank: the first of its numbers
  std::size_t values_ = 0;
  std::vector<std::map<std::size_t, std::size_t>> places_, groups_;  // by rank: numbers here
  std::map<std::string, std::size_t> place_numbers_, group_numbers_;
  std::vector<std::size_t> group_events_;
  std::map<std::string_view, std::size_t> blocks_;  // of elements, and where they are
  std::map<Route, std::size_t> sent_, received_;
  // By rank: for values that a message will fill, the message.
  std::vector<std::map<std::size_t, std::pair<Route, std::size_t>>> awaited_;
  std::vector<Json> all_;
};

}  // namespace

bool is_recorded_send(const Json& event) {
  return event.value("op", Json()) == "c10d.send.default";
}

bool is_recorded_message(const Json& event) {
  return is_recorded_send(event) || event.value("op", Json()) == "c10d.recv_.default";
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

std::vector<Json> interleaved(const std::vector<RankFile>& ranks, std::string& raw) {
  return Streams(ranks, raw).run();
}

}  // namespace shardlab
