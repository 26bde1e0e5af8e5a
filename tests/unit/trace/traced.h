// traced.h - questions to traced values, for tests.
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "trace/emitter.h"
#include "trace/traced_value.h"

namespace shardlab::test {

/// The error that call() throws, or "" if it throws nothing.
template <typename Call>
std::string error_of_call(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.text();
  }
  return "";
}

/// The gb_type and the context of the break that call() throws; the tracing has counted it.
template <typename Call>
std::string broken_by(const Tracing& tracing, const Call& call) {
  const std::size_t before = tracing.breaks().size();
  const std::string error = error_of_call(call);
  if (tracing.breaks().size() != before + 1) return "no break: " + error;
  const GraphBreak& reason = tracing.breaks().back();
  CHECK(error.find(reason.gb_type) != std::string::npos);
  CHECK(error.find(reason.context) != std::string::npos);
  return reason.gb_type + ": " + reason.context;
}

/// The expression that makes the object again.
inline std::string text(const TracedValue& value) {
  TextEmitter emitter;
  value.reconstruct(emitter);
  return emitter.take();
}

/// self.name(arguments), as text.
inline std::string asked(Tracing& tracing, const TracedValue& self, std::string_view name,
                         const std::vector<Argument>& arguments = {}) {
  TracedCall call;
  for (const Argument& argument : arguments) call.positional.push_back(tracing.constant(argument));
  return text(self.call_method(name, call));
}

/// "identity arg0.mesh: {m0:2} on ranks 0-1", one a guard.
inline std::vector<std::string> lines_of(const std::vector<Guard>& guards) {
  std::vector<std::string> lines;
  for (const Guard& guard : guards) {
    lines.push_back(fmt::format("{} {}: {}", to_string(guard.kind), guard.source, guard.expected));
  }
  return lines;
}

using Lines = std::vector<std::string>;
inline constexpr const char* kUnlisted = "an unlisted member of a traced value: ";

}  // namespace shardlab::test
