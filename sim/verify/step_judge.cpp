// The first question is whether the result equals the op in its own dtype bit for bit: most do.
// Then rows whose bits do not depend on the cuts of a value are wrong; sums are compared with their
// bound.
#include "sim/verify/step_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "comm/verdict.h"
#include "dispatch/local_call.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "schema/computation.h"
#include "schema/op_row.h"
#include "schema/sharding_rule.h"
#include "sim/verify/global_value.h"
#include "sim/verify/rounding.h"
#include "sim/verify/step_bounds.h"
#include "sim/verify/step_compare.h"
#include "sim/verify/step_eval.h"
#include "sim/verify/step_moves.h"
#include "sim/verify/step_value.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

using Pieces = std::vector<DTensor>;

// The n-th tensor of every rank's arguments or results.
struct Slots {
  std::vector<Pieces> by_slot;
  bool alike = true;  // as many on every rank, of one spec, defined or not
};

template <typename Choose>
Slots slots_of(const Step& step, Choose choose) {
  Slots slots;
  for (std::size_t rank = 0; rank < step.parts.size(); ++rank) {
    std::size_t slot = 0;
    choose(step.parts[rank], [&](const DTensor& tensor) {
      if (rank == 0) slots.by_slot.emplace_back();
      if (slot >= slots.by_slot.size()) {
        slots.alike = false;
        return;
      }
      slots.by_slot[slot++].push_back(tensor);
    });
    slots.alike = slots.alike && slot == slots.by_slot.size();
  }
  for (const Pieces& pieces : slots.by_slot) {
    for (const DTensor& piece : pieces) {
      slots.alike = slots.alike && piece.defined() == pieces[0].defined() &&
                    (!piece.defined() || piece.spec() == pieces[0].spec());
    }
  }
  return slots;
}

DTensor tensor_of(const Argument& argument) {
  return argument.is_tensor() ? argument.tensor() : DTensor();
}

Slots operand_slots(const Step& step) {
  return slots_of(step, [](const StepPart& part, const auto& visit) {
    for_each_tensor_slot(part.row->op, part.args, [&](std::size_t, const Argument& argument) {
      visit(tensor_of(argument));
    });
  });
}

Slots result_slots(const Step& step) {
  return slots_of(step, [](const StepPart& part, const auto& visit) {
    for (const Argument& result : part.results) {
      if (result.is_list()) {
        for (const Argument& element : result.list()) visit(tensor_of(element));
      } else if (!result.is_scalar()) {
        visit(tensor_of(result));
      }
    }
  });
}

// True when all ranks pass the same plain arguments; calls with different ones are not one call.
bool same_numbers(const Step& step) {
  const StepPart& first = step.first();
  for (const StepPart& part : step.parts) {
    for (std::size_t i = 0; i < first.args.size(); ++i) {
      const SchemaType& type = first.row->op.arguments[i].type;
      if (type.is_tensor() || type.kind == TypeKind::kGenerator) continue;
      if (!(part.args[i] == first.args[i])) return false;
    }
    if (first.row->has(kRandom) &&
        (part.random.seed != first.random.seed || part.random.offset != first.random.offset)) {
      return false;
    }
  }
  return true;
}

// A strided view reads memory, so the operand is laid out in memory as its spec says.
Tensor laid_out(const Tensor& value, const DTensorSpec* spec) {
  if (spec == nullptr || is_contiguous(spec->shape(), spec->stride())) return value;
  std::int64_t last = 0;
  for (std::size_t dim = 0; dim < spec->ndim(); ++dim) {
    last += (spec->shape()[dim] - 1) * spec->stride()[dim];
  }
  if (last + 1 != value.numel()) return value;  // expanded, or with gaps
  const Tensor result =
      empty(*current_rank().device, {spec->shape(), spec->stride(), value.dtype()});
  current_rank().device->copy(result, value);
  return result;
}

class OpJudge {
 public:
  explicit OpJudge(const Step& step) : step_(step), row_(*step.first().row) {}

  StepFinding run() {
    if (row_.opaque()) return skipped("ops with a handler of the user's own");
    const Slots operands = operand_slots(step_);
    results_ = result_slots(step_);
    if (!operands.alike || !results_.alike) return skipped("the ranks hold different types");
    if (!same_numbers(step_)) return skipped("the ranks pass different numbers");
    if (are_cut_alike(operands) && holds_on_pieces(operands)) return bitwise_on_pieces(operands);
    for (const Pieces& pieces : operands.by_slot) {
      operands_.emplace_back();
      if (!pieces.front().defined()) continue;
      operands_.back() = whole_value_of(pieces, step_.ranks);
      if (!operands_.back().fault.empty()) return wrong(unequal(operands_.back().fault));
      specs_.push_back(pieces.front().spec());
      coarsest_ = std::max(coarsest_, unit_roundoff(pieces.front().dtype()));
      summed_ = summed_ || operands_.back().sum.defined();
    }
    if (row_.name() == "aten::equal") return judge_equal();
    return judge_results();
  }

 private:
  // Elements of a pointwise op follow from those at their places: if operands are cut as the result
  // is, or are whole along its cuts, the op on a rank's pieces gives the piece of the op on the
  // whole.
  bool are_cut_alike(const Slots& operands) const {
    const bool pointwise = std::holds_alternative<PointwiseRule>(row_.rule) && !row_.has(kRandom) &&
                           !row_.has(kNeedsPosition) && !row_.on_pieces;
    if (!pointwise || results_.by_slot.size() != 1) return false;
    const DTensor& result = results_.by_slot[0].front();
    if (!result.defined() || !result.distributed()) return false;
    const DTensorSpec& cut = *result.spec();
    if (cut.has_partial() || cut.is_replicated()) return false;
    return std::ranges::all_of(operands.by_slot, [&](const Pieces& pieces) {
      return !pieces.front().defined() || fits_cut(pieces.front().spec(), cut);
    });
  }

  static bool fits_cut(const DTensorSpec* operand, const DTensorSpec& cut) {
    if (operand == nullptr || operand->layout() != cut.layout()) return false;
    if (operand->shape() == cut.shape() && operand->placements() == cut.placements()) {
      return operand->order() == cut.order();
    }
    if (!operand->is_replicated() || operand->ndim() > cut.ndim()) return false;
    const std::size_t missing = cut.ndim() - operand->ndim();
    return std::ranges::all_of(cut.placements(), [&](const Placement& placement) {
      if (placement.is_replicate()) return true;
      const auto dim = static_cast<std::size_t>(placement.dim);
      return dim < missing || operand->shape()[dim - missing] == 1;
    });
  }

  // Bit for bit, replicas too. If not, the whole value shows more.
  bool holds_on_pieces(const Slots& operands) const {
    const Pieces& results = results_.by_slot[0];
    const DTensorSpec& cut = *results.front().spec();
    const MeshLayout& layout = *cut.layout();
    for (std::int64_t index = 0; index < layout.size(); ++index) {
      const Coordinate coordinate = layout.coordinate_at_index(index);
      const auto here = static_cast<std::size_t>(index);
      const auto first = static_cast<std::size_t>(layout.index_of(representative(cut, coordinate)));
      if (results[here].local().shape() != local_shape(cut, coordinate)) return false;
      std::vector<Tensor> pieces;
      for (const Pieces& operand : operands.by_slot) {
        pieces.push_back(operand[here].defined() ? operand[here].local() : Tensor());
        if (!pieces.back().defined()) continue;
        const bool replicated = operand.front().spec()->is_replicated();
        if (pieces.back().shape() != local_shape(*operand.front().spec(), coordinate)) return false;
        const Tensor& other = operand[replicated ? 0 : first].local();
        if (!same_type(pieces.back(), other) || !same_bits(pieces.back(), other)) return false;
      }
      const Tensor& got = results[here].local();
      if (here != first) {
        if (!same_bits(got, results[first].local())) return false;
        continue;
      }
      const std::vector<Tensor> own = evaluate(step_.first(), pieces, EvaluateIn::kOwn);
      if (own.size() != 1 || !same_type(own[0], got) || !same_values(own[0], got)) return false;
    }
    return true;
  }

  static bool same_type(const Tensor& a, const Tensor& b) {
    return a.shape() == b.shape() && a.dtype() == b.dtype();
  }

  StepFinding bitwise_on_pieces(const Slots& operands) const {
    const auto finite = [](const DTensor& piece) {
      return !piece.defined() || all_finite(piece.local());
    };
    StepFinding finding;
    finding.makes_non_finite = !std::ranges::all_of(results_.by_slot[0], finite) &&
                               given_finite_numbers() && !operands.by_slot.empty() &&
                               std::ranges::all_of(operands.by_slot, [&](const Pieces& own) {
                                 return std::ranges::all_of(own, finite);
                               });
    return finding;
  }

  enum class Of : std::uint8_t { kOwn, kWide, kAbsolute, kOwnAbsolute };

  std::vector<Tensor> values(Of of) const {
    return laid_out_as([&](const WholeValue& operand, std::size_t) {
      if (of == Of::kOwn) return operand.own;
      if (of == Of::kWide) return operand.wide();
      return absolute_value(operand, of == Of::kAbsolute ? operand.wide() : operand.own);
    });
  }

  // Floats in f64, changed; integers as they are.
  template <class Change>
  std::vector<Tensor> changed(const Change& change) const {
    return laid_out_as([&](const WholeValue& operand, std::size_t slot) {
      return is_integral(operand.own.dtype()) ? operand.own : change(operand, slot);
    });
  }

  // `number` of each operand, in memory as the operand's spec says.
  template <class Number>
  std::vector<Tensor> laid_out_as(const Number& number) const {
    std::vector<Tensor> tensors;
    std::size_t spec = 0;
    for (std::size_t slot = 0; slot < operands_.size(); ++slot) {
      if (!operands_[slot].own.defined()) {
        tensors.emplace_back();
        continue;
      }
      Tensor value = number(operands_[slot], slot);
      if (row_.view() != nullptr) value = laid_out(value, specs_[spec]);
      ++spec;
      tensors.push_back(std::move(value));
    }
    return tensors;
  }

  const std::vector<Tensor>& own() {
    if (own_.empty()) own_ = evaluate(step_.first(), values(Of::kOwn), EvaluateIn::kOwn);
    return own_;
  }

  StepFinding judge_equal() {
    bool same = operands_[0].own.meta() == operands_[1].own.meta();
    same = same && read_doubles(operands_[0].own) == read_doubles(operands_[1].own);
    for (const StepPart& part : step_.parts) {
      if (part.results.at(0).to_bool() == same) continue;
      WrongStep found;
      found.what = same ? "says no to equal values" : "says yes to different values";
      return wrong(std::move(found));
    }
    return {};
  }

  // The one number that every rank got.
  StepFinding judge_scalar() {
    Results expected;
    if (row_.name() == "aten::_local_scalar_dense") {
      expected.emplace_back(read_scalar(operands_.at(0).own));
    } else {
      return {};
    }
    for (const StepPart& part : step_.parts) {
      if (part.results.at(0).text() == expected[0].text() || operands_[0].count > 1) continue;
      WrongStep found;
      found.what = fmt::format("gives {}, {} is right", part.results[0].text(), expected[0].text());
      return wrong(std::move(found));
    }
    return {};
  }

  StepFinding judge_results() {
    const Results& given = step_.first().results;
    if (results_.by_slot.empty() && !given.empty()) return judge_scalar();
    StepFinding finding;
    bool finite = true;
    for (std::size_t i = 0; i < results_.by_slot.size(); ++i) {
      const Pieces& pieces = results_.by_slot[i];
      if (!pieces.front().defined()) continue;
      const WholeValue got = whole_value_of(pieces, step_.ranks);
      StepFinding one = got.fault.empty() ? judge_result(i, got) : wrong(unequal(got.fault));
      if (one.kind == StepFinding::Kind::kWrong) {
        one.wrong.result = static_cast<std::int64_t>(i);
        const DTensorSpec* spec = pieces.front().spec();
        if (one.wrong.element >= 0 && spec != nullptr) {
          one.wrong.held_by = holders_text(*spec, one.wrong.element);
        }
      }
      finite = finite && (!got.own.defined() || all_finite(got.own));
      if (one.kind == StepFinding::Kind::kSkipped || one.kind > finding.kind) {
        one.undecided_elements += finding.undecided_elements;
        finding = std::move(one);
      }
      if (finding.kind >= StepFinding::Kind::kWrong) break;
    }
    finding.makes_non_finite = !finite && !operands_.empty() && given_finite();
    return finding;
  }

  // True when operands and numbers are finite: masked_fill(-inf) does not make an infinity, its
  // argument is one.
  bool given_finite() const {
    return given_finite_numbers() && std::ranges::all_of(operands_, [](const WholeValue& v) {
             return !v.own.defined() || all_finite(v.own);
           });
  }

  bool given_finite_numbers() const {
    return std::ranges::none_of(step_.first().args, [](const Argument& argument) {
      return argument.is_scalar() && !std::isfinite(argument.to_double());
    });
  }

  StepFinding judge_result(std::size_t index, const WholeValue& got) {
    // Terms that add up give other bits than the op on their sum.
    if (got.count == 1) {
      if (index >= own().size() || !own()[index].defined()) return {};  // nothing to compare with
      const Tensor& expected = own()[index];
      if (expected.shape() != got.own.shape() || expected.dtype() != got.own.dtype()) {
        WrongStep found;
        found.what = fmt::format("gives {}, the op gives {}", type_string(got.own.meta()),
                                 type_string(expected.meta()));
        return wrong(std::move(found));
      }
      if (same_values(got.own, expected)) return {};
      if (is_integral(got.own.dtype())) return judge_integers(index, got);
      const bool pending = summed_ || got.sum.defined();
      if (row_.has(kExact) && !pending) return wrong(bitwise_miss(got.own, expected));
    }
    return judge_floats(index, got);
  }

  // Integers that follow from pending floats may differ where rounding the sums decides.
  StepFinding judge_integers(std::size_t index, const WholeValue& got) {
    if (!summed_) return wrong(bitwise_miss(got.own, own()[index]));
    const std::vector<std::int64_t> have = read_integers(got.own);
    const std::vector<std::int64_t> want = read_integers(own()[index]);
    std::vector<char> open(have.size(), 0);
    for (int sample = 0; sample < 8; ++sample) {
      const auto other =
          read_integers(evaluate(step_.first(), nudged(sample), EvaluateIn::kOwn)[index]);
      for (std::size_t i = 0; i < have.size(); ++i) open[i] |= other[i] != want[i];
    }
    StepFinding finding;
    for (std::size_t i = 0; i < have.size(); ++i) {
      if (have[i] == want[i]) continue;
      if (!open[i]) return wrong(bitwise_miss(got.own, own()[index]));
      ++finding.undecided_elements;
    }
    finding.kind = StepFinding::Kind::kUndecided;
    return finding;
  }

  // Operands, each element of a pending sum moved up or down by its largest rounding.
  std::vector<Tensor> nudged(int sample) const {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < operands_.size(); ++i) {
      const WholeValue& value = operands_[i];
      tensors.push_back(value.count > 1 ? converted(moved_by_rounding(value, 0, coin(sample, i)),
                                                    value.own.dtype())
                                        : value.own);
    }
    return tensors;
  }

  // Operands toss their own coins: common changes would cancel.
  int coin(int sample, std::size_t operand) const {
    return sample * static_cast<int>(operands_.size()) + static_cast<int>(operand);
  }

  // A sum that is as close to the op in its own dtype as half of the bound allows needs no f64: the
  // op itself is right within the other half. `absolute`: A, or less.
  bool is_near_own(std::size_t index, const WholeValue& got, bool whole_bound) {
    const DType dtype = got.own.dtype();
    const bool narrow = !is_complex(dtype) && unit_roundoff(dtype) > unit_roundoff(DType::kF64);
    if (!narrow || summed_ || summing_of(row_) == Summing::kOther) return false;
    const Tensor& expected = own().at(index);
    if (expected.shape() != got.own.shape() || expected.dtype() != dtype) return false;
    FloatResult result;
    result.dtype = dtype;
    result.got = read_doubles(got.sum.defined() ? got.sum : got.own);
    result.exact = read_doubles(expected);
    result.terms = got.terms;
    const auto finite = [](double number) { return std::isfinite(number); };
    if (!std::ranges::all_of(result.got, finite)) return false;
    if (!std::ranges::all_of(result.exact, finite)) return false;
    if (whole_bound) {
      result.absolute = absolute_of(index, result.exact);
    } else {
      result.absolute = result.exact;
      for (std::size_t i = 0; i < result.absolute.size(); ++i) {
        const double terms = result.terms.empty() ? 0 : result.terms[i];
        result.absolute[i] = std::max(std::fabs(result.absolute[i]), terms);
      }
    }
    RoundingBound bound = bound_for(got, expected.numel());
    bound.share = 0.5;
    return misses(result, bound).count == 0;
  }

  StepFinding judge_floats(std::size_t index, const WholeValue& got) {
    if (is_near_own(index, got, false)) return bounded(0);
    if (summing_of(row_) == Summing::kLinear && is_near_own(index, got, true)) return bounded(0);
    if (wide_.empty()) wide_ = evaluate(step_.first(), values(Of::kWide), EvaluateIn::kWide);
    const Tensor& exact = wide_.at(index);
    if (exact.shape() != got.own.shape()) {
      WrongStep found;
      found.what = fmt::format("gives {}, the op gives {}", type_string(got.own.meta()),
                               type_string(exact.meta()));
      return wrong(std::move(found));
    }
    FloatResult result;
    result.dtype = got.own.dtype();
    result.got = read_doubles(got.sum.defined() ? got.sum : got.own);
    result.exact = read_doubles(exact);
    result.terms = got.terms;
    const RoundingBound bound = bound_for(got, exact.numel());
    if (!own_.empty()) result.own = read_doubles(own_[index]);
    if (misses(result, bound).count == 0) return bounded(0);
    result.absolute = absolute_of(index, result.exact);
    Misses missed = misses(result, bound);
    if (missed.count > 0 && result.own.empty()) {
      result.own = read_doubles(own().at(index));
      missed = misses(result, bound);
    }
    if (missed.count > 0 && (summed_ || row_.computed_by_program())) {
      result.moved = moved_of(index, result.exact);
      missed = misses(result, bound);
    }
    return missed.count == 0 ? bounded(missed.undecided) : wrong(float_miss(missed, result.dtype));
  }

  static StepFinding bounded(std::int64_t undecided) {
    StepFinding finding;
    finding.kind = undecided > 0 ? StepFinding::Kind::kUndecided : StepFinding::Kind::kBounded;
    finding.undecided_elements = undecided;
    return finding;
  }

  RoundingBound bound_for(const WholeValue& got, std::int64_t results) const {
    RoundingBound bound;
    const double own = unit_roundoff(got.own.dtype());
    bound.u = std::max(own, coarsest_);
    // Kernels compute f16 and bf16 in f32; programs round after every op.
    bound.u_accumulator =
        row_.computed_by_program() ? bound.u : std::min(bound.u, unit_roundoff(DType::kF32));
    // The judge's own f64 rounds as much as an f64 program.
    if (got.own.dtype() == DType::kF64 || got.own.dtype() == DType::kC128) bound.u_accumulator *= 2;
    bound.ranks = static_cast<double>(got.count);
    // A rank's term is rounded once, their sum perhaps once more.
    bound.least = least_rounding(got.own.dtype()) * (bound.ranks + 1);
    bound.n = terms_added(operands_, results, summing_of(row_) == Summing::kOther) /
              static_cast<double>(got.count);
    bound.n = std::max(bound.n, 1.0);
    return bound;
  }

  // A: the sum that errors of additions are measured against.
  std::vector<double> absolute_of(std::size_t index, const std::vector<double>& exact) {
    if (summing_of(row_) == Summing::kOther) return response_of(index, exact);
    if (summing_of(row_) == Summing::kPositive) {
      std::vector<double> result = exact;
      for (double& number : result) number = std::fabs(number);
      return result;
    }
    if (absolute_.empty()) absolute_ = absolutes();
    std::vector<double> result = read_doubles(absolute_.at(index));
    if (is_complex(absolute_[index].dtype())) {
      for (std::size_t i = 0; i + 1 < result.size(); i += 2) result[i + 1] = result[i];
    }
    for (double& number : result) number = std::fabs(number);
    return result;
  }

  // The op on absolute values: in the operands' own dtype, whose roundings are small next to the
  // bound, if that holds the sums.
  std::vector<Tensor> absolutes() const {
    if (coarsest_ <= unit_roundoff(DType::kF32)) {
      std::vector<Tensor> own =
          evaluate(step_.first(), values(Of::kOwnAbsolute), EvaluateIn::kAbsolute);
      const auto holds = [](const Tensor& x) { return !x.defined() || all_finite(x); };
      if (std::ranges::all_of(own, holds)) return own;
    }
    return evaluate(step_.first(), values(Of::kAbsolute), EvaluateIn::kAbsolute);
  }

  // The root mean square of the result's change, per unit of relative change of each operand
  // element by random signs, four times, next to the result itself.
  std::vector<double> response_of(std::size_t index, const std::vector<double>& exact) {
    constexpr double kStep = 0x1p-20;
    std::vector<double> response = moves_of(
        index, exact, kStep,
        [](const WholeValue& operand, int toss) { return scaled_at_random(operand, kStep, toss); });
    // If a pending sum has left its dtype already, the terms on ranks decide which infinity it is.
    const double beyond = summed_ ? 2 * largest_of(results_.by_slot[index].front().dtype()) : 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double size = std::isfinite(exact[i]) ? std::fabs(exact[i]) : beyond;
      response[i] = size + 4 * response[i];
    }
    return response;
  }

  // Likewise, when operands change by their own rounding: pending sums by that of their terms, and
  // if a program rounds after each of its ops, all by that of subnormal numbers.
  std::vector<double> moved_of(std::size_t index, const std::vector<double>& exact) {
    const double least =
        row_.computed_by_program() ? least_rounding(results_.by_slot[index].front().dtype()) : 0;
    return moves_of(index, exact, 1, [least](const WholeValue& operand, int toss) {
      return moved_by_rounding(operand, least, toss);
    });
  }

  // The root mean square of the result's change, in units of `step`, when operands of floats are
  // changed by samples of coins.
  template <class Change>
  std::vector<double> moves_of(std::size_t index, const std::vector<double>& exact, double step,
                               const Change& change) {
    using rounding::kSamples;
    std::vector<double> squares(exact.size(), 0);
    for (int sample = 0; sample < kSamples; ++sample) {
      const std::vector<Tensor> operands = changed([&](const WholeValue& operand, std::size_t i) {
        return change(operand, coin(sample, i));
      });
      const auto other =
          read_doubles(evaluate(step_.first(), operands, EvaluateIn::kWide).at(index));
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const double moved = (other[i] - exact[i]) / step;
        if (std::isfinite(moved)) squares[i] += moved * moved;
      }
    }
    for (double& square : squares) square = std::sqrt(square / kSamples);
    return squares;
  }

  const Step& step_;
  const OpRow& row_;
  Slots results_;
  std::vector<WholeValue> operands_;       // by tensor slot
  std::vector<const DTensorSpec*> specs_;  // of the existing ones
  double coarsest_ = 0;                    // roundoff among the operands
  bool summed_ = false;                    // an operand is a pending reduction of floats
  std::vector<Tensor> own_, wide_, absolute_;
};

std::string operands_text(const Step& step) {
  std::string text;
  for_each_tensor(step.first().args, [&](const DTensor& tensor) {
    if (!tensor.defined()) return;
    if (!text.empty()) text += ", ";
    text += type_string(tensor);
  });
  return text;
}

}  // namespace

StepFinding skipped(std::string reason) {
  StepFinding finding;
  finding.kind = StepFinding::Kind::kSkipped;
  finding.reason = std::move(reason);
  return finding;
}

StepFinding wrong(WrongStep found) {
  StepFinding finding;
  finding.kind = StepFinding::Kind::kWrong;
  finding.wrong = std::move(found);
  return finding;
}

WrongStep unequal(const std::string& fault) {
  WrongStep found;
  found.what = fault;
  found.unequal_replicas = true;
  return found;
}

StepPlace place_of(const Step& step) {
  const StepPart& part = step.first();
  StepPlace place;
  place.position = part.position;
  place.pass = part.pass;
  place.order = part.order;
  place.op = part.kind == PartKind::kOp ? part.row->name() : move_name(part);
  place.operands = operands_text(step);
  return place;
}

StepFinding judge_step(const Step& step, Device& device, Propagator& propagator) {
  const JudgeScope scope(device, propagator);
  try {
    if (step.first().kind != PartKind::kOp) return judge_move(step);
    return OpJudge(step).run();
  } catch (const Error& error) {
    return skipped(error.summary());
  }
}

}  // namespace shardlab
