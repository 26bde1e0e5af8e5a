// Operands are copied before the call, which may write them, results after it. The log of a rank is
// bounded: an explanation of a mistake needs the first calls, not all of a long loop. A changed
// result is written where it is, so that views and what backward keeps have it, too.
#include "sim/verify/labels/call_log.h"

#include "autograd/grad_node.h"
#include "comm/filling.h"
#include "schema/call_record.h"
#include "schema/op_row.h"
#include "tensor/device.h"
#include "tensor/pending_storage.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostCalls = 4096;
constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

// In f64, integers and bools as they are.
template <typename Number, typename From>
void write_as(const Tensor& to, const std::vector<From>& numbers) {
  std::vector<Number> bytes;
  for (const From number : numbers) bytes.push_back(static_cast<Number>(number));
  to.device()->write(to, bytes.data());
}

// A view that should have another shape becomes a tensor of its own.
void write_numbers(Tensor& to, const GlobalValue& value, bool apart) {
  if (apart || to.shape() != value.meta.shape)
    to = empty(*to.device(), value.meta.shape, to.dtype());
  const DType dtype = to.dtype();
  if (dtype == DType::kF64) write_as<double>(to, value.reals);
  if (dtype == DType::kF32) write_as<float>(to, value.reals);
  if (dtype == DType::kI64) write_as<std::int64_t>(to, value.integers);
  if (dtype == DType::kBool) write_as<std::uint8_t>(to, value.integers);
}

class LoggingObserver final : public ForwardingObserver {
 public:
  LoggingObserver(std::int64_t rank, std::vector<LoggedCall>& calls,
                  const std::vector<ChangedResult>& changes, Observer* next)
      : ForwardingObserver(next),
        rank_(static_cast<std::size_t>(rank)),
        calls_(calls),
        changes_(changes) {}

  void call_begins(const CallRecord& call) override {
    if (depth_++ == 0) begin(call);
    ForwardingObserver::call_begins(call);
  }

  void call_ends(const CallRecord& call) override {
    if (--depth_ == 0) {
      for_each_tensor(*call.results, [&](const DTensor& x) { keep_result(x); });
      end();
    }
    ForwardingObserver::call_ends(call);
  }

  void call_fails() override {
    if (--depth_ == 0) open_ = {};
    ForwardingObserver::call_fails();
  }

  void collective_ends(const CollectiveCall& call) override {
    const GroupIdentity& group = call.group->identity();
    exchange_ = {};
    exchange_.collective = call.kind;
    exchange_.reduction = call.op;
    exchange_.group_size = group.size;
    exchange_.dims = {call.dim};
    for (const std::size_t dim : group.mesh_dims) {
      if (group.layout != nullptr) exchange_.group.push_back(group.layout->names()[dim]);
    }
    // The source of a broadcast in place has its result already, one that a reduce sends none.
    const bool has = call.kind == CollectiveKind::kBroadcast && call.source == call.group->rank() &&
                     PendingStorage::done(*call.result.storage());
    const bool none = call.kind == CollectiveKind::kReduce && !call.result.defined();
    const bool sends = (current_rank().mode & kModeFilling) != 0 && call.input.defined();
    if (depth_ == 0 && sends && (has || none)) collected(DTensor(call.input), DTensor(call.input));
    exchange_.position = current_rank().position;
    if (call.result.defined()) issued_[call.result.storage().get()] = exchange_;
    ForwardingObserver::collective_ends(call);
  }

  void placed(const PlacedRecord& record) override {
    if (depth_ == 0 && record.kind == PlacedRecord::Kind::kCollected) {
      collected(record.from, record.to);
    } else if (depth_ == 0 && record.kind == PlacedRecord::Kind::kToLocal) {
      open_ = {};
      open_.spec = record.from.spec();
      step(LoggedCall::Kind::kToLocal, "to_local");
      keep_result(record.to);
      end();
    }
    ForwardingObserver::placed(record);
  }

  void leaf_written(const DTensor& leaf) override {
    if (const DTensor gradient = grad_of(leaf); gradient.defined()) {
      open_ = {};
      step(LoggedCall::Kind::kGradient, "gradient");
      keep_result(gradient);
      end();
    }
    ForwardingObserver::leaf_written(leaf);
  }

 private:
  // A message that is waited for has the place where it was issued.
  void collected(const DTensor& from, const DTensor& to) {
    const auto issued = issued_.find(to.local().storage().get());
    const bool message = issued != issued_.end() && is_message(issued->second.collective);
    open_ = issued != issued_.end() ? issued->second : exchange_;
    step(LoggedCall::Kind::kCollective, std::string(to_string(open_.collective)), message);
    keep_operand(from);
    keep_result(to);
    end();
  }

  void begin(const CallRecord& call) {
    open_ = {};
    open_.row = call.row;
    step(LoggedCall::Kind::kOp, call.row->op.name());
    for (std::size_t i = 0; logs() && i < call.args->size(); ++i) {
      const Argument& argument = (*call.args)[i];
      if (argument.is_tensor() || argument.is_list()) continue;
      open_.numbers += argument.text() + ", ";
      if (call.row->op.arguments[i].name != "dim") continue;
      if (argument.is_ints()) open_.dims = argument.ints();
      if (argument.is_scalar()) open_.dims = Dims{argument.to_int()};
    }
    for_each_tensor(*call.args, [&](const DTensor& x) { keep_operand(x); });
  }

  bool logs() const { return calls_.size() < kMostCalls; }

  void step(LoggedCall::Kind kind, const std::string& what, bool placed = false) {
    open_.kind = kind;
    if (!placed) open_.position = current_rank().position;
    open_.pass = current_rank().pass;
    const bool backward = open_.pass == Pass::kBackward;
    const int line = open_.position.line, column = open_.position.column;
    open_.key = {what, line, column, backward, times_[{what, line, column, backward}]++};
    at_result_ = 0;
  }

  void keep_operand(const DTensor& x) {
    if (!logs() || !x.defined()) return;
    const auto producer = x.distributed() || !x.local().defined()
                              ? writers_.end()
                              : writers_.find(x.local().storage().get());
    open_.producers.push_back(producer == writers_.end() ? -1 : producer->second);
    keep(x, open_.operands);
  }

  void keep_result(const DTensor& x) {
    if (!x.defined() || x.distributed() || !x.local().defined()) {
      open_.plain = false;
      return;
    }
    const std::size_t result = at_result_++;
    for (const ChangedResult& change : changes_) {
      // A rank outside of the mesh may be none of those that are listed.
      const bool has_value = rank_ < change.values.size() && change.values[rank_];
      if (change.key != open_.key || change.result != result || !has_value) continue;
      write_numbers(x.impl()->local, *change.values[rank_], change.apart);
    }
    if (!logs()) return;
    writers_[x.local().storage().get()] = static_cast<int>(calls_.size());
    keep(x, open_.results);
  }

  void keep(const DTensor& x, std::vector<GlobalValue>& values) {
    // A gradient may have kept only its shape.
    open_.plain = open_.plain && !x.distributed() && x.local().defined();
    if (!open_.plain) return;
    elements_ += x.local().numel();
    open_.plain = elements_ <= kMostElements;
    if (open_.plain) values.push_back(whole_value(x.local()));
  }

  // The copy with which a collective fills a tensor is a part of it, and one rank makes none.
  bool fills() const {
    const auto last = static_cast<int>(calls_.size()) - 1;
    return logs() && last >= 0 && calls_.back().kind == LoggedCall::Kind::kCollective &&
           open_.row != nullptr && open_.row->op.base == "aten::copy_" &&
           open_.producers.size() == 2 && open_.producers[1] == last;
  }

  void end() {
    if (fills()) {
      for (auto& [storage, writer] : writers_) {
        if (writer == static_cast<int>(calls_.size())) --writer;
      }
    } else if (logs()) {
      calls_.push_back(std::move(open_));
    }
    open_ = {};
  }

  const std::size_t rank_;
  std::vector<LoggedCall>& calls_;
  const std::vector<ChangedResult>& changes_;
  LoggedCall open_, exchange_;
  std::map<const void*, LoggedCall> issued_;  // by the storage of their results
  int depth_ = 0;
  std::size_t at_result_ = 0;
  std::int64_t elements_ = 0;
  std::map<std::tuple<std::string, int, int, bool>, std::int64_t> times_;
  std::map<const void*, int> writers_;  // by storage, the last step that wrote it
};

}  // namespace

std::string LoggedCall::name() const {
  if (kind != Kind::kOp) return std::get<0>(key);
  std::string name = row->op.base.substr(row->op.base.rfind(':') + 1);
  name.erase(0, name.find_first_not_of('_'));
  constexpr std::string_view kForward = "_forward";
  if (name.ends_with(kForward)) name.resize(name.size() - kForward.size());
  return name;
}

Observer& CallLog::listen(std::int64_t rank, Observer* next) {
  const auto index = static_cast<std::size_t>(rank);
  observers_[index] = std::make_unique<LoggingObserver>(rank, calls_[index], changes_, next);
  return *observers_[index];
}

}  // namespace shardlab
