// size_text.h - sizes that torch.export writes as text: "Mul(Integer(16), Symbol('s52',
// positive=True, integer=True))", and in older files "16*s52".
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace shardlab {

/// The number that a text is; `size_of` gives that of a symbol.
///   fails  Value: malformed, out of range, a division by 0. Unsupported: a function that no size
///          has, by name. As size_of does
std::int64_t size_in_text(std::string_view text,
                          const std::function<std::int64_t(const std::string&)>& size_of);
/// The symbol, where the text is nothing else; or empty.
std::string symbol_in_text(std::string_view text);

}  // namespace shardlab
