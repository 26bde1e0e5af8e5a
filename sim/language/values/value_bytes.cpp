// A letter for the kind, then the contents: numbers as they are in memory, and texts and containers
// after their length.
#include "sim/language/values/value_bytes.h"

#include <cstring>

#include "base/fix.h"
#include "sim/language/values/dict_entries.h"

namespace shardlab {

namespace {

class Writer {
 public:
  void put(const Value& value) {
    if (value.is_none()) return tag('n');
    if (const auto* flag = value.get<bool>()) return tag(*flag ? 't' : 'f');
    if (const auto* integer = value.get<std::int64_t>()) return number('i', *integer);
    if (const auto* real = value.get<double>()) return number('d', *real);
    if (const auto* text = value.get<std::string>()) {
      number('s', static_cast<std::int64_t>(text->size()));
      bytes += *text;
      return;
    }
    if (value.is_sequence()) {
      const Values& items = items_of(value);
      number(value.is<ListValue>() ? 'l' : 'u', static_cast<std::int64_t>(items.size()));
      for (const Value& item : items) put(item);
      return;
    }
    if (const auto* dict = value.get<DictValue>()) {
      number('m', static_cast<std::int64_t>(dict->entries->size()));
      for (const auto& [key, item] : *dict->entries) {
        put(key);
        put(item);
      }
      return;
    }
    fail(Fix{value.is_tensor() ? "send tensors with dist.all_gather, broadcast, gather or scatter"
                               : "send None, bools, numbers, strings, and lists, tuples and dicts"},
         "{} is not sent as an object", a_kind(value));
  }

  std::string bytes;

 private:
  void tag(char kind) { bytes += kind; }
  void number(char kind, auto value) {
    tag(kind);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
};

struct Reader {
  Value value() {
    const char kind = take(1)[0];
    switch (kind) {
      case 'n':
        return {};
      case 't':
      case 'f':
        return kind == 't';
      case 'i':
        return number<std::int64_t>();
      case 'd':
        return number<double>();
      case 's':
        return std::string(take(size()));
      case 'l':
        return make_list(items());
      case 'u':
        return make_tuple(items());
      case 'm':
        return dict();
      default:
        fail(ErrorKind::kInternal, "a value of kind {}", static_cast<int>(kind));
    }
  }

  std::string_view take(std::size_t count) {
    check_invariant(count <= bytes_.size(), "a value was sent whole");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::size_t size() { return static_cast<std::size_t>(number<std::int64_t>()); }
  Values items() {
    Values items;
    for (std::size_t left = size(); left > 0; --left) items.push_back(value());
    return items;
  }
  Value dict() {
    const DictValue dict = make_dict();
    for (std::size_t left = size(); left > 0; --left) {
      const Value key = value();
      dict.entries->set(key, value());
    }
    return dict;
  }

  std::string_view bytes_;
};

}  // namespace

std::string bytes_of(const Value& value) {
  Writer writer;
  writer.put(value);
  return std::move(writer.bytes);
}

Value value_of_bytes(std::string_view bytes) { return Reader{bytes}.value(); }

}  // namespace shardlab
