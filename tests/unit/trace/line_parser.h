// line_parser.h - one line of a graph's text (graph_lines.h), parsed from left to right into the
// objects that JSON has. Only for src/trace.
#pragma once

#include <string>
#include <string_view>

#include "tests/unit/trace/line_types.h"
#include "trace/graph_objects.h"

namespace shardlab {

/// A word is a dtype among arguments, and a text in fields.
enum class WordIs : std::uint8_t { kDType, kText };

/// The content of the brackets of a call.
struct LineCall {
  GraphObject arguments = GraphObject::array();
  GraphObject fields = GraphObject::object();
};

/// Everything here fails with Value, naming line, column and field, where the line has something
/// else than what is expected.
class LineParser {
 public:
  /// `types`: null where the line cannot have any. `text` and `types` outlive it.
  LineParser(std::string_view text, std::size_t number, LineTypes* types)
      : text_(text), number_(number), types_(types) {}

  [[noreturn]] void refuse(std::string_view what) const { refuse_at(at_, what); }

  /// The next character that is not a space; 0 at the end.
  char peek();
  bool accept(char c);
  void expect(char c);
  /// "inputs.x", "aten::mul.Tensor"; empty where there is none at this place.
  std::string word();
  /// "requires_grad", likewise.
  std::string identifier();
  std::string word_or_text();
  /// Takes this identifier, or nothing.
  bool accept_word(std::string_view wanted);
  std::int64_t natural();

  GraphObject value(WordIs word_is, int depth = 0);
  /// "f32[8@dp, 64] mesh=1": an object of shape, dtype and the rest.
  GraphObject type();
  /// "f32[8, 64]": of shape and dtype alone.
  GraphObject plain_type();
  /// Up to ")", behind "(".
  LineCall rest_of_call();
  /// "line 20:23" or, for a guard, "line 18"; an empty list where there is none. Then the line
  /// ends.
  GraphObject place();
  void end();

 private:
  [[noreturn]] void refuse_at(std::size_t at, std::string_view what) const;

  std::size_t here();  ///< the place of peek()
  std::string letters_and(std::string_view others);
  GraphObject quoted();
  GraphObject number();
  GraphObject items(WordIs word_is, int depth);
  GraphObject fields(WordIs word_is, int depth);
  GraphObject of_word(WordIs word_is, int depth);
  GraphObject complex(int depth);
  void put(GraphObject& object, const std::string& key, GraphObject value) const;
  std::string_view type_extent();
  GraphObject behind_type();
  ParsedType parsed(std::string_view text, std::size_t at, std::int64_t mesh, bool plain) const;

  std::string_view text_;
  std::size_t number_;
  LineTypes* types_;
  std::size_t at_ = 0;
  std::string field_;  ///< of a call, whose value is read
};

}  // namespace shardlab
