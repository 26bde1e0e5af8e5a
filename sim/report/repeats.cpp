// A body that repeats at once is found by its length p: from some place on, element i equals
// element i + p for at least p elements. Each fold makes a new kind of element, and all lengths are
// tried again, until nothing repeats.
#include "sim/report/repeats.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shardlab {

namespace {

class Folding {
 public:
  explicit Folding(const std::vector<int>& sequence) : kinds_(sequence) {
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      repeats_.push_back({.first = i});
      seen_.try_emplace(sequence[i], i);
      next_kind_ = std::max(next_kind_, sequence[i] + 1);
    }
  }

  std::vector<Repeat> run() {
    std::size_t length = 1;
    while (length <= std::min(kLongestBody, kinds_.size() / 2)) {
      length = fold(length) ? 1 : length + 1;
    }
    return std::move(repeats_);
  }

 private:
  /// The number of elements from `at` on that equal those `length` further on.
  std::size_t equal_from(std::size_t at, std::size_t length) const {
    std::size_t count = 0;
    while (at + count + length < kinds_.size() &&
           kinds_[at + count] == kinds_[at + count + length]) {
      ++count;
    }
    return count;
  }

  /// True when some body of this length repeats.
  bool any_repeats(std::size_t length) const {
    std::size_t equal = 0;
    for (std::size_t i = 0; i + length < kinds_.size() && equal < length; ++i) {
      equal = kinds_[i] == kinds_[i + length] ? equal + 1 : 0;
    }
    return equal == length;
  }

  /// False: no body of this length repeats, and nothing is moved.
  bool fold(std::size_t length) {
    if (!any_repeats(length)) return false;
    std::vector<int> kinds;
    std::vector<Repeat> repeats;
    const auto keep = [&](std::size_t i) {
      kinds.push_back(kinds_[i]);
      repeats.push_back(std::move(repeats_[i]));
    };
    for (std::size_t i = 0; i < kinds_.size();) {
      const std::size_t equal = equal_from(i, length);
      if (equal < length) {
        for (const std::size_t end = i + equal + 1; i < end; ++i) keep(i);
        continue;
      }
      const std::size_t times = equal / length + 1;
      for (const std::size_t begin = begin_of_body(i, equal % length); i < begin; ++i) keep(i);
      kinds.push_back(kind_of({kinds_.begin() + static_cast<std::ptrdiff_t>(i),
                               kinds_.begin() + static_cast<std::ptrdiff_t>(i + length)},
                              times));
      repeats.push_back(body(i, length, times));
      i += times * length;
    }
    kinds_ = std::move(kinds);
    repeats_ = std::move(repeats);
    return true;
  }

  // "b a b a b" is b, (a b) x 2 or (b a) x 2, b: the body begins with the element that was seen
  // first.
  std::size_t begin_of_body(std::size_t at, std::size_t choices) const {
    std::size_t best = at;
    for (std::size_t i = at; i <= at + choices; ++i) {
      if (seen_.at(kinds_[i]) < seen_.at(kinds_[best])) best = i;
    }
    return best;
  }

  Repeat body(std::size_t at, std::size_t length, std::size_t times) {
    Repeat repeat{.first = repeats_[at].first, .times = static_cast<std::int64_t>(times)};
    for (std::size_t i = at; i < at + length; ++i) repeat.parts.push_back(std::move(repeats_[i]));
    return repeat;
  }

  int kind_of(std::vector<int> body, std::size_t times) {
    const std::size_t seen = seen_.at(body.front());
    const auto [known, fresh] = known_.try_emplace({std::move(body), times}, next_kind_);
    if (fresh) seen_.emplace(next_kind_++, seen);
    return known->second;
  }

  std::vector<int> kinds_;
  std::vector<Repeat> repeats_;
  std::map<std::pair<std::vector<int>, std::size_t>, int> known_;
  std::map<int, std::size_t> seen_;  // by kind: the first place of its first element
  int next_kind_ = 0;
};

}  // namespace

std::vector<Repeat> folded(const std::vector<int>& sequence) { return Folding(sequence).run(); }

}  // namespace shardlab
