// Modules are searched in the folder of SHARDLAB_MODULES, then next to the program in the folders
// of a build and of an installation, then where this build is installed: programs that link the
// library may be anywhere.
#include "backends/shared/module.h"

#include <dlfcn.h>
#include <unistd.h>
#include <filesystem>
#include <string>
#include <vector>

#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/program_path.h"

namespace shardlab::backends {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> folders() {
  std::vector<fs::path> result;
  if (const char* named = std::getenv("SHARDLAB_MODULES")) result.emplace_back(named);
  const fs::path here = program_path().parent_path();
  if (!here.empty()) {
    result.push_back(here);
    result.push_back(here.parent_path());
    result.push_back(here.parent_path() / "lib" / "shardlab");
    result.push_back(here.parent_path().parent_path());
  }
  result.emplace_back(installed_modules());
  return result;
}

}  // namespace

void* module_function(std::string_view name, const char* symbol, std::string_view fix) {
  const std::string file = fmt::format("lib{}.so", name);
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / file;
    std::error_code unreadable;
    if (!fs::exists(path, unreadable)) continue;
    // Global: the libraries below open plug-ins of theirs that need their symbols.
    void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    void* function = module == nullptr ? nullptr : dlsym(module, symbol);
    if (function != nullptr) return function;
    fail(ErrorKind::kUnsupported, Fix{std::string(fix)}, "{} cannot be loaded: {}", file,
         dlerror());
  }
  // A program of the user's, and the installation that it was built against has been moved.
  std::error_code unreadable;
  const std::string installed = installed_modules();
  if (program_path().filename() != "shardlab" && !fs::exists(installed, unreadable)) {
    fail(ErrorKind::kUnsupported,
         Fix{fmt::format("set SHARDLAB_MODULES to the folder lib/shardlab of the installation, if "
                         "it was moved; else {}",
                         fix)},
         "{} is not found: shardlab was installed in {}, which does not exist", file, installed);
  }
  fail(ErrorKind::kUnsupported,
       Fix{fmt::format("{}; SHARDLAB_MODULES names the folder of one that is elsewhere", fix)},
       "this build has no {}", file);
}

std::string program_in(const std::string& folders, const std::string& name) {
  std::istringstream each(folders);
  for (std::string folder; std::getline(each, folder, ':');) {
    std::string path = folder + "/" + name;
    if (!folder.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace shardlab::backends
