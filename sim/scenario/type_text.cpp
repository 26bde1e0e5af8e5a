// Sizes are evaluated, everything else is copied as it is, and the resulting text remembers the
// origin of each of its parts. So type strings in src need no expressions, and errors in them still
// point to the user's text.
#include "sim/scenario/type_text.h"

#include "base/error.h"
#include "base/text.h"
#include "base/torch_dtype.h"
#include "mesh/type_string.h"

namespace shardlab {

namespace {

std::vector<std::string> dtype_names() {
  std::vector<std::string> names;
  for (int i = 0; i < kDTypeCount; ++i) names.emplace_back(to_string(static_cast<DType>(i)));
  return names;
}

class Resolver {
 public:
  Resolver(const SourcePtr& source, const Environment& environment)
      : source_(source), text_(source->text()), environment_(environment) {}

  TypeText resolve() {
    const std::size_t open = text_.find('[');
    if (open == std::string_view::npos) {
      refuse(*source_, all(), fmt::format("'{}' is not a type", text_),
             "write dtype[size@mesh_dim, ...], for example f32[8@dp, 16]");
    }
    read_dtype(open);
    const std::size_t close = matching_bracket(open);
    keep(0, open + 1);
    read_sizes(open + 1, close);
    const std::size_t on = std::min(text_.find(kOn, close), text_.size());
    keep(close, on);
    if (on < text_.size()) out_.mesh = text_.substr(on + kOn.size());
    out_.text =
        std::make_shared<const SourceText>(source_, std::move(canonical_), std::move(runs_));
    return std::move(out_);
  }

 private:
  SourceSpan span(std::size_t begin, std::size_t end) const {
    return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  }
  SourceSpan all() const { return span(0, text_.size()); }

  void read_dtype(std::size_t open) {
    std::string_view name = text_.substr(0, open);
    const std::size_t first = std::min(name.find_first_not_of(' '), name.size());
    name.remove_prefix(first);
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    if (name.empty()) return;
    out_.dtype = parse_written_dtype(name);
    if (out_.dtype) return;
    const auto known = dtype_names();
    refuse(*source_, span(first, first + name.size()), fmt::format("unknown dtype '{}'", name),
           suggest(name, known));
  }

  std::size_t matching_bracket(std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text_.size(); ++i) {
      if (text_[i] == '[' || text_[i] == '(') ++depth;
      if (text_[i] == ']' || text_[i] == ')') --depth;
      if (depth == 0) {
        if (text_[i] == ']') return i;
        break;
      }
    }
    refuse(*source_, span(open, open + 1), "'[' is never closed", "add ']'");
  }

  // Copies text as it is.
  void keep(std::size_t begin, std::size_t end) {
    runs_.push_back(
        {static_cast<std::uint32_t>(canonical_.size()), static_cast<std::uint32_t>(begin)});
    canonical_ += text_.substr(begin, end - begin);
  }

  void read_sizes(std::size_t begin, std::size_t end) {
    if (text_.substr(begin, end - begin).find_first_not_of(" \t\n") == std::string_view::npos)
      return;
    int depth = 0;
    std::size_t start = begin;
    for (std::size_t i = begin; i <= end; ++i) {
      const char c = i < end ? text_[i] : ',';
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
      if (c != ',' || (depth > 0 && i < end)) continue;
      read_dim(start, i);
      if (i < end) keep(i, i + 1);
      start = i + 1;
    }
  }

  void read_dim(std::size_t begin, std::size_t end) {
    const std::string_view dim = text_.substr(begin, end - begin);
    const std::size_t cut = begin + std::min(dim.find('@'), dim.size());
    const std::size_t first = text_.find_first_not_of(" \t\n", begin);
    if (first == std::string_view::npos || first >= cut) {
      refuse(*source_, span(begin, end), "a tensor dim has no size", "write its size");
    }
    const std::int64_t size = evaluate_integer(*source_, span(first, cut), environment_);
    if (size < 0) {
      refuse(*source_, span(first, cut),
             fmt::format("the size of a tensor dim is {}; it must be 0 or more", size),
             "give sizes of 0 or more");
    }
    keep(begin, first);
    runs_.push_back(
        {static_cast<std::uint32_t>(canonical_.size()), static_cast<std::uint32_t>(first)});
    canonical_ += std::to_string(size);
    out_.sizes.push_back(size);
    std::string_view written = text_.substr(first, cut - first);
    written = written.substr(0, written.find_last_not_of(" \t\n") + 1);
    out_.written.emplace_back(written);
    keep(cut, end);
  }

  static constexpr std::string_view kOn = " on ";
  const SourcePtr& source_;
  std::string_view text_;
  const Environment& environment_;
  TypeText out_;
  std::string canonical_;
  std::vector<SourceText::Run> runs_;
};

}  // namespace

TypeText resolve_type(const SourcePtr& text, const Environment& environment) {
  return Resolver(text, environment).resolve();
}

const DTensorSpec* spec_of(const TypeText& type, const MeshLayout* layout, DType fallback) {
  const SourceText& text = *type.text;
  try {
    const ParsedType parsed = parse_type(text.text(), *layout);
    const TensorMeta meta = contiguous_meta(parsed.shape, parsed.dtype.value_or(fallback));
    return layout->arena().spec(layout, parsed.placements, parsed.order, meta);
  } catch (const TypeStringError& error) {
    const auto begin = static_cast<std::uint32_t>(error.span().offset);
    refuse(text, {begin, begin}, error.summary(), fix_of(error));
  } catch (const Error& error) {
    refuse(text, {0, 0}, error.summary(), fix_of(error));
  }
}

}  // namespace shardlab
