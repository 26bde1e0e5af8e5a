// trace(f), and the questions of a program to its result.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rank_context.h"
#include "base/tensor_dim.h"
#include "base/text.h"
#include "schema/argument.h"
#include "sim/language/run/module_hooks.h"
#include "sim/language/values/dict_entries.h"
#include "sim/language/values/generator.h"
#include "sim/language/values/rank_value.h"
#include "sim/language/values/replaced.h"
#include "sim/language/values/size_value.h"
#include "trace/capture.h"
#include "trace/graph_break.h"
#include "trace/graph_text.h"
#include "trace/guards.h"
#include "trace/recorder.h"
#include "trace/replay.h"

namespace shardlab {

namespace {

// A def may read values that are not among its arguments, and have effects that no graph has:
// print, write to a list. The first are found in its text and become inputs and guards; the second
// end the graph, and the def is called as it is.

/// The dims of arguments that may have other sizes at other calls.
struct DynamicArguments {
  bool all = false;                                       ///< every dim of every tensor
  std::map<std::string, std::vector<std::int64_t>> dims;  ///< by parameter
};

/// The first call runs the def and records its calls. Later calls evaluate the guards and run the
/// graph; a def that has a break is called itself. A value that the def reads from around it, names
/// of the program included, is an input of the graph, with its value at each call.
class TracedDef final : public Callable {
 public:
  /// `function`: holds the def, in a variable that the program empties at its end.
  TracedDef(std::shared_ptr<Cell> function, DynamicArguments dynamic)
      : function_(std::move(function)), dynamic_(std::move(dynamic)) {}

  std::string_view kind() const override { return "traced function"; }
  std::string text() const override;
  BuiltinTable members() const override { return traced_methods(); }
  ///   fails  Value: a guard does not hold; it is named with its expected value. Else as the def
  Value call(Interpreter& interpreter, CallValues call) override;

  /// None before the first call.
  bool captured() const { return captured_; }
  const ProgramGraph& graph() const { return graph_; }
  const std::vector<GraphBreak>& breaks() const { return breaks_; }

 private:
  class Reads;
  Reads reads_of(Interpreter& interpreter, const CallValues& call);
  Value capture(Interpreter& interpreter, CallValues call);
  Value replay(Interpreter& interpreter, const Reads& reads) const;
  std::string name_of(Interpreter& interpreter, const Value& thing);

  std::shared_ptr<Cell> function_;
  DynamicArguments dynamic_;
  std::vector<std::shared_ptr<Cell>> things_;  ///< known by identity, in order of meeting
  bool captured_ = false;
  ProgramGraph graph_;
  std::vector<Generator> generators_;  ///< those of the graph that are not the def's own; or null
  std::vector<GraphBreak> breaks_;
  Value result_;  ///< of the first call: the pattern of later results, with other tensors in it
};

// All values that a call depends on: its arguments, and those of names outside of the def, taken
// apart.
class TracedDef::Reads {
 public:
  Reads(TracedDef& traced, Interpreter& in) : traced_(traced), in_(in) {}

  void add_call(const FunctionValue& function, const CallValues& call) {
    const auto& parameters = function.function->parameters;
    std::vector<std::string> given;
    for (std::size_t i = 0; i < call.positional.size(); ++i) {
      given.push_back(i < parameters.size() ? parameters[i].name : fmt::format("arg{}", i));
      add(given.back(), call.positional[i]);
    }
    for (const auto& [keyword, value] : call.keywords) {
      given.push_back(keyword);
      add(keyword, value);
    }
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].name;
      if (std::ranges::count(given, name) == 0) add(name, (*function.defaults)[i]);
    }
    add_fact(Guard::Kind::kEquality, "arguments", text_of_list(given, ", "));
    add_hooks("function", function);
    add_outside(function);
  }

  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const std::vector<Generator>& generators() const { return generators_; }

  std::vector<Guard> facts() const {
    std::vector<Guard> all = facts_of_call(tensors_);
    all.insert(all.end(), facts_.begin(), facts_.end());
    return all;
  }

  // True when every name still has its former value, tensors by identity.
  bool same_things(const Reads& other) const {
    return facts_ == other.facts_ &&
           std::ranges::equal(tensors_, other.tensors_, [](const auto& a, const auto& b) {
             return a.source == b.source && a.value.is_same(b.value);
           });
  }

 private:
  void add_fact(Guard::Kind kind, std::string source, std::string expected) {
    facts_.push_back({.kind = kind, .source = std::move(source), .expected = std::move(expected)});
  }

  void add(const std::string& source, const Value& value) {
    if (varies(value)) return;  // the run continues for the ranks with the same answer
    if (const auto* tensor = value.get<DTensor>()) {
      tensors_.push_back({source, *tensor, dynamic_dims(source, *tensor)});
    } else if (value.is_sequence()) {
      add_items(source, value);
    } else if (const auto* dict = value.get<DictValue>()) {
      add_entries(source, *dict);
    } else if (const auto* function = value.get<FunctionValue>()) {
      add_fact(Guard::Kind::kIdentity, source, traced_.name_of(in_, value));
      add_hooks(source, *function);
      add_outside(*function);
    } else if (value.is<ObjectValue>()) {
      add_fact(Guard::Kind::kIdentity, source, traced_.name_of(in_, value));
      if (const auto* generator = generator_of(value)) generators_.push_back(generator->state());
    } else {
      add_fact(Guard::Kind::kEquality, source, repr(value));
    }
  }

  // A value that a def reads from outside keeps its sizes, as do parameters of a module in PyTorch.
  std::vector<std::int64_t> dynamic_dims(const std::string& source, const DTensor& x) const {
    const DynamicArguments& dynamic = traced_.dynamic_;
    std::vector<std::int64_t> dims;
    if (dynamic.all && !source.starts_with(kOutside)) {
      for (std::size_t dim = 0; dim < x.ndim(); ++dim) {
        dims.push_back(static_cast<std::int64_t>(dim));
      }
    } else if (const auto given = dynamic.dims.find(source); given != dynamic.dims.end()) {
      for (const std::int64_t dim : given->second) {
        dims.push_back(static_cast<std::int64_t>(wrap_dim(dim, x.ndim())));
      }
    }
    return dims;
  }

  void add_items(const std::string& source, const Value& sequence) {
    const Values& items = items_of(sequence);
    add_fact(Guard::Kind::kEquality, source,
             fmt::format("{} of {}", kind_name(sequence), items.size()));
    for (std::size_t i = 0; i < items.size(); ++i) add(fmt::format("{}[{}]", source, i), items[i]);
  }

  void add_entries(const std::string& source, const DictValue& dict) {
    add_fact(Guard::Kind::kEquality, source, fmt::format("dict of {}", dict.entries->size()));
    for (const auto& [key, value] : *dict.entries) {
      add(fmt::format("{}[{}]", source, repr(key)), value);
    }
  }

  // Hooks of backward on a def are called with it, and may read any name.
  void add_hooks(const std::string& source, const FunctionValue& function) {
    if (!hooked_.insert(function.hooks.get()).second) return;
    std::vector<std::string> names;
    const std::vector<ModuleHooks::Hook> hooks = function.hooks->hooks;
    for (const ModuleHooks::Hook& hook : hooks) {
      if (hook.run->value) names.push_back(traced_.name_of(in_, *hook.run->value));
    }
    add_fact(Guard::Kind::kIdentity, source + ".hooks",
             names.empty() ? "none" : text_of_list(names, "; "));
    for (const ModuleHooks::Hook& hook : hooks) {
      const auto* called = hook.run->value ? hook.run->value->get<FunctionValue>() : nullptr;
      if (called != nullptr) add_outside(*called);
    }
  }

  // Names that the def reads and does not bind, and those that the defs read which it calls.
  void add_outside(const FunctionValue& function) {
    if (!visited_.insert(function.function.get()).second) return;
    for (const std::string& name : function.function->free) {
      const Value* value = in_.find(name);
      if (function.captured != nullptr) {
        const auto cell = function.captured->find(name);
        const bool has = cell != function.captured->end() && cell->second->value;
        if (has) value = &*cell->second->value;
      }
      if (value != nullptr) add(kOutside + name, *value);
    }
  }

  static constexpr const char* kOutside = "outside.";

  TracedDef& traced_;
  Interpreter& in_;
  std::vector<NamedTensor> tensors_;
  std::vector<Guard> facts_;
  std::vector<Generator> generators_;
  std::set<const ast::Function*> visited_;
  std::set<const ModuleHooks*> hooked_;
};

using VisitTensor = std::function<Value(const DTensor& tensor)>;
using VisitSize = std::function<Value(const SizeObject& size)>;

// The value with other tensors, and other things for sizes, in it.
Value with_others(const Value& value, const VisitTensor& visit, const VisitSize& visit_size) {
  return replaced(value, [&](const Value& part) -> std::optional<Value> {
    if (const auto* tensor = part.get<DTensor>()) return visit(*tensor);
    if (const SizeObject* size = size_of(part)) return visit_size(*size);
    return std::nullopt;
  });
}

// True for a value that may hold tensors which a graph cannot replace.
bool holds_code(const Value& value) {
  if (value.is_sequence()) return std::ranges::any_of(items_of(value), holds_code);
  if (const auto* dict = value.get<DictValue>()) {
    return std::ranges::any_of(*dict->entries,
                               [](const auto& entry) { return holds_code(entry.second); });
  }
  return value.is<FunctionValue>() || (value.is<ObjectValue>() && size_of(value) == nullptr);
}

// Effects of the def that no event reports.
class EffectScope {
 public:
  explicit EffectScope(Interpreter& in) : in_(in), before_(in.note_effects_in(&effects_)) {}
  ~EffectScope() {
    in_.note_effects_in(before_);
    if (before_ == nullptr) return;
    before_->found.insert(effects_.found.begin(), effects_.found.end());
    before_->hooks.insert(effects_.hooks.begin(), effects_.hooks.end());
  }
  EffectScope& operator=(EffectScope&&) = delete;
  const std::set<std::string>& found() const { return effects_.found; }

 private:
  Interpreter& in_;
  Effects effects_;
  Effects* before_;
};

// Sizes are symbols of this capture, or numbers.
class SizeScope {
 public:
  SizeScope(Interpreter& in, SizeTrace* sizes) : in_(in), before_(in.trace_sizes_in(sizes)) {}
  ~SizeScope() { in_.trace_sizes_in(before_); }
  SizeScope& operator=(SizeScope&&) = delete;

 private:
  Interpreter& in_;
  SizeTrace* before_;
};

GraphBreak effect_break(const std::string& effect) {
  return {.gb_type = "side effect",
          .context = effect,
          .explanation = "a replay would not do it again",
          .hints = {"do it outside of the traced function"}};
}

std::string TracedDef::text() const {
  const bool held = function_->value.has_value();
  return fmt::format("traced {}",
                     held ? function_->value->as<FunctionValue>().function->name : "function");
}

// Two functions of one text are two things.
std::string TracedDef::name_of(Interpreter& interpreter, const Value& thing) {
  std::size_t number = 0;
  while (number < things_.size() && !equal(*things_[number]->value, thing)) ++number;
  if (number == things_.size()) things_.push_back(interpreter.keep(thing));
  return fmt::format("{}, number {}", repr(thing), number);
}

TracedDef::Reads TracedDef::reads_of(Interpreter& interpreter, const CallValues& call) {
  Reads reads(*this, interpreter);
  reads.add_call(function_->value->as<FunctionValue>(), call);
  return reads;
}

Value TracedDef::call(Interpreter& interpreter, CallValues call) {
  if (!captured_) return capture(interpreter, std::move(call));
  // The single-device run takes the ranks' way.
  const Value whole = breaks_.empty();
  if (!interpreter.truth(interpreter.answer([&] { return whole; }, whole))) {
    return interpreter.call(*function_->value, std::move(call));
  }
  return replay(interpreter, reads_of(interpreter, call));
}

Value TracedDef::capture(Interpreter& interpreter, CallValues call) {
  const Reads before = reads_of(interpreter, call);
  Recorder recorder(program_calls(), interpreter.setup().layout);
  for (const NamedTensor& input : before.tensors()) recorder.input(input.source, {}, input.value);
  std::vector<Guard> facts = before.facts();
  const bool dynamic = dynamic_.all || !dynamic_.dims.empty();
  SizeTrace sizes(recorder, before.tensors());
  if (dynamic) recorder.allow_other_sizes();
  const EffectScope effects(interpreter);
  Value result;
  {
    const ObserverScope observed(recorder.listen(observer_to_tell()));
    const ProgramScope scope(recorder);
    const SizeScope symbols(interpreter, dynamic ? &sizes : nullptr);
    result = interpreter.call(*function_->value, call);
  }
  std::vector<DTensor> outputs;
  const auto note = [&](const DTensor& tensor) {
    outputs.push_back(tensor);
    return Value(tensor);
  };
  const Value given =
      with_others(result, note, [](const SizeObject& size) { return Value(size.now()); });
  for (const Generator& met : recorder.generators()) {
    const bool outside = std::ranges::count(before.generators(), met) > 0;
    generators_.push_back(outside ? met : nullptr);
  }
  const bool hooks_left = recorder.hooks_left();
  graph_ = recorder.function(outputs);
  graph_.title = function_->value->as<FunctionValue>().function->name;
  graph_.guards = guards_of(std::move(facts), recorder.sized_at());
  breaks_ = breaks_of(graph_);
  for (const std::string& effect : effects.found()) breaks_.push_back(effect_break(effect));
  if (!before.same_things(reads_of(interpreter, call))) {
    breaks_.push_back(effect_break("what the function reads from outside is changed by it"));
  }
  if (hooks_left) {
    breaks_.push_back(effect_break("a hook, which a backward behind the call would run"));
  }
  if (recorder.removed_other_hooks()) breaks_.push_back(effect_break("remove of a hook"));
  if (holds_code(result)) breaks_.push_back(effect_break("it gives a function or an object"));
  result_ = with_others(
      result, [](const DTensor&) { return Value(DTensor()); },
      [](const SizeObject& size) {
        return Value(ObjectValue{std::make_shared<SizeObject>(size.number(), size.now())});
      });
  captured_ = true;
  if (interpreter.setup().sink != nullptr) interpreter.setup().sink->traced(breaks_.size());
  return given;
}

Value TracedDef::replay(Interpreter& interpreter, const Reads& reads) const {
  if (const auto broken = first_broken(graph_.guards, reads.facts())) throw refusal_of(*broken);
  std::vector<DTensor> inputs;
  for (const NamedTensor& input : reads.tensors()) inputs.push_back(input.value);
  const SourcePosition here = current_rank().position;
  const Replayed replayed = shardlab::replay(
      graph_, interpreter.setup().layout->arena(), inputs,
      {.file = interpreter.setup().program->source->file().c_str(), .generators = generators_});
  current_rank().position = here;
  std::size_t next = 0;
  return with_others(
      result_, [&](const DTensor&) { return Value(replayed.outputs.at(next++)); },
      [&](const SizeObject& size) {
        return Value(replayed.numbers.at(static_cast<std::size_t>(size.number().index)));
      });
}

// True, or a dict from parameters to a dim or a list of dims.
DynamicArguments dynamic_of(const Parameters& given) {
  DynamicArguments dynamic;
  const Value& value = given["dynamic"];
  if (value.is_none()) return dynamic;
  const auto* flag = value.get<bool>();
  const auto* dict = value.get<DictValue>();
  const auto refuse = [&] { given.refuse("dynamic", "True or a dict of dims", "{\"x\": 0}"); };
  if (flag != nullptr) dynamic.all = *flag;
  if (flag == nullptr && dict == nullptr) refuse();
  if (dict == nullptr) return dynamic;
  for (const auto& [name, dims] : *dict->entries) {
    const auto sizes = dims_of(dims);
    if (!name.is<std::string>() || !sizes) refuse();
    dynamic.dims[name.as<std::string>()] = {sizes->begin(), sizes->end()};
  }
  return dynamic;
}

// A name that no parameter has would make nothing dynamic. "x[0]" is the first item of a list.
void check_names(const DynamicArguments& dynamic, const ast::Function& function) {
  std::vector<std::string> known;
  for (const auto& parameter : function.parameters) known.push_back(parameter.name);
  for (const auto& [name, dims] : dynamic.dims) {
    if (std::ranges::count(known, name.substr(0, name.find('['))) > 0) continue;
    fail(Fix{fmt::format("name one of {}", text_of_list(known, ", "))},
         "trace: dynamic names '{}', which is not a parameter of {}", name, function.name);
  }
}

Value run_trace(Interpreter& in, const Value*, const Parameters& given) {
  const auto* function = given["f"].get<FunctionValue>();
  if (function == nullptr) given.refuse("f", "a def", "block, after def block(x): return x * 2");
  DynamicArguments dynamic = dynamic_of(given);
  check_names(dynamic, *function->function);
  return ObjectValue{std::make_shared<TracedDef>(in.keep(given["f"]), std::move(dynamic))};
}

const TracedDef& traced(const Value* self) {
  return dynamic_cast<const TracedDef&>(*self->as<ObjectValue>().object);
}

// The single-device run gets the texts of the ranks.
Value reported(Interpreter& in, Values texts) {
  const Value own = make_list(std::move(texts));
  return in.answer([&] { return own; }, own);
}

Value run_graphs(Interpreter& in, const Value* self, CallValues) {
  const TracedDef& function = traced(self);
  if (!function.captured()) return reported(in, {});
  return reported(in, {graph_text(function.graph(), GraphLevel::kProgram)});
}

Value run_guards(Interpreter& in, const Value* self, CallValues) {
  Values texts;
  for (const Guard& guard : traced(self).graph().guards) {
    texts.emplace_back(
        fmt::format("{} {} = {}", to_string(guard.kind), guard.source, guard.expected));
  }
  return reported(in, std::move(texts));
}

Value run_breaks(Interpreter& in, const Value* self, CallValues) {
  Values texts;
  for (const GraphBreak& one : traced(self).breaks()) {
    texts.emplace_back(one.context.empty() ? one.gb_type
                                           : fmt::format("{}: {}", one.gb_type, one.context));
  }
  return reported(in, std::move(texts));
}

}  // namespace

BuiltinTable trace_builtins() {
  static const Builtin kTable[] = {{"trace", "(f, dynamic=)", run_trace}};
  return kTable;
}

BuiltinTable traced_methods() {
  static const Builtin kTable[] = {
      {"breaks", run_breaks, Member::kValue},
      {"graphs", run_graphs, Member::kValue},
      {"guards", run_guards, Member::kValue},
  };
  return kTable;
}

}  // namespace shardlab
