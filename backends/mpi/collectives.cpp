// Each collective as non-blocking messages between pairs of ranks and local steps in between, with
// the pieces as they are: uneven and empty ones need no padding. Reductions take the terms in rank
// order (K-21), so that results equal those of the simulator bit for bit, which MPI_Reduce does not
// promise. A large all_reduce is a reduce_scatter and an all_gather over equal chunks; a small one
// sends all terms to all.
#include "backends/mpi/collectives.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>

#include "backends/mpi/desk.h"
#include "backends/shared/reduce.h"

namespace shardlab::mpi {

namespace {

using backends::Call;

// Messages from one rank to all. Ranks of the root's host get their messages from the root. Each
// other host gets one message, for the first rank of the group there, which hands the others their
// parts in a second step, over memory: the network carries only what it must, and the root starts
// as many messages as there are hosts.

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

// A step of these messages; `later` of the operation's tags.
void add_transfer(const DeskRef& desk, Operation& operation, const Pieces& sends,
                  const Pieces& receives, int later = 0) {
  operation.steps.push_back(
      [=](Transfer& transfer) { transfer.start(sends, receives, desk->tag + later); });
}

// Arrived rows that belong into the output, unless they arrived there.
struct Arrival {
  const std::byte* memory;
  Rows rows;
};

void place(Desk& desk, const std::vector<Arrival>& arrivals) {
  for (const Arrival& arrival : arrivals) unpack(desk.output->data(), arrival.memory, arrival.rows);
}

// One exchange between all ranks: sends[i] is for group rank i, and the message of i becomes
// rows[i] of the output.
void exchange_rows(const DeskRef& desk, Operation& operation, std::vector<Piece> sends,
                   const std::vector<Rows>& rows) {
  auto arrivals = std::make_shared<std::vector<Arrival>>();
  Pieces receives;
  for (std::size_t i = 0; i < desk->size(); ++i) {
    const bool direct = rows[i].adjoin() && i != desk->rank;
    std::byte* memory =
        direct ? desk->output->data() + (rows[i].total() == 0 ? 0 : rows[i].offset) : nullptr;
    if (i == desk->rank) {
      arrivals->push_back({static_cast<std::byte*>(sends[i].data), rows[i]});
      continue;
    }
    if (!direct) {
      memory = desk->stage(rows[i].total());
      arrivals->push_back({memory, rows[i]});
    }
    receives.push_back({desk->ranks[i], memory, rows[i].total()});
  }
  sends.erase(sends.begin() + static_cast<std::ptrdiff_t>(desk->rank));
  add_transfer(desk, operation, sends, receives);
  operation.steps.push_back([=](Transfer&) { place(*desk, *arrivals); });
}

void all_gather(const DeskRef& desk, Operation& operation, const Call& call) {
  std::vector<Piece> sends;
  std::vector<Rows> rows;
  const auto bytes = static_cast<std::size_t>(call.x->size_bytes());
  for (std::size_t i = 0; i < desk->size(); ++i) {
    sends.push_back({desk->ranks[i], desk->input.data(), bytes});
    rows.push_back(
        rows_of(desk->output->shape(), call.dim, piece_of(call.lengths, i), desk->output->dtype()));
  }
  exchange_rows(desk, operation, std::move(sends), rows);
}

void all_to_all(const DeskRef& desk, Operation& operation, const Call& call) {
  std::vector<Piece> sends;
  std::vector<Rows> rows;
  for (std::size_t i = 0; i < desk->size(); ++i) {
    const Rows cut = rows_of(call.x->shape(), call.dim, piece_of(call.lengths, i), call.x->dtype());
    sends.push_back({desk->ranks[i], desk->packed(cut), cut.total()});
    rows.push_back(rows_of(desk->output->shape(), call.concat_dim,
                           piece_of(call.concat_lengths(), i), desk->output->dtype()));
  }
  exchange_rows(desk, operation, std::move(sends), rows);
}

void gather(const DeskRef& desk, Operation& operation, const Call& call) {
  const auto root = static_cast<std::size_t>(call.root);
  const auto bytes = static_cast<std::size_t>(call.x->size_bytes());
  if (desk->rank != root) {
    return add_transfer(desk, operation, {{desk->ranks[root], desk->input.data(), bytes}}, {});
  }
  auto arrivals = std::make_shared<std::vector<Arrival>>();
  Pieces receives;
  for (std::size_t i = 0; i < desk->size(); ++i) {
    const Rows rows =
        rows_of(desk->output->shape(), call.dim, piece_of(call.lengths, i), desk->output->dtype());
    std::byte* memory = i == root ? desk->input.data() : desk->stage(rows.total());
    arrivals->push_back({memory, rows});
    if (i != root) receives.push_back({desk->ranks[i], memory, rows.total()});
  }
  add_transfer(desk, operation, {}, receives);
  operation.steps.push_back([=](Transfer&) { place(*desk, *arrivals); });
}

// Messages are halves of one.
void permute(const DeskRef& desk, Operation& operation, const Call& call) {
  const auto me = static_cast<std::int32_t>(desk->rank);
  Pieces sends, receives;
  if (call.to == me && call.from == me) {
    std::memcpy(desk->output->data(), desk->input.data(), desk->output->bytes());
  } else {
    if (call.to >= 0) {
      sends.push_back({desk->ranks[static_cast<std::size_t>(call.to)], desk->input.data(),
                       static_cast<std::size_t>(call.x->size_bytes())});
    }
    if (call.from >= 0) {
      receives.push_back({desk->ranks[static_cast<std::size_t>(call.from)], desk->output->data(),
                          desk->output->bytes()});
    }
  }
  add_transfer(desk, operation, sends, receives);
}

// `terms`: of each rank, `elements` each.
void combine(const Desk& desk, DType dtype, const std::vector<const void*>& terms, void* output,
             std::size_t elements) {
  const auto count = static_cast<std::int64_t>(elements);
  if (count == 0) return;
  backends::reduce({.dtype = dtype,
                    .op = desk.op,
                    .inputs = terms,
                    .output = output,
                    .rows = 1,
                    .row_elements = count,
                    .row_stride = count});
}

// Sends each rank its piece of this rank's term; the next step combines this rank's piece of all
// terms in `output`.
void reduce_pieces(const DeskRef& desk, Operation& operation, const std::vector<Rows>& pieces,
                   std::byte* output) {
  const DType dtype = desk->output->dtype();
  const std::size_t bytes = pieces[desk->rank].total();
  Pieces sends, receives;
  std::vector<const void*> terms;
  for (std::size_t i = 0; i < desk->size(); ++i) {
    std::byte* mine = desk->packed(pieces[i]);
    if (i == desk->rank) {
      terms.push_back(mine);
      continue;
    }
    sends.push_back({desk->ranks[i], mine, pieces[i].total()});
    std::byte* memory = desk->stage(bytes);
    receives.push_back({desk->ranks[i], memory, bytes});
    terms.push_back(memory);
  }
  add_transfer(desk, operation, sends, receives);
  operation.steps.push_back([=](Transfer&) {
    combine(*desk, dtype, terms, output, bytes / static_cast<std::size_t>(item_bytes(dtype)));
  });
}

void reduce_scatter(const DeskRef& desk, Operation& operation, const Call& call) {
  std::vector<Rows> pieces;
  for (std::size_t i = 0; i < desk->size(); ++i) {
    pieces.push_back(
        rows_of(call.x->shape(), call.dim, piece_of(call.lengths, i), call.x->dtype()));
  }
  reduce_pieces(desk, operation, pieces, desk->output->data());
}

// Up to this many bytes every rank sends its whole term to all: half the steps.
constexpr std::size_t kSmallTerm = 8192;

void all_reduce_small(const DeskRef& desk, Operation& operation) {
  const std::size_t bytes = desk->output->bytes();
  const std::vector<Rows> pieces(desk->size(),
                                 Rows{.count = 1, .bytes = bytes, .stride = bytes, .offset = 0});
  reduce_pieces(desk, operation, pieces, desk->output->data());
}

void all_reduce(const DeskRef& desk, Operation& operation) {
  const std::size_t total = desk->output->bytes(), size = desk->size();
  if (total <= kSmallTerm) return all_reduce_small(desk, operation);
  const auto item = static_cast<std::size_t>(item_bytes(desk->output->dtype()));
  const std::size_t chunk = (total / item + size - 1) / size * item;
  std::vector<Rows> pieces;
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t begin = std::min(total, i * chunk), end = std::min(total, begin + chunk);
    pieces.push_back({.count = 1, .bytes = end - begin, .stride = total, .offset = begin});
  }
  std::byte* output = desk->output->data();
  reduce_pieces(desk, operation, pieces, output + pieces[desk->rank].offset);
  Pieces sends, receives;
  for (std::size_t i = 0; i < size; ++i) {
    if (i == desk->rank) continue;
    const Rows& mine = pieces[desk->rank];
    sends.push_back({desk->ranks[i], output + mine.offset, mine.bytes});
    receives.push_back({desk->ranks[i], output + pieces[i].offset, pieces[i].bytes});
  }
  add_transfer(desk, operation, sends, receives, 1);
}

DeskRef make_desk(Session& session, const Seat& seat, CollectiveKind kind) {
  auto desk = std::make_shared<Desk>();
  desk->session = &session;
  desk->rank = seat.rank;
  desk->ranks.assign(seat.ranks.begin(), seat.ranks.end());
  desk->tag = seat.tag;
  desk->kind = kind;
  return desk;
}

std::shared_ptr<Operation> make_operation(const DeskRef& desk) {
  return std::make_shared<Operation>(*desk->session, desk->tag);
}

void add_steps(const DeskRef& desk, Operation& operation, const Call& call) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
    case CollectiveKind::kReduce:
      return all_reduce(desk, operation);
    case CollectiveKind::kReduceScatter:
      return reduce_scatter(desk, operation, call);
    case CollectiveKind::kAllGather:
      return all_gather(desk, operation, call);
    case CollectiveKind::kAllToAll:
      return all_to_all(desk, operation, call);
    case CollectiveKind::kBroadcast:
      return broadcast(desk, operation, call);
    case CollectiveKind::kScatter:
      return scatter(desk, operation, call);
    case CollectiveKind::kGather:
      return gather(desk, operation, call);
    case CollectiveKind::kPermute:
    case CollectiveKind::kSend:
    case CollectiveKind::kRecv:
      return permute(desk, operation, call);
    default:
      check_invariant(false, "this collective has a tensor as its result");
  }
}

}  // namespace

TensorOperation tensor_operation(Session& session, const Seat& seat, const Call& call,
                                 const Dims& shape, DType dtype) {
  const DeskRef desk = make_desk(session, seat, call.kind);
  desk->op = call.op;
  if (call.x != nullptr) desk->input = Input(*call.x);
  desk->output = std::make_unique<Output>(*call.device, shape, dtype);
  TensorOperation result{make_operation(desk), std::make_shared<BufferRef>()};
  add_steps(desk, *result.operation, call);
  result.operation->steps.push_back(
      [desk, buffer = result.result](Transfer&) { *buffer = desk->output->finish(); });
  return result;
}

namespace {

// Messages of one rank to itself, in order.
void deliver_own(const DeskRef& desk, backends::BatchPart& part,
                 const std::vector<std::shared_ptr<Output>>& outputs,
                 const std::vector<Input>& inputs) {
  std::size_t next = 0;
  const auto me = static_cast<std::int64_t>(desk->rank);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i] || part.exchange[i].peer != me) continue;
    while (!part.exchange[next].send.defined() || part.exchange[next].peer != me) ++next;
    std::memcpy(outputs[i]->data(), inputs[next++].data(), outputs[i]->bytes());
  }
}

}  // namespace

std::shared_ptr<Operation> batch_operation(Session& session, const Seat& seat, Call& call) {
  const DeskRef desk = make_desk(session, seat, call.kind);
  auto operation = make_operation(desk);
  backends::BatchPart& part = *std::get<backends::BatchPart*>(call.part);
  auto inputs = std::make_shared<std::vector<Input>>(part.exchange.size());
  std::vector<std::shared_ptr<Output>> outputs(part.exchange.size());
  Pieces sends, receives;
  for (std::size_t i = 0; i < part.exchange.size(); ++i) {
    const SendRecv& item = part.exchange[i];
    const bool own = item.peer == static_cast<std::int64_t>(seat.rank);
    const std::int64_t peer = seat.ranks[static_cast<std::size_t>(item.peer)];
    if (item.send.defined()) {
      (*inputs)[i] = Input(item.send);
      const auto bytes = static_cast<std::size_t>(item.send.size_bytes());
      if (!own) sends.push_back({peer, (*inputs)[i].data(), bytes});
    }
    if (item.receives) {
      outputs[i] = std::make_shared<Output>(*call.device, item.receive.shape, item.receive.dtype);
      if (!own) receives.push_back({peer, outputs[i]->data(), outputs[i]->bytes()});
    }
  }
  operation->steps.push_back(
      [=](Transfer& transfer) { transfer.start(sends, receives, desk->tag); });
  operation->steps.push_back([=, &part](Transfer&) {
    deliver_own(desk, part, outputs, *inputs);
    part.received.resize(outputs.size());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]) continue;
      const TensorMeta meta = contiguous_meta(outputs[i]->shape(), outputs[i]->dtype());
      part.received[i] = Tensor(make_ref<Storage>(outputs[i]->finish()), meta);
    }
  });
  return operation;
}

std::shared_ptr<Operation> bytes_operation(Session& session, const Seat& seat,
                                           std::string_view mine, std::vector<std::string>& all) {
  const DeskRef desk = make_desk(session, seat, CollectiveKind::kAllGatherBytes);
  auto operation = make_operation(desk);
  auto sizes = std::make_shared<std::vector<std::uint64_t>>(desk->size(), mine.size());
  auto texts = std::make_shared<std::vector<std::string>>(desk->size());
  (*texts)[desk->rank] = mine;
  const auto exchange = [desk](Transfer& transfer, void* data, std::size_t bytes, int tag,
                               const std::function<Piece(std::size_t)>& receive) {
    Pieces sends, receives;
    for (std::size_t i = 0; i < desk->size(); ++i) {
      if (i == desk->rank) continue;
      sends.push_back({desk->ranks[i], data, bytes});
      receives.push_back(receive(i));
    }
    transfer.start(sends, receives, tag);
  };
  operation->steps.push_back([=](Transfer& transfer) {
    exchange(transfer, &(*sizes)[desk->rank], sizeof(std::uint64_t), desk->tag, [&](std::size_t i) {
      return Piece{desk->ranks[i], &(*sizes)[i], sizeof(std::uint64_t)};
    });
  });
  operation->steps.push_back([=](Transfer& transfer) {
    std::string& own = (*texts)[desk->rank];
    exchange(transfer, own.data(), own.size(), desk->tag + 1, [&](std::size_t i) {
      (*texts)[i].resize((*sizes)[i]);
      return Piece{desk->ranks[i], (*texts)[i].data(), (*texts)[i].size()};
    });
  });
  operation->steps.push_back([=, &all](Transfer&) { all = std::move(*texts); });
  return operation;
}

std::shared_ptr<Operation> barrier_operation(Session& session, const Seat& seat) {
  const DeskRef desk = make_desk(session, seat, CollectiveKind::kBarrier);
  auto operation = make_operation(desk);
  std::byte* token = desk->stage(2);
  // In the last of these rounds every rank has received from every other.
  for (std::size_t reach = 1; reach < desk->size(); reach *= 2) {
    const std::int64_t to = desk->ranks[(desk->rank + reach) % desk->size()];
    const std::int64_t from = desk->ranks[(desk->rank + desk->size() - reach) % desk->size()];
    const int later = reach > 1 ? 1 : 0;
    // The steps hold the desk, which holds the token.
    operation->steps.push_back([=](Transfer& transfer) {
      transfer.start({{to, token, 1}}, {{from, token + 1, 1}}, desk->tag + later);
    });
  }
  return operation;
}

}  // namespace shardlab::mpi
