// Broadcasts and scatters of 8 ranks on 3 hosts that take turns (rank 0 on the first, 1 on the
// second, ..), and of some of them in another order: every element is where it belongs, and each
// other host receives one message, sent by the root. The count replaces MPI's own function, by
// MPI's interface for profilers.
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "comm/process_group.h"
#include "tests/support/local_tensor.h"
#include "tests/support/on_ranks.h"

namespace {

using namespace shardlab;

constexpr int kHosts = 3;
int between_hosts = 0;
int own_host = 0;

int host_of(std::int64_t rank) { return static_cast<int>(rank % kHosts); }

using Lengths64 = std::vector<std::int64_t>;
constexpr std::int64_t kRows = 3, kColumns = 5;

/// Rows and columns from `row`, `column` on; elements are numbers of their own in the whole.
std::vector<double> numbers(std::int64_t row, std::int64_t rows, std::int64_t column,
                            std::int64_t columns) {
  std::vector<double> values;
  for (std::int64_t i = row; i < row + rows; ++i) {
    for (std::int64_t j = column; j < column + columns; ++j) {
      values.push_back(static_cast<double>(i * 1000 + j));
    }
  }
  return values;
}

int failures = 0;

void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::printf("host %d: %s\n", own_host, what.c_str());
  failures += 1;
}

/// Number of hosts other than the root's: each gets a message, an empty one, too, which names the
/// call.
int other_hosts(const Communicator& door, std::int64_t root) {
  std::set<int> hosts;
  for (const std::int64_t rank : door.ranks()) hosts.insert(host_of(rank));
  hosts.erase(host_of(door.ranks()[static_cast<std::size_t>(root)]));
  return static_cast<int>(hosts.size());
}

void check_scatter(Communicator& door, std::int64_t root, const Lengths64& lengths,
                   std::int64_t dim) {
  const auto me = static_cast<std::size_t>(door.rank());
  std::int64_t total = 0, before = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (i < me) before += lengths[i];
    total += lengths[i];
  }
  const bool rows = dim == 0;
  const Dims whole = rows ? Dims{total, kColumns} : Dims{kRows, total};
  Tensor x;
  if (door.rank() == root) {
    x = local_tensor(whole, DType::kF32, numbers(0, whole[0], 0, whole[1]));
  }
  between_hosts = 0;
  const Tensor y = door.scatter(x, root, dim, lengths, contiguous_meta(whole, DType::kF32));
  const std::string what =
      door.name() + ": scatter along " + std::to_string(dim) + " from " + std::to_string(root);
  const std::int64_t mine = lengths[me];
  expect(
      values_of(y) == (rows ? numbers(before, mine, 0, kColumns) : numbers(0, kRows, before, mine)),
      what + ": other elements");
  expect(between_hosts == (door.rank() == root ? other_hosts(door, root) : 0),
         what + ": " + std::to_string(between_hosts) + " messages between hosts");
}

void check_broadcast(Communicator& door, std::int64_t root) {
  const TensorMeta meta = contiguous_meta(Dims{kRows, kColumns}, DType::kF32);
  Tensor x;
  if (door.rank() == root) {
    x = local_tensor(meta.shape, DType::kF32, numbers(root, kRows, 0, kColumns));
  }
  between_hosts = 0;
  const Tensor y = door.broadcast(x, root, meta);
  const std::string what = door.name() + ": broadcast from " + std::to_string(root);
  expect(values_of(y) == numbers(root, kRows, 0, kColumns), what + ": other elements");
  expect(between_hosts == (door.rank() == root ? other_hosts(door, root) : 0),
         what + ": " + std::to_string(between_hosts) + " messages between hosts");
}

void check_group(Communicator& door) {
  Lengths64 even, uneven, last;
  for (std::int64_t i = 0; i < door.size(); ++i) {
    even.push_back(2);
    uneven.push_back((i * 3) % 4);
    last.push_back(i + 1 == door.size() ? 3 : 0);
  }
  for (std::int64_t root = 0; root < door.size(); ++root) {
    check_broadcast(door, root);
    for (const Lengths64& lengths : {even, uneven, last}) {
      check_scatter(door, root, lengths, 0);
      check_scatter(door, root, lengths, 1);
    }
  }
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  if (host_of(to) != own_host) between_hosts += 1;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int main() {
  constexpr std::int64_t kOthers[] = {6, 0, 5, 3, 1};
  const char* rank_text = std::getenv("OMPI_COMM_WORLD_RANK");
  if (rank_text == nullptr) rank_text = std::getenv("PMI_RANK");
  if (rank_text == nullptr) {
    std::printf("the launcher does not say which rank this is\n");
    return 1;
  }
  own_host = host_of(std::atoi(rank_text));
  setenv("SHARDLAB_HOST", ("host " + std::to_string(own_host)).c_str(), 1);
  WorldOptions world = plain_world(8);
  world.backend = "mpi";
  on_ranks(world, [&](RankContext& rank) {
    Communicator& door = rank.world->communicator();
    check_group(door);
    std::int64_t place = -1;
    for (std::int64_t i = 0; i < std::ssize(kOthers); ++i) {
      if (kOthers[i] == door.rank()) place = i;
    }
    const auto others = door.split(place < 0 ? -1 : 0, place, "five");
    if (others) check_group(*others);
  });
  return failures == 0 ? 0 : 1;
}
