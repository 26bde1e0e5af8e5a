// fixed_text.h - a text as the argument of a template: grad_by<"aten::gelu_backward">.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace shardlab {

struct FixedText {
  template <std::size_t kSize>
  consteval FixedText(const char (&text)[kSize]) {
    std::copy_n(text, kSize, letters);
  }
  constexpr operator std::string_view() const { return letters; }
  constexpr FixedText with(std::string_view ending) const {
    FixedText all = *this;
    std::ranges::copy(ending, all.letters + std::string_view(letters).size());
    return all;
  }

  char letters[80] = {};
};

}  // namespace shardlab
