// A pair is put together as a whole if it is distributed and taken as each rank has it if it is
// plain, so that one can be compared with the other.
#include "sim/verify/assertions.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "mesh/type_string.h"
#include "sim/verify/compare.h"
#include "sim/verify/held_numbers.h"
#include "sim/verify/verify.h"

namespace shardlab {

namespace {

using Ranks = std::vector<const Recording*>;
using Side = Value AssertedPair::*;

GlobalValue number_value(const Value& number) {
  GlobalValue value;
  value.meta = contiguous_meta(Dims{}, DType::kF64);
  value.reals = {to_double(number_of(number))};
  return value;
}

const AssertedPair* pair_of(const Ranks& ranks, std::size_t rank, std::size_t index) {
  const auto& pairs = ranks[rank]->pairs();
  return index < pairs.size() ? &pairs[index] : nullptr;
}

// Empty if some rank of the mesh asserted another value at this number.
std::optional<GlobalValue> distributed_value(const Ranks& ranks, const DTensorSpec& spec,
                                             std::size_t index, Side side) {
  std::vector<DTensor> pieces;
  for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
    const auto rank = static_cast<std::size_t>(spec.layout()->rank_at_index(i));
    const AssertedPair* pair = pair_of(ranks, rank, index);
    if (pair == nullptr || !(pair->*side).is_tensor()) return std::nullopt;
    const auto& piece = (pair->*side).as<DTensor>();
    if (piece.spec() != &spec) return std::nullopt;
    pieces.push_back(piece);
  }
  std::vector<AssemblyFault> faults;
  return assemble(spec, pieces, faults);
}

std::optional<GlobalValue> value_on(const Ranks& ranks, std::size_t rank, std::size_t index,
                                    Side side) {
  const AssertedPair* pair = pair_of(ranks, rank, index);
  if (pair == nullptr) return std::nullopt;
  const Value& value = pair->*side;
  if (!value.is_tensor()) return number_value(value);
  const auto& tensor = value.as<DTensor>();
  if (!tensor.distributed()) return whole_value(tensor.local());
  const DTensorSpec& spec = *tensor.spec();
  if (!spec.layout()->coordinate_of(static_cast<std::int64_t>(rank))) return std::nullopt;
  return distributed_value(ranks, spec, index, side);
}

// Makes the two sides comparable: a number counts as a tensor of one element, an integer as a
// float.
void bring_together(GlobalValue& a, GlobalValue& b) {
  if (a.meta.dtype == b.meta.dtype && a.meta.shape == b.meta.shape) return;
  for (GlobalValue* value : {&a, &b}) {
    *value = in_reals(std::move(*value));
    value->meta = contiguous_meta(Dims{}, DType::kF64);
  }
}

F64Noise noise_of(const Ranks& declared, const GlobalValue& truth, std::size_t rank,
                  std::size_t index, Side side, double largest) {
  const auto own = value_on(declared, rank, index, side);
  const bool alike = own && own->is_integral() == truth.is_integral();
  return alike ? f64_noise(*own, truth, 0, largest) : F64Noise{};
}

std::string type_of(const Value& value) {
  return value.is_tensor() ? type_string(value.as<DTensor>()) : std::string(kind_name(value));
}

// `largest`: as largest_in_f64 of the rank.
std::optional<Error> compared(const Ranks& in_f64, const Ranks& declared, std::size_t rank,
                              std::size_t index, double largest) {
  auto a = value_on(in_f64, rank, index, &AssertedPair::a);
  auto b = value_on(in_f64, rank, index, &AssertedPair::b);
  if (!a || !b) return std::nullopt;
  const F64Noise of_a = noise_of(declared, *a, rank, index, &AssertedPair::a, largest);
  const F64Noise of_b = noise_of(declared, *b, rank, index, &AssertedPair::b, largest);
  const F64Noise noise{.any = std::max(of_a.any, of_b.any),
                       .of_zero = std::max(of_a.of_zero, of_b.of_zero)};
  bring_together(*a, *b);
  const Comparison result = compare_in_f64(*a, *b, noise);
  if (result.agreement != Agreement::kWrong) return std::nullopt;
  // Types are those of the run in the program's own dtypes, if this process has its values.
  const AssertedPair* own = pair_of(declared, rank, index);
  const AssertedPair& pair = own != nullptr ? *own : *pair_of(in_f64, rank, index);
  const SourceText& source = *pair.where.source;
  const Dims& shape = a->meta.shape;
  const std::string place = text_of_list(index_of(result.worst_index, shape), ", ");
  return Error(ErrorKind::kAssert,
               fmt::format("assert_close: a is {:.9g}, b is {:.9g}{}", result.got, result.expected,
                           shape.empty() ? "" : " at [" + place + "]"))
      .with("op", fmt::format("a {}, b {}", type_of(pair.a), type_of(pair.b)))
      .with("at", fmt::format("rank {}, {}", rank, pair.where.at()))
      .with("excerpt", source.excerpt(pair.where.span.begin));
}

}  // namespace

std::optional<Error> failed_assertion(const Ranks& in_f64, const Ranks& declared) {
  std::size_t most = 0;
  for (const Recording* rank : in_f64) most = std::max(most, rank->pairs().size());
  if (most == 0) return std::nullopt;
  std::vector<double> largest;
  for (std::size_t rank = 0; rank < in_f64.size(); ++rank) {
    largest.push_back(largest_in_f64(*declared[rank], *in_f64[rank]));
  }
  for (std::size_t index = 0; index < most; ++index) {
    for (std::size_t rank = 0; rank < in_f64.size(); ++rank) {
      if (auto error = compared(in_f64, declared, rank, index, largest[rank])) return error;
    }
  }
  return std::nullopt;
}

}  // namespace shardlab
