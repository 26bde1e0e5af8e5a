#include "sim/checkpoint/rank_tensors.h"

#include <doctest/doctest.h>

#include <fstream>
#include <numeric>
#include <string>

#include "api/factories.h"
#include "api/mesh.h"
#include "api/tensor_ops.h"
#include "sim/world/spmd.h"
#include "tensor/host.h"
#include "tests/unit/checkpoint/stored_elements.h"

using namespace shardlab;

namespace {

std::vector<double> counted_tensor(std::int64_t count) {
  std::vector<double> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

TEST_CASE("B-51 ranks save their pieces, and load others on another mesh") {
  const TemporaryFolder folder;
  spmd(6, [&](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 3}});
    const DTensor w = reshape(arange(7 * 5), {7, 5}), few = arange(2), number = full({}, 4.5);
    save({{"w", distribute_tensor(w, mesh, "dp=S(0), tp=S(0)")},
          {"strided", distribute_tensor(w, mesh, "dp=SS(0, 2)")},
          {"few", distribute_tensor(few, mesh, "tp=S(0)")},
          {"number", distribute_tensor(number, mesh, "dp=R")},
          {"plain", w}},
         folder.path());
  });
  const Checkpoint stored = Checkpoint::open(folder.path());
  CHECK(stored.tensors().size() == 5);
  for (const StoredTensor& tensor : stored.tensors()) CHECK(faults_of(tensor).empty());
  CHECK(elements_of(stored, "strided") == counted_tensor(35));
  CHECK(elements_of(stored, "plain") == counted_tensor(35));
  CHECK(elements_of(stored, "number") == std::vector<double>{4.5});
  for (const char* placements : {"x=R", "x=S(0)", "x=S(1)"}) {
    std::vector<std::vector<double>> found(4), numbers(4);
    spmd(4, [&](RankContext& rank) {
      const MeshLayout* mesh = init_mesh({{"x", 4}});
      const Placements there = {*parse_placement(std::string(placements).substr(2))};
      const DTensor w = load(stored, "w", mesh, there);
      found[static_cast<std::size_t>(rank.rank)] = read_doubles(full_tensor(w).local());
      const DTensor number = load(folder.path(), "number", mesh, {Placement::replicate()});
      numbers[static_cast<std::size_t>(rank.rank)] = read_doubles(number.local());
    });
    CHECK(found == std::vector<std::vector<double>>(4, counted_tensor(35)));
    CHECK(numbers == std::vector<std::vector<double>>(4, {4.5}));
  }
}

TEST_CASE("B-51 a rank may load as soon as it has saved, also in a folder of more ranks") {
  const TemporaryFolder folder;
  for (const int ranks : {16, 12}) {  // more than run at once
    spmd(ranks, [&](RankContext& rank) {
      const MeshLayout* mesh = init_mesh({{"x", rank.world_size}});
      save({{"w", distribute_tensor(arange(30) * ranks, mesh, "x=S(0)")}}, folder.path());
      const DTensor whole = load(folder.path(), "w", mesh, {Placement::replicate()});
      CHECK(read_doubles(whole.local())[29] == 29 * ranks);
    });
    const Checkpoint stored = Checkpoint::open(folder.path());
    for (const StoredTensor& tensor : stored.tensors()) CHECK(faults_of(tensor).empty());
  }
}

TEST_CASE("a rank reads the bytes of its piece and no others") {
  const TemporaryFolder folder;
  constexpr std::int64_t kRows = 1 << 20;
  spmd(1, [&](RankContext&) { save({{"w", zeros({kRows, 4})}}, folder.path()); });
  const Checkpoint stored = Checkpoint::open(folder.path());
  const auto read_so_far = [] {
    std::ifstream io("/proc/self/io");
    std::string word;
    long long bytes = 0;
    io >> word >> bytes;
    return bytes;
  };
  const long long before = read_so_far();
  if (before == 0) return;  // this system does not tell
  spmd(64, [&](RankContext& rank) {
    const MeshLayout* mesh = init_mesh({{"x", 64}});
    if (rank.rank == 5) load(stored, "w", mesh, {Placement::shard(0)});
  });
  CHECK(read_so_far() - before >= kRows * 16 / 64);
  CHECK(read_so_far() - before < kRows * 16 / 32);
}

TEST_CASE("tensors that cannot be saved or loaded are refused") {
  const TemporaryFolder folder;
  const auto fault = [&](const std::function<void(const MeshLayout*)>& body) {
    std::string text;
    spmd(2, [&](RankContext& rank) {
      const MeshLayout* mesh = init_mesh({{"x", 2}});
      try {
        body(mesh);
      } catch (const Error& error) {
        if (rank.rank == 0) text = error.summary();
      }
    });
    return text;
  };
  CHECK(fault([&](const MeshLayout* mesh) {
          save({{"w", from_local(ones({2}), mesh, "x=P(sum)")}}, folder.path());
        }) == "save: 'w' is pending: f32[2]{sum:x}");
  spmd(1, [&](RankContext&) { save({{"w", ones({4})}}, folder.path()); });
  CHECK(fault([&](const MeshLayout* mesh) {
          load(folder.path(), "v", mesh, {Placement::shard(0)});
        }).find("has no tensor 'v'") != std::string::npos);
  CHECK(fault([&](const MeshLayout* mesh) {
          load(folder.path(), "w", mesh, {Placement::partial()});
        }).find("has no terms of 'w'") != std::string::npos);
}
