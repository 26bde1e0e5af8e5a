// Errors and deadlocks of a program in C++ name the line of the call.
#include <doctest/doctest.h>

#include "sim/world/spmd.h"

using namespace shardlab;

namespace {

// The outcome of a program on two ranks, as text.
std::string text_of(const std::function<void(RankContext&, const MeshLayout*)>& body) {
  try {
    spmd(2, [&](RankContext& rank) { body(rank, init_mesh({{"x", 2}})); });
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

void check_at(const std::string& text, int line) {
  CAPTURE(text);
  CHECK(text.find(fmt::format("places_test.cpp:{}", line)) != std::string::npos);
  CHECK(text.find(fmt::format("places_test.cpp:{}:", line)) == std::string::npos);
}

DTensor rows(const MeshLayout* mesh) {
  return ones({4, 3}, {.mesh = mesh, .placements = {Shard(0)}});
}

}  // namespace

TEST_CASE(
    "B-17 an error names the line of the call: of functions, operators, methods, and in between") {
  check_at(text_of([](auto&, auto* mesh) { matmul(rows(mesh), rows(mesh)); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { rows(mesh) + ones({4, 3}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { rows(mesh).matmul(rows(mesh)); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { cat({rows(mesh), ones({4, 3})}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { redistribute(rows(mesh), "y=R"); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { distribute_tensor(ones({2}), mesh, "x=S(1)"); }),
           __LINE__ - 1);
  check_at(text_of([](auto&, auto* mesh) { rows(mesh).item(); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { rows(mesh).backward(); }), __LINE__);
  check_at(text_of([](auto&, auto*) { init_mesh({{"dp", 3}}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { submesh(mesh, {"y"}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { flatten_mesh(mesh, {"x", "y"}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { flattened_mesh(mesh, {"x", "y"}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { unflatten_mesh(mesh, "x", {{"a", 3}}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { concatenate_meshes({mesh, mesh}); }), __LINE__);
  check_at(text_of([](auto&, auto* mesh) { row_wise(rows(mesh), {ones({3})}, "x"); }), __LINE__);
}

TEST_CASE("B-17 errors of backward have the line that calls it") {
  const int here = __LINE__;
  const std::string text = text_of([](auto&, auto* mesh) {
    const DTensor y = exp(rows(mesh).requires_grad_());
    no_grad([&] { y += 1; });
    y.sum().backward();
  });
  check_at(text, here + 4);
}

TEST_CASE("B-17 a deadlock names the lines at which ranks wait") {
  const int here = __LINE__;
  const std::string text = text_of([](RankContext& rank, const MeshLayout* mesh) {
    const DTensor x = rows(mesh);
    if (rank.rank == 0) full_tensor(x);
    if (rank.rank == 1) redistribute(sum(x), "x=R");
  });
  check_at(text, here + 3);
  check_at(text, here + 4);
}

TEST_CASE("code that is not a call of this library has no line, and no stale one") {
  spmd(1, [](RankContext& rank) {
    static_cast<void>(ones({2}) + 1);
    CHECK(rank.position.file == nullptr);
    CHECK_THROWS_AS(ones({2}) + ones({3}), Error);
    CHECK(rank.position.file == nullptr);
    rank.position = {"mlp.toml", 7, 3};
    CHECK_THROWS_WITH_AS(ones({2}) + ones({3}), doctest::Contains("mlp.toml:7:3"), Error);
    rank.position = {};
  });
}

TEST_CASE("B-17 a call outside of spmd is told as that") {
  try {
    ones({2});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kRuntime);
    CHECK(error.summary() == "this call runs on a rank, and was made outside of one");
    REQUIRE(error.find("fix") != nullptr);
    CHECK(error.find("fix")->find("spmd(ranks, [](RankContext&)") != std::string::npos);
  }
}
