// Each call is noted on the control channel first, for ranks that may wait for this one too long.
// If ranks compare calls, it is published there, and messages start once all ranks of the group
// have entered with calls that fit.
#include "backends/mpi/communicator.h"

#include <limits>
#include <numeric>
#include <utility>

#include "backends/mpi/collectives.h"
#include "backends/process/group_communicator.h"
#include "backends/process/wire.h"
#include "backends/shared/meeting.h"
#include "comm/verdict.h"

namespace shardlab::mpi {

Run::Run(Session& mpi_session, CollectiveChecks wanted)
    : session(mpi_session), checks(wanted), engine(std::make_shared<Engine>(mpi_session)) {
  session.begin_run();
}

namespace {

using backends::Call;

void await(Engine& engine, const PendingMessage& pending) {
  process::ControlChannel& channel = engine.session().channel();
  if (pending.compared && pending.operation->begun == 0) channel.wait_for(*pending.compared);
  channel.waits_in(pending.call);
  engine.wait(pending.operation);
  channel.goes_on();
}

// A pending result. Its tensor holds it until it is waited for.
class PendingResult final : public Work {
 public:
  /// `call`: in the channel's form; `compared`: where ranks compare it before data moves.
  PendingResult(const std::shared_ptr<Engine>& engine, TensorOperation operation, std::string call,
                std::optional<process::CallPlace> compared)
      : engine_(engine),
        operation_(std::move(operation)),
        call_(std::move(call)),
        compared_(compared) {}

  void attach(Storage& storage) { storage_ = &storage; }

  // Called by the Storage, so it is alive.
  void wait() override {
    const std::shared_ptr<Engine> engine = engine_.lock();
    if (!engine) throw backends::pending_at_the_end();
    await(*engine, {operation_.operation, call_, compared_});
    storage_->complete(std::move(*operation_.result));
  }
  bool done() const override { return operation_.operation->over(); }

 private:
  const std::weak_ptr<Engine> engine_;
  TensorOperation operation_;
  const std::string call_;
  const std::optional<process::CallPlace> compared_;
  Storage* storage_ = nullptr;
};

// Operation::way.
std::int64_t way_of(const Call& call) {
  if (!is_message(call.kind)) return 0;
  return call.kind == CollectiveKind::kSend ? call.to + 1 : -1 - call.from;
}
// Both ends of a message have the same.
Header header_of(const Call& call, std::uint64_t sequence) {
  const bool message = is_message(call.kind);
  Header header{.sequence = sequence,
                .root = call.root,
                .dim = call.dim,
                .concat_dim = call.concat_dim,
                .kind = message ? CollectiveKind::kSend : call.kind,
                .op = call.op};
  if (call.x != nullptr && call.x->defined()) {
    header.dtype = call.x->dtype();
  } else if (call.expected != nullptr) {
    header.dtype = call.expected->dtype;
  }
  return header;
}
constexpr std::int64_t kAnySender = std::numeric_limits<std::int64_t>::min();

// The number of a group is the first of its tags.
class MpiCommunicator final : public process::GroupCommunicator {
 public:
  MpiCommunicator(Run& run, const process::GroupPlace& place)
      : GroupCommunicator(place), run_(run) {}

  Tensor perform(Call& call) override {
    if (is_message(call.kind)) ways().check(call);
    if (!gives_tensor(call.kind)) {
      enter_and_wait(call);
      return {};
    }
    TensorMeta meta = result_meta(call, rank());
    std::optional<process::CallPlace> compared;
    if (call.kind == CollectiveKind::kRecv && call.from < 0) {
      find_sender(call);
      call_ = header_of(call, entrance(call, true).place.sequence);
    } else {
      compared = enter(call, call.issue);
    }
    const bool taken = (call.kind != CollectiveKind::kGather || call.root == rank()) &&
                       (call.kind != CollectiveKind::kPermute || call.from >= 0);
    // If nothing arrives the result is empty, whatever its meta.
    const Dims kept = taken ? meta.shape : Dims{0};
    TensorOperation operation = tensor_operation(run_.session, seat(call), call, kept, meta.dtype);
    operation.operation->way = way_of(call);
    if (call.issue == Issue::kAsync) {
      begin_when_met(*operation.operation, compared);
      label(*operation.operation);
      run_.engine->start(operation.operation);
      auto storage = make_ref<Storage>(BufferRef{});
      const std::string last = run_.session.channel().last_call();
      if (is_message(call.kind)) run_.messages.push_back({operation.operation, last, compared});
      const auto pending =
          make_ref<PendingResult>(run_.engine, std::move(operation), last, compared);
      pending->attach(*storage);
      storage->set_pending(pending);
      return Tensor(std::move(storage), std::move(meta));
    }
    run_to_end(operation.operation, compared);
    return Tensor(make_ref<Storage>(std::move(*operation.result)), std::move(meta));
  }
  std::unique_ptr<Communicator> split(std::int64_t color, std::int64_t key,
                                      std::string name) override {
    Call call(CollectiveKind::kSplit);
    begin(call, nullptr);
    const std::optional<process::CallPlace> compared = enter(call, Issue::kWait);
    std::vector<std::string> all;
    const process::Wish mine{color, key, run_.next_tag};
    run_to_end(bytes_operation(run_.session, seat(), process::packed(mine), all), compared);
    std::vector<process::Wish> wishes;
    for (const std::string& wish : all)
      wishes.push_back(process::Reader(wish).get<process::Wish>());
    std::vector<std::size_t> members;
    const process::GroupPlace made = split_by(wishes, std::move(name), members);
    // No two groups with a rank in common have a tag in common: each rank's tags only grow.
    run_.next_tag = static_cast<int>(made.number) + kTagsPerGroup;
    if (run_.next_tag > run_.session.api().most_tag) {
      fail(ErrorKind::kRuntime, Fix{"make each mesh and flattened mesh once, and use it again"},
           "one run has more than {} groups", run_.session.api().most_tag / kTagsPerGroup);
    }
    return color < 0 ? nullptr : std::make_unique<MpiCommunicator>(run_, made);
  }
  void abort(const Error& reason) override {
    run_.session.channel().report_failed(
        backends::verdict_on_failed({run_.session.channel().rank()}, reason.summary()));
  }

 private:
  void enter_and_wait(Call& call) {
    const std::optional<process::CallPlace> compared = enter(call, Issue::kWait);
    if (call.kind == CollectiveKind::kBatch) {
      return run_to_end(batch_operation(run_.session, seat(), call), compared);
    }
    if (call.kind == CollectiveKind::kBarrier) {
      return run_to_end(barrier_operation(run_.session, seat()), compared);
    }
    backends::BytesPart& part = *std::get<backends::BytesPart*>(call.part);
    run_to_end(bytes_operation(run_.session, seat(), part.bytes, part.gathered), compared);
  }
  // Rank 0 finds the sender: it sees all messages that wait.
  void find_sender(Call& call) {
    if (run_.checks == CollectiveChecks::kOff) {
      fail(ErrorKind::kUnsupported,
           Fix{"name the rank: src=0; or leave out --no-check-collectives (WorldOptions::checks)"},
           "recv from any rank: backend mpi takes it where ranks compare their calls");
    }
    process::ControlChannel& channel = run_.session.channel();
    const process::Entrance mine = entrance(call, true);
    channel.enter(mine, call, run_.checks);
    const auto found = std::make_shared<Operation>(run_.session, tag_of(call));
    found->way = kAnySender;
    found->may_begin = [&channel, &call, any = mine.place] {
      const std::optional<std::int64_t> sender = channel.take_sender(any);
      if (sender) call.from = static_cast<std::int32_t>(*sender);
      return sender.has_value();
    };
    found->steps.push_back([](Transfer&) {});
    run_.engine->start(found);
    run_.engine->wait(found);
  }

  Seat seat(int tag) const { return {static_cast<std::size_t>(rank()), ranks(), tag}; }
  Seat seat() const { return seat(static_cast<int>(number())); }
  Seat seat(const Call& call) const { return is_message(call.kind) ? seat(tag_of(call)) : seat(); }
  /// The tag of a message in the job: above those of groups, so that others of the group keep their
  /// order.
  int tag_of(const Call& call) const {
    constexpr std::int64_t kOfGroups = 1 << 11;
    const std::int64_t tag = (std::int64_t{call.tag} + 1) * kOfGroups + number();
    const std::int64_t most = run_.session.api().most_tag;
    if (tag <= most && run_.next_tag <= kOfGroups) return static_cast<int>(tag);
    fail(ErrorKind::kUnsupported,
         Fix{fmt::format("give tags from 0 to {}, and make each group once", most / kOfGroups - 1)},
         "backend mpi has no room for a message with tag {} in the {}th group", call.tag,
         number() / kTagsPerGroup);
  }
  void run_to_end(const std::shared_ptr<Operation>& operation,
                  std::optional<process::CallPlace> compared) {
    begin_when_met(*operation, compared);
    label(*operation);
    run_.engine->start(operation);
    run_.engine->wait(operation);
    run_.session.channel().goes_on();
  }
  /// Labels the operation as the call that was entered last.
  void label(Operation& operation) const {
    operation.transfer.call = call_;
    operation.transfer.group = name();
  }
  void begin_when_met(Operation& operation, std::optional<process::CallPlace> compared) {
    if (!compared) return;
    operation.may_begin = [&channel = run_.session.channel(), place = *compared] {
      return channel.take_met(place);
    };
  }
  /// Notes the call; if calls are compared, publishes it, and returns the place where it meets the
  /// others'.
  std::optional<process::CallPlace> enter(const Call& call, Issue issue) {
    const process::Entrance mine = entrance(call, issue == Issue::kWait);
    call_ = header_of(call, mine.place.sequence);
    if (size() == 1) return std::nullopt;
    run_.session.channel().enter(mine, call, run_.checks);
    if (run_.checks == CollectiveChecks::kOff) return std::nullopt;
    return mine.place;
  }

  Run& run_;
  Header call_;  ///< the last one
};

}  // namespace

void settle(Run& run) {
  for (const PendingMessage& message : std::exchange(run.messages, {})) {
    if (!message.operation->over()) await(*run.engine, message);
  }
}

std::unique_ptr<Communicator> make_world(Run& run) {
  process::ControlChannel& channel = run.session.channel();
  process::GroupPlace place{std::vector<std::int64_t>(static_cast<std::size_t>(channel.size())),
                            channel.rank(), "world", run.next_tag};
  std::iota(place.ranks.begin(), place.ranks.end(), 0);
  run.next_tag += kTagsPerGroup;
  return std::make_unique<MpiCommunicator>(run, place);
}

}  // namespace shardlab::mpi
