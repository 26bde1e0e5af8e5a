// wire.h - values as bytes, for messages between processes of one machine type. The reader knows
// the types that were written: nothing is tagged.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/fix.h"

namespace shardlab::process {

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
  /// The bytes so far; they live as long as the writer.
  std::string_view bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

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
  /// True when all bytes have been read.
  bool at_end() const { return rest_.empty(); }

 private:
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
