// Headers that the compiler reads once for all files of a target: fmt and the others that most
// files include anyway. Every file still includes what it uses; -Db_pch=false builds without this.
// No `#pragma once`: it is compiled by itself.
#include <fmt/format.h>
#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>
