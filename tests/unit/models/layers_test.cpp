// Layers that reduce over a dim that may be cut: norms, attention, losses over classes. Forward and
// backward are worked out by loops over whole arrays.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/placed_at_random.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// Each row less its mean, over the root of its variance plus eps; `deviation` is that root.
struct Normed {
  Plain rows;
  std::vector<double> deviation;
};

Normed normed_rows(const Plain& x, double eps, bool centred) {
  Normed out{x, {}};
  const std::int64_t width = x.shape[1];
  for (std::int64_t i = 0; i < x.shape[0]; ++i) {
    double mean = 0, square = 0;
    for (std::int64_t j = 0; j < width && centred; ++j)
      mean += x.at(i, j) / static_cast<double>(width);
    for (std::int64_t j = 0; j < width; ++j) {
      square += (x.at(i, j) - mean) * (x.at(i, j) - mean) / static_cast<double>(width);
    }
    out.deviation.push_back(std::sqrt(square + eps));
    for (std::int64_t j = 0; j < width; ++j) {
      out.rows.at(i, j) = (x.at(i, j) - mean) / out.deviation.back();
    }
  }
  return out;
}

// The gradient before the rows were normed.
Plain normed_back(const Normed& normed, const Plain& flow, bool centred) {
  Plain out = flow;
  const auto width = static_cast<double>(flow.shape[1]);
  for (std::int64_t i = 0; i < flow.shape[0]; ++i) {
    double mean = 0, along = 0;
    for (std::int64_t j = 0; j < flow.shape[1]; ++j) {
      if (centred) mean += flow.at(i, j) / width;
      along += flow.at(i, j) * normed.rows.at(i, j) / width;
    }
    for (std::int64_t j = 0; j < flow.shape[1]; ++j) {
      out.at(i, j) = (flow.at(i, j) - mean - normed.rows.at(i, j) * along) /
                     normed.deviation[static_cast<std::size_t>(i)];
    }
  }
  return out;
}

Plain columns_times(Plain a, const Plain& by) {
  for (std::int64_t i = 0; i < a.shape[0]; ++i) {
    for (std::int64_t j = 0; j < a.shape[1]; ++j) a.at(i, j) *= by.at(j);
  }
  return a;
}

constexpr double kNormEps = 1e-3;

// A norm over rows of five, a weight (and a bias), and a sum with given factors.
Model norm_model(bool centred) {
  Model model;
  const Plain x = numbers({4, 5}, 1), weight = numbers({5}, 2), bias = numbers({5}, 3),
              factors = numbers({4, 5}, 4);
  model.leaves = {{"x", x}, {"weight", weight}, {"factors", factors}};
  if (centred) model.leaves["bias"] = bias;
  const Normed normed = normed_rows(x, kNormEps, centred);
  Plain y = columns_times(normed.rows, weight);
  if (centred) y = with_bias(y, bias);
  model.worked.loss = total(zip(y, factors, std::multiplies<>()));
  model.worked.gradients = {{"x", normed_back(normed, columns_times(factors, weight), centred)},
                            {"weight", column_sums(zip(factors, normed.rows, std::multiplies<>()))},
                            {"factors", y}};
  if (centred) model.worked.gradients["bias"] = column_sums(factors);
  model.program = [centred](const Placed& at, Places& places) {
    const DTensor x = places.moved(at.at("x"));
    const DTensor y = centred ? layer_norm(x, {5}, {at.at("weight"), at.at("bias"), kNormEps})
                              : rms_norm(x, {5}, {.weight = at.at("weight"), .eps = kNormEps});
    return sum(places.moved(y) * at.at("factors"));
  };
  return model;
}

// Columns normed over the batch, written out of its parts as a user may.
Model batch_model() {
  constexpr double kEps = 1e-2;
  Model model;
  const Plain x = numbers({6, 3}, 11), factors = numbers({6, 3}, 12);
  model.leaves = {{"x", x}};
  const Normed normed = normed_rows(transposed(x), kEps, true);
  model.worked.loss = total(zip(transposed(normed.rows), factors, std::multiplies<>()));
  model.worked.gradients = {{"x", transposed(normed_back(normed, transposed(factors), true))}};
  model.program = [factors](const Placed& at, Places& places) {
    const DTensor x = places.moved(at.at("x"));
    const DTensor centred = x - mean(x, 0, KeepDim::kYes);
    const DTensor spread = var(x, {0}, {.correction = 0, .keep = KeepDim::kYes});
    const DTensor y = places.moved(centred * rsqrt(places.moved(spread) + kEps));
    return sum(y * places.place(factors));
  };
  return model;
}

constexpr std::int64_t kLength = 5, kWidth = 2;

Plain attention_mask(bool causal) {
  Plain mask = zeros_of({kLength, kLength});
  for (std::int64_t i = 0; i < kLength; ++i) {
    for (std::int64_t j = i + 1; j < kLength && causal; ++j) mask.at(i, j) = -1e30;
  }
  return mask;
}

Plain head_of(const Plain& x, std::int64_t batch, std::int64_t head) {
  Plain own = zeros_of({kLength, kWidth});
  for (std::int64_t i = 0; i < kLength; ++i) {
    for (std::int64_t j = 0; j < kWidth; ++j) own.at(i, j) = x.at(batch, head, i, j);
  }
  return own;
}

void set_head(Plain& x, std::int64_t batch, std::int64_t head, const Plain& own) {
  for (std::int64_t i = 0; i < kLength; ++i) {
    for (std::int64_t j = 0; j < kWidth; ++j) x.at(batch, head, i, j) = own.at(i, j);
  }
}

constexpr double kAttentionScale = 0.6;

// softmax(q k^T scale) v, head by head, against given factors.
Model attention_model(bool causal) {
  constexpr std::int64_t kBatches = 2, kHeads = 3;
  Model model;
  const Dims shape{kBatches, kHeads, kLength, kWidth};
  const Plain q = numbers(shape, 21), k = numbers(shape, 22), v = numbers(shape, 23),
              factors = numbers(shape, 24);
  model.leaves = {{"q", q}, {"k", k}, {"v", v}, {"factors", factors}};
  Plain of_q = zeros_of(shape), of_k = of_q, of_v = of_q, out = of_q;
  const auto times = [&](const Plain& a) {
    return map(a, [](double x) { return x * kAttentionScale; });
  };
  for (std::int64_t batch = 0; batch < kBatches; ++batch) {
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const Plain query = head_of(q, batch, head), key = head_of(k, batch, head),
                  value = head_of(v, batch, head), flow = head_of(factors, batch, head);
      const Plain p =
          softmax_rows(zip(times(product_bt(query, key)), attention_mask(causal), std::plus<>()));
      const Plain before = times(softmax_back(p, product_bt(flow, value)));
      set_head(out, batch, head, product_of(p, value));
      set_head(of_v, batch, head, product_at(p, flow));
      set_head(of_q, batch, head, product_of(before, key));
      set_head(of_k, batch, head, product_at(before, query));
    }
  }
  model.worked.loss = total(zip(out, factors, std::multiplies<>()));
  model.worked.gradients = {{"q", of_q}, {"k", of_k}, {"v", of_v}, {"factors", out}};
  model.program = [causal](const Placed& at, Places& places) {
    const DTensor y = scaled_dot_product_attention(places.moved(at.at("q")), at.at("k"), at.at("v"),
                                                   {.causal = causal, .scale = kAttentionScale});
    return sum(places.moved(y) * at.at("factors"));
  };
  return model;
}

// Logits of tokens from a table, and from it again (tied weights); one target is left out.
Model language_model(double smoothing) {
  constexpr std::int64_t kWords = 7, kTokens = 6, kIgnored = -100;
  Model model;
  const Plain table = numbers({kWords, 4}, 31);
  const Plain tokens{{kTokens}, {3, 0, 6, 3, 5, 1}}, targets{{kTokens}, {0, 6, kIgnored, 5, 1, 1}};
  model.leaves = {{"table", table}};
  model.integers = {{"tokens", tokens}, {"targets", targets}};
  const auto word = [](double token) { return static_cast<std::int64_t>(token); };
  Plain h = zeros_of({kTokens, 4});
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t j = 0; j < 4; ++j) h.at(t, j) = std::tanh(table.at(word(tokens.at(t)), j));
  }
  const Plain p = softmax_rows(product_bt(h, table));
  const double counted = kTokens - 1;
  Plain flow = zeros_of(p.shape);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    if (targets.at(t) == kIgnored) continue;
    for (std::int64_t w = 0; w < kWords; ++w) {
      const double wanted = (w == word(targets.at(t)) ? 1 - smoothing : 0) + smoothing / kWords;
      model.worked.loss -= wanted * std::log(p.at(t, w)) / counted;
      flow.at(t, w) = (p.at(t, w) - wanted) / counted;
    }
  }
  Plain of_table = product_at(flow, h);
  const Plain of_h = product_of(flow, table);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    for (std::int64_t j = 0; j < 4; ++j) {
      of_table.at(word(tokens.at(t)), j) += of_h.at(t, j) * (1 - h.at(t, j) * h.at(t, j));
    }
  }
  model.worked.gradients = {{"table", of_table}};
  model.program = [smoothing](const Placed& at, Places& places) {
    const DTensor h = tanh(places.moved(embedding(at.at("tokens"), at.at("table"))));
    const DTensor logits = places.moved(linear(places.moved(h), at.at("table")));
    return cross_entropy(logits, at.at("targets"),
                         {.ignore_index = kIgnored, .label_smoothing = smoothing});
  };
  return model;
}

}  // namespace

TEST_CASE("layer_norm has the loops' value and gradients, its dim cut or not") {
  check_model(norm_model(true));
}

TEST_CASE("rms_norm has the loops' value and gradients, its dim cut or not") {
  check_model(norm_model(false));
}

TEST_CASE("columns that are normed over a cut batch have the loops' gradients") {
  check_model(batch_model());
}

TEST_CASE("attention has the loops' value and gradients, cut by batch, head, length or width") {
  check_model(attention_model(false));
}

TEST_CASE("causal attention looks back only, on whatever rank a position lies") {
  check_model(attention_model(true));
}

TEST_CASE("a table that embeds and predicts has both gradients, its rows or columns cut") {
  check_model(language_model(0));
}

TEST_CASE("smoothed labels spread over classes that lie on several ranks") {
  check_model(language_model(0.25));
}
