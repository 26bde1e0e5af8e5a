// json_tree.h - a large JSON text, read into two blocks of memory: no value has memory of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab {

/// A value of another kind was expected, or a member or an entry that does not exist.
class JsonTreeError : public std::runtime_error {
 public:
  using runtime_error::runtime_error;
};

class JsonTree;

/// A value; lives as long as its tree. Functions that ask for a kind fail with JsonTreeError.
class JsonNode {
 public:
  enum class Kind : std::uint8_t { kNull, kBool, kInteger, kReal, kText, kList, kObject };

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_object() const { return kind_ == Kind::kObject; }
  bool is_text() const { return kind_ == Kind::kText; }
  bool is_integer() const { return kind_ == Kind::kInteger; }
  bool is_number() const { return kind_ == Kind::kInteger || kind_ == Kind::kReal; }

  /// Its name in the object that it is a member of.
  std::string_view key() const { return key_; }
  bool boolean() const;
  std::int64_t integer() const;
  double real() const;
  std::string_view text() const;

  /// Entries of a list, or members of an object; none of other kinds.
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  class Iterator {
   public:
    using value_type = JsonNode;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(const JsonNode* at = nullptr) : at_(at) {}
    const JsonNode& operator*() const { return *at_; }
    const JsonNode* operator->() const { return at_; }
    Iterator& operator++() {
      at_ += at_->span_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const JsonNode* at_;
  };
  Iterator begin() const { return Iterator(this + 1); }
  Iterator end() const { return Iterator(this + span_); }

  /// The last of several members of one name; null if there is none.
  const JsonNode* find(std::string_view key) const;
  const JsonNode& at(std::string_view key) const;
  const JsonNode& at(std::size_t index) const;
  bool contains(std::string_view key) const { return find(key) != nullptr; }

  /// The value as JSON, for messages.
  std::string dump() const;
  bool operator==(const JsonNode& other) const { return dump() == other.dump(); }

 private:
  friend class JsonTree;
  [[noreturn]] void refuse(std::string_view expected) const;

  Kind kind_ = Kind::kNull;
  std::uint32_t size_ = 0;
  std::uint32_t span_ = 1;  // nodes from here to behind its last entry
  std::string_view key_, text_;
  union {
    std::int64_t integer_ = 0;
    double real_;
  };
};

class JsonTree {
 public:
  ///   fails  JsonTreeError: no JSON
  explicit JsonTree(const std::string& text);
  JsonTree& operator=(JsonTree&&) = delete;
  const JsonNode& root() const { return nodes_.front(); }

 private:
  class Builder;
  std::vector<JsonNode> nodes_;  // each before its entries
  std::string texts_;
};

}  // namespace shardlab
