// Facts about the whole program: its end, ranks, meshes, groups and places, and collectives of
// several ranks. A range outside of the file or too many values are found here, not by a kernel.
#include <algorithm>
#include <set>
#include <span>

#include "base/error.h"
#include "mesh/mesh_views.h"
#include "mesh/spec.h"
#include "sim/recording/advice.h"
#include "sim/recording/event_reader.h"
#include "sim/recording/recording.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostRanks = 4096;
constexpr std::size_t kMostValues = 10'000'000;
constexpr std::size_t kMostHeld = std::size_t{1} << 25;  // values of all ranks that are played
constexpr std::string_view kTypesPackage = "0.3.1";
constexpr int kDeepest = 12;  // lists in lists, as arguments have them

bool nests_deeper(const Json& json, int most) {
  if (most == 0) return true;
  if (!json.is_structured()) return false;
  return std::ranges::any_of(json, [&](const Json& item) { return nests_deeper(item, most - 1); });
}

// The dims of `whole` that the mesh is cut along, or that it is over as one; empty: none are.
std::vector<std::string> part_of_recorded(const GraphMesh& whole, const GraphMesh& mesh,
                                          const Dims& ranks) {
  Arena arena;
  const MeshLayout* all =
      arena.layout({.shape = whole.shape, .names = whole.names, .ranks = whole.ranks});
  const auto at = ranks.empty() ? std::nullopt : all->coordinate_of(ranks[0]);
  const auto fits = [&](const MeshLayout& part) {
    if (part.shape() != mesh.shape || part.size() != std::ssize(ranks)) return false;
    for (std::int64_t i = 0; i < part.size(); ++i) {
      if (part.rank_at_index(i) != ranks[static_cast<std::size_t>(i)]) return false;
    }
    return true;
  };
  const auto known = [&](const std::string& name) { return all->find_dim(name).has_value(); };
  if (!at) return {};
  if (std::ranges::all_of(mesh.names, known)) {
    const bool sorted = std::ranges::is_sorted(
        mesh.names, {}, [&](const std::string& name) { return *all->find_dim(name); });
    const bool is = sorted && fits(*slice_layout(all, mesh.names, *at));
    return is ? mesh.names : std::vector<std::string>();
  }
  for (std::uint32_t bits = 1; mesh.names.size() == 1 && bits < 1u << all->ndim(); ++bits) {
    std::vector<std::string> names;
    for (std::size_t dim = 0; dim < all->ndim(); ++dim) {
      if ((bits >> dim & 1u) != 0) names.push_back(all->names()[dim]);
    }
    if (names.size() > 1 && fits(*flatten_layout(all, names, *at, mesh.names[0]))) return names;
  }
  return {};
}

// The lines of one file.
class RecordingReader {
 public:
  explicit RecordingReader(RecordingFile file) : file_(std::move(file)) {
    program_.path = file_.path;
    program_.raw = std::make_shared<const std::string>(std::move(file_.raw));
  }

  RecordedProgram read() {
    const Json end = line_at(file_.lines.size() - 1);
    guarded(end, [&] { read_end(end); });
    program_.events.reserve(file_.lines.size());
    for (at_ = 0; at_ < file_.lines.size(); ++at_) {
      const Json line = line_at(at_);
      guarded(line, [&] { read_line(line, kind_of(line)); });
    }
    check_ranks();
    return std::move(program_);
  }

 private:
  [[noreturn]] void refuse_line(const Json& line, const std::string& what) {
    reported_ = true;
    std::string place;
    const auto text = [&](const char* key) {
      const auto found = line.find(key);
      return found != line.end() && found->is_string() ? found->get<std::string>() : "";
    };
    if (line.is_object() && line.value("k", Json()) != "place") {
      const Json number = line.value("p", Json());
      const bool known =
          number.is_number_unsigned() && integer_of<std::size_t>(number) < program_.places.size();
      place = place_text(text("m"),
                         known ? &program_.places[integer_of<std::size_t>(number)] : nullptr);
    }
    fail(Fix{record_again()}, "{}: event {}{}: {}", program_.path, at_ + 1,
         place.empty() ? "" : " (" + place + ")", what);
  }

  void guarded(const Json& line, const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kUnsupported || reported_) throw;
      refuse_line(line, error.summary());
    } catch (const std::exception& error) {
      refuse_line(line, error.what());
    }
  }

  Json line_at(std::size_t at) {
    at_ = at;
    Json line = read_json(file_.lines[at]);
    const bool whole = line.is_object() && line.contains("k") && line.at("k").is_string();
    if (!whole) refuse_line(line, "not a line of a recording");
    if (nests_deeper(line, kDeepest)) {
      refuse_line(line, "lists inside of lists, deeper than arguments are");
    }
    return line;
  }

  static const std::string& kind_of(const Json& line) {
    return line.at("k").get_ref<const std::string&>();
  }

  void read_line(const Json& line, const std::string& kind) {
    if (const auto keys = declared_.find(kind); keys != declared_.end()) {
      for (const std::string_view key : keys->second.keys) {
        if (!line.contains(key)) refuse_recorded(fmt::format("{} without '{}'", kind, key));
      }
      return (this->*keys->second.read)(line);
    }
    const auto row = std::ranges::find(event_kinds(), kind, &KindRow::name);
    if (row == event_kinds().end()) {
      refuse_recorded("this shardlab knows no event '" + kind + "'");
    }
    if (!reader_) reader_.emplace(program_);
    std::size_t fresh = program_.events.size();
    program_.events.push_back(reader_->read(line, *row));
    for (; fresh < program_.events.size(); ++fresh) program_.events[fresh].line = at_ + 1;
    const RecordedEvent& last = program_.events.back();
    program_.has_calls = program_.has_calls || (last.kind == RecordedKind::kCall && last.rank < 0);
  }

  // The last line counts values, so that it is read first.
  void read_end(const Json& end) {
    if (kind_of(end) != "end" || !end.contains("n_values"))
      refuse_recorded("the last line is not the end");
    const auto values = integer_of<std::size_t>(end.at("n_values"));
    if (values > kMostValues)
      refuse_recorded(fmt::format("{} is more than {}", values, kMostValues));
    program_.values = static_cast<std::int32_t>(values);
    const Json failed = end.value("error", Json(""));
    if (failed.is_string()) program_.error = failed.get<std::string>();
    const Json unseen = end.value("refused", Json::object());
    if (!unseen.is_object() || unseen.empty()) return;
    const Json& found = unseen.begin().value();
    std::string place = found.is_array() && found.size() > 1 ? found.at(1).dump() : "";
    std::erase(place, '"');
    unseen_ = unseen.begin().key() + (place.empty() ? "" : " at " + place);
  }

  // Compiled regions, transforms of torch.func: the calls in the file are not the program.
  void refuse_unseen(const Json&) {
    if (unseen_.empty()) return;
    const bool moves = unseen_.starts_with("spmd_types.spmd_redistribute");
    fail(ErrorKind::kUnsupported,
         Fix{moves ? "write x.redistribute(placements=[...]) in its place"
                   : "take it out of the step that is recorded"},
         "{}: the recorder could not see {}, so the file is not the program", program_.path,
         unseen_);
  }

  void read_head(const Json& head) {
    program_.title = head.at("program").get<std::string>();
    program_.torch = head.at("torch").get<std::string>();
    const Json values = head.value("values", Json("fp"));
    program_.shapes_only = values == "none" || values == false;  // the first recorders had flags
    program_.ranks = integer_or<std::size_t>(head, "world", 1);
    const std::size_t most = program_.shapes_only ? kMostValues : kMostRanks;
    if (program_.ranks < 1 || program_.ranks > most) {
      refuse_recorded(fmt::format("a world of {} ranks", program_.ranks));
    }
    if (!program_.shapes_only &&
        static_cast<std::size_t>(program_.values) > kMostHeld / program_.ranks) {
      refuse_recorded(fmt::format("{} values on {} ranks", program_.values, program_.ranks));
    }
    program_.meshes = {{.names = {"all"},
                        .shape = {static_cast<std::int64_t>(program_.ranks)},
                        .ranks = {},
                        .part = {}}};
    rank_ = head.value("rank", Json("all"));
  }

  void check_ranks() {
    if (program_.ranks == 1 || rank_ == "all" || program_.shapes_only) return;
    fail(ErrorKind::kUnsupported, Fix{"put those of all ranks together: shardlab merge FILE..."},
         "{}: the recording of rank {} of {} alone", program_.path, rank_.dump(), program_.ranks);
  }

  void read_package(const Json& line) {
    const std::string version = line.at("version").get<std::string>();
    if (line.at("name") != "spmd_types" || version == kTypesPackage) return;
    program_.notes.push_back(
        fmt::format("{}: recorded with spmd_types {}; types are judged by the "
                    "rules of {}",
                    program_.path, version, kTypesPackage));
  }

  void read_place(const Json& line) {
    if (integer_of<std::size_t>(line.at("p")) != program_.places.size()) {
      refuse_recorded("places out of order");
    }
    program_.places.push_back(
        {line.at("file").get<std::string>(), integer_of<std::int64_t>(line.at("line"))});
  }

  // Ranks of the first mesh are counted through row by row. Another one is a part of a mesh before
  // it, whose ranks here are those of the first rank's part, or has ranks of its own.
  void read_mesh(const Json& line) {
    const auto number = integer_of<std::size_t>(line.at("mesh"));
    GraphMesh mesh{.names = {}, .shape = dims_of(line.at("shape")), .ranks = {}, .part = {}};
    for (std::size_t i = 0; i < mesh.shape.size(); ++i) {
      mesh.names.push_back(fmt::format("dim_{}", i));
    }
    if (!line.at("names").empty()) mesh.names = line.at("names").get<std::vector<std::string>>();
    const std::set<std::string> different(mesh.names.begin(), mesh.names.end());
    if (mesh.names.size() != mesh.shape.size() || different.size() != mesh.names.size() ||
        mesh.names.empty() || mesh.names.size() > 8) {
      refuse_recorded("a mesh has 1 to 8 dims of different names");
    }
    if (number == 0) {
      const Dims ranks = dims_of(line.at("ranks"));
      bool counted = ranks.size() == program_.ranks &&
                     product(mesh.shape) == static_cast<std::int64_t>(program_.ranks);
      for (std::size_t i = 0; counted && i < ranks.size(); ++i) {
        counted = ranks[i] == static_cast<std::int64_t>(i);
      }
      if (!counted) {
        fail(ErrorKind::kUnsupported, Fix{"make one mesh of all ranks, in their order"},
             "{}: event {}: a mesh of ranks {} in a world of {}", program_.path, at_ + 1,
             line.at("ranks").dump(), program_.ranks);
      }
      program_.meshes[0] = std::move(mesh);
      return;
    }
    if (number > program_.meshes.size()) refuse_recorded("meshes out of order");
    relate(mesh, dims_of(line.at("ranks")));
    if (number == program_.meshes.size()) program_.meshes.emplace_back();
    program_.meshes[number] = std::move(mesh);
  }

  // The latest mesh that it is a part of, or a flattened dim of.
  void relate(GraphMesh& mesh, const Dims& ranks) const {
    for (std::size_t base = program_.meshes.size(); base-- > 0;) {
      if (program_.meshes[base].base >= 0) continue;
      mesh.part = part_of_recorded(program_.meshes[base], mesh, ranks);
      mesh.flattened = mesh.part.size() > mesh.names.size();
      mesh.base = static_cast<std::int32_t>(base);
      if (!mesh.part.empty()) return;
    }
    mesh.base = -1;
    if (!are_of_world(ranks)) {
      refuse_recorded("the ranks of a mesh are ranks of the world, each once");
    }
    if (static_cast<std::int64_t>(ranks.size()) != product(mesh.shape)) {
      refuse_recorded("a mesh has a rank at each of its places");
    }
    mesh.ranks.assign(ranks.begin(), ranks.end());
  }

  // Each once.
  bool are_of_world(std::span<const std::int64_t> ranks) const {
    std::set<std::int64_t> seen;
    return std::ranges::all_of(ranks, [&](std::int64_t rank) {
      return rank >= 0 && rank < static_cast<std::int64_t>(program_.ranks) &&
             seen.insert(rank).second;
    });
  }

  // The groups that the ranks are in under one number: one, or one of each rank.
  void read_group(const Json& line) {
    const auto number = integer_of<std::size_t>(line.at("g"));
    RecordedGroup group;
    if (const auto each = line.find("each"); each != line.end()) {
      if (!each->is_array() || each->size() != program_.ranks) {
        refuse_recorded("'each' of a group has one of each rank");
      }
      for (const Json& one : *each) group.push_back(ranks_of(one));
    } else {
      group.push_back(ranks_of(line.at("ranks")));
    }
    if (number > program_.groups.size()) refuse_recorded("groups out of order");
    if (number == program_.groups.size()) program_.groups.emplace_back();
    program_.groups[number] = std::move(group);
  }

  std::vector<std::int64_t> ranks_of(const Json& list) const {
    const std::vector<std::int64_t> ranks = integers_of(list);
    if (!are_of_world(ranks)) refuse_recorded("a group of ranks that are not there");
    if (ranks.empty()) refuse_recorded("a group without ranks");
    return ranks;
  }

  // One collective as the ranks that take part have it.
  void read_each(const Json& line) {
    std::set<Json> seen;
    for (const Json& one : line.at("each")) {
      const bool call = one.is_object() && one.value("k", Json()) == "coll" && one.contains("at");
      if (!call) refuse_recorded("'each' has collectives of one rank");
      if (!seen.insert(one.at("at")).second) refuse_recorded("a rank twice");
      read_line(one, "coll");
    }
    if (seen.empty()) refuse_recorded("a collective without ranks");
  }

  struct Declared {
    std::vector<std::string_view> keys;
    void (RecordingReader::*read)(const Json&);
  };
  static const std::map<std::string_view, Declared> declared_;

  RecordingFile file_;
  RecordedProgram program_;
  std::optional<EventReader> reader_;
  Json rank_ = "all";   // of the process that wrote the file
  std::string unseen_;  // what the recorder could not see
  std::size_t at_ = 0;
  bool reported_ = false;
};

const std::map<std::string_view, RecordingReader::Declared> RecordingReader::declared_ = {
    {"program", {{"program", "torch"}, &RecordingReader::read_head}},
    {"package", {{"name", "version"}, &RecordingReader::read_package}},
    {"place", {{"p", "file", "line"}, &RecordingReader::read_place}},
    {"mesh", {{"mesh", "shape", "names", "ranks"}, &RecordingReader::read_mesh}},
    {"group", {{"g", "ranks"}, &RecordingReader::read_group}},
    {"each", {{"each"}, &RecordingReader::read_each}},
    {"end", {{"events", "n_values", "raw"}, &RecordingReader::refuse_unseen}},
};

}  // namespace

RecordedProgram read_recording(RecordingFile file) {
  return RecordingReader(std::move(file)).read();
}

}  // namespace shardlab
