// What src/base/precompiled.h has, and JSON besides: for targets most of whose files read or write
// it. Every file still includes what it uses. No `#pragma once`: it is compiled by itself.
#include <nlohmann/json.hpp>

#include "base/precompiled.h"
