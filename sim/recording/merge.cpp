// Event i of one rank is event i of all that make the same calls.
#include "sim/recording/merge.h"

#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "sim/files/json_value.h"
#include "sim/recording/recording_file.h"
#include "sim/recording/side_by_side.h"

namespace shardlab {

namespace {

using JsonList = std::vector<Json>;

bool all_equal(const JsonList& values) {
  return std::ranges::all_of(values, [&](const Json& value) { return value == values[0]; });
}

const Json& first_there(const JsonList& values) {
  return *std::ranges::find_if(values, [](const Json& one) { return !one.is_null(); });
}

Json of_ranks(const JsonList& values) { return {{"ranks", values}}; }

// Objects and lists that are alike on all ranks are merged item by item: an item that differs is of
// ranks.
Json joined(const JsonList& values) {
  if (all_equal(values)) return values[0];
  const auto alike = [&](const auto& is_alike) { return std::ranges::all_of(values, is_alike); };
  if (alike([&](const Json& value) {
        return value.is_array() && value.size() == values[0].size();
      })) {
    Json list = Json::array();
    for (std::size_t i = 0; i < values[0].size(); ++i) {
      JsonList items;
      for (const Json& value : values) items.push_back(value.at(i));
      list.push_back(joined(items));
    }
    return list;
  }
  // A value, a number or a dtype is one thing; other objects are keywords, or have one key.
  const bool tagged = alike([&](const Json& value) {
    if (!value.is_object() || !values[0].is_object() || value.size() != values[0].size()) {
      return false;
    }
    return std::ranges::all_of(value.items(), [&](const auto& item) {
      return item.key() != "f" && item.key() != "v" && values[0].contains(item.key());
    });
  });
  if (!tagged) return of_ranks(values);
  Json result = Json::object();
  for (const auto& [key, first] : values[0].items()) {
    JsonList inside;
    for (const Json& value : values) inside.push_back(value.at(key));
    result[key] = joined(inside);
  }
  return result;
}

class Merger {
 public:
  explicit Merger(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      std::error_code none;
      if (std::filesystem::file_size(path, none) > 0 && !none) ranks_.push_back(read(path));
    }
    if (ranks_.empty()) read(paths.at(0));
    std::ranges::sort(ranks_, {}, [](const RankFile& file) { return rank_of(file); });
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const bool here = i < ranks_.size() && rank_of(ranks_[i]) == i;
      if (!here && ranks_.size() < paths.size()) add_missing(i);
      const Json& head = ranks_[i].events[0];
      if (rank_of(ranks_[i]) == i && head.value("world", Json()) == paths.size()) continue;
      fail(Fix{"shardlab merge takes the files of all ranks of one program"},
           "{}: the recording of rank {} of {}, among {} files", ranks_[i].path,
           head.value("rank", Json()).dump(), head.value("world", Json()).dump(), ranks_.size());
    }
  }

  MergedRecordings write(const std::string& out) {
    std::string lines;
    std::vector<Json> events = make_same_calls() ? joined_events() : side_by_side(ranks_, raw_);
    for (Json& event : events) {
      // The kind first, by which readers find the end.
      const std::string kind = event.at("k").dump();
      event.erase("k");
      lines += fmt::format("{{\"k\":{},{}\n", kind, event.dump().substr(1));
    }
    gzFile file = gzopen(out.c_str(), "wb");
    const auto size = static_cast<unsigned>(lines.size());
    bool written = file != nullptr && gzwrite(file, lines.data(), size) == static_cast<int>(size);
    if (file != nullptr) written = gzclose(file) == Z_OK && written;
    std::ofstream more(out, std::ios::binary | std::ios::app);
    more << raw_;
    more.close();
    if (!written || !more) {
      fail(ErrorKind::kRuntime, Fix{"name a file in a folder that is there, with room"},
           "{} cannot be written", out);
    }
    return {ranks_.size(), events.size(), static_cast<std::size_t>(std::filesystem::file_size(out)),
            missing_};
  }

 private:
  // A rank that was ended before it could write has done nothing.
  void add_missing(std::size_t rank) {
    Json head = ranks_[0].events[0];
    head["rank"] = rank;
    Json end = {{"k", "end"}, {"events", 2}, {"n_values", 0}, {"raw", 0}};
    end["error"] = fmt::format("rank {} has no recording", rank);
    ranks_.insert(ranks_.begin() + static_cast<std::ptrdiff_t>(rank), {"", {head, end}, ""});
    missing_.push_back(rank);
  }

  // Else each rank keeps its own events. With DTensors that is not possible, and the place where
  // ranks differ is named.
  bool make_same_calls() const {
    const auto any = [&](const auto& is_so) {
      return std::ranges::any_of(
          ranks_, [&](const RankFile& file) { return std::ranges::any_of(file.events, is_so); });
    };
    if (any(is_message_line)) return false;
    if (any([](const Json& event) { return event.at("k") == "mesh"; })) return true;
    const auto& first = ranks_[0].events;
    std::set<Json>
        inputs;  // their names: a parameter that rank 0 has may be another rank's to step
    for (const Json& event : first) {
      if (event.at("k") == "input") inputs.insert(event.value("name", Json()));
    }
    return std::ranges::all_of(ranks_, [&](const RankFile& file) {
      return std::ranges::equal(file.events, first, [&](const Json& a, const Json& b) {
        const auto results = [](const Json& event, const char* key) {
          return event.value(key, Json::array()).size();
        };
        // Groups are numbered in the order of their use.
        const bool groups =
            a.at("k") == "group" && a.value("ranks", Json()) == b.value("ranks", Json());
        const auto name = [](const Json& event) { return event.value("name", Json()); };
        const bool steps = a.at("k") == "check" && inputs.contains(name(a));
        if ((groups || steps) && name(a) != name(b)) return false;
        return a.at("k") == b.at("k") && a.value("op", Json()) == b.value("op", Json()) &&
               results(a, "out") == results(b, "out") && results(a, "mut") == results(b, "mut");
      });
    });
  }

  std::vector<Json> joined_events() {
    std::vector<Json> events;
    for (at_ = 0; at_ < ranks_[0].events.size(); ++at_) {
      events.push_back(merged());
      Json& event = events.back();
      if (event.at("k") == "program") event["rank"] = "all";
      if (event.at("k") == "end") event["raw"] = raw_.size();
    }
    return events;
  }

  static std::size_t rank_of(const RankFile& file) {
    const Json rank = file.events[0].value("rank", Json());
    return rank.is_number_unsigned() ? integer_of<std::size_t>(rank) : SIZE_MAX;
  }

  static RankFile read(const std::string& path) {
    if (!is_recording_file(path)) {
      fail(Fix{"shardlab merge takes files of shardlab record"},
           "{}: not a recording of a training step", path);
    }
    RecordingFile file = read_recording_file(path);
    RankFile result{path, {}, std::move(file.raw)};
    for (const std::string& line : file.lines) {
      Json event = read_json(line);
      if (!event.is_object() || !event.contains("k")) {
        fail(Fix{"record it again"}, "{}: event {} is none", path, result.events.size() + 1);
      }
      result.events.push_back(std::move(event));
    }
    return result;
  }

  Json merged() {
    JsonList events;
    for (const RankFile& file : ranks_) {
      if (at_ >= file.events.size()) refuse_parted();
      events.push_back(file.events[at_]);
    }
    for (const Json& event : events) {
      const bool same = event.at("k") == events[0].at("k") &&
                        event.value("op", Json()) == events[0].value("op", Json());
      if (!same) refuse_parted();
    }
    const Json& kind = events[0].at("k");
    // The mesh that rank 0 is in, as for all data about one part of a mesh.
    if (kind == "mesh") meshes_[events[0].at("mesh").dump()] = events[0].value("ranks", Json());
    if (kind == "mesh" || kind == "place" || kind == "program") return events[0];
    if (kind == "group") return merged_group(events);
    return merged_value(events);
  }

  // The group of rank 0, and those of the others if they are in others.
  static Json merged_group(const JsonList& groups) {
    Json group = groups[0];
    JsonList all;
    for (const Json& one : groups) all.push_back(one.value("ranks", Json()));
    if (!all_equal(all)) group["each"] = all;
    return group;
  }

  std::string reported(const RankFile& file) const {
    if (at_ >= file.events.size()) return "nothing more";
    const Json& event = file.events[at_];
    return event.value("op", event.at("k")).get<std::string>() + recorded_place(file, event);
  }

  [[noreturn]] void refuse_parted() const {
    std::string text;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      text += fmt::format("{}rank {} {}", rank == 0 ? "" : ", ", rank, reported(ranks_[rank]));
    }
    fail(
        ErrorKind::kUnsupported,
        Fix{"record pieces in place of DTensors: level=\"pieces\", shardlab record --level pieces"},
        "ranks part at event {}: {}", at_ + 1, text);
  }

  // An event, or a value of its results.
  Json merged_value(const JsonList& all) {
    Json result = Json::object();
    std::set<std::string> keys;
    for (const Json& one : all) {
      for (const auto& [key, value] : one.items()) keys.insert(key);
    }
    const bool whole = all[0].contains("placements");
    for (const std::string& key : keys) {
      JsonList values;
      for (const Json& one : all) values.push_back(one.value(key, Json()));
      if (key == "raw" && all[0].at("k") != "end") {
        merge_raw(result, values, whole);
      } else if (key == "share") {
        merge_shares(result, values, all[0].value("on", Json(0)));
      } else if (key == "out" || key == "mut") {
        result[key] = merged_list(key, values);
      } else if (key == "fp") {
        result[key] = all_equal(values) ? values[0] : of_ranks(values);
      } else if (key == "shape" && !all_equal(values)) {
        result["shapes"] = values;
      } else if (key == "stride" && !all_equal(values)) {
        if (!whole) result["strides"] = values;  // pieces of a DTensor: as they come
      } else if (key == "error" || key == "own_s" || key == "wall_s" || key == "seq") {
        // A failure of one rank, or a field without meaning for the program.
        result[key] = first_there(values);
      } else if (key == "n_values") {
        result[key] = *std::max_element(values.begin(), values.end());
      } else if (first_there(values).is_boolean()) {
        result[key] = first_there(values);
      } else {
        result[key] = joined(values);
      }
    }
    return result;
  }

  Json merged_list(const std::string& key, const JsonList& lists) {
    Json result = Json::array();
    for (std::size_t i = 0; i < lists[0].size(); ++i) {
      JsonList items;
      for (const Json& list : lists) {
        if (!list.is_array() || list.size() != lists[0].size()) refuse_parted();
        items.push_back(list.at(i));
      }
      const bool values = std::ranges::all_of(
          items, [](const Json& one) { return one.is_object() && one.contains("v"); });
      if (values) {
        for (Json& item : items) item["k"] = key;  // no kind of event
      }
      Json one = values ? merged_value(items) : joined(items);
      if (values) one.erase("k");
      result.push_back(std::move(one));
    }
    return result;
  }

  // Elements that all ranks have alike are stored once.
  void merge_raw(Json& result, const JsonList& values, bool whole) {
    if (std::ranges::any_of(values, [](const Json& one) { return one.is_null(); })) {
      result["data_left_out"] = true;
      return;
    }
    const std::string_view first = bytes_of(0, values[0]);
    bool same = !whole;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      same = same && values[rank].is_array() && bytes_of(rank, values[rank]) == first;
    }
    const bool one = all_equal(values) && values[0].is_object() && !whole;
    if (same || one) {
      result["raw"] = kept(0, values[0]);
      return;
    }
    result["raw_ranks"] = Json::array();
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      result["raw_ranks"].push_back(kept(rank, values[rank]));
    }
  }

  std::string_view bytes_of(std::size_t rank, const Json& where) const {
    return where.is_array() ? raw_part(ranks_[rank], at_, where) : std::string_view();
  }

  Json kept(std::size_t rank, const Json& where) {
    if (!where.is_array()) return where;
    const std::string_view bytes = bytes_of(rank, where);
    raw_ += bytes;
    return {raw_.size() - bytes.size(), bytes.size()};
  }

  // For a value on a part of the mesh, the part that holds rank 0.
  void merge_shares(Json& result, const JsonList& values, const Json& mesh) {
    const auto found = meshes_.find(mesh.dump());
    double sums[2] = {0, 0};
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const bool inside = found == meshes_.end() ||
                          std::ranges::find(found->second, Json(rank)) != found->second.end();
      if (!inside) continue;
      if (!values[rank].is_array() || values[rank].size() != 2) return;
      for (const std::size_t i : {0, 1}) sums[i] += number_of(values[rank].at(i));
    }
    result["fp"] = {json_number(sums[0]), json_number(sums[1])};
  }

  std::vector<RankFile> ranks_;
  std::map<std::string, Json> meshes_;  // by number, their ranks
  std::string raw_;
  std::vector<std::size_t> missing_;  // ranks
  std::size_t at_ = 0;
};

}  // namespace

MergedRecordings merge_recordings(const std::vector<std::string>& paths, const std::string& out) {
  MergedRecordings merged;
  read_or_refuse([&] { merged = Merger(paths).write(out); },
                 [&](const char* what) {
                   fail(Fix{"record it again"}, "{}: a damaged recording: {}", paths.at(0), what);
                 });
  return merged;
}

}  // namespace shardlab
