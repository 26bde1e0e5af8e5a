// Hypotheses are rearrangements of A, each with a name. Most are refuted at the first elements that
// differ; one that is left is compared as a whole, so that values which occur often mislead nobody.
#include "sim/checkpoint/explain.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "base/text.h"

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
    find_joins();
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
    const auto before = static_cast<std::int64_t>(pair_.tail.size()) / item_,
               behind = static_cast<std::int64_t>(pair_.head.size()) / item_;
    // All of a small tensor may be of those beside it.
    for (std::int64_t shift = 1; shift < std::min(std::max({count_, before, behind}), kMost);
         ++shift) {
      const std::int64_t own = std::max<std::int64_t>(count_ - shift, 0);
      const auto size = static_cast<std::size_t>((count_ - own) * item_);
      const std::string_view begin = b.substr(0, size), end = b.substr(b.size() - size);
      const auto there = static_cast<std::size_t>((shift - count_ + own) * item_);
      std::string told;
      if (own == 0 || same(shift, 0, own)) {
        if (own > 0 && zeros(begin)) told = fmt::format("shift={}; begins with=zeros", shift);
        if (shift <= before && pair_.tail.substr(pair_.tail.size() - size - there, size) == begin)
          told = fmt::format("shift={}; begins with=the end of what is before it in A", shift);
      }
      if (told.empty() && (own == 0 || same(0, shift, own))) {
        if (own > 0 && zeros(end)) told = fmt::format("shift=-{}; ends with=zeros", shift);
        if (shift <= behind && pair_.head.substr(there, size) == end)
          told = fmt::format("shift=-{}; ends with=the begin of what is behind it in A", shift);
      }
      if (!told.empty()) return found_.push_back({"flat-shifted", told, {}, {}});
    }
  }

  bool is_swapped(const Swap& swap) const {
    for (std::int64_t i = 0; i < count_; i += swap.r) {
      if (!same(i, swap.source(i), swap.r)) return false;
    }
    return true;
  }

  // Pieces along one dim that were joined along another: the sizes of both show it.
  void find_joins() {
    const Dims &a = pair_.shape_a, &b = pair_.shape_b;
    for (std::size_t cut = 0; cut < a.size() && a.size() == b.size(); ++cut) {
      const std::int64_t ranks = b[cut] == 0 ? 0 : a[cut] / b[cut];
      for (std::size_t joined = 0; ranks > 1 && joined < a.size(); ++joined) {
        Dims shape = a;
        shape[cut] /= ranks;
        shape[joined] *= ranks;
        if (joined == cut || shape != b) continue;
        const std::int64_t before = around(a, std::min(cut, joined)).first,
                           run = around(a, std::max(cut, joined)).second *
                                 (cut < joined ? a[joined] : b[cut]);
        const std::int64_t rest = count_ / before / ranks / run;
        const Swap swap =
            cut < joined ? Swap{before, ranks, rest, run} : Swap{before, rest, ranks, run};
        if (!is_swapped(swap)) continue;
        const std::string back =
            fmt::format("{} -> {}", swap.inverse().text(), text_of_list(a, ", "));
        found_.push_back({"other-dim",
                          fmt::format("ranks={}; cut_dim={}; joined_dim={}", ranks, cut, joined),
                          {edit("swap", back)},
                          {}});
      }
    }
  }

  // Two dims next to each other, or pieces along one of them that were joined along the other.
  void find_swaps(std::size_t dim, bool same_shape) {
    const Dims& shape = pair_.shape_a;
    const std::int64_t o = around(shape, dim).first, rows = shape[dim], columns = shape[dim + 1],
                       r = around(shape, dim + 1).second;
    const auto tell = [&](const Swap& swap, const char* id, const std::string& told) {
      if (!is_swapped(swap)) return;
      const Edit back = edit("swap", swap.inverse().text());
      found_.push_back({id, told, {same_shape ? back : Edit{"transpose", pair_.name}}, {}});
    };
    Dims turned = shape;
    std::swap(turned[dim], turned[dim + 1]);
    if (!same_shape && turned != pair_.shape_b) return;
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

std::optional<CheckpointMistake> explain_once(const TensorPair& pair) {
  constexpr std::int64_t kMost = 1 << 20;  // hashes of both, and their order: 32 MiB
  std::vector<CheckpointMistake> found;
  ElementMistakes{pair, found}.find();
  const Dims &a = pair.shape_a, &b = pair.shape_b;
  for (std::size_t dim = 0; dim < a.size() && a.size() == b.size(); ++dim) {
    Dims other = b;
    other[dim] = a[dim];
    if (other == a && std::max(a[dim], b[dim]) > 1 && std::max(a[dim], b[dim]) <= kMost)
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

double largest_in(const std::string& elements, DType dtype) {
  const std::string wide = converted(elements, dtype, DType::kF64);
  double largest = 0;
  for (std::size_t i = 0; i < wide.size(); i += sizeof(double)) {
    double value = 0;
    std::memcpy(&value, wide.data() + i, sizeof value);
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

// One mistake, and then another one: rounded, times a number or transposed, and what makes B of it.
std::optional<CheckpointMistake> explain_twice(const TensorPair& pair) {
  const auto then = [&](const TensorPair& rest,
                        CheckpointMistake first) -> std::optional<CheckpointMistake> {
    const bool same = rest.a == pair.a && rest.b == pair.b && rest.shape_b == pair.shape_b;
    if (same) return std::nullopt;
    const auto second = explain_once(rest);
    if (!second) return std::nullopt;
    first.told += fmt::format("; and {}; {}", second->id, second->told);
    const bool lost = first.edits.empty() || second->edits.empty();
    first.edits.insert(first.edits.end(), second->edits.begin(), second->edits.end());
    if (lost) first.edits.clear();
    return first;
  };
  const std::string name = pair.name;
  const auto dtype = pair.type->dtype;
  if (dtype && is_floating(*dtype)) {
    for (const DType to : {DType::kBF16, DType::kF16}) {
      const auto rounded = [&](const std::string& x) {
        return converted(converted(x, *dtype, to), to, *dtype);
      };
      if (item_bytes(to) >= pair.type->bytes || rounded(pair.b) != pair.b) continue;
      TensorPair rest = pair;
      rest.a = rounded(pair.a);
      if (const auto found = then(rest, {"rounded", fmt::format("to={}", to_string(to)), {}, {}}))
        return found;
    }
    const double ratio = largest_in(pair.b, *dtype) / largest_in(pair.a, *dtype);
    const double factor = ratio < 1 ? 1 / std::round(1 / ratio) : std::round(ratio * 2) / 2;
    for (const double sign : {factor, -factor}) {
      if (!std::isfinite(factor) || std::abs(factor / ratio - 1) > 0.01) continue;
      TensorPair rest = pair;
      rest.a = scaled(pair.a, *dtype, sign);
      const Edit back = {"scale", fmt::format("{} = {}", name, 1 / sign)};
      if (const auto found = then(rest, {"factor", fmt::format("factor={}", sign), {back}, {}}))
        return found;
    }
  }
  for (std::size_t dim = 0; dim + 1 < pair.shape_b.size(); ++dim) {
    const Dims& shape = pair.shape_b;
    const Swap back{around(shape, dim).first, shape[dim], shape[dim + 1],
                    around(shape, dim + 1).second};
    TensorPair rest = pair;
    std::swap(rest.shape_b[dim], rest.shape_b[dim + 1]);
    rest.b = swapped(pair.b, pair.type->bytes, back);
    const Edit edit = {
        "swap", fmt::format("{} = {} -> {}", name, back.text(), text_of_list(rest.shape_b, ", "))};
    const auto told = fmt::format("dims={}, {}", dim, dim + 1);
    if (const auto found = then(rest, {"transposed", told, {edit}, {}})) return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<CheckpointMistake> explain(const TensorPair& pair) {
  constexpr std::size_t kMost = 8 << 20;
  const auto found = explain_once(pair);
  return found || pair.a.size() + pair.b.size() > kMost ? found : explain_twice(pair);
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
