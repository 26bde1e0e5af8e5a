// Texts of TOML, by the letter of its grammar (toml.io, 1.0), and read back.
#include <doctest/doctest.h>

#include <limits>

#include "sim/scenario/toml_text.h"

using namespace shardlab;

namespace {

TomlTable read(const std::string& text) {
  return read_toml(std::make_shared<const SourceText>("t.toml", text));
}

std::string text_in(const TomlValue& value) { return std::get<SourcePtr>(value.value)->text(); }

// The string as a value, read back.
std::string again(const std::string& text) {
  const TomlTable table = read(toml_line({"k", {}, toml_string(text)}) + "\n");
  REQUIRE(table.size() == 1);
  return text_in(table[0].value);
}

// Bytes that no string of TOML may have as they are: all but tabs and, in several lines, line
// ends.
bool has_forbidden(const std::string& written) {
  for (const char letter : written) {
    const auto code = static_cast<unsigned char>(letter);
    if ((code < 0x20 && letter != '\t' && letter != '\n') || code == 0x7F) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("B-31 a string of any characters reads back, and has none that TOML forbids") {
  for (int code = 0; code < 0x80; ++code) {
    const std::string letter(1, static_cast<char>(code));
    for (const std::string& text : {letter, "a" + letter + "b", "a\n" + letter + "\nb",
                                    "\\" + letter + "\n", letter + "\n\"\"\"" + letter}) {
      CAPTURE(code);
      CHECK(again(text) == text);
      CHECK(!has_forbidden(toml_text(toml_string(text))));
    }
  }
  CHECK(again("Gr\xc3\xbc\xc3\x9f"
              "e") ==
        "Gr\xc3\xbc\xc3\x9f"
        "e");
}

TEST_CASE("B-31 quotes at every end, of both kinds and in every number") {
  for (const std::string quote : {"\"", "'"}) {
    std::string quotes;
    for (int count = 1; count <= 6; ++count) {
      quotes += quote;
      for (const std::string& text : {quotes, "a\n" + quotes, quotes + "\n", "\n" + quotes + "\\",
                                      quotes + "\n'''\n\"\"\""}) {
        CAPTURE(text);
        CHECK(again(text) == text);
      }
    }
  }
}

TEST_CASE("B-31 values are written as the grammar has them") {
  CHECK(toml_quoted("a\"b\\c\x7f\t") == "\"a\\\"b\\\\c\\u007f\\u0009\"");
  CHECK(toml_text({{}, true}) == "true");
  CHECK(toml_text({{}, std::int64_t{-3}}) == "-3");
  CHECK(toml_text({{}, 2.0}) == "2.0");
  CHECK(toml_text({{}, 1e20}) == "1e+20");
  CHECK(toml_text({{}, -std::numeric_limits<double>::infinity()}) == "-inf");
  CHECK(toml_text(toml_string("a\nb\n")) == "\"\"\"\na\nb\n\"\"\"");
  CHECK(toml_text(toml_string("a\\n\n")) == "'''\na\\n\n'''");
  const TomlTable inner{
      {"a b", {}, {{}, std::vector<TomlValue>{{{}, std::int64_t{1}}, toml_string("x")}}}};
  CHECK(toml_line({"t", {}, {{}, inner}}) == "t = { \"a b\" = [1, \"x\"] }");
  CHECK(toml_line({"", {}, {{}, TomlTable{}}}) == "\"\" = {}");
}

TEST_CASE("B-31 a tree reads back in its order") {
  const std::string text =
      "z = 1\n\"a.b\" = [true, 0.5, \"s\"]\n[t]\nb = { c = [1, [2]], d = {} }\na = -0.0\n";
  const TomlTable tree = read(text);
  std::string written;
  for (const TomlEntry& entry : tree) written += toml_line(entry) + "\n";
  CHECK(written ==
        "z = 1\n\"a.b\" = [true, 0.5, \"s\"]\nt = { b = { c = [1, [2]], d = {} }, a = -0.0 }\n");
  const TomlTable second = read(written);
  std::string twice;
  for (const TomlEntry& entry : second) twice += toml_line(entry) + "\n";
  CHECK(twice == written);
}
