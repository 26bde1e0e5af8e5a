// Products, contractions and linear algebra by their definitions: determinants by permutation,
// inverses and solutions by cofactors, factors by elimination.
#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

auto einsum(const char* equation) {
  return [equation](const Tensors& x) { return first_of("aten::einsum", {equation, tensors(x)}); };
}

const std::vector<Definition> kContractions = {
    {"aten::einsum bij,bjk",
     {floats({2, 3, 4}, 1), floats({2, 4, 5}, 2)},
     einsum("bij,bjk->bik"),
     [](const Arrays& x) {
       return made({2, 3, 5}, [&](const Dims& at) {
         return sum_over(
             4, [&](std::int64_t j) { return x[0](at[0], at[1], j) * x[1](at[0], j, at[2]); });
       });
     }},
    {"aten::einsum ij,kj,k",
     {floats({3, 4}, 3), floats({5, 4}, 4), floats({5}, 5)},
     einsum("ij,kj,k->ki"),
     [](const Arrays& x) {
       return made({5, 3}, [&](const Dims& at) {
         return x[2](at[0]) *
                sum_over(4, [&](std::int64_t j) { return x[0](at[1], j) * x[1](at[0], j); });
       });
     }},
    {"aten::einsum ii",
     {floats({4, 4}, 6)},
     einsum("ii->i"),
     [](const Arrays& x) { return made({4}, [&](const Dims& at) { return x[0](at[0], at[0]); }); }},
    {"aten::tensordot",
     {floats({2, 3, 4}, 7), floats({4, 2, 5}, 8)},
     [](const Tensors& x) {
       return first_of("aten::tensordot", {x[0], x[1], ints({2, 0}), ints({0, 1})});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return sum_over(8, [&](std::int64_t i) {
           return x[0](i / 4, at[0], i % 4) * x[1](i % 4, i / 4, at[1]);
         });
       });
     }},
    {"aten::baddbmm",
     {floats({2, 1, 5}, 9), floats({2, 3, 4}, 10), floats({2, 4, 5}, 11)},
     [](const Tensors& x) {
       return first_of("aten::baddbmm", {x[0], x[1], x[2], 0.5, 2});
     },
     [](const Arrays& x) {
       return made({2, 3, 5}, [&](const Dims& at) {
         return 0.5 * x[0](at[0], 0, at[2]) +
                2 * sum_over(4, [&](std::int64_t j) {
                  return x[1](at[0], at[1], j) * x[2](at[0], j, at[2]);
                });
       });
     }},
    {"aten::addbmm",
     {floats({3, 5}, 12), floats({2, 3, 4}, 13), floats({2, 4, 5}, 14)},
     [](const Tensors& x) {
       return first_of("aten::addbmm", {x[0], x[1], x[2], 1.5, -1});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return 1.5 * x[0](at[0], at[1]) - sum_over(8, [&](std::int64_t i) {
                  return x[1](i / 4, at[0], i % 4) * x[2](i / 4, i % 4, at[1]);
                });
       });
     }},
    {"aten::addmm",
     {floats({5}, 15), floats({3, 4}, 16), floats({4, 5}, 17)},
     [](const Tensors& x) {
       return first_of("aten::addmm", {x[0], x[1], x[2], 3, 0.25});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return 3 * x[0](at[1]) +
                0.25 * sum_over(4, [&](std::int64_t j) { return x[1](at[0], j) * x[2](j, at[1]); });
       });
     }},
    {"aten::addmv",
     {floats({3}, 18), floats({3, 4}, 19), floats({4}, 20)},
     [](const Tensors& x) {
       return first_of("aten::addmv", {x[0], x[1], x[2], 2, -3});
     },
     [](const Arrays& x) {
       return made({3}, [&](const Dims& at) {
         return 2 * x[0](at[0]) -
                3 * sum_over(4, [&](std::int64_t j) { return x[1](at[0], j) * x[2](j); });
       });
     }},
    {"aten::addr",
     {floats({3, 5}, 21), floats({3}, 22), floats({5}, 23)},
     [](const Tensors& x) {
       return first_of("aten::addr", {x[0], x[1], x[2], 0.5, 4});
     },
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return 0.5 * x[0](at[0], at[1]) + 4 * x[1](at[0]) * x[2](at[1]);
       });
     }},
    {"aten::dot",
     {floats({5}, 24), floats({5}, 25)},
     nullptr,
     [](const Arrays& x) {
       return scalar(sum_over(5, [&](std::int64_t i) { return x[0](i) * x[1](i); }));
     }},
    // Its view refuses uneven cuts: meshes of 2 and 3 divide 6.
    {"aten::kron",
     {floats({6, 6}, 26), floats({3, 2}, 27)},
     nullptr,
     [](const Arrays& x) {
       return made({18, 12}, [&](const Dims& at) {
         return x[0](at[0] / 3, at[1] / 2) * x[1](at[0] % 3, at[1] % 2);
       });
     }},
    {"aten::bilinear",
     {floats({3, 2}, 28), floats({3, 4}, 29), floats({5, 2, 4}, 30), floats({5}, 31)},
     nullptr,
     [](const Arrays& x) {
       return made({3, 5}, [&](const Dims& at) {
         return x[3](at[1]) + sum_over(8, [&](std::int64_t i) {
                  return x[0](at[0], i / 4) * x[2](at[1], i / 4, i % 4) * x[1](at[0], i % 4);
                });
       });
     }},
    {"aten::linalg_multi_dot",
     {floats({2, 5}, 32), floats({5, 3}, 33), floats({3, 4}, 34)},
     [](const Tensors& x) { return first_of("aten::linalg_multi_dot", {tensors(x)}); },
     [](const Arrays& x) {
       return made({2, 4}, [&](const Dims& at) {
         return sum_over(15, [&](std::int64_t i) {
           return x[0](at[0], i / 3) * x[1](i / 3, i % 3) * x[2](i % 3, at[1]);
         });
       });
     }},
    {"aten::linalg_cross",
     {floats({4, 3}, 35), floats({4, 3}, 36)},
     [](const Tensors& x) {
       return first_of("aten::linalg_cross", {x[0], x[1]});
     },
     [](const Arrays& x) {
       return made({4, 3}, [&](const Dims& at) {
         const std::int64_t a = (at[1] + 1) % 3, b = (at[1] + 2) % 3;
         return x[0](at[0], a) * x[1](at[0], b) - x[0](at[0], b) * x[1](at[0], a);
       });
     }},
};

// The square matrix `number` of a batch, or all of a matrix; its diagonal is lifted, so that it is
// far from singular.
DualArray square_of(const DualArray& x, std::int64_t number, std::int64_t n) {
  return made({n, n}, [&](const Dims& at) { return x[(number * n + at[0]) * n + at[1]]; });
}

// Adds up all permutations, with their signs.
Dual determinant(const DualArray& a) {
  const std::int64_t n = a.size(0);
  std::vector<std::int64_t> columns(static_cast<std::size_t>(n));
  std::iota(columns.begin(), columns.end(), 0);
  Dual sum;
  do {
    int swaps = 0;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      for (std::size_t j = i + 1; j < columns.size(); ++j) swaps += columns[i] > columns[j] ? 1 : 0;
    }
    const Dual term = product_over(
        n, [&](std::int64_t row) { return a(row, columns[static_cast<std::size_t>(row)]); });
    sum += swaps % 2 == 0 ? term : -term;
  } while (std::ranges::next_permutation(columns).found);
  return sum;
}

// a without a row and a column.
DualArray without(const DualArray& a, std::int64_t row, std::int64_t column) {
  return made({a.size(0) - 1, a.size(1) - 1}, [&](const Dims& at) {
    return a(at[0] + (at[0] >= row ? 1 : 0), at[1] + (at[1] >= column ? 1 : 0));
  });
}

// Divides cofactors by the determinant.
DualArray inverse(const DualArray& a) {
  const Dual whole = determinant(a);
  return made(a.shape, [&](const Dims& at) {
    const Dual minor = determinant(without(a, at[1], at[0]));
    return ((at[0] + at[1]) % 2 == 0 ? minor : -minor) / whole;
  });
}

Given lifted(std::int64_t n, std::int64_t start) {
  Given out = floats({n, n}, start);
  for (std::int64_t i = 0; i < n; ++i) out.values.at(i, i) += 2;
  return out;
}

// L of a = L L^T, row by row.
DualArray lower_factor(const DualArray& a) {
  const std::int64_t n = a.size(0);
  DualArray out(a.shape);
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      const Dual rest =
          a(i, j) - sum_over(j, [&](std::int64_t k) { return out(i, k) * out(j, k); });
      out(i, j) = i == j ? sqrt(rest) : rest / out(j, j);
    }
  }
  return out;
}

// a a^T, which of a lifted matrix is positive.
DTensor positive(const DTensor& a) { return matmul(a, transpose(a, 0, 1)); }

const std::vector<Definition> kAlgebra = {
    {"aten::linalg_det",
     {lifted(4, 41)},
     nullptr,
     [](const Arrays& x) { return scalar(determinant(x[0])); }},
    {"aten::logdet",
     {lifted(3, 42)},
     nullptr,
     [](const Arrays& x) { return scalar(log(determinant(x[0]))); }},
    {"aten::linalg_inv", {lifted(4, 43)}, nullptr, [](const Arrays& x) { return inverse(x[0]); }},
    {"aten::linalg_inv of a batch",
     {floats({2, 2, 2}, 44, 0.2, 1)},
     [](const Tensors& x) { return first_of("aten::linalg_inv", {x[0]}); },
     [](const Arrays& x) {
       const DualArray first = inverse(square_of(x[0], 0, 2)),
                       second = inverse(square_of(x[0], 1, 2));
       return made({2, 2, 2},
                   [&](const Dims& at) { return (at[0] == 0 ? first : second)(at[1], at[2]); });
     }},
    {"aten::linalg_solve",
     {lifted(3, 45), floats({3, 2}, 46)},
     [](const Tensors& x) {
       return first_of("aten::linalg_solve", {x[0], x[1]});
     },
     [](const Arrays& x) { return matrix_product(inverse(x[0]), x[1]); }},
    {"aten::linalg_solve on the right",
     {lifted(3, 47), floats({2, 3}, 48)},
     [](const Tensors& x) {
       return first_of("aten::linalg_solve", {x[0], x[1], false});
     },
     [](const Arrays& x) { return matrix_product(x[1], inverse(x[0])); }},
    {"aten::linalg_cholesky",
     {lifted(3, 49)},
     [](const Tensors& x) { return first_of("aten::linalg_cholesky", {positive(x[0])}); },
     [](const Arrays& x) { return lower_factor(matrix_product(x[0], transposed(x[0]))); }},
    {"aten::cholesky_inverse",
     {lifted(3, 50)},
     [](const Tensors& x) {
       return first_of("aten::cholesky_inverse", {first_of("aten::tril", {x[0]})});
     },
     [](const Arrays& x) {
       const DualArray lower = made({3, 3}, [&](const Dims& at) {
         return at[1] <= at[0] ? x[0](at[0], at[1]) : 0 * x[0](at[0], at[1]);
       });
       return inverse(matrix_product(lower, transposed(lower)));
     }},
    {"aten::linalg_solve_triangular",
     {lifted(3, 51), floats({3, 2}, 52)},
     [](const Tensors& x) {
       return first_of("aten::linalg_solve_triangular", {x[0], x[1], true});
     },
     [](const Arrays& x) {
       const DualArray upper = made({3, 3}, [&](const Dims& at) {
         return at[1] >= at[0] ? x[0](at[0], at[1]) : 0 * x[0](at[0], at[1]);
       });
       return matrix_product(inverse(upper), x[1]);
     }},
    {"aten::linalg_matrix_power",
     {lifted(3, 53)},
     [](const Tensors& x) {
       return first_of("aten::linalg_matrix_power", {x[0], -2});
     },
     [](const Arrays& x) {
       const DualArray once = inverse(x[0]);
       return matrix_product(once, once);
     }},
    {"aten::linalg_matrix_exp",
     {floats({3, 3}, 54)},
     nullptr,
     [](const Arrays& x) {
       DualArray sum = made({3, 3}, [](const Dims& at) { return Dual(at[0] == at[1] ? 1 : 0); });
       DualArray term = sum;
       for (int n = 1; n < 30; ++n) {
         term = mapped(matrix_product(term, x[0]), [&](const Dual& e) { return e / n; });
         for (std::int64_t i = 0; i < 9; ++i) sum[i] += term[i];
       }
       return sum;
     }},
    {"aten::trace",
     {floats({4, 3}, 55)},
     nullptr,
     [](const Arrays& x) {
       return scalar(sum_over(3, [&](std::int64_t i) { return x[0](i, i); }));
     }},
};

}  // namespace

TEST_CASE("V-18 products and contractions are sums of products, whichever dim is cut") {
  check_definitions(kContractions);
}

TEST_CASE("V-18 determinants, inverses, solutions and factors are those of elementary algebra") {
  check_definitions(kAlgebra);
}
