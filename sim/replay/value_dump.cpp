// Each process has a file of its own. A value is found by its key, which is that of a recording;
// one that the first rank has not comes after the one before it on its own rank.
#include "sim/replay/value_dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/saturating.h"
#include "sim/files/json_value.h"
#include "sim/recording/elements.h"
#include "sim/recording/recorded_values.h"
#include "sim/recording/recording_file.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse_dump(const std::string& path, const std::string& what) {
  fail(ErrorKind::kValue, Fix{"write the values again: shardlab_record.dump_values"}, "{}: {}",
       path, what);
}

std::string path_of_rank(const std::string& path, std::size_t rank) {
  const std::size_t dot = path.rfind(".json");
  if (dot == std::string::npos) return fmt::format("{}.r{}", path, rank);
  return fmt::format("{}.r{}{}", path.substr(0, dot), rank, path.substr(dot));
}

std::string first_file(const std::string& path) {
  return std::filesystem::exists(path) ? path : path_of_rank(path, 0);
}

PointPart part_of_dump(const Json& json, const RecordingFile& file) {
  PointPart part;
  part.shape = dims_of(json.at("shape"));
  part.dtype = dtype_of(json.at("dtype"));
  if (json.contains("raw")) {
    const std::int64_t count = product(part.shape);
    const auto begin = integer_of<std::size_t>(json.at("raw").at(0)),
               bytes = integer_of<std::size_t>(json.at("raw").at(1));
    if (begin > file.raw.size() || bytes > file.raw.size() - begin ||
        bytes != static_cast<std::size_t>(saturating_product(count, item_bytes(part.dtype)))) {
      refuse_dump(file.path, "elements of a value are outside of the file");
    }
    const std::string_view stored = std::string_view(file.raw).substr(begin, bytes);
    for (const Scalar& one : stored_scalars(stored, part.dtype)) {
      part.elements.push_back(one.to_double());
    }
    part.print = Fingerprint(part.elements);
  } else if (json.contains("fp")) {
    for (const std::size_t i : {0, 1}) {
      part.print.sums[i] = number_of(json.at("fp").at(i));
      part.print.sizes[i] = number_of(json.at("fp").at(i + 2));
    }
  }
  return part;
}

ComparedPoint point_of_dump(const Json& event) {
  ComparedPoint point{.key = event.at("key").get<std::string>()};
  point.name = event.at("name").get<std::string>();
  point.kind = point.key.starts_with("module ")     ? PointKind::kResult
               : point.key.starts_with("gradient ") ? PointKind::kGradient
               : point.key.starts_with("input ")    ? PointKind::kInput
                                                    : PointKind::kEnd;
  return point;
}

class DumpReader {
 public:
  // The values of a file; returns the number of files that there are.
  std::size_t read(const std::string& path, std::size_t rank) {
    const RecordingFile file = read_recording_file(path);
    std::size_t files = 1, after = 0;
    for (const std::string& line : file.lines) {
      const Json event = read_json(line);
      if (!event.is_object()) refuse_dump(path, "a line is no object of JSON");
      const auto kind = event.at("k").get<std::string>();
      if (kind == "program" && event.at("rank") != "all") {
        files = integer_of<std::size_t>(event.at("world"));
      }
      if (kind != "value") continue;
      auto found =
          std::ranges::find(points_, event.at("key").get<std::string>(), &ComparedPoint::key);
      if (found == points_.end()) {
        const auto place = points_.begin() + static_cast<std::ptrdiff_t>(after);
        found = points_.insert(place, point_of_dump(event));
      }
      after = static_cast<std::size_t>(found - points_.begin()) + 1;
      const Json& parts = event.at("parts");
      for (std::size_t i = 0; i < parts.size(); ++i) {
        PointPart part = part_of_dump(parts[i], file);
        const bool empty = part.elements.empty() && !parts[i].contains("fp");
        if (empty) continue;
        found->ranks.push_back(rank + i);
        found->parts.push_back(std::move(part));
      }
    }
    return files;
  }

  std::vector<ComparedPoint> end() {
    std::erase_if(points_, [](const ComparedPoint& point) { return point.parts.empty(); });
    for (std::size_t i = 0; i < points_.size(); ++i) {
      points_[i].line = i + 1;
      points_[i].event = i;
      points_[i].value = static_cast<std::int32_t>(i + 1);
    }
    return std::move(points_);
  }

 private:
  std::vector<ComparedPoint> points_;
};

}  // namespace

bool is_value_dump(const std::string& path) {
  const std::string first = first_file(path);
  return std::filesystem::exists(first) && is_recording_file(first, "dump");
}

std::vector<ComparedPoint> read_value_dump(const std::string& path) {
  DumpReader reader;
  try {
    const bool one = std::filesystem::exists(path);
    const std::size_t files = reader.read(first_file(path), 0);
    for (std::size_t rank = 1; !one && rank < files; ++rank) {
      const std::string own = path_of_rank(path, rank);
      if (!std::filesystem::exists(own)) refuse_dump(own, "there is no such file");
      reader.read(own, rank);
    }
  } catch (const Json::exception& error) {
    refuse_dump(path, error.what());
  }
  return reader.end();
}

}  // namespace shardlab
