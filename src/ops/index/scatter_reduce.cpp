// Gradients of values that are reduced at the places of an index: the gradient of a place is shared
// among all values that were reduced there.
#include "ops/index/scatter_reduce.h"

#include "base/error.h"
#include "ops/core/arguments.h"

namespace shardlab {
namespace {

using namespace grad;

/// One call, and the tensors from which its gradient is computed.
class Reduced {
 public:
  Reduced(const GradContext& context, DTensor index)
      : context_(context), calls_(context.calls), index_(std::move(index)) {}

  Gradients gradients() const {
    const std::string& reduce = context_.inputs[4].string();
    if (reduce == "sum") return shared(flowing(context_), taken(flowing(context_)));
    if (reduce == "mean") return of_mean();
    return reduce == "prod" ? of_product() : of_extremum();
  }

 private:
  Expression self() const { return in(context_, 0); }
  Expression src() const { return in(context_, 3); }
  bool with_self() const { return context_.inputs[5].to_bool(); }
  /// The element of x at the place of each value.
  Expression taken(const Expression& x) const {
    return {calls_, calls_.one("aten::gather", {x, context_.inputs[1], index_})};
  }
  /// Sums of `values` at their places, added to `start`.
  Expression sent(const Expression& start, const Expression& values) const {
    return {calls_, calls_.one("aten::scatter_add", {start, context_.inputs[1], index_, values})};
  }

  Gradients shared(const Expression& to_self, const Expression& to_src) const {
    return each_of(context_, 3, [&](std::size_t i) {
      if (i > 0) return to_src.value();
      if (with_self()) return to_self.value();
      return calls_.one("aten::scatter.value", {to_self, context_.inputs[1], index_, 0});
    });
  }

  Gradients of_mean() const {
    const Expression start = self().of(with_self() ? "aten::ones_like" : "aten::zeros_like");
    const Expression counted = sent(start, src().of("aten::ones_like"));
    const Expression count = counted.filled(counted.eq(0), 1);
    const Expression to_self = flowing(context_) / count;
    return shared(to_self, taken(flowing(context_)).over(taken(count)));
  }

  /// The product of all others; next to a zero only that zero has one.
  Gradients of_product() const {
    const auto reduced = [&](const Expression& start, const Expression& values) -> Expression {
      return {calls_, calls_.one("aten::scatter_reduce.two", {start, context_.inputs[1], index_,
                                                              values, "prod", context_.inputs[5]})};
    };
    const Expression others = self().filled(self().eq(0), 1);
    const Expression to_self = flowing(context_) * reduced(others, src()) / others;
    const Expression zero = src().eq(0);
    const Expression none = self().of("aten::zeros_like");
    const Expression zeros = taken(sent(none, zero.to(src().value().dtype())));
    const Expression alone = zero && zeros.eq(1);
    const Expression rest = reduced(self(), src().filled(alone, 1));
    const Expression quotient =
        taken(flowing(context_) * out(context_)).over(src().filled(zero, 1));
    return shared(to_self, alone.choose(taken(flowing(context_) * rest), quotient));
  }

  Gradients of_extremum() const {
    const DType dtype = self().value().dtype();
    const Expression own = self().eq(output(context_)).to(dtype);
    const Expression met = src().eq(taken(out(context_))).to(dtype);
    const Expression start = with_self() ? own : own.of("aten::zeros_like");
    const Expression share = flowing(context_) / sent(start, met).with("aten::clamp_min", 1);
    const Expression to_self = own * share;
    return shared(to_self, met * taken(share));
  }

  const GradContext& context_;
  Calls& calls_;
  DTensor index_;
};

}  // namespace

DTensor beside(Calls& calls, const DTensor& index, std::int64_t dim, const DTensor& like) {
  Dims line(like.ndim(), 1);
  if (!line.empty()) line[index_of(wrap_dim(dim, line.size()))] = index.numel();
  return calls.one("aten::expand", {calls.one("aten::reshape", {index, line}), like.shape()});
}

grad::Gradients grad_scatter_reduce(const GradContext& context) {
  const DTensor &index = input(context, 2), &src = input(context, 3);
  if (index.shape() != src.shape()) {
    fail(ErrorKind::kUnsupported, Fix{"narrow src to the shape of the index"},
         "scatter_reduce: no gradient where src is longer than the index");
  }
  return Reduced(context, index).gradients();
}

grad::Gradients grad_index_reduce(const GradContext& context) {
  const DTensor places =
      beside(context.calls, input(context, 2), context.inputs[1].to_int(), input(context, 3));
  return Reduced(context, places).gradients();
}

}  // namespace shardlab
