// flight_values.h - the values of a dump while it is read, and entries as they are complete.
// Private to the readers.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/autopsy/flight_dump.h"
#include "sim/checkpoint/pickle.h"

namespace shardlab {

/// The keys of entries and of their frames.
enum class FlightField : std::uint8_t {
  kRecord,
  kGroup,
  kSequence,
  kMessageSequence,
  kOp,
  kCreated,
  kStarted,
  kSizes,
  kDtypes,
  kOutputSizes,
  kState,
  kRetired,
  kIsMessage,
  kThread,
  kFrames,
  kName,
  kFile,
  kLine,
  kCount,
  kOther = kCount,
  kTorch  ///< no key: a file of torch
};

/// A value, small enough to copy. Texts of one file that are equal have one place.
struct FlightValue {
  using Kind = PickleKind;  ///< tuples are lists, frames records
  Kind kind = Kind::kNone;
  FlightField field = FlightField::kOther;  ///< of text
  std::uint32_t count = 0;                  ///< of text
  union {
    std::int64_t integer = 0;  ///< a number; of containers and frames their place
    const char* text;
  };
  std::string_view view() const {
    return kind == Kind::kText ? std::string_view(text, count) : std::string_view();
  }
};

/// A stack of values as both forms of a dump build them. Dicts that are entries go to the dump at
/// once.
class FlightValues {
 public:
  static constexpr bool kMayBeCut = true;

  explicit FlightValues(FlightWords& words) : words_(words) {}
  /// For the next file: memory is kept.
  void begin(FlightDump& dump);

  // Inlined: half of all opcodes do nothing else.
  [[gnu::always_inline]] void push(FlightValue value) {
    if (size_ == stack_.size()) [[unlikely]]
      grow();
    stack_[size_++] = value;
  }
  [[gnu::always_inline]] void push(FlightValue::Kind kind, std::int64_t value = 0) {
    push({.kind = kind, .integer = value});
  }
  /// Texts of the file's bytes: equal ones become one.
  bool push_text(std::string_view text);
  /// Another text, of which a copy is kept.
  void push_own(const std::string& text);
  bool push_long(std::string_view) { return false; }
  void push_container(FlightValue::Kind kind) {
    push(kind == FlightValue::Kind::kTuple ? FlightValue::Kind::kList : kind,
         static_cast<std::int64_t>(boxes_.size()));
    boxes_.push_back({});
  }
  void mark() { marks_.push_back(static_cast<std::uint32_t>(size_)); }
  /// A pickle puts the top value aside under a number, and takes it again.
  bool keep(std::uint64_t place) {
    // Pickles number one after the other.
    if (size_ == 0 || place > memo_size_ + kRoom) return false;
    if (place >= memo_.size()) memo_.resize(2 * place + kRoom);
    memo_[place] = stack_[size_ - 1];
    memo_size_ = std::max<std::size_t>(memo_size_, place + 1);
    return true;
  }
  bool recall(std::uint64_t place) {
    if (place < memo_size_) push(memo_[place]);
    return place < memo_size_;
  }
  std::size_t kept_count() const { return memo_size_; }
  /// Opcodes of classes and of calls: none is read.
  static bool object(char, const char*) { return false; }
  /// The values above the last mark, or the last `count`, become entries of the container below
  /// them. False: there is no such container.
  bool close(FlightValue::Kind = FlightValue::Kind::kList);
  bool append(FlightValue::Kind, std::size_t count) { return extend(size_ - count, count); }
  /// They become a tuple in its place.
  bool close_tuple();
  bool make_tuple(std::size_t count);
  /// The end of the file, or of a part of one: what is open is closed. Whether it is a dump.
  bool finish();

 private:
  struct Box {
    std::size_t begin = 0, count = 0, room = 0;
  };
  struct Frame {
    std::string_view function, file;
    std::int64_t line = 0;
    bool of_torch = false;
  };
  using Fields = std::array<FlightValue, static_cast<std::size_t>(FlightField::kCount)>;
  static const FlightValue& at(const Fields& fields, FlightField field) {
    return fields[static_cast<std::size_t>(field)];
  }

  [[gnu::noinline]] void grow() { stack_.resize(2 * size_ + kRoom); }
  bool extend(std::size_t from, std::size_t count);
  void move_into(Box& box, std::size_t from);
  bool take_frame(std::size_t from, std::size_t count);
  void take_entry(const Fields& fields);
  std::int32_t word_of(const Fields& fields);
  const Frame* user_frame(const FlightValue& frames) const;
  const FlightValue* items(const FlightValue& container, std::size_t& count) const;
  std::uint64_t digest(const FlightValue& value) const;
  std::string text_of(const FlightValue& value) const;
  void take_groups(const FlightValue& config);

  static constexpr std::size_t kRoom = 1024;

  FlightDump* dump_ = nullptr;
  FlightWords& words_;
  std::vector<FlightValue> stack_, memo_, pool_;
  std::size_t size_ = 0, memo_size_ = 0;  // of the stack and the memo
  std::vector<std::uint32_t> marks_;
  std::vector<Box> boxes_;
  std::vector<Frame> frames_;
  std::unordered_map<std::uint64_t, std::int32_t> numbers_;  // of words, by digest
  std::unordered_map<std::string_view, std::int32_t> groups_;
  std::unordered_map<std::string_view, FlightField> texts_;
  std::deque<std::string> own_texts_;
};

/// The number at the end of "dir/rank_12", "rank_12.json", "rank_12.json.gz"; -1: there is none.
std::int64_t rank_in(std::string_view path);
/// Reads a pickle or JSON, compressed or not. The rank is the number at the end of the file's name,
/// else the only one that its groups have.
///   fails  Value: no dump, or damaged, with the byte; another opcode, by name; no rank
FlightDump read_flight_dump(const std::string& path, FlightValues& values);
/// The same of a file's bytes.
FlightDump flight_dump_of(const std::string& path, const std::string& bytes, FlightValues& values);

}  // namespace shardlab
