// F.multi_head_attention_forward in the reference's steps: projections, heads as a batch, masks as
// numbers that are added, products, and the projection out. Also F.linear_cross_entropy, whose
// chunks are a matter of the reference's memory alone.
#include <cmath>
#include <limits>

#include "ops/family.h"
#include "ops/torch/functional.h"
#include "schema/torch_spelling.h"

namespace shardlab {
namespace {

// Places of the arguments of multi_head_attention_forward.
enum : std::size_t {
  kQuery,
  kKey,
  kValue,
  kWidth,
  kHeads,
  kInWeight,
  kInBias,
  kBiasOfKeys,
  kBiasOfValues,
  kZeroKey,
  kDropout,
  kOutWeight,
  kOutBias,
  kTraining,
  kPadding,
  kNeedWeights,
  kMask,
  kSeparate,
  kQueryWeight,
  kKeyWeight,
  kValueWeight,
  kStaticKey,
  kStaticValue,
  kAverage,
  kCausal
};

constexpr std::string_view kAttention = "multi_head_attention_forward";

[[noreturn]] void refuse(const std::string& what, const char* fix) {
  fail(Fix{fix}, "{}: {}", kAttention, what);
}

bool same_value(const Argument& a, const Argument& b) {
  return a.tensor().impl() == b.tensor().impl();
}

/// The steps of one call.
class MultiHead {
 public:
  MultiHead(Calls& calls, const Arguments& args)
      : calls_(calls), args_(args), batched_(args[kQuery].tensor().ndim() == 3) {
    const DTensor &query = args[kQuery].tensor(), &key = args[kKey].tensor();
    if (query.ndim() < 2 || query.ndim() > 3 || key.ndim() != query.ndim() ||
        args[kValue].tensor().ndim() != query.ndim()) {
      refuse("query, key and value have other counts of dims",
             "give [length, batch, width] each, or [length, width]");
    }
    length_ = query.shape()[0];
    batch_ = batched_ ? query.shape()[1] : 1;
    width_ = query.shape().back();
    heads_ = args[kHeads].to_int();
    if (width_ != args[kWidth].to_int() || heads_ < 1 || width_ % heads_ != 0) {
      refuse(fmt::format("a width of {} where {} is expected, in {} heads", width_,
                         args[kWidth].to_int(), heads_),
             "give the query's width, and as many heads as divide it");
    }
    head_ = width_ / heads_;
    const bool packed = !args[kSeparate].to_bool();
    const Dims &keys = key.shape(), &values = args[kValue].tensor().shape();
    if (packed ? keys != values
               : Dims(keys.begin(), keys.end() - 1) != Dims(values.begin(), values.end() - 1)) {
      refuse("key and value differ in their shapes", "give one value for each key");
    }
  }

  Results run() {
    read_masks();
    project();
    extend();
    merge_masks();
    return args_[kNeedWeights].to_bool() ? with_weights() : without_weights();
  }

 private:
  /// Turns a mask of bool into numbers: hidden places take -inf.
  DTensor as_numbers(const DTensor& mask) const {
    if (is_floating(mask.dtype())) return mask;
    if (mask.dtype() != DType::kBool) {
      refuse(fmt::format("a mask of {}", to_string(mask.dtype())),
             "give a mask of bool, or numbers that are added");
    }
    const DTensor none = calls_.one("zeros_like", {mask, args_[kQuery].tensor().dtype()});
    return Expression(calls_, none)
        .filled({calls_, mask}, -std::numeric_limits<double>::infinity());
  }

  void read_masks() {
    causal_ = args_[kCausal].to_bool();
    if (causal_ && args_[kMask].is_none()) {
      refuse("is_causal without attn_mask", "give the mask, too; is_causal is a hint");
    }
    const bool padded = args_[kPadding].is_tensor();
    if (padded) {
      padding_ = as_numbers(args_[kPadding].tensor());
      if (!batched_) padding_ = calls_.one("unsqueeze", {padding_, 0});
    }
    const bool hint = causal_ && !padded && !args_[kNeedWeights].to_bool();
    if (hint || args_[kMask].is_none()) return;
    mask_ = as_numbers(args_[kMask].tensor());
    if (padded) causal_ = false;
    if (mask_.ndim() == 2) mask_ = calls_.one("unsqueeze", {mask_, 0});
    const std::int64_t keys = args_[kKey].tensor().shape()[0];
    const std::int64_t each = args_[kMask].tensor().ndim() == 2 ? 1 : batch_ * heads_;
    if (mask_.shape() != Dims{each, length_, keys}) {
      refuse(fmt::format("attn_mask has the shape [{}]", text_of_list(mask_.shape(), ", ")),
             "give [queries, keys], or [batch * heads, queries, keys]");
    }
  }

  DTensor linear(const DTensor& x, const Argument& weight, const Argument& bias) const {
    return calls_.one("linear", {x, weight, bias});
  }

  /// `count` projections by one product.
  std::vector<DTensor> projected_together(const DTensor& x, const Argument& weight,
                                          const Argument& bias, std::int64_t count) const {
    const DTensor all = linear(x, weight, bias);
    const DTensor parts = regrouped(calls_, all, Dims{x.shape()[0], x.shape()[1], count, width_});
    std::vector<DTensor> each;
    for (std::int64_t i = 0; i < count; ++i) {
      each.push_back(calls_.one("select.int", {parts, 2, i}));
    }
    return each;
  }

  /// Rows [first, last) of a weight or a bias, if there is one.
  Argument rows(const Argument& x, std::int64_t first, std::int64_t last) const {
    if (x.is_none()) return x;
    return calls_.one("slice.Tensor", {x, 0, first * width_, last * width_});
  }

  void project() {
    const auto batched = [&](std::size_t index) {
      const DTensor& x = args_[index].tensor();
      return batched_ ? x : calls_.one("unsqueeze", {x, 1});
    };
    const DTensor query = batched(kQuery);
    const Argument &weight = args_[kInWeight], &bias = args_[kInBias];
    const bool separate = args_[kSeparate].to_bool();
    for (const std::size_t index : {kInWeight, kQueryWeight, kKeyWeight, kValueWeight}) {
      if (args_[index].is_none() && separate != (index == kInWeight)) {
        refuse("a weight of the projections is missing",
               "give in_proj_weight, or the three others and use_separate_proj_weight=True");
      }
    }
    const bool one_source = same_value(args_[kKey], args_[kValue]) && !separate;
    if (one_source && same_value(args_[kQuery], args_[kKey])) {
      const std::vector<DTensor> all = projected_together(query, weight, bias, 3);
      query_ = all[0], key_ = all[1], value_ = all[2];
      return;
    }
    const DTensor key = batched(kKey);
    const Argument first = separate ? args_[kQueryWeight] : rows(weight, 0, 1);
    query_ = linear(query, first, rows(bias, 0, 1));
    if (one_source) {
      const Argument others = rows(weight, 1, 3);
      const std::vector<DTensor> both = projected_together(key, others, rows(bias, 1, 3), 2);
      key_ = both[0], value_ = both[1];
      return;
    }
    const Argument second = separate ? args_[kKeyWeight] : rows(weight, 1, 2);
    key_ = linear(key, second, rows(bias, 1, 2));
    const DTensor value = batched(kValue);
    const Argument third = separate ? args_[kValueWeight] : rows(weight, 2, 3);
    value_ = linear(value, third, rows(bias, 2, 3));
  }

  /// [length, batch, width] as [batch * heads, length, head].
  DTensor by_head(const DTensor& x) const {
    const DTensor split = regrouped(calls_, x, Dims{x.shape()[0], batch_ * heads_, head_});
    return calls_.one("transpose.int", {split, 0, 1});
  }

  /// One key more, which no mask hides.
  void widen_masks() {
    for (DTensor* mask : {&mask_, &padding_}) {
      if (mask->defined()) *mask = calls_.one("constant_pad_nd", {*mask, Dims{0, 1}});
    }
  }

  DTensor one_more(const DTensor& x, const Argument& more) const {
    return calls_.one("cat", {ArgumentList{x, more}, 0});
  }

  /// Keys and values that the call adds, or gives in place of the projected ones.
  void extend() {
    const bool biased = args_[kBiasOfKeys].is_tensor();
    if (biased != args_[kBiasOfValues].is_tensor() ||
        (biased && (args_[kStaticKey].is_tensor() || args_[kStaticValue].is_tensor()))) {
      refuse("bias_k without bias_v, or next to static ones", "give both biases, or none");
    }
    if (biased) {
      const auto repeated = [&](std::size_t index) {
        return calls_.one("repeat", {args_[index], Dims{1, batch_, 1}});
      };
      key_ = one_more(key_, repeated(kBiasOfKeys));
      value_ = one_more(value_, repeated(kBiasOfValues));
      widen_masks();
    }
    query_ = by_head(query_);
    key_ = args_[kStaticKey].is_tensor() ? args_[kStaticKey].tensor() : by_head(key_);
    value_ = args_[kStaticValue].is_tensor() ? args_[kStaticValue].tensor() : by_head(value_);
    if (!args_[kZeroKey].to_bool()) return;
    for (DTensor* x : {&key_, &value_}) {
      const DTensor zero = calls_.one("new_zeros", {*x, Dims{batch_ * heads_, 1, head_}});
      *x = calls_.one("cat", {ArgumentList{*x, zero}, 1});
    }
    widen_masks();
  }

  void merge_masks() {
    if (!padding_.defined()) return;
    const std::int64_t keys = key_.shape()[1];
    if (padding_.shape() != Dims{batch_, keys}) {
      refuse(
          fmt::format("key_padding_mask has the shape [{}]", text_of_list(padding_.shape(), ", ")),
          "give one number for each key: [batch, keys]");
    }
    const DTensor rows = regrouped(calls_, padding_, Dims{batch_, 1, 1, keys});
    const DTensor each = calls_.one("expand", {rows, Dims{batch_, heads_, 1, keys}});
    const DTensor flat = regrouped(calls_, each, Dims{batch_ * heads_, 1, keys});
    mask_ = mask_.defined() ? calls_.one("add.Tensor", {mask_, flat}) : flat;
  }

  double dropout() const { return args_[kTraining].to_bool() ? args_[kDropout].to_double() : 0; }

  /// The projection out, of [length, batch, width].
  DTensor out(const DTensor& rows) const {
    const DTensor all = linear(rows, args_[kOutWeight], args_[kOutBias]);
    const DTensor result = regrouped(calls_, all, Dims{length_, batch_, all.shape()[1]});
    return batched_ ? result : calls_.one("squeeze.dim", {result, 1});
  }

  Results with_weights() const {
    const DTensor scaled =
        calls_.one("mul.Scalar", {query_, std::sqrt(1.0 / static_cast<double>(head_))});
    const DTensor turned = calls_.one("transpose.int", {key_, -2, -1});
    const DTensor scores = mask_.defined() ? calls_.one("baddbmm", {mask_, scaled, turned})
                                           : calls_.one("bmm", {scaled, turned});
    DTensor weights = calls_.one("softmax.int", {scores, -1});
    if (dropout() > 0) weights = calls_.one("dropout", {weights, dropout(), true});
    const DTensor mixed = calls_.one("bmm", {weights, value_});
    const DTensor rows = calls_.one("transpose.int", {mixed, 0, 1});
    const DTensor result = out(regrouped(calls_, rows, Dims{length_ * batch_, width_}));
    weights = regrouped(calls_, weights, Dims{batch_, heads_, length_, key_.shape()[1]});
    if (args_[kAverage].to_bool()) weights = calls_.one("mean.dim", {weights, Dims{1}});
    return {result, batched_ ? weights : calls_.one("squeeze.dim", {weights, 0})};
  }

  Results without_weights() const {
    const auto split = [&](const DTensor& x, std::int64_t rows) {
      return regrouped(calls_, x, Dims{batch_, heads_, rows, head_});
    };
    const std::int64_t keys = key_.shape()[1];
    Argument mask;
    if (mask_.defined()) {
      mask = mask_.shape()[0] == 1
                 ? calls_.one("unsqueeze", {mask_, 0})
                 : regrouped(calls_, mask_, Dims{batch_, heads_, mask_.shape()[1], keys});
    }
    const DTensor query = split(query_, length_), key = split(key_, keys);
    const DTensor value = split(value_, keys);
    const DTensor mixed =
        calls_.one("scaled_dot_product_attention", {query, key, value, mask, dropout(), causal_});
    const DTensor rows = calls_.one("permute", {mixed, Dims{2, 0, 1, 3}});
    return {out(regrouped(calls_, rows, Dims{length_ * batch_, width_})), Argument()};
  }

  Calls& calls_;
  const Arguments& args_;
  bool batched_, causal_ = false;
  std::int64_t length_ = 0, batch_ = 0, width_ = 0, heads_ = 0, head_ = 0;
  DTensor query_, key_, value_, mask_, padding_;
};

Results multi_head_attention(Calls& calls, const Arguments& args) {
  return MultiHead(calls, args).run();
}

/// (input, linear_weight, target, *, linear_bias, weight, reduction, ignore_index,
/// label_smoothing, options)
Results linear_cross_entropy(Calls& calls, const Arguments& args) {
  const DTensor &x = args[0].tensor(), &table = args[1].tensor();
  const bool fits = x.ndim() >= 1 && x.ndim() <= 2 && table.ndim() >= 2 &&
                    x.shape().back() == table.shape().back() &&
                    (table.ndim() == 2 || x.ndim() == 2);
  if (!fits) {
    fail(Fix{"give [samples, features] and [classes, features]"},
         "linear_cross_entropy: the input has shape [{}], the weight [{}]; they must be [samples, "
         "features] and [classes, features]",
         text_of_list(x.shape(), ", "), text_of_list(table.shape(), ", "));
  }
  Dims shape(x.shape().begin(), x.shape().end() - 1);
  for (std::size_t d = 0; d + 1 < table.ndim(); ++d) shape.push_back(table.shape()[d]);
  if (args[2].tensor().shape() == shape && !args[6].is_none()) {
    fail(Fix{"leave ignore_index out: the target holds probabilities"},
         "linear_cross_entropy: ignore_index is given; with a target of probabilities it must be "
         "left out");
  }
  DTensor weight = table;
  Argument bias = args[3];
  if (table.ndim() > 2) {
    const std::int64_t rows =
        product(table.shape()) / std::max<std::int64_t>(table.shape().back(), 1);
    weight = regrouped(calls, table, Dims{rows, table.shape().back()});
    if (bias.is_tensor()) bias = regrouped(calls, bias.tensor(), Dims{rows});
  }
  const DTensor logits = regrouped(calls, calls.one("linear", {x, weight, bias}), shape);
  const auto reduction = reduction_number(args[5].string());
  if (!reduction) {
    fail(Fix{"use 'mean', 'sum' or 'none'"},
         "linear_cross_entropy: reduction is '{}'; it must be 'mean', 'sum' or 'none'",
         args[5].string());
  }
  return calls("cross_entropy_loss",
               {logits, args[2], args[4], *reduction, int_or(args[6], -100), args[7]});
}

// Sorted by name.
// clang-format off
constexpr FunctionRow kAttentionFunctions[] = {
    {"functional::linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, "
     "Tensor? linear_bias=None, Tensor? weight=None, str reduction=\"mean\", int? "
     "ignore_index=None, float label_smoothing=0.0, any? options=None) -> Tensor"_op,
     linear_cross_entropy, "linear and cross_entropy_loss"},
    {"functional::multi_head_attention_forward(Tensor query, Tensor key, Tensor value, int "
     "embed_dim_to_check, int num_heads, Tensor? in_proj_weight, Tensor? in_proj_bias, Tensor? "
     "bias_k, Tensor? bias_v, bool add_zero_attn, float dropout_p, Tensor out_proj_weight, "
     "Tensor? out_proj_bias, bool training=True, Tensor? key_padding_mask=None, bool "
     "need_weights=True, Tensor? attn_mask=None, bool use_separate_proj_weight=False, Tensor? "
     "q_proj_weight=None, Tensor? k_proj_weight=None, Tensor? v_proj_weight=None, Tensor? "
     "static_k=None, Tensor? static_v=None, bool average_attn_weights=True, bool "
     "is_causal=False) -> Tensor"_op, multi_head_attention, "products between views", kRandom},
};
// clang-format on

}  // namespace

std::span<const FunctionRow> attention_functions() { return kAttentionFunctions; }

}  // namespace shardlab
