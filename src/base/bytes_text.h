// bytes_text.h - amounts of memory and of traffic as people read them.
#pragma once

#include <string>

namespace shardlab {

/// "1.5 KiB", "640 B": at least three digits, four where the next unit is near.
std::string bytes_text(double bytes);

}  // namespace shardlab
