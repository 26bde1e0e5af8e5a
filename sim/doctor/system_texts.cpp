// Linux has files for it, macOS calls, which have not been tried. A view of another root has files.
#include "sim/doctor/system_texts.h"

#include "sim/doctor/probe.h"

#ifdef __APPLE__
#include <fmt/core.h>
#include <fmt/format.h>
#include <sys/sysctl.h>

#include <cstdint>
#endif

namespace shardlab {

#ifdef __APPLE__

namespace {

std::string text_value(const char* name) {
  std::size_t size = 0;
  if (sysctlbyname(name, nullptr, &size, nullptr, 0) != 0 || size == 0) return "";
  std::string text(size, '\0');
  if (sysctlbyname(name, text.data(), &size, nullptr, 0) != 0) return "";
  return text.c_str();
}

std::int64_t number_value(const char* name) {
  std::int64_t number = 0;
  std::size_t size = sizeof number;
  return sysctlbyname(name, &number, &size, nullptr, 0) == 0 ? number : 0;
}

std::string processor_of_this_machine() {
  std::string flags;
  for (const auto& [name, flag] :
       {std::pair("hw.optional.avx2_0", "avx2"), std::pair("hw.optional.fma", "fma"),
        std::pair("hw.optional.AdvSIMD", "asimd")}) {
    if (number_value(name) != 0) flags += std::string(" ") + flag;
  }
  return fmt::format("model name: {}\nflags:{}\n", text_value("machdep.cpu.brand_string"), flags);
}

std::string memory_of_this_machine() {
  const std::int64_t kib = number_value("hw.memsize") / 1024;
  const std::int64_t free = number_value("vm.page_free_count") * number_value("hw.pagesize") / 1024;
  return fmt::format("MemTotal: {} kB\nMemAvailable: {} kB\n", kib, free);
}

}  // namespace

std::string processor_text(const MachineView& view) {
  return view.root.empty() ? processor_of_this_machine() : file_text(view, "/proc/cpuinfo");
}

std::string memory_text(const MachineView& view) {
  return view.root.empty() ? memory_of_this_machine() : file_text(view, "/proc/meminfo");
}

#else

std::string processor_text(const MachineView& view) { return file_text(view, "/proc/cpuinfo"); }

std::string memory_text(const MachineView& view) { return file_text(view, "/proc/meminfo"); }

#endif

}  // namespace shardlab
