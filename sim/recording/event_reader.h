// event_reader.h - the lines of a recording, one after another, as typed events.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/files/json_value.h"
#include "sim/recording/recorded_arguments.h"
#include "sim/recording/recorded_program.h"
#include "sim/recording/recorded_values.h"

namespace shardlab {

/// A kind of event, and the keys that it needs besides "k".
struct KindRow {
  std::string_view name;
  RecordedKind kind;
  std::vector<std::string_view> keys;
};

/// All kinds.
const std::vector<KindRow>& event_kinds();

/// Reads the keys of one event after another. Errors name no event: the caller adds it.
class EventReader {
 public:
  explicit EventReader(RecordedProgram& program)
      : program_(program),
        given_(static_cast<std::size_t>(program.values), false),
        is_taken_([this](const Json& number) { taken(number); }),
        arguments_(program, is_taken_) {}

  RecordedEvent read(const Json& json, const KindRow& row);
  std::int32_t taken(const Json& number) const;

 private:
  using Field = void (*)(EventReader&, const std::string& key, const Json&);
  static const std::unordered_map<std::string_view, Field>& fields();

  [[noreturn]] static void refuse_key(const std::string& key, const Json& value,
                                      std::string_view wanted);
  static void require_list(const std::string& key, const Json& value) {
    if (!value.is_array()) refuse_key(key, value, "a list");
  }
  static std::size_t natural(const std::string& key, const Json& value) {
    if (!value.is_number_unsigned()) refuse_key(key, value, "a count");
    return integer_of<std::size_t>(value);
  }

  template <bool RecordedEvent::*Member>
  static void flag(EventReader& reader, const std::string& key, const Json& value) {
    if (!value.is_boolean()) refuse_key(key, value, "a flag");
    reader.event_.*Member = value.get<bool>();
  }
  template <std::string RecordedEvent::*Member>
  static void text(EventReader& reader, const std::string& key, const Json& value) {
    if (!value.is_string()) refuse_key(key, value, "a text");
    reader.event_.*Member = value.get<std::string>();
  }
  template <bool RecordedEvent::*Member>
  static void said(EventReader& reader, const std::string&, const Json&) {
    reader.event_.*Member = true;
  }
  template <auto Member>
  static void count(EventReader& reader, const std::string& key, const Json& value) {
    reader.event_.*Member = natural(key, value);
  }
  template <std::vector<std::int32_t> RecordedEvent::*Member>
  static void numbers(EventReader& reader, const std::string& key, const Json& value) {
    reader.read_numbers(key, value, reader.event_.*Member);
  }
  template <Placements RecordedEvent::*Member>
  static void placements(EventReader& reader, const std::string& key, const Json& value) {
    require_list(key, value);
    reader.event_.*Member = placements_of(value);
  }

  template <auto Read>
  static void by(EventReader& reader, const std::string& key, const Json& value) {
    (reader.*Read)(key, value);
  }

  // Numbers of values; null is None.
  void read_numbers(const std::string& key, const Json& list, std::vector<std::int32_t>& numbers);
  void read_module(const std::string& key, const Json& path);
  void read_calls(const std::string& key, const Json& range);
  void read_collectives(const std::string&, const Json& list);
  void read_moves(const std::string&, const Json& list);
  void read_place(const std::string& key, const Json& number);
  void read_pass(const std::string& key, const Json& name);
  void read_rank(const std::string& key, const Json& number);
  void read_error(const std::string&, const Json& error) { event_.error = error.dump(); }
  void read_constant(const std::string& key, const Json& flags);
  void read_wanted(const std::string& key, const Json& list);
  void read_through(const std::string& key, const Json& functions);
  void read_offsets(const std::string& key, const Json& offset);
  EventValue value(const Json& json);
  // Keys whose meaning is another one in another kind of event.
  void read_parts(const Json& json, const KindRow& row);
  void read_call(const Json& json);
  void check(const Json& json, const KindRow& row) const;
  void check_function(const Json& json) const;

  RecordedProgram& program_;
  std::vector<bool> given_;  // by number of a value: an earlier event has made it
  const std::function<void(const Json&)> is_taken_;
  ArgumentReader arguments_;
  std::unordered_map<std::string, std::int32_t> modules_;
  RecordedEvent event_;
};

}  // namespace shardlab
