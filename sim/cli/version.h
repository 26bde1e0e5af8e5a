// version.h - what `shardlab --version` says; tests hold it to that of the project in meson.build.
#pragma once

namespace shardlab {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace shardlab
