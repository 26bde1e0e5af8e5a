// Attention says which dim of its operands is the sequence; calls that keep that dim carry it from
// there to the values before and behind, until nothing is added.
#include "sim/remesh/sequence_dims.h"

#include <algorithm>
#include <optional>
#include <set>

namespace shardlab {

namespace {

class SequenceFinder {
 public:
  explicit SequenceFinder(const CallProgram& program) : program_(program) {
    for (const Statement& one : program.statements) {
      for (const std::int32_t v : one.outs) maker_.emplace(v, &one);
    }
  }

  std::map<std::int32_t, SequenceDim> find() {
    for (const Statement& one : program_.statements) begin_at(one);
    for (std::size_t known = 0; known != dims_.size();) {
      known = dims_.size();
      for (const Statement& one : program_.statements) carry(one);
      std::ranges::for_each(program_.statements.rbegin(), program_.statements.rend(),
                            [&](const Statement& one) { carry(one); });
    }
    return std::move(dims_);
  }

 private:
  // The dim that is `from_end` before the end.
  void label(std::int32_t value, std::size_t from_end) {
    const Dims shape = program_.shape_of(value);
    const std::size_t dim = shape.size() - from_end;
    if (shape.size() >= 3) dims_.emplace(value, SequenceDim{dim, shape[dim]});
  }

  // softmax(q k^T) v, as one call or by its parts.
  void begin_at(const Statement& one) {
    const std::string_view bare = one.bare();
    if (bare == "scaled_dot_product_attention" && one.takes.size() >= 3) {
      for (const std::int32_t v : {one.takes[0], one.takes[1], one.takes[2]}) label(v, 2);
      for (const std::int32_t v : one.outs) label(v, 2);
    }
    const bool product = bare == "matmul" || bare == "bmm";
    if (!product || one.takes.size() < 2 || one.outs.empty()) return;
    const Statement* weights = product_before(one.takes[0], true);
    if (weights == nullptr) return;
    label(weights->takes[0], 2);
    label(weights->takes[1], 1);
    label(one.takes[1], 2);
    label(one.outs[0], 2);
  }

  // The product q k^T of which softmax has made the value: scaled, masked and dropped out between.
  const Statement* product_before(std::int32_t value, bool to_softmax) const {
    const auto made = maker_.find(value);
    if (made == maker_.end() || made->second->takes.empty()) return nullptr;
    const Statement& one = *made->second;
    const std::string_view bare = one.bare();
    if (!to_softmax && (bare == "matmul" || bare == "bmm")) {
      return one.takes.size() > 1 ? &one : nullptr;
    }
    static const std::set<std::string_view> kBetween = {"softmax", "_softmax",    "dropout", "mul",
                                                        "div",     "masked_fill", "add",     "to",
                                                        "where",   "masked_fill_"};
    if (!kBetween.contains(bare)) return nullptr;
    const bool found = bare == "softmax" || bare == "_softmax";
    for (const std::int32_t v : one.takes) {
      if (v == value) continue;  // an input that the statement writes to
      const Statement* product = product_before(v, to_softmax && !found);
      if (product != nullptr) return product;
    }
    return nullptr;
  }

  // Between the operands of a call and its results.
  void carry(const Statement& one) {
    for (const std::int32_t out : one.outs) {
      for (const std::int32_t v : one.takes) {
        if (const auto known = dims_.find(v); known != dims_.end() && !dims_.contains(out)) {
          if (const auto dim = dim_behind(one, v, out, known->second.dim)) {
            carry_to(out, *dim, known->second);
          }
        } else if (const auto later = dims_.find(out); later != dims_.end() && !dims_.contains(v)) {
          const std::size_t ndim = program_.shape_of(v).size();
          for (std::size_t dim = 0; dim < ndim; ++dim) {
            if (dim_behind(one, v, out, dim) != later->second.dim) continue;
            carry_to(v, dim, later->second);
            break;
          }
        }
      }
    }
  }

  void carry_to(std::int32_t value, std::size_t dim, const SequenceDim& from) {
    dims_.emplace(value, SequenceDim{dim, std::min(from.length, program_.shape_of(value)[dim])});
  }

  // Result dim that holds exactly this operand dim. Empty if there is no such dim, or if it holds
  // other data as well.
  std::optional<std::size_t> dim_behind(const Statement& one, std::int32_t operand,
                                        std::int32_t result, std::size_t dim) const {
    const Dims from = program_.shape_of(operand), to = program_.shape_of(result);
    if (dim >= from.size() || from[dim] <= 1) return std::nullopt;
    if (const auto order = order_of(one, from.size())) {
      const auto found = std::ranges::find(*order, dim);
      return static_cast<std::size_t>(found - order->begin());
    }
    const std::string_view bare = one.bare();
    static const std::set<std::string_view> kMixing = {"matmul", "bmm",
                                                       "scaled_dot_product_attention"};
    if (kMixing.contains(bare) || (bare == "linear" && dim + 1 == from.size())) {
      return std::nullopt;
    }
    if (product(from) == product(to)) return place_in(to, product_before_dim(from, dim), from[dim]);
    std::size_t at = dim;
    if (bare == "select" || bare == "unbind") {
      const std::size_t gone = place_of(number_at(one.args, 1).value_or(0), from.size());
      if (dim == gone) return std::nullopt;
      if (dim > gone) --at;
    } else if (from.size() != to.size()) {
      // A row for each index, or a reduction behind the dim.
      const bool leads =
          bare == "embedding" || bare == "one_hot" || bare == "stack" || from.size() > to.size();
      for (std::size_t i = 0; i < dim; ++i) {
        if (!leads || i >= to.size() || from[i] != to[i]) return std::nullopt;
      }
      if (!leads) return std::nullopt;
    }
    return at < to.size() && to[at] == from[dim] ? std::optional(at) : std::nullopt;
  }

  static std::int64_t product_before_dim(const Dims& shape, std::size_t dim) {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < dim; ++i) count *= shape[i];
    return count;
  }

  // The same elements in other dims. A dim that begins with the sequence, as that of the rows of
  // [time, batch, features], is cut as it is.
  static std::optional<std::size_t> place_in(const Dims& shape, std::int64_t before,
                                             std::int64_t size) {
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool fits = shape[i] > 1 && (shape[i] % size == 0 || size % shape[i] == 0);
      if (fits && product_before_dim(shape, i) == before) return i;
    }
    return std::nullopt;
  }

  // The first one, where the call fails later.
  static std::size_t place_of(std::int64_t dim, std::size_t ndim) {
    const auto all = static_cast<std::int64_t>(ndim);
    const bool there = dim >= -all && dim < all;
    return there ? static_cast<std::size_t>(dim < 0 ? dim + all : dim) : 0;
  }

  // The operand's dims in the result's order, where a call changes their order.
  static std::optional<std::vector<std::size_t>> order_of(const Statement& one, std::size_t ndim) {
    const std::string_view bare = one.bare();
    const bool swaps = bare == "transpose" || bare == "swapaxes" || bare == "t";
    if ((!swaps && bare != "permute") || ndim < 2) return std::nullopt;
    std::vector<std::size_t> order(ndim);
    for (std::size_t i = 0; i < ndim; ++i) order[i] = i;
    const auto first = number_at(one.args, 1), second = number_at(one.args, 2);
    if (bare == "t") {
      std::swap(order[0], order[1]);
    } else if (swaps && first && second) {
      std::swap(order[place_of(*first, ndim)], order[place_of(*second, ndim)]);
    }
    const auto* list =
        !swaps && one.args.size() > 1 ? std::get_if<Dims>(&one.args[1].value) : nullptr;
    for (std::size_t i = 0; list != nullptr && i < std::min(ndim, list->size()); ++i) {
      order[i] = place_of((*list)[i], ndim);
    }
    return order;
  }

  const CallProgram& program_;
  std::map<std::int32_t, const Statement*> maker_;
  std::map<std::int32_t, SequenceDim> dims_;
};

}  // namespace

std::map<std::int32_t, SequenceDim> sequence_dims(const CallProgram& program) {
  return SequenceFinder(program).find();
}

}  // namespace shardlab
