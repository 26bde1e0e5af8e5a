// Hypotheses are rearrangements of A, each with a name. Most are refuted at the first elements that
// differ; one that is left is compared as a whole, so that values which occur often mislead nobody.
#include "sim/checkpoint/explain.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/text_of_list.h"

namespace shardlab {

namespace {

// Mistakes that no order of the indices of one dim tells.
struct ElementMistakes {
  void find() {
    const bool same_shape = pair_.shape_a == pair_.shape_b;
    if (pair_.a.size() != pair_.b.size()) return;
    if (same_shape && !pair_.b.empty() && pair_.b.find_first_not_of('\0') == std::string::npos) {
      // No factor, although a small one gives zeros.
      return found_.push_back({"piece-missing", "all of it=zeros", {}, {}});
    }
    if (same_shape && pair_.type->dtype && is_floating(*pair_.type->dtype)) find_values();
    find_shift();
    for (std::size_t dim = 0; dim + 1 < pair_.shape_a.size(); ++dim) find_swaps(dim, same_shape);
  }

  Edit edit(const char* option, const std::string& text) const {
    return {option, fmt::format("{} = {}", pair_.name, text)};
  }

  // Whether it makes all blocks of B from those of A: most mistakes are refuted by the first.
  bool makes_b(const auto& make) const {
    std::size_t block = 256;
    for (std::size_t at = 0; at < pair_.a.size(); at += block, block = 1 << 20) {
      const std::string_view b = std::string_view(pair_.b).substr(at, block);
      if (make(pair_.a.substr(at, block)) != b) return false;
    }
    return true;
  }

  void find_values() {
    const DType own = *pair_.type->dtype;
    for (const DType to : {DType::kBF16, DType::kF16, DType::kF8E4M3FN}) {
      const auto rounded = [&](const std::string& a) {
        return converted(converted(a, own, to), to, own);
      };
      if (item_bytes(to) >= item_ || !makes_b(rounded)) continue;
      return found_.push_back({"rounded", fmt::format("to={}", to_string(to)), {}, {}});
    }
    for (int i = 3; i <= 256; ++i) {
      for (const double factor :
           {i / 2.0, -i / 2.0, 2.0 / i, -2.0 / i, static_cast<double>(2.0F / static_cast<float>(i)),
            std::ldexp(1, i), std::ldexp(1, -i), -1.0}) {
        if (factor == 1 || !makes_b([&](const std::string& a) { return scaled(a, own, factor); }))
          continue;
        return found_.push_back({"factor",
                                 fmt::format("factor={}", factor),
                                 {edit("scale", fmt::format("{}", 1 / factor))},
                                 {}});
      }
    }
  }

  // Whether elements of B and of A are equal, `count` from these on.
  bool same(std::int64_t in_b, std::int64_t in_a, std::int64_t count) const {
    return std::memcmp(pair_.b.data() + in_b * item_, pair_.a.data() + in_a * item_,
                       static_cast<std::size_t>(count * item_)) == 0;
  }

  void find_shift() {
    constexpr std::int64_t kMost = 1 << 16;
    const std::string_view b = pair_.b;
    const auto zeros = [](std::string_view text) {
      return text.find_first_not_of('\0') == text.npos;
    };
    for (std::int64_t shift = 1; shift < std::min(count_, kMost); ++shift) {
      const auto size = static_cast<std::size_t>(shift * item_);
      std::string told;
      if (same(shift, 0, count_ - shift)) {
        if (zeros(b.substr(0, size))) told = fmt::format("shift={}; begins with=zeros", shift);
        if (pair_.tail.ends_with(b.substr(0, size))) {
          told = fmt::format("shift={}; begins with=the end of {}", shift, pair_.before);
        }
      } else if (same(0, shift, count_ - shift)) {
        const std::string_view end = b.substr(b.size() - size);
        if (zeros(end)) told = fmt::format("shift=-{}; ends with=zeros", shift);
        if (pair_.head.starts_with(end)) {
          told = fmt::format("shift=-{}; ends with=the begin of {}", shift, pair_.after);
        }
      }
      if (!told.empty()) return found_.push_back({"flat-shifted", told, {}, {}});
    }
  }

  // Two dims next to each other, or pieces along one of them that were joined along the other.
  void find_swaps(std::size_t dim, bool same_shape) {
    const Dims& shape = pair_.shape_a;
    const std::int64_t o = around(shape, dim).first, rows = shape[dim], columns = shape[dim + 1],
                       r = around(shape, dim + 1).second;
    const auto tell = [&](const Swap& swap, const char* id, const std::string& told) {
      for (std::int64_t i = 0; i < count_; i += swap.r) {
        if (!same(i, swap.source(i), swap.r)) return;
      }
      const Edit back = edit("swap", Swap{swap.o, swap.b, swap.a, swap.r}.text());
      found_.push_back({id, told, {same_shape ? back : Edit{"transpose", pair_.name}}, {}});
    };
    const char* id = rows == columns || !same_shape ? "transposed" : "other-layout";
    tell({o, rows, columns, r}, id, "b=columns of A");
    if (rows != columns) tell({o, columns, rows, r}, id, "b=rows of A as columns");
    for (std::int64_t ranks = 2; ranks <= columns && same_shape; ++ranks) {
      if (columns % ranks != 0) continue;
      const std::int64_t run = columns / ranks * r;
      tell({o, rows, ranks, run}, "other-dim",
           fmt::format("ranks={}; cut_dim={}; joined_dim={}", ranks, dim + 1, dim));
      tell({o, ranks, rows, run}, "other-dim",
           fmt::format("ranks={}; cut_dim={}; joined_dim={}", ranks, dim, dim + 1));
    }
  }

  const TensorPair& pair_;
  std::vector<CheckpointMistake>& found_;
  std::int64_t item_ = pair_.type->bytes,
               count_ = static_cast<std::int64_t>(pair_.a.size()) / item_;
};

// Parts of names, and the mistakes of such tensors that are told first.
constexpr std::pair<std::string_view, std::string_view> kLikely[] = {
    {" expert experts ", " expert-order"},
    {" k wk k_proj key v wv v_proj value ", " kv-repeated"},
    {" k wk k_proj key q wq q_proj query ", " rope-pairs order-of-cuts rope-heads"},
    {" qkv wqkv qkv_proj query_key_value linear_qkv gate_up gate_up_proj w13 linear_fc1 c_attn ",
     " fused-exchanged fused-interleaved fused-whole"},
    {" k wk k_proj key q wq q_proj query v wv v_proj value ", " head-order"}};

// Several mistakes may have one result: the most special one for such a name is told.
std::size_t rank_of(const std::string& name, const CheckpointMistake& mistake) {
  std::string order;
  for (const auto& [parts, ids] : kLikely) {
    for (const std::string_view part : parts_of_text(name, ".")) {
      if (parts.find(fmt::format(" {} ", part)) != parts.npos) order += ids;
    }
  }
  order +=
      " rounded factor transposed padding-kept padding-inside piece-missing order-of-cuts "
      "rank-order piece-twice flat-shifted other-dim other-layout fused-whole fused-interleaved "
      "fused-exchanged rope-pairs rope-heads expert-order head-order kv-repeated permuted ";
  const bool back = mistake.told.find("and back") != std::string::npos;
  return order.find(fmt::format(" {} ", back ? "rope-heads" : mistake.id));
}

// The bits of an element of 16 bytes.
struct Wide {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const Wide&) const = default;
  explicit operator std::uint64_t() const { return low ^ high; }
};

// Adds up parts of all values, which are sorted: of A where B has others, and where it has the
// same, and of B.
template <typename T>
void count_values(const TensorPair& pair, DifferenceCounts& counts) {
  constexpr std::size_t kMost = (16 << 20) / sizeof(T);
  const std::size_t all = pair.a.size() / sizeof(T), parts = all / kMost + 1;
  for (std::size_t part = 0; part < parts; ++part) {
    std::vector<T> moved, unmoved, differing;
    const auto here = [&](T value) {
      return parts == 1 || hash_mix(0, static_cast<std::uint64_t>(value)) % parts == part;
    };
    for (std::size_t i = 0; i < all; ++i) {
      T a, b;
      std::memcpy(&a, pair.a.data() + i * sizeof(T), sizeof(T));
      std::memcpy(&b, pair.b.data() + i * sizeof(T), sizeof(T));
      if (here(a)) (a == b ? unmoved : moved).push_back(a);
      if (a != b && here(b)) differing.push_back(b);
    }
    for (std::vector<T>* values : {&moved, &unmoved, &differing}) std::ranges::sort(*values);
    auto other = moved.begin(), own = unmoved.begin();
    for (const T value : differing) {
      other = std::find_if(other, moved.end(), [&](T one) { return one >= value; });
      own = std::find_if(own, unmoved.end(), [&](T one) { return one >= value; });
      const bool twice = own != unmoved.end() && *own == value;
      ++counts.differ;
      counts.moved += twice || (other != moved.end() && *other == value);
      counts.twice += twice;
      counts.zero += value == T{};
    }
  }
}

}  // namespace

std::optional<CheckpointMistake> explain(const TensorPair& pair) {
  constexpr std::int64_t kMost = 1 << 20;  // hashes of both, and their order: 32 MiB
  std::vector<CheckpointMistake> found;
  ElementMistakes{pair, found}.find();
  const Dims &a = pair.shape_a, &b = pair.shape_b;
  for (std::size_t dim = 0; dim < a.size() && a.size() == b.size(); ++dim) {
    Dims other = b;
    other[dim] = a[dim];
    if (other == a && a[dim] > 1 && std::max(a[dim], b[dim]) <= kMost)
      find_slice_mistakes(pair, dim, found);
  }
  if (found.empty()) return std::nullopt;
  std::ranges::stable_sort(found, {},
                           [&](const CheckpointMistake& one) { return rank_of(pair.name, one); });
  CheckpointMistake best = found[0];
  for (const CheckpointMistake& other : found) {
    const bool told = other.id == best.id || other.id == "permuted" ||
                      std::ranges::count(best.also, other.id) > 0;
    if (!told) best.also.push_back(other.id);
  }
  return best;
}

DifferenceCounts count_differences(const TensorPair& pair) {
  DifferenceCounts counts;
  if (pair.type->bytes == 1) count_values<std::uint8_t>(pair, counts);
  if (pair.type->bytes == 2) count_values<std::uint16_t>(pair, counts);
  if (pair.type->bytes == 4) count_values<std::uint32_t>(pair, counts);
  if (pair.type->bytes == 8) count_values<std::uint64_t>(pair, counts);
  if (pair.type->bytes == 16) count_values<Wide>(pair, counts);
  return counts;
}

std::string wrong_indices(const TensorPair& pair) {
  Picked wrong;
  const std::size_t rows = pair.shape_a.empty() ? 1 : static_cast<std::size_t>(pair.shape_a[0]);
  const std::size_t row = pair.a.size() / std::max<std::size_t>(rows, 1);
  for (std::size_t i = 0; i < rows; ++i) {
    if (pair.a.compare(i * row, row, pair.b, i * row, row) != 0)
      wrong.push_back(static_cast<std::int64_t>(i));
  }
  return text_of(wrong);
}

}  // namespace shardlab
