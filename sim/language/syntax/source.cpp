// Text embedded in text: an inner SourceText (a program in a TOML string, a type with its sizes
// filled in) knows by runs the origin of its bytes, so that an error deep inside still points into
// the user's file.
#include "sim/language/syntax/source.h"

#include "base/text.h"
#include "sim/language/syntax/characters.h"

#include <algorithm>

namespace shardlab {

SourceText::SourceText(std::string file, std::string text)
    : file_(std::move(file)), text_(std::move(text)), line_starts_{0} {
  for (std::size_t i = 0; i < text_.size(); ++i) {
    if (text_[i] == '\n') line_starts_.push_back(static_cast<std::uint32_t>(i + 1));
  }
}

SourceText::SourceText(std::shared_ptr<const SourceText> parent, std::string text,
                       std::vector<Run> runs)
    : parent_(std::move(parent)), text_(std::move(text)), runs_(std::move(runs)) {
  check_invariant(!runs_.empty() && runs_[0].at == 0, "embedded text starts with a run");
}

std::string_view SourceText::text(SourceSpan span) const {
  return std::string_view(text_).substr(span.begin, span.end - span.begin);
}

std::uint32_t SourceText::root_offset(std::uint32_t offset) const {
  if (!parent_) return std::min(offset, static_cast<std::uint32_t>(text_.size()));
  const auto next = std::ranges::upper_bound(runs_, offset, {}, &Run::at);
  const Run& run = *(next - 1);
  return parent_->root_offset(run.from + (offset - run.at));
}

SourcePlace SourceText::place(std::uint32_t offset) const {
  const SourceText& file = root();
  const std::uint32_t at = root_offset(offset);
  const auto next = std::ranges::upper_bound(file.line_starts_, at);
  const auto start = *(next - 1);
  const auto characters =
      std::count_if(file.text_.begin() + start, file.text_.begin() + at, starts_character);
  return {static_cast<std::int32_t>(next - file.line_starts_.begin()),
          static_cast<std::int32_t>(characters) + 1};
}

std::uint32_t SourceText::offset_of(SourcePlace place) const {
  const auto lines = static_cast<std::int32_t>(line_starts_.size());
  if (place.line < 1) return 0;
  if (place.line > lines) return static_cast<std::uint32_t>(text_.size());
  std::uint32_t offset = line_starts_[static_cast<std::size_t>(place.line - 1)];
  for (std::int32_t column = 1; column < place.column && offset < text_.size(); ++column) {
    do ++offset;
    while (offset < text_.size() && !starts_character(text_[offset]));
  }
  return offset;
}

std::string_view SourceText::line(std::int32_t number) const {
  const SourceText& file = root();
  if (number < 1 || number > static_cast<std::int32_t>(file.line_starts_.size())) return {};
  const std::string_view rest =
      std::string_view(file.text_).substr(file.line_starts_[static_cast<std::size_t>(number - 1)]);
  std::string_view found = rest.substr(0, rest.find('\n'));
  if (!found.empty() && found.back() == '\r') found.remove_suffix(1);
  return found;
}

std::string SourceText::at(std::uint32_t offset) const {
  const SourcePlace where = place(offset);
  return fmt::format("{}:{}:{}", file(), where.line, where.column);
}

std::string SourceText::excerpt(std::uint32_t offset) const {
  constexpr std::size_t kWidest = 120;  // characters of the source line that are shown
  const SourcePlace where = place(offset);
  const std::string_view whole = line(where.line);
  std::string shown;
  std::size_t caret = static_cast<std::size_t>(where.column - 1);
  std::size_t first = caret > kWidest - 20 ? caret - (kWidest - 20) : 0;
  std::size_t character = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (i > 0 && starts_character(whole[i])) ++character;
    if (character < first || character >= first + kWidest) continue;
    const auto byte = static_cast<unsigned char>(whole[i]);
    const bool never_utf8 = byte == 0xC0 || byte == 0xC1 || byte >= 0xF5;
    const bool control = byte < 0x20 || byte == 0x7F;  // a tab would move the caret
    shown += never_utf8 ? '?' : control ? ' ' : whole[i];
  }
  return fmt::format("  {:>5} | {}\n        | {}^", where.line, shown,
                     std::string(caret - first, ' '));
}

ScenarioError::ScenarioError(const SourceText& source, SourceSpan span, std::string summary,
                             std::string fix, ErrorKind kind)
    : Error(kind, std::move(summary)) {
  const std::string at = source.at(span.begin);
  report_ = fmt::format("error: {}\n  at          {}\n{}", this->summary(), at,
                        source.excerpt(span.begin));
  with("at", at);
  if (fix.empty()) return;
  report_ += fmt::format("\n  fix         {}", fix);
  with("fix", std::move(fix));
}

void ScenarioError::add(const std::vector<ScenarioError>& others) {
  constexpr std::size_t kMost = 20;
  std::vector<std::string> lines;
  for (const ScenarioError& other : others) {
    if (lines.size() == kMost) break;
    const std::string* fix = other.find("fix");
    lines.push_back(fmt::format("{}: {}{}", *other.find("at"), other.summary(),
                                fix != nullptr ? fmt::format(" ({})", *fix) : ""));
  }
  if (others.size() > kMost) lines.push_back(fmt::format("and {} more", others.size() - kMost));
  if (lines.empty()) return;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    report_ += fmt::format("\n  {:<11} {}", i == 0 ? "also" : "", lines[i]);
  }
  with("also", text_of_list(lines, "\n"));
}

void refuse(const SourceText& source, SourceSpan span, std::string summary, std::string fix) {
  throw ScenarioError(source, span, std::move(summary), std::move(fix));
}

void refuse_not_yet(const SourceText& source, SourceSpan span, std::string_view what,
                    std::string fix) {
  throw ScenarioError(source, span, fmt::format("not yet supported: {}", what), std::move(fix),
                      ErrorKind::kUnsupported);
}

}  // namespace shardlab
