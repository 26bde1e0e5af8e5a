// Orders are those that CPython 3.11 prints.
#include "sim/language/values/dict_entries.h"

#include <doctest/doctest.h>

#include <limits>

using namespace shardlab;

namespace {

void add(DictEntries& set, const shardlab::Values& items) {
  set.is_set = true;
  for (const Value& item : items) set.set(item, {});
}

std::string shown(const DictEntries& entries) {
  std::string text;
  for (const auto& [key, value] : entries) text += (text.empty() ? "" : " ") + repr(key);
  return text;
}

constexpr std::int64_t kPrime = (std::int64_t{1} << 61) - 1;

}  // namespace

TEST_CASE("B-63 a set of numbers has the order of CPython's table") {
  DictEntries set;
  add(set, {5, 29, 3, -1});
  CHECK(shown(set) == "29 3 5 -1");
  add(set, {61, kPrime, (std::int64_t{1} << 40) + 5});
  CHECK(shown(set) == "2305843009213693951 3 5 1099511627781 29 61 -1");
  // Places of what was removed are taken again.
  CHECK(set.erase(29));
  CHECK_FALSE(set.erase(29));
  add(set, {37, 13});
  CHECK(shown(set) == "2305843009213693951 3 5 1099511627781 37 13 61 -1");
  DictEntries again;
  add(again, {0, 8});
  CHECK(again.erase(0));
  add(again, {16});
  CHECK(shown(again) == "16 8");
  DictEntries other, both, common, less, one;
  add(other, {40, 8, 1, 9, 17});
  CHECK(shown(other) == "1 40 8 9 17");
  for (DictEntries* made : {&both, &common, &less, &one}) made->is_set = true;
  both.merge(set);
  both.merge(other);
  CHECK(shown(both) == "2305843009213693951 1 3 5 1099511627781 37 40 8 9 13 17 61 -1");
  DictEntries few;
  add(few, {5, 61, 3});
  intersect(set, few, common);
  CHECK(shown(common) == "5 3 61");
  difference(set, other, less);
  CHECK(shown(less) == "2305843009213693951 3 37 1099511627781 5 13 61 -1");
  one.merge(other);
  one.toggle(set);
  CHECK(shown(one) == "2305843009213693951 1 3 5 1099511627781 8 9 13 17 37 40 61 -1");
}

TEST_CASE("B-63 floats and tuples have CPython's hashes, and texts no order but their own") {
  DictEntries floats, tuples, texts;
  add(floats, {0.5, -2.25, 1e300, 3.0, std::numeric_limits<double>::infinity(), 7});
  CHECK(shown(floats) == "0.5 3.0 7 inf 1e+300 -2.25");
  add(tuples, {make_tuple(shardlab::Values{1, 2}), make_tuple(shardlab::Values{2, 1}),
               make_tuple(shardlab::Values{}),
               make_tuple(shardlab::Values{0.5, make_tuple(shardlab::Values{3})})});
  CHECK(shown(tuples) == "(1, 2) (2, 1) (0.5, (3,)) ()");
  add(texts, {std::string("b"), 9, std::string("a"), 1});
  CHECK(shown(texts) == "'b' 9 'a' 1");
  CHECK(texts.find(1.0) != nullptr);
  CHECK(texts.find(true) != nullptr);
  CHECK(texts.find(2) == nullptr);
}

TEST_CASE("B-63 a dict keeps the order in which keys came, and entries their place") {
  DictEntries dict;
  for (int i = 20'000; i > 0; --i) dict.set(i, i * 2);
  const Value* const kept = dict.find(10);
  for (int i = 20'000; i > 10; --i) CHECK(dict.erase(i));
  dict.set(12, 0);
  dict.set(3, "three");
  CHECK(shown(dict) == "10 9 8 7 6 5 4 3 2 1 12");
  CHECK(dict.find(10) == kept);
  CHECK(equal(*dict.find(3), "three"));
  dict.clear();
  CHECK(dict.find(1) == nullptr);
  CHECK(dict.empty());
}
