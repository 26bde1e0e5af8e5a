// Folding, written out: a body that repeats at once, in others or not.
#include "sim/report/repeats.h"

#include <doctest/doctest.h>

#include <string>

using namespace shardlab;

namespace {

std::string text(const std::string& letters, const std::vector<Repeat>& repeats) {
  std::string out;
  for (const Repeat& repeat : repeats) {
    if (repeat.parts.empty()) {
      out += letters[repeat.first];
    } else {
      out += "(" + text(letters, repeat.parts) + ")" + std::to_string(repeat.times);
    }
  }
  return out;
}

std::string folded_text(const std::string& letters) {
  return text(letters, folded(std::vector<int>(letters.begin(), letters.end())));
}

}  // namespace

TEST_CASE("B-60 a repeated part is printed once with its count") {
  CHECK(folded_text("").empty());
  CHECK(folded_text("a") == "a");
  CHECK(folded_text("aa") == "(a)2");
  CHECK(folded_text("abab") == "(ab)2");
  CHECK(folded_text("xabcabcabcy") == "x(abc)3y");
  CHECK(folded_text("abcab") == "abcab");
}

TEST_CASE("B-60 a loop inside of a loop is a part of its body") {
  CHECK(folded_text("aabaab") == "((a)2b)2");
  CHECK(folded_text("xabababcabababcz") == "x((ab)3c)2z");
  CHECK(folded_text("ababcababcdababcababcd") == "(((ab)2c)2d)2");
}

TEST_CASE("B-60 passes of a loop that differ stand alone between those that do not") {
  CHECK(folded_text("abababxbabab") == "(ab)3xb(ab)2");
  CHECK(folded_text("abcabcaxcabcabc") == "(abc)2axc(abc)2");
  CHECK(folded_text("aabaaabaab") == "(a)2b(a)3b(a)2b");
}

TEST_CASE("B-60 a body that is longer than what is looked for is left as it is") {
  std::vector<int> sequence;
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < static_cast<int>(kLongestBody) + 1; ++i) sequence.push_back(i);
  }
  CHECK(folded(sequence).size() == sequence.size());
  sequence.assign(100'000, 3);
  REQUIRE(folded(sequence).size() == 1);
  CHECK(folded(sequence)[0].times == 100'000);
}
