// Drawn chains of ops, run on pieces, terms and replicas of a drawn value and on the value itself:
// the label that the judge finds for the ranks' values is put together by brute force, which sums
// and places each element by its own, and has to give the chain's result for the whole. Chains
// whose ops keep labels by definition must have one. SHARDLAB_CHAINS: the number of chains, 10,000.
#include "sim/verify/labels/label.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>

#include "mesh/type_string.h"

using namespace shardlab;

namespace {

using Random = std::mt19937_64;

// Two tensor dims, row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> at;
  double& operator()(std::int64_t i, std::int64_t j) {
    return at[static_cast<std::size_t>(i * columns + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return at[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix zeros(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns), 0)};
}

Matrix part(const Matrix& x, std::int64_t row, std::int64_t rows, std::int64_t column,
            std::int64_t columns) {
  Matrix result = zeros(rows, columns);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) result(i, j) = x(row + i, column + j);
  }
  return result;
}

GlobalValue value_of(const Matrix& x) {
  return {contiguous_meta(Dims{x.rows, x.columns}, DType::kF64), x.at, {}};
}

std::int64_t below(Random& random, std::int64_t limit) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(limit));
}

Matrix drawn(std::int64_t rows, std::int64_t columns, Random& random) {
  Matrix result = zeros(rows, columns);
  for (double& number : result.at) number = static_cast<double>(random() % 2000) / 500.0 - 2.0;
  return result;
}

const MeshLayout* mesh_of(Dims shape) {
  MeshLayout::Init init;
  init.shape = shape;
  for (std::size_t i = 0; i < shape.size(); ++i) init.names.push_back(std::string(1, 'a' + i));
  return process_arena().layout(std::move(init));
}

// torch.chunk's piece number `k` of `n`: first index and length.
std::pair<std::int64_t, std::int64_t> chunk(std::int64_t length, std::int64_t n, std::int64_t k) {
  const std::int64_t each = (length + n - 1) / n;
  const std::int64_t begin = std::min(k * each, length);
  return {begin, std::min(begin + each, length) - begin};
}

// The mesh dims one after the other, in `order`, cut or split the value of each rank.
std::vector<Matrix> dealt_out(const Matrix& whole, const Placements& placements,
                              const std::vector<std::size_t>& order, const MeshLayout& layout,
                              Random& random) {
  std::vector<Matrix> held(static_cast<std::size_t>(layout.size()), whole);
  for (const std::size_t dim : order) {
    const std::int64_t n = layout.size(dim);
    for (std::int64_t r = 0; r < layout.size(); ++r) {
      const Coordinate own = layout.coordinate_at_index(r);
      Matrix& x = held[static_cast<std::size_t>(r)];
      if (placements[dim].is_shard(0)) {
        const auto [begin, length] = chunk(x.rows, n, own[dim]);
        x = part(x, begin, length, 0, x.columns);
      } else if (placements[dim].is_shard(1)) {
        const auto [begin, length] = chunk(x.columns, n, own[dim]);
        x = part(x, 0, x.rows, begin, length);
      }
    }
    if (!placements[dim].is_partial()) continue;
    const bool average = placements[dim].op == ReduceOp::kAvg;
    for (std::int64_t r = 0; r < layout.size(); ++r) {  // terms: drawn, except the first one
      Coordinate own = layout.coordinate_at_index(r);
      if (own[dim] != 0) continue;
      const auto first = static_cast<std::size_t>(r);
      if (average) {
        for (double& number : held[first].at) number *= static_cast<double>(n);
      }
      for (std::int64_t k = 1; k < n; ++k) {
        own[dim] = k;
        Matrix& other = held[static_cast<std::size_t>(layout.index_of(own))];
        other = drawn(other.rows, other.columns, random);
        for (std::size_t i = 0; i < other.at.size(); ++i) held[first].at[i] -= other.at[i];
      }
    }
  }
  return held;
}

enum class Op : std::uint8_t {
  kScale,
  kSquare,
  kTranspose,
  kProduct,  // with a matrix that all ranks have
  kSumRows,
  kSoftmaxRow,
  kRollRows,
  kAddOne,
  kLast = kAddOne,
};

Matrix applied(Op op, const Matrix& x, const Matrix& right) {
  Matrix result = x;
  if (op == Op::kTranspose) result = zeros(x.columns, x.rows);
  if (op == Op::kProduct) result = zeros(x.rows, right.columns);
  if (op == Op::kSumRows) result = zeros(1, x.columns);
  for (std::int64_t i = 0; i < x.rows; ++i) {
    double sum = 0;
    for (std::int64_t j = 0; j < x.columns; ++j) sum += std::exp(x(i, j));
    for (std::int64_t j = 0; j < x.columns; ++j) {
      const double own = x(i, j);
      if (op == Op::kScale) result(i, j) = -1.5 * own;
      if (op == Op::kSquare) result(i, j) = own * own;
      if (op == Op::kTranspose) result(j, i) = own;
      if (op == Op::kSumRows) result(0, j) += own;
      if (op == Op::kSoftmaxRow) result(i, j) = std::exp(own) / sum;
      if (op == Op::kRollRows) result((i + 1) % x.rows, j) = own;
      if (op == Op::kAddOne) result(i, j) = own + 1;
      if (op != Op::kProduct) continue;
      for (std::int64_t k = 0; k < right.columns; ++k) result(i, k) += own * right(j, k);
    }
  }
  return result;
}

// The definition: terms and pieces of tensor dims are those of the result, too.
bool keeps(Op op, const Placements& placements) {
  return std::ranges::all_of(placements, [&](const Placement& placement) {
    if (placement.is_replicate()) return true;
    const bool linear = op == Op::kScale || op == Op::kTranspose || op == Op::kProduct ||
                        op == Op::kSumRows || op == Op::kRollRows;
    if (placement.is_partial()) return linear;
    const bool rows = op == Op::kSumRows || op == Op::kRollRows;
    const bool columns = op == Op::kProduct || op == Op::kSoftmaxRow;
    return placement.dim == 0 ? !rows : !columns;
  });
}

// Whether the rank at index `a` is before that at `b` along a tensor dim, by its cutting order.
bool before(const Label& label, const MeshLayout& layout, std::int64_t tensor_dim, std::int64_t a,
            std::int64_t b) {
  const Coordinate x = layout.coordinate_at_index(a), y = layout.coordinate_at_index(b);
  for (std::int32_t place = 0; place < static_cast<std::int32_t>(layout.ndim()); ++place) {
    for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
      if (!label.placements[dim].is_shard(tensor_dim) || label.order[dim] != place) continue;
      if (x[dim] != y[dim]) return x[dim] < y[dim];
    }
  }
  return false;
}

// Whether they differ in no other mesh dims than those that cut the tensor dim.
bool in_line(const Label& label, const MeshLayout& layout, std::int64_t tensor_dim, std::int64_t a,
             std::int64_t b) {
  const Coordinate x = layout.coordinate_at_index(a), y = layout.coordinate_at_index(b);
  for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
    if (x[dim] != y[dim] && !label.placements[dim].is_shard(tensor_dim)) return false;
  }
  return true;
}

// Each element where it belongs; nothing where extremes are among the terms.
std::optional<Matrix> put_together(const std::vector<Matrix>& held, const Label& label,
                                   const MeshLayout& layout, const Matrix& like) {
  Matrix whole = zeros(like.rows, like.columns);
  for (std::int64_t r = 0; r < layout.size(); ++r) {
    const Matrix& own = held[static_cast<std::size_t>(r)];
    double weight = 1;
    for (std::size_t dim = 0; dim < layout.ndim(); ++dim) {
      const Placement& placement = label.placements[dim];
      const auto n = static_cast<double>(layout.size(dim));
      if (placement.is_partial() && placement.op == ReduceOp::kMax) return std::nullopt;
      if (placement.is_partial() && placement.op == ReduceOp::kMin) return std::nullopt;
      const bool average = placement.is_partial() && placement.op == ReduceOp::kAvg;
      if (placement.is_replicate() || average) weight /= n;  // replicas: their mean
    }
    std::int64_t row = 0, column = 0;
    for (std::int64_t other = 0; other < layout.size(); ++other) {
      const Matrix& piece = held[static_cast<std::size_t>(other)];
      if (in_line(label, layout, 0, other, r) && before(label, layout, 0, other, r)) {
        row += piece.rows;
      }
      if (in_line(label, layout, 1, other, r) && before(label, layout, 1, other, r)) {
        column += piece.columns;
      }
    }
    REQUIRE(row + own.rows <= whole.rows);
    REQUIRE(column + own.columns <= whole.columns);
    for (std::int64_t i = 0; i < own.rows; ++i) {
      for (std::int64_t j = 0; j < own.columns; ++j) {
        whole(row + i, column + j) += weight * own(i, j);
      }
    }
  }
  return whole;
}

double farthest_apart(const Matrix& a, const Matrix& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.at.size(); ++i) most = std::max(most, std::fabs(a.at[i] - b.at[i]));
  return most;
}

struct Chain {
  const MeshLayout* layout = nullptr;
  Placements placements;
  std::vector<std::size_t> order;  // the first cuts first
  Matrix whole;
  std::vector<Matrix> held;
  bool kept = true;  // by definition under the label of its beginning
};

Chain drawn_chain(Random& random) {
  Chain chain;
  Dims shape(static_cast<std::size_t>(1 + below(random, 3)), 1);
  for (std::int64_t& size : shape) size = 1 + below(random, 3);
  chain.layout = mesh_of(shape);
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const Placement choices[] = {Placement::replicate(), Placement::shard(0), Placement::shard(1),
                                 Placement::partial(ReduceOp::kSum),
                                 Placement::partial(ReduceOp::kAvg)};
    chain.placements.push_back(choices[below(random, 5)]);
    chain.order.push_back(dim);
  }
  std::ranges::shuffle(chain.order, random);
  chain.whole = drawn(1 + below(random, 9), 1 + below(random, 9), random);
  chain.held = dealt_out(chain.whole, chain.placements, chain.order, *chain.layout, random);
  for (std::int64_t ops = below(random, 4); ops > 0; --ops) {
    const auto op = static_cast<Op>(below(random, static_cast<std::int64_t>(Op::kLast) + 1));
    const bool local_product = std::ranges::any_of(
        chain.held, [&](const Matrix& own) { return own.columns != chain.whole.columns; });
    if (op == Op::kProduct && local_product) continue;
    const Matrix right = drawn(chain.whole.columns, 3, random);
    chain.kept = chain.kept && keeps(op, chain.placements);
    for (Matrix& own : chain.held) own = applied(op, own, right);
    chain.whole = applied(op, chain.whole, right);
    if (op != Op::kTranspose) continue;
    for (Placement& placement : chain.placements) {
      if (placement.is_shard()) placement = Placement::shard(1 - placement.dim);
    }
  }
  return chain;
}

}  // namespace

TEST_CASE("V-32 labels of drawn chains are what brute force puts together") {
  const char* text = std::getenv("SHARDLAB_CHAINS");
  const int count = text != nullptr ? std::atoi(text) : 10000;
  constexpr double kRelative = 1e-9;
  int labelled = 0, turned = 0;
  for (int seed = 0; seed < count; ++seed) {
    CAPTURE(seed);
    Random random(static_cast<std::uint64_t>(seed));
    const Chain chain = drawn_chain(random);
    std::vector<GlobalValue> held;
    for (const Matrix& own : chain.held) held.push_back(value_of(own));
    const auto label = label_of(held, value_of(chain.whole), *chain.layout, kRelative);
    if (chain.kept) REQUIRE((label && !label->by_rows()));
    if (!label || label->by_rows()) continue;
    const auto whole = put_together(chain.held, *label, *chain.layout, chain.whole);
    if (!whole) continue;
    ++labelled;
    turned += is_default_order(label->placements, label->order) ? 0 : 1;
    const double scale = farthest_apart(chain.whole, zeros(chain.whole.rows, chain.whole.columns));
    REQUIRE(farthest_apart(*whole, chain.whole) <= 10 * kRelative * scale);
  }
  MESSAGE(count, " chains, ", labelled, " labelled, ", turned, " in another cutting order");
  CHECK(labelled > count / 2);
  CHECK(turned > count / 100);
}
