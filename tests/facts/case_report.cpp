// Errors compare by kind. The table has the kinds that a recorded class may have here: a class of
// the reference can have two, if bad input caused an assertion.
#include "tests/facts/case_report.h"

#include <fmt/format.h>

namespace shardlab {
namespace {

/// Recorded kinds and exception classes, and their kinds here (behaviour.md section 1).
struct ErrorRow {
  std::string_view recorded;
  ErrorKind ours;
};
constexpr ErrorRow kErrors[] = {
    {"AssertionError", ErrorKind::kInternal},
    {"AssertionError", ErrorKind::kValue},  // if bad input caused it
    {"IndexError", ErrorKind::kValue},
    {"KeyError", ErrorKind::kValue},
    {"NotImplementedError", ErrorKind::kUnsupported},
    {"RuntimeError", ErrorKind::kRuntime},
    {"TypeError", ErrorKind::kValue},
    {"ValueError", ErrorKind::kValue},
    {"_StridedShardNotDecodableError", ErrorKind::kValue},  // a ValueError
    {"assertion", ErrorKind::kInternal},
    {"assertion", ErrorKind::kValue},
    {"index", ErrorKind::kValue},
    {"inplace_placement", ErrorKind::kRuntime},
    {"key", ErrorKind::kValue},
    {"meta", ErrorKind::kValue},
    {"no_strategy", ErrorKind::kRuntime},
    {"not_implemented", ErrorKind::kUnsupported},
    {"runtime", ErrorKind::kRuntime},
    {"type", ErrorKind::kValue},
    {"value", ErrorKind::kValue},
};

}  // namespace

CaseReport::CaseReport() = default;
CaseReport::~CaseReport() = default;

void CaseReport::expect(std::string_view field, const Json& expected, const Json& got) {
  if (expected != got) differs(field, expected, got);
}

void CaseReport::differs(std::string_view field, const Json& expected, const Json& got) {
  differences_.push_back({std::string(field), expected, got});
}

void CaseReport::show_scenario(std::string text) { differences_.back().scenario = std::move(text); }

void CaseReport::add_candidate(Json candidate) { candidates_.push_back(std::move(candidate)); }

void CaseReport::expect_error(std::string_view field, const Json& recorded,
                              const std::function<void()>& call) {
  const Json& type = recorded.is_object() ? recorded.at("type") : recorded;
  const auto kind = error_of(call);
  if (kind && same_error(type.get_ref<const std::string&>(), *kind)) return;
  differs(field, type, kind ? std::string(to_string(*kind)) : "no error");
}

bool same_error(std::string_view recorded, ErrorKind ours) {
  for (const ErrorRow& row : kErrors) {
    if (row.recorded == recorded && row.ours == ours) return true;
  }
  return false;
}

std::optional<ErrorKind> error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

}  // namespace shardlab
