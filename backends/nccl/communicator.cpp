// A call is planned as an exchange (memory, NCCL calls, final steps), posted on the stream of
// collectives, and finished when the result is needed. Splits and texts are small gathers of
// integers and bytes.
#include "backends/nccl/communicator.h"

#include <functional>
#include <numeric>
#include <utility>

#include "backends/nccl/errand.h"
#include "backends/nccl/exchange.h"
#include "backends/shared/call.h"
#include "backends/shared/meeting.h"
#include "base/error.h"
#include "tensor/device.h"

namespace shardlab::nccl {

using backends::BytesPart;
using backends::Call;

namespace {

// An exchange in flight. Holds its memory until it is over, also when it is never awaited.
class PendingExchange final : public Work {
 public:
  PendingExchange(const std::shared_ptr<Session>& session, Comm comm, Exchange exchange,
                  std::string what)
      : session_(session),
        comm_(comm),
        exchange_(std::make_shared<Exchange>(std::move(exchange))),
        what_(std::move(what)) {}
  ~PendingExchange() override {
    if (posted_ == nullptr) return;
    const std::shared_ptr<Session> session = session_.lock();
    if (!session) {
      // It ended with the last posted call, unless that was left behind.
      if (something_is_left()) keep_for_ever(std::move(exchange_));
      return;
    }
    session->let_go(posted_, std::move(exchange_));
  }

  void post() {
    if (exchange_->calls.empty()) return;
    const std::shared_ptr<Session> session = alive();
    session->post(comm_, exchange_->calls, exchange_, what_);
    posted_ = session->in_flight().mark();
  }
  /// Another call posts this one; it is posted when `posted` returns.
  void post_later(std::function<void()> posted) { before_ = std::move(posted); }

  Tensor finish() {
    const std::shared_ptr<Session> session = alive();
    if (before_) std::exchange(before_, nullptr)();
    if (posted_ != nullptr) {
      session->await(posted_, what_);
      session->in_flight().release(std::exchange(posted_, nullptr));
    }
    Tensor result = exchange_->finish();
    *exchange_ = {};
    return result;
  }

  Ref<Storage> start() {
    auto storage = make_ref<Storage>(BufferRef{});
    storage_ = storage.get();
    storage->set_pending(Ref<Work>(this));
    return storage;
  }
  // Called by the Storage, so it is alive. Results of asynchronous calls begin their Buffer.
  void wait() override { storage_->complete(finish().storage()->buffer()); }
  bool done() const override {
    const std::shared_ptr<Session> session = session_.lock();
    if (!session) return true;
    return posted_ == nullptr ? !before_ : session->in_flight().reached(posted_);
  }

 private:
  std::shared_ptr<Session> alive() const {
    std::shared_ptr<Session> session = session_.lock();
    if (!session) throw backends::pending_at_the_end();
    return session;
  }

  const std::weak_ptr<Session> session_;
  const Comm comm_;
  std::shared_ptr<Exchange> exchange_;
  const std::string what_;
  std::function<void()> before_;
  Event posted_ = nullptr;
  Storage* storage_ = nullptr;
};

class NcclCommunicator final : public process::GroupCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<Session> session, GroupPlace place, Abort abort,
                   std::shared_ptr<Turns> turns)
      : GroupCommunicator(place),
        session_(std::move(session)),
        place_(std::move(place)),
        abort_(std::move(abort)),
        turns_(std::move(turns)) {}

  Tensor perform(Call& call) override {
    if (is_message(call.kind)) check_message(call);
    if (!gives_tensor(call.kind)) {
      enter_and_wait(call);
      go_on();
      return {};
    }
    TensorMeta meta = result_meta(call, rank());
    if (call.issue == Issue::kWait) {
      if (call.kind == CollectiveKind::kRecv && call.from < 0) {
        call.from = static_cast<std::int32_t>(turns_->take(entrance(call), call).sequence);
        entrance(call);
      } else {
        take_turn(call);
      }
      Tensor result = run(call, meta.shape);
      go_on();
      return result;
    }
    const auto pending = make_ref<PendingExchange>(
        session_, place_.comm, plan_exchange(*session_, place_, call, meta.shape), what(call));
    if (takes_turns()) {
      const process::Entrance mine = entrance(call);
      pending->post_later([turns = std::weak_ptr(turns_), place = mine.place] {
        if (const std::shared_ptr<Turns> alive = turns.lock()) alive->await(place);
      });
      turns_->queue(mine, call, [pending] { pending->post(); });
    } else {
      pending->post();
    }
    return Tensor(pending->start(), std::move(meta));
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override {
    Call call(CollectiveKind::kSplit);
    begin(call, nullptr);
    take_turn(call);
    Device& device = *call.device;
    constexpr auto kColumns = static_cast<std::int64_t>(sizeof(process::Wish) / sizeof color);
    const process::Wish mine{color, key, turns_ ? turns_->next_group() : 0};
    const Tensor entry = empty(device, Dims{1, kColumns}, DType::kI64);
    device.write(entry, &mine);
    const std::vector<std::int64_t> ones(place_.ranks.size(), 1);
    std::vector<process::Wish> wishes(place_.ranks.size());
    device.read(gather_rows(entry, ones), wishes.data());
    std::vector<std::size_t> members;
    GroupPlace made{split_by(wishes, std::move(name), members)};
    if (turns_) turns_->group_made(made.number);
    for (const std::size_t i : members) made.hosts.push_back(place_.hosts[i]);
    // Colours are any numbers here; NCCL's are small ones, none negative: that of a group's first.
    const int nccl_color = members.empty() ? kNoColor : static_cast<int>(members.front());
    made.comm = session_->split(place_.comm, nccl_color, static_cast<int>(made.rank));
    go_on();
    if (color < 0) return nullptr;
    return make_communicator(session_, std::move(made), abort_, turns_);
  }
  void abort(const Error& reason) override { abort_(reason); }

 private:
  std::string what(const Call& call) const {
    return fmt::format("{} on group {}", backends::signature(call), name());
  }
  process::Entrance entrance(const Call& call) {
    return GroupCommunicator::entrance(call, call.issue == Issue::kWait);
  }
  bool takes_turns() const { return turns_ && size() > 1; }
  void take_turn(const Call& call) {
    if (takes_turns()) turns_->take(entrance(call), call);
  }
  void go_on() {
    if (takes_turns()) turns_->go_on();
  }
  Tensor finish_now(Exchange exchange, const Call& call) {
    PendingExchange pending(session_, place_.comm, std::move(exchange), what(call));
    pending.post();
    return pending.finish();
  }
  // Calls of our own are never compared: the call that they belong to was.
  Tensor run(const Call& call, const Dims& shape) {
    return finish_now(plan_exchange(*session_, place_, call, shape), call);
  }
  // All calls of a rank share one stream, so that two ranks must make the halves of a message in
  // the same order among all others: only rank 0, which compares calls, has such an order.
  void check_message(const Call& call) const {
    ways().check(call);
    if (turns_ && turns_->compared()) return;
    fail(ErrorKind::kUnsupported,
         Fix{"leave out --no-check-collectives; in C++: WorldOptions::checks"},
         "{}: backend nccl passes messages only where ranks compare their calls",
         to_string(call.kind));
  }
  void enter_and_wait(Call& call) {
    take_turn(call);
    if (call.kind == CollectiveKind::kBarrier) return wait_for_all(*call.device);
    if (call.kind == CollectiveKind::kAllGatherBytes) {
      return gather_bytes(*std::get<BytesPart*>(call.part), *call.device);
    }
    finish_now(plan_batch(*session_, place_, call), call);
  }
  // The same number of columns on all ranks, lengths[i] rows of rank i.
  Tensor gather_rows(const Tensor& rows, Lengths lengths) {
    if (size() == 1) return rows;
    Call call(CollectiveKind::kAllGather);
    begin(call, &rows);
    call.lengths = lengths;
    Dims shape = rows.shape();
    shape[0] = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
    return run(call, shape);
  }
  void gather_bytes(BytesPart& part, Device& device) {
    const auto mine = static_cast<std::int64_t>(part.bytes.size());
    const Tensor length = empty(device, Dims{1}, DType::kI64);
    device.write(length, &mine);
    const std::vector<std::int64_t> ones(place_.ranks.size(), 1);
    std::vector<std::int64_t> lengths(place_.ranks.size());
    device.read(gather_rows(length, ones), lengths.data());
    const Tensor bytes = empty(device, Dims{mine}, DType::kU8);
    if (mine > 0) device.write(bytes, part.bytes.data());
    std::string all(
        static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
        '\0');
    const Tensor gathered = gather_rows(bytes, lengths);
    if (!all.empty()) device.read(gathered, all.data());
    std::size_t offset = 0;
    for (const std::int64_t size : lengths) {
      part.gathered.push_back(all.substr(offset, static_cast<std::size_t>(size)));
      offset += static_cast<std::size_t>(size);
    }
  }
  // No rank continues before all have entered: the host waits for the gathered values.
  void wait_for_all(Device& device) {
    std::string nothing("here");
    BytesPart part{nothing, {}};
    gather_bytes(part, device);
  }

  const std::shared_ptr<Session> session_;
  const GroupPlace place_;
  const Abort abort_;
  const std::shared_ptr<Turns> turns_;  // null: calls are reported to no other rank
};

}  // namespace

std::unique_ptr<Communicator> make_communicator(std::shared_ptr<Session> session, GroupPlace place,
                                                Abort abort, std::shared_ptr<Turns> turns) {
  return std::make_unique<NcclCommunicator>(std::move(session), std::move(place), std::move(abort),
                                            std::move(turns));
}

}  // namespace shardlab::nccl
