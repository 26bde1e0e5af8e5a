// Python's own functions. Functions that torch has too (sum, max, abs, ...) call the op for
// tensors.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/read_real.h"
#include "base/text.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/characters.h"
#include "sim/language/values/global_names.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/python_error.h"
#include "sim/language/values/size_value.h"
#include "sim/language/values/tensor_data.h"

namespace shardlab {

namespace {

std::int64_t whole(const Value& value, std::string_view function) {
  if (value.is_integer()) return std::get<0>(number_of(value));
  fail(Fix{"convert it first: int(x)"}, "{}: an argument is {}, not an int", function,
       a_kind(value));
}

// `usage` is how the function is called: "range(start, stop, step)".
void check_count(const CallValues& call, std::string_view usage, std::size_t fewest,
                 std::size_t most) {
  const std::size_t count = call.positional.size();
  const std::string_view function = usage.substr(0, usage.find('('));
  const auto fix = [&] { return Fix{fmt::format("call it as {}", usage)}; };
  if (!call.keywords.empty()) {
    fail(fix(), "{}: unknown argument '{}'", function, call.keywords[0].first);
  }
  if (count >= fewest && count <= most) return;
  fail(fix(), "{}: the number of arguments is {}, not {}", function, count,
       fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most));
}

[[noreturn]] void refuse_items(std::string_view function, const Value& value) {
  fail(Fix{fmt::format("call it for each number: [{}(x) for x in a]", function)},
       "{}: the argument is {}, not a number or a tensor", function, a_kind(value));
}

bool on_tensor(const CallValues& call) {
  return !call.positional.empty() && call.positional[0].is_tensor();
}

Value run_range(Interpreter&, const Value*, CallValues call) {
  check_count(call, "range(start, stop, step)", 1, 3);
  std::vector<std::int64_t> given;
  for (const Value& value : call.positional) given.push_back(whole(value, "range"));
  RangeValue range;
  range.start = given.size() > 1 ? given[0] : 0;
  range.stop = given.size() > 1 ? given[1] : given[0];
  range.step = given.size() > 2 ? given[2] : 1;
  if (range.step == 0) {
    fail_as("ValueError: range() arg 3 must not be zero",
            Fix{"give a step that is not 0, or leave it out"}, "range: the step is 0");
  }
  return range;
}

Value run_len(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "len(x)", 1, 1);
  const Value& value = call.positional[0];
  const auto size = [](std::size_t count) { return Value(static_cast<std::int64_t>(count)); };
  if (value.is_sequence()) return size(items_of(value).size());
  if (const auto* text = value.get<std::string>()) return size(characters_of(*text).size());
  if (const auto* dict = value.get<DictValue>()) return size(dict->entries->size());
  if (const auto* range = value.get<RangeValue>()) return range->size();
  if (const auto* tensor = value.get<DTensor>(); tensor && tensor->ndim() > 0) {
    return in.sizes() != nullptr ? in.sizes()->size(*tensor, 0) : Value(tensor->shape()[0]);
  }
  fail(Fix{"take the length of a list, a tuple, a dict, a string, a range or a tensor with dims"},
       "{} has no length", value.is_tensor() ? "a tensor without dims" : a_kind(value));
}

Value run_print(Interpreter& in, const Value*, CallValues call) {
  std::vector<std::string> texts;
  std::string separator = " ", end = "\n";
  for (const auto& [keyword, value] : call.keywords) {
    if (keyword == "flush") continue;
    if (keyword == "sep" && value.is<std::string>()) {
      separator = value.as<std::string>();
      continue;
    }
    if (keyword == "end" && value.is<std::string>()) {
      end = value.as<std::string>();
      continue;
    }
    fail(Fix{"give the values, sep=\", \", end=\"\" and flush=True"},
         "print: unknown argument '{}'", keyword);
  }
  for (const Value& value : call.positional) {
    const auto* tensor = value.get<DTensor>();
    texts.push_back(tensor != nullptr ? tensor_text(*tensor) : str(value));
  }
  in.print(text_of_list(texts, separator) + end);
  return {};
}

// The text without blanks around it, and without an underscore between two digits.
std::string bare_number(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  const auto is_sign = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string bare;
  const std::size_t first = std::min(text.find_first_not_of(kBlanks), text.size());
  const std::size_t end = text.find_last_not_of(kBlanks) + 1;
  for (std::size_t i = first; i < end; ++i) {
    const bool between = i > first && i + 1 < end && is_sign(text[i - 1]) && is_sign(text[i + 1]);
    if (text[i] != '_' || !between) bare += text[i];
  }
  return bare;
}

std::optional<std::int64_t> integer_in(std::string_view text, std::int64_t base) {
  std::string bare = bare_number(text);
  const bool negative = bare.starts_with('-');
  if (negative || bare.starts_with('+')) bare.erase(0, 1);
  const auto prefixed = [&](char letter) {
    return bare.size() > 2 && bare[0] == '0' && (bare[1] | 0x20) == letter;
  };
  for (const auto& [letter, own] : {std::pair('x', 16), std::pair('o', 8), std::pair('b', 2)}) {
    if (!prefixed(letter) || (base != own && base != 0)) continue;
    bare.erase(0, 2);
    base = own;
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || bare.empty() || bare[0] == '-' || bare[0] == '+') return {};
  if (negative) bare.insert(0, 1, '-');
  std::int64_t parsed = 0;
  const char* end = bare.data() + bare.size();
  const auto read = std::from_chars(bare.data(), end, parsed, static_cast<int>(base));
  if (read.ec != std::errc() || read.ptr != end) return {};
  return parsed;
}

// Reads Python's float(text), infinity and nan in any case.
std::optional<double> real_in(std::string_view text) {
  std::string bare = bare_number(text);
  for (char& c : bare) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
  const double sign = bare.starts_with('-') ? -1 : 1;
  if (bare.starts_with('-') || bare.starts_with('+')) bare.erase(0, 1);
  if (bare == "inf" || bare == "infinity") return sign * HUGE_VAL;
  if (bare == "nan") return std::nan("");
  const bool begins = !bare.empty() && (bare[0] == '.' || (bare[0] >= '0' && bare[0] <= '9'));
  double real = 0;
  const auto read = read_real(bare.data(), bare.data() + bare.size(), real);
  if (!begins || read.ec != std::errc() || read.ptr != bare.data() + bare.size()) return {};
  return sign * real;
}

Value run_int(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "int(x)", 0, 2);
  if (call.positional.empty()) return 0;
  Value value = call.positional[0];
  if (value.is_tensor()) value = in.call(in.attribute(value, "item"), {});
  if (const auto* text = value.get<std::string>()) {
    const std::int64_t base = call.positional.size() == 2 ? whole(call.positional[1], "int") : 10;
    if (const auto parsed = integer_in(*text, base)) return *parsed;
    if (base == 10 && text->size() > 18 &&
        std::ranges::all_of(*text, [](char c) { return c >= '0' && c <= '9'; })) {
      fail(ErrorKind::kUnsupported, Fix{"keep it as a text"}, "int: {} does not fit into 64 bits",
           *text);
    }
    fail_as(
        fmt::format("ValueError: invalid literal for int() with base {}: {}", base, repr(value)),
        Fix{"pass digits alone: int('12')"}, "int: the text {} is not a whole number of 64 bits",
        repr(value));
  }
  if (value.is_integer()) return std::get<0>(number_of(value));
  if (!value.is<double>()) {
    fail(Fix{"pass a number, a text of digits or a tensor of 1 element"},
         "int: the argument is {}, not a number", a_kind(value));
  }
  const double real = std::trunc(value.as<double>());
  if (std::fabs(real) < 0x1p63) return static_cast<std::int64_t>(real);
  if (!std::isfinite(real)) {
    fail_as(std::isnan(real) ? "ValueError: cannot convert float NaN to integer"
                             : "OverflowError: cannot convert float infinity to integer",
            Fix{"keep it as a float"}, "int: {} is no whole number", float_text(real));
  }
  fail(ErrorKind::kUnsupported, Fix{"keep it as a float"}, "int: {} does not fit into 64 bits",
       float_text(real));
}

Value run_float(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "float(x)", 1, 1);
  Value value = call.positional[0];
  if (value.is_tensor()) value = in.call(in.attribute(value, "item"), {});
  if (value.is_number()) return to_double(number_of(value));
  if (const auto* text = value.get<std::string>()) {
    if (const auto real = real_in(*text)) return *real;
    fail_as("ValueError: could not convert string to float: " + repr(value),
            Fix{"pass the digits of a number, 'inf', '-inf' or 'nan'"},
            "float: the text {} is not a number", repr(value));
  }
  fail(Fix{"pass a number, 'inf', '-inf', 'nan' or a tensor of 1 element"},
       "float: the argument is {}, not a number", a_kind(value));
}

Value run_bool(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "bool(x)", 1, 1);
  return in.truth(call.positional[0]);
}

Value run_str(Interpreter&, const Value*, CallValues call) {
  check_count(call, "str(x)", 1, 1);
  return str(call.positional[0]);
}

Value run_repr(Interpreter&, const Value*, CallValues call) {
  check_count(call, "repr(x)", 1, 1);
  return repr(call.positional[0]);
}

Value run_abs(Interpreter& in, const Value*, CallValues call) {
  if (on_tensor(call)) return in.call_op("abs", std::move(call));
  check_count(call, "abs(x)", 1, 1);
  if (!call.positional[0].is_number()) refuse_items("abs", call.positional[0]);
  return make_number(magnitude(number_of(call.positional[0])));
}

// Takes key= and default= out of the call.
std::optional<Value> taken(CallValues& call, std::string_view keyword) {
  const auto found = std::ranges::find_if(
      call.keywords, [&](const auto& given) { return given.first == keyword; });
  if (found == call.keywords.end()) return std::nullopt;
  Value value = found->second;
  call.keywords.erase(found);
  return value;
}

// The values by which items are compared.
Values keys_of(Interpreter& in, const Values& items, const std::optional<Value>& key) {
  if (!key || key->is_none()) return items;
  Values keys;
  for (const Value& item : items) keys.push_back(in.call(*key, {{item}, {}}));
  return keys;
}

Value extreme(Interpreter& in, std::string_view name, ast::CompareOp better, CallValues call) {
  if (on_tensor(call)) return in.call_op(name, std::move(call));
  const std::optional<Value> key = taken(call, "key"), otherwise = taken(call, "default");
  check_count(call, fmt::format("{}(items)", name), 1, 1'000'000);
  const Values items =
      call.positional.size() == 1 ? in.iterate(call.positional[0]) : std::move(call.positional);
  if (items.empty() && otherwise) return *otherwise;
  if (items.empty()) {
    fail_as(fmt::format("ValueError: {}() arg is an empty sequence", name),
            Fix{fmt::format("say what an empty list gives: {}(a) if a else 0", name)},
            "{}: there are no items to compare", name);
  }
  const Values keys = keys_of(in, items, key);
  std::size_t best = 0;
  for (std::size_t i = 1; i < items.size(); ++i) {
    if (in.truth(in.compare(better, keys[i], keys[best]))) best = i;
  }
  return items[best];
}

Value run_max(Interpreter& in, const Value*, CallValues call) {
  return extreme(in, "max", ast::CompareOp::kGreater, std::move(call));
}

Value run_min(Interpreter& in, const Value*, CallValues call) {
  return extreme(in, "min", ast::CompareOp::kLess, std::move(call));
}

Value run_sum(Interpreter& in, const Value*, CallValues call) {
  if (on_tensor(call) || !call.keywords.empty()) return in.call_op("sum", std::move(call));
  check_count(call, "sum(items, start)", 1, 2);
  Value total = call.positional.size() == 2 ? call.positional[1] : Value(0);
  for (const Value& item : in.iterate(call.positional[0])) {
    total = in.binary(ast::BinaryOp::kAdd, total, item);
  }
  return total;
}

Value run_any(Interpreter& in, const Value*, CallValues call) {
  if (on_tensor(call)) return in.call_op("any", std::move(call));
  check_count(call, "any(items)", 1, 1);
  for (const Value& item : in.iterate(call.positional[0])) {
    if (in.truth(item)) return true;
  }
  return false;
}

Value run_all(Interpreter& in, const Value*, CallValues call) {
  if (on_tensor(call)) return in.call_op("all", std::move(call));
  check_count(call, "all(items)", 1, 1);
  for (const Value& item : in.iterate(call.positional[0])) {
    if (!in.truth(item)) return false;
  }
  return true;
}

/// To this many digits after the point, in decimal as Python does it: 2.675 is a little less.
double rounded(double x, std::int64_t digits) {
  constexpr std::int64_t kMostDigits = 323, kLeastDigits = -308;
  if (!std::isfinite(x) || digits > kMostDigits) return x;
  if (digits < kLeastDigits) return std::copysign(0.0, x);
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(x / unit) * unit;
  }
  const std::string text = fmt::format("{:.{}f}", x, digits);
  double result = x;
  read_real(text.data(), text.data() + text.size(), result);
  return result;
}

/// To a multiple of 10 ** -digits; of two that are equally near, the even one.
std::int64_t rounded(std::int64_t x, std::int64_t digits) {
  __extension__ using Wide = __int128;
  constexpr std::int64_t kLeastDigits = -19;  // beyond, every number is nearest to 0
  if (digits >= 0) return x;
  if (digits < kLeastDigits) return 0;
  Wide unit = 1;
  for (std::int64_t i = digits; i < 0; ++i) unit *= 10;
  const Wide rest = x % unit, down = x - rest, far = rest < 0 ? -rest : rest;
  const bool away = 2 * far > unit || (2 * far == unit && down / unit % 2 != 0);
  const Wide result = !away ? down : down + (x < 0 ? -unit : unit);
  if (result != static_cast<std::int64_t>(result)) {
    fail(ErrorKind::kUnsupported, Fix{"keep it as a float"},
         "round: the result of {} does not fit into 64 bits", x);
  }
  return static_cast<std::int64_t>(result);
}

Value run_round(Interpreter& in, const Value*, CallValues call) {
  if (on_tensor(call)) return in.call_op("round", std::move(call));
  check_count(call, "round(x, digits)", 1, 2);
  if (!call.positional[0].is_number()) refuse_items("round", call.positional[0]);
  const Number number = number_of(call.positional[0]);
  if (call.positional.size() == 2) {
    const std::int64_t digits = whole(call.positional[1], "round");
    return std::visit([&](auto x) { return Value(rounded(x, digits)); }, number);
  }
  if (number.index() == 0) return make_number(number);
  return run_int(in, nullptr, {{std::nearbyint(std::get<1>(number))}, {}});
}

Value run_list(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "list(items)", 0, 1);
  return make_list(call.positional.empty() ? Values{} : in.iterate(call.positional[0]));
}

Value run_tuple(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "tuple(items)", 0, 1);
  return make_tuple(call.positional.empty() ? Values{} : in.iterate(call.positional[0]));
}

Value run_dict(Interpreter& in, const Value*, CallValues call) {
  const DictValue dict = make_dict();
  if (call.positional.size() > 1) check_count(call, "dict(entries)", 0, 1);
  const Value none, &from = call.positional.empty() ? none : call.positional[0];
  if (const auto* other = from.get<DictValue>(); other != nullptr && !is_set(from)) {
    for (const auto& [key, value] : *other->entries) store(dict, key, value);
  } else if (!from.is_none()) {
    for (const Value& pair : in.iterate(from)) {
      const Values both = in.iterate(pair);
      if (both.size() != 2) {
        fail(Fix{"give pairs: dict([(\"a\", 1)])"}, "dict: an entry has {} items, not 2",
             both.size());
      }
      store(dict, both[0], both[1]);
    }
  }
  for (auto& [key, value] : call.keywords) store(dict, key, value);
  return dict;
}

Value run_enumerate(Interpreter& in, const Value*, const Parameters& given) {
  std::int64_t index = given.integer_or("start", 0);
  Values out;
  for (const Value& item : in.iterate(given["iterable"]))
    out.push_back(make_tuple({index++, item}));
  return make_list(std::move(out));
}

Value run_zip(Interpreter& in, const Value*, CallValues call) {
  const std::optional<Value> strict = taken(call, "strict");
  check_count(call, "zip(a, b)", 0, 16);
  std::vector<Values> columns;
  for (const Value& value : call.positional) columns.push_back(in.iterate(value));
  std::size_t rows = columns.empty() ? 0 : columns[0].size();
  for (const Values& column : columns) {
    if (strict && in.truth(*strict) && column.size() != rows) {
      fail(Fix{"leave strict out: the longer ones are cut"},
           "zip: an argument has {} items, the first has {}", column.size(), rows);
    }
    rows = std::min(rows, column.size());
  }
  Values out;
  for (std::size_t row = 0; row < rows; ++row) {
    Values items;
    for (const Values& column : columns) items.push_back(column[row]);
    out.push_back(make_tuple(std::move(items)));
  }
  return make_list(std::move(out));
}

Value run_reversed(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "reversed(items)", 1, 1);
  Values items = in.iterate(call.positional[0]);
  std::ranges::reverse(items);
  return make_list(std::move(items));
}

Value run_sorted(Interpreter& in, const Value*, CallValues call) {
  const std::optional<Value> key = taken(call, "key");
  const Parameters given("sorted(iterable, reverse=)", std::move(call));
  // Python's reverse keeps the order of equal items, too.
  const auto first =
      given.flag_or("reverse", false) ? ast::CompareOp::kGreater : ast::CompareOp::kLess;
  const Values items = in.iterate(given["iterable"]), keys = keys_of(in, items, key);
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return in.truth(in.compare(first, keys[a], keys[b]));
  });
  Values out;
  for (const std::size_t i : order) out.push_back(items[i]);
  return make_list(std::move(out));
}

Value run_map(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "map(f, items)", 2, 16);
  const Value function = call.positional[0];
  call.positional.erase(call.positional.begin());
  const Value rows = run_zip(in, nullptr, std::move(call));
  Values out;
  for (const Value& row : items_of(rows)) {
    out.push_back(in.call(function, {items_of(row), {}}));
  }
  return make_list(std::move(out));
}

Value run_divmod(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "divmod(a, b)", 2, 2);
  const Value &a = call.positional[0], &b = call.positional[1];
  return make_tuple(
      {in.binary(ast::BinaryOp::kFloorDiv, a, b), in.binary(ast::BinaryOp::kMod, a, b)});
}

Value run_filter(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "filter(f, items)", 2, 2);
  Values out;
  const Values items = in.iterate(call.positional[1]),
               keys = keys_of(in, items, call.positional[0]);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (in.truth(keys[i])) out.push_back(items[i]);
  }
  return make_list(std::move(out));
}

Value run_callable(Interpreter&, const Value*, CallValues call) {
  check_count(call, "callable(x)", 1, 1);
  const Value& value = call.positional[0];
  return value.is<FunctionValue, BuiltinValue, OpValue, RowValue>();
}

// The types that isinstance() knows, each the function that makes its values.
struct TypeRow {
  std::string_view name;
  bool (*holds)(const Value& value);
};
const Placement* placement_in(const Value& value) { return value.get<Placement>(); }
bool is_strided(const Value& value) {
  return placement_in(value) != nullptr && placement_in(value)->is_strided_shard();
}
bool is_shard(const Value& value) {
  return placement_in(value) != nullptr && placement_in(value)->is_plain_shard();
}
bool is_partial(const Value& value) {
  return placement_in(value) != nullptr && placement_in(value)->is_partial();
}
constexpr TypeRow kTypes[] = {
    {"P", is_partial},
    {"Partial", is_partial},
    {"Placement", [](const Value& value) { return value.is<Placement>(); }},
    {"Replicate",
     [](const Value& value) {
       return value.is<Placement>() && placement_in(value)->is_replicate();
     }},
    {"S", is_shard},
    {"SS", is_strided},
    {"Shard", is_shard},
    {"_StridedShard", is_strided},
    {"bool", [](const Value& value) { return value.is<bool>(); }},
    {"dict", [](const Value& value) { return value.is<DictValue>() && !is_set(value); }},
    {"float", [](const Value& value) { return value.is<double>(); }},
    {"int", [](const Value& value) { return value.is_integer(); }},
    {"list", [](const Value& value) { return value.is<ListValue>(); }},
    {"range", [](const Value& value) { return value.is<RangeValue>(); }},
    {"set", is_set},
    {"str", [](const Value& value) { return value.is<std::string>(); }},
    {"tuple", [](const Value& value) { return value.is<TupleValue>(); }},
};

bool is_instance(Interpreter& in, const Value& value, const Value& type) {
  if (type.is<TupleValue>()) {
    return std::ranges::any_of(items_of(type),
                               [&](const Value& one) { return is_instance(in, value, one); });
  }
  const auto* module = type.get<ModuleValue>();
  if (module != nullptr && module->path == kTensorType) return value.is_tensor();
  if (module != nullptr && module->path == kDTensorType) {
    const auto distributed = [&] { return Value(value.as<DTensor>().distributed()); };
    return value.is_tensor() && in.truth(in.answer(distributed, true));
  }
  const auto* builtin = type.get<BuiltinValue>();
  const auto row = std::ranges::find(
      kTypes, builtin != nullptr ? std::string_view(builtin->builtin->name) : "", &TypeRow::name);
  if (row != std::end(kTypes)) return row->holds(value);
  fail(Fix{"name one, as Shard, Replicate, Partial, int, float, str, list, tuple or dict, or a "
           "tuple of them"},
       "isinstance: {} is not a type", repr(type));
}

Value run_isinstance(Interpreter& in, const Value*, CallValues call) {
  check_count(call, "isinstance(value, type)", 2, 2);
  return is_instance(in, call.positional[0], call.positional[1]);
}

}  // namespace

BuiltinTable python_builtins() {
  static const Builtin kTable[] = {
      {"abs", run_abs},
      {"all", run_all},
      {"any", run_any},
      {"bool", run_bool},
      {"callable", run_callable},
      {"dict", run_dict},
      {"divmod", run_divmod},
      {"enumerate", "(iterable, start=)", run_enumerate},
      {"filter", run_filter},
      {"map", run_map},
      {"float", run_float},
      {"int", run_int},
      {"isinstance", run_isinstance},
      {"len", run_len},
      {"list", run_list},
      {"max", run_max},
      {"min", run_min},
      {"print", run_print},
      {"range", run_range},
      {"repr", run_repr},
      {"reversed", run_reversed},
      {"round", run_round},
      {"sorted", run_sorted},
      {"str", run_str},
      {"sum", run_sum},
      {"tuple", run_tuple},
      {"zip", run_zip},
  };
  return kTable;
}

}  // namespace shardlab
