// `shardlab autopsy`: reads the dumps of a job that hangs, and says who parted.
#include <algorithm>
#include <thread>

#include "base/fix.h"
#include "sim/autopsy/autopsy.h"
#include "sim/cli/commands.h"
#include "sim/files/json_value.h"

namespace shardlab {

int autopsy_command(const AutopsyArguments& arguments) {
  FlightWords words;
  const std::size_t workers = std::max(1u, std::thread::hardware_concurrency());
  std::vector<FlightDump> dumps = read_flight_dumps(arguments.paths, words, workers);
  if (dumps.empty()) {
    fail(ErrorKind::kValue, Fix{"give the folder or files that torch's flight recorder wrote"},
         "autopsy: there is no dump in {}", arguments.paths.front());
  }
  const Autopsy found = autopsy_of(std::move(dumps), words);
  const bool json = arguments.common.output == Output::kJson;
  print_text(json ? json_line(found.json(words)) + "\n" : found.text(words));
  return found.kind == AutopsyKind::kHealthy ? kFine : kFailed;
}

}  // namespace shardlab
