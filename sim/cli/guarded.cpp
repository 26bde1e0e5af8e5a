// The text and exit code for each exception, in one place for all commands.
#include <unistd.h>
#include <cstdio>

#include <cstdlib>
#include <new>

#include "sim/cli/commands.h"
#include "sim/language/syntax/source.h"

namespace shardlab {

Color CommonArguments::stdout_color() const {
  if (color == "always") return Color::kOn;
  if (color == "never") return Color::kOff;
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  return wanted && isatty(STDOUT_FILENO) ? Color::kOn : Color::kOff;
}

std::optional<Refusal> refusal_of(const std::function<void()>& attempt) {
  try {
    attempt();
    return std::nullopt;
  } catch (const ScenarioError& error) {
    return Refusal{error.report() + "\n", kCannotRun};
  } catch (const Error& error) {
    return Refusal{"error: " + error.text() + "\n",
                   error.kind() == ErrorKind::kInternal ? kOurDefect : kCannotRun};
  } catch (const std::bad_alloc&) {
    return Refusal{"error: out of memory\n  fix         use fewer ranks or smaller tensors\n",
                   kCannotRun};
  } catch (const std::exception& error) {
    return Refusal{std::string("error: unexpected: ") + error.what() +
                       "\n  fix         this is a defect of shardlab; please report it\n",
                   kOurDefect};
  }
}

int guarded(const std::function<int()>& command) {
  int code = kFine;
  const std::optional<Refusal> refusal = refusal_of([&] { code = command(); });
  if (!refusal) return code;
  std::fputs(refusal->text.c_str(), stderr);
  return refusal->code;
}

}  // namespace shardlab
