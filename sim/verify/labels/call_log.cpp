// Operands are copied before the call, which may write them, results after it. The log of a rank is
// bounded: an explanation of a mistake needs the first calls, not all of a long loop.
#include "sim/verify/labels/call_log.h"

#include "schema/call_record.h"

namespace shardlab {

namespace {

constexpr std::size_t kMostCalls = 4096;
constexpr std::int64_t kMostElements = std::int64_t{1} << 20;

class LoggingObserver final : public ForwardingObserver {
 public:
  LoggingObserver(std::vector<LoggedCall>& calls, Observer* next)
      : ForwardingObserver(next), calls_(calls) {}

  void call_begins(const CallRecord& call) override {
    if (depth_++ == 0) begin(call);
    ForwardingObserver::call_begins(call);
  }

  void call_ends(const CallRecord& call) override {
    if (--depth_ == 0 && logging_) {
      for_each_tensor(*call.results, [&](const DTensor& x) { keep(x, calls_.back().results); });
      logging_ = false;
    }
    ForwardingObserver::call_ends(call);
  }

  void call_fails() override {
    if (--depth_ == 0 && logging_) {
      calls_.pop_back();
      logging_ = false;
    }
    ForwardingObserver::call_fails();
  }

 private:
  void begin(const CallRecord& call) {
    logging_ = calls_.size() < kMostCalls;
    if (!logging_) return;
    LoggedCall& logged = calls_.emplace_back();
    logged.row = call.row;
    logged.position = current_rank().position;
    logged.pass = current_rank().pass;
    for (std::size_t i = 0; i < call.args->size(); ++i) {
      const Argument& argument = (*call.args)[i];
      if (argument.is_tensor() || argument.is_list()) continue;
      logged.numbers += argument.text() + ", ";
      if (call.row->op.arguments[i].name != "dim") continue;
      if (argument.is_ints()) logged.dims = argument.ints();
      if (argument.is_scalar()) logged.dims = Dims{argument.to_int()};
    }
    for_each_tensor(*call.args, [&](const DTensor& x) { keep(x, logged.operands); });
  }

  void keep(const DTensor& x, std::vector<GlobalValue>& values) {
    if (!x.defined()) return;
    // A gradient may have kept only its shape.
    calls_.back().plain = calls_.back().plain && !x.distributed() && x.local().defined();
    elements_ += x.local().numel();
    if (calls_.back().plain && elements_ <= kMostElements) {
      values.push_back(whole_value(x.local()));
    } else {
      calls_.back().plain = false;
    }
  }

  std::vector<LoggedCall>& calls_;
  int depth_ = 0;
  bool logging_ = false;
  std::int64_t elements_ = 0;
};

}  // namespace

Observer& CallLog::listen(std::int64_t rank, Observer* next) {
  const auto index = static_cast<std::size_t>(rank);
  observers_[index] = std::make_unique<LoggingObserver>(calls_[index], next);
  return *observers_[index];
}

}  // namespace shardlab
