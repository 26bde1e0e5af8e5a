// Drawings of tables: widths follow the longest label, lines are drawn where the block changes.
#include "sim/report/grid.h"

#include <doctest/doctest.h>

#include "sim/report/paint.h"

using namespace shardlab;

namespace {

// The longest line of the text without its indent, in letters: a line character counts once.
std::int64_t longest_line(const std::string& text) {
  std::int64_t longest = 0, letters = 0;
  for (const char byte : text) {
    if (byte == '\n') {
      longest = std::max(longest, letters);
      letters = 0;
    } else {
      letters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    }
  }
  return longest;
}

}  // namespace

TEST_CASE("B-60 one cell with its titles") {
  const Grid grid{.row_title = "row",
                  .column_title = "column",
                  .rows = {{"0", 0, false}},
                  .columns = {{"0", 0, false}},
                  .labels = {{"7"}}};
  CHECK(draw_grid(grid, Color::kOff) ==
        "       column\n"
        "  row  0\n"
        "    0  7\n");
}

TEST_CASE("B-60 a line between blocks, none inside of one, and the longest label sets the width") {
  const Grid grid{.row_title = "",
                  .column_title = "",
                  .rows = {{"0", 0, false}, {"1", 0, false}, {"2", 1, false}},
                  .columns = {{"0", 0, false}, {"1", 1, false}},
                  .labels = {{"0-3", "4"}, {"8", "12"}}};
  CHECK(draw_grid(grid, Color::kOff) ==
        "      0     1\n"
        "  0  0-3 │  4\n"
        "  1  0-3 │  4\n"
        "    ─────┼─────\n"
        "  2   8  │ 12\n");
  CHECK(grid_width(grid) >= longest_line(draw_grid(grid, Color::kOff)));
}

TEST_CASE("B-60 blocks that are left out are three dots, in rows, columns and headers") {
  const Grid grid{.row_title = "",
                  .column_title = "",
                  .rows = {{"0", 0, false}, {"unseen", 0, true}},
                  .columns = {{"0", 0, false}, {"unseen", 0, true}},
                  .labels = {{"a"}}};
  CHECK(draw_grid(grid, Color::kOff) ==
        "        0   ...\n"
        "    0   a   ...\n"
        "  ...  ...  ...\n");
}

TEST_CASE("B-60 equal labels have equal colours, in the order of their first use") {
  const Grid grid{.row_title = "",
                  .column_title = "",
                  .rows = {{"0", 0, false}, {"1", 1, false}},
                  .columns = {{"0", 0, false}, {"1", 1, false}},
                  .labels = {{"a", "b"}, {"b", "a"}}};
  const std::string text = draw_grid(grid, Color::kOn);
  const auto count = [&](std::string_view part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  CHECK(count("\x1b[48;5;117m\x1b[38;5;16m a \x1b[0m") == 2);
  CHECK(count("\x1b[48;5;222m\x1b[38;5;16m b \x1b[0m") == 2);
}

TEST_CASE("B-60 ink is a colour on terminals and nothing elsewhere") {
  CHECK(paint("ok", Ink::kGood, Color::kOff) == "ok");
  CHECK(paint("ok", Ink::kGood, Color::kOn) == "\x1b[32mok\x1b[0m");
  CHECK(paint("no", Ink::kBad, Color::kOn) == "\x1b[31mno\x1b[0m");
  CHECK(paint("careful", Ink::kWarn, Color::kOn) == "\x1b[33mcareful\x1b[0m");
  CHECK(paint("a", Ink::kTitle, Color::kOn) != paint("a", Ink::kDim, Color::kOn));
  CHECK(paint("", Ink::kMove, Color::kOn).empty());
}
