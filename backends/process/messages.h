// messages.h - failures as bytes.
#pragma once

#include <concepts>
#include <tuple>

#include "backends/process/wire.h"
#include "comm/verdict.h"

namespace shardlab {

/// Those that other processes receive.
template <typename T>
requires std::same_as<std::remove_const_t<T>, RankReport>
auto fields(T& report) {
  return std::tie(report.rank, report.state, report.seconds, report.what, report.op, report.group,
                  report.call, report.where, report.missing);
}
template <typename T>
requires std::same_as<std::remove_const_t<T>, Verdict>
auto fields(T& verdict) {
  return std::tie(verdict.kind, verdict.culprits, verdict.ranks, verdict.cause);
}

}  // namespace shardlab

namespace shardlab::process {

/// Kind, summary, parts and causes.
void put(Writer& writer, const Error& error);
Error get_error(Reader& reader);

}  // namespace shardlab::process
