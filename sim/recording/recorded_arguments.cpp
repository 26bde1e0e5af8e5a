// The binder takes tensors, which do not exist when a file is read: a handle of its own stands for
// each, and becomes the value's number again.
#include "sim/recording/recorded_arguments.h"

#include <algorithm>
#include <complex>
#include <utility>

#include "base/error.h"
#include "base/value_scope.h"
#include "dispatch/all_ops.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "schema/torch_spelling.h"
#include "sim/files/json_value.h"
#include "sim/recording/recorded_values.h"

namespace shardlab {

namespace {

[[noreturn]] void refuse(const Json& argument) {
  fail(ErrorKind::kValue, "{} is no argument", argument.dump());
}

bool takes_number_for_tensor(const OpRow& row, const GivenArguments& given) {
  const std::size_t count = std::min(given.positional.size(), row.op.arguments.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (given.positional[i].is_scalar() && row.op.arguments[i].type.is_tensor()) return true;
  }
  return false;
}

}  // namespace

const OpRow* recorded_row(const std::string& op) {
  std::string name = op;
  if (name.ends_with(".default")) name.resize(name.size() - 8);
  // Below autograd a detached tensor, and one that a number was lifted to, is an alias.
  if (name == "aten.detach" || name == "aten.lift_fresh") return all_ops().find("aten::alias");
  if (const std::size_t dot = name.find('.'); dot != std::string::npos) name.replace(dot, 1, "::");
  return all_ops().find(name);
}

GraphArgument plain_argument(const Argument& argument) {
  if (argument.is_scalar()) return {argument.scalar()};
  if (argument.is_ints()) return {argument.ints()};
  if (argument.is_dtype()) return {argument.dtype()};
  if (argument.is_string()) return {argument.string()};
  return {};
}

Argument ArgumentReader::value(std::int32_t id, OperandMark mark) {
  if (met_.size() == places_.size()) {
    places_.emplace_back(Tensor());
    numbers_.emplace(places_.back().impl(), places_.size() - 1);
  }
  met_.push_back({id, mark});
  return places_[met_.size() - 1];
}

void ArgumentReader::read(const Json& args, const Json& keywords, RecordedEvent& event) {
  differs_ = false;
  event.row = recorded_row(event.op);
  begin();
  const GivenArguments first = given(args, keywords, 0, event);
  if (differs_) {
    for (std::size_t rank = 1; rank < program_.ranks; ++rank) {
      begin();
      event.args_of_ranks.push_back(bound(given(args, keywords, rank, event), event));
    }
    begin();
    event.args_of_ranks.insert(event.args_of_ranks.begin(),
                               bound(given(args, keywords, 0, event), event));
    event.args = event.args_of_ranks[0];
    return;
  }
  bind(first, event);
}

void ArgumentReader::bind(const GivenArguments& given, RecordedEvent& event) {
  order_.clear();
  event.args = bound(given, event);
  for (std::size_t operand = 0; operand < order_.size(); ++operand) {
    OperandMark mark = met_[order_[operand]].mark;
    mark.operand = operand;
    if (mark.function >= 0 || mark.taped) event.marks.push_back(mark);
  }
}

GivenArguments ArgumentReader::given(const Json& args, const Json& keywords, std::size_t rank,
                                     RecordedEvent& event) {
  GivenArguments given;
  event.filled.clear();
  const bool differ = is_of_ranks(args) || is_of_ranks(keywords);
  differs_ = differs_ || differ;
  const ValueScope alone(alone_, differ);
  for (const Json& one : is_of_ranks(args) ? of_rank(args, rank) : args) {
    given.positional.push_back(argument(one, rank, event));
  }
  const Json& named = is_of_ranks(keywords) ? of_rank(keywords, rank) : keywords;
  for (const auto& [name, one] : named.items()) {
    Argument value = argument(one, rank, event);
    if (event.row == nullptr && name == "out") {
      const GraphArgument filled = stored(value);
      const auto* list = std::get_if<std::vector<GraphArgument>>(&filled.value);
      event.filled = list != nullptr ? *list : std::vector{filled};
    } else {
      given.keywords.emplace_back(name, std::move(value));
    }
  }
  return given;
}

// {"v": 3}, {"f": "inf"}, {"dtype": "f32"}, {"complex": [0, 1]}, numbers, texts, lists of them.
Argument ArgumentReader::argument(const Json& json, std::size_t rank, RecordedEvent& event) {
  if (json.is_null()) return {};
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_integer()) return integer_of<std::int64_t>(json);
  if (json.is_number()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (json.is_array()) return list(json, rank, event);
  if (json.contains("v")) return one_value(json, rank);
  if (json.size() != 1) refuse(json);
  const std::string& key = json.begin().key();
  const Json& held = json.begin().value();
  if (key == "ranks") {
    if (!held.is_array() || held.size() != program_.ranks) refuse(json);
    const auto is_value = [](const Json& one) { return one.is_object() && one.contains("v"); };
    if (std::ranges::all_of(held, is_value)) return one_value(json, rank);
    differs_ = true;
    const ValueScope alone(alone_, true);
    return argument(held.at(rank), rank, event);
  }
  return named(key, held, event);
}

Argument ArgumentReader::one_value(const Json& json, std::size_t rank) {
  const Json& own = is_of_ranks(json) ? of_rank(json, rank) : json;
  OperandMark mark;
  if (own.contains("f")) mark.function = integer_of<std::int32_t>(own.at("f"));
  if (own.contains("taped")) mark.taped = own.at("taped").get<bool>();
  const int marks = (own.contains("f") ? 1 : 0) + (own.contains("taped") ? 1 : 0);
  if (own.size() != static_cast<std::size_t>(1 + marks)) refuse(own);
  return value(take_(json, alone_ ? static_cast<std::int32_t>(rank) : -1), mark);
}

// Groups of one number, or those that ranks have under numbers of their own.
void ArgumentReader::read_group(const Json& number, RecordedEvent& event) {
  const auto group_of = [&](const Json& one) -> const RecordedGroup& {
    const auto group = integer_of<std::size_t>(one);
    if (group >= program_.groups.size()) fail(ErrorKind::kValue, "a group that is not there");
    return program_.groups[group];
  };
  if (!is_of_ranks(number)) {
    group_of(number);
    event.group = integer_of<std::int32_t>(number);
    return;
  }
  require_ranks(number, program_.ranks);
  RecordedGroup each;
  for (std::size_t rank = 0; rank < program_.ranks; ++rank) {
    const RecordedGroup& own = group_of(of_rank(number, rank));
    each.push_back(own[own.size() == 1 ? 0 : rank]);
  }
  const auto known = std::ranges::find(program_.groups, each);
  event.group = static_cast<std::int32_t>(known - program_.groups.begin());
  if (known == program_.groups.end()) program_.groups.push_back(std::move(each));
}

Argument ArgumentReader::named(const std::string& key, const Json& json, RecordedEvent& event) {
  if (key == "f" && json.is_string()) return number_of(json);
  if (key == "dtype") return dtype_of(json);
  if (key == "complex" && json.is_array() && json.size() == 2) {
    return Scalar(std::complex<double>(number_of(json.at(0)), number_of(json.at(1))));
  }
  if (key == "pg") {
    read_group(json, event);
    return {};
  }
  if (!json.is_string()) refuse({{key, json}});
  if (key == "memory_format") return json.get<std::string>() + "_format";
  for (const char* text : {"device", "layout", "object", "reduce"}) {
    if (key == text) return json.get<std::string>();
  }
  refuse({{key, json}});
}

Argument ArgumentReader::list(const Json& json, std::size_t rank, RecordedEvent& event) {
  ArgumentList list;
  Dims sizes;
  bool all = true;
  for (const Json& item : json) {
    list.push_back(argument(item, rank, event));
    const Argument& last = list.back();
    all = all && last.is_scalar() && last.scalar().category() == Category::kInteger;
    if (all) sizes.push_back(last.to_int());
  }
  return all ? Argument(std::move(sizes)) : Argument(std::move(list));
}

std::vector<GraphArgument> ArgumentReader::bound(const GivenArguments& given,
                                                 RecordedEvent& event) {
  std::vector<GraphArgument> args;
  if (event.row != nullptr) {
    try {
      ResolvedCall call =
          takes_number_for_tensor(*event.row, given)
              ? resolve_call(all_ops(), bare_name(event.row->op), given)
              : ResolvedCall{event.row,
                             bind_arguments(*event.row, given, BindRules::Style::kSchemaOrder)};
      event.row = call.row;
      for (const Argument& one : call.args) args.push_back(stored(one));
      return args;
    } catch (const Error& error) {
      event.misfit = error.text();
      args.clear();
      order_.clear();
    }
  }
  for (const Argument& one : given.positional) args.push_back(stored(one));
  for (const auto& [name, one] : given.keywords) args.push_back(stored(one));
  return args;
}

GraphArgument ArgumentReader::stored(const Argument& argument) {
  if (argument.is_tensor()) {
    order_.push_back(numbers_.at(argument.tensor().impl()));
    return {ValueRef{met_[order_.back()].id}};
  }
  if (!argument.is_list()) return plain_argument(argument);
  std::vector<GraphArgument> items;
  for (const Argument& item : argument.list()) items.push_back(stored(item));
  return {std::move(items)};
}

}  // namespace shardlab
