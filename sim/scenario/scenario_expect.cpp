// [expect]: conditions that must hold.
#include <algorithm>
#include <cmath>

#include "base/memory_account.h"
#include "base/policies.h"
#include "base/text.h"
#include "sim/scenario/cause.h"
#include "sim/scenario/scenario_parts.h"
#include "sim/scenario/type_text.h"

namespace shardlab {

namespace {

const std::vector<std::string>& expect_keys() {
  static const std::vector<std::string> kKeys = {
      "collectives",  "bytes", "memory",       "grads",  "implicit",   "verify",
      "tolerance",    "error", "verdict",      "cause",  "checkpoint", "line",
      "not_verified", "graph", "graph_breaks", "graphs", "outcomes",   "transports"};
  return kKeys;
}

const std::vector<std::string>& outcome_keys() {
  static const std::vector<std::string> kKeys = {"verified",   "differs",        "left_as_terms",
                                                 "on_the_way", "no_counterpart", "not_compared"};
  return kKeys;
}

std::vector<std::string> memory_keys() {
  std::vector<std::string> keys = {"peak"};
  for (std::size_t i = 0; i < kHeldForCount; ++i) {
    keys.emplace_back(key_of(static_cast<HeldFor>(i)));
  }
  return keys;
}

// Longer texts first.
constexpr ast::CompareOp kCompare[] = {ast::CompareOp::kLessEqual, ast::CompareOp::kGreaterEqual,
                                       ast::CompareOp::kEqual,     ast::CompareOp::kNotEqual,
                                       ast::CompareOp::kLess,      ast::CompareOp::kGreater};

struct UnitRow {
  std::string_view text;
  double bytes;
};
// Longer ones first: "KiB" ends in "B".
constexpr UnitRow kUnits[] = {
    {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0},
    {"kB", 1e3},     {"KB", 1e3},        {"MB", 1e6},           {"GB", 1e9},
    {"TB", 1e12},    {"B", 1.0},
};

enum class Units : std::uint8_t { kNone, kBytes };

std::string_view trimmed_end(std::string_view text) {
  const std::size_t last = text.find_last_not_of(' ');
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// "<= 4 * layers MiB": a comparison, an expression, a unit.
Bound bound_of_text(const SourcePtr& source, const Environment& environment, Units units) {
  const std::string_view whole = source->text();
  Bound bound{.text = source->text(),
              .where = {source, {0, static_cast<std::uint32_t>(whole.size())}}};
  std::size_t begin = std::min(whole.find_first_not_of(' '), whole.size());
  for (const ast::CompareOp op : kCompare) {
    if (!whole.substr(begin).starts_with(to_string(op))) continue;
    bound.op = op;
    begin += to_string(op).size();
    break;
  }
  begin = std::min(whole.find_first_not_of(' ', begin), whole.size());
  std::string_view text = trimmed_end(whole.substr(begin));
  double unit = 0;
  for (const UnitRow& row : kUnits) {
    if (units == Units::kNone || !text.ends_with(row.text)) continue;
    const std::string_view before = text.substr(0, text.size() - row.text.size());
    const char last = before.empty() ? 'x' : before.back();
    if (last != ' ' && last != ')' && (last < '0' || last > '9')) continue;
    text = trimmed_end(before);
    unit = row.bytes;
    break;
  }
  const SourceSpan span{static_cast<std::uint32_t>(begin),
                        static_cast<std::uint32_t>(begin + text.size())};
  bound.value = evaluate_number(*source, span, environment);
  if (unit > 1) bound.value = to_double(bound.value) * unit;
  return bound;
}

Bound read_bound(const TomlEntry& entry, const Environment& environment, Units units) {
  if (const auto* text = std::get_if<SourcePtr>(&entry.value.value)) {
    return bound_of_text(*text, environment, units);
  }
  if (!std::holds_alternative<std::int64_t>(entry.value.value)) {
    refuse_kind(entry.value, entry.key, "an integer or a string like \"<= 2\"");
  }
  const std::int64_t value = read_integer(entry);
  return {.value = value, .text = fmt::format("{}", value), .where = entry.value.where};
}

class ExpectReader {
 public:
  ExpectReader(const TomlSection& expect, const Environment& environment,
               const std::vector<std::string>& values)
      : expect_(expect), environment_(environment), values_(values) {}

  Expectation read() {
    for (const TomlEntry& entry : *expect_.table) read_entry(entry);
    return std::move(out_);
  }

 private:
  void read_entry(const TomlEntry& entry) {
    if (entry.key == "collectives") {
      read_bounds(entry, collective_names(), Units::kNone, out_.collectives.emplace());
    } else if (entry.key == "bytes")
      out_.bytes = read_bound(entry, environment_, Units::kBytes);
    else if (entry.key == "memory") {
      read_bounds(entry, memory_keys(), Units::kBytes, out_.memory);
    } else if (entry.key == "grads") {
      read_gradients(entry);
    } else if (entry.key == "implicit") {
      read_implicit(entry);
    } else if (entry.key == "verify") {
      read_verify(entry);
    } else if (entry.key == "tolerance") {
      read_tolerance(entry);
    } else if (entry.key == "error") {
      read_error(entry);
    } else if (entry.key == "verdict") {
      read_verdict(entry);
    } else if (entry.key == "cause" || entry.key == "line") {
      read_mistake(entry);
    } else if (entry.key == "not_verified") {
      out_.not_verified = read_bound(entry, environment_, Units::kNone);
    } else if (entry.key == "outcomes") {
      read_bounds(entry, outcome_keys(), Units::kNone, out_.outcomes);
    } else if (entry.key == "graph") {
      out_.graph = {read_text(entry)->text(), entry.where};
    } else if (entry.key == "checkpoint") {
      out_.checkpoint = {read_text(entry)->text(), entry.where};
    } else if (entry.key == "graph_breaks") {
      out_.graph_breaks = read_bound(entry, environment_, Units::kNone);
    } else if (entry.key == "graphs") {
      out_.graphs = read_bound(entry, environment_, Units::kNone);
    } else if (entry.key == "transports") {
      read_transports(entry);
    } else
      read_type(entry);
  }

  void read_transports(const TomlEntry& entry) {
    out_.transports.emplace();
    each_name(entry, "the name of a transport", [&](const ExpectedName& one) {
      const std::optional<Transport> transport = parse_transport(one.name);
      if (!transport) {
        one.where.refuse(fmt::format("there is no transport '{}'", one.name),
                         suggest(one.name, transport_names()));
      }
      out_.transports->push_back(*transport);
    });
  }

  static void each_name(const TomlEntry& entry, std::string_view wanted, const auto& take) {
    for (const TomlValue& value : read_array(entry)) {
      const auto* text = std::get_if<SourcePtr>(&value.value);
      if (text == nullptr) refuse_kind(value, entry.key, wanted);
      take(ExpectedName{(*text)->text(), value.where});
    }
  }

  using Bounds = std::vector<std::pair<std::string, Bound>>;

  // A table of bounds; errors name it by its key.
  void read_bounds(const TomlEntry& entry, const std::vector<std::string>& keys, Units units,
                   Bounds& bounds) {
    const TomlSection section = section_of(entry, entry.key);
    section.check_keys(keys);
    for (const TomlEntry& one : *section.table) {
      bounds.emplace_back(one.key, read_bound(one, environment_, units));
    }
  }

  void read_gradients(const TomlEntry& entry) {
    each_name(entry, "the name of an input", [&](const ExpectedName& one) {
      check_value(one.name, one.where);
      out_.gradients.push_back(one);
    });
  }

  void check_value(const std::string& name, const Where& where) const {
    if (std::find(values_.begin(), values_.end(), name) != values_.end()) return;
    auto known = values_;
    known.insert(known.end(), expect_keys().begin(), expect_keys().end());
    where.refuse(fmt::format("the program has no value '{}'", name), suggest(name, known));
  }

  void read_implicit(const TomlEntry& entry) {
    static const std::vector<std::string> kNames(kImplicitNames.begin(), kImplicitNames.end());
    out_.implicit = static_cast<ImplicitRedistribution>(read_choice(entry, kNames));
  }

  void read_verify(const TomlEntry& entry) {
    static const std::vector<std::string> kNames = {"every", "outputs", "none"};
    out_.verify = static_cast<Verify>(read_choice(entry, kNames));
  }

  void read_verdict(const TomlEntry& entry) {
    static const std::vector<std::string> kNames = {"mismatch", "deadlock"};
    out_.verdict = static_cast<ExpectedVerdict>(read_choice(entry, kNames));
  }

  void read_mistake(const TomlEntry& entry) {
    static const std::vector<std::string> kIds(causes::kAll.begin(), causes::kAll.end());
    if (!out_.mistake) out_.mistake.emplace();
    if (entry.key == "cause") {
      out_.mistake->cause = kIds[read_choice(entry, kIds)];
      out_.mistake->cause_where = entry.where;
      return;
    }
    const std::int64_t line = read_integer(entry);
    out_.mistake->line_where = entry.where;
    if (line < 1 || line > INT32_MAX) {
      out_.mistake->line_where.refuse(
          fmt::format("line is {}; it must be a line of the program", line),
          "count from 1, as editors do");
    }
    out_.mistake->line = static_cast<int>(line);
  }

  void read_tolerance(const TomlEntry& entry) {
    const TomlSection section = section_of(entry, entry.key);
    std::vector<std::string> known;
    for (int i = 0; i < kDTypeCount; ++i) known.emplace_back(to_string(static_cast<DType>(i)));
    section.check_keys(known);
    for (const TomlEntry& one : *section.table) {
      const double value = to_double(read_number(one));
      if (!(value >= 0) || !std::isfinite(value)) {
        one.value.where.refuse("a tolerance must be a finite number of 0 or more",
                               "write a number such as 1e-5");
      }
      out_.tolerance.emplace_back(*parse_dtype(one.key), value);
    }
  }

  void read_error(const TomlEntry& entry) {
    static const std::vector<std::string> kKinds = {"Unsupported", "Runtime", "Value", "Internal",
                                                    "Assert"};
    const TomlSection section = section_of(entry, entry.key);
    section.check_keys({"kind", "contains"});
    ExpectedError error{.where = entry.where};
    if (const TomlEntry* kind = section.find("kind")) {
      error.kind = static_cast<ErrorKind>(read_choice(*kind, kKinds));
    }
    if (const TomlEntry* contains = section.find("contains")) {
      error.contains = read_text(*contains)->text();
    }
    out_.error = std::move(error);
  }

  void read_type(const TomlEntry& entry) {
    constexpr std::string_view kGrad = ".grad";
    ExpectedType type{.name = entry.key, .where = entry.where};
    type.of_gradient = entry.key.ends_with(kGrad);
    if (type.of_gradient) type.name.resize(type.name.size() - kGrad.size());
    if (std::holds_alternative<TomlTable>(entry.value.value)) {
      check_value(type.name, type.where);
      type.where.refuse(fmt::format("a table for '{}'", entry.key),
                        fmt::format("write \"{}.grad\" in quotes", entry.key));
    }
    check_value(type.name, type.where);
    type.type = resolve_type(read_text(entry), environment_);
    out_.types.push_back(std::move(type));
  }

  const TomlSection& expect_;
  const Environment& environment_;
  const std::vector<std::string>& values_;
  Expectation out_;
};

}  // namespace

Expectation read_expectation(const TomlSection& root, const Environment& environment,
                             const std::vector<std::string>& values) {
  const auto expect = root.section("expect");
  return expect ? ExpectReader(*expect, environment, values).read() : Expectation();
}

}  // namespace shardlab
