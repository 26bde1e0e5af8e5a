// Each system has its own call for this. The one of macOS has not been tried.
#include "base/program_path.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>

#include <cstdint>
#include <string>
#endif

namespace shardlab {

#ifdef __APPLE__

std::filesystem::path program_path() {
  std::uint32_t size = 0;
  _NSGetExecutablePath(nullptr, &size);
  std::string path(size, '\0');
  if (_NSGetExecutablePath(path.data(), &size) != 0) return {};
  std::error_code unreadable;
  return std::filesystem::canonical(path.c_str(), unreadable);
}

#else

std::filesystem::path program_path() {
  std::error_code unreadable;
  return std::filesystem::read_symlink("/proc/self/exe", unreadable);
}

#endif

}  // namespace shardlab
