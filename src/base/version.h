// version.h - the version of this shardlab: the project's version in meson.build, that of NEWS.md.
#pragma once

#include <string_view>

namespace shardlab {

/// "0.2.0"
std::string_view version();

}  // namespace shardlab
