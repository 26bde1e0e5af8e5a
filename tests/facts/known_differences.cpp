// A row has the predicates on a recorded case to which it applies, and our answer. Answers are
// values, or parts of values: a row that accepted any answer would accept a wrong one, too.
#include "tests/facts/known_differences.h"

#include <toml++/toml.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/program_path.h"
#include "tests/facts/known_row.h"

namespace shardlab {
namespace {

namespace fs = std::filesystem;

Json to_json(const toml::node& node) {
  if (const auto* table = node.as_table()) {
    Json object = Json::object();
    for (const auto& [key, value] : *table) object[std::string(key.str())] = to_json(value);
    return object;
  }
  if (const auto* array = node.as_array()) {
    Json list = Json::array();
    for (const auto& item : *array) list.push_back(to_json(item));
    return list;
  }
  if (const auto value = node.value_exact<std::int64_t>()) return *value;
  if (const auto value = node.value_exact<double>()) return *value;
  if (const auto value = node.value_exact<bool>()) return *value;
  return node.value_or(std::string());
}

std::string text_of(const toml::table& table, std::string_view key) {
  const auto value = table[key].value<std::string>();
  if (!value || value->empty()) fail(ErrorKind::kValue, "'{}' is missing", key);
  return *value;
}

Json object_of(const toml::table& table, std::string_view key) {
  const auto* value = table[key].as_table();
  if (value == nullptr || value->empty()) fail(ErrorKind::kValue, "'{}' is missing", key);
  return to_json(*value);
}

constexpr const char* kCheapest = "cheapest_without";
constexpr const char* kCandidates = "candidates_without";

// A row that would take several answers would also take a wrong one.
void check_one_answer(const std::string& field, const Json& answer) {
  if (!answer.is_object()) return;
  for (const char* of_candidates : {kCheapest, kCandidates}) {
    if (!answer.contains(of_candidates)) continue;
    if (answer.size() == 1 && answer[of_candidates].is_array()) return;
    fail(ErrorKind::kValue, "the answer for '{}': {} is a list of placements", field,
         of_candidates);
  }
  if (!answer.contains("where")) return;
  check_predicates(answer["where"]);
  for (const auto& [path, wanted] : answer["where"].items()) {
    if (!wanted.is_object() || (wanted.size() == 1 && wanted.contains("present"))) continue;
    fail(ErrorKind::kValue, "the answer for '{}' is one value, not whatever holds a predicate",
         field);
  }
}

KnownDifferences::Row read_row(const toml::table& table) {
  for (const auto& [key, value] : table) {
    constexpr std::string_view kKeys[] = {"cause", "family", "files", "when",
                                          "ours",  "count",  "proof"};
    if (std::find(std::begin(kKeys), std::end(kKeys), key.str()) == std::end(kKeys)) {
      fail(ErrorKind::kValue, "unknown key '{}'", key.str());
    }
  }
  KnownDifferences::Row row;
  row.cause = text_of(table, "cause");
  row.family = text_of(table, "family");
  row.proof = text_of(table, "proof");
  row.when = object_of(table, "when");
  row.ours = object_of(table, "ours");
  row.count = table["count"].value_or(std::int64_t{-1});
  if (row.count < 1) fail(ErrorKind::kValue, "'count' must be at least 1");
  check_predicates(row.when);
  for (const auto& [field, answer] : row.ours.items()) {
    check_one_answer(field, answer);
  }
  if (const auto* files = table["files"].as_array()) {
    for (const auto& file : *files) row.files.push_back(file.value_or(std::string()));
  } else {
    row.files.push_back(row.family.substr(row.family.find('/') + 1));
  }
  return row;
}

/// True when `field` matches `pattern`, in which "*" matches one component without dots.
bool matches(std::string_view pattern, std::string_view field) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == field;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  return field.size() >= before.size() + after.size() && field.starts_with(before) &&
         field.ends_with(after) &&
         field.substr(before.size(), field.size() - before.size() - after.size()).find('.') ==
             std::string_view::npos;
}

/// `ours` with references to the case resolved.
Json resolve(const Json& ours, const Json& fact, std::string_view field) {
  if (!ours.is_string()) return ours;
  const std::string_view text = ours.get_ref<const std::string&>();
  if (!text.starts_with('$') && !text.starts_with('^')) return ours;
  std::string path(text.substr(1));
  const std::size_t dot = field.rfind('.');
  if (text[0] == '^' && dot != std::string_view::npos) {
    path = std::string(field.substr(0, dot + 1)) + path;
  }
  const Json* value = find_field(fact, path);
  return value ? *value : Json();
}

/// True when one of these placements is there: "P(max)" anywhere, "2:P(max)" in operand 2.
bool has_one_of(const Json& placements, const Json& inputs, const Json& outputs) {
  return std::ranges::any_of(placements, [&](const Json& unwanted) {
    const auto& text = unwanted.get_ref<const std::string&>();
    const auto is_in = [&](const Json& spec) { return has_item(spec, unwanted); };
    if (const std::size_t colon = text.find(':'); colon != std::string::npos) {
      const std::size_t operand = std::stoul(text.substr(0, colon));
      return operand < inputs.size() && has_item(inputs[operand], text.substr(colon + 1));
    }
    return std::ranges::any_of(inputs, is_in) ||
           std::ranges::any_of(outputs, [&](const Json& output) {
             return !output.is_null() && is_in(output.at("placements"));
           });
  });
}

using Candidates = std::vector<const Json*>;

/// The candidates of the case that have none of these placements, in their order: of the call, or
/// of each element of its lists. An element that was not given with one of them keeps all of its
/// candidates.
std::vector<Candidates> candidates_without(const Json& placements, const Json& fact) {
  std::vector<Candidates> found;
  const auto candidates = fact.find("candidates");
  if (candidates == fact.end() || candidates->empty()) return found;
  found.resize(integer_or<std::size_t>(candidates->back(), "element", 0) + 1);
  for (const Json& candidate : *candidates) {
    const Json& inputs = candidate.at("inputs");
    const bool keeps_all = found.size() > 1 && !has_one_of(placements, candidate.at("given"), {});
    if (!keeps_all && has_one_of(placements, inputs, candidate.at("outputs"))) continue;
    found[integer_or<std::size_t>(candidate, "element", 0)].push_back(&candidate);
  }
  return found;
}

/// The field of a decision that took of each element's candidates the first of least cost; null if
/// there is none.
Json cheapest(const std::vector<Candidates>& elements, const std::string& field) {
  const auto price = [](const Json* candidate) { return number_of(candidate->at("cost").at(0)); };
  std::vector<const Json*> chosen;
  for (const Candidates& candidates : elements) {
    const auto best = std::ranges::min_element(candidates, {}, price);
    if (best == candidates.end()) return {};
    chosen.push_back(&(*best)->at(field));
  }
  if (chosen.empty()) return {};
  if (!chosen[0]->is_array()) {
    return std::ranges::any_of(chosen, [](const Json* one) { return one->get<bool>(); });
  }
  Json all = Json::array();
  for (std::size_t i = 0; i < chosen[0]->size(); ++i) {
    for (const Json* one : chosen) all.push_back(one->at(i));
  }
  return all;
}

/// True when `got` is the answer of `ours`, or one that its `where` describes.
bool is_answer(const Json& ours, const Json& fact, std::string_view field, const Json& got) {
  if (ours.is_object() && ours.contains(kCheapest)) {
    const Json answer = cheapest(candidates_without(ours[kCheapest], fact), std::string(field));
    return !answer.is_null() && answer == got;
  }
  if (ours.is_object() && ours.contains(kCandidates)) {
    Json counts = Json::array();
    for (const Candidates& left : candidates_without(ours[kCandidates], fact)) {
      counts.push_back(left.size());
    }
    return counts == got;
  }
  if (ours.is_object() && ours.contains("where")) return holds(ours["where"], got);
  return resolve(ours, fact, field) == got;
}

}  // namespace

KnownDifferences::KnownDifferences() = default;
KnownDifferences::KnownDifferences(KnownDifferences&&) noexcept = default;
KnownDifferences& KnownDifferences::operator=(KnownDifferences&&) noexcept = default;
KnownDifferences::~KnownDifferences() = default;

std::size_t KnownDifferences::size() const { return rows_.size(); }

const KnownDifferences::Row& KnownDifferences::row(std::size_t index) const { return rows_[index]; }

KnownDifferences KnownDifferences::read(const std::string& path) {
  KnownDifferences known;
  known.folder_ = fs::absolute(path).parent_path().string();
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    fail(ErrorKind::kValue, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  const auto* rows = table["difference"].as_array();
  if (rows == nullptr) fail(ErrorKind::kValue, "{}: no [[difference]]", path);
  for (const auto& node : *rows) {
    const std::int64_t line = node.source().begin.line;
    try {
      if (!node.is_table()) fail(ErrorKind::kValue, "a difference is a table");
      known.rows_.push_back(read_row(*node.as_table()));
      known.rows_.back().line = line;
    } catch (const Error& error) {
      fail(ErrorKind::kValue, "{}:{}: {}", path, line, error.summary());
    }
  }
  return known;
}

std::optional<std::string> KnownDifferences::find_file(const std::string& fact_file) {
  std::error_code ignored;
  const fs::path starts[] = {fs::absolute(fact_file, ignored), fs::current_path(ignored) / "-",
                             program_path()};
  for (const fs::path& start : starts) {
    fs::path folder = start.parent_path();
    while (!folder.empty()) {
      for (const char* name : {"known_differences.toml", "tests/golden/known_differences.toml"}) {
        if (fs::is_regular_file(folder / name, ignored)) return (folder / name).string();
      }
      if (folder == folder.root_path()) break;
      folder = folder.parent_path();
    }
  }
  return std::nullopt;
}

KnownDifferences KnownDifferences::nearest(const std::string& fact_file) {
  const std::optional<std::string> path = find_file(fact_file);
  return path ? read(*path) : KnownDifferences();
}

std::optional<std::size_t> KnownDifferences::explain(std::string_view family, const Json& fact,
                                                     std::string_view field,
                                                     const Json& got) const {
  for (std::size_t index = 0; index < rows_.size(); ++index) {
    const Row& row = rows_[index];
    if (row.family != family || !holds(row.when, fact)) continue;
    for (const auto& [pattern, ours] : row.ours.items()) {
      if (matches(pattern, field) && is_answer(ours, fact, field, got)) return index;
    }
  }
  return std::nullopt;
}

bool KnownDifferences::counts_apply(const std::string& fact_file) const {
  std::error_code error;
  const fs::path own = fs::weakly_canonical(folder_, error);
  const fs::path file = fs::weakly_canonical(fact_file, error);
  return !error && file.string().starts_with(own.string() + "/");
}

}  // namespace shardlab
