// fix.h - errors that name what to write instead. The last line of a message is for the reader's
// next step: `Fix` makes it part of the throw.
#pragma once

#include "base/error.h"

namespace shardlab {

/// The text to write instead, as an instruction without a period: "give one size per dim".
struct Fix {
  std::string text;
};

/// Throws Error{kind, formatted} with the part "fix", unless that is empty.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, Fix fix, fmt::format_string<Args...> format,
                       Args&&... args) {
  Error error(kind, fmt::format(format, std::forward<Args>(args)...));
  if (!fix.text.empty()) error.with("fix", std::move(fix.text));
  throw error;
}

/// The same with Value, the kind of an error that its reader can mend.
template <typename... Args>
[[noreturn]] void fail(Fix fix, fmt::format_string<Args...> format, Args&&... args) {
  fail(ErrorKind::kValue, std::move(fix), format, std::forward<Args>(args)...);
}

/// The fix of an error that is reported again at another place; empty when it has none.
inline std::string fix_of(const Error& error) {
  const std::string* fix = error.find("fix");
  return fix == nullptr ? "" : *fix;
}

}  // namespace shardlab
