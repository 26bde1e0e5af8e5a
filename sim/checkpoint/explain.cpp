// Hypotheses are rearrangements of A, each with a name. Most are refuted at the first elements that
// differ; one that is left is compared as a whole, so that values which occur often mislead nobody.
#include "sim/checkpoint/explain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

#include "base/hash.h"
#include "base/text.h"
#include "mesh/local_shape.h"
#include "tensor/tensor.h"

namespace shardlab {

namespace {

// How many elements of B are those of A, at places this far apart, before the first that is not;
// those of A are zeros if it begins below 0.
std::int64_t equal_run(const TensorPair& pair, const Dims& size, std::int64_t in_b,
                       const Dims& stride_b, std::int64_t in_a, const Dims& stride_a) {
  const std::int64_t item = pair.type->bytes, all = product(size);
  const bool rows = !size.empty() && stride_b.back() == 1 && stride_a.back() == 1;
  const std::int64_t run = rows ? size.back() : 1;
  const std::string zeros(in_a < 0 ? static_cast<std::size_t>(run * item) : 0, '\0');
  Dims index(size.size());
  for (std::int64_t done = 0; done < all; done += run) {
    const char* a = in_a < 0 ? zeros.data() : pair.a.data() + in_a * item;
    const auto bytes = static_cast<std::size_t>(run * item);
    if (std::memcmp(pair.b.data() + in_b * item, a, bytes) != 0) return done;
    for (std::size_t dim = size.size() - (rows ? 1 : 0); dim-- > 0;) {
      const bool goes_on = ++index[dim] < size[dim];
      const std::int64_t steps = goes_on ? 1 : 1 - size[dim];
      in_b += steps * stride_b[dim];
      in_a += in_a < 0 ? 0 : steps * stride_a[dim];
      if (goes_on) break;
      index[dim] = 0;
    }
  }
  return all;
}

// Mistakes that no order of the indices of one dim tells.
class ElementMistakes {
 public:
  ElementMistakes(const TensorPair& pair, std::vector<CheckpointMistake>& found)
      : pair_(pair), found_(found) {}

  void find() {
    if (pair_.a.size() != pair_.b.size()) return;
    if (same_shape_ && !pair_.b.empty() && is_zero(pair_.b)) {
      // No factor, although a small one gives zeros.
      return found_.push_back({"piece-missing", "all of it=zeros", {}, {}});
    }
    find_probes();
    if (same_shape_ && pair_.type->dtype && is_floating(*pair_.type->dtype)) find_values();
    find_shift();
    find_orders();
    find_joins();
  }
  // Pieces of a mesh that cuts two dims.
  void find_cells() {
    for (std::size_t dim = 0; dim < pair_.shape_a.size() && same_shape_; ++dim) {
      for (std::size_t other = dim + 1; other < pair_.shape_a.size(); ++other)
        find_cells(dim, other);
    }
  }

 private:
  static bool is_zero(std::string_view text) {
    return text.find_first_not_of('\0') == std::string_view::npos;
  }
  Edit edit(const char* option, const std::string& text) const {
    return {option, fmt::format("{} = {}", pair_.name, text)};
  }

  // Elements all over the tensor that differ, by which most mistakes are refuted at once.
  void find_probes() {
    constexpr std::int64_t kParts = 64;
    for (std::int64_t part = 0; part < kParts; ++part) {
      std::int64_t at = count_ * part / kParts;
      const std::int64_t end = count_ * (part + 1) / kParts;
      const char *b = pair_.b.data(), *from = b + at * item_, *to = b + end * item_;
      at = (std::mismatch(from, to, pair_.a.data() + at * item_).first - b) / item_;
      if (at < end) probes_.push_back(at);
    }
  }

  // Whether it makes all blocks of B from those of A.
  bool makes_b(const auto& make) const {
    const auto item = static_cast<std::size_t>(item_);
    const auto fits = [&](std::size_t at, std::size_t size) {
      return make(pair_.a.substr(at, size)) == std::string_view(pair_.b).substr(at, size);
    };
    for (const std::int64_t probe : probes_) {
      if (!fits(static_cast<std::size_t>(probe) * item, item)) return false;
    }
    constexpr std::size_t kBlock = 1 << 20;
    for (std::size_t at = 0; at < pair_.a.size(); at += kBlock) {
      if (!fits(at, kBlock)) return false;
    }
    return true;
  }

  void find_values() {
    const DType own = *pair_.type->dtype;
    for (const DType to : {DType::kBF16, DType::kF16, DType::kF8E4M3FN}) {
      const auto rounded = [&](const std::string& a) {
        return converted(converted(a, own, to), to, own);
      };
      if (item_bytes(to) > item_ || to == own || !makes_b(rounded)) continue;
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

  // Elements that moved on by some places, and those of other tensors, or zeros, that came after
  // them. All of a small tensor may be of others: shifts of larger ones tell how far away.
  void find_shift() {
    constexpr std::int64_t kMost = 1 << 16;
    for (std::int64_t shift = 1; shift < std::min(count_, kMost); ++shift) {
      if (tell_shift(shift) || tell_shift(-shift)) return;
    }
    if (pair_.shifts == nullptr) return;
    for (const std::int64_t shift : std::set(*pair_.shifts)) {
      if (std::abs(shift) >= count_ && tell_shift(shift)) return;
    }
  }
  bool tell_shift(std::int64_t shift) {
    const std::int64_t own = std::max<std::int64_t>(count_ - std::abs(shift), 0),
                       in_b = shift > 0 ? count_ - own : 0, in_a = shift > 0 ? 0 : count_ - own;
    for (const std::int64_t probe : probes_) {
      if (probe >= in_b && probe < in_b + own && !same(probe, probe - in_b + in_a, 1)) return false;
    }
    // Probes alone may fit if much repeats.
    if (passes_left_ == 0 || (!same(in_b, in_a, own) && passes_left_-- > 0)) return false;
    const std::string_view came =
        std::string_view(pair_.b).substr(static_cast<std::size_t>((shift > 0 ? 0 : own) * item_),
                                         static_cast<std::size_t>((count_ - own) * item_));
    std::string from = own > 0 && is_zero(came) ? "zeros" : "";
    if (from.empty() && pair_.beside) from = pair_.beside(came, shift);
    if (from.empty()) return false;
    if (pair_.shifts != nullptr) pair_.shifts->insert(shift);
    const char* where = shift > 0 ? "begins" : "ends";
    found_.push_back(
        {"flat-shifted", fmt::format("shift={}; {} with={}", shift, where, from), {}, {}});
    return true;
  }
  bool same(std::int64_t in_b, std::int64_t in_a, std::int64_t count) const {
    return std::memcmp(pair_.b.data() + in_b * item_, pair_.a.data() + in_a * item_,
                       static_cast<std::size_t>(count * item_)) == 0;
  }

  // The mistake that takes A as a tensor of these sizes, with its dims in another order.
  void tell(const char* id, const std::string& told, const Dims& sizes, const Dims& order) {
    const Dims strides = contiguous_strides(sizes);
    Dims out, from;
    for (const std::int64_t dim : order) {
      out.push_back(sizes[static_cast<std::size_t>(dim)]);
      from.push_back(strides[static_cast<std::size_t>(dim)]);
    }
    const Dims to = contiguous_strides(out);
    for (const std::int64_t probe : probes_) {
      std::int64_t source = 0;
      for (std::size_t dim = 0; dim < out.size(); ++dim)
        source += probe / to[dim] % out[dim] * from[dim];
      if (!same(probe, source, 1)) return;
    }
    if (equal_run(pair_, out, 0, to, 0, from) < count_) return;
    // Neighbours change places until all are in order again.
    std::vector<Edit> edits;
    Dims left = order;
    for (auto at = left.begin(); (at = std::ranges::is_sorted_until(left)) != left.end();) {
      const std::size_t dim = static_cast<std::size_t>(at - left.begin()) - 1;
      const Swap swap{around(out, dim).first, out[dim], out[dim + 1], around(out, dim + 1).second};
      edits.push_back(edit("swap", swap.text()));
      std::swap(left[dim], left[dim + 1]);
      std::swap(out[dim], out[dim + 1]);
    }
    const bool last = sizes == pair_.shape_a && edits.size() == 1 && edits[0].text.ends_with(", 1");
    if (!same_shape_ && last) edits = {{"transpose", pair_.name}};
    if (!same_shape_ && !last)
      edits.back().text += fmt::format(" -> {}", text_of_list(pair_.shape_a, ", "));
    found_.push_back({id, told, std::move(edits), {}});
  }

  // Dims in another order; or bytes that are read as if they were.
  void find_orders() {
    const Dims& shape = pair_.shape_a;
    constexpr std::size_t kMost = 4;
    Dims order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    while (shape.size() <= kMost && std::next_permutation(order.begin(), order.end())) {
      Dims turned, sizes = shape;
      for (std::size_t dim = 0; dim < order.size(); ++dim) {
        turned.push_back(shape[static_cast<std::size_t>(order[dim])]);
        sizes[static_cast<std::size_t>(order[dim])] = shape[dim];
      }
      const std::string told = "dims=" + text_of_list(order, ", ");
      if (turned == pair_.shape_b) tell("transposed", told, shape, order);
      if (!same_shape_ || turned == shape) continue;
      tell("other-layout", told, shape, order);
      tell("other-layout", fmt::format("{} of {}", told, text_of_list(sizes, " x ")), sizes, order);
    }
  }

  // Pieces along one dim that were joined along another, and perhaps have the old shape again.
  void find_joins() {
    const Dims& shape = pair_.shape_a;
    for (std::size_t cut = 0; cut < shape.size(); ++cut) {
      for (std::int64_t ranks = 2; ranks <= shape[cut]; ++ranks) {
        for (std::size_t joined = 0; shape[cut] % ranks == 0 && joined < shape.size(); ++joined) {
          Dims result = shape, sizes = shape, order(shape.size() + 1);
          result[cut] /= ranks;
          result[joined] *= ranks;
          if (joined == cut || (!same_shape_ && result != pair_.shape_b)) continue;
          sizes[cut] = ranks;
          sizes.insert(cut + 1, shape[cut] / ranks);
          std::iota(order.begin(), order.end(), 0);
          const auto from = order.begin() + static_cast<std::ptrdiff_t>(cut),
                     to = order.begin() + static_cast<std::ptrdiff_t>(joined);
          joined < cut ? std::rotate(to, from, from + 1) : std::rotate(from, from + 1, to + 1);
          tell("other-dim", fmt::format("ranks={}; cut_dim={}; joined_dim={}", ranks, cut, joined),
               sizes, order);
          if (!same_shape_) continue;
          Dims turned, back = order;
          for (std::size_t dim = 0; dim < order.size(); ++dim) {
            turned.push_back(sizes[static_cast<std::size_t>(order[dim])]);
            back[static_cast<std::size_t>(order[dim])] = static_cast<std::int64_t>(dim);
          }
          tell("other-dim", fmt::format("ranks={}; cut_dim={}; joined_dim={}", ranks, joined, cut),
               turned, back);
        }
      }
    }
  }

  // Each is one of A's, or zeros. Those that differ are looked for first.
  void find_cells(std::size_t dim, std::size_t other) {
    constexpr std::int64_t kMost = 16, kMostPasses = 64;
    const Dims& shape = pair_.shape_a;
    std::int64_t left = kMostPasses * count_;
    for (std::int64_t p = 2; p <= std::min(kMost, shape[dim]); ++p) {
      for (std::int64_t q = 2; q <= std::min(kMost, shape[other]) && left > 0; ++q) {
        const Cells cells{shape, dim, other, p, q};
        Picked order(static_cast<std::size_t>(p * q));
        std::iota(order.begin(), order.end(), 0);
        const auto fits = [&](std::int64_t in_b, std::int64_t in_a) {
          const Box b = cells.at(in_b), a = cells.at(std::max<std::int64_t>(in_a, 0));
          if (in_a >= 0 && a.shape != b.shape) return false;
          const Dims stride = contiguous_strides(shape);
          const std::int64_t run = equal_run(
              pair_, b.shape,
              std::inner_product(b.from.begin(), b.from.end(), stride.begin(), std::int64_t{0}),
              stride,
              in_a < 0 ? -1
                       : std::inner_product(a.from.begin(), a.from.end(), stride.begin(),
                                            std::int64_t{0}),
              stride);
          left -= run + 1;
          return run == product(b.shape);
        };
        const auto settle = [&](std::int64_t in_b, bool differs) {
          std::int64_t& in_a = order[static_cast<std::size_t>(in_b)];
          if (in_a != in_b || (!differs && fits(in_b, in_b))) return true;
          for (std::int64_t tried = p * q - 1; in_a == in_b && tried >= -1 && left > 0; --tried) {
            if (tried != in_b && fits(in_b, tried)) in_a = tried;
          }
          return in_a != in_b;
        };
        bool whole = std::ranges::all_of(
            probes_, [&](std::int64_t probe) { return settle(cells.of(probe), true); });
        for (std::int64_t i = 0; i < p * q && whole; ++i) whole = settle(i, false);
        if (whole) return tell_cells(cells, order);
      }
    }
  }

  struct Cells {
    const Dims& shape;
    std::size_t dim, other;
    std::int64_t p, q;
    Box at(std::int64_t rank) const {
      Box box{Dims(shape.size()), shape};
      for (const auto& [cut, ranks, i] : {std::tuple(dim, p, rank / q), {other, q, rank % q}}) {
        const Chunk chunk = chunk_of(shape[cut], ranks, i);
        box.from[cut] = chunk.offset;
        box.shape[cut] = chunk.size;
      }
      return box;
    }
    std::int64_t of(std::int64_t element) const {
      const auto place = [&](std::size_t cut, std::int64_t ranks) {
        return element / around(shape, cut).second % shape[cut] /
               chunk_of(shape[cut], ranks, 0).size;
      };
      return place(dim, p) * q + place(other, q);
    }
  };

  void tell_cells(const Cells& cells, const Picked& order) {
    const auto& [shape, dim, other, p, q] = cells;
    Picked sorted = order;
    std::ranges::sort(sorted);
    const bool twice = std::ranges::adjacent_find(sorted) != sorted.end();
    const char* id = sorted[0] < 0 ? "piece-missing" : twice ? "piece-twice" : "rank-order";
    std::vector<Edit> edits;
    if (!twice && sorted[0] == 0 && shape.size() == 2 && shape[0] % p == 0 && shape[1] % q == 0) {
      const Swap there{p, shape[0] / p, q, shape[1] / q};
      edits = {
          edit("swap", fmt::format("{} -> {}, {}", there.text(), p * q, count_ / p / q)),
          edit("pick", fmt::format("[{}, _]", text_of(inverse_of(order, p * q)))),
          edit("swap", fmt::format("{} -> {}", there.inverse().text(), text_of_list(shape, ", ")))};
    }
    found_.push_back({id,
                      fmt::format("dims={}, {}; ranks={} x {}; order={}{}", dim, other, p, q,
                                  text_of_list(order, ", "), sorted[0] < 0 ? " (-1: zeros)" : ""),
                      std::move(edits),
                      {}});
  }

  const TensorPair& pair_;
  std::vector<CheckpointMistake>& found_;
  const bool same_shape_ = pair_.shape_a == pair_.shape_b;
  const std::int64_t item_ = pair_.type->bytes,
                     count_ = static_cast<std::int64_t>(pair_.a.size()) / item_;
  Picked probes_;
  int passes_left_ = 64;  // over all elements, of shifts that do not fit
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

// Adds up values of three lists: those of A where B has others, and where it has the same, and B's
// where they differ. Short ones are counted; of others parts of all are sorted.
template <typename T>
void count_values(const TensorPair& pair, DifferenceCounts& counts) {
  const std::size_t all = pair.a.size() / sizeof(T);
  const auto for_each = [&](const auto& take) {
    for (std::size_t i = 0; i < all; ++i) {
      T a, b;
      std::memcpy(&a, pair.a.data() + i * sizeof(T), sizeof(T));
      std::memcpy(&b, pair.b.data() + i * sizeof(T), sizeof(T));
      take(a == b ? 1 : 0, a);
      if (a != b) take(2, b);
    }
  };
  const auto add = [&](T value, std::int64_t times, bool elsewhere, bool twice) {
    counts.differ += times;
    counts.moved += elsewhere || twice ? times : 0;
    counts.twice += twice ? times : 0;
    counts.zero += value == T{} ? times : 0;
  };
  if constexpr (sizeof(T) <= 2) {
    std::array<std::vector<std::int64_t>, 3> times;
    times.fill(std::vector<std::int64_t>(std::size_t{1} << 8 * sizeof(T)));
    for_each([&](std::size_t list, T value) { ++times[list][value]; });
    for (std::size_t i = 0; i < times[2].size(); ++i)
      add(static_cast<T>(i), times[2][i], times[0][i] > 0, times[1][i] > 0);
  } else {
    constexpr std::size_t kMost = (16 << 20) / sizeof(T);
    const std::size_t parts = all / kMost + 1;
    for (std::size_t part = 0; part < parts; ++part) {
      std::array<std::vector<T>, 3> values;
      for_each([&](std::size_t list, T value) {
        if (parts == 1 || hash_mix(0, static_cast<std::uint64_t>(value)) % parts == part)
          values[list].push_back(value);
      });
      for (std::vector<T>& list : values) std::ranges::sort(list);
      std::array at = {values[0].begin(), values[1].begin()};
      for (const T value : values[2]) {
        bool there[2];
        for (const std::size_t i : {0, 1}) {
          while (at[i] != values[i].end() && *at[i] < value) ++at[i];
          there[i] = at[i] != values[i].end() && *at[i] == value;
        }
        add(value, 1, there[0], there[1]);
      }
    }
  }
}

std::optional<CheckpointMistake> explain_once(const TensorPair& pair) {
  constexpr std::int64_t kMost = 1 << 20;  // hashes of both, and their order: 40 MiB
  std::vector<CheckpointMistake> found;
  ElementMistakes elements(pair, found);
  elements.find();
  const Dims &a = pair.shape_a, &b = pair.shape_b;
  for (std::size_t dim = 0; dim < a.size() && a.size() == b.size(); ++dim) {
    Dims other = b;
    other[dim] = a[dim];
    if (other == a && std::max(a[dim], b[dim]) > 1 && std::max(a[dim], b[dim]) <= kMost)
      find_slice_mistakes(pair, dim, found);
  }
  if (found.empty()) elements.find_cells();
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
