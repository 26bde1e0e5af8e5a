// python_error.h - errors of plain Python: their class and text there, which handlers of a try see.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"

namespace shardlab {

/// The part of an Error that no report shows: "KeyError: 'x'".
inline constexpr std::string_view kPythonPart = "python";

/// Does fail(ErrorKind::kValue, fix, ...), with the exception that Python raises here.
template <typename... Args>
[[noreturn]] void fail_as(std::string python, Fix fix, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Error(ErrorKind::kValue, fmt::format(format, std::forward<Args>(args)...))
      .with(kPythonPart, std::move(python))
      .with("fix", std::move(fix.text));
}

}  // namespace shardlab
