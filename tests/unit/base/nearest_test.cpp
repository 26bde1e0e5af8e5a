#include "base/text.h"

#include <doctest/doctest.h>

#include <vector>

using namespace shardlab;

TEST_CASE("edit_distance counts insertions, deletions, replacements and swaps") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("gelu", "gelu") == 0);
  CHECK(edit_distance("hiden", "hidden") == 1);
  CHECK(edit_distance("colelctives", "collectives") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("nearest finds close names only; ties go to the first") {
  const std::vector<std::string> known = {"mesh", "params", "matrix", "inputs", "x", "y"};
  CHECK(nearest("mehs", known) == "mesh");
  CHECK(nearest("param", known) == "params");
  CHECK(nearest("input", known) == "inputs");
  CHECK_FALSE(nearest("z", known).has_value());
  CHECK_FALSE(nearest("completely", known).has_value());
  CHECK(suggest("matrx", known) == "did you mean 'matrix'?");
  CHECK(suggest("completely", known) == "known: mesh, params, matrix, inputs, x, y");
  CHECK(suggest("x", {}) == "");
}
