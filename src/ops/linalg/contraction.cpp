// Products that sum over dims of several tensors: einsum, tensordot, kron and their kin. Each step
// is the reference's: dims are permuted side by side, and the rest is one matrix product.
#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <string>

#include "ops/family.h"

namespace shardlab {
namespace {

DTensor permuted(Calls& calls, const DTensor& x, const Dims& order) {
  return calls.one("permute", {x, order});
}

DTensor summed_over(Calls& calls, const DTensor& x, const Dims& dims) {
  return dims.empty() ? x : calls.one("sum.dim_IntList", {x, dims, true});
}

// einsum(equation, tensors, *, path)

/// Represents three dots in the letters of an operand.
constexpr char kEllipsis = '.';

[[noreturn]] void refuse_equation(std::string_view equation, std::string summary) {
  fail(Fix{"write a letter for each dim: \"ij,jk->ik\""}, "einsum(\"{}\"): {}", equation, summary);
}

std::string letters_of(std::string_view equation, std::string_view part) {
  std::string letters;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] == ' ') continue;
    if (std::isalpha(static_cast<unsigned char>(part[i])) != 0) {
      letters += part[i];
      continue;
    }
    if (!part.substr(i).starts_with("...") || letters.find(kEllipsis) != std::string::npos) {
      refuse_equation(equation, fmt::format("'{}' is no letter", part[i]));
    }
    letters += kEllipsis;
    i += 2;
  }
  return letters;
}

/// The order of the dims of operands: those of the result, then those that are summed.
struct Equation {
  std::string text;
  std::vector<std::string> operands;
  std::array<std::int64_t, 128> place{};  ///< of a letter, and of an ellipsis's first dim
  std::int64_t dots = 0;                  ///< dims of the longest ellipsis
  std::int64_t kept = 0, all = 0;         ///< dims of the result; and those that are summed

  std::int64_t& place_of(char letter) { return place[static_cast<std::size_t>(letter)]; }
  std::int64_t width_of(char letter) const { return letter == kEllipsis ? dots : 1; }
};

/// The dims that an operand's ellipsis means.
std::int64_t dots_of(const Equation& equation, const std::string& letters, std::size_t ndim) {
  const bool dotted = letters.find(kEllipsis) != std::string::npos;
  const std::size_t named = letters.size() - (dotted ? 1 : 0);
  if (dotted ? named > ndim : named != ndim) {
    refuse_equation(equation.text, fmt::format("\"{}\" has {} letters for a tensor of {} dims",
                                               letters, named, ndim));
  }
  return static_cast<std::int64_t>(ndim - named);
}

/// The result without an arrow: the ellipsis, then the letters that occur once, in their order.
std::string implied_result(const Equation& equation) {
  std::string all, once;
  for (const std::string& letters : equation.operands) all += letters;
  if (all.find(kEllipsis) != std::string::npos) once += kEllipsis;
  std::ranges::sort(all);
  for (const char letter : all) {
    if (letter != kEllipsis && std::ranges::count(all, letter) == 1) once += letter;
  }
  return once;
}

Equation parse_equation(const std::string& text, const std::vector<DTensor>& tensors) {
  Equation equation{text};
  const std::size_t arrow = text.find("->");
  const std::string_view left = std::string_view(text).substr(0, arrow);
  for (std::size_t at = 0; at <= left.size();) {
    const std::size_t comma = std::min(left.find(',', at), left.size());
    equation.operands.push_back(letters_of(text, left.substr(at, comma - at)));
    at = comma + 1;
  }
  if (equation.operands.size() != tensors.size()) {
    refuse_equation(text, fmt::format("there are {} operands for {} tensors",
                                      equation.operands.size(), tensors.size()));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    equation.dots =
        std::max(equation.dots, dots_of(equation, equation.operands[i], tensors[i].ndim()));
  }
  const std::string result = arrow == std::string::npos
                                 ? implied_result(equation)
                                 : letters_of(text, std::string_view(text).substr(arrow + 2));
  equation.place.fill(-1);
  const auto add = [&](char letter) {
    equation.place_of(letter) = equation.all;
    equation.all += equation.width_of(letter);
  };
  std::string given;
  for (const std::string& letters : equation.operands) given += letters;
  for (const char letter : result) {
    if (given.find(letter) == std::string::npos && letter != kEllipsis) {
      refuse_equation(text, fmt::format("no operand has the letter '{}' of the result", letter));
    }
    if (equation.place_of(letter) >= 0) {
      refuse_equation(text, fmt::format("'{}' is twice in the result", letter));
    }
    add(letter);
  }
  equation.kept = equation.all;
  std::ranges::sort(given);
  for (const char letter : given) {
    if (equation.place_of(letter) < 0) add(letter);
  }
  return equation;
}

/// With a dim for each letter of the equation, in their order; a letter that occurs twice means the
/// diagonal. Counts in `holders` the operands with more than one element there.
DTensor aligned(Calls& calls, Equation& equation, const std::string& letters, DTensor x,
                Dims& sizes, Dims& holders) {
  Dims order(index_of(equation.all), -1);
  const std::int64_t dots = dots_of(equation, letters, x.ndim());
  std::int64_t dim = 0;
  const auto put = [&](std::int64_t place, char letter) {
    const std::int64_t size = x.shape()[index_of(dim)];
    std::int64_t& common = sizes[index_of(place)];
    if (size != 1 && common != 1 && common != size) {
      refuse_equation(equation.text,
                      fmt::format("'{}' has the sizes {} and {}", letter, common, size));
    }
    if (size != 1) {
      common = size;
      ++holders[index_of(place)];
    }
    order[index_of(place)] = dim++;
  };
  for (const char letter : letters) {
    const std::int64_t place = equation.place_of(letter);
    if (letter == kEllipsis) {
      for (std::int64_t i = equation.dots - dots; i < equation.dots; ++i) put(place + i, letter);
    } else if (order[index_of(place)] < 0) {
      put(place, letter);
    } else {
      const std::int64_t first = order[index_of(place)];
      if (x.shape()[index_of(first)] != x.shape()[index_of(dim)]) {
        refuse_equation(equation.text,
                        fmt::format("'{}' has the sizes {} and {}", letter,
                                    x.shape()[index_of(first)], x.shape()[index_of(dim)]));
      }
      const DTensor diagonal = calls.one("diagonal", {x, 0, first, dim});
      x = calls.one("movedim.int", {diagonal, -1, first});
    }
  }
  for (std::int64_t& place : order) {
    if (place >= 0) continue;
    x = calls.one("unsqueeze", {x, dim});
    place = dim++;
  }
  return permuted(calls, x, order);
}

/// The dims of two aligned tensors by the tensors that have them; a batch of matrix products keeps
/// those of both, of the left and of the right one.
struct Contracted {
  Dims both, left, right, summed;
  std::int64_t size_of_both = 1, size_of_left = 1, size_of_right = 1, size_of_summed = 1;
};

Contracted contracted(const DTensor& left, const DTensor& right, const Dims& summed) {
  Contracted dims;
  dims.summed = summed;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(left.ndim()); ++d) {
    const std::int64_t of_left = left.shape()[index_of(d)], of_right = right.shape()[index_of(d)];
    if (std::ranges::find(summed, d) != summed.end()) {
      dims.size_of_summed *= of_left;
    } else if (of_left != 1 && of_right != 1) {
      dims.both.push_back(d);
      dims.size_of_both *= of_left;
    } else if (of_left != 1) {
      dims.left.push_back(d);
      dims.size_of_left *= of_left;
    } else {
      dims.right.push_back(d);
      dims.size_of_right *= of_right;
    }
  }
  return dims;
}

Dims joined(std::initializer_list<const Dims*> lists) {
  Dims all;
  for (const Dims* list : lists) {
    for (const std::int64_t dim : *list) all.push_back(dim);
  }
  return all;
}

/// Sums their product over `summed`, in which both have more than one element.
DTensor product_of_pair(Calls& calls, const DTensor& left, const DTensor& right,
                        const Dims& summed) {
  if (summed.empty()) return calls.one("mul.Tensor", {left, right});
  const Contracted dims = contracted(left, right, summed);
  const DTensor rows =
      permuted(calls, left, joined({&dims.both, &dims.left, &summed, &dims.right}));
  const DTensor a =
      reshape(calls, rows, Dims{dims.size_of_both, dims.size_of_left, dims.size_of_summed});
  const DTensor columns =
      permuted(calls, right, joined({&dims.both, &summed, &dims.right, &dims.left}));
  const DTensor b =
      reshape(calls, columns, Dims{dims.size_of_both, dims.size_of_summed, dims.size_of_right});
  const Dims order = joined({&dims.both, &dims.left, &summed, &dims.right});
  Dims shape;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool of_right = i >= order.size() - dims.right.size();
    const bool is_summed = std::ranges::find(summed, order[i]) != summed.end();
    shape.push_back(is_summed ? 1 : (of_right ? right : left).shape()[index_of(order[i])]);
  }
  const DTensor result = calls.one("bmm", {a, b});
  return permuted(calls, calls.one("view", {result, shape}), inverse_of(order));
}

/// The next two tensors as one. `holders`: number of remaining tensors with more than one element
/// along each dim; the last two to have a dim that is not kept are summed over it.
DTensor contracted_pair(Calls& calls, DTensor a, DTensor b, std::int64_t kept, Dims& holders) {
  Dims of_both, of_a, of_b;
  for (std::size_t d = index_of(kept); d < holders.size(); ++d) {
    const bool in_a = a.shape()[d] != 1, in_b = b.shape()[d] != 1;
    const bool summed = in_a && in_b ? --holders[d] == 1 : (in_a || in_b) && holders[d] == 1;
    if (!summed) continue;
    holders[d] = 0;
    (in_a && in_b ? of_both : in_a ? of_a : of_b).push_back(static_cast<std::int64_t>(d));
  }
  a = summed_over(calls, a, of_a);
  b = summed_over(calls, b, of_b);
  return product_of_pair(calls, a, b, of_both);
}

std::vector<DTensor> operands_of(const Argument& list, std::string_view op) {
  std::vector<DTensor> tensors;
  for (const Argument& element : list.list()) tensors.push_back(element.tensor());
  if (!tensors.empty()) return tensors;
  fail(Fix{"give it tensors"}, "{} takes at least one tensor", op);
}

Results einsum(Calls& calls, const Arguments& args) {
  std::vector<DTensor> tensors = operands_of(args[1], "einsum");
  if (!args[2].is_none()) {
    fail(ErrorKind::kUnsupported, Fix{"leave path out; give the tensors in the order wanted"},
         "not yet supported: a path in einsum");
  }
  Equation equation = parse_equation(args[0].string(), tensors);
  Dims sizes(index_of(equation.all), 1), holders(index_of(equation.all), 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i] = aligned(calls, equation, equation.operands[i], tensors[i], sizes, holders);
  }
  const bool alone = tensors.size() == 1;
  while (tensors.size() > 1) {
    const DTensor product_of =
        contracted_pair(calls, tensors[0], tensors[1], equation.kept, holders);
    tensors.erase(tensors.begin(), tensors.begin() + 2);
    tensors.insert(tensors.begin(), product_of);
  }
  const DTensor& result = tensors[0];
  if (equation.all == equation.kept) return {result};
  if (alone) {
    Dims rest(index_of(equation.all - equation.kept));
    std::iota(rest.begin(), rest.end(), equation.kept);
    return {calls.one("sum.dim_IntList", {result, rest})};
  }
  return {calls.one(
      "view", {result, Dims(result.shape().begin(), result.shape().begin() + equation.kept)})};
}

/// tensordot(self, other, dims_self, dims_other)
DTensor contracted_dims(Calls& calls, DTensor a, DTensor b, const Dims& of_a, const Dims& of_b) {
  const Dims from = wrap_dims(of_a, a.ndim()), to = wrap_dims(of_b, b.ndim());
  if (from.size() != to.size()) {
    fail(Fix{"name as many dims of each"},
         "tensordot: dims names {} dims of the first tensor and {} of the second; it must name as "
         "many of both",
         from.size(), to.size());
  }
  std::int64_t inner = 1;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t left = a.shape()[index_of(from[i])], right = b.shape()[index_of(to[i])];
    if (left != right && left != 1 && right != 1) {
      fail(Fix{"name dims of one size, or of size 1"},
           "tensordot: dim {} has {} elements, dim {} of the other tensor {}", from[i], left, to[i],
           right);
    }
    if (right == 1) a = calls.one("sum.dim_IntList", {a, Dims{from[i]}, true, a.dtype()});
    if (left == 1 && right != 1) {
      b = calls.one("sum.dim_IntList", {b, Dims{to[i]}, true, b.dtype()});
    }
    if (left != 1 && right != 1) inner *= left;
  }
  Dims shape, rows, columns = to;
  std::int64_t size_of_rows = 1, size_of_columns = 1;
  const auto keep = [&](const DTensor& x, const Dims& out_of, Dims& order, std::int64_t& size) {
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(x.ndim()); ++d) {
      if (std::ranges::find(out_of, d) != out_of.end()) continue;
      order.push_back(d);
      shape.push_back(x.shape()[index_of(d)]);
      size *= shape.back();
    }
  };
  keep(a, from, rows, size_of_rows);
  keep(b, to, columns, size_of_columns);
  a = permuted(calls, a, joined({&rows, &from}));
  b = permuted(calls, b, columns);
  if (shape.empty()) {
    return calls.one("dot", {reshape(calls, a, Dims{inner}), reshape(calls, b, Dims{inner})});
  }
  const DTensor result = calls.one("mm", {reshape(calls, a, Dims{size_of_rows, inner}),
                                          reshape(calls, b, Dims{inner, size_of_columns})});
  return reshape(calls, result, shape);
}

Results tensordot(Calls& calls, const Arguments& args) {
  return {contracted_dims(calls, args[0].tensor(), args[1].tensor(), ints_of(args[2]),
                          ints_of(args[3]))};
}

/// inner(self, other): over the last dims
Results inner(Calls& calls, const Arguments& args) {
  const DTensor &a = args[0].tensor(), &b = args[1].tensor();
  if (a.ndim() == 0 || b.ndim() == 0) return {calls.one("mul.Tensor", {a, b})};
  if (a.shape().back() != b.shape().back()) {
    fail(Fix{"give tensors whose last dims are equally long"},
         "inner: the last dims have {} and {} elements", a.shape().back(), b.shape().back());
  }
  return {contracted_dims(calls, a, b, Dims{-1}, Dims{-1})};
}

/// linalg_vecdot(x, y, *, dim)
Results vecdot(Calls& calls, const Arguments& args) {
  const DTensor &x = args[0].tensor(), &y = args[1].tensor();
  if (x.ndim() == 1 && y.ndim() == 1) return {calls.one("vdot", {x, y})};
  const DTensor terms = calls.one("mul.Tensor", {conjugated(calls, x), y});
  return {calls.one("sum.dim_IntList", {terms, Dims{args[2].to_int()}})};
}

/// kron(self, other): each element of self times all of other, dim by dim
Results kron(Calls& calls, const Arguments& args) {
  const std::size_t ndim = std::max(args[0].tensor().ndim(), args[1].tensor().ndim());
  const auto size_of = [&](const DTensor& x, std::size_t d) -> std::int64_t {
    const std::size_t missing = ndim - x.ndim();
    return d < missing ? 1 : x.shape()[d - missing];
  };
  Dims outer, within, shape;
  for (std::size_t d = 0; d < ndim; ++d) {
    const std::int64_t a = size_of(args[0].tensor(), d), b = size_of(args[1].tensor(), d);
    outer.push_back(a);
    outer.push_back(1);
    within.push_back(1);
    within.push_back(b);
    shape.push_back(a * b);
  }
  const DTensor terms = calls.one("mul.Tensor", {reshape(calls, args[0].tensor(), outer),
                                                 reshape(calls, args[1].tensor(), within)});
  return {reshape(calls, terms, shape)};
}

/// cross(self, other, dim): without a dim, the first of size 3
Results cross_over(Calls& calls, const Arguments& args) {
  const Dims& shape = args[0].tensor().shape();
  Argument dim = args[2];
  if (dim.is_none()) {
    const auto* three = std::ranges::find(shape, 3);
    if (three == shape.end()) {
      fail(Fix{"give vectors of three elements along some dim"},
           "cross: no dim of [{}] has 3 elements", text_of_list(shape, ", "));
    }
    dim = static_cast<std::int64_t>(three - shape.begin());
  }
  return {calls.one("linalg_cross", {args[0], args[1], dim})};
}

/// bilinear(input1, input2, weight [out, in1, in2], bias)
Results bilinear(Calls& calls, const Arguments& args) {
  const DTensor &first = args[0].tensor(), &second = args[1].tensor(), &weight = args[2].tensor();
  const bool fits =
      first.ndim() == second.ndim() && first.ndim() > 0 && weight.ndim() == 3 &&
      std::equal(first.shape().begin(), first.shape().end() - 1, second.shape().begin()) &&
      first.shape().back() == weight.shape()[1] && second.shape().back() == weight.shape()[2];
  if (!fits) {
    fail(Fix{"give inputs [.., in1] and [.., in2] with one batch, and a weight [out, in1, in2]"},
         "bilinear: inputs [{}] and [{}] do not fit the weight [{}]",
         text_of_list(first.shape(), ", "), text_of_list(second.shape(), ", "),
         text_of_list(weight.shape(), ", "));
  }
  require_one_dtype(
      "bilinear",
      {{"input1", args[0]}, {"input2", args[1]}, {"weight", args[2]}, {"bias", args[3]}});
  const auto rows = [&](const DTensor& x) { return reshape(calls, x, Dims{-1, x.shape().back()}); };
  Dims shape = first.shape();
  shape.back() = weight.shape()[0];
  const DTensor terms = calls.one("_trilinear", {rows(first), weight, rows(second), Dims{1, 3},
                                                 Dims{0}, Dims{1, 2}, Dims{2, 3}});
  const DTensor result = reshape(calls, terms, shape);
  return {args[3].is_tensor() ? calls.one("add.Tensor", {result, args[3]}) : result};
}

// linalg_multi_dot(tensors): a chain of matrices, from the cheapest product on; the first and the
// last may be vectors.

/// The places where the matrices from i to j are parted: [i][j].
using Parts = std::vector<std::vector<std::size_t>>;

/// The reference's order: the least multiplications; of equally many the first parting.
Parts cheapest_parts(const std::vector<DTensor>& chain) {
  const std::size_t count = chain.size();
  Parts parts(count, std::vector<std::size_t>(count));
  std::vector<std::vector<double>> costs(count, std::vector<double>(count));
  const auto rows = [&](std::size_t i) { return static_cast<double>(chain[i].shape()[0]); };
  const auto columns = [&](std::size_t i) { return static_cast<double>(chain[i].shape()[1]); };
  for (std::size_t length = 1; length < count; ++length) {
    for (std::size_t i = 0; i + length < count; ++i) {
      const std::size_t j = i + length;
      for (std::size_t k = i; k < j; ++k) {
        const double cost = costs[i][k] + costs[k + 1][j] + rows(i) * columns(k) * columns(j);
        // Three matrices are multiplied from the left where both ways cost the same.
        if (k > i && (count == 3 ? cost > costs[i][j] : cost >= costs[i][j])) continue;
        costs[i][j] = cost;
        parts[i][j] = k;
      }
    }
  }
  return parts;
}

DTensor chain_product(Calls& calls, const std::vector<DTensor>& chain, const Parts& parts,
                      std::size_t first, std::size_t last) {
  if (first == last) return chain[first];
  const std::size_t middle = parts[first][last];
  const DTensor left = chain_product(calls, chain, parts, first, middle);
  const DTensor right = chain_product(calls, chain, parts, middle + 1, last);
  return calls.one("mm", {left, right});
}

Results multi_dot(Calls& calls, const Arguments& args) {
  std::vector<DTensor> chain = operands_of(args[0], "linalg_multi_dot");
  if (chain.size() == 1) {
    fail(Fix{"give at least two factors"}, "linalg_multi_dot: one tensor makes no product");
  }
  const bool row = chain.front().ndim() == 1, column = chain.back().ndim() == 1;
  if (row) chain.front() = calls.one("unsqueeze", {chain.front(), 0});
  if (column) chain.back() = calls.one("unsqueeze", {chain.back(), -1});
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const bool fits =
        chain[i].ndim() == 2 && (i == 0 || chain[i - 1].shape()[1] == chain[i].shape()[0]);
    if (fits) continue;
    fail(Fix{"give matrices, each with as many rows as the one before has columns"},
         "linalg_multi_dot: tensor {} has shape [{}]; it must be a matrix, with as many rows as "
         "the one before has columns",
         i, text_of_list(chain[i].shape(), ", "));
  }
  Dims shape;
  if (!row) shape.push_back(chain.front().shape()[0]);
  if (!column) shape.push_back(chain.back().shape()[1]);
  const DTensor result = chain_product(calls, chain, cheapest_parts(chain), 0, chain.size() - 1);
  return {calls.one("view", {result, shape})};
}

/// chain_matmul(matrices): the same of matrices alone, and of one of them itself.
Results chain_matmul(Calls& calls, const Arguments& args) {
  const std::vector<DTensor> chain = operands_of(args[0], "chain_matmul");
  for (std::size_t i = 0; i < chain.size(); ++i) {
    if (chain[i].ndim() == 2) continue;
    fail(Fix{"use linalg.multi_dot, which takes vectors at its ends"},
         "chain_matmul: tensor {} has shape [{}]; it must be a matrix", i,
         text_of_list(chain[i].shape(), ", "));
  }
  return chain.size() == 1 ? Results{chain[0]} : multi_dot(calls, args);
}

// Powers of a matrix by squaring.

/// linalg_matrix_power(self, n), matrix_power
Results matrix_power(Calls& calls, const Arguments& args) {
  DTensor x = args[0].tensor();
  if (x.ndim() < 2 || x.shape()[x.ndim() - 1] != x.shape()[x.ndim() - 2]) {
    fail(Fix{"give square matrices"},
         "linalg_matrix_power: the matrices have shape [{}]; they must be square",
         text_of_list(x.shape(), ", "));
  }
  const std::int64_t n = args[1].to_int();
  if (n == 0) {
    const DTensor ones = calls.one("new_ones", {x, Dims{x.shape().back()}});
    // Written into a copy, as in the reference: its gradient is zeros.
    const DTensor copy = calls.one("clone", {grad::reduced(calls, x)});
    return {calls.one("copy_", {copy, calls.one("diag_embed", {ones})})};
  }
  if (n == 1) return {calls.one("clone", {x})};
  if (n < 0) x = calls.one("linalg_inv", {x});
  // The least integer has no opposite.
  const auto power = n < 0 ? 0 - static_cast<std::uint64_t>(n) : static_cast<std::uint64_t>(n);
  const auto times = [&](const DTensor& a, const DTensor& b) {
    return calls.one("matmul", {a, b});
  };
  if (power == 3) {
    const DTensor square = times(x, x);
    return {times(square, x)};
  }
  DTensor square, result;
  for (std::uint64_t rest = power; rest > 0; rest /= 2) {
    square = square.defined() ? times(square, square) : x;
    if (rest % 2 == 1) result = result.defined() ? times(result, square) : square;
  }
  return {result};
}

constexpr const char* kSteps = "a matrix product between views";

// Sorted by name.
// clang-format off
constexpr Row kContractionRows[] = {
    composite("bilinear"_op, bilinear, "_trilinear"),
    composite("chain_matmul"_op, chain_matmul, "mm"),
    composite("cross"_op, cross_over, "linalg_cross"),
    composite("einsum"_op, einsum, kSteps),
    composite("inner"_op, inner, kSteps),
    composite("kron"_op, kron, "a product between views"),
    composite("linalg_matrix_power"_op, matrix_power, "matmul"),
    composite("linalg_multi_dot"_op, multi_dot, "mm"),
    composite("linalg_vecdot"_op, vecdot, "a product and a sum"),
    composite("matrix_power"_op, matrix_power, "matmul"),
    composite("tensordot"_op, tensordot, kSteps),
};
// clang-format on

}  // namespace

void register_contraction(OpRegistry& registry) { add_rows(registry, kContractionRows); }

}  // namespace shardlab
