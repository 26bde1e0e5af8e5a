// Hashes of A's tensors are kept, so that contents are found under other names; where hashes are
// equal, elements are compared.
#include "sim/checkpoint/compare.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/nearest.h"

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

bool alike(const MadeTensor& a, const MadeTensor& b) {
  return a.type == b.type && a.shape == b.shape;
}

class Comparer {
 public:
  Comparer(const MadeTensors& a, const MadeTensors& b) : a_(a), b_(b) {
    for (const MadeTensor& tensor : b) in_b_.emplace(tensor.name, &tensor);
    for (const MadeTensor& tensor : a) in_a_.emplace(tensor.name, &tensor);
  }

  CheckpointComparison compare(const std::function<void(std::int64_t, std::int64_t)>& progress) {
    std::int64_t done = 0, all = 0;
    for (const MadeTensor& tensor : a_) all += tensor.bytes();
    for (const MadeTensor& tensor : a_) {
      const auto other = in_b_.find(tensor.name);
      if (other != in_b_.end()) compare(tensor, *other->second);
      if (other == in_b_.end()) out_.lone.push_back({tensor.name, tensor.type_text(), true});
      if (other == in_b_.end() && tensor.elements) pass_over(tensor, tensor);
      if (progress) progress(done += tensor.bytes(), all);
    }
    for (const MadeTensor& tensor : b_) {
      const bool lone = !in_a_.contains(tensor.name);
      if (lone) out_.lone.push_back({tensor.name, tensor.type_text(), false});
    }
    for (TensorDifference& one : out_.differences) look_elsewhere(one);
    look_for_names();
    for (TensorDifference& one : out_.differences) name_alone(one);
    try_edits();
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kPart = 1 << 18;  // of a tensor beside the pair

  // The first pass over a tensor of A, whose hash and end are kept: contents that are one value all
  // over are no sign of where they are from. Whether B's was seen to be equal.
  bool pass_over(const MadeTensor& a, const MadeTensor& b) {
    const auto item = static_cast<std::size_t>(a.item());
    const std::int64_t row = a.shape.empty() ? 0 : around(a.shape, 0).second * a.item();
    bool equal = alike(a, b) && a.rows && b.rows && a.variants.empty() && row > 0, constant = true;
    std::uint64_t hash = 0;
    std::int64_t from = 0;
    std::string first, other;
    for_blocks(a, [&](std::string_view block) {
      hash = hash_words(hash, block);
      if (first.empty()) first = block.substr(0, item);
      const std::size_t rest = block.size() - std::min(item, block.size());
      constant = constant && block.starts_with(first) &&
                 block.substr(block.size() - rest) == block.substr(0, rest);
      tail_ = block.substr(block.size() - std::min(kPart, block.size()));
      if (!equal) return true;
      other.resize(block.size());
      const std::int64_t to = from + static_cast<std::int64_t>(block.size()) / row;
      b.rows(from, to, other.data());
      from = to;
      equal = other == block;
      return true;
    });
    if (!constant) by_hash_[hash].push_back(&a);
    return equal;
  }
  // The tensor behind the pair in A.
  static void add_begin(const MadeTensor& next, TensorPair& pair) {
    if (!next.elements) return;
    pair.after = next.name;
    for_blocks(next, [&](std::string_view block) {
      pair.head = block.substr(0, kPart);
      return false;
    });
  }
  // Tensors of A with these elements.
  std::vector<const MadeTensor*> same_in_a(const MadeTensor& tensor) const {
    const std::string elements = tensor.elements();
    std::vector<const MadeTensor*> same;
    const auto found = by_hash_.find(hash_words(0, elements));
    for (const MadeTensor* one : found == by_hash_.end() ? same : found->second) {
      if (alike(*one, tensor) && one->elements() == elements) same.push_back(one);
    }
    return same;
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
    TensorPair pair{a.name, b.type, a.shape, b.shape, "", "", before_, tail_, "", ""};
    const bool seen = pass_over(a, b);
    before_ = a.name;
    if (!seen) pair.a = a.elements();
    if (!seen) pair.b = b.elements();
    const bool equal = seen || (alike(a, b) && pair.a == pair.b);
    for (const auto& variant : a.variants) {
      const std::string elements = variant();
      if (elements != pair.a && (equal || elements == pair.b))
        found.mistake = {"one-of-replicas", {}, {}, {}};
    }
    out_.equal += equal;
    out_.equal_bytes += equal ? a.bytes() : 0;
    if (equal && !found.mistake) return;
    if (&a != &a_.back()) add_begin(*(&a + 1), pair);
    if (!found.mistake) explain(a, b, pair, found);
    out_.differences.push_back(std::move(found));
  }

  void explain(const MadeTensor& a, const MadeTensor& b, TensorPair& pair,
               TensorDifference& found) {
    const auto from = a.type->dtype, to = b.type->dtype;
    const bool same_shape = a.shape == b.shape;
    if (a.type != b.type) {
      if (!from || !to) return;
      if (same_shape && equal_as(pair.a, *from, pair.b, *to)) {
        const bool exact = equal_as(pair.b, *to, pair.a, *from);
        found.mistake = {
            exact ? "other-dtype" : "rounded", fmt::format("to={}", b.type->name), {}, {}};
        if (exact) found.mistake->edits = {{"dtype", fmt::format("{} = {}", a.name, a.type->name)}};
        return;
      }
      pair.a = converted(pair.a, *from, *to);
    }
    if (std::ranges::count(out_.differences, false, [](const auto& one) {
          return one.mistake.has_value();
        }) < kMostUnexplained)
      found.mistake = shardlab::explain(pair);
    if (same_shape) found.counts = count_differences(pair);
    if (same_shape && !found.mistake) found.wrong = wrong_indices(pair);
  }

  bool differs(const std::string& name) const {
    return std::ranges::count(out_.differences, name, &TensorDifference::name) > 0;
  }

  // Contents of another tensor, or rows of one.
  void look_elsewhere(TensorDifference& found) {
    const MadeTensor &a = *in_a_.at(found.name), &b = *in_b_.at(found.name);
    if (found.mistake || !a.elements || !b.elements || ++looked_for_ > kMostUnexplained) return;
    for (const MadeTensor* same : same_in_a(b)) {
      found.mistake = {"names-exchanged",
                       "b=" + same->name,
                       {{"rename", fmt::format("{} -> {}-moved", a.name, same->name)},
                        {"rename", fmt::format("{0}-moved -> {0}", same->name)}},
                       {}};
      return;
    }
    for (const MadeTensor* tied : same_in_a(a)) {
      if (tied == &a || !in_b_.contains(tied->name) || differs(tied->name)) continue;
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

  // Its edits fit no other tensor.
  void name_alone(TensorDifference& one) const {
    const std::string alone = pattern_of(one.name, b_);
    for (std::size_t i = 0; one.mistake && i < one.mistake->edits.size(); ++i) {
      Edit& edit = one.mistake->edits[i];
      if (edit.option != "tie" && edit.text.starts_with(one.name + " "))
        edit.text.replace(0, one.name.size(), alone);
    }
  }

  void look_for_names() {
    constexpr std::size_t kMost = 200;
    std::vector<std::string> lone[2];
    for (const LoneTensor& one : out_.lone) lone[one.in_a ? 0 : 1].push_back(one.name);
    for (LoneTensor& one : out_.lone) {
      if (out_.lone.size() <= kMost)
        one.near = nearest(one.name, lone[one.in_a ? 1 : 0]).value_or("");
      one.pattern = pattern_of(one.name, b_);
      const MadeTensor* tensor = (one.in_a ? in_a_ : in_b_).at(one.name);
      if (tensor->type == nullptr || !tensor->elements) continue;
      for (const MadeTensor* same : same_in_a(*tensor)) {
        const bool there = in_b_.contains(same->name);
        if (one.in_a && (!there || differs(same->name))) continue;  // tied in A
        if (one.same.empty() || in_b_.contains(one.same)) one.same = same->name;
      }
    }
  }

  // Those that do not give A are left out, and the others are tried again without them.
  void try_edits() {
    const auto leave_out = [&](const auto& is_wrong) {
      for (TensorDifference& one : out_.differences) {
        if (one.mistake && !one.mistake->edits.empty() && is_wrong(one)) one.mistake->edits.clear();
      }
    };
    leave_out([&](const TensorDifference& one) {
      MadeTensors copy = b_;
      try {
        apply(one.mistake->edits[0], copy);
        return false;
      } catch (const Error&) {
        return true;
      }
    });
    try_together();
    leave_out([](const TensorDifference& one) { return !one.tried; });
    if (!out_.mended) try_together();
  }

  // Tensors that were exchanged need each other's edits.
  void try_together() {
    MadeTensors mended = b_;
    try {
      for (const Edit& edit : repairs_of(out_)) apply(edit, mended);
    } catch (const Error&) {
      return;
    }
    out_.mended = mended.size() == a_.size();
    for (TensorDifference& one : out_.differences) {
      const MadeTensor &a = *in_a_.at(one.name), *b = find(mended, one.name);
      if (!one.mistake || one.mistake->edits.empty() || b == nullptr || !alike(a, *b)) continue;
      const std::uint64_t hash = hash_words(0, a.elements());
      one.tried = hash == hash_words(0, b->elements());
    }
    out_.mended = out_.mended && std::ranges::all_of(out_.differences, &TensorDifference::tried) &&
                  std::ranges::all_of(
                      mended, [&](const MadeTensor& one) { return in_a_.contains(one.name); });
  }

  const MadeTensors &a_, &b_;
  std::map<std::string, const MadeTensor*> in_a_, in_b_;
  std::map<std::uint64_t, std::vector<const MadeTensor*>> by_hash_;
  std::string before_, tail_;
  std::ptrdiff_t looked_for_ = 0;
  CheckpointComparison out_;
};

}  // namespace

CheckpointComparison compare(const MadeTensors& a, const MadeTensors& b,
                             const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return Comparer(a, b).compare(progress);
}

std::vector<Edit> repairs_of(const CheckpointComparison& comparison) {
  std::vector<Edit> first, second;
  for (const TensorDifference& one : comparison.differences) {
    for (std::size_t i = 0; one.mistake && i < one.mistake->edits.size(); ++i)
      (i == 0 ? first : second).push_back(one.mistake->edits[i]);
  }
  for (const LoneTensor& one : comparison.lone) {
    const bool known = std::ranges::any_of(comparison.lone, [&](const LoneTensor& other) {
      return other.in_a != one.in_a && (one.in_a ? other.same == one.name : other.name == one.same);
    });
    if (one.in_a && !known && !one.same.empty())
      first.push_back({"tie", fmt::format("{} = {}", one.name, one.same)});
    if (!one.in_a)
      first.push_back(known ? Edit{"rename", fmt::format("{} -> {}", one.pattern, one.same)}
                            : Edit{"drop", one.pattern});
  }
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace shardlab
