// Attention says which dim of its operands is the sequence; calls that keep that dim carry it from
// there to the values before and behind, until nothing is added.
#include "sim/capture/sequence_dims.h"

#include <algorithm>
#include <optional>
#include <set>

#include "sim/capture/recorded_event.h"

namespace shardlab {

namespace {

class SequenceFinder {
 public:
  explicit SequenceFinder(const StepProgram& program) : program_(program) {
    for (const StepStatement& one : program.statements) {
      for (const std::size_t v : one.outs) maker_.emplace(v, &one);
    }
  }

  std::map<std::size_t, std::size_t> find() {
    for (const StepStatement& one : program_.statements) begin_at(one);
    for (std::size_t known = 0; known != dims_.size();) {
      known = dims_.size();
      for (const StepStatement& one : program_.statements) carry(one);
      std::ranges::for_each(program_.statements.rbegin(), program_.statements.rend(),
                            [&](const StepStatement& one) { carry(one); });
    }
    return std::move(dims_);
  }

 private:
  // The dim that is `from_end` before the end.
  void label(std::size_t value, std::size_t from_end) {
    const std::size_t ndim = program_.shape_of(value).size();
    if (ndim >= 3) dims_.emplace(value, ndim - from_end);
  }

  // softmax(q k^T) v, as one call or by its parts.
  void begin_at(const StepStatement& one) {
    const std::string bare = bare_op(one.op);
    if (bare == "scaled_dot_product_attention" && one.takes.size() >= 3) {
      for (const std::size_t v : {one.takes[0], one.takes[1], one.takes[2]}) label(v, 2);
      for (const std::size_t v : one.outs) label(v, 2);
    }
    const bool product = bare == "matmul" || bare == "bmm";
    if (!product || one.takes.size() < 2 || one.outs.empty()) return;
    const StepStatement* weights = product_before(one.takes[0], true);
    if (weights == nullptr) return;
    label(weights->takes[0], 2);
    label(weights->takes[1], 1);
    label(one.takes[1], 2);
    label(one.outs[0], 2);
  }

  // The product q k^T of which softmax has made the value: scaled, masked and dropped out between.
  const StepStatement* product_before(std::size_t value, bool to_softmax) const {
    const auto made = maker_.find(value);
    if (made == maker_.end() || made->second->takes.empty()) return nullptr;
    const StepStatement& one = *made->second;
    const std::string bare = bare_op(one.op);
    if (!to_softmax && (bare == "matmul" || bare == "bmm")) {
      return one.takes.size() > 1 ? &one : nullptr;
    }
    static const std::set<std::string> kBetween = {"softmax", "_softmax",    "dropout", "mul",
                                                   "div",     "masked_fill", "add",     "to",
                                                   "where",   "masked_fill_"};
    if (!kBetween.contains(bare)) return nullptr;
    const bool found = bare == "softmax" || bare == "_softmax";
    for (const std::size_t v : one.takes) {
      if (v == value) continue;  // an input that the statement writes to
      const StepStatement* product = product_before(v, to_softmax && !found);
      if (product != nullptr) return product;
    }
    return nullptr;
  }

  // Between the operands of a call and its results.
  void carry(const StepStatement& one) {
    for (const std::size_t out : one.outs) {
      for (const std::size_t v : one.takes) {
        if (const auto known = dims_.find(v); known != dims_.end() && !dims_.contains(out)) {
          if (const auto dim = dim_behind(one, v, out, known->second)) dims_.emplace(out, *dim);
        } else if (const auto later = dims_.find(out); later != dims_.end() && !dims_.contains(v)) {
          const std::size_t ndim = program_.shape_of(v).size();
          for (std::size_t dim = 0; dim < ndim; ++dim) {
            if (dim_behind(one, v, out, dim) != later->second) continue;
            dims_.emplace(v, dim);
            break;
          }
        }
      }
    }
  }

  // The dim of the result that has what this dim of the operand has; none: not alone, or not at
  // all.
  std::optional<std::size_t> dim_behind(const StepStatement& one, std::size_t operand,
                                        std::size_t result, std::size_t dim) const {
    const Dims from = program_.shape_of(operand), to = program_.shape_of(result);
    if (dim >= from.size() || from[dim] <= 1) return std::nullopt;
    if (const auto order = order_of(one, from.size())) {
      const auto found = std::ranges::find(*order, dim);
      return static_cast<std::size_t>(found - order->begin());
    }
    const std::string bare = bare_op(one.op);
    static const std::set<std::string> kMixing = {"matmul", "bmm", "scaled_dot_product_attention"};
    if (kMixing.contains(bare) || (bare == "linear" && dim + 1 == from.size())) {
      return std::nullopt;
    }
    if (product(from) == product(to)) return place_in(to, product_before_dim(from, dim), from[dim]);
    std::size_t at = dim;
    if (bare == "select" || bare == "unbind") {
      const std::size_t gone = place_of_argument(one, from.size());
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
  static std::size_t place_of(const Json& dim, std::size_t ndim) {
    const auto given = integer_of<std::int64_t>(dim), all = static_cast<std::int64_t>(ndim);
    const bool there = given >= -all && given < all;
    return there ? static_cast<std::size_t>(given < 0 ? given + all : given) : 0;
  }

  static std::size_t place_of_argument(const StepStatement& one, std::size_t ndim) {
    const Json& args = one.event->at("args");
    return args.size() > 1 && args.at(1).is_number() ? place_of(args.at(1), ndim) : 0;
  }

  // Of a call that changes the order of dims: the operand's dims in the result's order.
  static std::optional<std::vector<std::size_t>> order_of(const StepStatement& one,
                                                          std::size_t ndim) {
    const std::string bare = bare_op(one.op);
    const bool swaps = bare == "transpose" || bare == "swapaxes" || bare == "t";
    if ((!swaps && bare != "permute") || ndim < 2) return std::nullopt;
    const Json& args = one.event->at("args");
    std::vector<std::size_t> order(ndim);
    for (std::size_t i = 0; i < ndim; ++i) order[i] = i;
    if (swaps && (bare == "t" || args.size() > 2)) {
      const std::size_t a = bare == "t" ? 0 : place_of(args.at(1), ndim),
                        b = bare == "t" ? 1 : place_of(args.at(2), ndim);
      std::swap(order.at(a), order.at(b));
    }
    const bool lists = !swaps && args.size() > 1 && args.at(1).is_array();
    for (std::size_t i = 0; lists && i < std::min(ndim, args.at(1).size()); ++i) {
      order[i] = place_of(args.at(1).at(i), ndim);
    }
    return order;
  }

  const StepProgram& program_;
  std::map<std::size_t, const StepStatement*> maker_;
  std::map<std::size_t, std::size_t> dims_;
};

}  // namespace

std::map<std::size_t, std::size_t> sequence_dims(const StepProgram& program) {
  return SequenceFinder(program).find();
}

}  // namespace shardlab
