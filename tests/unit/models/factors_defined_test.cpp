// Factorisations by their closed forms on small matrices, ops on lists, and functions of several
// tensors that only put elements somewhere.
#include <doctest/doctest.h>

#include <cmath>

#include "sim/world/spmd.h"
#include "tests/unit/models/definition.h"

using namespace shardlab;
using namespace shardlab::test;

namespace {

// Results of a call by their number.
DTensor result_of(const char* op, const Arguments& args, std::size_t number) {
  return recording_calls()(op, args).at(number).tensor();
}

DualArray inverse_of_two(const DualArray& a) {
  const Dual whole = a(0, 0) * a(1, 1) - a(0, 1) * a(1, 0);
  return made({2, 2}, [&](const Dims& at) {
    const Dual& other = a(1 - at[1], 1 - at[0]);
    return (at[0] == at[1] ? other : -other) / whole;
  });
}

// Columns made orthogonal one after the other, each of length 1 and with the sign that LAPACK's
// reflections give: the diagonal of R is negative where the column has not been turned yet.
DualArray orthogonal(const DualArray& a) {
  DualArray q = a;
  for (std::int64_t j = 0; j < a.size(1); ++j) {
    for (std::int64_t k = 0; k < j; ++k) {
      const Dual along = sum_over(a.size(0), [&](std::int64_t i) { return q(i, k) * a(i, j); });
      for (std::int64_t i = 0; i < a.size(0); ++i) q(i, j) = q(i, j) - along * q(i, k);
    }
    const Dual length =
        sqrt(sum_over(a.size(0), [&](std::int64_t i) { return q(i, j) * q(i, j); }));
    for (std::int64_t i = 0; i < a.size(0); ++i) q(i, j) = q(i, j) / length;
  }
  return q;
}

// The eigenvalues of a symmetric matrix of 2, rising.
DualArray eigenvalues_of_two(const DualArray& a) {
  const Dual middle = (a(0, 0) + a(1, 1)) / 2, half = (a(0, 0) - a(1, 1)) / 2;
  const Dual root = sqrt(half * half + a(1, 0) * a(1, 0));
  return made({2}, [&](const Dims& at) { return at[0] == 0 ? middle - root : middle + root; });
}

// (a^T a)^-1 a^T of a matrix with two columns.
DualArray left_inverse(const DualArray& a) {
  return matrix_product(inverse_of_two(matrix_product(transposed(a), a)), transposed(a));
}

const std::vector<Definition> kFactors = {
    // Q Q^T and R^T R have no free signs.
    {"aten::linalg_qr, Q Q^T",
     {floats({4, 2}, 1)},
     [](const Tensors& x) {
       const DTensor q = result_of("aten::linalg_qr", {x[0], "reduced"}, 0);
       return matmul(q, transpose(q, 0, 1));
     },
     [](const Arrays& x) {
       const DualArray q = orthogonal(x[0]);
       return matrix_product(q, transposed(q));
     }},
    {"aten::linalg_qr, R^T R",
     {floats({4, 3}, 2)},
     [](const Tensors& x) {
       const DTensor r = result_of("aten::linalg_qr", {x[0], "reduced"}, 1);
       return matmul(transpose(r, 0, 1), r);
     },
     [](const Arrays& x) { return matrix_product(transposed(x[0]), x[0]); }},
    {"aten::linalg_eigvalsh",
     {floats({2, 2}, 3)},
     [](const Tensors& x) {
       return first_of("aten::linalg_eigvalsh", {x[0] + transpose(x[0], 0, 1)});
     },
     [](const Arrays& x) {
       return eigenvalues_of_two(
           made({2, 2}, [&](const Dims& at) { return x[0](at[0], at[1]) + x[0](at[1], at[0]); }));
     }},
    {"aten::linalg_svdvals",
     {floats({3, 2}, 4)},
     [](const Tensors& x) { return first_of("aten::linalg_svdvals", {x[0]}); },
     [](const Arrays& x) {
       const DualArray squares = eigenvalues_of_two(matrix_product(transposed(x[0]), x[0]));
       return made({2}, [&](const Dims& at) { return sqrt(squares(1 - at[0])); });
     }},
    {"aten::linalg_pinv",
     {floats({4, 2}, 5)},
     [](const Tensors& x) {
       return first_of("aten::linalg_pinv", {x[0], 1e-12});
     },
     [](const Arrays& x) { return left_inverse(x[0]); }},
    {"aten::linalg_lstsq",
     {floats({4, 2}, 6), floats({4, 3}, 7)},
     [](const Tensors& x) {
       return first_of("aten::linalg_lstsq", {x[0], x[1]});
     },
     [](const Arrays& x) { return matrix_product(left_inverse(x[0]), x[1]); }},
    {"aten::slogdet",
     {floats({2, 2}, 8)},
     [](const Tensors& x) { return result_of("aten::slogdet", {x[0]}, 1); },
     [](const Arrays& x) {
       return scalar(log(abs(x[0](0, 0) * x[0](1, 1) - x[0](0, 1) * x[0](1, 0))));
     }},
    {"aten::linalg_matrix_norm.str_ord",
     {floats({3, 2}, 9)},
     [](const Tensors& x) {
       return first_of("aten::linalg_matrix_norm.str_ord", {x[0], "nuc"});
     },
     [](const Arrays& x) {
       const DualArray squares = eigenvalues_of_two(matrix_product(transposed(x[0]), x[0]));
       return scalar(sqrt(squares(0)) + sqrt(squares(1)));
     }},
};

// A list of tensors in, a list out: the first and the second of it side by side.
Definition foreach (const char* op, Arguments more, std::size_t lists,
                    Dual(*f)(const Dual& a, const Dual& b, const Dual& c)) {
  std::vector<Given> given;
  for (std::size_t i = 0; i < 2 * lists; ++i)
    given.push_back(floats({3, 2}, 20 + static_cast<int>(i), 0.3, 2));
  return {op, given,
          [=](const Tensors& x) {
            Arguments args;
            for (std::size_t i = 0; i < lists; ++i) {
              args.push_back(tensors({x[2 * i], x[2 * i + 1]}));
            }
            for (const Argument& one : more) args.push_back(one);
            const Results out = recording_calls()(op, args);
            return cat({out.at(0).list().at(0).tensor(), out.at(0).list().at(1).tensor()}, 1);
          },
          [=](const Arrays& x) {
            return made({3, 4}, [&](const Dims& at) {
              const auto own = static_cast<std::size_t>(at[1] / 2);
              const auto of = [&](std::size_t list) {
                return list < lists ? x[2 * list + own](at[0], at[1] % 2) : Dual(0);
              };
              return f(of(0), of(1), of(2));
            });
          }};
}

using D = const Dual&;

const std::vector<Definition> kLists = {
    foreach ("aten::_foreach_add.List", {3}, 2, [](D a, D b, D) { return a + 3 * b; }),
    foreach ("aten::_foreach_mul.List", {}, 2, [](D a, D b, D) { return a * b; }),
    foreach ("aten::_foreach_div.Scalar", {4.0}, 1, [](D a, D, D) { return a / 4; }),
    foreach ("aten::_foreach_lerp.Scalar", {0.25}, 2,
             [](D a, D b, D) { return a + 0.25 * (b - a); }),
    foreach ("aten::_foreach_addcmul.Scalar", {0.5}, 3,
             [](D a, D b, D c) { return a + 0.5 * b * c; }),
    foreach ("aten::_foreach_addcdiv.Scalar", {2}, 3, [](D a, D b, D c) { return a + 2 * b / c; }),
    foreach ("aten::_foreach_sqrt", {}, 1, [](D a, D, D) { return sqrt(a); }),
    foreach ("aten::_foreach_exp", {}, 1, [](D a, D, D) { return exp(a); }),
    foreach ("aten::_foreach_maximum.List", {}, 2, [](D a, D b, D) { return max(a, b); }),
};

const std::vector<Definition> kTogether = {
    {"aten::block_diag",
     {floats({2, 3}, 31), floats({3, 1}, 32)},
     [](const Tensors& x) { return first_of("aten::block_diag", {tensors(x)}); },
     [](const Arrays& x) {
       return made({5, 4}, [&](const Dims& at) {
         if (at[0] < 2 && at[1] < 3) return x[0](at[0], at[1]);
         return at[0] >= 2 && at[1] == 3 ? x[1](at[0] - 2, 0) : Dual(0);
       });
     }},
    {"aten::cartesian_prod",
     {floats({6}, 33), floats({6}, 34)},  // its view refuses uneven cuts
     [](const Tensors& x) { return first_of("aten::cartesian_prod", {tensors(x)}); },
     [](const Arrays& x) {
       return made({36, 2},
                   [&](const Dims& at) { return at[1] == 0 ? x[0](at[0] / 6) : x[1](at[0] % 6); });
     }},
    {"aten::vander",
     {floats({4}, 35)},
     [](const Tensors& x) {
       return first_of("aten::vander", {x[0], 3, true});
     },
     [](const Arrays& x) {
       return made({4, 3}, [&](const Dims& at) {
         return product_over(at[1], [&](std::int64_t) { return x[0](at[0]); }) + 0 * x[0](at[0]);
       });
     }},
    {"aten::combinations",
     {floats({4}, 36)},
     [](const Tensors& x) { return first_of("aten::combinations", {x[0]}); },
     [](const Arrays& x) {
       const std::int64_t first[] = {0, 0, 0, 1, 1, 2}, second[] = {1, 2, 3, 2, 3, 3};
       return made({6, 2},
                   [&](const Dims& at) { return x[0]((at[1] == 0 ? first : second)[at[0]]); });
     }},
    {"aten::cumulative_trapezoid.dx",
     {floats({3, 5}, 37)},
     [](const Tensors& x) {
       return first_of("aten::cumulative_trapezoid.dx", {x[0], 2.0, 1});
     },
     [](const Arrays& x) {
       return made({3, 4}, [&](const Dims& at) {
         return sum_over(at[1] + 1,
                         [&](std::int64_t i) { return x[0](at[0], i) + x[0](at[0], i + 1); });
       });
     }},
    {"aten::gradient.scalarint",
     {floats({5, 3}, 38)},
     [](const Tensors& x) {
       return recording_calls()("aten::gradient.scalarint", {x[0], 0.5, 0, 1})
           .at(0)
           .list()
           .at(0)
           .tensor();
     },
     [](const Arrays& x) {
       return made({5, 3}, [&](const Dims& at) {
         const std::int64_t up = std::max<std::int64_t>(at[0] - 1, 0);
         const std::int64_t down = std::min<std::int64_t>(at[0] + 1, 4);
         return (x[0](down, at[1]) - x[0](up, at[1])) / (0.5 * static_cast<double>(down - up));
       });
     }},
    {"aten::quantile.scalar",
     {floats({5, 3}, 39)},
     [](const Tensors& x) {
       return first_of("aten::quantile.scalar", {x[0], 0.3, 0});
     },
     [](const Arrays& x) {
       return made({3}, [&](const Dims& at) {
         std::vector<Dual> column;
         for (std::int64_t i = 0; i < 5; ++i) column.push_back(x[0](i, at[0]));
         std::ranges::sort(column, [](const Dual& a, const Dual& b) { return a.value < b.value; });
         return column[1] + 0.2 * (column[2] - column[1]);  // place 0.3 * 4
       });
     }},
    {"aten::outer",
     {floats({4}, 40), floats({3}, 41)},
     nullptr,
     [](const Arrays& x) {
       return made({4, 3}, [&](const Dims& at) { return x[0](at[0]) * x[1](at[1]); });
     }},
    {"aten::inner",
     {floats({4, 3}, 42), floats({5, 3}, 43)},
     nullptr,
     [](const Arrays& x) {
       return made({4, 5}, [&](const Dims& at) {
         return sum_over(3, [&](std::int64_t i) { return x[0](at[0], i) * x[1](at[1], i); });
       });
     }},
};

}  // namespace

TEST_CASE("V-18 factors of small matrices are their closed forms, in value and in gradient") {
  check_definitions(kFactors);
}

TEST_CASE("V-18 ops on lists do to each element of a list what they say, wherever it lies") {
  check_definitions(kLists);
}

TEST_CASE("V-17 results of several tensors are those of the definition") {
  check_definitions(kTogether);
}
