// pickle_machine.h - the opcodes that are read of pickles, each as a call of the values that it
// makes: those of a Pickle, or smaller ones, where a file is read many times. Private to readers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "sim/checkpoint/pickle.h"

namespace shardlab {

enum class PickleEnd : std::uint8_t { kNone, kStop, kCut, kDamaged, kUnknown };

/// `Values` has the stack. Its functions are false if an opcode does not fit.
template <typename Values>
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, Values& values) : bytes_(bytes), values_(values) {}

  /// Runs until the pickle ends; `begin`: the byte of the last opcode, set before it is run.
  PickleEnd run(std::size_t& begin) {
    const char* const end = bytes_.data() + bytes_.size();
    for (const char* at = bytes_.data(); at != end;) {
      begin = static_cast<std::size_t>(at - bytes_.data());
      const char code = *at++;
      const std::size_t width = kWidths[static_cast<unsigned char>(code)];
      if (static_cast<std::size_t>(end - at) < width) return PickleEnd::kCut;
      const std::uint64_t number = loaded(at, end, width);
      at += width;
      const PickleEnd found = take(code, number, at, end);
      if (found != PickleEnd::kNone) return found;
    }
    begin = bytes_.size();
    return PickleEnd::kCut;
  }

 private:
  using Kind = PickleKind;

  // The bytes behind an opcode that give a number or a length.
  static constexpr auto kWidths = [] {
    std::array<std::uint8_t, 256> widths{};
    for (const unsigned char code : {'K', 'q', 'h', '\x80', '\x8a', '\x8c'}) widths[code] = 1;
    widths['M'] = 2;
    for (const unsigned char code : {'J', 'X', 'r', 'j'}) widths[code] = 4;
    for (const unsigned char code : {'G', '\x8d', '\x95'}) widths[code] = 8;
    return widths;
  }();

  // `width` bytes, little-endian; one access where the file goes on.
  static std::uint64_t loaded(const char* at, const char* end, std::uint64_t width) {
    std::uint64_t value = 0;
    if (end - at < 8) {
      std::memcpy(&value, at, width);
      return value;
    }
    std::memcpy(&value, at, 8);
    return width == 8 ? value : value & ((std::uint64_t{1} << 8 * width) - 1);
  }

  // An integer of `width` bytes with a sign.
  static std::int64_t wide(std::uint64_t value, std::uint64_t width) {
    const int shift = 64 - 8 * static_cast<int>(width);
    return width == 0 ? 0 : static_cast<std::int64_t>(value << shift) >> shift;
  }

  static PickleEnd none_if(bool fits) { return fits ? PickleEnd::kNone : PickleEnd::kDamaged; }
  PickleEnd push(Kind kind, std::int64_t value) {
    values_.push(kind, value);
    return PickleEnd::kNone;
  }

  // Opcodes that put a value on the stack, or aside. `at` is behind the opcode's own bytes, which
  // are `number`. Inlined, as each is called in one place: a tenth of the time of small values.
  [[gnu::always_inline]] PickleEnd take(char code, std::uint64_t number, const char*& at,
                                        const char* end) {
    switch (code) {
      case 'h':
      case 'j':
        return none_if(values_.recall(number));
      case '\x94':
        return none_if(values_.keep(values_.kept_count()));
      case 'q':
      case 'r':
        // A file that is read here is longer than the places that it has.
        return none_if(number < bytes_.size() && values_.keep(number));
      case 'X':
      case '\x8c':
      case '\x8d':
      case '\x8a': {
        if (number > static_cast<std::uint64_t>(end - at)) return PickleEnd::kCut;
        const char* const from = at;
        at += number;
        if (code != '\x8a') return none_if(values_.push_text({from, number}));
        if (number > sizeof(number)) return none_if(values_.push_long({from, number}));
        return push(Kind::kInteger, wide(loaded(from, end, number), number));
      }
      case 'K':
      case 'M':
        return push(Kind::kInteger, static_cast<std::int64_t>(number));
      case 'J':
        return push(Kind::kInteger, wide(number, 4));
      case 'G':
        return push(Kind::kReal, static_cast<std::int64_t>(__builtin_bswap64(number)));
      case 'N':
        return push(Kind::kNone, 0);
      case '\x88':
      case '\x89':
        return push(Kind::kBool, code == '\x88' ? 1 : 0);
      default:
        return build(code, number, at, end);
    }
  }

  // Opcodes that take what is on the stack.
  [[gnu::always_inline]] PickleEnd build(char code, std::uint64_t number, const char*& at,
                                         const char* end) {
    switch (code) {
      case '}':
      case ']':
      case ')':
        values_.push_container(code == '}'   ? Kind::kDict
                               : code == ']' ? Kind::kList
                                             : Kind::kTuple);
        return PickleEnd::kNone;
      case '(':
        values_.mark();
        return PickleEnd::kNone;
      case 'u':
      case 'e':
        return none_if(values_.close(code == 'u' ? Kind::kDict : Kind::kList));
      case 's':
        return none_if(values_.append(Kind::kDict, 2));
      case 'a':
        return none_if(values_.append(Kind::kList, 1));
      case 't':
        return none_if(values_.close_tuple());
      case '\x85':
      case '\x86':
      case '\x87':
        return none_if(values_.make_tuple(static_cast<std::size_t>(code - '\x84')));
      case '\x80':
        return none_if(number <= 5);
      case '\x95': {
        const bool cut = number > static_cast<std::uint64_t>(end - at);
        return cut && !Values::kMayBeCut ? PickleEnd::kCut : PickleEnd::kNone;
      }
      case '.':
        return PickleEnd::kStop;
      default:
        return values_.object(code, at) ? PickleEnd::kNone : PickleEnd::kUnknown;
    }
  }

  std::string_view bytes_;
  Values& values_;
};

}  // namespace shardlab
