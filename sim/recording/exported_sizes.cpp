// Equal expressions are read once: a program has few, and names them at every tensor.
#include "sim/recording/exported_sizes.h"

#include "base/fix.h"
#include "sim/recording/size_text.h"

namespace shardlab {

ExportedSizes::ExportedSizes(const JsonNode& ranges, const ExportOptions& options) {
  for (const JsonNode& range : ranges) {
    const std::string name(range.key());
    Symbol& symbol = symbols_[name];
    const auto bound = [&](const char* key) -> std::optional<std::int64_t> {
      const JsonNode* value = range.find(key);
      if (value == nullptr || !value->is_integer()) return std::nullopt;
      return value->integer();
    };
    symbol.least = bound("min_val");
    symbol.most = bound("max_val");
    const auto asked = options.sizes.find(name);
    if (asked != options.sizes.end()) symbol.size = asked->second;
  }
}

void ExportedSizes::note(const JsonNode& size, const std::string& input, std::size_t dim) {
  if (!size.contains("as_expr")) return;
  const JsonNode& expression = size.at("as_expr");
  const std::string name = symbol_in_text(std::string(expression.at("expr_str").text()));
  if (name.empty()) return;
  Symbol& symbol = symbols_[name];
  symbol.of.push_back(fmt::format("dim {} of {}", dim, input));
  const JsonNode* hint = expression.find("hint");
  const bool known = hint != nullptr && hint->contains("as_int");
  if (known && !symbol.size) symbol.size = hint->at("as_int").integer();
}

std::string ExportedSizes::misfit() const {
  for (const auto& [name, symbol] : symbols_) {
    const std::int64_t size = symbol.size.value_or(symbol.least.value_or(0));
    const bool fits =
        size >= symbol.least.value_or(0) && size >= 0 && (!symbol.most || size <= *symbol.most);
    if (!symbol.size || fits) continue;
    std::string range;
    if (symbol.least) range = fmt::format(" {}", *symbol.least);
    range += " or more";
    if (symbol.most) range += fmt::format(", at most {}", *symbol.most);
    return fmt::format("the size {} is {}, and the program takes{}", name, size, range);
  }
  return "";
}

std::int64_t ExportedSizes::of_text(std::string_view given) {
  const std::string text(given);
  const auto known = texts_.find(text);
  if (known != texts_.end()) return known->second;
  const std::int64_t value = size_in_text(text, [&](const std::string& name) {
    const auto symbol = symbols_.find(name);
    if (symbol != symbols_.end() && symbol->second.size) return *symbol->second.size;
    const bool given = symbol != symbols_.end() && !name.starts_with("u");
    fail(ErrorKind::kUnsupported,
         Fix{given ? fmt::format("--set {}=8", name) : "take numbers of data out of the program"},
         "{} {}", name, given ? "is a size without a value" : "is a number that data has");
  });
  texts_.emplace(text, value);
  return value;
}

std::int64_t ExportedSizes::of(const JsonNode& size) {
  if (size.is_number()) return size.integer();
  if (const JsonNode* number = size.find("as_int")) return number->integer();
  return of_text(size.at("as_expr").at("expr_str").text());
}

std::vector<ExportedSize> ExportedSizes::known() const {
  std::vector<ExportedSize> all;
  for (const auto& [name, symbol] : symbols_) all.push_back({name, symbol.size, symbol.of});
  return all;
}

}  // namespace shardlab
