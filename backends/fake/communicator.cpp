// Every call is logged with its shapes, and answered at once with an empty result of the right
// shape. The replay of the logs of all classes finds out later whether the other ranks enter. Calls
// whose result depends on other ranks' data are refused.
#include "backends/fake/communicator.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "backends/shared/call.h"
#include "base/hash.h"
#include "comm/process_group.h"
#include "mesh/mesh_views.h"
#include "mesh/seen_mesh.h"
#include "tensor/device.h"
#include "tensor/needs_values.h"

namespace shardlab::fake {

Error no_view(const MeshLayout& mesh, const MeshLayout& whole) {
  return Error(ErrorKind::kUnsupported, "a group that is not a line of the scenario's mesh")
      .with(kNeeds, "ranks one by one, where shapes alone have classes of them")
      .with("mesh", fmt::format("{} next to {}", mesh.text(), whole.text()))
      .with("fix", "the meshes of a shape-only world are views of all its ranks, in one order");
}

std::shared_ptr<const std::vector<std::int64_t>> LengthsTable::keep(Lengths lengths) {
  if (const KnownLengths* known = lengths.known()) {
    return {known->shared_from_this(), &known->values()};
  }
  auto& known = by_hash_[hash_range(0, lengths)];
  for (const auto& candidate : known) {
    if (std::ranges::equal(*candidate, lengths)) return candidate;
  }
  return known.emplace_back(
      std::make_shared<const std::vector<std::int64_t>>(lengths.begin(), lengths.end()));
}

namespace {

void note_wait(ClassLog& log, const Stop* stop, std::size_t call) {
  log.entries.push_back({LogEntry::Kind::kWaits, call});
  if (stop != nullptr && stop->call == call) throw Error(stop->error);
}

// An asynchronous result: the wait is noted where the program needs the data.
class PendingResult final : public Work {
 public:
  PendingResult(const ClassContext& context, std::size_t call, Storage& storage, BufferRef result)
      : log_(context.log),
        stop_(context.stop),
        call_(call),
        storage_(storage),
        result_(std::move(result)) {}

  void wait() override {
    if (done_) return;
    note_wait(*log_, stop_.get(), call_);
    done_ = true;
    storage_.complete(std::move(result_));
  }
  bool done() const override { return done_; }

 private:
  const std::shared_ptr<ClassLog> log_;
  const std::shared_ptr<const Stop> stop_;
  const std::size_t call_;
  Storage& storage_;  // holds this
  BufferRef result_;
  bool done_ = false;
};

class ShapeCommunicator final : public Communicator {
 public:
  struct Place {
    GroupKind kind;
    std::string name;
    std::int64_t rank, size;
  };
  ShapeCommunicator(ClassContext& context, Place place)
      : context_(context), place_(std::move(place)), channel_(context.log->channels++) {}

  std::int64_t rank() const override { return place_.rank; }
  std::int64_t size() const override { return place_.size; }
  std::span<const std::int64_t> ranks() const override {
    if (!ranks_.empty()) return ranks_;
    GroupIdentity group;
    group.size = place_.size;
    group.first_rank = context_.rank;  // any of them will do
    group.mesh_dims = {place_.kind.mesh_dims.begin(), place_.kind.mesh_dims.end()};
    if (place_.kind.made >= 0) group.layout = context_.layout;
    ranks_ = group.ranks();
    return ranks_;
  }
  const std::string& name() const override { return place_.name; }

  Tensor perform(Call& call) override {
    if (is_message(call.kind)) begin_message(call);
    if (call.kind == CollectiveKind::kAllGatherBytes) refuse("all_gather_bytes");
    if (call.kind == CollectiveKind::kBatch && !reported_apart_) refuse("batch");
    if (!gives_tensor(call.kind)) {
      enter_and_wait(call);
      return {};
    }
    TensorMeta meta = result_meta(call, place_.rank);
    const std::size_t entered = enter(call);
    const auto bytes = static_cast<std::size_t>(product(meta.shape) * item_bytes(meta.dtype));
    BufferRef result = call.device->allocate(bytes);
    if (call.issue == Issue::kAsync) {
      auto storage = make_ref<Storage>(BufferRef{});
      storage->set_pending(make_ref<PendingResult>(context_, entered, *storage, std::move(result)));
      return Tensor(std::move(storage), std::move(meta));
    }
    await_call(entered);
    return Tensor(make_ref<Storage>(std::move(result)), std::move(meta));
  }
  void compare_answers(const std::function<std::uint64_t(std::int64_t)>& answer) override {
    if (place_of(context_.rank) != place_.rank) refuse("batch along mesh dims in another order");
    context_.ask([&](std::int64_t rank) {
      const std::int64_t place = place_of(rank);
      return place < 0 ? 0 : answer(place);
    });
    reported_apart_ = true;
  }
  std::unique_ptr<Communicator> split(std::int64_t, std::int64_t, std::string) override {
    refuse("split");
  }
  std::unique_ptr<Communicator> along(const MeshLayout& layout,
                                      std::span<const std::size_t> mesh_dims) override {
    check_invariant(place_.kind.made < 0, "meshes are made on the world");
    Call call(CollectiveKind::kSplit);
    begin(call, nullptr);
    const auto made = static_cast<std::int64_t>(sequence_);
    enter_and_wait(call);
    // Ranks outside of a mesh of some ranks do something else.
    const MeshLayout& root = *layout.root();
    if (root.size() < context_.world_size) {
      context_.ask([&](std::int64_t rank) { return root.coordinate_of(rank) ? 1 : 0; });
    }
    const auto coordinate = layout.coordinate_of(context_.rank);
    if (!coordinate) return nullptr;
    Place place{{made, {}}, group_name(layout, mesh_dims), 0, 1};
    for (const std::size_t mesh_dim : mesh_dims) {
      const auto own = mesh_dims_of(layout, mesh_dim, *coordinate);
      place.kind.mesh_dims.insert(place.kind.mesh_dims.end(), own.begin(), own.end());
      place.rank = place.rank * layout.size(mesh_dim) + (*coordinate)[mesh_dim];
      place.size *= layout.size(mesh_dim);
    }
    std::ranges::sort(place.kind.mesh_dims);
    return std::make_unique<ShapeCommunicator>(context_, std::move(place));
  }
  void abort(const Error& reason) override { throw Error(reason); }

 private:
  void enter_and_wait(Call& call) {
    const std::size_t entered = enter(call);
    if (call.kind == CollectiveKind::kBatch) {
      auto& part = *std::get<BatchPart*>(call.part);
      for (const SendRecv& partner : part.exchange) {
        part.received.push_back(partner.receives ? empty(*call.device, partner.receive) : Tensor());
      }
    }
    await_call(entered);
  }
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(
        ErrorKind::kUnsupported,
        fmt::format("{} on group {}: its result depends on other ranks' data", what, place_.name))
        .with(kNeeds, kNeedsValues)
        .with("fix", "a shape-only mesh holds no data; run it on a backend that computes");
  }
  std::size_t enter(const Call& call) {
    auto logged = std::make_unique<LoggedCall>(call.kind);
    logged->group = place_.kind;
    logged->group_name = place_.name;
    number(call, *logged);
    Call& copy = logged->call;
    backends::copy_plain(call, copy);
    if (call.x != nullptr) {
      logged->x = Tensor(context_.nothing, call.x->meta());
      copy.x = &logged->x;
    }
    if (call.expected != nullptr) {
      logged->expected = *call.expected;
      copy.expected = &logged->expected;
    }
    logged->lengths = context_.lengths->keep(call.lengths);
    logged->concat_values = context_.lengths->keep(call.concat_lengths());
    logged->concat_lengths = *logged->concat_values;
    logged->rank = place_.rank;
    if (call.kind == CollectiveKind::kBatch) {
      const auto exchange = std::get<BatchPart*>(call.part)->exchange;
      logged->exchange.assign(exchange.begin(), exchange.end());
      for (SendRecv& part : logged->exchange) {
        if (part.send.defined()) part.send = Tensor(context_.nothing, part.send.meta());
      }
      logged->batch.exchange = logged->exchange;
      copy.part = &logged->batch;
    }
    copy.lengths = *logged->lengths;
    if (call.kind == CollectiveKind::kAllToAll) copy.part = &logged->concat_lengths;
    reported_apart_ = false;
    ClassLog& log = *context_.log;
    log.calls.push_back(std::move(logged));
    log.entries.push_back({LogEntry::Kind::kEnters, log.calls.size() - 1});
    return log.calls.size() - 1;
  }
  // Ranks that send to one rank, or receive from one, have different places in their groups.
  void begin_message(Call& call) {
    if (std::max(call.to, call.from) == place_.rank) refuse("a message of a rank to itself");
    context_.ask([&](std::int64_t rank) { return static_cast<std::uint64_t>(place_of(rank) + 1); });
    if (takes_any(call)) call.from = next_sender(call);
  }
  std::int32_t next_sender(const Call& call) {
    if (context_.senders.empty()) {
      context_.log->open = true;
      await_call(enter(call));
      throw Error(ErrorKind::kRuntime, "nothing says yet who sends");
    }
    const std::int64_t sender = context_.senders.front();
    context_.senders = context_.senders.subspan(1);
    return static_cast<std::int32_t>(sender);
  }
  void number(const Call& call, LoggedCall& logged) {
    if (!is_message(call.kind)) {
      logged.channel = channel_;
      logged.sequence = sequence_++;
      return;
    }
    const bool sends = call.kind == CollectiveKind::kSend;
    const auto [way, is_new] = ways_.try_emplace({sends, sends ? call.to : call.from, call.tag});
    if (is_new) way->second.channel = context_.log->channels++;
    logged.channel = way->second.channel;
    logged.sequence = way->second.next++;
  }
  /// The place of any rank in its group of this kind; -1 if it is in none.
  std::int64_t place_of(std::int64_t rank) const {
    if (place_.kind.made < 0) return rank;
    const auto coordinate = context_.layout->coordinate_of(rank);
    if (!coordinate) return -1;
    std::int64_t place = 0;
    for (const std::size_t dim : place_.kind.mesh_dims) {
      place = place * context_.layout->size(dim) + (*coordinate)[dim];
    }
    return place;
  }
  void await_call(std::size_t call) { note_wait(*context_.log, context_.stop.get(), call); }
  // The dims of the scenario's mesh along which the group of a mesh, maybe a part of it, is.
  std::vector<std::size_t> mesh_dims_of(const MeshLayout& layout, std::size_t mesh_dim,
                                        const Coordinate& coordinate) const {
    std::vector<std::size_t> dims;
    if (const auto axes = axes_on(*context_.layout, seen_from(*context_.layout, layout))) {
      for (const auto& [dim, step] : (*axes)[mesh_dim]) dims.push_back(dim);
      return dims;
    }
    const MeshLayout& whole = *context_.layout;
    const auto own = whole.coordinate_of(context_.rank);
    // Another view of the ranks has too many of them to be looked at: a refinement tells.
    if (own && layout.root() != whole.root()) {
      const std::vector<std::int64_t> members = layout.group_ranks(mesh_dim, coordinate);
      for (std::size_t dim = 0; dim < whole.ndim(); ++dim) {
        const bool varies = std::ranges::any_of(members, [&](std::int64_t rank) {
          const auto other = whole.coordinate_of(rank);
          return other && (*other)[dim] != (*own)[dim];
        });
        if (varies) dims.push_back(dim);
      }
      if (whole.group_ranks(dims, *own) == members) return dims;
    }
    context_.lacks = &layout;
    throw no_view(layout, whole);
  }

  ClassContext& context_;
  // Messages under one tag, to or from one rank.
  struct Way {
    std::size_t channel = 0;
    std::uint64_t next = 0;
  };

  const Place place_;
  const std::size_t channel_;
  std::uint64_t sequence_ = 0;
  std::map<std::tuple<bool, std::int32_t, std::int32_t>, Way> ways_;  // sends, the other rank, tag
  bool reported_apart_ = false;              // the ranks alike in the next batch are known
  mutable std::vector<std::int64_t> ranks_;  // made when first used
};

}  // namespace

std::unique_ptr<Communicator> make_world_communicator(ClassContext& context) {
  return std::make_unique<ShapeCommunicator>(
      context, ShapeCommunicator::Place{{}, "world", context.rank, context.world_size});
}

}  // namespace shardlab::fake
