// Only errors of the library are caught: any other exception fails the test.
#include "tests/support/refusal.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shardlab {

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string* fix = error.find("fix");
    return fmt::format("{}: {} | {}", to_string(error.kind()), error.summary(), fix ? *fix : "");
  }
  return "not refused";
}

}  // namespace shardlab
