// Reductions, scans, norms and statistics by their definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

using Row = std::vector<Dual>;

// f of each line of a [5, 4] along `dim`, which is removed.
DualArray along(const DualArray& x, std::size_t dim, Dual (*f)(const Row& line)) {
  const std::size_t other = 1 - dim;
  return made({x.size(other)}, [&](const Dims& at) {
    Row line;
    for (std::int64_t i = 0; i < x.size(dim); ++i) {
      line.push_back(dim == 0 ? x(i, at[0]) : x(at[0], i));
    }
    return f(line);
  });
}

Dual total_of(const Row& line) {
  Dual sum;
  for (const Dual& element : line) sum += element;
  return sum;
}

Dual mean_of(const Row& line) { return total_of(line) / static_cast<double>(line.size()); }

// The mean square distance to the mean, over the count less `correction`.
Dual spread_of(const Row& line, double correction) {
  const Dual mean = mean_of(line);
  Dual sum;
  for (const Dual& element : line) sum += (element - mean) * (element - mean);
  return sum / (static_cast<double>(line.size()) - correction);
}

Dual norm_of(const Row& line, double p) {
  Dual sum;
  for (const Dual& element : line) sum += pow(abs(element), p);
  return pow(sum, 1 / p);
}

struct Reduction {
  const char* op;
  Arguments (*args)(const DTensor& x, std::int64_t dim);
  Dual (*f)(const Row& line);
};

const std::vector<Reduction> kReductions = {
    {"aten::sum.dim_IntList",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, ints({dim})};
     },
     total_of},
    {"aten::mean.dim",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, ints({dim})};
     },
     mean_of},
    {"aten::prod.dim_int",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, dim};
     },
     [](const Row& line) {
       Dual out = 1;
       for (const Dual& element : line) out = out * element;
       return out;
     }},
    {"aten::amax",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, ints({dim})};
     },
     [](const Row& line) {
       Dual out = line[0];
       for (const Dual& element : line) out = max(out, element);
       return out;
     }},
    {"aten::min.dim",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, dim};
     },
     [](const Row& line) {
       Dual out = line[0];
       for (const Dual& element : line) out = min(out, element);
       return out;
     }},
    {"aten::logsumexp",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, ints({dim})};
     },
     [](const Row& line) {
       Dual sum;
       for (const Dual& element : line) sum += exp(element);
       return log(sum);
     }},
    {"aten::var.correction",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, ints({dim}), 1};
     },
     [](const Row& line) { return spread_of(line, 1); }},
    {"aten::std.correction",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, ints({dim}), 0};
     },
     [](const Row& line) { return sqrt(spread_of(line, 0)); }},
    {"aten::linalg_vector_norm",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, 2, ints({dim})};
     },
     [](const Row& line) { return norm_of(line, 2); }},
    {"aten::linalg_vector_norm",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, 3.5, ints({dim})};
     },
     [](const Row& line) { return norm_of(line, 3.5); }},
    {"aten::norm.ScalarOpt_dim",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, 1, ints({dim})};
     },
     [](const Row& line) { return norm_of(line, 1); }},
    {"aten::median.dim",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, dim};
     },
     [](const Row& line) {
       Row sorted = line;  // the lower one of two in the middle
       std::ranges::sort(sorted, [](const Dual& a, const Dual& b) { return a.value < b.value; });
       return sorted[(sorted.size() - 1) / 2];
     }},
    {"aten::kthvalue",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, 2, dim};
     },
     [](const Row& line) {
       Row sorted = line;
       std::ranges::sort(sorted, [](const Dual& a, const Dual& b) { return a.value < b.value; });
       return sorted[1];
     }},
    {"aten::trapezoid.dx",
     [](const DTensor& x, std::int64_t dim) {
       return Arguments{x, 0.5, dim};
     },
     [](const Row& line) { return 0.5 * (total_of(line) - (line.front() + line.back()) / 2); }},
};

std::vector<Definition> reductions() {
  std::vector<Definition> definitions;
  for (const Reduction& row : kReductions) {
    for (const std::size_t dim : {0, 1}) {
      definitions.push_back({row.op,
                             {floats({5, 4}, 1, 0.2, 2)},
                             [&row, dim](const Tensors& x) {
                               const auto from_the_end = static_cast<std::int64_t>(dim) - 2;
                               return first_of(row.op, row.args(x[0], from_the_end));
                             },
                             [&row, dim](const Arrays& x) { return along(x[0], dim, row.f); }});
    }
  }
  return definitions;
}

// A scan's element comes from all elements before it, and itself.
Definition scan(const char* op, std::int64_t dim, Dual (*f)(const Row& before)) {
  return {op,
          {floats({5, 4}, 2, 0.3, 1.5)},
          [op, dim](const Tensors& x) {
            return first_of(op, {x[0], dim});
          },
          [dim, f](const Arrays& x) {
            return made({5, 4}, [&](const Dims& at) {
              Row before;
              for (std::int64_t i = 0; i <= at[static_cast<std::size_t>(dim)]; ++i) {
                before.push_back(dim == 0 ? x[0](i, at[1]) : x[0](at[0], i));
              }
              return f(before);
            });
          }};
}

Dual product_of_row(const Row& line) {
  Dual out = 1;
  for (const Dual& element : line) out = out * element;
  return out;
}

Dual log_sum(const Row& line) {
  Dual sum;
  for (const Dual& element : line) sum += exp(element);
  return log(sum);
}

Dual largest(const Row& line) {
  Dual out = line[0];
  for (const Dual& element : line) out = max(out, element);
  return out;
}

Row row_of(const DualArray& x, std::int64_t row) {
  Row line;
  for (std::int64_t i = 0; i < x.size(1); ++i) line.push_back(x(row, i));
  return line;
}

// The mean of the products of two rows' distances to their means, over the count less one.
Dual together(const Row& a, const Row& b) {
  const Dual mean_a = mean_of(a), mean_b = mean_of(b);
  Dual sum;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - mean_a) * (b[i] - mean_b);
  return sum / (static_cast<double>(a.size()) - 1);
}

const Given kRowsOfFive = floats({3, 5}, 3);

const std::vector<Definition> kStatistics = {
    {"aten::cov",
     {kRowsOfFive},
     nullptr,
     [](const Arrays& x) {
       return made({3, 3}, [&](const Dims& at) {
         return together(row_of(x[0], at[0]), row_of(x[0], at[1]));
       });
     }},
    {"aten::corrcoef",
     {kRowsOfFive},
     nullptr,
     [](const Arrays& x) {
       return made({3, 3}, [&](const Dims& at) {
         const Row a = row_of(x[0], at[0]), b = row_of(x[0], at[1]);
         // PyTorch clips to [-1, 1], and the gradient of the diagonal is none.
         if (at[0] == at[1]) return Dual(1);
         return together(a, b) / sqrt(together(a, a) * together(b, b));
       });
     }},
    {"aten::diff",
     {kRowsOfFive},
     [](const Tensors& x) {
       return first_of("aten::diff", {x[0], 2, 1});
     },
     [](const Arrays& x) {
       return made({3, 3}, [&](const Dims& at) {
         return x[0](at[0], at[1] + 2) - 2 * x[0](at[0], at[1] + 1) + x[0](at[0], at[1]);
       });
     }},
    {"aten::renorm",
     {kRowsOfFive},
     [](const Tensors& x) {
       return first_of("aten::renorm", {x[0], 2, 0, 0.9});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         const Dual norm = norm_of(row_of(x[0], at[0]), 2);
         constexpr double kEps = 1e-7;  // PyTorch's
         return norm.value > 0.9 ? x[0](at[0], at[1]) * 0.9 / (norm + kEps) : x[0](at[0], at[1]);
       });
     }},
    {"aten::trapezoid.x",
     {kRowsOfFive, floats({5}, 4)},
     [](const Tensors& x) {
       return first_of("aten::trapezoid.x", {x[0], x[1]});
     },
     [](const Arrays& x) {
       return made({3}, [&](const Dims& at) {
         return sum_over(4, [&](std::int64_t i) {
           return (x[1](i + 1) - x[1](i)) * (x[0](at[0], i) + x[0](at[0], i + 1)) / 2;
         });
       });
     }},
    {"aten::linalg_norm",
     {kRowsOfFive},
     [](const Tensors& x) { return first_of("aten::linalg_norm", {x[0]}); },
     [](const Arrays& x) {
       return scalar(sqrt(sum_over(15, [&](std::int64_t i) { return x[0][i] * x[0][i]; })));
     }},
    {"aten::softmax.int",
     {kRowsOfFive},
     [](const Tensors& x) {
       return first_of("aten::softmax.int", {x[0], 0});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return exp(x[0](at[0], at[1])) /
                sum_over(3, [&](std::int64_t i) { return exp(x[0](i, at[1])); });
       });
     }},
};

// [2, 6, 3] in groups of channels: each group of a sample less its mean, over its root of spread.
DualArray grouped(const Arrays& x, std::int64_t groups, double eps) {
  const std::int64_t width = 6 / groups;
  return made({2, 6, 3}, [&](const Dims& at) {
    Row line;
    const std::int64_t first = at[1] / width * width;
    for (std::int64_t c = first; c < first + width; ++c) {
      for (std::int64_t i = 0; i < 3; ++i) line.push_back(x[0](at[0], c, i));
    }
    const Dual normed =
        (x[0](at[0], at[1], at[2]) - mean_of(line)) / sqrt(spread_of(line, 0) + eps);
    return normed * x[1](at[1]) + x[2](at[1]);
  });
}

std::vector<Definition> group_norms() {
  const std::vector<Given> given{floats({2, 6, 3}, 5), floats({6}, 6), floats({6}, 7)};
  return {
      {"aten::group_norm", given,
       [](const Tensors& x) {
         return first_of("aten::group_norm", {x[0], 3, x[1], x[2], 1e-2});
       },
       [](const Arrays& x) { return grouped(x, 3, 1e-2); }},
      {"aten::instance_norm", given,
       [](const Tensors& x) {
         return first_of("aten::instance_norm",
                         {x[0], x[1], x[2], Argument(), Argument(), true, 0.1, 1e-2, true});
       },
       [](const Arrays& x) { return grouped(x, 6, 1e-2); }},
      {"aten::batch_norm", given,
       [](const Tensors& x) {
         return first_of("aten::batch_norm",
                         {x[0], x[1], x[2], Argument(), Argument(), true, 0.1, 1e-2, true});
       },
       [](const Arrays& x) {
         return made({2, 6, 3}, [&](const Dims& at) {
           Row line;
           for (std::int64_t i = 0; i < 6; ++i) line.push_back(x[0](i / 3, at[1], i % 3));
           const Dual normed =
               (x[0](at[0], at[1], at[2]) - mean_of(line)) / sqrt(spread_of(line, 0) + 1e-2);
           return normed * x[1](at[1]) + x[2](at[1]);
         });
       }},
  };
}

}  // namespace

TEST_CASE("V-16 reductions of rows and columns are their definitions, cut along them or not") {
  check_definitions(reductions());
}

TEST_CASE("V-16 scans read everything before a place, on whatever rank it lies") {
  check_definitions({scan("aten::cumprod", 0, product_of_row),
                     scan("aten::cumprod", 1, product_of_row),
                     scan("aten::logcumsumexp", 0, log_sum), scan("aten::logcumsumexp", 1, log_sum),
                     scan("aten::cummax", 0, largest), scan("aten::cummax", 1, largest),
                     scan("aten::cumsum", 0, total_of), scan("aten::cumsum", 1, total_of)});
}

TEST_CASE("V-16 statistics of rows are their definitions") { check_definitions(kStatistics); }

TEST_CASE("V-16 norms over groups, samples and batches are their definitions") {
  check_definitions(group_norms());
}
