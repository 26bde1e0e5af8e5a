// source.h - program and scenario text with places, and the errors that point into it.
// A SourceText is immutable and shared between ranks; spans are byte offsets into it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace shardlab {

/// Bytes [begin, end) of one SourceText, which is not named: the holder of a span keeps its text.
/// Texts are at most 4 GiB.
struct SourceSpan {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  auto operator<=>(const SourceSpan&) const = default;
};

/// From the start of the first to the end of the second.
inline SourceSpan join(SourceSpan first, SourceSpan last) { return {first.begin, last.end}; }

/// Both count from 1; a column counts characters (code points), not bytes.
struct SourcePlace {
  std::int32_t line = 1;
  std::int32_t column = 1;
};

/// A file, or text written inside one (a TOML string): places always refer to the file.
class SourceText {
 public:
  /// From text offset `at` on, characters come from offset `from` of the parent, one to one up to
  /// the next run. A string without escapes is one run; each escape starts a new one.
  struct Run {
    std::uint32_t at;
    std::uint32_t from;
  };

  /// The whole text of a file; `file` is its path, as in messages.
  SourceText(std::string file, std::string text);
  /// `runs` is not empty, sorted by `at`, and starts at 0.
  SourceText(std::shared_ptr<const SourceText> parent, std::string text, std::vector<Run> runs);

  const std::string& file() const { return root().file_; }
  const std::string& text() const { return text_; }
  /// Valid as long as this text lives.
  std::string_view text(SourceSpan span) const;

  /// Line and column in the file.
  SourcePlace place(std::uint32_t offset) const;
  /// Byte offset of a place in this text (not in its parent); clamped to the text.
  std::uint32_t offset_of(SourcePlace place) const;
  /// A line of the file, without its end. Line numbers count from 1.
  std::string_view line(std::int32_t number) const;
  /// "file:12:7".
  std::string at(std::uint32_t offset) const;
  /// The line of the file and below it a caret under the place, both indented for a message.
  std::string excerpt(std::uint32_t offset) const;

 private:
  // Programs are in strings of a TOML file, expressions in strings of a program: a place is passed
  // up from parent to parent.
  const SourceText& root() const { return parent_ ? parent_->root() : *this; }
  std::uint32_t root_offset(std::uint32_t offset) const;

  std::shared_ptr<const SourceText> parent_;
  std::string file_;
  std::string text_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> line_starts_;  ///< of a root only
};

/// Texts live as long as any tree, value or error that points into them.
using SourcePtr = std::shared_ptr<const SourceText>;

/// A fault of the file or the command line: the program cannot run as written (exit code 2). Its
/// kind is Value, or Unsupported for features that the language knows but cannot do yet.
class ScenarioError : public Error {
 public:
  ScenarioError(const SourceText& source, SourceSpan span, std::string summary, std::string fix,
                ErrorKind kind = ErrorKind::kValue);

  /// "error: summary", then at with the source line and a caret, then fix.
  const std::string& report() const { return report_; }
  /// Faults of the same text that follow: a line each, of the first 20.
  void add(const std::vector<ScenarioError>& others);

 private:
  // Made together with the error, because the text that it points into may be gone later.
  std::string report_;
};

/// Throws ScenarioError. An empty `fix` leaves that part out.
[[noreturn]] void refuse(const SourceText& source, SourceSpan span, std::string summary,
                         std::string fix = "");
/// The same for known features that are still missing: "not yet supported: <what>".
[[noreturn]] void refuse_not_yet(const SourceText& source, SourceSpan span, std::string_view what,
                                 std::string fix = "");

/// A place in some text, for later errors.
struct Where {
  SourcePtr source;
  SourceSpan span;

  [[noreturn]] void refuse(std::string summary, std::string fix = "") const {
    shardlab::refuse(*source, span, std::move(summary), std::move(fix));
  }
  std::string at() const { return source->at(span.begin); }
};

}  // namespace shardlab
