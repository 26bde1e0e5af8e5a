// bytes_text.h - amounts as text for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardlab {

/// "1.5 KiB", "640 B": at least three digits, four where the next unit is near.
std::string bytes_text(double bytes);
/// "1 rank", "8 ranks".
std::string counted(std::int64_t count, std::string_view noun);

}  // namespace shardlab
