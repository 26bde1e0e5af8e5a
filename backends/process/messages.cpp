// Errors and verdicts as bytes, field by field, causes included.
#include "backends/process/messages.h"

#include <algorithm>
#include <utility>

namespace shardlab::process {

void put(Writer& writer, const Error& error) {
  writer.put(error.kind());
  writer.put_text(error.summary());
  writer.put(static_cast<std::uint64_t>(error.parts().size()));
  for (const auto& [key, value] : error.parts()) {
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
  writer.put(report.seconds);
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
  report.seconds = reader.get<double>();
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
