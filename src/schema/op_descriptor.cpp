// A recursive-descent reader of ATen schema text, and the printer that gives the same text back.
// All queries are answered from alias marks and not from names: "_" at the end of a name or
// "out" in an overload proves nothing.
#include "schema/op_descriptor.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace shardlab {
namespace {

struct TypeName {
  std::string_view text;
  TypeKind kind;
};
// SymInt is an int that may be symbolic while tracing; sizes are always known here.
constexpr TypeName kTypeNames[] = {
    {"Tensor", TypeKind::kTensor},       {"Scalar", TypeKind::kScalar},
    {"SymInt", TypeKind::kInt},          {"int", TypeKind::kInt},
    {"float", TypeKind::kFloat},         {"bool", TypeKind::kBool},
    {"complex", TypeKind::kComplex},     {"str", TypeKind::kString},
    {"ScalarType", TypeKind::kDType},    {"Device", TypeKind::kDevice},
    {"Layout", TypeKind::kLayout},       {"MemoryFormat", TypeKind::kMemoryFormat},
    {"Generator", TypeKind::kGenerator},
};

constexpr auto kIsWord = [] {
  std::array<bool, 256> is_word{};
  for (const char c :
       std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")) {
    is_word[static_cast<unsigned char>(c)] = true;
  }
  return is_word;
}();

/// Reads one schema text from left to right.
class SchemaReader {
 public:
  explicit SchemaReader(std::string_view text) : text_(text) {}

  OpDescriptor read() {
    OpDescriptor op;
    read_name(op);
    expect('(');
    read_arguments(op);
    skip_spaces();
    if (text_.substr(at_, 2) != "->") refuse("expected '->'");
    at_ += 2;
    read_returns(op);
    skip_spaces();
    if (at_ != text_.size()) refuse("text after the returns");
    return op;
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    fail(Fix{"write it as ATen does: \"add.Tensor(Tensor self, Tensor other) -> Tensor\""},
         "op schema: {} at position {} of \"{}\"", what, at_, text_);
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char wanted) {
    skip_spaces();
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted)) refuse(fmt::format("expected '{}'", wanted));
  }
  static bool is_word(char c) { return kIsWord[static_cast<unsigned char>(c)]; }
  std::string_view word(const char* what) {
    skip_spaces();
    const std::size_t first = at_;
    while (is_word(peek())) ++at_;
    if (at_ == first) refuse(what);
    return text_.substr(first, at_ - first);
  }

  void read_name(OpDescriptor& op) {
    const std::string_view name = word("expected an op name");
    if (text_.substr(at_, 2) == "::") {
      at_ += 2;
      const std::string_view rest = word("expected an op name after '::'");
      op.base.assign(name).append("::").append(rest);
    } else {
      op.base.assign("aten::").append(name);
    }
    if (peek() == '.') {
      ++at_;
      op.overload = word("expected an overload name after '.'");
      if (op.overload == "default") op.overload.clear();
    }
  }

  void read_arguments(OpDescriptor& op) {
    bool keyword_only = false;
    if (accept(')')) return;
    // At least as many as there are.
    op.arguments.reserve(1 + static_cast<std::size_t>(std::ranges::count(text_, ',')));
    do {
      if (accept('*')) {
        keyword_only = true;
        continue;
      }
      SchemaArgument& argument = op.arguments.emplace_back();
      read_type(argument.type, argument.alias);
      argument.name = word("expected an argument name");
      argument.keyword_only = keyword_only;
      argument.is_out = keyword_only && argument.alias.write;
      if (accept('=')) argument.default_text = default_text();
    } while (accept(','));
    expect(')');
  }

  void read_type(SchemaType& type, AliasInfo& alias) {
    type.name = word("expected a type");
    const auto known = std::ranges::find(kTypeNames, type.name, &TypeName::text);
    if (known != std::end(kTypeNames)) type.kind = known->kind;
    for (;; ++at_) {
      if (peek() == '?') {
        type.is_optional = true;
      } else if (peek() == '[') {
        type.elements_optional = type.is_optional;
        type.is_optional = false;
        type.is_list = true;
        for (const char c : up_to(']')) {
          if (c >= '0' && c <= '9') type.list_size = type.list_size * 10 + (c - '0');
        }
      } else if (peek() == '(') {
        alias.marks = up_to(')').substr(1);
        alias.write = alias.marks.find('!') != std::string_view::npos;
      } else {
        return;
      }
    }
  }

  // The text from here to this sign, which must be present.
  std::string_view up_to(char sign) {
    const std::size_t first = at_;
    while (peek() != sign && peek() != '\0') ++at_;
    if (peek() == '\0') refuse(fmt::format("expected '{}'", sign));
    return text_.substr(first, at_ - first);
  }

  std::string_view default_text() {
    skip_spaces();
    const std::size_t first = at_;
    if (peek() == '"') {
      ++at_;
      while (peek() != '"' && peek() != '\0') ++at_;
      ++at_;
    } else if (peek() == '[') {
      while (peek() != ']' && peek() != '\0') ++at_;
      ++at_;
    } else {
      while (peek() != ',' && peek() != ')' && peek() != '\0') ++at_;
    }
    if (at_ == first) refuse("expected a default after '='");
    if (at_ > text_.size()) refuse("unfinished default");
    return text_.substr(first, at_ - first);
  }

  void read_returns(OpDescriptor& op) {
    if (!accept('(')) {
      op.returns.push_back(read_return());
      return;
    }
    if (accept(')')) return;
    do {
      op.returns.push_back(read_return());
    } while (accept(','));
    expect(')');
  }

  SchemaReturn read_return() {
    SchemaReturn result;
    skip_spaces();
    read_type(result.type, result.alias);
    skip_spaces();
    if (is_word(peek())) result.name = word("expected a name");
    return result;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string type_text(const SchemaType& type, const AliasInfo& alias) {
  return type.spelling(alias.marks.empty() ? "" : fmt::format("({})", alias.marks));
}

std::string argument_text(const SchemaArgument& argument) {
  std::string text = type_text(argument.type, argument.alias);
  text.append(" ").append(argument.name);
  if (argument.default_text) text.append("=").append(*argument.default_text);
  return text;
}

std::string return_text(const SchemaReturn& result) {
  std::string text = type_text(result.type, result.alias);
  if (!result.name.empty()) text.append(" ").append(result.name);
  return text;
}

}  // namespace

OpDescriptor parse_literal_schema(std::string_view text) { return SchemaReader(text).read(); }

OpDescriptor parse_op_schema(std::string_view text) {
  auto kept = std::make_shared<const std::string>(text);
  OpDescriptor op = parse_literal_schema(*kept);
  op.kept_text = std::move(kept);
  return op;
}

std::string SchemaType::spelling(std::string_view marks) const {
  std::string text(name);
  text += marks;
  if (is_list) {
    if (elements_optional) text += '?';
    text += list_size == 0 ? "[]" : fmt::format("[{}]", list_size);
  }
  if (is_optional) text += '?';
  return text;
}

std::string OpDescriptor::text() const {
  std::string text = name() + "(";
  bool keyword_only = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i > 0) text += ", ";
    if (arguments[i].keyword_only && !keyword_only) text += "*, ";
    keyword_only = arguments[i].keyword_only;
    text += argument_text(arguments[i]);
  }
  text += ") -> ";
  if (returns.size() == 1 && returns[0].name.empty()) return text + return_text(returns[0]);
  text += "(";
  for (std::size_t i = 0; i < returns.size(); ++i) {
    if (i > 0) text += ", ";
    text += return_text(returns[i]);
  }
  return text + ")";
}

std::size_t OpDescriptor::positional_count() const {
  std::size_t count = 0;
  while (count < arguments.size() && !arguments[count].keyword_only) ++count;
  return count;
}

std::optional<std::size_t> OpDescriptor::find_argument(std::string_view name) const {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == name) return i;
  }
  return std::nullopt;
}

bool OpDescriptor::takes_tensor_lists() const {
  return std::ranges::any_of(arguments, [](const SchemaArgument& argument) {
    return argument.type.is_tensor() && argument.type.is_list;
  });
}

bool OpDescriptor::is_inplace() const {
  for (const SchemaArgument& argument : arguments) {
    if (!argument.alias.write || argument.keyword_only) continue;
    const auto gives = [&](const SchemaReturn& result) {
      return result.alias.write && result.alias.marks == argument.alias.marks;
    };
    if (returns.empty() || std::ranges::any_of(returns, gives)) return true;
  }
  return false;
}

bool OpDescriptor::is_out_variant() const {
  for (const SchemaArgument& argument : arguments) {
    if (argument.is_out) return true;
  }
  return false;
}

bool OpDescriptor::is_view() const {
  for (const SchemaArgument& argument : arguments) {
    if (argument.alias.write) return false;
  }
  for (const SchemaReturn& result : returns) {
    if (!result.alias.marks.empty()) return true;
  }
  return false;
}

bool OpDescriptor::returns_tuple_of_tensors() const {
  return returns.size() > 1 && returns[0].type.is_tensor() && !returns[0].type.is_list;
}
bool OpDescriptor::returns_list_of_tensors() const {
  return returns.size() == 1 && returns[0].type.is_tensor() && returns[0].type.is_list;
}
bool OpDescriptor::returns_tensor() const {
  return !returns.empty() && returns[0].type.is_tensor() && !returns[0].type.is_list;
}

}  // namespace shardlab
