// Ranks of the root's host get their messages from the root. Each other host gets one message, for
// the first rank of the group there, which hands the others their parts in a second step, over
// memory: the network carries only what it must, and the root starts as many messages as there are
// hosts.
#include "backends/mpi/from_root.h"

#include <cstring>
#include <functional>
#include <map>

namespace shardlab::mpi {

namespace {

using backends::Call;

// The rank from which each rank of the group gets its message: the same on all ranks.
std::vector<std::size_t> givers_of(const Desk& desk, std::size_t root) {
  const auto host = [&](std::size_t i) {
    return desk.session->hosts()[static_cast<std::size_t>(desk.ranks[i])];
  };
  std::vector<std::size_t> givers;
  std::map<std::int64_t, std::size_t> first;
  for (std::size_t i = 0; i < desk.size(); ++i) {
    const std::size_t there = first.try_emplace(host(i), i).first->second;
    givers.push_back(host(i) == host(root) || there == i ? root : there);
  }
  return givers;
}

// This rank's messages: from or to the root first, then within a host.
struct Ways {
  Pieces sends, receives, handed, taken;
};

// `prepare` runs between both steps, where there are two. Messages of the second have a tag of
// their own and are sent and received in a second step only, so that they keep their order.
void add_ways(const DeskRef& desk, Operation& operation, const Ways& ways,
              const std::function<void()>& prepare) {
  operation.steps.push_back(
      [=](Transfer& transfer) { transfer.start(ways.sends, ways.receives, desk->tag); });
  if (ways.handed.empty() && ways.taken.empty()) return;
  operation.steps.push_back([=](Transfer& transfer) {
    prepare();
    transfer.start(ways.handed, ways.taken, desk->tag + 1);
  });
}

// The parts that one rank passes on to others of its host, or has for itself alone.
struct Bundle {
  std::vector<std::size_t> ranks;    // of the group, in order
  std::vector<std::size_t> offsets;  // of their parts, and the end
};

std::vector<Bundle> bundles_of(const std::vector<std::size_t>& givers, std::size_t root,
                               const Call& call) {
  std::vector<Bundle> bundles(givers.size(), Bundle{{}, {0}});
  for (std::size_t i = 0; i < givers.size(); ++i) {
    const TensorMeta part = result_meta(call, static_cast<std::int64_t>(i));
    const auto bytes = static_cast<std::size_t>(product(part.shape) * item_bytes(part.dtype));
    Bundle& bundle = bundles[givers[i] == root ? i : givers[i]];
    bundle.ranks.push_back(i);
    bundle.offsets.push_back(bundle.offsets.back() + bytes);
  }
  return bundles;
}

// The parts of a bundle, one after the other.
std::byte* packed_parts(Desk& desk, const Bundle& bundle, const Call& call) {
  const auto rows = [&](std::size_t i) {
    return rows_of(call.x->shape(), call.dim, piece_of(call.lengths, i), call.x->dtype());
  };
  if (bundle.ranks.size() == 1) return desk.packed(rows(bundle.ranks[0]));
  std::byte* memory = desk.stage(bundle.offsets.back());
  for (std::size_t k = 0; k < bundle.ranks.size(); ++k) {
    pack(memory + bundle.offsets[k], desk.input.data(), rows(bundle.ranks[k]));
  }
  return memory;
}

}  // namespace

void broadcast(const DeskRef& desk, Operation& operation, const Call& call) {
  const auto root = static_cast<std::size_t>(call.root);
  const std::vector<std::size_t> givers = givers_of(*desk, root);
  std::byte* output = desk->output->data();
  const std::size_t bytes = desk->output->bytes();
  if (desk->rank == root && bytes > 0) std::memcpy(output, desk->input.data(), bytes);
  Ways ways;
  for (std::size_t i = 0; i < desk->size(); ++i) {
    if (i == root) continue;
    const bool first = givers[i] == root;
    if (givers[i] == desk->rank) {
      (first ? ways.sends : ways.handed).push_back({desk->ranks[i], output, bytes});
    } else if (i == desk->rank) {
      (first ? ways.receives : ways.taken).push_back({desk->ranks[givers[i]], output, bytes});
    }
  }
  add_ways(desk, operation, ways, [] {});
}

void scatter(const DeskRef& desk, Operation& operation, const Call& call) {
  const auto root = static_cast<std::size_t>(call.root);
  const std::size_t me = desk->rank;
  const std::vector<std::size_t> givers = givers_of(*desk, root);
  const std::vector<Bundle> bundles = bundles_of(givers, root, call);
  std::byte* output = desk->output->data();
  const std::size_t bytes = desk->output->bytes();
  Ways ways;
  std::byte* bundled = output;
  if (me == root) {
    for (std::size_t i = 0; i < desk->size(); ++i) {
      if (bundles[i].ranks.empty()) continue;
      std::byte* parts = packed_parts(*desk, bundles[i], call);
      if (i != root) {
        ways.sends.push_back({desk->ranks[i], parts, bundles[i].offsets.back()});
      } else if (bytes > 0) {
        std::memcpy(output, parts, bytes);
      }
    }
  } else if (givers[me] == root) {
    const Bundle& mine = bundles[me];
    if (mine.ranks.size() > 1) bundled = desk->stage(mine.offsets.back());
    ways.receives.push_back({desk->ranks[root], bundled, mine.offsets.back()});
    // Its own part is the first: it is the first rank of its host.
    for (std::size_t k = 1; k < mine.ranks.size(); ++k) {
      ways.handed.push_back({desk->ranks[mine.ranks[k]], bundled + mine.offsets[k],
                             mine.offsets[k + 1] - mine.offsets[k]});
    }
  } else {
    ways.taken.push_back({desk->ranks[givers[me]], output, bytes});
  }
  add_ways(desk, operation, ways, [=] {
    if (bundled != output && bytes > 0) std::memcpy(output, bundled, bytes);
  });
}

}  // namespace shardlab::mpi
