// Each kind of change is a function of one argument or input; changes are taken in turns from all
// arguments, so that the first forms of an op with many differ in all of them.
#include "sim/proof/sample_forms.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/text.h"
#include "schema/op_descriptor.h"
#include "schema/op_row.h"
#include "sim/proof/sample_call.h"

namespace shardlab {

namespace {

std::optional<std::size_t> slot_of(const Argument& argument) {
  if (!argument.is_string() || !argument.string().starts_with('$')) return std::nullopt;
  return std::stoul(argument.string().substr(1));
}

Dims with_front(std::int64_t size, const Dims& shape) {
  Dims longer{size};
  for (const std::int64_t dim : shape) longer.push_back(dim);
  return longer;
}

bool names_dims(const SchemaArgument& argument) {
  return argument.name.find("dim") != std::string_view::npos;
}

// Changes of one call.
class Forms {
 public:
  Forms(const OpSample& sample, const OpRow& row) : sample_(sample), row_(row) {
    const Arguments defaults = row.defaults();
    for (std::size_t i = sample_.args.size(); i < defaults.size(); ++i) {
      sample_.args.push_back(defaults[i]);
    }
  }

  std::vector<OpSample> all() {
    for (std::size_t i = 0; i < sample_.args.size(); ++i) change_argument(i);
    for (std::size_t slot = 0; slot < sample_.inputs.size(); ++slot) change_input(slot);
    change_all_inputs();
    return in_turns();
  }

 private:
  // The kinds of changes, in the order in which they are taken.
  enum Kind : std::size_t { kOne, kEnd, kLeft, kOut, kBatch, kFlag, kNumber, kEmpty, kKinds };

  const SchemaArgument& declared(std::size_t i) const { return row_.op.arguments[i]; }

  void add(Kind kind, OpSample form) { forms_[kind].push_back(std::move(form)); }
  void add_argument(Kind kind, std::size_t i, Argument value) {
    OpSample form = sample_;
    form.args[i] = std::move(value);
    add(kind, std::move(form));
  }
  void add_shape(Kind kind, std::size_t slot, Dims shape) {
    OpSample form = sample_;
    form.inputs[slot].shape = std::move(shape);
    add(kind, std::move(form));
  }

  std::int64_t dims() const {
    return sample_.inputs.empty() ? 1
                                  : std::max<std::int64_t>(1, std::ssize(sample_.inputs[0].shape));
  }

  void change_argument(std::size_t i) {
    const Argument& value = sample_.args[i];
    if (declared(i).type.is_tensor()) return leave_out(i);
    if (value.is_ints()) return change_list(i, value.ints());
    if (value.is_scalar()) return change_number(i, value.scalar());
    if (!value.is_none()) {
      if (declared(i).type.is_optional) add_argument(kLeft, i, {});
      return;
    }
    if (declared(i).type.is_list) return;
    switch (declared(i).type.kind) {  // arguments whose default is None are given
      case TypeKind::kDType:
        add_argument(kNumber, i, DType::kF64);
        break;
      case TypeKind::kInt:
        add_argument(kNumber, i, 1);
        if (names_dims(declared(i))) add_argument(kEnd, i, -1);
        break;
      case TypeKind::kFloat:
      case TypeKind::kScalar:
        add_argument(kNumber, i, 0.5);
        break;
      default:
        break;
    }
  }

  // The input is removed with the argument, and later ones move up.
  void leave_out(std::size_t i) {
    const auto slot = slot_of(sample_.args[i]);
    if (!slot || !declared(i).type.is_optional) return;
    OpSample form = sample_;
    form.args[i] = {};
    form.inputs.erase(form.inputs.begin() + static_cast<std::ptrdiff_t>(*slot));
    for (Argument& argument : form.args) {
      argument = filled_in(argument, [&](std::size_t number) {
        return Argument(fmt::format("${}", number > *slot ? number - 1 : number));
      });
    }
    add(kLeft, std::move(form));
  }

  void change_list(std::size_t i, const Dims& list) {
    const std::int64_t size = declared(i).type.list_size;
    const bool equal = !list.empty() && std::ranges::count(list, list[0]) == std::ssize(list);
    if (list.size() > 1 && (size > 1 || equal)) add_argument(kOne, i, Dims{list[0]});
    if (names_dims(declared(i))) {
      Dims from_end = list;
      for (std::int64_t& dim : from_end) dim += dim < 0 ? dims() : -dims();
      if (!list.empty()) add_argument(kEnd, i, std::move(from_end));
      Dims turned = list;
      std::ranges::reverse(turned);
      if (list.size() > 1) add_argument(kEnd, i, std::move(turned));
    }
    if (declared(i).type.is_optional) add_argument(kLeft, i, {});
    if (!list.empty() && size != 0) add_argument(kEmpty, i, Dims{});
    if (!list.empty()) {
      Dims more = list;
      ++more.back();
      add_argument(kNumber, i, std::move(more));
    }
  }

  void change_number(std::size_t i, const Scalar& number) {
    if (number.category() == Category::kBool) return add_argument(kFlag, i, !number.to_bool());
    if (declared(i).type.is_optional) add_argument(kLeft, i, {});
    if (number.category() == Category::kInteger) {
      const std::int64_t value = number.to_int();
      if (names_dims(declared(i)))
        add_argument(kEnd, i, value < 0 ? value + dims() : value - dims());
      for (const std::int64_t other : {value + 1, std::int64_t{0}, std::int64_t{2}}) {
        if (other != value) add_argument(kNumber, i, other);
      }
    } else if (number.category() == Category::kFloat) {
      const double value = number.to_double();
      add_argument(kNumber, i, value == 0 ? 0.25 : -value);
    }
  }

  void change_input(std::size_t slot) {
    const SampleInput& input = sample_.inputs[slot];
    const Dims& shape = input.shape;
    if (is_out(sample_, row_, slot)) {
      add_shape(kOut, slot, {0});
      add_shape(kOut, slot, {3});
      return;
    }
    if (shape.size() > 1) add_shape(kBatch, slot, Dims(shape.begin() + 1, shape.end()));
    for (const std::int64_t size : {1, 2}) add_shape(kBatch, slot, with_front(size, shape));
    if (!shape.empty() && shape[0] > 1) {
      Dims one = shape, none = shape;
      one[0] = 1;
      none[0] = 0;
      add_shape(kBatch, slot, std::move(one));
      add_shape(kEmpty, slot, std::move(none));
    }
    if (!shape.empty()) add_shape(kEmpty, slot, {});
  }

  void change_all_inputs() {
    if (sample_.inputs.size() < 2) return;
    OpSample more = sample_, fewer = sample_, none = sample_;
    bool all = true;
    for (std::size_t slot = 0; slot < sample_.inputs.size(); ++slot) {
      const Dims& shape = sample_.inputs[slot].shape;
      more.inputs[slot].shape = with_front(2, shape);
      all = all && shape.size() > 1;
      if (!all) continue;
      fewer.inputs[slot].shape = Dims(shape.begin() + 1, shape.end());
      none.inputs[slot].shape[0] = 0;
    }
    add(kBatch, std::move(more));
    if (all) add(kBatch, std::move(fewer));
    if (all) add(kEmpty, std::move(none));
  }

  // The first of each kind, then the second.
  std::vector<OpSample> in_turns() const {
    std::vector<OpSample> forms;
    bool any = true;
    for (std::size_t turn = 0; any; ++turn) {
      any = false;
      for (const std::vector<OpSample>& kind : forms_) {
        if (turn >= kind.size()) continue;
        forms.push_back(kind[turn]);
        any = true;
      }
    }
    return forms;
  }

  OpSample sample_;
  const OpRow& row_;
  std::vector<OpSample> forms_[kKinds];
};

std::string input_text(const SampleInput& input) {
  constexpr const char* kFills[] = {"real", "unit", "index", "count", "bool", "given"};
  std::string text = fmt::format("{}[{}]", kFills[static_cast<std::size_t>(input.fill)],
                                 text_of_list(input.shape, ", "));
  const bool limited = input.fill == Fill::kIndex || input.fill == Fill::kCount;
  return limited ? fmt::format("{}<{}", text, input.limit) : text;
}

}  // namespace

std::string form_text(const OpSample& sample, const OpRow& row) {
  std::vector<std::string> args, inputs;
  for (const Argument& argument : sample.args) args.push_back(argument.text());
  for (const SampleInput& input : sample.inputs) inputs.push_back(input_text(input));
  return fmt::format("{}({}) of {}", row.name(), text_of_list(args, ", "),
                     text_of_list(inputs, "; "));
}

std::vector<OpSample> forms_of(const OpSample& sample, const OpRow& row, std::size_t most) {
  const bool given = std::ranges::any_of(
      sample.inputs, [](const SampleInput& input) { return input.fill == Fill::kGiven; });
  if (sample.calls || given) return {};
  std::vector<OpSample> forms = Forms(sample, row).all();
  std::set<std::string> seen{form_text(sample, row)};
  std::erase_if(forms,
                [&](const OpSample& form) { return !seen.insert(form_text(form, row)).second; });
  if (forms.size() > most) forms.resize(most);
  return forms;
}

std::vector<OpSample> forms_of(const std::vector<const OpSample*>& samples, const OpRow& row,
                               std::size_t most) {
  std::vector<OpSample> forms;
  std::set<std::string> seen;
  for (const OpSample* sample : samples) {
    for (OpSample& form : forms_of(*sample, row, most)) {
      if (forms.size() == most) return forms;
      if (seen.insert(form_text(form, row)).second) forms.push_back(std::move(form));
    }
  }
  return forms;
}

}  // namespace shardlab
