// The opcodes with which dumps are written, and no other: values alone, so that nothing can be
// executed.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/fix.h"
#include "sim/autopsy/flight_values.h"
#include "sim/checkpoint/pickle.h"

namespace shardlab {

using Kind = FlightValue::Kind;

namespace {

// The bytes behind an opcode that give a number or a length.
constexpr auto kWidths = [] {
  std::array<std::uint8_t, 256> widths{};
  for (const unsigned char code : {'K', 'q', 'h', '\x80', '\x8a', '\x8c'}) widths[code] = 1;
  widths['M'] = 2;
  for (const unsigned char code : {'J', 'X', 'r', 'j'}) widths[code] = 4;
  for (const unsigned char code : {'G', '\x95'}) widths[code] = 8;
  return widths;
}();

// `width` bytes, little-endian; one access where the file goes on.
std::uint64_t loaded(const char* at, const char* end, std::uint64_t width) {
  std::uint64_t value = 0;
  if (end - at >= 8) {
    std::memcpy(&value, at, 8);
    return width == 8 ? value : value & ((std::uint64_t{1} << 8 * width) - 1);
  }
  std::memcpy(&value, at, width);
  return value;
}

// An integer of `width` bytes with a sign.
std::int64_t wide(std::uint64_t value, std::uint64_t width) {
  const int shift = 64 - 8 * static_cast<int>(width);
  return width == 0 ? 0 : static_cast<std::int64_t>(value << shift) >> shift;
}

constexpr std::uint64_t kMostKept = 1 << 26;

enum class Read : std::uint8_t { kFine, kEnd, kCut, kDamaged, kUnknown };

Read fine_if(bool fits) { return fits ? Read::kFine : Read::kDamaged; }

// Opcodes that take what is on the stack.
Read build(char code, FlightValues& values) {
  switch (code) {
    case '}':
      values.push_container(Kind::kDict);
      return Read::kFine;
    case ']':
    case ')':
      values.push_container(Kind::kList);
      return Read::kFine;
    case '(':
      values.mark();
      return Read::kFine;
    case 'u':
    case 'e':
      return fine_if(values.close());
    case 's':
      return fine_if(values.size() > 2 && values.append(2));
    case 'a':
      return fine_if(values.size() > 1 && values.append(1));
    case 't':
      return fine_if(values.close_tuple());
    case '\x85':
    case '\x86':
    case '\x87':
      return fine_if(values.make_tuple(static_cast<std::size_t>(code - '\x84')));
    case '\x80':
    case '\x95':
      return Read::kFine;
    case '.':
      return Read::kEnd;
    default:
      return Read::kUnknown;
  }
}

// Opcodes that put a value on the stack, or aside; the others go on to build(). `at` is behind the
// opcode's own bytes, which are `number`.
Read take(char code, std::uint64_t number, const char*& at, const char* end, FlightValues& values) {
  switch (code) {
    case 'h':
    case 'j': {
      const FlightValue* const kept = values.kept(number);
      if (kept != nullptr) values.push(*kept);
      return fine_if(kept != nullptr);
    }
    case '\x94':
    case 'q':
    case 'r': {
      const std::uint64_t place = code == '\x94' ? values.kept_count() : number;
      // A file that is read here is longer than the places that it has.
      if (values.size() == 0 || place > kMostKept) return Read::kDamaged;
      values.keep(place);
      return Read::kFine;
    }
    case 'X':
    case '\x8c':
    case '\x8a':
      if (number > static_cast<std::uint64_t>(end - at)) return Read::kCut;
      if (code != '\x8a') {
        values.push_text({at, number});
      } else if (number <= sizeof(number)) {
        values.push(Kind::kInteger, wide(loaded(at, end, number), number));
      } else {
        return Read::kDamaged;
      }
      at += number;
      return Read::kFine;
    case 'K':
    case 'M':
      values.push(Kind::kInteger, static_cast<std::int64_t>(number));
      return Read::kFine;
    case 'J':
      values.push(Kind::kInteger, wide(number, 4));
      return Read::kFine;
    case 'G':
    case 'N':
      values.push(code == 'G' ? Kind::kReal : Kind::kNone);
      return Read::kFine;
    case '\x88':
    case '\x89':
      values.push(Kind::kBool, code == '\x88' ? 1 : 0);
      return Read::kFine;
    default:
      return build(code, values);
  }
}

}  // namespace

bool read_flight_pickle(const std::string& path, std::string_view bytes, FlightValues& values) {
  const char* const end = bytes.data() + bytes.size();
  for (const char* at = bytes.data(); at != end;) {
    const char* const from = at;
    const char code = *at++;
    const std::size_t width = kWidths[static_cast<unsigned char>(code)];
    if (static_cast<std::size_t>(end - at) < width) return false;
    const std::uint64_t number = loaded(at, end, width);
    at += width;
    const Read read = take(code, number, at, end, values);
    if (read == Read::kFine) continue;
    if (read != Read::kDamaged && read != Read::kUnknown) return read == Read::kEnd;
    const bool known = read == Read::kDamaged;
    fail(
        ErrorKind::kValue, Fix{"write the dump again"}, "{}: the opcode {} at byte {} {}", path,
        opcode_name(code), from - bytes.data(),
        known ? "does not fit: the pickle is damaged" : "is none of a dump's, and is not executed");
  }
  return false;
}

}  // namespace shardlab
