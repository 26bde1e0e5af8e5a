// Gradients of drawn programs against central differences. A program is a list of steps on
// matrices: products, sums, tanh, rows and transposes as views, writes through them. The second
// reading of a step is a loop over numbers in shared arrays, which knows no tape: it gives the
// value at shifted inputs, and so the differences.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <random>

#include "api/shardlab.h"
#include "sim/world/spmd.h"

namespace shardlab {
namespace {

using Numbers = std::vector<double>;

enum class StepOf : std::uint8_t { kMul, kAdd, kTanh, kRows, kTurn, kScaleInPlace, kAddInPlace };

/// Operands are numbers of values; the inputs are 0 and 1.
struct Step {
  StepOf kind;
  std::size_t a, b;
  std::int64_t from, to;
  double factor;
};

/// A matrix that is a view of an array.
struct Matrix {
  std::shared_ptr<Numbers> data;
  std::vector<std::size_t> places;  ///< row-major
  std::int64_t rows, columns;

  double& at(std::size_t i) const { return (*data)[places[i]]; }
};

Matrix fresh(const Matrix& like) {
  Matrix made{std::make_shared<Numbers>(like.places.size()), {}, like.rows, like.columns};
  for (std::size_t i = 0; i < like.places.size(); ++i) made.places.push_back(i);
  return made;
}

Matrix stepped_by_hand(const Step& step, const std::vector<Matrix>& values) {
  const Matrix& a = values[step.a];
  const Matrix& b = values[step.b];
  switch (step.kind) {
    case StepOf::kMul:
    case StepOf::kAdd:
    case StepOf::kTanh: {
      Matrix made = fresh(a);
      for (std::size_t i = 0; i < a.places.size(); ++i) {
        made.at(i) = step.kind == StepOf::kMul   ? a.at(i) * b.at(i)
                     : step.kind == StepOf::kAdd ? a.at(i) + step.factor * b.at(i)
                                                 : std::tanh(a.at(i));
      }
      return made;
    }
    case StepOf::kRows: {
      Matrix view{a.data, {}, step.to - step.from, a.columns};
      view.places.assign(a.places.begin() + step.from * a.columns,
                         a.places.begin() + step.to * a.columns);
      return view;
    }
    case StepOf::kTurn: {
      Matrix view{a.data, {}, a.columns, a.rows};
      for (std::int64_t column = 0; column < a.columns; ++column) {
        for (std::int64_t row = 0; row < a.rows; ++row) {
          view.places.push_back(a.places[static_cast<std::size_t>(row * a.columns + column)]);
        }
      }
      return view;
    }
    case StepOf::kScaleInPlace:
      for (std::size_t i = 0; i < a.places.size(); ++i) a.at(i) *= step.factor;
      return a;
    case StepOf::kAddInPlace: {
      Numbers added;
      for (std::size_t i = 0; i < b.places.size(); ++i) added.push_back(b.at(i));
      for (std::size_t i = 0; i < a.places.size(); ++i) a.at(i) += added[i];
      return a;
    }
  }
  return a;
}

/// Operands that a gradient reads are cloned, so that later steps may write to operands and
/// results.
DTensor stepped(const Step& step, const std::vector<DTensor>& values) {
  const DTensor &a = values[step.a], &b = values[step.b];
  switch (step.kind) {
    case StepOf::kMul:
      return clone(a) * clone(b);
    case StepOf::kAdd:
      return a + b * step.factor;
    case StepOf::kTanh:
      return clone(tanh(a));
    case StepOf::kRows:
      return slice(a, 0, {.start = step.from, .end = step.to});
    case StepOf::kTurn:
      return transpose(a, 0, 1);
    case StepOf::kScaleInPlace:
      return mul_(a, step.factor);
    case StepOf::kAddInPlace:
      return add_(a, clone(b));
  }
  return a;
}

/// Draws steps; shapes are followed by the reading by hand.
class ProgramDrawer {
 public:
  ProgramDrawer(std::uint32_t seed, const std::vector<Matrix>& inputs)
      : random_(seed), values_(inputs) {}

  std::vector<Step> draw(int count) {
    std::vector<Step> steps;
    while (static_cast<int>(steps.size()) < count) {
      Step step{static_cast<StepOf>(below(7)),
                static_cast<std::size_t>(below(size())),
                static_cast<std::size_t>(below(size())),
                0,
                0,
                0.5 + static_cast<double>(below(3)) / 2};
      if (!fits(step)) continue;
      steps.push_back(step);
      values_.push_back(stepped_by_hand(step, values_));
    }
    return steps;
  }

 private:
  std::int64_t below(std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random_);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }

  bool fits(Step& step) {
    const Matrix &a = values_[step.a], &b = values_[step.b];
    const bool writes = step.kind == StepOf::kScaleInPlace || step.kind == StepOf::kAddInPlace;
    // Leaves are not written to while they are recorded, nor are their views.
    if (writes && (a.data == values_[0].data || a.data == values_[1].data)) return false;
    if (step.kind == StepOf::kRows) {
      if (a.rows < 2) return false;
      step.from = below(a.rows - 1);
      step.to = step.from + 1 + below(a.rows - step.from);
      return true;
    }
    const bool one = step.kind == StepOf::kTanh || step.kind == StepOf::kTurn ||
                     step.kind == StepOf::kScaleInPlace;
    return one || (a.rows == b.rows && a.columns == b.columns);
  }

  std::mt19937 random_;
  std::vector<Matrix> values_;
};

constexpr std::int64_t kRows = 3, kColumns = 3;

std::vector<Matrix> inputs_of(const Numbers& numbers) {
  std::vector<Matrix> inputs;
  for (int which = 0; which < 2; ++which) {
    Matrix input{
        std::make_shared<Numbers>(numbers.begin() + which * 9, numbers.begin() + (which + 1) * 9),
        {},
        kRows,
        kColumns};
    for (std::size_t i = 0; i < 9; ++i) input.places.push_back(i);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// The sum of all values that the steps made, squared.
double loss_by_hand(const std::vector<Step>& steps, const Numbers& numbers) {
  std::vector<Matrix> values = inputs_of(numbers);
  for (const Step& step : steps) values.push_back(stepped_by_hand(step, values));
  double loss = 0;
  for (std::size_t i = 2; i < values.size(); ++i) {
    for (std::size_t k = 0; k < values[i].places.size(); ++k) {
      loss += values[i].at(k) * values[i].at(k) / 2;
    }
  }
  return loss;
}

Numbers differences(const std::vector<Step>& steps, Numbers numbers) {
  constexpr double kShift = 1e-5;
  Numbers slopes;
  for (double& number : numbers) {
    const double kept = number;
    number = kept + kShift;
    const double above = loss_by_hand(steps, numbers);
    number = kept - kShift;
    slopes.push_back((above - loss_by_hand(steps, numbers)) / (2 * kShift));
    number = kept;
  }
  return slopes;
}

/// Loss, then the gradients of both inputs.
Numbers on_tape_of(const std::vector<Step>& steps, const Numbers& numbers, const MeshLayout* mesh,
                   std::string_view placed) {
  std::vector<DTensor> values;
  for (int which = 0; which < 2; ++which) {
    const Numbers own(numbers.begin() + which * 9, numbers.begin() + (which + 1) * 9);
    const DTensor plain = tensor(own, {kRows, kColumns}, DType::kF64);
    values.push_back(mesh == nullptr ? plain : distribute_tensor(plain, mesh, placed));
    require_grad(values.back());
  }
  for (const Step& step : steps) values.push_back(stepped(step, values));
  DTensor loss;
  for (std::size_t i = 2; i < values.size(); ++i) {
    const DTensor one = sum(values[i] * values[i]) / 2.0;
    loss = loss.defined() ? loss + one : one;
  }
  backward(loss);
  Numbers all{read_doubles(full_tensor(loss).local())[0]};
  for (int which = 0; which < 2; ++which) {
    const DTensor gradient = grad_of(values[static_cast<std::size_t>(which)]);
    const Numbers one =
        gradient.defined() ? read_doubles(full_tensor(gradient).local()) : Numbers(9, 0);
    all.insert(all.end(), one.begin(), one.end());
  }
  return all;
}

void check_program(std::uint32_t seed, std::int64_t ranks, const char* placed) {
  Numbers numbers;
  std::mt19937 random(seed);
  for (int i = 0; i < 18; ++i) {
    numbers.push_back(std::uniform_real_distribution<double>(-1, 1)(random));
  }
  const std::vector<Step> steps = ProgramDrawer(seed, inputs_of(numbers)).draw(7);
  Numbers expected{loss_by_hand(steps, numbers)};
  const Numbers slopes = differences(steps, numbers);
  expected.insert(expected.end(), slopes.begin(), slopes.end());
  spmd(ranks, [&](RankContext&) {
    const MeshLayout* mesh = ranks == 1 ? nullptr : init_mesh({{"x", ranks}});
    const Numbers got = on_tape_of(steps, numbers, mesh, placed);
    for (std::size_t i = 0; i < got.size(); ++i) {
      CAPTURE(seed);
      CAPTURE(placed);
      CAPTURE(i);
      CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-6).scale(1));
    }
  });
}

}  // namespace

TEST_CASE("gradients of drawn programs with views and writes are central differences") {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) check_program(seed, 1, "");
}

TEST_CASE("gradients of drawn programs on pieces are central differences, rows and columns cut") {
  for (std::uint32_t seed = 101; seed <= 112; ++seed) {
    check_program(seed, 2, "x=R");
    check_program(seed, 2, "x=S(0)");
    check_program(seed, 4, "x=S(1)");
  }
}

}  // namespace shardlab
