// Reads the type strings that type_string.cpp prints (scenarios/README.md section 1).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "base/text.h"
#include "base/torch_dtype.h"
#include "mesh/type_string.h"

namespace shardlab {
namespace {

constexpr const char* kWriteType = "write it as dtype[sizes]{reductions}: f32[8@dp, 16]{sum:tp}";
constexpr const char* kWriteDims = "write several mesh dims as (dp,tp)";

[[noreturn]] void refuse(TextSpan span, std::string summary, std::string fix = {}) {
  TypeStringError error(std::move(summary), span);
  if (!fix.empty()) error.with("fix", std::move(fix));
  throw error;
}

bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A place in a text. Whitespace separates, otherwise it does not matter.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  std::size_t position() const { return position_; }
  /// The next character that is not a space; 0 at the end.
  char peek() {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++position_;
    return true;
  }
  void expect(char c, std::string_view where, std::string_view fix) {
    if (accept(c)) return;
    const char found = peek();
    refuse(here(),
           found == '\0' ? fmt::format("the text ends where '{}' is missing {}", c, where)
                         : fmt::format("'{}' where '{}' is missing {}", found, c, where),
           std::string(fix));
  }
  /// Letters, digits and underscores; empty when there are none at this place.
  std::string_view name() {
    peek();
    const std::size_t start = position_;
    if (position_ < text_.size() && is_name_start(text_[position_])) {
      while (position_ < text_.size() &&
             (is_name_start(text_[position_]) || is_digit(text_[position_]))) {
        ++position_;
      }
    }
    return text_.substr(start, position_ - start);
  }
  /// Everything up to one of `stops` outside of brackets, without spaces around it.
  std::string_view until(std::string_view stops) {
    peek();
    const std::size_t start = position_;
    int depth = 0;
    for (; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (depth == 0 && stops.find(c) != std::string_view::npos) break;
      if (c == '(' || c == '[') ++depth;
      if (c == ')' || c == ']') --depth;
    }
    std::size_t end = position_;
    while (end > start && text_[end - 1] == ' ') --end;
    return text_.substr(start, end - start);
  }
  TextSpan here() { return {position_, peek() == '\0' ? std::size_t{0} : std::size_t{1}}; }
  TextSpan span_of(std::string_view part) const {
    return {static_cast<std::size_t>(part.data() - text_.data()), part.size()};
  }

 private:
  std::string_view text_;
  std::size_t position_ = 0;
};

/// Reads a mesh dim's name; each may be used once.
class MeshDimReader {
 public:
  explicit MeshDimReader(const MeshLayout& layout) : layout_(layout), used_(layout.ndim(), 0) {}

  std::size_t read(Cursor& cursor) {
    const std::string_view name = cursor.name();
    if (name.empty()) refuse(cursor.here(), "the name of a mesh dim is missing", known());
    const auto dim = layout_.find_dim(name);
    if (!dim) {
      refuse(cursor.span_of(name), fmt::format("mesh {} has no dim '{}'", layout_.text(), name),
             suggest(name, layout_.names()));
    }
    if (used_[*dim]++ > 0) {
      refuse(cursor.span_of(name), fmt::format("mesh dim '{}' is used twice", name),
             "a mesh dim does one thing to a tensor: cut one dim, or hold a pending reduction");
    }
    return *dim;
  }

 private:
  std::string known() const { return suggest("", layout_.names()); }

  const MeshLayout& layout_;
  InlineVector<int, 4> used_;
};

class TypeReader {
 public:
  TypeReader(std::string_view text, const MeshLayout& layout) : cursor_(text), mesh_dims_(layout) {
    type_.placements = Placements(layout.ndim());
    type_.order = ShardOrder(layout.ndim(), -1);
  }

  ParsedType read() {
    read_dtype();
    cursor_.expect('[', "before the sizes", kWriteType);
    if (!cursor_.accept(']')) {
      do read_dim();
      while (cursor_.accept(','));
      cursor_.expect(']', "after the sizes", kWriteType);
    }
    if (cursor_.accept('{')) {
      do read_reduction();
      while (cursor_.accept(','));
      cursor_.expect('}', "after the pending reductions", kWriteType);
    }
    if (cursor_.peek() != '\0') {
      refuse(cursor_.here(), "there is text after the end of the type", kWriteType);
    }
    return std::move(type_);
  }

 private:
  void read_dtype() {
    const std::string_view name = cursor_.name();
    if (name.empty()) return;
    type_.dtype = parse_written_dtype(name);
    if (type_.dtype) return;
    std::vector<std::string> known;
    for (int i = 0; i < kDTypeCount; ++i) known.emplace_back(to_string(static_cast<DType>(i)));
    refuse(cursor_.span_of(name), fmt::format("unknown dtype '{}'", name), suggest(name, known));
  }

  void read_dim() {
    type_.shape.push_back(read_size());
    if (!cursor_.accept('@')) return;
    const std::size_t start = cursor_.position();
    InlineVector<std::size_t, 4> sequence;
    if (cursor_.accept('(')) {
      do sequence.push_back(read_cut());
      while (cursor_.accept(','));
      cursor_.expect(')', "after the mesh dims", kWriteDims);
    } else {
      sequence.push_back(read_cut());
    }
    bool strided = false;
    for (std::size_t place = 0; place < sequence.size(); ++place) {
      type_.order[sequence[place]] = static_cast<std::int32_t>(place);
      strided |= type_.placements[sequence[place]].is_strided_shard();
    }
    if (strided && !std::is_sorted(sequence.begin(), sequence.end())) {
      refuse({start, cursor_.position() - start}, "strided cuts in another order than the mesh's",
             "with ~ the mesh dims of one tensor dim stand in the mesh's order");
    }
  }

  std::int64_t read_size() {
    const std::string_view text = cursor_.until("@,]{");
    const TextSpan span = cursor_.span_of(text);
    if (text.empty()) {
      refuse(cursor_.here(), "a size is missing", "write one size per tensor dim: f32[8, 16]");
    }
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
    const bool plain = end == text.data() + text.size();
    if (plain && error == std::errc::result_out_of_range) {
      refuse(span, fmt::format("size {} is too large", text), "give a size below 2^63");
    }
    if (!plain || error != std::errc()) {
      refuse(span, fmt::format("'{}' is not a size", text), "write a whole number");
    }
    if (size < 0) {
      refuse(span, fmt::format("size {} is negative", size), "give a size of 0 or more");
    }
    // Sizes of 0 count as 1: strides do not shrink either.
    if (__builtin_mul_overflow(elements_, std::max<std::int64_t>(size, 1), &elements_) ||
        elements_ > kMaxElements) {
      refuse(span, "the tensor has more elements than can be addressed", "use smaller sizes");
    }
    return size;
  }

  std::size_t read_cut() {
    const std::size_t mesh_dim = mesh_dims_.read(cursor_);
    const auto tensor_dim = static_cast<std::int64_t>(type_.shape.size()) - 1;
    Placement& placement = type_.placements[mesh_dim];
    placement = Placement::shard(tensor_dim);
    if (!cursor_.accept('~')) return mesh_dim;
    const std::string_view text = cursor_.until("@,)]{");
    std::int64_t factor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    if (error != std::errc() || end != text.data() + text.size() || factor < 1) {
      refuse(text.empty() ? cursor_.here() : cursor_.span_of(text),
             "the split factor after '~' must be a whole number from 1 on",
             "write 8@dp~2, or leave the ~ out");
    }
    // In one chunk it is a plain shard, which is how it prints.
    if (factor > 1) placement = Placement::strided_shard(tensor_dim, factor);
    return mesh_dim;
  }

  void read_reduction() {
    const Placement placement = read_kind();
    cursor_.expect(':', "between a reduction and its mesh dims", kWriteType);
    const bool several = cursor_.accept('(');
    do type_.placements[mesh_dims_.read(cursor_)] = placement;
    while (several && cursor_.accept(','));
    if (several) cursor_.expect(')', "after the mesh dims", kWriteDims);
  }

  Placement read_kind() {
    const std::string_view text = cursor_.until(":,}");
    const TextSpan span = text.empty() ? cursor_.here() : cursor_.span_of(text);
    std::string placement = fmt::format("P({})", text);
    if (text.starts_with("norm")) placement = fmt::format("NP{}", text.substr(4));
    if (text.starts_with("mask")) placement = fmt::format("MP{}", text.substr(4));
    if (const auto parsed = parse_placement(placement)) return *parsed;
    std::vector<std::string> known;
    for (int i = 0; i < kReduceOpCount; ++i) {
      known.emplace_back(to_string(static_cast<ReduceOp>(i)));
    }
    known.insert(known.end(), {"norm(2)", "mask(sum,16x8,0)"});
    refuse(span, fmt::format("'{}' is not a pending reduction", text), suggest(text, known));
  }

  static constexpr std::int64_t kMaxElements = std::int64_t{1} << 58;  // of 16 bytes: 2^62 bytes

  Cursor cursor_;
  std::int64_t elements_ = 1;
  MeshDimReader mesh_dims_;
  ParsedType type_;
};

}  // namespace

ParsedType parse_type(std::string_view text, const MeshLayout& layout) {
  return TypeReader(text, layout).read();
}

Placements parse_placements_by_dim(std::string_view text, const MeshLayout& layout,
                                   const Placements& base) {
  Placements placements = base;
  Cursor cursor(text);
  MeshDimReader mesh_dims(layout);
  if (cursor.peek() == '\0') return placements;
  do {
    const std::size_t mesh_dim = mesh_dims.read(cursor);
    cursor.expect('=', "between a mesh dim and its placement", "write dp=S(0), tp=R");
    const std::string_view word = cursor.until(",");
    const auto placement = parse_placement(word);
    if (!placement) {
      refuse(word.empty() ? cursor.here() : cursor.span_of(word),
             fmt::format("'{}' is not a placement", word),
             "write R, S(dim), SS(dim,factor), P(op), NP(n) or MP(op,AxB,dim)");
    }
    placements[mesh_dim] = *placement;
  } while (cursor.accept(','));
  return placements;
}

}  // namespace shardlab
