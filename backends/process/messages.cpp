#include "backends/process/messages.h"

#include <algorithm>
#include <utility>

namespace shardlab::process {

namespace {

// An error's text shows each part in a line that begins with two spaces and the key, but for the
// excerpt, which stands as it is. Lines that only look so name no part.
std::vector<std::string> keys_of(const Error& error) {
  std::vector<std::string> keys{"excerpt"};
  const std::string text = error.text();
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (!line.starts_with("  ")) continue;
    // A key may have spaces in it, so it ends at any of them.
    for (std::size_t end = line.find(' ', 2); end < line.size(); end = line.find(' ', end + 1)) {
      keys.emplace_back(line.substr(2, end - 2));
    }
  }
  return keys;
}

}  // namespace

void put(Writer& writer, const Error& error) {
  writer.put(error.kind());
  writer.put_text(error.summary());
  std::vector<std::pair<std::string, std::string>> parts;
  for (const std::string& key : keys_of(error)) {
    if (const std::string* value = error.find(key)) parts.emplace_back(key, *value);
  }
  writer.put(static_cast<std::uint64_t>(parts.size()));
  for (const auto& [key, value] : parts) {
    writer.put_text(key);
    writer.put_text(value);
  }
  writer.put(error.cause() != nullptr);
  if (error.cause() != nullptr) put(writer, *error.cause());
}

Error get_error(Reader& reader) {
  const auto kind = reader.get<ErrorKind>();
  Error error(kind, reader.text());
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    const std::string key = reader.text();
    error.with(key, reader.text());
  }
  if (reader.get<bool>()) error.caused_by(get_error(reader));
  return error;
}

namespace {

void put(Writer& writer, const RankReport& report) {
  writer.put(report.rank);
  writer.put(report.state);
  writer.put_text(report.what);
  writer.put_text(report.op);
  writer.put_text(report.group);
  writer.put(report.call);
  writer.put_text(report.where);
  writer.put_list<std::int64_t>(report.missing);
}

RankReport get_report(Reader& reader) {
  RankReport report;
  report.rank = reader.get<std::int64_t>();
  report.state = reader.get<RankReport::State>();
  report.what = reader.text();
  report.op = reader.text();
  report.group = reader.text();
  report.call = reader.get<std::int64_t>();
  report.where = reader.text();
  report.missing = reader.list<std::int64_t>();
  return report;
}

}  // namespace

void put(Writer& writer, const Verdict& verdict) {
  writer.put(verdict.kind);
  writer.put_list<std::int64_t>(verdict.culprits);
  writer.put(static_cast<std::uint64_t>(verdict.ranks.size()));
  for (const RankReport& report : verdict.ranks) put(writer, report);
  writer.put_text(verdict.cause);
}

Verdict get_verdict(Reader& reader) {
  Verdict verdict;
  verdict.kind = reader.get<VerdictKind>();
  verdict.culprits = reader.list<std::int64_t>();
  for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
    verdict.ranks.push_back(get_report(reader));
  }
  verdict.cause = reader.text();
  return verdict;
}

}  // namespace shardlab::process
