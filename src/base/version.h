// version.h - which shardlab this is: the project's version in meson.build, that of NEWS.md.
#pragma once

#include <string_view>

namespace shardlab {

/// "0.2.0"
std::string_view version();

}  // namespace shardlab
