// module.h - parts of the program that are loaded when asked for: shared modules beside it.
#pragma once

#include <string_view>

namespace shardlab::backends {

/// A function of the module `name`, which is loaded with the first call and stays. It is looked for
/// beside the program, above that folder (tests), in lib/shardlab next to it (installed), and in
/// the folder that SHARDLAB_MODULES names.
///   fails  Unsupported when this build has no such module, with what to install as its fix
void* module_function(std::string_view name, const char* symbol, std::string_view fix);

}  // namespace shardlab::backends
