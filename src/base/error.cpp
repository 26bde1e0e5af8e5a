// An error collects its parts on the way up. The first value added for a part is kept, because the
// inner place has more facts; the order in the message depends on the part and not on which was
// added first.
#include "base/error.h"

#include <algorithm>
#include <array>

namespace shardlab {

std::string_view to_string(ErrorKind kind) {
  constexpr std::string_view kNames[] = {"Unsupported", "Runtime", "Value", "Internal", "Assert"};
  return kNames[static_cast<std::size_t>(kind)];
}

const std::string* Error::find(std::string_view key) const {
  for (const auto& [name, value] : parts_) {
    if (name == key) return &value;
  }
  return nullptr;
}

Error& Error::with(std::string_view key, std::string value) & {
  if (find(key) == nullptr) parts_.emplace_back(std::string(key), std::move(value));
  what_.clear();
  return *this;
}

Error&& Error::with(std::string_view key, std::string value) && {
  with(key, std::move(value));
  return std::move(*this);
}

Error& Error::caused_by(const Error& cause) & {
  cause_ = std::make_shared<const Error>(cause);
  what_.clear();
  return *this;
}

namespace {

// The part that shows the line of the user's file with a caret below; its text is printed
// unchanged.
constexpr std::string_view kExcerpt = "excerpt";
// For programs: the class and text of the error in Python.
constexpr std::string_view kHidden = "python";

int place_in_message(const std::string& key) {
  static constexpr std::array<std::string_view, 3> kFirst = {"op", "mesh", "placements"};
  const auto found = std::find(kFirst.begin(), kFirst.end(), key);
  if (found != kFirst.end()) return static_cast<int>(found - kFirst.begin());
  if (key == "at") return 8;
  if (key == kExcerpt) return 9;
  if (key == "fix") return 10;
  return 5;
}

void append_indented(std::string& out, std::string_view text, std::size_t indent) {
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(indent, ' ');
  }
}

}  // namespace

std::string Error::text() const {
  auto parts = parts_;
  std::erase_if(parts, [](const auto& part) { return part.first == kHidden; });
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) {
    return place_in_message(a.first) < place_in_message(b.first);
  });
  std::string out = summary_;
  for (const auto& [key, value] : parts) {
    if (key == kExcerpt) {
      out += "\n" + value;
      continue;
    }
    out += fmt::format("\n  {:<11} ", key);
    append_indented(out, value, 14);
  }
  if (cause_) {
    out += "\n  cause       ";
    append_indented(out, cause_->text(), 14);
  }
  return out;
}

const char* Error::what() const noexcept {
  try {
    if (what_.empty()) what_ = text();
    return what_.c_str();
  } catch (...) {
    return summary_.c_str();
  }
}

void invariant_violated(const char* what, const char* file, int line) {
  throw Error(ErrorKind::kInternal, fmt::format("invariant violated: {}", what))
      .with("at", fmt::format("{}:{}", file, line))
      .with("fix", "this is a defect of shardlab; please report it with a scenario that shows it");
}

OutOfRange::OutOfRange(std::size_t index, std::size_t size)
    : Error(ErrorKind::kInternal, fmt::format("entry {} of a list of {} was asked for",
                                              static_cast<std::ptrdiff_t>(index), size)) {}

void out_of_range(std::size_t index, std::size_t size) { throw OutOfRange(index, size); }

}  // namespace shardlab
