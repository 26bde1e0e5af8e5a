// JSON, pushed as a pickle would push it.
#include <fmt/format.h>

#include "base/error.h"
#include "sim/autopsy/flight_values.h"
#include "sim/files/json_value.h"

namespace shardlab {

using Kind = FlightValue::Kind;

namespace {

class JsonReader final : public nlohmann::json_sax<Json> {
 public:
  JsonReader(FlightValues& values, FlightTexts& texts) : values_(values), texts_(texts) {}

  bool null() override { return plain(Kind::kNone, 0); }
  bool boolean(bool value) override { return plain(Kind::kBool, value ? 1 : 0); }
  bool number_integer(std::int64_t value) override { return plain(Kind::kInteger, value); }
  bool number_unsigned(std::uint64_t value) override {
    return plain(Kind::kInteger, static_cast<std::int64_t>(value));
  }
  bool number_float(double, const std::string&) override { return plain(Kind::kReal, 0); }
  bool binary(Json::binary_t&) override { return false; }
  bool string(std::string& value) override {
    values_.push_text(*texts_.insert(std::move(value)).first);
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
  FlightTexts& texts_;
  std::size_t depth_ = 0, damaged_at_ = 0;
};

}  // namespace

bool read_flight_json(const std::string& path, std::string_view bytes, FlightValues& values,
                      FlightTexts& texts) {
  JsonReader reader(values, texts);
  if (Json::sax_parse(bytes, &reader)) return true;
  if (reader.damaged_at() > bytes.size()) return false;
  fail(ErrorKind::kValue, Fix{"write the dump again"}, "{}: the JSON is damaged at byte {}", path,
       reader.damaged_at());
}

}  // namespace shardlab
