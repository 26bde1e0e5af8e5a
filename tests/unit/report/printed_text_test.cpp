// Output of ranks, put together: lines of one place are joined, each rank's order stays.
#include "sim/report/printed_text.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"

using namespace shardlab;

namespace {

using Prints = std::vector<PrintedLine>;
using Who = std::vector<std::size_t>;

std::vector<std::string> texts(const std::vector<PrintedBy>& merged) {
  std::vector<std::string> lines;
  for (const PrintedBy& printed : merged) {
    std::string line = printed.text + " by";
    for (const std::size_t rank : printed.who) line += " " + std::to_string(rank);
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("B-60 a line that all ranks print is written once") {
  const Prints hello = {{3, 1, "hello"}};
  CHECK(texts(merged_prints({hello, hello, hello})) == Lines{"hello by 0 1 2"});
  CHECK(merged_prints({hello})[0].line == 3);
  CHECK(merged_prints({}).empty());
  CHECK(merged_prints({{}, {}}).empty());
}

TEST_CASE("B-60 ranks that print other texts at one place stand behind each other") {
  CHECK(texts(merged_prints({{{1, 1, "a"}}, {{1, 1, "b"}}, {{1, 1, "a"}}})) ==
        Lines{"a by 0 2", "b by 1"});
}

TEST_CASE("B-60 a loop: the n-th time of one rank belongs to the n-th time of another") {
  const Prints both = {{2, 1, "i=0"}, {2, 1, "i=1"}};
  CHECK(texts(merged_prints({both, both})) == Lines{"i=0 by 0 1", "i=1 by 0 1"});
  CHECK(texts(merged_prints({{{2, 1, "same"}, {2, 1, "same"}}, {{2, 1, "same"}}})) ==
        Lines{"same by 0 1", "same by 0"});
}

TEST_CASE("B-60 two prints of one line differ by their column") {
  const Prints one = {{2, 1, "left"}, {2, 12, "right"}};
  CHECK(texts(merged_prints({one, one})) == Lines{"left by 0 1", "right by 0 1"});
  CHECK(texts(merged_prints({{{2, 12, "right"}}, one})) == Lines{"left by 1", "right by 0 1"});
}

TEST_CASE("B-60 lines that only some ranks print are where they printed them") {
  const Prints short_one = {{1, 1, "begin"}, {5, 1, "end"}};
  const Prints long_one = {{1, 1, "begin"}, {3, 1, "middle"}, {5, 1, "end"}};
  const Lines expected = {"begin by 0 1", "middle by 1", "end by 0 1"};
  CHECK(texts(merged_prints({short_one, long_one})) == expected);
  CHECK(texts(merged_prints({long_one, short_one})) ==
        Lines{"begin by 0 1", "middle by 0", "end by 0 1"});
}

TEST_CASE("B-60 each rank's own order is kept") {
  const std::vector<Prints> prints = {{{1, 1, "a"}, {2, 1, "b"}, {4, 1, "d"}},
                                      {{2, 1, "b"}, {3, 1, "c"}, {4, 1, "d"}},
                                      {{0, 1, "z"}, {1, 1, "a"}, {3, 1, "c"}}};
  const std::vector<PrintedBy> merged = merged_prints(prints);
  for (std::size_t rank = 0; rank < prints.size(); ++rank) {
    std::vector<std::string> own;
    for (const PrintedBy& printed : merged) {
      if (std::ranges::find(printed.who, rank) != printed.who.end()) own.push_back(printed.text);
    }
    std::vector<std::string> expected;
    for (const PrintedLine& line : prints[rank]) expected.push_back(line.text);
    CHECK(own == expected);
  }
}

TEST_CASE("B-60 printers are ranks, or classes of ranks where one stands for many") {
  Run run;
  CHECK(printers_text(run, Who{3}) == "rank 3");
  CHECK(printers_text(run, Who{0, 2, 3}) == "ranks 0,2,3");
  run.classes = {{.first_rank = 0, .size = 8, .where = "dp 0-7, tp 0"},
                 {.first_rank = 1, .size = 1, .where = "dp 0, tp 1"}};
  CHECK(printers_text(run, Who{0}) == "dp 0-7, tp 0");
  CHECK(printers_text(run, Who{0, 1}) == "dp 0-7, tp 0; rank 1");
}

TEST_CASE("B-60 prints of a rank, of the class of a rank, or of nobody that is known") {
  Run run;
  CHECK(printer_of(run, 5) == 5);
  run.classes = {{.first_rank = 0, .size = 3}, {.first_rank = 2, .size = 1}};
  run.class_of = {0, 0, 1, 0};
  CHECK(printer_of(run, 1) == 0);
  CHECK(printer_of(run, 2) == 1);
  run.class_of.clear();  // too many ranks to know the class of each
  CHECK(printer_of(run, 2) == 1);
  CHECK_THROWS_AS(printer_of(run, 1), Error);
  Scenario scenario;
  scenario.world = 4;
  check_printer(scenario, 3);
  try {
    check_printer(scenario, 4);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(*error.find("fix") == "ranks are numbered from 0 to 3");
  }
}
