// A mesh dim cuts at most one letter. It then cuts it wherever it is, and all other operands are
// replicas; without a cut the operands meet as those of an op do.
#include "sim/types/einsum_type.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

constexpr std::string_view kEllipsis = "...";
constexpr char kFirstOfEllipsis = '0';  // no letter that may be written

TypeAnswer not_typed(std::string rule, std::string help = {}) {
  return {std::nullopt, std::move(rule), std::move(help)};
}

void check_letters(std::string_view letters, std::string_view text) {
  std::string others(letters);
  if (const std::size_t dots = others.find(kEllipsis); dots != std::string::npos) {
    others.erase(dots, kEllipsis.size());
  }
  for (const char letter : others) {
    const bool known = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (known || letter == '_') continue;
    fail(Fix{"write one letter for each dim, _ for a dim that must be whole: \"mk,kn->mn\""},
         "einsum rule '{}': '{}' is no letter", text, letter);
  }
}

// The letter that the mesh dim cuts, 0 if none, or the reason why this is refused.
TypeAnswer cut_letter(const EinsumText& text, std::span<const SpmdType> types, char& cut) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!types[i].is_s()) continue;
    const auto dim = static_cast<std::size_t>(types[i].placement->dim);
    if (dim >= text.operands[i].size()) {
      return not_typed(fmt::format("operand {} has no dim {}", i, dim));
    }
    const char letter = text.operands[i][dim];
    if (letter == '_') {
      return not_typed(
          fmt::format("'{}' says that dim {} of operand {} must be whole", text.text, dim, i),
          "all_gather it first");
    }
    if (cut != 0 && cut != letter) {
      return not_typed(
          fmt::format("one mesh dim cuts both {} and {} of '{}'", cut, letter, text.text));
    }
    cut = letter;
  }
  return {SpmdType::varying()};
}

TypeAnswer along_cut(const EinsumText& text, std::span<const SpmdType> types, char cut) {
  for (std::size_t i = 0; i < types.size(); ++i) {
    for (std::size_t dim = 0; dim < text.operands[i].size(); ++dim) {
      if (text.operands[i][dim] != cut) continue;
      if (types[i].is_s() && types[i].placement->dim == static_cast<std::int32_t>(dim)) continue;
      return not_typed(fmt::format("'{}': {} is cut elsewhere, and operand {} is {}", text.text,
                                   cut, i, to_string(types[i])),
                       fmt::format("cut it alike: convert(dst=S({}))", dim));
    }
    const bool has = text.operands[i].find(cut) != std::string::npos;
    if (has || types[i].is_r()) continue;
    return not_typed(fmt::format("'{}': operand {} has no {}, which is cut, so that it must be R, "
                                 "not {}",
                                 text.text, i, cut, to_string(types[i])),
                     types[i].is_i() ? "convert(src=I, dst=R)" : "");
  }
  const std::size_t place = text.result.find(cut);
  if (place == std::string::npos) return {SpmdType::term()};
  return {SpmdType::piece(static_cast<std::int64_t>(place))};
}

TypeAnswer with_einsum_terms(const EinsumText& text, const LinearIn& linear_in,
                             std::span<const SpmdType> types) {
  const auto in = [](const std::vector<std::size_t>& group, std::size_t i) {
    return std::ranges::find(group, i) != group.end();
  };
  for (const std::vector<std::size_t>& group : linear_in) {
    bool whole = true, others = false, mixed = false;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i].is_p()) {
        others |= !in(group, i);
      } else {
        whole &= !in(group, i);
        mixed |= !types[i].is_r();
      }
    }
    if (others) continue;
    if (whole && !mixed) return {SpmdType::term()};
    return not_typed(whole ? fmt::format("'{}': terms meet replicas (R) alone", text.text)
                           : fmt::format("'{}' is linear in several operands at once, of which "
                                         "only some are terms",
                                         text.text),
                     "all_reduce the terms first");
  }
  return not_typed(
      fmt::format("'{}' does not say that it is linear in the operands that are terms", text.text),
      "all_reduce them first, or write linear_in= if it is");
}

}  // namespace

EinsumText parse_einsum(std::string_view text) {
  std::string packed;
  for (const char letter : text) {
    if (letter != ' ') packed += letter;
  }
  const auto sides = parts_of_text(packed, "->");
  if (sides.size() != 2) {
    fail(Fix{"write operands, an arrow and the result: \"mk,kn->mn\""},
         "einsum rule '{}' has {} arrows", text, sides.size() - 1);
  }
  EinsumText parsed{{}, std::string(sides[1]), std::string(text)};
  check_letters(sides[1], text);
  for (const std::string_view operand : parts_of_text(sides[0], ",")) {
    check_letters(operand, text);
    parsed.operands.emplace_back(operand);
  }
  for (const char letter : parsed.result) {
    if (letter == '_' || letter == '.' || sides[0].find(letter) != std::string_view::npos) continue;
    fail(Fix{"give it to an operand, or leave it out"},
         "einsum rule '{}': the result has {}, no operand has it", text, letter);
  }
  return parsed;
}

EinsumText without_ellipsis(const EinsumText& text, std::span<const std::size_t> ndims) {
  if (ndims.size() != text.operands.size()) {
    fail(Fix{"write one word of letters for each tensor"},
         "einsum rule '{}' is for {} tensors, not {}", text.text, text.operands.size(),
         ndims.size());
  }
  EinsumText full = text;
  std::string passed;
  for (std::size_t i = 0; i < ndims.size(); ++i) {
    std::string& letters = full.operands[i];
    const std::size_t dots = letters.find(kEllipsis);
    const std::size_t named = letters.size() - (dots == std::string::npos ? 0 : kEllipsis.size());
    std::string dims;
    while (dots != std::string::npos && named + dims.size() < ndims[i]) {
      dims += static_cast<char>(kFirstOfEllipsis + static_cast<char>(dims.size()));
    }
    const bool fits = named + dims.size() == ndims[i];
    if (!fits || (dots != std::string::npos && !passed.empty() && dims != passed)) {
      fail(Fix{"write one letter for each dim"}, "einsum rule '{}': operand {} has {} dims",
           text.text, i, ndims[i]);
    }
    if (dots == std::string::npos) continue;
    letters.replace(dots, kEllipsis.size(), dims);
    passed = dims;
  }
  const std::size_t dots = full.result.find(kEllipsis);
  if (dots != std::string::npos) full.result.replace(dots, kEllipsis.size(), passed);
  return full;
}

TypeAnswer type_of_einsum(const EinsumText& text, const LinearIn& linear_in,
                          std::span<const SpmdType> types) {
  char cut = 0;
  TypeAnswer answer = cut_letter(text, types, cut);
  if (!answer.type) return answer;
  if (cut != 0) return along_cut(text, types, cut);
  if (std::ranges::any_of(types, &SpmdType::is_p)) return with_einsum_terms(text, linear_in, types);
  std::vector<TypedOperand> operands;
  for (const SpmdType& type : types) operands.push_back({type});
  return type_of_op("einsum", operands, false);
}

}  // namespace shardlab
