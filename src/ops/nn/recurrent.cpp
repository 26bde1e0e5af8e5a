// Recurrent layers: one cell after the other over the steps of a sequence, forward and, if
// bidirectional, backward as well; layers on top of each other. Sequences are padded, or packed:
// the steps of all one after the other, fewer sequences at each step.
#include <algorithm>

#include "ops/family.h"

namespace shardlab {
namespace {

/// The state from step to step: one value, two of an LSTM.
using State = std::vector<DTensor>;

/// Weights of one direction of one layer.
struct CellWeights {
  DTensor input, hidden;
  Argument input_bias, hidden_bias, projection;
};

Expression layer_of(Calls& calls, const DTensor& x, const DTensor& weight, const Argument& bias) {
  return {calls, calls.one("aten::linear", {x, weight, bias})};
}

std::vector<Expression> gates(Calls& calls, const Expression& x, std::int64_t count) {
  const Results chunks = calls("aten::chunk", {x, count, 1});
  std::vector<Expression> parts;
  for (const Argument& part : chunks[0].list()) parts.emplace_back(calls, part.tensor());
  if (static_cast<std::int64_t>(parts.size()) != count) {
    fail(Fix{fmt::format("give weights of {} times as many rows as the state "
                         "has numbers",
                         count)},
         "a recurrent layer: there are {} rows of weights; there must be as many for each of {} "
         "gates",
         x.value().shape()[1], count);
  }
  return parts;
}

using Cell = State (*)(Calls&, const DTensor& x, const State&, const CellWeights&);

template <FixedText activation>
State simple_cell(Calls& calls, const DTensor& x, const State& state, const CellWeights& weights) {
  const Expression sum = layer_of(calls, x, weights.input, weights.input_bias)
                             .plus(layer_of(calls, state[0], weights.hidden, weights.hidden_bias));
  return {sum.of(activation)};
}

State lstm_cell(Calls& calls, const DTensor& x, const State& state, const CellWeights& weights) {
  const Expression sum = layer_of(calls, state[0], weights.hidden, weights.hidden_bias)
                             .plus(layer_of(calls, x, weights.input, weights.input_bias));
  const std::vector<Expression> gate = gates(calls, sum, 4);
  const auto open = [&](std::size_t i) { return gate[i].of("aten::sigmoid"); };
  const Expression kept = open(1).times({calls, state[1]});
  const Expression cell = kept + open(0).times(gate[2].of("aten::tanh"));
  Expression hidden = open(3).times(cell.of("aten::tanh"));
  if (weights.projection.is_tensor()) {
    hidden = layer_of(calls, hidden, weights.projection.tensor(), Argument());
  }
  return {hidden, cell};
}

State gru_cell(Calls& calls, const DTensor& x, const State& state, const CellWeights& weights) {
  const std::vector<Expression> in =
      gates(calls, layer_of(calls, x, weights.input, weights.input_bias), 3);
  const std::vector<Expression> kept =
      gates(calls, layer_of(calls, state[0], weights.hidden, weights.hidden_bias), 3);
  const Expression reset = (kept[0] + in[0]).of("aten::sigmoid");
  const Expression share = (kept[1] + in[1]).of("aten::sigmoid");
  const Expression next = (in[2] + kept[2] * reset).of("aten::tanh");
  return {(Expression(calls, state[0]) - next) * share + next};
}

DTensor rows(Calls& calls, const DTensor& x, std::int64_t from, std::int64_t to) {
  return calls.one("aten::slice.Tensor", {x, 0, from, to});
}

DTensor joined_rows(Calls& calls, const DTensor& above, const DTensor& below) {
  ArgumentList both{above, below};
  return calls.one("aten::cat", {both, 0});
}

/// The steps of a sequence, and the number of sequences that have each: fewer and fewer.
struct Steps {
  std::vector<DTensor> inputs;
  Dims sizes;
};
struct Run {
  std::vector<DTensor> outputs;  ///< by step
  State last;
};

/// Sequences that end leave their state behind.
Run forward(Calls& calls, Cell cell, const Steps& steps, State state, const CellWeights& weights) {
  Run run;
  std::vector<State> ended;
  for (std::size_t t = 0; t < steps.inputs.size(); ++t) {
    const std::int64_t size = steps.sizes[t], before = t == 0 ? size : steps.sizes[t - 1];
    if (size < before) {
      State left;
      for (DTensor& value : state) {
        left.push_back(rows(calls, value, size, before));
        value = rows(calls, value, 0, size);
      }
      ended.push_back(std::move(left));
    }
    state = cell(calls, steps.inputs[t], state, weights);
    run.outputs.push_back(state[0]);
  }
  for (std::size_t i = ended.size(); i-- > 0;) {
    for (std::size_t k = 0; k < state.size(); ++k) {
      state[k] = joined_rows(calls, state[k], ended[i][k]);
    }
  }
  run.last = std::move(state);
  return run;
}

/// From the last step on: sequences join where they end.
Run backward(Calls& calls, Cell cell, const Steps& steps, const State& initial,
             const CellWeights& weights) {
  Run run;
  run.outputs.resize(steps.inputs.size());
  State state;
  for (std::size_t t = steps.inputs.size(); t-- > 0;) {
    const std::int64_t size = steps.sizes[t];
    const bool first = t + 1 == steps.inputs.size();  // of no sequence at all, too
    const std::int64_t before = first ? 0 : steps.sizes[t + 1];
    for (std::size_t k = 0; (first || size > before) && k < initial.size(); ++k) {
      const bool all = first && size == initial[k].shape()[0];
      const DTensor joining = all ? initial[k] : rows(calls, initial[k], before, size);
      if (first) {
        state.push_back(joining);
      } else {
        state[k] = joined_rows(calls, state[k], joining);
      }
    }
    state = cell(calls, steps.inputs[t], state, weights);
    run.outputs[t] = state[0];
  }
  run.last = std::move(state);
  return run;
}

/// The structure of a network, independent of its input.
struct Network {
  std::vector<CellWeights> weights;  ///< by layer, and by direction within it
  std::int64_t layers;
  double dropout;
  bool bidirectional;
};

/// From (.., params, has_biases, num_layers, dropout, train, bidirectional, ..)
Network network_of(std::string_view op, const Arguments& args, std::size_t params, bool projects) {
  const ArgumentList& list = args[params].list();
  const bool biases = args[params + 1].to_bool();
  Network network{{}, args[params + 2].to_int(), 0, args[params + 5].to_bool()};
  if (args[params + 4].to_bool()) network.dropout = args[params + 3].to_double();
  const std::size_t each = (biases ? 4 : 2) + (projects ? 1 : 0);
  const auto cells = static_cast<std::size_t>(std::max<std::int64_t>(network.layers, 0)) *
                     (network.bidirectional ? 2 : 1);
  if (cells == 0 || list.size() != cells * each) {
    fail(Fix{fmt::format("give {} tensors for each layer and direction", each)},
         "{}: there are {} parameters; they must be those of {} layers", op, list.size(),
         network.layers);
  }
  for (std::size_t i = 0; i < list.size(); i += each) {
    CellWeights cell{list[i].tensor(), list[i + 1].tensor(), {}, {}, {}};
    if (biases) cell.input_bias = list[i + 2];
    if (biases) cell.hidden_bias = list[i + 3];
    if (projects) cell.projection = list[i + each - 1];
    network.weights.push_back(std::move(cell));
  }
  return network;
}

/// The outputs of the last layer by step, and the last states, each by layer and direction.
struct Outcome {
  std::vector<DTensor> outputs;
  std::vector<State> last;
};

Outcome run_network(Calls& calls, Cell cell, const Network& network, Steps steps,
                    const std::vector<State>& initial) {
  Outcome outcome;
  const std::size_t directions = network.bidirectional ? 2 : 1;
  for (std::size_t layer = 0; layer < network.weights.size() / directions; ++layer) {
    const std::size_t first = layer * directions;
    Run run = forward(calls, cell, steps, initial[first], network.weights[first]);
    outcome.last.push_back(run.last);
    if (network.bidirectional) {
      const Run back = backward(calls, cell, steps, initial[first + 1], network.weights[first + 1]);
      outcome.last.push_back(back.last);
      for (std::size_t t = 0; t < run.outputs.size(); ++t) {
        ArgumentList both{run.outputs[t], back.outputs[t]};
        run.outputs[t] = calls.one("aten::cat", {both, -1});
      }
    }
    steps.inputs = run.outputs;
    const bool top = first + directions == network.weights.size();
    if (top || network.dropout == 0) continue;
    for (DTensor& x : steps.inputs) x = calls.one("aten::dropout", {x, network.dropout, true});
  }
  outcome.outputs = std::move(steps.inputs);
  return outcome;
}

ArgumentList as_list(const std::vector<DTensor>& tensors) {
  return ArgumentList(tensors.begin(), tensors.end());
}

/// Initial states [layers and directions, sequences, width], one tensor or, of an LSTM, two.
std::vector<State> initial_states(Calls& calls, std::string_view op, const Argument& hx,
                                  std::size_t cells, std::int64_t sequences) {
  const ArgumentList whole = hx.is_list() ? hx.list() : ArgumentList{hx};
  std::vector<State> states(cells);
  for (const Argument& x : whole) {
    const Dims& shape = x.tensor().shape();
    if (shape.size() != 3 || shape[0] != static_cast<std::int64_t>(cells) || shape[1] < sequences) {
      fail(Fix{fmt::format("give [{}, {}, width]", cells, sequences)},
           "{}: the initial state does not have one row for each of {} cells and {} sequences", op,
           cells, sequences);
    }
    for (std::size_t i = 0; i < cells; ++i) {
      const DTensor one = calls.one("aten::select.int", {x, 0, static_cast<std::int64_t>(i)});
      states[i].push_back(shape[1] == sequences ? one : rows(calls, one, 0, sequences));
    }
  }
  return states;
}

Results results_of(Calls& calls, const Outcome& outcome, DTensor output) {
  Results results{Argument(std::move(output))};
  for (std::size_t k = 0; k < outcome.last[0].size(); ++k) {
    ArgumentList values;
    for (const State& state : outcome.last) values.emplace_back(state[k]);
    results.emplace_back(calls.one("aten::stack", {values, 0}));
  }
  return results;
}

[[noreturn]] void refuse_input(std::string_view op, std::string_view what) {
  fail(Fix{"give [steps, sequences, width] with at least one step"}, "{}: {}", op, what);
}

bool projects(const Argument& hx) {
  if (!hx.is_list() || hx.list().size() != 2) return false;
  const DTensor &hidden = hx.list()[0].tensor(), &cell = hx.list()[1].tensor();
  if (hidden.ndim() == 0 || cell.ndim() == 0) {
    fail(Fix{"give states [layers, sequences, width]"},
         "a recurrent layer: the states have {} and {} dims; both must have 3", hidden.ndim(),
         cell.ndim());
  }
  return hidden.shape().back() != cell.shape().back();
}

void check_states(std::string_view op, const Argument& hx) {
  if (!hx.is_list() || hx.list().size() == 2) return;
  fail(Fix{"give the hidden and the cell state: (h, c)"},
       "{}: {} initial states are given, must be 2", op, hx.list().size());
}

/// (input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
template <Cell cell>
Results padded(Calls& calls, const Arguments& args) {
  constexpr std::string_view kName = "a recurrent layer";
  DTensor input = args[0].tensor();
  if (input.ndim() != 3) refuse_input(kName, "the input does not have 3 dims");
  const bool batch_first = args[8].to_bool();
  if (batch_first) input = calls.one("aten::transpose.int", {input, 0, 1});
  if (input.shape()[0] == 0) refuse_input(kName, "the sequence has no steps");
  check_states(kName, args[1]);
  const Network network = network_of(kName, args, 2, projects(args[1]));
  const std::int64_t sequences = input.shape()[1];
  Steps steps;
  for (std::int64_t t = 0; t < input.shape()[0]; ++t) {
    steps.inputs.push_back(calls.one("aten::select.int", {input, 0, t}));
    steps.sizes.push_back(sequences);
  }
  const std::vector<State> initial =
      initial_states(calls, kName, args[1], network.weights.size(), sequences);
  const Outcome outcome = run_network(calls, cell, network, std::move(steps), initial);
  DTensor output = calls.one("aten::stack", {as_list(outcome.outputs), 0});
  if (batch_first) output = calls.one("aten::transpose.int", {output, 0, 1});
  return results_of(calls, outcome, std::move(output));
}

/// (data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)
template <Cell cell>
Results packed(Calls& calls, const Arguments& args) {
  constexpr std::string_view kName = "a recurrent layer";
  const DTensor &data = args[0].tensor(), &sizes = args[1].tensor();
  if (data.ndim() != 2 || sizes.ndim() != 1 || sizes.numel() == 0) {
    refuse_input(kName, "packed sequences are data of 2 dims and a size for each step");
  }
  check_states(kName, args[2]);
  const Network network = network_of(kName, args, 3, projects(args[2]));
  Steps steps;
  std::int64_t next = 0;
  for (std::int64_t t = 0; t < sizes.numel(); ++t) {
    const DTensor one = calls.one("aten::select.int", {sizes, 0, t});
    const std::int64_t size = calls("aten::_local_scalar_dense", {one})[0].to_int();
    const bool fewer = size > 0 && (t == 0 || size <= steps.sizes.back());
    if (!fewer || next + size > data.shape()[0]) {
      refuse_input(kName, "batch_sizes must not grow, and add up to the rows of data");
    }
    steps.inputs.push_back(rows(calls, data, next, next + size));
    steps.sizes.push_back(size);
    next += size;
  }
  const std::vector<State> initial =
      initial_states(calls, kName, args[2], network.weights.size(), steps.sizes[0]);
  const Outcome outcome = run_network(calls, cell, network, std::move(steps), initial);
  DTensor output = calls.one("aten::cat", {as_list(outcome.outputs), 0});
  return results_of(calls, outcome, std::move(output));
}

// One step: (input, hx, w_ih, w_hh, b_ih, b_hh), where the state of an LSTM is a list of two.

template <Cell cell>
Results one_step(Calls& calls, const Arguments& args) {
  State state;
  if (args[1].is_list()) {
    for (const Argument& value : args[1].list()) state.push_back(value.tensor());
    if (state.size() != 2) {
      refuse_input("lstm_cell", "its state hx is a list of two tensors, (h, c)");
    }
  } else {
    state.push_back(args[1].tensor());
  }
  const DTensor& x = args[0].tensor();
  for (const DTensor& value : state) {
    if (x.ndim() == 2 && value.ndim() == 2 && x.shape()[0] == value.shape()[0]) continue;
    fail(Fix{"give both as [batch, features]: x.unsqueeze(0)"},
         "a recurrent cell: the input is [{}] and a state [{}]; both must have as many rows",
         text_of_list(x.shape(), ", "), text_of_list(value.shape(), ", "));
  }
  const CellWeights weights{args[2].tensor(), args[3].tensor(), args[4], args[5], Argument()};
  Results next;
  for (const DTensor& value : cell(calls, x, state, weights)) next.emplace_back(value);
  return next;
}

constexpr const char* kCells = "cell after cell";
constexpr const char* kOneCell = "linear and pointwise";

// Sorted by name.
// clang-format off
constexpr Row kRecurrentRows[] = {
    composite("gru.data"_op, packed<gru_cell>, kCells),
    composite("gru.input"_op, padded<gru_cell>, kCells),
    composite("gru_cell"_op, one_step<gru_cell>, kOneCell),
    composite("lstm.data"_op, packed<lstm_cell>, kCells),
    composite("lstm.input"_op, padded<lstm_cell>, kCells),
    composite("lstm_cell"_op, one_step<lstm_cell>, kOneCell),
    composite("rnn_relu.data"_op, packed<simple_cell<"aten::relu">>, kCells),
    composite("rnn_relu.input"_op, padded<simple_cell<"aten::relu">>, kCells),
    composite("rnn_relu_cell"_op, one_step<simple_cell<"aten::relu">>, kOneCell),
    composite("rnn_tanh.data"_op, packed<simple_cell<"aten::tanh">>, kCells),
    composite("rnn_tanh.input"_op, padded<simple_cell<"aten::tanh">>, kCells),
    composite("rnn_tanh_cell"_op, one_step<simple_cell<"aten::tanh">>, kOneCell),
};
// clang-format on

}  // namespace

void register_recurrent(OpRegistry& registry) { add_rows(registry, kRecurrentRows); }

}  // namespace shardlab
