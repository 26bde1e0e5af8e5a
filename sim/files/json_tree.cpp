// The library finds the tokens; texts are put one behind the other, and are named by their places
// until all are there.
#include "sim/files/json_tree.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include "sim/files/json_value.h"

namespace shardlab {

// The end of a list or an object is known when it comes.
class JsonTree::Builder final : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(JsonTree& tree) : tree_(tree) {}

  bool null() override { return add(JsonNode::Kind::kNull), true; }
  bool boolean(bool value) override {
    add(JsonNode::Kind::kBool).integer_ = value ? 1 : 0;
    return true;
  }
  bool number_integer(number_integer_t value) override {
    add(JsonNode::Kind::kInteger).integer_ = value;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) return false;
    return number_integer(static_cast<number_integer_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    add(JsonNode::Kind::kReal).real_ = value;
    return true;
  }
  bool string(string_t& value) override {
    JsonNode& node = add(JsonNode::Kind::kText);
    node.text_ = placed(value);
    return true;
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(JsonNode::Kind::kObject); }
  bool start_array(std::size_t) override { return open(JsonNode::Kind::kList); }
  bool key(string_t& value) override {
    key_ = placed(value);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    throw JsonTreeError(error.what());
  }

 private:
  // Texts do not move: the tree has room for all of them.
  std::string_view placed(const std::string& text) {
    const std::size_t at = tree_.texts_.size();
    tree_.texts_ += text;
    return std::string_view(tree_.texts_).substr(at);
  }

  JsonNode& add(JsonNode::Kind kind) {
    if (!open_.empty()) ++tree_.nodes_[open_.back()].size_;
    JsonNode& node = tree_.nodes_.emplace_back();
    node.kind_ = kind;
    node.key_ = key_;
    key_ = {};
    return node;
  }

  bool open(JsonNode::Kind kind) {
    constexpr std::size_t kDeepest = 200;
    if (open_.size() >= kDeepest) throw JsonTreeError("lists inside of lists, 200 deep");
    add(kind);
    open_.push_back(tree_.nodes_.size() - 1);
    return true;
  }

  bool close() {
    JsonNode& node = tree_.nodes_[open_.back()];
    node.span_ = static_cast<std::uint32_t>(tree_.nodes_.size() - open_.back());
    open_.pop_back();
    return true;
  }

  JsonTree& tree_;
  std::vector<std::size_t> open_;  // lists and objects
  std::string_view key_;
};

JsonTree::JsonTree(const std::string& text) {
  texts_.reserve(text.size());  // no text is longer without its quotes and escapes
  nodes_.reserve(text.size() / 16);
  Builder builder(*this);
  const bool read = Json::sax_parse(text, &builder);
  if (!read || nodes_.empty()) throw JsonTreeError("no JSON");
}

void JsonNode::refuse(std::string_view expected) const {
  throw JsonTreeError(
      fmt::format("{}{}{} is no {}", key_, key_.empty() ? "" : ": ", dump(), expected));
}

bool JsonNode::boolean() const {
  if (kind_ != Kind::kBool) refuse("true or false");
  return integer_ != 0;
}

std::int64_t JsonNode::integer() const {
  if (kind_ != Kind::kInteger) refuse("integer");
  return integer_;
}

double JsonNode::real() const {
  if (kind_ == Kind::kInteger) return static_cast<double>(integer_);
  if (kind_ != Kind::kReal) refuse("number");
  return real_;
}

std::string_view JsonNode::text() const {
  if (kind_ != Kind::kText) refuse("text");
  return text_;
}

const JsonNode* JsonNode::find(std::string_view key) const {
  const JsonNode* found = nullptr;
  if (kind_ != Kind::kObject) return found;
  for (const JsonNode& member : *this) {
    if (member.key_ == key) found = &member;
  }
  return found;
}

const JsonNode& JsonNode::at(std::string_view key) const {
  const JsonNode* found = find(key);
  if (found == nullptr) refuse(fmt::format("object with '{}'", key));
  return *found;
}

const JsonNode& JsonNode::at(std::size_t index) const {
  if (kind_ != Kind::kList || index >= size_) refuse(fmt::format("list of over {}", index));
  Iterator entry = begin();
  while (index-- > 0) ++entry;
  return *entry;
}

std::string JsonNode::dump() const {
  switch (kind_) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return integer_ != 0 ? "true" : "false";
    case Kind::kInteger:
      return std::to_string(integer_);
    case Kind::kReal:
      return fmt::format("{}", real_);
    case Kind::kText:
      return json_line(Json(text_));
    default:
      break;
  }
  const bool object = kind_ == Kind::kObject;
  std::string text(1, object ? '{' : '[');
  for (const JsonNode& entry : *this) {
    if (text.size() > 1) text += ',';
    if (object) text += json_line(Json(entry.key_)) + ":";
    text += entry.dump();
  }
  return text + (object ? '}' : ']');
}

}  // namespace shardlab
