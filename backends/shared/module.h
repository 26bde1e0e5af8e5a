// module.h - parts of the program that are loaded when needed: shared modules next to it.
#pragma once

#include <string_view>

namespace shardlab::backends {

/// A function of the module `name`, which is loaded with the first call and stays. It is searched
/// in the folder that SHARDLAB_MODULES names, next to the program, above that folder (tests), in
/// lib/shardlab next to it (installed), and where this build installs modules.
///   fails  Unsupported when this build has no such module, with what to install as its fix
void* module_function(std::string_view name, const char* symbol, std::string_view fix);
/// The place of an executable file of this name, in the first of these folders that has one
/// ("a:b"); "" where none has.
std::string program_in(const std::string& folders, const std::string& name);

/// The folder that `meson install` of this build puts modules into.
const char* installed_modules();

}  // namespace shardlab::backends
