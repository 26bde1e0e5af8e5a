// Losses and distances by their definitions: per sample, then their mean or sum.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

constexpr std::int64_t kNone = 0, kMean = 1, kSum = 2;  // ATen's numbers

DualArray reduced(const DualArray& losses, std::int64_t reduction) {
  if (reduction == kNone) return losses;
  const Dual sum = sum_all(losses);
  return scalar(reduction == kSum ? sum : sum / static_cast<double>(losses.count()));
}

// A loss of two tensors, element by element.
struct Pairwise {
  const char* op;
  double from, to;  ///< of the input
  double target_from, target_to;
  Dual (*f)(const Dual& x, const Dual& y);
  Arguments more = {};  ///< after the reduction
};

const std::vector<Pairwise> kPairwise = {
    {"aten::mse_loss", -1, 1, -1, 1,
     [](const Dual& x, const Dual& y) { return (x - y) * (x - y); }},
    {"aten::l1_loss", -1, 1, -1, 1, [](const Dual& x, const Dual& y) { return abs(x - y); }},
    {"aten::smooth_l1_loss",
     -1,
     1,
     -1,
     1,
     [](const Dual& x, const Dual& y) {
       const Dual d = abs(x - y);
       return d.value < 0.6 ? d * d / 1.2 : d - 0.3;
     },
     {0.6}},
    {"aten::huber_loss",
     -1,
     1,
     -1,
     1,
     [](const Dual& x, const Dual& y) {
       const Dual d = abs(x - y);
       return d.value < 0.6 ? d * d / 2 : 0.6 * (d - 0.3);
     },
     {0.6}},
    {"aten::kl_div", -3, -0.1, 0.1, 1,
     [](const Dual& x, const Dual& y) { return y * (log(y) - x); }},
    {"aten::kl_div",
     -3,
     -0.1,
     -2,
     0,
     [](const Dual& x, const Dual& y) { return exp(y) * (y - x); },
     {true}},
    {"aten::soft_margin_loss", -2, 2, -1, 1,
     [](const Dual& x, const Dual& y) { return softplus(-(x * y)); }},
};

std::vector<Definition> pairwise() {
  std::vector<Definition> definitions;
  for (const Pairwise& row : kPairwise) {
    for (const std::int64_t reduction : {kNone, kMean, kSum}) {
      // PyTorch has no gradient by the target of soft_margin_loss: a constant there.
      const bool constant = row.op == std::string("aten::soft_margin_loss");
      Given target = floats({5, 3}, 2, row.target_from, row.target_to);
      if (constant) {
        target.leaf = false;
        for (double& value : target.values.values) value = value < 0 ? -1 : 1;
      }
      definitions.push_back(
          {row.op,
           {floats({5, 3}, 1, row.from, row.to), target},
           [&row, reduction](const Tensors& x) {
             const DTensor target = x[1].dtype() == DType::kI64 ? to(x[1], DType::kF64) : x[1];
             Arguments args{x[0], target, reduction};
             for (const Argument& more : row.more) args.push_back(more);
             return first_of(row.op, args);
           },
           [&row, reduction](const Arrays& x) {
             return reduced(made({5, 3},
                                 [&](const Dims& at) {
                                   return row.f(x[0](at[0], at[1]), x[1](at[0], at[1]));
                                 }),
                            reduction);
           }});
    }
  }
  return definitions;
}

// A loss of logits, with a weight for each class on positive targets.
Definition logits_with_weights(std::int64_t reduction) {
  return {"aten::binary_cross_entropy_with_logits",
          {floats({5, 3}, 1, -2, 2), floats({5, 3}, 2, 0, 1), floats({5, 1}, 3, 0.2, 2),
           floats({3}, 4, 0.5, 3)},
          [reduction](const Tensors& x) {
            return first_of("aten::binary_cross_entropy_with_logits",
                            {x[0], x[1], x[2].detach(), x[3].detach(), reduction}) +
                   sum(x[2]) * 0.0 + sum(x[3]) * 0.0;
          },
          [reduction](const Arrays& x) {
            return reduced(
                made({5, 3},
                     [&](const Dims& at) {
                       const Dual& z = x[0](at[0], at[1]);
                       const Dual& t = x[1](at[0], at[1]);
                       return x[2](at[0], 0).value *
                              (x[3](at[1]).value * t * softplus(-z) + (1 - t) * softplus(z));
                     }),
                reduction);
          }};
}

Definition poisson(bool of_log) {
  return {"aten::poisson_nll_loss",
          {floats({4, 3}, 5, 0.2, 2), floats({4, 3}, 6, 1.2, 4)},
          [of_log](const Tensors& x) {
            return first_of("aten::poisson_nll_loss",
                            {x[0], x[1].detach(), of_log, true, 1e-3, kMean}) +
                   sum(x[1]) * 0.0;
          },
          [of_log](const Arrays& x) {
            return reduced(made({4, 3},
                                [&](const Dims& at) {
                                  const Dual& rate = x[0](at[0], at[1]);
                                  const double t = x[1](at[0], at[1]).value;
                                  const Dual loss =
                                      of_log ? exp(rate) - t * rate : rate - t * log(rate + 1e-3);
                                  return loss + t * std::log(t) - t + std::log(2 * M_PI * t) / 2;
                                }),
                           kMean);
          }};
}

// Class scores [rows, classes], targets, a weight per class.
constexpr std::int64_t kRows = 5, kClasses = 4;
Given scores() { return floats({kRows, kClasses}, 11, -2, 2); }
Given classes() { return integers({kRows}, {3, 0, 2, 2, 1}); }

Definition nll(bool weighted, std::int64_t ignored, std::int64_t reduction) {
  return {"aten::nll_loss",
          {scores(), classes(), floats({kClasses}, 12, 0.3, 2)},
          [=](const Tensors& x) {
            const Argument weight = weighted ? Argument(x[2].detach()) : Argument();
            return first_of("aten::nll_loss", {x[0], x[1], weight, reduction, ignored}) +
                   sum(x[2]) * 0.0;
          },
          [=](const Arrays& x) {
            double weights = 0;
            const DualArray losses = made({kRows}, [&](const Dims& at) {
              const std::int64_t target = whole(x[1](at[0]));
              if (target == ignored) return Dual(0);
              const double weight = weighted ? x[2](target).value : 1;
              weights += weight;
              return -weight * x[0](at[0], target);
            });
            return reduction == kMean ? scalar(sum_all(losses) / weights)
                                      : reduced(losses, reduction);
          }};
}

Definition multi_margin(double p) {
  return {"aten::multi_margin_loss",
          {scores(), classes()},
          [p](const Tensors& x) {
            return first_of("aten::multi_margin_loss",
                            {x[0], x[1], static_cast<std::int64_t>(p), 0.8, Argument(), kSum});
          },
          [p](const Arrays& x) {
            return scalar(sum_over(kRows, [&](std::int64_t row) {
              const std::int64_t target = whole(x[1](row));
              return sum_over(kClasses, [&](std::int64_t c) {
                const Dual gap = 0.8 - x[0](row, target) + x[0](row, c);
                if (c == target || gap.value <= 0) return Dual(0);
                return (p == 2 ? gap * gap : gap) / static_cast<double>(kClasses);
              });
            }));
          }};
}

Dual squared(const DualArray& x, std::int64_t row) {
  return sum_over(x.size(1), [&](std::int64_t i) { return x(row, i) * x(row, i); });
}

Dual dot(const DualArray& x, const DualArray& y, std::int64_t row) {
  return sum_over(x.size(1), [&](std::int64_t i) { return x(row, i) * y(row, i); });
}

// |x - y + eps|_p of one row.
Dual apart(const DualArray& x, const DualArray& y, std::int64_t row, double p, double eps) {
  const Dual sum =
      sum_over(x.size(1), [&](std::int64_t i) { return pow(abs(x(row, i) - y(row, i) + eps), p); });
  return pow(sum, 1 / p);
}

const Given kA = floats({5, 4}, 21), kB = floats({5, 4}, 22), kC = floats({5, 4}, 23);
const Given kSigns = integers({5}, {1, -1, -1, 1, -1});

const std::vector<Definition> kOfVectors = {
    {"aten::cosine_similarity",
     {kA, kB},
     [](const Tensors& x) {
       return first_of("aten::cosine_similarity", {x[0], x[1], 1, 1e-8});
     },
     [](const Arrays& x) {
       return made({5}, [&](const Dims& at) {
         return dot(x[0], x[1], at[0]) / sqrt(squared(x[0], at[0]) * squared(x[1], at[0]));
       });
     }},
    {"aten::pairwise_distance",
     {kA, kB},
     [](const Tensors& x) {
       return first_of("aten::pairwise_distance", {x[0], x[1], 3.0, 1e-3, true});
     },
     [](const Arrays& x) {
       return made({5, 1}, [&](const Dims& at) { return apart(x[0], x[1], at[0], 3, 1e-3); });
     }},
    {"aten::triplet_margin_loss",
     {kA, kB, kC},
     [](const Tensors& x) {
       return first_of("aten::triplet_margin_loss",
                       {x[0], x[1], x[2], 0.7, 2.0, 1e-6, false, kSum});
     },
     [](const Arrays& x) {
       return scalar(sum_over(5, [&](std::int64_t row) {
         return max(0, 0.7 + apart(x[0], x[1], row, 2, 1e-6) - apart(x[0], x[2], row, 2, 1e-6));
       }));
     }},
    {"aten::cosine_embedding_loss",
     {kA, kB, kSigns},
     [](const Tensors& x) {
       return first_of("aten::cosine_embedding_loss", {x[0], x[1], x[2], 0.1, kNone});
     },
     [](const Arrays& x) {
       return made({5}, [&](const Dims& at) {
         constexpr double kEps = 1e-12;  // PyTorch's, on each squared length
         const Dual cosine = dot(x[0], x[1], at[0]) /
                             sqrt((squared(x[0], at[0]) + kEps) * (squared(x[1], at[0]) + kEps));
         return x[2](at[0]).value > 0 ? 1 - cosine : max(0, cosine - 0.1);
       });
     }},
    {"aten::margin_ranking_loss",
     {floats({5}, 24), floats({5}, 25), kSigns},
     [](const Tensors& x) {
       return first_of("aten::margin_ranking_loss", {x[0], x[1], x[2], 0.2, kMean});
     },
     [](const Arrays& x) {
       return reduced(made({5},
                           [&](const Dims& at) {
                             return max(0, -x[2](at[0]) * (x[0](at[0]) - x[1](at[0])) + 0.2);
                           }),
                      kMean);
     }},
    {"aten::hinge_embedding_loss",
     {floats({5}, 26), kSigns},
     [](const Tensors& x) {
       return first_of("aten::hinge_embedding_loss", {x[0], x[1], 0.5, kMean});
     },
     [](const Arrays& x) {
       return reduced(made({5},
                           [&](const Dims& at) {
                             return x[1](at[0]).value > 0 ? x[0](at[0]) : max(0, 0.5 - x[0](at[0]));
                           }),
                      kMean);
     }},
    {"aten::cdist",
     {floats({3, 4}, 27), floats({5, 4}, 28)},
     [](const Tensors& x) {
       return first_of("aten::cdist", {x[0], x[1], 3.0});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return pow(
             sum_over(4,
                      [&](std::int64_t i) { return pow(abs(x[0](at[0], i) - x[1](at[1], i)), 3); }),
             1.0 / 3);
       });
     }},
    {"aten::pdist",
     {floats({4, 3}, 29)},
     nullptr,
     [](const Arrays& x) {
       DualArray out(Dims{6});
       std::int64_t next = 0;
       for (std::int64_t i = 0; i < 4; ++i) {
         for (std::int64_t j = i + 1; j < 4; ++j) {
           out[next++] = sqrt(sum_over(3, [&](std::int64_t k) {
             return (x[0](i, k) - x[0](j, k)) * (x[0](i, k) - x[0](j, k));
           }));
         }
       }
       return out;
     }},
    {"aten::dist",
     {floats({4, 3}, 30), floats({4, 3}, 31)},
     [](const Tensors& x) {
       return first_of("aten::dist", {x[0], x[1], 3});
     },
     [](const Arrays& x) {
       return scalar(pow(
           sum_over(12, [&](std::int64_t i) { return pow(abs(x[0][i] - x[1][i]), 3); }), 1.0 / 3));
     }},
};

// The sum over all alignments of the targets with the frames, each counted (no recursion): blanks
// and repeats are taken out of every sequence of labels.
DualArray ctc_of(const DualArray& logs, const DualArray& targets, std::int64_t frames,
                 std::int64_t length) {
  const std::int64_t labels = logs.size(2);
  Dual sum;
  std::int64_t sequences = 1;
  for (std::int64_t t = 0; t < frames; ++t) sequences *= labels;
  for (std::int64_t sequence = 0; sequence < sequences; ++sequence) {
    std::vector<std::int64_t> kept;
    Dual score;
    std::int64_t rest = sequence, last = 0;
    for (std::int64_t t = 0; t < frames; ++t, rest /= labels) {
      const std::int64_t label = rest % labels;
      score += logs(t, 0, label);
      if (label != 0 && label != last) kept.push_back(label);
      last = label;
    }
    bool same = static_cast<std::int64_t>(kept.size()) == length;
    for (std::int64_t i = 0; same && i < length; ++i) {
      same = kept[static_cast<std::size_t>(i)] == whole(targets(0, i));
    }
    if (same) sum += exp(score);
  }
  DualArray out(Dims{1});
  out[0] = -log(sum);
  return out;
}

Definition ctc() {
  return {"aten::ctc_loss.IntList",
          {floats({5, 1, 3}, 41, -2, 1), integers({1, 2}, {2, 2})},
          [](const Tensors& x) {
            return first_of("aten::ctc_loss.IntList",
                            {log_softmax(x[0], 2), x[1], ints({5}), ints({2}), 0, kNone});
          },
          [](const Arrays& x) {
            const DualArray logs = made({5, 1, 3}, [&](const Dims& at) {
              const Dual sum = sum_over(3, [&](std::int64_t i) { return exp(x[0](at[0], 0, i)); });
              return x[0](at[0], 0, at[2]) - log(sum);
            });
            return ctc_of(logs, x[1], 5, 2);
          }};
}

}  // namespace

TEST_CASE("V-18 losses of pairs are their definitions, in each reduction") {
  check_definitions(pairwise());
}

TEST_CASE("V-18 losses with weights, of counts and of logits are their definitions") {
  check_definitions(
      {logits_with_weights(kNone), logits_with_weights(kMean), poisson(true), poisson(false)});
}

TEST_CASE("V-18 losses of classes count weights and leave out what is ignored") {
  check_definitions({nll(false, -100, kMean), nll(true, -100, kMean), nll(true, 2, kMean),
                     nll(true, 2, kNone), nll(false, 3, kSum), multi_margin(1), multi_margin(2)});
}

TEST_CASE("V-18 distances of vectors are their definitions, vectors cut or not") {
  check_definitions(kOfVectors);
}

TEST_CASE("V-18 the loss of alignments is the sum over every one of them") {
  check_definitions({ctc()});
}
