// Recurrent layers by their equations: gates in PyTorch's order, layers on top of each other, and a
// second direction that reads the steps from the end.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr std::int64_t kSteps = 4, kBatch = 3, kIn = 2, kHidden = 2;

enum class Kind : std::uint8_t { kTanh, kRelu, kLstm, kGru };

std::int64_t gates_of(Kind kind) { return kind == Kind::kLstm ? 4 : kind == Kind::kGru ? 3 : 1; }

const char* op_of(Kind kind) {
  switch (kind) {
    case Kind::kTanh:
      return "aten::rnn_tanh.input";
    case Kind::kRelu:
      return "aten::rnn_relu.input";
    case Kind::kLstm:
      return "aten::lstm.input";
    default:
      return "aten::gru.input";
  }
}

// The state of a layer between steps, [batch, hidden].
struct Kept {
  DualArray h, c;
};

// Weights of one layer in one direction; `x` of them all, from `first` on.
struct Weights {
  const DualArray &in, &rec, &in_bias, &rec_bias;
  Dual from_input(const DualArray& x, std::int64_t row, std::int64_t gate) const {
    return in_bias(gate) +
           sum_over(x.size(1), [&](std::int64_t k) { return in(gate, k) * x(row, k); });
  }
  Dual from_kept(const DualArray& h, std::int64_t row, std::int64_t gate) const {
    return rec_bias(gate) +
           sum_over(h.size(1), [&](std::int64_t k) { return rec(gate, k) * h(row, k); });
  }
};

// One step of a cell.
Kept stepped(Kind kind, const Weights& weights, const DualArray& x, const Kept& before) {
  Kept after = before;
  for (std::int64_t row = 0; row < kBatch; ++row) {
    for (std::int64_t unit = 0; unit < kHidden; ++unit) {
      const auto input = [&](std::int64_t g) {
        return weights.from_input(x, row, g * kHidden + unit);
      };
      const auto kept = [&](std::int64_t g) {
        return weights.from_kept(before.h, row, g * kHidden + unit);
      };
      const auto both = [&](std::int64_t g) { return input(g) + kept(g); };
      if (kind == Kind::kTanh) after.h(row, unit) = tanh(both(0));
      if (kind == Kind::kRelu) after.h(row, unit) = max(both(0), 0);
      if (kind == Kind::kLstm) {
        after.c(row, unit) =
            sigmoid(both(1)) * before.c(row, unit) + sigmoid(both(0)) * tanh(both(2));
        after.h(row, unit) = sigmoid(both(3)) * tanh(after.c(row, unit));
      }
      if (kind == Kind::kGru) {
        const Dual reset = sigmoid(both(0)), update = sigmoid(both(1));
        const Dual fresh = tanh(input(2) + reset * kept(2));
        after.h(row, unit) = (1 - update) * fresh + update * before.h(row, unit);
      }
    }
  }
  return after;
}

DualArray step_of(const DualArray& x, std::int64_t step) {
  return made({x.size(1), x.size(2)}, [&](const Dims& at) { return x(step, at[0], at[1]); });
}

// All layers and directions; x[0] the input, then h (and c), then four weights for each.
DualArray unrolled(Kind kind, std::int64_t layers, std::int64_t directions, const Arrays& x) {
  const std::size_t states = kind == Kind::kLstm ? 2 : 1;
  DualArray input = x[0];
  std::size_t next = 1 + states;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    DualArray output(Dims{kSteps, kBatch, directions * kHidden});
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const Weights weights{x[next], x[next + 1], x[next + 2], x[next + 3]};
      next += 4;
      const std::int64_t own = layer * directions + direction;
      Kept kept{step_of(x[1], own), step_of(x[states], own)};
      for (std::int64_t i = 0; i < kSteps; ++i) {
        const std::int64_t step = direction == 0 ? i : kSteps - 1 - i;
        kept = stepped(kind, weights, step_of(input, step), kept);
        for (std::int64_t e = 0; e < kBatch * kHidden; ++e) {
          output(step, e / kHidden, direction * kHidden + e % kHidden) = kept.h[e];
        }
      }
    }
    input = output;
  }
  return input;
}

Definition layers_of(Kind kind, std::int64_t layers, std::int64_t directions) {
  const std::int64_t gates = gates_of(kind) * kHidden;
  std::vector<Given> given{floats({kSteps, kBatch, kIn}, 1)};
  const std::size_t states = kind == Kind::kLstm ? 2 : 1;
  for (std::size_t i = 0; i < states; ++i) {
    given.push_back(floats({layers * directions, kBatch, kHidden}, 2 + static_cast<int>(i)));
  }
  for (std::int64_t own = 0; own < layers * directions; ++own) {
    const std::int64_t width = own < directions ? kIn : directions * kHidden;
    given.push_back(floats({gates, width}, 10 + 4 * own));
    given.push_back(floats({gates, kHidden}, 11 + 4 * own));
    given.push_back(floats({gates}, 12 + 4 * own));
    given.push_back(floats({gates}, 13 + 4 * own));
  }
  return {
      op_of(kind), given,
      [=](const Tensors& x) {
        const auto first = x.begin() + 1, weights = first + static_cast<std::ptrdiff_t>(states);
        const Argument state = states == 2 ? Argument(tensors({first, weights})) : Argument(x[1]);
        return first_of(op_of(kind), {x[0], state, tensors({weights, x.end()}), true, layers, 0.0,
                                      true, directions == 2, false});
      },
      [=](const Arrays& x) { return unrolled(kind, layers, directions, x); }};
}

}  // namespace

TEST_CASE("V-18 recurrent layers are their equations, however input, state and weights lie") {
  check_definitions({layers_of(Kind::kTanh, 1, 1), layers_of(Kind::kRelu, 1, 1),
                     layers_of(Kind::kLstm, 1, 1), layers_of(Kind::kGru, 1, 1)});
}

TEST_CASE("V-18 layers on top of each other read what the ones below gave") {
  check_definitions({layers_of(Kind::kTanh, 2, 1), layers_of(Kind::kLstm, 2, 1)});
}

TEST_CASE("V-18 a second direction reads the steps from the end") {
  check_definitions({layers_of(Kind::kGru, 1, 2), layers_of(Kind::kLstm, 1, 2)});
}
