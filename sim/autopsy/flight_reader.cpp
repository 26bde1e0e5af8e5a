// A file's form is known by its first byte. A pickle is read by the opcodes of plain values alone,
// so that nothing can be executed; JSON is pushed as a pickle would push it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "sim/autopsy/flight_values.h"
#include "sim/checkpoint/pickle_machine.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"

namespace shardlab {

namespace {

using Kind = FlightValue::Kind;

class JsonReader final : public nlohmann::json_sax<Json> {
 public:
  explicit JsonReader(FlightValues& values) : values_(values) {}

  bool null() override { return plain(Kind::kNone, 0); }
  bool boolean(bool value) override { return plain(Kind::kBool, value ? 1 : 0); }
  bool number_integer(std::int64_t value) override { return plain(Kind::kInteger, value); }
  bool number_unsigned(std::uint64_t value) override {
    return plain(Kind::kInteger, static_cast<std::int64_t>(value));
  }
  bool number_float(double, const std::string&) override { return plain(Kind::kReal, 0); }
  bool binary(Json::binary_t&) override { return false; }
  bool string(std::string& value) override {
    values_.push_own(value);
    return depth_ > 0;
  }
  bool key(std::string& value) override { return string(value); }
  bool start_object(std::size_t) override { return open(Kind::kDict); }
  bool start_array(std::size_t) override { return open(Kind::kList); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t place, const std::string&, const Json::exception&) override {
    damaged_at_ = place;
    return false;
  }

  std::size_t damaged_at() const { return damaged_at_; }

 private:
  static constexpr std::size_t kMostDepth = 64;

  bool plain(Kind kind, std::int64_t value) {
    values_.push(kind, value);
    return depth_ > 0;
  }
  bool open(Kind kind) {
    values_.push_container(kind);
    values_.mark();
    return ++depth_ < kMostDepth;
  }
  bool close() {
    --depth_;
    return values_.close();
  }

  FlightValues& values_;
  std::size_t depth_ = 0, damaged_at_ = 0;
};

// Both push the file's value; false: it ends early.
bool take_json(const std::string& path, std::string_view bytes, FlightValues& values) {
  JsonReader reader(values);
  if (Json::sax_parse(bytes, &reader)) return true;
  if (reader.damaged_at() > bytes.size()) return false;
  fail(ErrorKind::kValue, Fix{"write the dump again"}, "{}: the JSON is damaged at byte {}", path,
       reader.damaged_at());
}
bool take_pickle(const std::string& path, std::string_view bytes, FlightValues& values) {
  std::size_t begin = 0;
  const PickleEnd end = PickleMachine(bytes, values).run(begin);
  if (end == PickleEnd::kStop || end == PickleEnd::kCut) return end == PickleEnd::kStop;
  fail(ErrorKind::kValue, Fix{"write the dump again"}, "{}: the opcode {} at byte {} {}", path,
       opcode_name(bytes[begin]), begin,
       end == PickleEnd::kUnknown ? "is none of a dump's, and is not executed"
                                  : "does not fit: the pickle is damaged");
}

// The only rank that is in every group that has entries.
std::int64_t rank_of_groups(const FlightDump& dump) {
  std::vector<std::int64_t> common;
  bool first = true;
  for (const FlightGroup& group : dump.groups) {
    if (std::exchange(first, false)) {
      common = group.ranks;
      continue;
    }
    std::erase_if(common, [&](std::int64_t rank) {
      return std::ranges::find(group.ranks, rank) == group.ranks.end();
    });
  }
  return common.size() == 1 ? common[0] : -1;
}

}  // namespace

std::int64_t rank_in(std::string_view path) {
  for (const std::string_view ending : {".gz", ".json", ".pkl", ".pickle"}) {
    if (path.ends_with(ending)) path.remove_suffix(ending.size());
  }
  const std::size_t last = path.find_last_not_of("0123456789");
  const std::string_view digits = path.substr(last == std::string_view::npos ? 0 : last + 1);
  constexpr std::size_t kMostDigits = 9;
  if (digits.empty() || digits.size() > kMostDigits) return -1;
  return std::stoll(std::string(digits));
}

FlightDump read_flight_dump(const std::string& path, FlightValues& values) {
  return flight_dump_of(path, read_text(path), values);
}

FlightDump flight_dump_of(const std::string& path, const std::string& bytes, FlightValues& values) {
  FlightDump dump;
  dump.path = path;
  values.begin(dump);
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool json = first != std::string::npos && bytes[first] == '{';
  dump.cut = !(json ? take_json : take_pickle)(path, bytes, values);
  if (!values.finish()) {
    fail(ErrorKind::kValue, Fix{"give files of torch._C._distributed_c10d._dump_fr_trace"},
         "{}: no dump of a flight recorder", path);
  }
  std::ranges::sort(dump.entries, {}, &FlightEntry::record);
  constexpr std::int64_t kLast = std::int64_t{1} << 53;  // integers of JSON
  for (const FlightEntry& entry : dump.entries) {
    if (entry.record >= 0 && entry.record <= kLast) continue;
    fail(ErrorKind::kValue, Fix{"give the file as PyTorch wrote it"},
         "{}: records are numbered from 0, and one has {}", path, entry.record);
  }
  dump.rank = rank_in(path);
  if (dump.rank < 0) dump.rank = rank_of_groups(dump);
  if (dump.rank < 0) {
    fail(ErrorKind::kValue, Fix{"end its name with the rank: rank_3"}, "{}: whose dump is it?",
         path);
  }
  return dump;
}

}  // namespace shardlab
