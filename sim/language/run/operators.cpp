// Operators on the values of a program: numbers and containers as in Python, tensors through ops.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/torch/torch_names.h"
#include "sim/language/run/augmented.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/values/nesting.h"
#include "sim/language/values/python_format.h"
#include "sim/language/values/rank_value.h"
#include "sim/language/values/size_value.h"
#include "sim/world/rank_questions.h"

namespace shardlab {

namespace {

// In the order of BinaryOp and CompareOp.
constexpr std::array<std::string_view, 13> kBinary = {"add",
                                                      "sub",
                                                      "mul",
                                                      "div",
                                                      "floor_divide",
                                                      "remainder",
                                                      "pow",
                                                      "matmul",
                                                      "bitwise_and",
                                                      "bitwise_or",
                                                      "bitwise_xor",
                                                      "bitwise_left_shift",
                                                      "bitwise_right_shift"};
constexpr std::array<std::string_view, 6> kCompare = {"eq", "ne", "lt", "le", "gt", "ge"};
constexpr std::array<std::string_view, 6> kSwapped = {"eq", "ne", "gt", "ge", "lt", "le"};

[[noreturn]] void refuse_operands(std::string_view op, const Value& left, const Value& right) {
  fail(Fix{"convert one of them: int(x), float(x), str(x), list(x)"},
       "'{}' does not work between {} and {}", op, a_kind(left), a_kind(right));
}

std::string_view torch_name(ast::BinaryOp op) { return kBinary[static_cast<std::size_t>(op)]; }

// number - tensor, number / tensor: torch's ops for them.
Value number_first(Interpreter& in, ast::BinaryOp op, const Value& number, const Value& tensor) {
  using enum ast::BinaryOp;
  if (op == kAdd || op == kMul) return in.call_op(torch_name(op), {{tensor, number}, {}});
  if (op == kSub) return in.call_op("rsub", {{tensor, number}, {}});
  if (op != kDiv) return in.call_op(torch_name(op), {{number, tensor}, {}});
  return in.call_op("mul", {{in.tensor_op("reciprocal", {tensor}), number}, {}});
}

Value tensor_binary(Interpreter& in, ast::BinaryOp op, const Value& left, const Value& right) {
  const auto takes_part = [](const Value& value) { return value.is_tensor() || value.is_number(); };
  if (!takes_part(left) || !takes_part(right)) refuse_operands(ast::to_string(op), left, right);
  const bool pair = left.is_tensor() && right.is_tensor();
  if (op == ast::BinaryOp::kMatMul && !pair) refuse_operands("@", left, right);
  if (!left.is_tensor()) return number_first(in, op, left, right);
  return in.call_op(torch_name(op), {{left, right}, {}});
}

Value repeated(const Values& items, std::int64_t times, const Value& like) {
  constexpr std::int64_t kMost = 1'000'000;
  times = std::max<std::int64_t>(times, 0);
  if (!items.empty() && times > kMost / static_cast<std::int64_t>(items.size())) {
    fail(ErrorKind::kUnsupported, Fix{"keep many numbers in a tensor: torch.full([n], x)"},
         "a list holds more than {} items", kMost);
  }
  Values out;
  for (std::int64_t i = 0; i < times; ++i) out.insert(out.end(), items.begin(), items.end());
  check_size(out);
  return like.is<ListValue>() ? make_list(std::move(out)) : make_tuple(std::move(out));
}

Value repeated_text(const std::string& text, std::int64_t times) {
  check_text_size(text.size(), times);
  std::string out;
  for (std::int64_t i = 0; i < times; ++i) out += text;
  return out;
}

Value concatenated(const Value& left, const Value& right) {
  Values items = items_of(left);
  const Values& more = items_of(right);
  items.insert(items.end(), more.begin(), more.end());
  check_size(items);
  return left.is<ListValue>() ? make_list(std::move(items)) : make_tuple(std::move(items));
}

// Two sets, or two dicts.
bool are_alike(const Value& left, const Value& right) {
  return left.is<DictValue>() && right.is<DictValue>() && is_set(left) == is_set(right);
}

// |, &, - and ^ of sets, | of dicts; `made` is empty.
bool combine(ast::BinaryOp op, const DictEntries& a, const DictEntries& b, DictEntries& made) {
  if (op == ast::BinaryOp::kBitOr) {
    made.merge(a);
    made.merge(b);
    return true;
  }
  if (!made.is_set) return false;
  if (op == ast::BinaryOp::kBitAnd) {
    intersect(a, b, made);
  } else if (op == ast::BinaryOp::kSub) {
    difference(a, b, made);
  } else if (op == ast::BinaryOp::kBitXor) {
    made.merge(b);
    made.toggle(a);
  } else {
    return false;
  }
  return true;
}

// a |= b and the like.
bool combine_in_place(ast::BinaryOp op, DictEntries& a, const DictEntries& b) {
  if (op == ast::BinaryOp::kBitOr) {
    a.merge(b);
  } else if (a.is_set && op == ast::BinaryOp::kSub) {
    a.subtract(b);
  } else if (a.is_set && op == ast::BinaryOp::kBitXor) {
    a.toggle(b);
  } else if (a.is_set && op == ast::BinaryOp::kBitAnd) {
    DictEntries both;
    intersect(a, b, both);
    a.become(std::move(both));
  } else {
    return false;
  }
  return true;
}

bool contains(const Value& container, const Value& item) {
  if (container.is_sequence()) {
    const Values& items = items_of(container);
    return std::ranges::any_of(items, [&](const Value& other) { return equal(other, item); });
  }
  if (const auto* dict = container.get<DictValue>()) return dict->entries->find(item) != nullptr;
  if (const auto* text = container.get<std::string>(); text && item.is<std::string>()) {
    return text->find(item.as<std::string>()) != std::string::npos;
  }
  if (const auto* range = container.get<RangeValue>(); range && item.is<std::int64_t>()) {
    const std::int64_t distance = item.as<std::int64_t>() - range->start;
    const std::int64_t steps = distance / range->step;
    return distance % range->step == 0 && steps >= 0 && steps < range->size();
  }
  refuse_operands("in", item, container);
}

// a <= b: every item of a is in b; a < b: and b has more.
bool set_within(ast::CompareOp op, const Value& left, const Value& right) {
  const bool turned = op == ast::CompareOp::kGreater || op == ast::CompareOp::kGreaterEqual;
  const DictEntries& few = *(turned ? right : left).as<DictValue>().entries;
  const DictEntries& many = *(turned ? left : right).as<DictValue>().entries;
  const bool within = std::ranges::all_of(
      few, [&](const auto& entry) { return many.find(entry.first) != nullptr; });
  const bool strict = op == ast::CompareOp::kLess || op == ast::CompareOp::kGreater;
  return within && (!strict || few.size() < many.size());
}

// Lists compare by their first difference, strings by bytes.
bool ordered(ast::CompareOp op, const Value& left, const Value& right) {
  if (left.is_number() && right.is_number()) return compare(op, number_of(left), number_of(right));
  int order = 0;
  if (is_set(left) && is_set(right)) return set_within(op, left, right);
  if (left.is<std::string>() && right.is<std::string>()) {
    order = left.as<std::string>().compare(right.as<std::string>());
  } else if (left.is_sequence() && left.variant().index() == right.variant().index()) {
    const Values& a = items_of(left);
    const Values& b = items_of(right);
    const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end(), equal);
    if (at != a.end() && other != b.end()) return ordered(op, *at, *other);
    order = a.size() < b.size() ? -1 : a.size() > b.size() ? 1 : 0;
  } else {
    refuse_operands(ast::to_string(op), left, right);
  }
  return compare(op, std::int64_t{order}, std::int64_t{0});
}

bool identical(const Value& left, const Value& right) {
  if (left.variant().index() != right.variant().index()) return false;
  if (const auto* list = left.get<ListValue>()) return list->items == right.as<ListValue>().items;
  if (const auto* dict = left.get<DictValue>()) {
    return dict->entries == right.as<DictValue>().entries;
  }
  return equal(left, right);
}

}  // namespace

// Numbers that only become data of a tensor need not be known: shapes are the same on all ranks.
Value Interpreter::binary_varying(ast::BinaryOp op, const Value& left, const Value& right) {
  const DTensor* tensor = left.is_tensor() ? left.get<DTensor>() : right.get<DTensor>();
  if (tensor != nullptr) {
    const bool data = !tensor->distributed() && op != ast::BinaryOp::kPow;
    const auto plain = [&](const Value& value) { return data ? here(value) : settle(value); };
    const Value first = plain(left);
    return binary(op, first, plain(right));
  }
  const auto compute = [this, op](const Values& operands) {
    return binary(op, operands[0], operands[1]);
  };
  const auto fails = [&](std::int64_t rank) -> std::uint64_t {
    try {
      compute({at_rank(left, rank), at_rank(right, rank)});
      return 0;
    } catch (const Error&) {
      return 1;
    }
  };
  const bool always_works =
      op == ast::BinaryOp::kAdd || op == ast::BinaryOp::kSub || op == ast::BinaryOp::kMul;
  if (!always_works) setup_.questions->ask(fails);
  return lift({left, right}, compute);
}

// A number next to a tensor is passed to the op, which may take symbols; both in one list stay
// there.
Value Interpreter::binary_of_sizes(ast::BinaryOp op, const Value& left, const Value& right) {
  const Value known = sizes_->arithmetic(op, left, right);
  if (!known.is_none()) return known;
  const bool beside = left.is_tensor() && size_of(right) != nullptr && op != ast::BinaryOp::kMatMul;
  if (beside) return call_op(torch_name(op), {{left, right}, {}});
  const bool lists = left.is_sequence() && left.variant().index() == right.variant().index();
  if (lists && op == ast::BinaryOp::kAdd) return concatenated(left, right);
  const Value first = settle(left);
  return binary(op, first, settle(right));
}

Value Interpreter::binary(ast::BinaryOp op, const Value& left, const Value& right) {
  if (varying(left) || varying(right)) return binary_varying(op, left, right);
  if (sizes_ != nullptr && (holds_size(left) || holds_size(right))) {
    return binary_of_sizes(op, left, right);
  }
  if (left.is_tensor() || right.is_tensor()) return tensor_binary(*this, op, left, right);
  if (left.is_number() && right.is_number()) {
    const Number result = arithmetic(op, number_of(left), number_of(right));
    const bool bitwise =
        op == ast::BinaryOp::kBitAnd || op == ast::BinaryOp::kBitOr || op == ast::BinaryOp::kBitXor;
    if (bitwise && left.is<bool>() && right.is<bool>()) return std::get<0>(result) != 0;
    return make_number(result);
  }
  if (are_alike(left, right)) {
    const DictValue made = make_dict();
    made.entries->is_set = is_set(left);
    if (combine(op, *left.as<DictValue>().entries, *right.as<DictValue>().entries, *made.entries)) {
      return made;
    }
  }
  if (op == ast::BinaryOp::kAdd) {
    if (left.is<std::string>() && right.is<std::string>()) {
      check_text_size(left.as<std::string>().size() + right.as<std::string>().size());
      return left.as<std::string>() + right.as<std::string>();
    }
    const bool same = left.variant().index() == right.variant().index();
    if (same && left.is_sequence()) return concatenated(left, right);
  }
  if (op == ast::BinaryOp::kMul) {
    const Value& times = left.is_integer() ? left : right;
    const Value& what = left.is_integer() ? right : left;
    if (times.is_integer() && what.is_sequence()) {
      return repeated(items_of(what), std::get<0>(number_of(times)), what);
    }
    if (times.is_integer() && what.is<std::string>()) {
      return repeated_text(what.as<std::string>(), std::get<0>(number_of(times)));
    }
  }
  if (op == ast::BinaryOp::kMod && left.is<std::string>()) {
    return percent_formatted(left.as<std::string>(), right);
  }
  refuse_operands(ast::to_string(op), left, right);
}

namespace {

Value binary_in_place(Interpreter& in, ast::BinaryOp op, const Value& tensor,
                      const Value& operand) {
  if (op == ast::BinaryOp::kMatMul) return in.binary(op, tensor, operand);
  const std::string name = std::string(torch_name(op)) + "_";
  const bool in_place = is_torch_name(*in.setup().registry, name) && !operand.is<RankValue>();
  if (in_place) return in.call_op(name, {{tensor, operand}, {}});
  in.call_op("copy_", {{tensor, in.binary(op, tensor, operand)}, {}});
  return tensor;
}

}  // namespace

void extend(Interpreter& in, const Value& list, const Value& more) {
  if (const auto* set = list.get<DictValue>()) {
    const auto* dict = more.get<DictValue>();
    for (const Value& item : in.iterate(more)) {
      dict != nullptr ? check_stored(list, item) : store(*set, item, {});
    }
    if (dict != nullptr) set->entries->merge(*dict->entries);
    return;
  }
  Values& items = *list.as<ListValue>().items;
  const Values added = in.iterate(more);
  for (const Value& item : added) check_stored(list, item);
  items.insert(items.end(), added.begin(), added.end());
}

Value augmented(Interpreter& in, ast::BinaryOp op, const Value& before, const Value& operand) {
  if (before.is_tensor()) return binary_in_place(in, op, before, operand);
  if (are_alike(before, operand)) {
    DictEntries& own = *before.as<DictValue>().entries;
    if (combine_in_place(op, own, *operand.as<DictValue>().entries)) return before;
  }
  const auto* list = before.get<ListValue>();
  if (list == nullptr || operand.is<RankValue>()) return in.binary(op, before, operand);
  if (op == ast::BinaryOp::kAdd) {
    extend(in, before, operand);
    return before;
  }
  const Value result = in.binary(op, before, operand);
  if (!result.is<ListValue>()) return result;
  static_cast<Values&>(*list->items) = items_of(result);
  return before;
}

namespace {

// Ranks are asked about the left one first.
Value compare_settled(Interpreter& in, ast::CompareOp op, const Value& left, const Value& right) {
  const Value first = in.settle(left);
  return in.compare(op, first, in.settle(right));
}

}  // namespace

Value Interpreter::compare(ast::CompareOp op, const Value& left, const Value& right) {
  if (varying(left) || varying(right)) {
    if (left.is_tensor() || right.is_tensor()) return compare_settled(*this, op, left, right);
    return lift({left, right}, [this, op](const Values& operands) {
      return compare(op, operands[0], operands[1]);
    });
  }
  if (sizes_ != nullptr && (holds_size(left) || holds_size(right))) {
    const auto number = [](const Value& value) {
      return size_of(value) != nullptr || value.is<std::int64_t>();
    };
    const bool orders = op != ast::CompareOp::kIs && op != ast::CompareOp::kIsNot &&
                        op != ast::CompareOp::kIn && op != ast::CompareOp::kNotIn;
    if (orders && number(left) && number(right)) return sizes_->compare(op, left, right);
    return compare_settled(*this, op, left, right);
  }
  if (op == ast::CompareOp::kIs) return identical(left, right);
  if (op == ast::CompareOp::kIsNot) return !identical(left, right);
  if (op == ast::CompareOp::kIn) return contains(right, left);
  if (op == ast::CompareOp::kNotIn) return !contains(right, left);
  const bool tensors = (left.is_tensor() && (right.is_tensor() || right.is_number())) ||
                       (right.is_tensor() && left.is_number());
  if (tensors) {
    const auto row = static_cast<std::size_t>(op);
    if (!left.is_tensor()) return call_op(kSwapped[row], {{right, left}, {}});
    return call_op(kCompare[row], {{left, right}, {}});
  }
  if (op == ast::CompareOp::kEqual) return equal(left, right);
  if (op == ast::CompareOp::kNotEqual) return !equal(left, right);
  return ordered(op, left, right);
}

Value Interpreter::unary(ast::UnaryOp op, const Value& operand) {
  if (op == ast::UnaryOp::kNot) return !truth(operand);
  if (sizes_ != nullptr && size_of(operand) != nullptr) {
    if (op == ast::UnaryOp::kNegative) return binary(ast::BinaryOp::kSub, 0, operand);
    return unary(op, settle(operand));
  }
  if (operand.is<RankValue>()) {
    return lift({operand}, [this, op](const Values& operands) { return unary(op, operands[0]); });
  }
  if (operand.is_tensor()) {
    if (op == ast::UnaryOp::kPositive) return operand;
    return call_op(op == ast::UnaryOp::kInvert ? "bitwise_not" : "neg", {{operand}, {}});
  }
  if (!operand.is_number()) {
    fail(Fix{"use it on a number or a tensor"}, "'{}' does not work on {}", ast::to_string(op),
         a_kind(operand));
  }
  const Number number = number_of(operand);
  if (op == ast::UnaryOp::kPositive) return make_number(number);
  if (op == ast::UnaryOp::kNegative) return make_number(negate(number));
  return make_number(arithmetic(ast::BinaryOp::kBitXor, number, std::int64_t{-1}));
}

}  // namespace shardlab
