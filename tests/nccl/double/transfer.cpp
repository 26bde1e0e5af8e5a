// Every call becomes messages over the rings of pairs of ranks. A message carries the call that it
// belongs to, so that the receiver sees where two ranks are in different calls: the real library
// would hang or corrupt memory there.
#include "tests/nccl/double/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <utility>

#include "tests/nccl/double/deadline.h"
#include "tests/nccl/double/values.h"

namespace shardlab::nccl_double {

namespace {

constexpr const char* kNames[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                  "ncclBroadcast", "ncclReduce",    "ncclSend",
                                  "ncclRecv"};

bool reduces(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kReduceScatter || kind == Kind::kReduce;
}

// One end of a message: header, then bytes, through a ring.
struct Message {
  const Place* place = nullptr;
  int peer = -1;
  const Operation* operation = nullptr;
  const std::byte* from = nullptr;  // a send
  std::byte* to = nullptr;          // a receive
  std::size_t size = 0;
  std::size_t done = 0;  // of header and bytes together
  Operation theirs{};    // receive: the header

  bool sends() const { return to == nullptr; }
  std::size_t total() const { return sizeof(Operation) + size; }
};

// Bytes that can be moved at once from a linear position of the ring.
std::size_t run_at(std::uint64_t position, std::size_t wanted) {
  return std::min(wanted, kRingBytes - static_cast<std::size_t>(position % kRingBytes));
}

std::byte* place_of(Message& message) {
  if (message.done < sizeof(Operation)) {
    return reinterpret_cast<std::byte*>(&message.theirs) + message.done;
  }
  return message.to + (message.done - sizeof(Operation));
}

const std::byte* source_of(const Message& message) {
  if (message.done < sizeof(Operation)) {
    return reinterpret_cast<const std::byte*>(message.operation) + message.done;
  }
  return message.from + (message.done - sizeof(Operation));
}

// Up to the end of the header or of the message.
std::size_t left_in_part(const Message& message) {
  return message.done < sizeof(Operation) ? sizeof(Operation) - message.done
                                          : message.total() - message.done;
}

bool progress_send(Message& message) {
  Ring& ring = message.place->region.ring(message.place->rank, message.peer);
  const std::uint64_t written = ring.written.load(std::memory_order_relaxed);
  const std::uint64_t read = ring.read.load(std::memory_order_acquire);
  const std::size_t room = kRingBytes - static_cast<std::size_t>(written - read);
  const std::size_t step = run_at(written, std::min(room, left_in_part(message)));
  if (step == 0) return false;
  std::memcpy(ring.bytes + written % kRingBytes, source_of(message), step);
  message.done += step;
  ring.written.store(written + step, std::memory_order_release);
  message.place->region.wake(message.peer);
  return true;
}

bool same_call(const Operation& mine, const Operation& theirs) {
  const bool pair = mine.kind == Kind::kRecv && theirs.kind == Kind::kSend;
  if (!pair && (mine.kind != theirs.kind || mine.peer != theirs.peer)) return false;
  if (mine.count != theirs.count || mine.type != theirs.type) return false;
  return !reduces(mine.kind) || mine.op == theirs.op;
}

bool progress_receive(Message& message) {
  Ring& ring = message.place->region.ring(message.peer, message.place->rank);
  const std::uint64_t read = ring.read.load(std::memory_order_relaxed);
  const std::uint64_t written = ring.written.load(std::memory_order_acquire);
  const auto there = static_cast<std::size_t>(written - read);
  const std::size_t step = run_at(read, std::min(there, left_in_part(message)));
  if (step == 0) return false;
  std::memcpy(place_of(message), ring.bytes + read % kRingBytes, step);
  message.done += step;
  ring.read.store(read + step, std::memory_order_release);
  message.place->region.wake(message.peer);
  if (message.done == sizeof(Operation) && !same_call(*message.operation, message.theirs)) {
    message.place->region.fail(fmt::format("rank {} is in {}, rank {} in {}", message.place->rank,
                                           text(*message.operation), message.peer,
                                           text(message.theirs)));
  }
  return true;
}

// A send is over when it has been taken: a call to ncclSend blocks until the receive is there.
bool over(const Message& message) {
  if (message.done < message.total()) return false;
  if (!message.sends()) return true;
  const Ring& ring = message.place->region.ring(message.place->rank, message.peer);
  return ring.read.load(std::memory_order_acquire) == ring.written.load(std::memory_order_relaxed);
}

class Runner {
 public:
  explicit Runner(const std::vector<GroupedOperation>& operations) : operations_(operations) {
    for (const GroupedOperation& grouped : operations) start(*grouped.place, grouped.operation);
  }

  void run() {
    if (advance()) finish();
  }

 private:
  using Lane = std::pair<std::pair<const Place*, int>, bool>;

  void start(const Place& place, const Operation& operation);
  void add(const Place& place, const Operation& operation, int peer, const void* from, void* to,
           std::size_t size);
  bool advance();
  bool failed() const;
  [[noreturn]] void give_up() const;
  void finish() const;

  const std::vector<GroupedOperation>& operations_;
  std::map<Lane, std::deque<Message>> lanes_;
  std::map<const Operation*, std::vector<std::vector<std::byte>>> received_;
};

void Runner::add(const Place& place, const Operation& operation, int peer, const void* from,
                 void* to, std::size_t size) {
  static std::byte nothing;
  Message message;
  message.place = &place;
  message.peer = peer;
  message.operation = &operation;
  message.size = size;
  message.from = static_cast<const std::byte*>(from);
  if (from == nullptr) message.to = size == 0 ? &nothing : static_cast<std::byte*>(to);
  lanes_[{{&place, peer}, message.sends()}].push_back(message);
}

void Runner::start(const Place& place, const Operation& operation) {
  const std::size_t bytes = operation.count * bytes_of(operation.type);
  static const std::byte something{};
  const auto* from =
      operation.from == nullptr ? &something : static_cast<const std::byte*>(operation.from);
  auto* to = static_cast<std::byte*>(operation.to);
  if (operation.kind == Kind::kSend)
    return add(place, operation, operation.peer, from, nullptr, bytes);
  if (operation.kind == Kind::kRecv)
    return add(place, operation, operation.peer, nullptr, to, bytes);
  auto& parts = received_[&operation];
  parts.resize(static_cast<std::size_t>(place.region.ranks()));
  for (int peer = 0; peer < place.region.ranks(); ++peer) {
    if (peer == place.rank) continue;
    const auto index = static_cast<std::size_t>(peer);
    switch (operation.kind) {
      case Kind::kAllGather:
        add(place, operation, peer, from, nullptr, bytes);
        add(place, operation, peer, nullptr, to + index * bytes, bytes);
        break;
      case Kind::kBroadcast:
        if (operation.peer == place.rank) add(place, operation, peer, from, nullptr, bytes);
        if (operation.peer == peer) add(place, operation, peer, nullptr, to, bytes);
        break;
      case Kind::kReduce:
        if (operation.peer == place.rank) {
          parts[index].resize(bytes);
          add(place, operation, peer, nullptr, parts[index].data(), bytes);
        }
        if (operation.peer == peer) add(place, operation, peer, from, nullptr, bytes);
        break;
      default:
        parts[index].resize(bytes);
        add(place, operation, peer,
            operation.kind == Kind::kReduceScatter ? from + index * bytes : from, nullptr, bytes);
        add(place, operation, peer, nullptr, parts[index].data(), bytes);
    }
  }
}

bool Runner::failed() const {
  return std::ranges::any_of(operations_, [](const GroupedOperation& grouped) {
    return grouped.place->aborted || grouped.place->region.failed();
  });
}

bool Runner::advance() {
  Deadline deadline;
  while (!lanes_.empty()) {
    if (failed()) return false;
    const Place& any = *operations_.front().place;
    const std::uint32_t bell = any.region.bell(any.rank);
    bool moved = false;
    for (auto lane = lanes_.begin(); lane != lanes_.end();) {
      Message& message = lane->second.front();
      while (message.done < message.total() &&
             (message.sends() ? progress_send(message) : progress_receive(message))) {
        moved = true;
      }
      const bool ends = over(message);
      if (ends) lane->second.pop_front();
      moved = moved || ends;
      lane = lane->second.empty() ? lanes_.erase(lane) : std::next(lane);
    }
    if (moved) {
      deadline.restart();
    } else if (deadline.passed()) {
      give_up();
    } else {
      any.region.await_bell(any.rank, bell);
    }
  }
  return !failed();
}

void Runner::give_up() const {
  const Message& message = lanes_.begin()->second.front();
  hang(fmt::format("rank {} waits in {} for rank {}: nothing moved for {} ms", message.place->rank,
                   text(*message.operation), message.peer, deadline_milliseconds()));
}

void Runner::finish() const {
  for (const GroupedOperation& grouped : operations_) {
    const Operation& operation = grouped.operation;
    const auto rank = static_cast<std::size_t>(grouped.place->rank);
    const std::size_t bytes = operation.count * bytes_of(operation.type);
    const auto* from = static_cast<const std::byte*>(operation.from);
    auto* to = static_cast<std::byte*>(operation.to);
    if (bytes == 0) continue;
    if (operation.kind == Kind::kAllGather) std::memmove(to + rank * bytes, from, bytes);
    if (operation.kind == Kind::kBroadcast && operation.peer == grouped.place->rank) {
      std::memmove(to, from, bytes);
    }
    const bool elsewhere = operation.kind == Kind::kReduce && operation.peer != grouped.place->rank;
    if (!reduces(operation.kind) || elsewhere) continue;
    std::vector<const void*> inputs;
    for (const auto& part : received_.at(&operation)) inputs.push_back(part.data());
    inputs[rank] = operation.kind == Kind::kReduceScatter ? from + rank * bytes : from;
    combine(operation.type, operation.op, inputs, to, operation.count);
  }
}

}  // namespace

std::string text(const Operation& operation) {
  std::string result = fmt::format("{}({} x {}", kNames[static_cast<int>(operation.kind)],
                                   operation.count, name_of(operation.type));
  if (reduces(operation.kind)) result += ", " + name_of(operation.op);
  if (operation.kind == Kind::kBroadcast || operation.kind == Kind::kReduce) {
    result += fmt::format(", root {}", operation.peer);
  }
  if (operation.kind == Kind::kSend) result += fmt::format(", to rank {}", operation.peer);
  if (operation.kind == Kind::kRecv) result += fmt::format(", from rank {}", operation.peer);
  return result + fmt::format("), call {}", operation.sequence);
}

void run_operations(const std::vector<GroupedOperation>& operations) { Runner(operations).run(); }

}  // namespace shardlab::nccl_double
