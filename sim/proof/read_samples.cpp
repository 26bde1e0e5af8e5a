// A line is read once, from left to right: each function takes one part from the front of what is
// left.
#include "sim/proof/read_samples.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/program_path.h"
#include "base/rank_context.h"
#include "base/read_real.h"
#include "sim/files/text_lines.h"
#include "tensor/host.h"

namespace shardlab {

namespace {

class SampleLine {
 public:
  SampleLine(std::string text, std::string place)
      : text_(std::move(text)), rest_(text_), place_(std::move(place)) {}

  void read(std::vector<OpSample>& samples) {
    OpSample sample;
    sample.fixed = take("fixed:");
    sample.marked = !take("unmarked:");
    std::vector<std::string> names{name()};
    while (!take("(")) names.push_back(name());
    while (!take(")")) {
      sample.args.push_back(argument());
      if (!ahead(")")) expect(",");
    }
    if (take("of")) {
      do {
        sample.inputs.push_back(input());
      } while (take(";"));
    }
    if (!rest_.empty()) refuse("the end of the line");
    if (last_slot_ >= std::ssize(sample.inputs)) {
      refuse(fmt::format("an input ${}", last_slot_),
             fmt::format("{} inputs", sample.inputs.size()));
    }
    for (std::string& name : names) {
      sample.op = std::move(name);
      samples.push_back(sample);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& expected, std::string_view found) const {
    fail(Fix{"shardlab verify-ops --help shows a line"}, "{}: expected {}, found '{}'", place_,
         expected, found);
  }
  [[noreturn]] void refuse(const std::string& expected) const {
    refuse(expected, rest_.substr(0, 20));
  }

  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool ahead(std::string_view word) const { return rest_.starts_with(word); }
  bool take(std::string_view word) {
    if (!ahead(word)) return false;
    rest_.remove_prefix(word.size());
    skip_blanks();
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) refuse(fmt::format("'{}'", word));
  }
  /// The characters up to the first of `ends`.
  std::string word(std::string_view ends, const char* expected) {
    const std::size_t size = std::min(rest_.find_first_of(ends), rest_.size());
    if (size == 0) refuse(expected);
    std::string found(rest_.substr(0, size));
    rest_.remove_prefix(size);
    skip_blanks();
    return found;
  }
  std::string name() { return word(" (", "the name of an op, or '('"); }

  template <typename T>
  static std::optional<T> read(const std::string& text) {
    T value{};
    const char* const end = text.data() + text.size();
    if constexpr (std::is_same_v<T, double>) {
      return read_real(text.data(), end, value).ptr == end ? std::optional(value) : std::nullopt;
    } else {
      return std::from_chars(text.data(), end, value).ptr == end ? std::optional(value)
                                                                 : std::nullopt;
    }
  }
  template <typename T>
  T number(const char* expected) {
    const std::string text = word(" ,;()[]<", expected);
    const auto value = read<T>(text);
    if (!value) refuse(expected, text);
    return *value;
  }
  std::int64_t integer() { return number<std::int64_t>("an integer"); }

  /// Items up to a closing bracket, separated by commas.
  void list(std::string_view end, const auto& item) {
    while (!take(end)) {
      item();
      if (!ahead(end)) expect(",");
    }
  }

  Argument argument() {
    if (take("(")) {
      expect(")");
      return ArgumentList{};
    }
    if (take("[")) {
      ArgumentList items;
      list("]", [&] { items.push_back(argument()); });
      const auto is_integer = [](const Argument& item) {
        return item.is_scalar() && item.scalar().category() == Category::kInteger;
      };
      if (!std::ranges::all_of(items, is_integer)) return items;
      Dims ints;
      for (const Argument& item : items) ints.push_back(item.to_int());
      return ints;
    }
    if (take("\"")) {
      const std::size_t size = rest_.find('"');
      if (size == std::string_view::npos) refuse("a text that ends with \"");
      Argument text(std::string(rest_.substr(0, size)));
      rest_.remove_prefix(size + 1);
      skip_blanks();
      return text;
    }
    return value(word(" ,)]", "an argument"));
  }

  Argument value(const std::string& text) {
    if (text == "None") return {};
    if (text == "True" || text == "False") return text == "True";
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (const auto slot = text[0] == '$' ? read<std::int64_t>(text.substr(1)) : std::nullopt) {
      last_slot_ = std::max(last_slot_, *slot);
      return text;
    }
    if (const auto whole = read<std::int64_t>(text)) return *whole;
    if (const auto real = read<double>(text)) return *real;
    if (const auto dtype = parse_dtype(text)) return *dtype;
    refuse("a number, None, True, False, $0, a dtype or a text", text);
  }

  SampleInput input() {
    constexpr std::pair<std::string_view, Fill> kFills[] = {
        {"real", Fill::kReal},   {"unit", Fill::kUnit}, {"index", Fill::kIndex},
        {"count", Fill::kCount}, {"bool", Fill::kBool}, {"values", Fill::kGiven},
        {"whole", Fill::kGiven}};
    const auto* const fill =
        std::ranges::find_if(kFills, [&](const auto& known) { return take(known.first); });
    if (fill == std::end(kFills)) refuse("real, unit, index, count, bool, values or whole");
    SampleInput input;
    input.fill = fill->second;
    expect("[");
    list("]", [&] { input.shape.push_back(integer()); });
    if (input.fill == Fill::kIndex || input.fill == Fill::kCount) {
      expect("<");
      input.limit = integer();
    }
    if (input.fill == Fill::kGiven) input.given = elements(input.shape, fill->first == "values");
    return input;
  }

  std::shared_ptr<const GivenElements> elements(const Dims& shape, bool placed) {
    std::vector<double> values;
    expect("(");
    list(")", [&] { values.push_back(number<double>("a number")); });
    if (std::ssize(values) != product(shape)) {
      refuse(fmt::format("{} numbers", product(shape)), fmt::format("{}", values.size()));
    }
    const DType dtype = placed ? DType::kF32 : DType::kI64;
    GivenElements given{dtype, placed, true, {}};
    given.make = [shape, dtype, values = std::move(values)](Precision precision) {
      const bool wide = precision == Precision::kReference && dtype == DType::kF32;
      const Tensor tensor = empty(*current_rank().device, shape, wide ? DType::kF64 : dtype);
      write_doubles(tensor, values);
      return tensor;
    };
    return std::make_shared<const GivenElements>(std::move(given));
  }

  const std::string text_;
  std::string_view rest_;
  std::string place_;
  std::int64_t last_slot_ = -1;
};

}  // namespace

std::vector<OpSample> read_samples(std::string_view text, const std::string& file) {
  std::vector<OpSample> samples;
  std::string joined;  // a line with those that are indented below it
  std::size_t number = 0, began = 0;
  const auto finish = [&] {
    if (!joined.empty()) SampleLine(joined, fmt::format("{}:{}", file, began)).read(samples);
    joined.clear();
  };
  while (!text.empty()) {
    const std::size_t size = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    ++number;
    while (line.ends_with(' ') || line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] != ' ' || joined.empty()) {
      finish();
      began = number;
    }
    joined += (joined.empty() ? "" : " ");
    joined += line.substr(std::min(line.find_first_not_of(' '), line.size()));
  }
  finish();
  return samples;
}

// The table is data: programs that prove no op do not read it.

std::span<const OpSample> all_samples() {
  static const std::vector<OpSample> samples = [] {
    const std::string path = shipped_file("samples.txt", "sim/proof/samples.txt").string();
    std::vector<OpSample> all = read_samples(read_text(path), path);
    std::stable_partition(all.begin(), all.end(),
                          [](const OpSample& sample) { return !sample.fixed; });
    for (OpSample& sample : samples_of_several_calls()) {
      sample.fixed = true;
      all.push_back(std::move(sample));
    }
    return all;
  }();
  return samples;
}

std::span<const OpSample> op_samples() {
  const std::span<const OpSample> all = all_samples();
  return all.first(
      static_cast<std::size_t>(std::ranges::find(all, true, &OpSample::fixed) - all.begin()));
}

}  // namespace shardlab
