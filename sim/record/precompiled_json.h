// The contents of src/base/precompiled.h, and JSON as well: for targets most of whose files read or
// write it. Every file still includes the headers it uses. No `#pragma once`: it is compiled by
// itself.
#include <nlohmann/json.hpp>

#include "base/precompiled.h"
