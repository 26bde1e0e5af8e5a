
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>

#include "base/error.h"
#include "sim/files/json_value.h"

using namespace shardlab;

TEST_CASE("an integer is taken only from JSON that says one") {
  CHECK(integer_of<std::int64_t>(Json::parse("-9223372036854775808")) ==
        std::numeric_limits<std::int64_t>::min());
  CHECK(integer_of<std::size_t>(Json::parse("18446744073709551615")) ==
        std::numeric_limits<std::size_t>::max());
  CHECK(integer_of<std::int32_t>(Json::parse("-7")) == -7);
  // Values that nlohmann's get() would cut, wrap around, or leave undefined.
  for (const char* text : {"2.5", "2.0", "1e308", "true", "null", "\"3\"", "[3]", "4294967296"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(integer_of<std::int32_t>(Json::parse(text)), Error);
  }
  CHECK_THROWS_AS(integer_of<std::size_t>(Json(-1)), Error);
  CHECK_THROWS_AS(integer_of<std::int64_t>(Json::parse("9223372036854775808")), Error);
}

TEST_CASE("a number is taken only from JSON that says one, or what is not finite") {
  CHECK(number_of(Json::parse("2.5")) == 2.5);
  CHECK(number_of(Json("-inf")) == -std::numeric_limits<double>::infinity());
  for (const char* text : {"[]", "[1]", "{}", "null", "true", "\"2.5\""}) {
    CAPTURE(text);
    CHECK_THROWS_AS(number_of(Json::parse(text)), Error);
  }
}
