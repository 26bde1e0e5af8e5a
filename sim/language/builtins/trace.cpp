// trace(f), and the questions of a program to its result.

#include <algorithm>

#include "base/fix.h"
#include "base/text_of_list.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/run/traced_def.h"
#include "sim/language/values/dict_entries.h"
#include "trace/graph_text.h"

namespace shardlab {

namespace {

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
