// error.h - the one exception type that crosses public functions.
// A message has five parts (op, mesh, placements, at, fix); each is added where it is known,
// on the way up, never by parsing text. The last line of a message is for the reader's next step:
// `Fix` makes it part of the throw. Values; safe to move between threads.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shardlab {

/// Kind of failure, for programs: errors compare by kind, never by message.
enum class ErrorKind : unsigned char {
  kUnsupported,  ///< not implemented for this input; the dispatcher may fall back (D-19)
  kRuntime,      ///< misuse that shows when the program runs
  kValue,        ///< a bad value: shape, dtype, argument
  kInternal,     ///< an invariant of ours was violated
  kAssert,       ///< an `assert` of the user's program failed
};

/// "Unsupported", "Runtime", "Value", "Internal", "Assert".
std::string_view to_string(ErrorKind kind);

/// One error with its context. Copies are cheap enough to keep: verdicts repeat one error on every
/// rank.
class Error : public std::exception {
 public:
  /// `summary`: one line, naming the op where there is one.
  Error(ErrorKind kind, std::string summary) : kind_(kind), summary_(std::move(summary)) {}

  ErrorKind kind() const { return kind_; }
  /// One line without a trailing period: "aten::mm: the inputs live on different meshes".
  const std::string& summary() const { return summary_; }

  /// Adds a context part, e.g. with("op", "mm(...)"). A key that is present already is left
  /// unchanged: the place nearest to the fault has the best facts. Returns *this for chaining.
  Error& with(std::string_view key, std::string value) &;
  Error&& with(std::string_view key, std::string value) &&;
  /// The value of a context part, or null.
  const std::string* find(std::string_view key) const;
  /// All context parts as (key, value), in the order in which they were added.
  const std::vector<std::pair<std::string, std::string>>& parts() const { return parts_; }

  /// Wraps this error as the cause of another one (D-21).
  Error& caused_by(const Error& cause) &;
  const Error* cause() const { return cause_.get(); }

  /// Summary, then one indented line per part in the fixed order op, mesh, placements, others, at,
  /// fix, then the cause. Without "error: " in front.
  std::string text() const;
  const char* what() const noexcept override;

 private:
  ErrorKind kind_;
  std::string summary_;
  std::vector<std::pair<std::string, std::string>> parts_;
  std::shared_ptr<const Error> cause_;
  mutable std::string what_;
};

/// Throws Error{kind, formatted}.
template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

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

/// Guards an invariant of ours: throws Internal with the place when `condition` is false.
/// Never used to test user input.
[[noreturn]] void invariant_violated(const char* what, const char* file, int line);
inline void check_invariant(bool condition, const char* what, const char* file = __builtin_FILE(),
                            int line = __builtin_LINE()) {
  if (!condition) [[unlikely]] {
    invariant_violated(what, file, line);
  }
}

/// An index beyond the end of a list: Internal, unless a caller that knows the owner of the list
/// changes it.
class OutOfRange final : public Error {
 public:
  OutOfRange(std::size_t index, std::size_t size);
};
[[noreturn]] void out_of_range(std::size_t index, std::size_t size);

}  // namespace shardlab
