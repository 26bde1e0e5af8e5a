// wire.h - values as bytes, for messages between processes of one machine type. The reader knows
// the types that were written: nothing is tagged.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"

namespace shardlab::process {

/// Types that have parts: `fields(x)` is the tuple of those that are written, and read in their
/// place; pairs are their own.
template <typename T>
concept HasFields = requires(T& x) {
  fields(x);
};
template <typename T>
concept IsTuple = requires {
  std::tuple_size<std::remove_cvref_t<T>>::value;
};

/// Appends values; a type is written as its bytes and must not hold pointers.
class Writer {
 public:
  template <typename T>
  void put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  /// Length, then the bytes.
  void put_text(std::string_view text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  /// Count, then the values.
  template <typename T>
  void put_list(std::span<const T> values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
  /// Each of them: as text, as a list, by its fields, or as its bytes.
  template <typename... Values>
  void all(const Values&... values) {
    (one(values), ...);
  }
  /// The bytes so far; they live as long as the writer.
  std::string_view bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  template <typename T>
  void one(const T& value) {
    const auto each = [this](const auto&... parts) { all(parts...); };
    if constexpr (std::convertible_to<const T&, std::string_view>) {
      put_text(value);
    } else if constexpr (HasFields<const T>) {
      std::apply(each, fields(value));
    } else if constexpr (IsTuple<T>) {
      std::apply(each, value);
    } else if constexpr (std::ranges::sized_range<const T>) {
      put(static_cast<std::uint64_t>(value.size()));
      for (const auto& element : value) one(element);
    } else {
      put(value);
    }
  }

  std::string bytes_;
};

/// These values as the bytes of one message.
template <typename... Values>
std::string packed(const Values&... values) {
  Writer writer;
  writer.all(values...);
  return writer.take();
}

/// Reads what a Writer wrote, in the same order. Fails with Runtime where the bytes end too early.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    const std::string_view bytes = raw(sizeof(T));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  std::string text() { return std::string(raw(get<std::uint64_t>())); }
  template <typename T>
  std::vector<T> list() {
    std::vector<T> values;
    for (auto left = get<std::uint64_t>(); left > 0; --left) values.push_back(get<T>());
    return values;
  }
  /// Values that Writer::all wrote.
  template <typename... Values>
  void all(Values&... values) {
    (one(values), ...);
  }
  template <typename T>
  T read() {
    T value;
    one(value);
    return value;
  }
  /// True when all bytes have been read.
  bool at_end() const { return rest_.empty(); }

 private:
  template <typename T>
  void one(T& value) {
    const auto each = [this](auto&... parts) { all(parts...); };
    if constexpr (std::same_as<T, std::string>) {
      value = text();
    } else if constexpr (HasFields<T>) {
      std::apply(each, fields(value));
    } else if constexpr (IsTuple<T>) {
      std::apply(each, value);
    } else if constexpr (std::ranges::sized_range<T>) {
      for (auto left = get<std::uint64_t>(); left > 0; --left) one(value.emplace_back());
    } else {
      value = get<T>();
    }
  }

  std::string_view raw(std::uint64_t size) {
    if (size > rest_.size()) {
      fail(ErrorKind::kRuntime, Fix{"run the same build of shardlab on all hosts"},
           "a message of another process is cut short");
    }
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace shardlab::process
