// Each op from the columns of its row; nothing is written down a second time.
#include "sim/report/ops_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/report/rule_text.h"

namespace shardlab {

namespace {

std::vector<const OpRow*> named_rows(const OpRegistry& registry, std::string_view name) {
  if (name.empty()) return registry.rows();
  if (std::vector<const OpRow*> overloads = registry.overloads(name); !overloads.empty()) {
    return overloads;
  }
  return {&registry.at(name)};
}

std::string flags_text(const OpRow& row) {
  std::string text;
  const auto add = [&](OpFlag flag, std::string_view word) {
    if (row.has(flag)) text += fmt::format("{}{}", text.empty() ? "" : ", ", word);
  };
  add(kRandom, "random by global index");
  add(kDataDependent, "result depends on data");
  add(kNeedsPosition, "knows its position");
  add(kAllowUneven, "takes short dims");
  add(kExact, "bitwise however it is cut");
  if (!row.runs()) text += fmt::format("{}incomplete: no kernel", text.empty() ? "" : ", ");
  return text;
}

void append_row(std::string& out, const OpRow& row) {
  out += fmt::format("{}\n  rule        {}\n", row.op.text(), rule_text(row));
  if (const std::string rows = rule_rows_text(row); !rows.empty()) {
    out += fmt::format("  rows        {}\n", rows);
  }
  if (const std::string flags = flags_text(row); !flags.empty()) {
    out += fmt::format("  flags       {}\n", flags);
  }
  const OpRow& base = row.base != nullptr ? *row.base : row;
  if (row.base != nullptr) out += fmt::format("  variant of  {}\n", base.name());
  out += fmt::format("  gradient    {}\n", base.gradient             ? "yes"
                                           : base.parts() != nullptr ? "through its parts"
                                                                     : "no");
  if (row.why[0] != '\0') out += fmt::format("  why         {}\n", row.why);
}

}  // namespace

std::string ops_text(const OpRegistry& registry, std::string_view name) {
  const std::vector<const OpRow*> rows = named_rows(registry, name);
  std::string out;
  if (!name.empty()) {
    for (const OpRow* row : rows) append_row(out, *row);
    return out;
  }
  int without_kernel = 0, variants = 0;
  for (const OpRow* row : rows) {
    without_kernel += !row->runs();
    variants += row->base != nullptr;
    if (row->base != nullptr) continue;
    out += fmt::format("{:<48} {}{}\n", row->name(), rule_text(*row),
                       !row->runs() ? "   (incomplete: no kernel)" : "");
  }
  out +=
      fmt::format("{} ops: {} rows of their own, {} variants of them, {} incomplete\n", rows.size(),
                  rows.size() - static_cast<std::size_t>(variants), variants, without_kernel);
  return out;
}

std::string ops_json(const OpRegistry& registry, std::string_view name) {
  nlohmann::json list = nlohmann::json::array();
  for (const OpRow* row : named_rows(registry, name)) {
    list.push_back({{"op", row->name()},
                    {"schema", row->op.text()},
                    {"rule", rule_text(*row)},
                    {"incomplete", !row->runs()},
                    {"gradient", static_cast<bool>(row->gradient)},
                    {"variant_of", row->base != nullptr ? row->base->name() : ""},
                    {"why", row->why}});
  }
  return list.dump();
}

}  // namespace shardlab
