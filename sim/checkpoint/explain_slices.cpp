// An index of a dim is known by the hash of its elements. A hypothesis says which index of A, or -1
// for zeros, each one of B is.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/hash.h"
#include "base/text.h"
#include "mesh/local_shape.h"
#include "sim/checkpoint/explain.h"

namespace shardlab {

namespace {

constexpr std::int64_t kMostRanks = 64, kMostRows = 1 << 15;

// Indices of A that are next to each other; zeros in their place: from -1.
struct Run {
  std::int64_t from = 0, count = 0;
};
struct Runs {
  void add(std::int64_t from, std::int64_t count) {
    if (count <= 0) return;
    size += count;
    all.push_back({from, count});
  }
  // The first ones alone.
  void cut(std::int64_t until) {
    while (size > until) {
      const std::int64_t less = std::min(size - until, all.back().count);
      size -= less;
      if ((all.back().count -= less) == 0) all.pop_back();
    }
  }
  void add(const Chunk& chunk, std::int64_t from = 0) { add(from + chunk.offset, chunk.size); }
  // Makes it this long, with zeros behind its indices.
  void fill(std::int64_t until) { add(-1, until - size); }
  Picked picked() const {
    Picked picked;
    for (const auto& [from, count] : all) {
      for (std::int64_t i = 0; i < count; ++i) picked.push_back(from < 0 ? -1 : from + i);
    }
    return picked;
  }

  std::vector<Run> all;
  std::int64_t size = 0;
};

// Hashes of the indices of a dim, and of all ranges of them.
class Hashes {
 public:
  explicit Hashes(const std::vector<std::uint64_t>& each) : sums_(1, 0) {
    for (const std::uint64_t one : each) sums_.push_back(sums_.back() * kFactor + one);
  }
  std::uint64_t operator[](std::int64_t i) const { return at(i + 1) - at(i) * kFactor; }
  std::uint64_t range(std::int64_t from, std::int64_t count) const {
    std::uint64_t factor = 1, power = kFactor;
    for (std::int64_t left = count; left > 0; left /= 2, power *= power)
      factor *= left % 2 == 0 ? 1 : power;
    return at(from + count) - at(from) * factor;
  }

 private:
  static constexpr std::uint64_t kFactor = 0x9E3779B97F4A7C15;
  std::uint64_t at(std::int64_t i) const { return sums_[static_cast<std::size_t>(i)]; }
  std::vector<std::uint64_t> sums_;
};

class SliceMistakes {
 public:
  SliceMistakes(const TensorPair& pair, std::size_t dim, std::vector<CheckpointMistake>& found)
      : pair_(pair), dim_(dim), found_(found) {
    for (std::int64_t o = 0; o < around_.first; ++o) zero_ = hash_words(zero_, zeros_);
    zero_until_.push_back(0);
    for (std::int64_t i = 0; i < m_; ++i)
      zero_until_.push_back(b_[i] == zero_ ? zero_until_.back() + 1 : 0);
  }

  void find() {
    find_padding();
    if (n_ == m_) {
      find_cuts();
      find_heads();
      find_parts();
      find_blocks();
    }
    find_any();
  }

 private:
  enum class Way : std::uint8_t { kOfA, kOfB };

  // Whether so many indices of B are those of A, or zeros.
  bool is(std::int64_t in_b, std::int64_t in_a, std::int64_t count = 1) const {
    if (in_a < 0) return zero_until_[static_cast<std::size_t>(in_b + count)] >= count;
    return count == 1 ? b_[in_b] == a_[in_a] : b_.range(in_b, count) == a_.range(in_a, count);
  }

  // Whether these indices of A are B, or these of B are A; the mistake is then added. `swap`: the
  // same, for edits.
  bool tell(const char* id, const std::string& told, const Runs& map, Way way = Way::kOfA,
            const Swap& swap = {}) {
    std::int64_t at = 0;
    for (const auto& [from, count] : map.all) {
      const bool inside = at + count <= m_ && (from < 0 || from + count <= n_);
      if (!inside || !(way == Way::kOfA ? is(at, from, count) : is(from, at, count))) return false;
      at += count;
    }
    if (at != m_ || !gives_b(map, way)) return false;
    std::vector<Edit> edits;
    const Picked back = way == Way::kOfB ? map.picked() : inverse_of(map.picked(), n_);
    if (swap.a > 1) {
      const Swap all{around_.first * swap.o, swap.b, swap.a, swap.r * around_.second};
      edits = {{"swap", fmt::format("{} = {}", pair_.name, all.text())}};
    } else if (!back.empty() && std::ranges::count(back, -1) == 0) {
      std::vector<std::string> dims(pair_.shape_a.size(), "_");
      dims[dim_] = text_of(back);
      edits = {{"pick", fmt::format("{} = [{}]", pair_.name, text_of_list(dims, ", "))}};
    }
    found_.push_back(
        {id, fmt::format("dim={}{}{}", dim_, told.empty() ? "" : "; ", told), edits, {}});
    return true;
  }
  // Element by element: hashes prove nothing.
  bool gives_b(const Runs& map, Way way) const {
    const auto bytes = static_cast<std::int64_t>(zeros_.size());
    for (std::int64_t o = 0; o < around_.first; ++o) {
      std::int64_t at = 0;
      for (const auto& [from, count] : map.all) {
        for (std::int64_t i = 0; i < count; i += from < 0 ? 1 : count) {
          const std::int64_t in_b = o * m_ + (way == Way::kOfA ? at + i : from),
                             in_a = o * n_ + (way == Way::kOfA ? from : at);
          const char* a = from < 0 ? zeros_.data() : pair_.a.data() + in_a * bytes;
          const auto size = static_cast<std::size_t>((from < 0 ? 1 : count) * bytes);
          if (std::memcmp(a, pair_.b.data() + in_b * bytes, size) != 0) return false;
        }
        at += count;
      }
    }
    return true;
  }

  // Zeros behind all, or behind the piece of each rank.
  void find_padding() {
    Runs kept;
    kept.add(0, std::min(n_, m_));
    kept.fill(m_);
    bool zeros = m_ != n_;  // or those that B has no longer
    for (std::int64_t i = m_; i < n_; ++i) zeros = zeros && a_[i] == zero_;
    if (zeros) tell("padding-kept", fmt::format("a={}; b={}", n_, m_), kept);
    for (std::int64_t ranks = 2; ranks <= std::min(kMostRanks, n_); ++ranks) {
      const Chunk own = chunk_of(n_, ranks, 0), next = chunk_of(n_, ranks, 1);
      for (std::int64_t piece = own.size + 1; piece <= m_; ++piece) {
        if (!is(own.size, -1, piece - own.size)) break;
        if (!is(piece, next.offset, std::min(next.size, m_ - piece))) continue;
        Runs map;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          map.add(chunk_of(n_, ranks, rank));
          map.fill((rank + 1) * piece);
        }
        map.fill(m_);
        map.cut(m_);
        if (tell("padding-inside", fmt::format("ranks={}; piece={}", ranks, piece), map)) return;
      }
    }
  }

  // A dim that the second of two mesh dims cuts first, joined rank by rank.
  void find_cuts() {
    const std::int64_t most = std::min<std::int64_t>(32, n_);
    for (std::int64_t p = 2; p <= most; ++p) {
      for (std::int64_t q = 2; q <= most; ++q) {
        Runs map;
        for (std::int64_t rank = 0; rank < p * q; ++rank) {
          const Chunk outer = chunk_of(n_, q, rank % q);
          map.add(chunk_of(outer.size, p, rank / q), outer.offset);
        }
        if (tell("order-of-cuts", fmt::format("mesh={} x {}", p, q), map)) return;
      }
    }
  }

  // Rows of heads from pairs to halves, or to pairs, and perhaps back with other heads.
  void find_heads() {
    Picked counts;
    for (std::int64_t heads = 1; n_ <= kMostRows && heads <= n_ / 2; ++heads) {
      if (n_ % (2 * heads) == 0) counts.push_back(heads);
    }
    for (const std::int64_t heads : counts) {
      const std::int64_t own = n_ / heads / 2;
      for (std::size_t i = 0; i <= counts.size() && own > 1; ++i) {
        const std::int64_t used = i == 0 ? 0 : counts[i - 1], other = i == 0 ? 1 : n_ / used / 2;
        for (const bool halves : {true, false}) {
          const Swap there = halves ? Swap{heads, own, 2, 1} : Swap{heads, 2, own, 1},
                     back = halves ? Swap{used, 2, other, 1} : Swap{used, other, 2, 1};
          Runs map;
          for (std::int64_t row = 0; row < n_ && used != heads; ++row) {
            const std::int64_t from = there.source(used == 0 ? row : back.source(row));
            if (!is(row, from)) break;
            map.add(from, 1);
          }
          std::string told = fmt::format("heads={}; b={}", heads, halves ? "halves" : "pairs");
          if (used > 0) told += fmt::format("; and back with heads={}", used);
          tell("rope-pairs", told, map, Way::kOfA, used == 0 ? there : Swap{});
        }
      }
    }
  }

  // Parts of a fused tensor: of one size, or of the query, the keys and the values.
  void find_parts() {
    std::vector<Picked> all;
    for (std::size_t count = 2; count <= 4; ++count)
      all.emplace_back(count, n_ / static_cast<std::int64_t>(count));
    for (std::int64_t g = 2; g <= kMostRanks; ++g)
      all.push_back({n_ / (g + 2) * g, n_ / (g + 2), n_ / (g + 2)});
    for (const Picked& parts : all) {
      if (parts.back() == 0 || std::accumulate(parts.begin(), parts.end(), std::int64_t{0}) != n_)
        continue;
      const std::string text = text_of_list(parts, ", ");
      std::vector<std::size_t> order(parts.size());
      std::iota(order.begin(), order.end(), 0);
      const auto joined = [&](std::int64_t ranks) {
        Runs map;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          for (const std::size_t i : order) {
            const auto own = parts.begin() + static_cast<std::ptrdiff_t>(i);
            map.add(chunk_of(*own, ranks, rank),
                    std::accumulate(parts.begin(), own, std::int64_t{0}));
          }
        }
        return map;
      };
      for (std::int64_t ranks = 1; ranks <= kMostRanks && n_ <= kMostRows; ++ranks) {
        const bool rows = ranks == 1;
        const auto count = static_cast<std::int64_t>(parts.size());
        const Swap there = rows ? Swap{1, count, n_ / count, 1} : Swap{},
                   back{1, there.b, there.a, 1};
        const char* id = rows ? "fused-interleaved" : "fused-whole";
        const std::string told =
            fmt::format("parts={}; {}", text, rows ? "row by row" : fmt::format("ranks={}", ranks));
        if (rows && parts[0] != parts.back()) continue;
        const Runs map = joined(rows ? parts[0] : ranks);
        tell(id, told + " in B", map, Way::kOfA, there);
        tell(id, told + " in A", map, Way::kOfB, back);
      }
      while (parts.size() <= 3 && std::ranges::next_permutation(order).found) {
        tell("fused-exchanged", fmt::format("parts={}; order={}", text, text_of_list(order, ", ")),
             joined(1));
      }
    }
  }

  // Pieces of ranks, heads or experts: each is one of A's, or zeros.
  void find_blocks() {
    for (std::int64_t pieces = 2; pieces <= std::min(n_, kMostRanks); ++pieces) {
      Runs map;
      Picked order;
      for (std::int64_t j = 0; j < pieces; ++j) {
        Picked tried = {j};
        for (const bool used : {false, true}) {
          for (std::int64_t p = 0; p < pieces; ++p) {
            if ((std::ranges::count(order, p) > 0) == used) tried.push_back(p);
          }
        }
        tried.push_back(-1);
        const auto found = std::ranges::find_if(tried, [&](std::int64_t p) {
          const Chunk own = chunk_of(n_, pieces, p < 0 ? j : p);
          return map.size + own.size <= m_ && is(map.size, p < 0 ? -1 : own.offset, own.size);
        });
        if (found == tried.end()) break;
        order.push_back(*found);
        const Chunk own = chunk_of(n_, pieces, *found < 0 ? j : *found);
        map.add(*found < 0 ? -1 : own.offset, own.size);
      }
      if (std::ssize(order) == pieces && name_blocks(pieces, order, map)) return;
    }
  }
  bool name_blocks(std::int64_t pieces, const Picked& order, const Runs& map) {
    const std::string told = fmt::format("ranks={}; order={}", pieces, text_of_list(order, ", "));
    Picked sorted = order;
    std::ranges::sort(sorted);
    if (sorted[0] < 0) return tell("piece-missing", told + " (-1: zeros)", map);
    if (sorted[0] == sorted.back())
      tell("kv-repeated", fmt::format("heads={}; head={}", pieces, sorted[0]), map);
    if (std::ranges::adjacent_find(sorted) != sorted.end()) return tell("piece-twice", told, map);
    tell("expert-order", told, map);
    tell("head-order", told, map);
    return tell("rank-order", told, map);
  }

  // Any indices of A, and zeros: runs go on where they can.
  void find_any() {
    std::vector<std::int32_t> sorted(static_cast<std::size_t>(n_));
    std::iota(sorted.begin(), sorted.end(), 0);
    std::ranges::stable_sort(sorted, {}, [&](std::int32_t i) { return a_[i]; });
    Runs map;
    bool in_place = n_ == m_;
    for (std::int64_t i = 0, next = 0; i < m_; ++i) {
      const auto found =
          std::ranges::lower_bound(sorted, b_[i], {}, [&](std::int32_t k) { return a_[k]; });
      const bool there = found != sorted.end() && a_[*found] == b_[i];
      if (!there && b_[i] != zero_) return;
      const bool own = i < n_ && is(i, i), goes_on = next < n_ && is(i, next);
      const std::int64_t from = own && in_place ? i : goes_on ? next : there ? *found : -1;
      map.add(from, 1);
      in_place = in_place && (from == i || from < 0);
      next = from + 1;
    }
    tell(in_place ? "piece-missing" : "permuted", "b=" + text_of(map.picked()).substr(0, 400), map);
  }

  const TensorPair& pair_;
  const std::size_t dim_;
  std::vector<CheckpointMistake>& found_;
  const std::int64_t n_ = pair_.shape_a[dim_], m_ = pair_.shape_b[dim_];  // indices of A and of B
  const std::pair<std::int64_t, std::int64_t> around_ = around(pair_.shape_a, dim_);  // elements
  const Hashes a_{slice_hashes(pair_.a, pair_.shape_a, pair_.type->bytes, dim_)},
      b_{slice_hashes(pair_.b, pair_.shape_b, pair_.type->bytes, dim_)};
  // Zeros in place of the elements of an index, next to each other.
  const std::string zeros_ =
      std::string(static_cast<std::size_t>(around_.second * pair_.type->bytes), '\0');
  std::uint64_t zero_ = 0;
  std::vector<std::int32_t> zero_until_;  // indices of B before one, next to it, that are zeros
};

}  // namespace

void find_slice_mistakes(const TensorPair& pair, std::size_t dim,
                         std::vector<CheckpointMistake>& found) {
  SliceMistakes(pair, dim, found).find();
}

std::uint64_t hash_words(std::uint64_t seed, std::string_view bytes) {
  std::uint64_t words[2];
  for (; bytes.size() >= sizeof words; bytes.remove_prefix(sizeof words)) {
    std::memcpy(words, bytes.data(), sizeof words);
    seed = hash_mix(seed ^ words[0], words[1]);
  }
  if (bytes.empty()) return seed;
  words[0] = words[1] = 0;
  std::memcpy(words, bytes.data(), bytes.size());
  return hash_mix(seed ^ words[0], words[1] + bytes.size());
}

std::vector<std::uint64_t> slice_hashes(const std::string& elements, const Dims& shape,
                                        std::int64_t item, std::size_t dim) {
  const auto [outer, inner] = around(shape, dim);
  const auto run = static_cast<std::size_t>(inner * item);
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(shape[dim]), 0);
  const char* at = elements.data();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::uint64_t& hash : hashes) {
      hash = hash_words(hash, {at, run});
      at += run;
    }
  }
  return hashes;
}

}  // namespace shardlab
