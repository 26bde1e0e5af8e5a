// event_reader.h - the lines of a recording, one after another, as typed events.
#pragma once

#include <map>
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
        take_([this](const Json& number, std::int32_t rank) { return taken(number, rank); }),
        arguments_(program, take_) {}

  /// The event that the line has. Values of ranks that it takes as one come before it, as events of
  /// their own, at the end of the program's.
  RecordedEvent read(const Json& json, const KindRow& row);

 private:
  // The number of a value that the event takes, by those of the file: 4, {"v": 4}, or one of each
  // rank, {"ranks": [4, {"v": 5}, null]}, which become one. `rank`: of the only one that takes it;
  // -1: all. None is -1.
  std::int32_t taken(const Json& number, std::int32_t rank = -1);
  std::int32_t taken_on(const Json& number, std::size_t rank) const;
  std::int32_t chosen(const std::vector<std::int32_t>& of_ranks);
  bool is_given(std::int32_t number) const {
    return number >= 0 && number < std::ssize(given_) && given_[static_cast<std::size_t>(number)];
  }
  // The file's number of a value that has one of each rank.
  std::int32_t number_on(const Json& number, std::size_t rank) const;
  // The number of a value that the event makes.
  std::int32_t made(const Json& number);
  // A call may have, on some ranks, a value of its own that no op has given: another view.
  void take_as_given(const Json& number, const EventValue& value);
  void take_list(const std::string& key, const Json& list, std::int32_t rank,
                 std::vector<std::int32_t>& numbers);
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
  void read_types(const std::string& key, const Json& list);
  void read_checkpoint(const std::string& key, const Json& place);
  enum class Role : std::uint8_t { kMade, kTaken };
  EventValue value(const Json& json, Role role);
  // Keys whose meaning is another one in another kind of event.
  void read_parts(const Json& json, const KindRow& row);
  void read_call(const Json& json);
  void check(const Json& json, const KindRow& row) const;
  void check_function(const Json& json) const;

  RecordedProgram& program_;
  std::vector<bool> given_;  // by number of a value: an earlier event has made it
  // The value of each rank under a number of the file, if ranks have different ones under it.
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> numbers_;
  std::unordered_map<std::int32_t, EventValue> types_;  // by number; of programs on several ranks
  std::map<std::vector<std::int32_t>, std::int32_t> chosen_;  // by the current event
  const TakeValue take_;
  ArgumentReader arguments_;
  std::unordered_map<std::string, std::int32_t> modules_;
  RecordedEvent event_;
};

}  // namespace shardlab
