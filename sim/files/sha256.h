// sha256.h - the checksum by which files of other programs name contents (FIPS 180-4).
#pragma once

#include <string>
#include <string_view>

namespace shardlab {

/// 64 hexadecimal digits.
std::string sha256(std::string_view bytes);

}  // namespace shardlab
