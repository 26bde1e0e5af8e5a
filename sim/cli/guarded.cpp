#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <new>

#include "base/error.h"
#include "sim/cli/commands.h"
#include "sim/scenario/source.h"

namespace shardlab {

Color CommonArguments::stdout_color() const {
  if (color == "always") return Color::kOn;
  if (color == "never") return Color::kOff;
  const char* no_color = std::getenv("NO_COLOR");
  const bool wanted = no_color == nullptr || *no_color == '\0';
  return wanted && isatty(STDOUT_FILENO) ? Color::kOn : Color::kOff;
}

int guarded(const std::function<int()>& command) {
  try {
    return command();
  } catch (const ScenarioError& error) {
    std::fputs((error.report() + "\n").c_str(), stderr);
    return kCannotRun;
  } catch (const Error& error) {
    std::fputs(("error: " + error.text() + "\n").c_str(), stderr);
    return error.kind() == ErrorKind::kInternal ? kOurDefect : kCannotRun;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n  fix         use fewer ranks or smaller tensors\n", stderr);
    return kCannotRun;
  } catch (const std::exception& error) {
    std::fprintf(
        stderr,
        "error: unexpected: %s\n  fix         this is a defect of shardlab; please report it\n",
        error.what());
    return kOurDefect;
  }
}

}  // namespace shardlab
