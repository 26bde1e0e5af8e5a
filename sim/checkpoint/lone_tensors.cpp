// Elements decide, and names only between tensors with the same ones.
#include "sim/checkpoint/lone_tensors.h"

#include <algorithm>

#include "base/text.h"
#include "sim/checkpoint/explain.h"

namespace shardlab {

namespace {

struct LoneTensors {
  // Names that one has alone, by their elements.
  void find() {
    constexpr std::size_t kMost = 200;
    std::vector<std::string> names[2];
    for (LoneTensor& one : lone_) {
      names[one.in_a ? 0 : 1].push_back(one.name);
      if (one.in_a) in_a_.emplace(one.name, &one);
    }
    for (LoneTensor& one : lone_) {
      if (lone_.size() <= kMost) one.near = nearest(one.name, names[one.in_a ? 1 : 0]).value_or("");
      if (!one.in_a && is_read(one)) look_for_name(one);
    }
    for (LoneTensor& one : lone_) {
      if (!one.in_a || !one.same.empty() || !is_read(one)) continue;
      for (const MadeTensor* same : known_.same_in_a(tensor_of(one), known_.by_hash)) {
        const LoneTensor* other = lone_in_a(same->name);
        if (other == nullptr ? differing_.contains(same->name) : other->same.empty()) continue;
        one.same = same->name;
        one.edit = {"tie", fmt::format("{} = {}", one.name, same->name)};
        break;
      }
    }
    look_for_parts(false);
    look_for_parts(true);
    // Tensors of B alone are dropped where it has all of A besides.
    const bool whole = std::ranges::all_of(
        lone_, [](const LoneTensor& one) { return !one.in_a || !one.same.empty(); });
    for (LoneTensor& one : lone_) {
      const bool used = one.edit || (!one.same.empty() && !known_.in_b.contains(one.same));
      if (!one.in_a && !used && whole) one.edit = {"drop", one.name};
    }
  }
  const MadeTensor& tensor_of(const LoneTensor& one) const {
    return *(one.in_a ? known_.in_a : known_.in_b).at(one.name);
  }
  bool is_read(const LoneTensor& one) const {
    return tensor_of(one).type != nullptr && tensor_of(one).elements;
  }
  LoneTensor* lone_in_a(const std::string& name) const {
    const auto found = in_a_.find(name);
    return found == in_a_.end() ? nullptr : found->second;
  }

  // The name that is most alike, where several have the same elements.
  void look_for_name(LoneTensor& one) {
    const auto open = [&](const MadeTensor& tensor) {
      const LoneTensor* other = lone_in_a(tensor.name);
      return other != nullptr && other->same.empty();
    };
    std::vector<const MadeTensor*> found = known_.same_in_a(tensor_of(one), known_.by_hash, open);
    if (found.empty()) found = known_.same_in_a(tensor_of(one), known_.constant, open);
    if (found.empty()) {
      found = known_.same_in_a(tensor_of(one), known_.by_hash);
      if (!found.empty() && known_.in_b.contains(found[0]->name)) one.same = found[0]->name;
      return;
    }
    const MadeTensor* best = *std::ranges::min_element(found, {}, [&](const MadeTensor* same) {
      return found.size() == 1 ? 0 : edit_distance(one.name, same->name);
    });
    one.same = best->name;
    lone_in_a(best->name)->same = one.name;
    one.edit = {"rename", fmt::format("{} -> {}", one.name, best->name)};
  }

  // Tensors of one that are, one behind the other, a tensor of the other one.
  void look_for_parts(bool whole_in_a) {
    Begins begins;
    for (LoneTensor& one : lone_) {
      if (one.in_a == whole_in_a || !one.same.empty() || !is_read(one)) continue;
      const std::string begin = begin_of(tensor_of(one));
      if (begin.size() == kBegin) begins.emplace(begin, &one);
    }
    for (LoneTensor& one : lone_) {
      if (begins.size() < 2 || one.in_a != whole_in_a || !one.same.empty() || !is_read(one))
        continue;
      std::vector<LoneTensor*> parts = parts_in(tensor_of(one), begins);
      one.edit = edit_of(one, parts);
      if (!one.edit) continue;
      std::vector<std::string> names;
      for (LoneTensor* part : parts) {
        part->same = one.name;
        names.push_back(part->name);
      }
      one.same = text_of_list(names, " + ");
    }
  }
  static constexpr std::size_t kBegin = 8;  // bytes by which a part is looked for
  using Begins = std::multimap<std::string, LoneTensor*>;

  static std::string begin_of(const MadeTensor& tensor) {
    std::string begin;
    for_blocks(tensor, [&](std::string_view block) {
      begin = block.substr(0, kBegin);
      return false;
    });
    return begin;
  }

  std::vector<LoneTensor*> parts_in(const MadeTensor& whole, const Begins& begins) const {
    const std::string all = whole.elements();
    std::vector<LoneTensor*> parts;
    for (std::size_t at = 0; at < all.size();) {
      auto [one, end] = begins.equal_range(all.substr(at, kBegin));
      for (; one != end; ++one) {
        const MadeTensor& part = tensor_of(*one->second);
        const bool used = std::ranges::count(parts, one->second) > 0;
        const auto size = static_cast<std::size_t>(part.bytes());
        if (used || part.type != whole.type || all.compare(at, size, part.elements()) != 0)
          continue;
        parts.push_back(one->second);
        at += size;
        break;
      }
      if (one == end) return {};
    }
    return parts;
  }

  // Makes A's tensors of B's: parts are rows of the whole, or the single ones of a stack.
  std::optional<Edit> edit_of(const LoneTensor& whole,
                              const std::vector<LoneTensor*>& parts) const {
    const Dims shape = tensor_of(whole).shape;
    bool stacked = parts.size() > 1 && !shape.empty(), joined = stacked;
    std::vector<std::string> names;
    for (const LoneTensor* part : parts) {
      const Dims& own = tensor_of(*part).shape;
      stacked = stacked && std::ranges::equal(own, Dims(shape.begin() + 1, shape.end()));
      joined = joined && own.size() == shape.size() &&
               std::equal(own.begin() + 1, own.end(), shape.begin() + 1);
      names.push_back(!joined || whole.in_a ? part->name
                                            : fmt::format("{}:{}", part->name, own[0]));
    }
    if (joined && whole.in_a) names[0] = pattern_of(names[0], b_);
    const std::string pattern = stacked ? numbered(names) : text_of_list(names, ", ");
    if ((!joined && !stacked) || pattern.empty()) return std::nullopt;
    return Edit{whole.in_a ? (joined ? "join" : "stack") : (joined ? "split" : "unstack"),
                fmt::format("{} = {}", whole.name, pattern)};
  }

  // "^experts.{e}.w" of "experts.0.w", "experts.1.w" and so on; empty of other names.
  static std::string numbered(const std::vector<std::string>& names) {
    const std::string first = "." + names[0] + ".";
    for (std::size_t at = first.find(".0."); at != std::string::npos;
         at = first.find(".0.", at + 1)) {
      const std::string before = first.substr(0, at + 1), behind = first.substr(at + 2);
      bool fits = true;
      for (std::size_t i = 0; fits && i < names.size(); ++i)
        fits = "." + names[i] + "." == fmt::format("{}{}{}", before, i, behind);
      const std::string pattern = before + "{e}" + behind;
      if (fits) return "^" + pattern.substr(1, pattern.size() - 2);
    }
    return "";
  }

  const KnownTensors& known_;
  const MadeTensors& b_;
  const std::set<std::string>& differing_;
  std::vector<LoneTensor>& lone_;
  std::map<std::string, LoneTensor*> in_a_ = {};  // of these
};

// A name with letters in place of the numbers that are parts of it. Those of a further name are to
// be these, one by one; empty if they are not.
std::string with_letters(std::string_view name, std::vector<std::string>& numbers, bool first) {
  std::string text;
  std::size_t count = 0;
  for (const std::string_view part : parts_of_text(name, ".")) {
    text += text.empty() ? "" : ".";
    if (part.empty() || part.find_first_not_of("0123456789") != part.npos) {
      text += part;
      continue;
    }
    if (first) numbers.emplace_back(part);
    if (count >= numbers.size() || numbers[count] != part) return "";
    text += fmt::format("{{{}}}", static_cast<char>('i' + count++ % 18));
  }
  return text;
}

// The name on the left is of no tensor before the edit.
bool makes_the_left(const Edit& edit) {
  return edit.option == "tie" || edit.option == "join" || edit.option == "stack";
}

// "^layers.{i}.w -> blocks.{i}.w", the form of the edits of all layers. Empty: it has none.
std::string form_of(const Edit& edit) {
  const bool names = edit.option == "rename" || edit.option == "split" || edit.option == "unstack";
  const std::size_t end = std::min(edit.text.find(' '), edit.text.size());
  if (makes_the_left(edit)) return "";
  std::vector<std::string> numbers;
  std::string form = "^" + with_letters(edit.text.substr(0, end), numbers, true);
  if (numbers.empty()) return "";
  if (!names) return form + edit.text.substr(end);
  const std::size_t right = edit.text.find(' ', end + 1) + 1;
  form += edit.text.substr(end, right - end);
  for (std::string_view comma;
       const auto name : parts_of_text(std::string_view(edit.text).substr(right), ", ")) {
    const std::size_t colon = std::min(name.find(':'), name.size());
    const std::string one = with_letters(name.substr(0, colon), numbers, false);
    if (one.empty()) return "";
    form += fmt::format("{}{}{}", comma, one, name.substr(colon));
    comma = ", ";
  }
  return form;
}

}  // namespace

bool alike(const MadeTensor& a, const MadeTensor& b) {
  return a.type == b.type && a.shape == b.shape;
}

std::uint64_t hash_of(const MadeTensor& tensor) {
  std::uint64_t hash = 0;
  for_blocks(tensor, [&](std::string_view block) {
    hash = hash_words(hash, block);
    return true;
  });
  return hash;
}

std::vector<const MadeTensor*> KnownTensors::same_in_a(
    const MadeTensor& tensor, const ByHash& hashes,
    const std::function<bool(const MadeTensor&)>& wanted) const {
  constexpr std::size_t kMost = 64;
  std::vector<const MadeTensor*> same;
  const auto found = hashes.find(hash_of(tensor));
  if (found == hashes.end()) return same;
  const std::string elements = tensor.elements();
  for (const MadeTensor* one : found->second) {
    if (same.size() == kMost) break;
    if (wanted && !wanted(*one)) continue;
    if (alike(*one, tensor) && one->elements() == elements) same.push_back(one);
  }
  return same;
}

std::vector<Edit> folded(const std::vector<Edit>& edits, const MadeTensors& tensors) {
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> forms;
  for (const Edit& edit : edits) ++counts[edit.option + forms.emplace_back(form_of(edit))];
  std::vector<Edit> result;
  for (std::size_t i = 0; i < edits.size(); ++i) {
    Edit edit = edits[i];
    std::size_t& count = counts.at(edit.option + forms[i]);
    const std::string left = forms[i].substr(0, forms[i].find(' '));
    // 0: it is there already.
    if (!left.empty() && count > 1 && fits_of(left, tensors) == count) {
      result.push_back({edit.option, forms[i]});
      count = 0;
    }
    if (!left.empty() && count == 0) continue;
    const std::string name = edit.text.substr(0, edit.text.find(' '));
    if (!makes_the_left(edit)) edit.text.replace(0, name.size(), pattern_of(name, tensors));
    result.push_back(std::move(edit));
  }
  return result;
}

void look_for_names(const KnownTensors& known, const MadeTensors& b,
                    const std::set<std::string>& differing, std::vector<LoneTensor>& lone) {
  LoneTensors{known, b, differing, lone}.find();
}

}  // namespace shardlab
