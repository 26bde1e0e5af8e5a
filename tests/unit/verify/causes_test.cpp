// Common mistakes of users, on numbers made up for the test, and the sentence that has to name
// each.
#include "sim/verify/causes.h"

#include <doctest/doctest.h>

#include "mesh/type_string.h"

using namespace shardlab;

namespace {

GlobalValue numbers(Dims shape, std::vector<double> elements) {
  return {contiguous_meta(shape, DType::kF64), std::move(elements), {}};
}

const MeshLayout* mesh_of(Dims shape, std::vector<std::string> names) {
  MeshLayout::Init init;
  init.shape = shape;
  for (const std::string& name : names) init.names.push_back(name);
  return process_arena().layout(std::move(init));
}

// Every rank holds a whole value of its own under one label of replicas.
Evidence replicas(const MeshLayout* layout, std::vector<std::vector<double>> held,
                  std::vector<double> expected) {
  const auto size = static_cast<std::int64_t>(expected.size());
  Evidence evidence;
  evidence.layout = layout;
  for (auto& own : held) evidence.held.push_back(numbers({size}, std::move(own)));
  evidence.got = evidence.held.front();
  evidence.expected = numbers({size}, std::move(expected));
  for (std::size_t dim = 0; dim < layout->ndim(); ++dim) {
    evidence.counts.push_back({layout->size(dim), "the size of mesh dim " + layout->names()[dim]});
  }
  return evidence;
}

bool names(const Evidence& evidence, std::string_view part) {
  const std::string sentence = cause_of(evidence).text;
  CAPTURE(sentence);
  return sentence.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("values that only add up, average or peak to the expected one miss a reduction") {
  const MeshLayout* x = mesh_of({3}, {"x"});
  CHECK(names(replicas(x, {{1, 2}, {3, 5}, {2, -4}}, {6, 3}), "all_reduce with sum over x"));
  CHECK(names(replicas(x, {{1, 2}, {3, 5}, {2, -4}}, {2, 1}), "all_reduce with avg over x"));
  CHECK(names(replicas(x, {{1, 5}, {3, 2}, {2, -4}}, {3, 5}), "all_reduce with max over x"));
  // One rank holds it: the others are below it only by chance.
  CHECK_FALSE(names(replicas(x, {{1, 2}, {3, 5}, {2, -4}}, {3, 5}), "max over x"));
  const Evidence nothing = replicas(x, {{1, 2}, {3, 5}, {2, -4}}, {9, 17});
  CHECK(cause_of(nothing).empty());
  CHECK(last_resort(nothing).text == kNoCause);
}

TEST_CASE("a factor that is a mesh dim's size, or one over it, is named") {
  const MeshLayout* x = mesh_of({4}, {"x"});
  CHECK(names(replicas(x, {{4, 8}, {4, 8}, {4, 8}, {4, 8}}, {1, 2}),
              "it is 4 times the expected value, and 4 is the size of mesh dim x"));
  CHECK(names(replicas(x, {{1, 2}, {1, 2}, {1, 2}, {1, 2}}, {4, 8}), "it is 1/4 of the expected"));
}

TEST_CASE("terms are told over each mesh dim that has them, also of pieces") {
  const MeshLayout* xy = mesh_of({2, 2}, {"x", "y"});
  // A mean over x of sums over y, (1 + 3 + 2 + 8) / 2.
  const Evidence both = replicas(xy, {{1}, {3}, {2}, {8}}, {7});
  CHECK(names(both, "the ranks along x hold different values whose mean is the expected one"));
  CHECK(names(both, "; the ranks along y hold different values whose sum is the expected one"));
  Evidence pieces = replicas(xy, {{1}, {2}, {5}, {4}}, {3, 3});
  for (GlobalValue& held : pieces.held) held.meta = numbers({1}, {0}).meta;
  const Placements cut = {Placement::replicate(), Placement::shard(0)};
  pieces.spec = process_arena().spec(xy, cut, pieces.expected.meta);
  pieces.got = numbers({2}, {1, 2});
  CHECK(names(pieces, "an all_reduce with avg over x is missing"));
}

TEST_CASE("a step with a gradient that is too large is told from what it was added to") {
  const MeshLayout* x = mesh_of({4}, {"x"});
  Evidence evidence =
      replicas(x, std::vector<std::vector<double>>(4, {2 - 0.4, 3 + 1.2}), {2 - 0.1, 3 + 0.3});
  evidence.known.push_back({"w", numbers({2}, {2, 3})});
  CHECK(names(evidence, "its difference from w is 4 times the expected one"));
}

TEST_CASE("swapped and foreign chunks are told by rank, uneven and empty ones included") {
  const MeshLayout* x = mesh_of({3}, {"x"});
  Evidence evidence;
  evidence.layout = x;
  evidence.spec = process_arena().spec(x, {Placement::shard(0)},
                                       contiguous_meta(Dims{4}, DType::kF64));  // 2, 2 and 0
  evidence.expected = numbers({4}, {1, 2, 3, 4});
  evidence.got = numbers({4}, {3, 4, 1, 2});
  CHECK(names(evidence, "rank 0 holds the piece of rank 1, rank 1 holds the piece of rank 0"));
  evidence.got = numbers({4}, {1, 2, 1, 2});
  CHECK(names(evidence, "rank 1 holds the piece of rank 0"));
}

TEST_CASE("pieces that all ranks made alike are those of one rank") {
  const MeshLayout* x = mesh_of({3}, {"x"});
  Evidence evidence;
  evidence.layout = x;
  evidence.spec =
      process_arena().spec(x, {Placement::shard(0)}, contiguous_meta(Dims{3, 2}, DType::kF64));
  evidence.expected = numbers({3, 2}, {1, 2, 3, 4, 5, 6});
  evidence.got = numbers({3, 2}, {1, 2, 1, 2, 1, 2});
  CHECK(names(evidence, "all ranks hold the piece of rank 0"));
}

TEST_CASE("rows in another order are told, rows that are alike or missing are none") {
  const MeshLayout* x = mesh_of({2}, {"x"});
  Evidence evidence;
  evidence.layout = x;
  evidence.spec =
      process_arena().spec(x, {Placement::shard(0)}, contiguous_meta(Dims{4, 2}, DType::kF64));
  evidence.expected = numbers({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  evidence.got = numbers({4, 2}, {1, 2, 7, 8, 3, 4, 5, 6});
  CHECK(last_resort(evidence).text.starts_with(
      "along dim 0 it has the right rows in another order, 0, 3, 1, 2:"));
  evidence.got = numbers({4, 2}, {1, 2, 7, 8, 3, 4, 3, 4});
  CHECK(last_resort(evidence).id == causes::kSomeRanks);
  evidence.got = numbers({4, 2}, {1, 2, 7, 8, 3, 4, 5, 7});
  CHECK(last_resort(evidence).id == causes::kSomeRanks);
}

TEST_CASE("a number that differs between ranks is named with what each of them has") {
  const MeshLayout* x = mesh_of({2}, {"x"});
  Evidence evidence = replicas(x, {{1, 7}, {1, 7}}, {2, 3});
  evidence.numbers.push_back({"n", {{0, 2.5}, {1, 4}}});
  CHECK(names(evidence, "n is not the same on all ranks: 2.5 on rank 0, 4 on rank 1"));
}

TEST_CASE("rows of a table that are taken for others, or added, are told by number") {
  const MeshLayout* x = mesh_of({2}, {"x"});
  Evidence evidence = replicas(x, {{0}, {0}}, {0});
  evidence.known.push_back({"e", numbers({4, 2}, {1, 2, 3, 5, 7, 11, 13, 17})});
  evidence.expected = numbers({3, 2}, {3, 5, 1, 2, 13, 17});
  evidence.got = numbers({3, 2}, {3, 5, 7, 11, 13, 17});
  CHECK(last_resort(evidence).text.starts_with("its row 1 is row 2 of e, not row 0"));
  evidence.got = numbers({3, 2}, {3, 5, 1, 2, 13 + 7, 17 + 11});
  CHECK(last_resort(evidence).text.starts_with("its row 2 is row 3 of e with row 2 added"));
  evidence.got = numbers({3, 2}, {3, 5, 1, 2, 14, 17});
  CHECK(last_resort(evidence).id != causes::kOtherChunk);
}
