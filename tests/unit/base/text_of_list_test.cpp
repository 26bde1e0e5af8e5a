#include "base/text.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "base/inline_vector.h"

using namespace shardlab;

TEST_CASE("text_of_list writes each kind of list with the separator between its entries") {
  CHECK(text_of_list(Dims{8, -16, 0}, ", ") == "8, -16, 0");
  CHECK(text_of_list(std::vector<int>{3}, ", ") == "3");
  CHECK(text_of_list(std::vector<std::size_t>{1, 2}, "x") == "1x2");
  CHECK(text_of_list(std::vector<std::string>{"a", "", "{}"}, "; ") == "a; ; {}");
  CHECK(text_of_list(std::vector<std::string_view>{"dp", "tp"}, "_") == "dp_tp");
  CHECK(text_of_list(std::set<std::string>{"y", "x"}, "\n") == "x\ny");
}

TEST_CASE("text_of_list is empty for no entries, and writes the least integer") {
  CHECK(text_of_list(Dims{}, ", ") == "");
  CHECK(text_of_list(std::vector<std::string>{}, ", ") == "");
  CHECK(text_of_list(Dims{std::numeric_limits<std::int64_t>::min()}, ",") ==
        "-9223372036854775808");
}
