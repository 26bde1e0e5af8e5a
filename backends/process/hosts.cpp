// By the name that each process has for its host: equal names are taken for the same host.
#include "backends/process/hosts.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <map>
#include <string>

namespace shardlab::process {

std::vector<std::int64_t> host_numbers(ControlChannel& channel) {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const char* named = std::getenv("SHARDLAB_HOST");
  std::map<std::string, std::int64_t> numbers;
  std::vector<std::int64_t> hosts;
  for (const std::string& host : channel.exchange(named != nullptr ? named : name.data())) {
    const auto next = static_cast<std::int64_t>(numbers.size());
    hosts.push_back(numbers.try_emplace(host, next).first->second);
  }
  return hosts;
}

}  // namespace shardlab::process
