// Each op from the columns of its row; nothing is written twice.
#include "sim/report/ops_text.h"

#include <fmt/format.h>

#include <fnmatch.h>
#include <algorithm>

#include "base/error.h"
#include "ops/torch/torch_names.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

bool is_pattern(std::string_view name) { return name.find('*') != std::string_view::npos; }

std::vector<const OpRow*> named_rows(const OpRegistry& registry, std::string_view name) {
  if (name.empty()) return registry.rows();
  if (is_pattern(name)) {
    std::vector<const OpRow*> rows = registry.rows();
    std::erase_if(rows, [pattern = std::string(name)](const OpRow* row) {
      return !op_matches(row->name(), pattern);
    });
    if (!rows.empty()) return rows;
    fail(Fix{"shardlab ops lists all"}, "no op matches '{}'", name);
  }
  if (std::vector<const OpRow*> overloads = registry.overloads(name); !overloads.empty()) {
    return overloads;
  }
  if (const OpRow* row = registry.find(name)) return {row};
  if (std::vector<const OpRow*> rows = rows_of_torch_name(registry, name); !rows.empty()) {
    return rows;
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
  if (!row.runs()) text += fmt::format("{}no kernel: shapes only", text.empty() ? "" : ", ");
  return text;
}

/// "src/ops/elementary.cpp:398": a compiler names files relative to the build folder, this one too.
std::string source_text(const OpRow& row) {
  constexpr std::string_view kHere = "sim/report/ops_text.cpp";
  std::string_view file = row.source.file, to_here = __FILE__;
  if (to_here.ends_with(kHere)) to_here.remove_suffix(kHere.size());
  if (file.starts_with(to_here)) file.remove_prefix(to_here.size());
  return fmt::format("{}:{}", file, row.source.line);
}

bool shown_with_base(const OpRow& row, const std::vector<const OpRow*>& rows) {
  return row.base != nullptr && std::ranges::find(rows, row.base) != rows.end();
}

std::string forms_text(const OpRow& row, const std::vector<const OpRow*>& rows) {
  std::string text;
  for (const OpRow* form : rows) {
    if (form->base == &row) text += fmt::format("{}{}", text.empty() ? "" : ", ", form->name());
  }
  return text;
}

void append_line(std::string& out, std::string_view what, const std::string& text) {
  if (!text.empty()) out += fmt::format("  {:<11} {}\n", what, text);
}

void append_row(std::string& out, const OpRow& row, const std::vector<const OpRow*>& rows,
                const ExampleCall& example) {
  const OpRow& base = row.base != nullptr ? *row.base : row;
  const bool program = std::holds_alternative<PartsFn>(row.compute);
  out += row.op.text() + "\n";
  append_line(out, "rule",
              program ? fmt::format("in terms of other ops: {}", row.why) : rule_text(row));
  append_line(out, "rows", program ? "" : rule_rows_text(row, example));
  append_line(out, "flags", flags_text(row));
  append_line(out, "variant of", row.base != nullptr ? row.base->name() : "");
  append_line(out, "variants", forms_text(row, rows));
  append_line(out, "gradient",
              base.gradient             ? "yes"
              : base.parts() != nullptr ? "through its parts"
                                        : "no");
  append_line(out, "why", program ? "" : row.why);
  append_line(out, "source", source_text(row));
}

}  // namespace

bool op_matches(const std::string& name, const std::string& pattern) {
  const std::string after = name.substr(name.find("::") + 2);
  const auto fits = [&](const std::string& text) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
  };
  return fits(name) || fits(after) || fits(after.substr(0, after.find('.')));
}

std::string ops_text(const OpRegistry& registry, std::string_view name,
                     const ExampleCall& example) {
  const std::vector<const OpRow*> rows = named_rows(registry, name);
  std::string out;
  if (!name.empty() && !is_pattern(name)) {
    for (const OpRow* row : rows) {
      if (!shown_with_base(*row, rows)) append_row(out, *row, registry.rows(), example);
    }
    return out;
  }
  std::size_t variants = 0;
  for (const OpRow* row : rows) {
    variants += row->base != nullptr;
    if (row->base != nullptr) continue;
    out += fmt::format("{:<48} {}{}\n", row->name(), rule_text(*row),
                       row->runs() ? "" : "   (no kernel: shapes only)");
  }
  out += fmt::format("{} ops: {} rows of their own, {} variants of them\n", rows.size(),
                     rows.size() - variants, variants);
  return out;
}

std::string ops_json(const OpRegistry& registry, std::string_view name) {
  const auto facts = [](const OpRow* row) -> Json {
    return {{"op", row->name()},
            {"schema", row->op.text()},
            {"rule", rule_text(*row)},
            {"runs", row->runs()},
            {"gradient", static_cast<bool>(row->gradient)},
            {"variant_of", row->base != nullptr ? row->base->name() : ""},
            {"why", row->why},
            {"source", source_text(*row)}};
  };
  return json_list(named_rows(registry, name), facts).dump();
}

}  // namespace shardlab
