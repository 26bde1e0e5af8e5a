// Each system has its own call for this. The one of macOS has not been tried.
#include "base/program_path.h"

#ifdef __APPLE__
#include <mach-o/dyld.h>

#include <cstdint>
#endif

#include "base/error.h"

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

std::filesystem::path shipped_file(const std::string& installed, const std::string& source) {
  const std::filesystem::path folder = program_path().parent_path();
  const std::filesystem::path wanted = folder.parent_path() / "share/shardlab" / installed;
  if (std::filesystem::exists(wanted)) return wanted;
  for (std::filesystem::path above = folder; above.has_relative_path();
       above = above.parent_path()) {
    if (std::filesystem::exists(above / source)) return above / source;
  }
  fail(ErrorKind::kRuntime, Fix{"install shardlab again: meson install -C build"},
       "{} is not there", wanted.string());
}

}  // namespace shardlab
