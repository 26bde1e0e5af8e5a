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

// Elements of a tensor, in row-major order.
std::string part_of(const MadeTensor& tensor, std::int64_t from, std::int64_t to) {
  const std::int64_t item = tensor.item();
  const auto size = static_cast<std::size_t>((to - from) * item);
  if (tensor.shape.empty()) return tensor.elements();
  const std::int64_t row = around(tensor.shape, 0).second, first = from / row;
  return rows_of(tensor, first, (to + row - 1) / row)
      .substr(static_cast<std::size_t>((from - first * row) * item), size);
}

// TensorPair::beside for a tensor. The nearest tensors come first; one that is smaller than
// the distance is between.
std::string beside(const MadeTensors& all, const MadeTensor& a, const std::string& elements,
                   std::int64_t distance, const StoredType& type, int& left) {
  const std::int64_t count = std::ssize(elements) / type.bytes, far = std::abs(distance);
  const std::ptrdiff_t own = &a - all.data(), step = distance > 0 ? -1 : 1;
  for (std::ptrdiff_t k = 1; k < 2 * std::ssize(all); ++k) {
    const std::ptrdiff_t i = own + (k % 2 == 0 ? -step : step) * ((k + 1) / 2);
    if (i < 0 || i >= std::ssize(all) || --left < 0) continue;
    const MadeTensor& other = all[static_cast<std::size_t>(i)];
    const std::int64_t size = product(other.shape), gap = far - count;
    if (other.type != a.type || !other.elements || size == 0 || (size <= gap && k > 1)) continue;
    const std::int64_t here = std::min(size - gap, count);  // of the elements
    if (here <= 0) return beside(all, other, elements, distance + step * size, type, left);
    const std::int64_t from = distance > 0 ? std::max<std::int64_t>(size - far, 0) : far - count;
    const auto bytes = static_cast<std::size_t>(here * type.bytes);
    const std::size_t begin = distance > 0 ? elements.size() - bytes : 0;
    std::string part = part_of(other, from, from + here);
    if (other.type != &type) part = converted(part, *other.type->dtype, *type.dtype);
    if (elements.compare(begin, bytes, part) != 0) continue;
    if (here == count) return other.name;
    const std::string rest =
        beside(all, other, elements.substr(distance > 0 ? 0 : bytes, elements.size() - bytes),
               step * (here - count), type, left);
    if (!rest.empty()) return fmt::format("{}, {}", rest, other.name);
  }
  return "";
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
    for (const bool again : {false, true}) {
      unexplained_ = 0;
      for (TensorDifference& one : out_.differences) {
        const MadeTensor &a = *known_.in_a.at(one.name), &b = *known_.in_b.at(one.name);
        if (!a.elements || !b.elements || one.mistake) continue;
        again ? look_elsewhere(a, b, one) : explain(a, b, one);
        unexplained_ += one.mistake ? 0 : 1;
      }
    }
    look_for_names(known_, b_, differing_, out_.lone);
    try_edits();
    return std::move(out_);
  }

 private:
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

  void explain(const MadeTensor& a, const MadeTensor& b, TensorDifference& found) {
    const auto same = known_.same_in_a(b, known_.by_hash);
    if (!same.empty()) tell_exchanged(a, *same[0], "", found);
    explain_pair(a, b, unexplained_ < kMostUnexplained && same.empty(), found);
    if (found.mistake) found.wrong.clear();
  }
  static void tell_exchanged(const MadeTensor& a, const MadeTensor& same, const std::string& more,
                             TensorDifference& found) {
    found.mistake = {"names-exchanged",
                     fmt::format("b={}{}", same.name, more),
                     {{"rename", fmt::format("{} -> {}-moved", a.name, same.name)},
                      {"rename", fmt::format("{0}-moved -> {0}", same.name)}},
                     {}};
  }

  // Two tensors are in memory here, and no others of their size.
  void explain_pair(const MadeTensor& a, const MadeTensor& b, bool looks, TensorDifference& found) {
    const bool same_shape = a.shape == b.shape;
    TensorPair pair{a.name, b.type, a.shape, b.shape, a.elements(), b.elements()};
    pair.shifts = &shifts_;
    pair.beside = [&](std::string_view elements, std::int64_t distance) {
      int left = 1 << 14;  // reads of other tensors
      const std::string names = beside(a_, a, std::string(elements), distance, *b.type, left);
      return names.empty() ? names : (distance > 0 ? "the end of " : "the begin of ") + names;
    };
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

  // When all others were looked at: contents that A ties to others, of another tensor
  // in another type, or rows of another; and how far others have moved.
  void look_elsewhere(const MadeTensor& a, const MadeTensor& b, TensorDifference& found) {
    if (unexplained_ >= kMostUnexplained) return;
    const auto is_other = [&](const MadeTensor& one) { return &one != &a; };
    for (const MadeTensor* tied : known_.same_in_a(a, known_.by_hash, is_other)) {
      const auto other = std::ranges::find(out_.differences, tied->name, &TensorDifference::name);
      const bool known = other == out_.differences.end() || other->mistake;
      if (!known_.in_b.contains(tied->name) || !known) continue;
      found.mistake = {"tied-differ",
                       "tied with=" + tied->name,
                       {{"tie", fmt::format("{} = {}", a.name, tied->name)}},
                       {}};
      break;
    }
    for (const MadeTensor* same : known_.same_in_a(b, known_.constant)) {
      if (!found.mistake && differing_.contains(same->name)) tell_exchanged(a, *same, "", found);
    }
    if (!found.mistake && a.type != b.type) look_for_type(a, b, found);
    if (!found.mistake && a.bytes() > 0 && alike(a, b)) {
      if (!shifts_.empty()) explain_pair(a, b, true, found);
      for (std::size_t dim = 0; !found.mistake && a.shape.size() > 1 && dim < a.shape.size(); ++dim)
        look_for_slices(a, b, dim, found);
    }
    if (found.mistake) found.wrong.clear();
  }
  void look_for_type(const MadeTensor& a, const MadeTensor& b, TensorDifference& found) {
    if (!a.type->dtype || !b.type->dtype) return;
    const std::string elements = b.elements();
    for (const MadeTensor& other : a_) {
      if (&other == &a || !alike(other, a) || other.shape != b.shape || !other.elements) continue;
      const std::string first = part_of(other, 0, std::min<std::int64_t>(product(a.shape), 1));
      const std::string begin = converted(first, *a.type->dtype, *b.type->dtype);
      if (!elements.starts_with(begin) ||
          !equal_as(other.elements(), *a.type->dtype, elements, *b.type->dtype))
        continue;
      return tell_exchanged(a, other, fmt::format("; to={}", b.type->name), found);
    }
  }
  // Indices of a dim that are those of other tensors.
  void look_for_slices(const MadeTensor& a, const MadeTensor& b, std::size_t dim,
                       TensorDifference& found) {
    const std::string elements = b.elements();
    const auto slice = [dim](const std::string& all, const MadeTensor& of, std::size_t i) {
      return picked(all, of.shape, of.item(), dim, {static_cast<std::int64_t>(i)});
    };
    const auto own = slice_hashes(a.elements(), a.shape, a.item(), dim),
               hashes = slice_hashes(elements, b.shape, b.item(), dim);
    std::unordered_multimap<std::uint64_t, std::size_t> left;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (hashes[i] != own[i]) left.emplace(hashes[i], i);
    }
    std::string told = fmt::format("dim={}", dim);
    for (const MadeTensor& other : a_) {
      Dims shape = other.shape;
      if (shape.size() == a.shape.size()) shape[dim] = a.shape[dim];
      if (left.empty() || other.type != a.type || shape != a.shape || &other == &a) continue;
      const std::string all = other.elements();
      const auto known = slice_hashes(all, other.shape, other.item(), dim);
      Picked here;
      for (std::size_t k = 0; k < known.size(); ++k) {
        for (auto one = left.find(known[k]); one != left.end(); one = left.find(known[k])) {
          if (slice(all, other, k) != slice(elements, b, one->second)) break;
          here.push_back(static_cast<std::int64_t>(one->second));
          left.erase(one);
        }
      }
      std::ranges::sort(here);
      if (!here.empty()) told += fmt::format("; {}=of {}", text_of(here), other.name);
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
  std::set<std::int64_t> shifts_;
  CheckpointComparison out_;
};

}  // namespace

CheckpointComparison compare(const MadeTensors& a, const MadeTensors& b,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return Comparer(a, b).compare(progress);
}

}  // namespace shardlab
