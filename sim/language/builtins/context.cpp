// Contexts of `with`: recording of calls, the meaning of a plain tensor next to a distributed one,
// and counting of collectives. Each keeps the former state, once per entry.
#include "api/debug_mode.h"
#include "autograd/grad_mode.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/object.h"

namespace shardlab {

namespace {

template <typename Context, typename... Arguments>
Value make_context(Arguments&&... arguments) {
  return ObjectValue{std::make_shared<Context>(std::forward<Arguments>(arguments)...)};
}

class GradModeContext final : public ContextManager {
 public:
  explicit GradModeContext(bool enabled) : enabled_(enabled) {}
  std::string_view kind() const override { return "gradient mode"; }
  Value enter(Interpreter&, const Value&) override {
    before_.push_back(grad_enabled());
    set_grad_enabled(enabled_);
    return {};
  }
  void leave() override {
    set_grad_enabled(before_.back());
    before_.pop_back();
  }

 private:
  bool enabled_;
  std::vector<bool> before_;
};

// PyTorch's also takes effect without a `with`, and then nothing undoes it.
Value run_set_grad_enabled(Interpreter&, const Value*, const Parameters& given) {
  return make_context<GradModeContext>(given.flag_or("mode", true));
}

Value run_inference_mode(Interpreter&, const Value*, const Parameters& given) {
  return make_context<GradModeContext>(!given.flag_or("mode", true));
}

Value run_is_grad_enabled(Interpreter&, const Value*, const Parameters&) { return grad_enabled(); }

class ImplicitReplication final : public ContextManager {
 public:
  std::string_view kind() const override { return "implicit replication"; }
  Value enter(Interpreter&, const Value&) override {
    RankContext& rank = current_rank();
    before_.push_back(std::exchange(rank.mixed, MixedTensors::kReplicate));
    return {};
  }
  void leave() override {
    current_rank().mixed = before_.back();
    before_.pop_back();
  }

 private:
  std::vector<MixedTensors> before_;
};

class DebugMode final : public ContextManager {
 public:
  std::string_view kind() const override { return "debug mode"; }
  BuiltinTable members() const override { return debug_mode_methods(); }
  Value enter(Interpreter&, const Value& self) override {
    counted_.enter();
    return self;
  }
  void leave() override { counted_.leave(); }
  const CommDebugMode& counted() const { return counted_; }

 private:
  CommDebugMode counted_;
};

const CommDebugMode& counted_by(const Value* self) {
  return dynamic_cast<const DebugMode&>(*self->as<ObjectValue>().object).counted();
}

// The single-device run gets the counts of the ranks.
Value run_total_counts(Interpreter& in, const Value* self, const Parameters&) {
  const std::int64_t total = counted_by(self).total();
  return in.answer([&] { return Value(total); }, total);
}

Value run_comm_counts(Interpreter& in, const Value* self, const Parameters&) {
  const CommDebugMode& counted = counted_by(self);
  const DictValue none = make_dict();
  return in.answer(
      [&] {
        const DictValue counts = make_dict();
        for (std::size_t i = 0; i < kCollectiveKinds; ++i) {
          const auto kind = static_cast<CollectiveKind>(i);
          if (counted.count(kind) == 0) continue;
          counts.entries->set(std::string(to_string(kind)), counted.count(kind));
        }
        return Value(counts);
      },
      none);
}

}  // namespace

BuiltinTable context_builtins() {
  static const Builtin kTable[] = {
      {"CommDebugMode", "()",
       [](auto&, auto*, auto&) -> Value { return make_context<DebugMode>(); }},
      {"enable_grad", "()",
       [](auto&, auto*, auto&) -> Value { return make_context<GradModeContext>(true); }},
      {"implicit_replication", "()",
       [](auto&, auto*, auto&) -> Value { return make_context<ImplicitReplication>(); }},
      {"inference_mode", "(mode=)", run_inference_mode},
      {"is_grad_enabled", "()", run_is_grad_enabled},
      {"no_grad", "()",
       [](auto&, auto*, auto&) -> Value { return make_context<GradModeContext>(false); }},
      {"set_grad_enabled", "(mode)", run_set_grad_enabled},
  };
  return kTable;
}

BuiltinTable debug_mode_methods() {
  static const Builtin kTable[] = {
      {"get_comm_counts", "()", run_comm_counts},
      {"get_total_counts", "()", run_total_counts},
  };
  return kTable;
}

}  // namespace shardlab
