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

void append(Picked& map, const Chunk& chunk, std::int64_t from = 0) {
  for (std::int64_t i = 0; i < chunk.size; ++i) map.push_back(from + chunk.offset + i);
}
// Makes the map this long, with zeros behind its indices.
void fill(Picked& map, std::int64_t size) { map.resize(static_cast<std::size_t>(size), -1); }

struct SliceMistakes {
  void find() {
    for (std::int64_t o = 0; o < around_.first; ++o) zero_ = hash_words(zero_, zeros_);
    find_padding();
    if (n_ == m_) {
      find_cuts();
      find_heads();
      find_parts();
      find_blocks();
    }
    find_any();
  }

  bool is(std::size_t in_b, std::int64_t in_a) const {
    return b_[in_b] == (in_a < 0 ? zero_ : a_[static_cast<std::size_t>(in_a)]);
  }

  // Whether these indices of A are B; the mistake is then added. `swap`: the same, for edits.
  bool tell(const char* id, const std::string& told, const Picked& map, const Swap& swap = {}) {
    bool fits = map.size() == b_.size();
    for (std::size_t i = 0; fits && i < map.size(); ++i) fits = is(i, map[i]);
    if (!fits || !gives_b(map)) return false;
    std::vector<Edit> edits;
    const Picked back = inverse_of(map, n_);
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
  bool gives_b(const Picked& map) const {
    const char* b = pair_.b.data();
    for (std::int64_t o = 0; o < around_.first; ++o) {
      for (const std::int64_t index : map) {
        const auto from = static_cast<std::size_t>(o * n_ + std::max<std::int64_t>(index, 0));
        const char* a = index < 0 ? zeros_.data() : pair_.a.data() + from * zeros_.size();
        if (std::memcmp(a, b, zeros_.size()) != 0) return false;
        b += zeros_.size();
      }
    }
    return true;
  }

  // Zeros behind all, or behind the piece of each rank.
  void find_padding() {
    Picked map;
    append(map, {std::min(n_, m_), 0});
    fill(map, m_);
    const auto first = std::ranges::mismatch(a_, b_).in1 - a_.begin();
    const bool cut = m_ < n_ && std::count(a_.begin() + m_, a_.end(), zero_) == n_ - m_;
    if (m_ > n_ || cut) tell("padding-kept", fmt::format("a={}; b={}", n_, m_), map);
    std::int64_t zeros = first;
    while (zeros < m_ && is(static_cast<std::size_t>(zeros), -1)) ++zeros;
    for (std::int64_t ranks = 2; ranks <= std::min(kMostRanks, n_); ++ranks) {
      for (std::int64_t piece = chunk_of(n_, ranks, 0).size + 1; piece <= zeros; ++piece) {
        map.clear();
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          append(map, chunk_of(n_, ranks, rank));
          fill(map, (rank + 1) * piece);
        }
        fill(map, m_);
        if (tell("padding-inside", fmt::format("ranks={}; piece={}", ranks, piece), map)) return;
      }
    }
  }

  // A dim that the second of two mesh dims cuts first, joined rank by rank.
  void find_cuts() {
    const std::int64_t most = std::min<std::int64_t>(32, n_);
    for (std::int64_t p = 2; p <= most; ++p) {
      for (std::int64_t q = 2; q <= most; ++q) {
        Picked map;
        for (std::int64_t rank = 0; rank < p * q; ++rank) {
          const Chunk outer = chunk_of(n_, q, rank % q);
          append(map, chunk_of(outer.size, p, rank / q), outer.offset);
        }
        if (tell("order-of-cuts", fmt::format("mesh={} x {}", p, q), map)) return;
      }
    }
  }

  // Rows of heads from pairs to halves, or to pairs, and perhaps back with other heads.
  void find_heads() {
    for (std::int64_t heads = 1; n_ <= kMostRows && heads <= n_ / 4; ++heads) {
      for (std::int64_t used = 0; used <= n_ / 2 && n_ % (2 * heads) == 0; ++used) {
        if (used == heads || (used > 0 && n_ % (2 * used) != 0)) continue;
        for (const bool halves : {true, false}) {
          const std::int64_t own = n_ / heads / 2, other = used == 0 ? 1 : n_ / used / 2;
          const Swap there = halves ? Swap{heads, own, 2, 1} : Swap{heads, 2, own, 1},
                     back = halves ? Swap{used, 2, other, 1} : Swap{used, other, 2, 1};
          Picked map;
          for (std::int64_t i = 0; i < n_ && (i == 0 || is(map.size() - 1, map.back())); ++i) {
            map.push_back(there.source(used == 0 ? i : back.source(i)));
          }
          const std::string told =
              fmt::format("heads={}; b={}", heads, halves ? "halves" : "pairs");
          if (used == 0) tell("rope-pairs", told, map, there);
          if (used > 0)
            tell("rope-pairs", fmt::format("{}; and back with heads={}", told, used), map);
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
        Picked map;
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          for (const std::size_t i : order) {
            const auto own = parts.begin() + static_cast<std::ptrdiff_t>(i);
            append(map, chunk_of(*own, ranks, rank),
                   std::accumulate(parts.begin(), own, std::int64_t{0}));
          }
        }
        return map;
      };
      for (std::int64_t ranks = 1; ranks <= kMostRanks && n_ <= kMostRows; ++ranks) {
        const bool rows = ranks == 1;
        const Picked map = joined(rows ? parts[0] : ranks);
        const auto count = static_cast<std::int64_t>(parts.size());
        const Swap there = rows ? Swap{1, count, n_ / count, 1} : Swap{},
                   back{1, there.b, there.a, 1};
        const char* id = rows ? "fused-interleaved" : "fused-whole";
        const std::string told =
            fmt::format("parts={}; {}", text, rows ? "row by row" : fmt::format("ranks={}", ranks));
        if (!rows || parts[0] == parts.back()) tell(id, told + " in B", map, there);
        if (!rows || parts[0] == parts.back()) tell(id, told + " in A", inverse_of(map, n_), back);
      }
      while (parts.size() <= 3 && std::ranges::next_permutation(order).found) {
        tell("fused-exchanged", fmt::format("parts={}; order={}", text, text_of_list(order, ", ")),
             joined(1));
      }
    }
  }

  // Pieces of ranks, heads or experts: each is one of A's, or zeros.
  void find_blocks() {
    for (std::int64_t pieces = 2; pieces <= n_; ++pieces) {
      if (pieces > kMostRanks && (pieces < n_ || pieces > kMostRows)) continue;
      Picked map, order;
      for (std::int64_t j = 0; j < pieces; ++j) {
        Picked tried = {j};
        for (const bool used : {false, true}) {
          for (std::int64_t p = 0; p < pieces && pieces <= kMostRanks; ++p) {
            if ((std::ranges::count(order, p) > 0) == used) tried.push_back(p);
          }
        }
        tried.push_back(-1);
        const auto found = std::ranges::find_if(tried, [&](std::int64_t p) {
          const Chunk own = chunk_of(n_, pieces, p < 0 ? j : p);
          bool fits = map.size() + static_cast<std::size_t>(own.size) <= b_.size();
          for (std::int64_t i = 0; fits && i < own.size; ++i)
            fits = is(map.size() + static_cast<std::size_t>(i), p < 0 ? -1 : own.offset + i);
          return fits;
        });
        if (found == tried.end()) break;
        order.push_back(*found);
        const Chunk own = chunk_of(n_, pieces, *found < 0 ? j : *found);
        if (*found >= 0) append(map, own);
        if (*found < 0) fill(map, static_cast<std::int64_t>(map.size()) + own.size);
      }
      if (map.size() == b_.size() && name_blocks(pieces, order, map)) return;
    }
  }
  bool name_blocks(std::int64_t pieces, const Picked& order, const Picked& map) {
    const std::string told =
        fmt::format("ranks={}; order={}", pieces,
                    pieces > kMostRanks ? text_of(order) : text_of_list(order, ", "));
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
    std::vector<std::pair<std::uint64_t, std::int64_t>> sorted;
    for (const std::uint64_t hash : a_) sorted.emplace_back(hash, sorted.size());
    std::ranges::sort(sorted);
    Picked map;
    for (std::size_t i = 0; i < b_.size(); ++i) {
      const std::int64_t next = map.empty() ? 0 : map.back() + 1;
      const auto found = std::ranges::lower_bound(sorted, std::pair(b_[i], std::int64_t{0}));
      const bool there = found != sorted.end() && found->first == b_[i];
      if (!there && b_[i] != zero_) return;
      map.push_back(next < n_ && is(i, next) ? next : there ? found->second : -1);
    }
    tell("permuted", "b=" + text_of(map).substr(0, 400), map);
  }

  const TensorPair& pair_;
  std::size_t dim_;
  std::vector<CheckpointMistake>& found_;
  std::int64_t n_ = pair_.shape_a[dim_], m_ = pair_.shape_b[dim_];  // indices of A and of B
  std::pair<std::int64_t, std::int64_t> around_ = around(pair_.shape_a, dim_);  // elements
  // Hashes by index.
  std::vector<std::uint64_t> a_ = slice_hashes(pair_.a, pair_.shape_a, pair_.type->bytes, dim_),
                             b_ = slice_hashes(pair_.b, pair_.shape_b, pair_.type->bytes, dim_);
  // Zeros in place of the elements of an index, next to each other.
  std::string zeros_ =
      std::string(static_cast<std::size_t>(around_.second * pair_.type->bytes), '\0');
  std::uint64_t zero_ = 0;
};

}  // namespace

void find_slice_mistakes(const TensorPair& pair, std::size_t dim,
                         std::vector<CheckpointMistake>& found) {
  SliceMistakes{pair, dim, found}.find();
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
