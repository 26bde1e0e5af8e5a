// Hashes of A's tensors are kept, so that contents are found under other names; where hashes are
// equal, elements are compared.
#include "sim/checkpoint/compare.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace shardlab {

namespace {

// Tensors that nothing explains, after which nothing is looked for any more: two trainings differ
// in all of theirs.
constexpr std::ptrdiff_t kMostUnexplained = 16;

// Whether all elements, in another type, are those.
bool equal_as(const std::string& a, DType from, const std::string& b, DType to) {
  constexpr std::size_t kBlock = 1 << 18;
  const auto own = static_cast<std::size_t>(item_bytes(from)),
             other = static_cast<std::size_t>(item_bytes(to));
  bool equal = a.size() / own == b.size() / other;
  for (std::size_t i = 0; equal && i < a.size() / own; i += kBlock) {
    const std::string_view expected = std::string_view(b).substr(i * other, kBlock * other);
    equal = converted(a.substr(i * own, kBlock * own), from, to) == expected;
  }
  return equal;
}

// Whether elements differ in these boxes alone.
bool differs_within(const TensorPair& pair, const std::vector<Box>& boxes) {
  const auto item = static_cast<std::size_t>(pair.type->bytes);
  for (std::size_t at = 0; !boxes.empty() && at < pair.a.size(); at += item) {
    if (pair.a.compare(at, item, pair.b, at, item) == 0) continue;
    Dims place = pair.shape_a;
    auto rest = static_cast<std::int64_t>(at / item);
    for (std::size_t dim = place.size(); dim-- > 0; rest /= pair.shape_a[dim])
      place[dim] = rest % pair.shape_a[dim];
    const bool inside = std::ranges::any_of(boxes, [&](const Box& box) {
      bool in = true;
      for (std::size_t dim = 0; dim < place.size(); ++dim)
        in = in && place[dim] >= box.from[dim] && place[dim] < box.from[dim] + box.shape[dim];
      return in;
    });
    if (!inside) return false;
  }
  return !boxes.empty();
}

class Comparer {
 public:
  Comparer(const MadeTensors& a, const MadeTensors& b) : a_(a), b_(b) {
    for (const MadeTensor& tensor : b) known_.in_b.emplace(tensor.name, &tensor);
    for (const MadeTensor& tensor : a) known_.in_a.emplace(tensor.name, &tensor);
  }

  CheckpointComparison compare(const std::function<void(std::int64_t, std::int64_t)>& progress) {
    std::int64_t done = 0, all = 0;
    for (const MadeTensor& tensor : a_) all += tensor.bytes();
    for (const MadeTensor& tensor : a_) {
      const auto other = known_.in_b.find(tensor.name);
      if (other != known_.in_b.end()) compare(tensor, *other->second);
      if (other == known_.in_b.end()) out_.lone.push_back({tensor.name, tensor.type_text(), true});
      if (other == known_.in_b.end() && tensor.elements) pass_over(tensor, tensor);
      if (progress) progress(done += tensor.bytes(), all);
    }
    for (const MadeTensor& tensor : b_) {
      const bool lone = !known_.in_a.contains(tensor.name);
      if (lone) out_.lone.push_back({tensor.name, tensor.type_text(), false});
    }
    for (const TensorDifference& one : out_.differences) differing_.insert(one.name);
    for (TensorDifference& one : out_.differences) {
      const MadeTensor &a = *known_.in_a.at(one.name), &b = *known_.in_b.at(one.name);
      if (a.elements && b.elements) explain(a, b, one);
    }
    look_for_names(known_, b_, differing_, out_.lone);
    try_edits();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kPart = 1 << 18;  // of tensors beside the pair

  // The only pass over a tensor of A that is equal, whose hash is kept: contents that are one value
  // all over are no sign of where they are from. Whether B's is equal.
  bool pass_over(const MadeTensor& a, const MadeTensor& b) {
    const auto item = static_cast<std::size_t>(a.item());
    const bool by_rows = a.rows && b.rows;
    bool equal = alike(a, b), constant = true;
    std::uint64_t hash = 0;
    std::int64_t from = 0;
    std::string first, other = equal && !by_rows ? b.elements() : "";
    for_blocks(a, [&](std::string_view block) {
      hash = hash_words(hash, block);
      if (first.empty()) first = block.substr(0, item);
      const std::size_t rest = block.size() - std::min(item, block.size());
      constant = constant && block.starts_with(first) &&
                 block.substr(block.size() - rest) == block.substr(0, rest);
      if (equal && by_rows && !block.empty()) {
        other.resize(block.size());
        const auto row = static_cast<std::size_t>(a.bytes() / a.shape[0]);
        const std::int64_t to = from + static_cast<std::int64_t>(block.size() / row);
        b.rows(from, to, other.data());
        from = to;
      }
      equal = equal && other == block;
      return true;
    });
    (constant ? known_.constant : known_.by_hash)[hash].push_back(&a);
    return equal;
  }
  void compare(const MadeTensor& a, const MadeTensor& b) {
    TensorDifference found{a.name, a.type_text(), b.type_text()};
    if (a.type == nullptr || b.type == nullptr || !a.elements || !b.elements) {
      if (a.elements && b.elements)
        out_.others.push_back(
            fmt::format("{}: {} is not read", a.name, a.type == nullptr ? found.a : found.b));
      if (!a.elements || !b.elements)
        alike(a, b) ? static_cast<void>(++out_.equal) : out_.differences.push_back(found);
      return;
    }
    for (const MadeTensor* one : {&a, &b}) {
      for (const Box& hole : one->holes)
        out_.others.push_back(
            fmt::format("{}: no piece of {} has {}", a.name, one == &a ? "A" : "B", text_of(hole)));
    }
    const bool equal = pass_over(a, b);
    const std::string own = a.variants.empty() ? "" : a.elements();
    for (const auto& variant : a.variants) {
      const std::string elements = variant();
      if (elements != own && (equal || elements == b.elements()))
        found.mistake = {"one-of-replicas", {}, {}, {}};
    }
    out_.equal += equal;
    out_.equal_bytes += equal ? a.bytes() : 0;
    if (!equal || found.mistake) out_.differences.push_back(std::move(found));
  }

  // Ends of the tensors before it in A, or begins of those behind it.
  std::string beside(const MadeTensor& a, std::ptrdiff_t step) const {
    std::string text;
    for (std::ptrdiff_t i = &a - a_.data() + step; i >= 0 && i < std::ssize(a_); i += step) {
      const MadeTensor& next = a_[static_cast<std::size_t>(i)];
      if (next.type != a.type || !next.elements || text.size() >= kPart) break;
      const std::int64_t size = next.shape.empty() ? 0 : next.shape[0],
                         row = std::max<std::int64_t>(
                             next.bytes() / std::max<std::int64_t>(size, 1), 1),
                         count = std::min(size, static_cast<std::int64_t>(kPart) / row + 1);
      const std::string part = size == 0  ? next.elements()
                               : step < 0 ? rows_of(next, size - count, size)
                                          : rows_of(next, 0, count);
      text = step < 0 ? part + text : text + part;
    }
    return text;
  }

  void explain(const MadeTensor& a, const MadeTensor& b, TensorDifference& found) {
    if (found.mistake) return;
    for (const MadeTensor* same : known_.same_in_a(b, known_.by_hash)) {
      found.mistake = {"names-exchanged",
                       "b=" + same->name,
                       {{"rename", fmt::format("{} -> {}-moved", a.name, same->name)},
                        {"rename", fmt::format("{0}-moved -> {0}", same->name)}},
                       {}};
      break;
    }
    const bool looks = unexplained_ < kMostUnexplained;
    explain_pair(a, b, looks, found);
    if (!found.mistake && looks) look_elsewhere(a, b, found);
    if (found.mistake) found.wrong.clear();
    unexplained_ += found.mistake ? 0 : 1;
  }

  // Two tensors are in memory here, and no others of their size.
  void explain_pair(const MadeTensor& a, const MadeTensor& b, bool looks, TensorDifference& found) {
    const bool same_shape = a.shape == b.shape;
    TensorPair pair{a.name, b.type, a.shape, b.shape, a.elements(), b.elements(), "", ""};
    std::vector<Edit> narrowed;  // back to A's dtype, if B's holds all of it
    if (a.type != b.type) {
      const auto from = a.type->dtype, to = b.type->dtype;
      if (!from || !to) return;
      std::string wide = converted(pair.a, *from, *to);
      const bool exact = equal_as(wide, *to, pair.a, *from);
      if (exact) narrowed = {{"dtype", fmt::format("{} = {}", a.name, a.type->name)}};
      pair.a = std::move(wide);
      if (same_shape && pair.a == pair.b) {
        const char* id = exact ? "other-dtype" : "rounded";
        found.mistake = {id, fmt::format("to={}", b.type->name), narrowed, {}};
        return;
      }
    }
    if (same_shape) found.counts = count_differences(pair);
    if (found.mistake) return;
    if (looks) {
      if (a.type == b.type) pair.tail = beside(a, -1);
      if (a.type == b.type) pair.head = beside(a, 1);
      if (same_shape && differs_within(pair, b.holes)) {
        found.mistake = {"piece-missing", "no piece of B has=" + text_of(b.holes[0]), {}, {}};
      } else {
        found.mistake = shardlab::explain(pair);
      }
      if (found.mistake && !found.mistake->edits.empty())
        found.mistake->edits.insert(found.mistake->edits.end(), narrowed.begin(), narrowed.end());
      if (found.mistake) return;
    }
    if (same_shape) found.wrong = wrong_indices(pair);
  }

  // Contents that A ties to others, or rows of another tensor.
  void look_elsewhere(const MadeTensor& a, const MadeTensor& b, TensorDifference& found) {
    const auto is_other = [&](const MadeTensor& one) { return &one != &a; };
    for (const MadeTensor* tied : known_.same_in_a(a, known_.by_hash, is_other)) {
      if (!known_.in_b.contains(tied->name) || differing_.contains(tied->name)) continue;
      found.mistake = {"tied-differ",
                       "tied with=" + tied->name,
                       {{"tie", fmt::format("{} = {}", a.name, tied->name)}},
                       {}};
      return;
    }
    if (alike(a, b) && a.shape.size() > 1 && a.bytes() > 0) look_for_rows(a, b, found);
  }
  void look_for_rows(const MadeTensor& a, const MadeTensor& b, TensorDifference& found) {
    const std::string elements = b.elements();
    const auto own = slice_hashes(a.elements(), a.shape, a.item(), 0),
               hashes = slice_hashes(elements, b.shape, b.item(), 0);
    const std::size_t row = elements.size() / hashes.size();
    std::unordered_multimap<std::uint64_t, std::size_t> left;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (hashes[i] != own[i]) left.emplace(hashes[i], i);
    }
    std::string told;
    for (const MadeTensor& other : a_) {
      const bool fits = other.type == a.type && other.shape.size() == a.shape.size() &&
                        around(other.shape, 0).second == around(a.shape, 0).second;
      if (left.empty() || !fits || other.name == a.name) continue;
      const std::string rows = other.elements();
      const auto known = slice_hashes(rows, other.shape, other.item(), 0);
      Picked here;
      for (std::size_t k = 0; k < known.size(); ++k) {
        for (auto one = left.find(known[k]); one != left.end(); one = left.find(known[k])) {
          if (rows.compare(k * row, row, elements, one->second * row, row) != 0) break;
          here.push_back(static_cast<std::int64_t>(one->second));
          left.erase(one);
        }
      }
      std::ranges::sort(here);
      if (!here.empty())
        told += fmt::format("{}rows {}=of {}", told.empty() ? "" : "; ", text_of(here), other.name);
    }
    if (left.empty()) found.mistake = {"piece-missing", told, {}, {}};
  }

  // Those that do not give A are left out, and the others are tried again without them.
  void try_edits() {
    const auto leave_out = [&](const auto& is_wrong) {
      for (TensorDifference& one : out_.differences) {
        if (one.mistake && !one.mistake->edits.empty() && is_wrong(one)) one.mistake->edits.clear();
      }
    };
    try_together();
    leave_out([](const TensorDifference& one) { return !one.tried; });
    if (!out_.mended) try_together();
  }

  // Tensors that were exchanged need each other's edits.
  void try_together() {
    MadeTensors mended = b_;
    out_.repairs = repairs();
    try {
      for (const Edit& edit : out_.repairs) apply(edit, mended);
    } catch (const Error&) {
      return;
    }
    out_.mended = mended.size() == a_.size();
    std::map<std::string_view, const MadeTensor*> by_name;
    for (const MadeTensor& one : mended) by_name.emplace(one.name, &one);
    for (TensorDifference& one : out_.differences) {
      const MadeTensor& a = *known_.in_a.at(one.name);
      const auto b = by_name.find(one.name);
      if (!one.mistake || one.mistake->edits.empty() || b == by_name.end()) continue;
      if (!alike(a, *b->second)) continue;
      one.tried = hash_of(a) == hash_of(*b->second);
    }
    out_.mended = out_.mended && std::ranges::all_of(out_.differences, &TensorDifference::tried) &&
                  std::ranges::all_of(mended, [&](const MadeTensor& one) {
                    return known_.in_a.contains(one.name);
                  });
  }

  // Edits by which B becomes A, in their order: new names are made from others at last.
  std::vector<Edit> repairs() const {
    std::vector<Edit> first, second;
    for (const TensorDifference& one : out_.differences) {
      for (std::size_t i = 0; one.mistake && i < one.mistake->edits.size(); ++i)
        (i == 0 ? first : second).push_back(one.mistake->edits[i]);
    }
    for (const LoneTensor& one : out_.lone) {
      if (one.edit) (one.edit->option == "tie" ? second : first).push_back(*one.edit);
    }
    first.insert(first.end(), second.begin(), second.end());
    return folded(first, b_);
  }

  const MadeTensors &a_, &b_;
  KnownTensors known_;
  std::set<std::string> differing_;  // names of both
  std::ptrdiff_t unexplained_ = 0;
  CheckpointComparison out_;
};

}  // namespace

CheckpointComparison compare(const MadeTensors& a, const MadeTensors& b,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return Comparer(a, b).compare(progress);
}

}  // namespace shardlab
