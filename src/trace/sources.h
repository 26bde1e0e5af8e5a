// sources.h - the origin of a traced value: a path that begins at an input or a global name and
// continues by attributes (T-3). A value that a program makes while it is captured has no source,
// and needs no guard.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace shardlab {

class Source {
 public:
  /// "arg0".
  static Source input(std::string name) { return Source(std::move(name)); }
  /// "global.group".
  static Source global(std::string_view name) { return Source("global").attribute(name); }
  /// "arg0.mesh".
  Source attribute(std::string_view name) const { return Source(path_ + "." + std::string(name)); }

  const std::string& text() const { return path_; }
  bool operator==(const Source&) const = default;

 private:
  explicit Source(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace shardlab
