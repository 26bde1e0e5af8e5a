// What src/base/precompiled.h has, and besides what files of the target that is compiled with -O1
// have in common: JSON, and the calls and rows of ops, which all but a few of them reach. Every
// file still includes what it uses. No `#pragma once`: it is compiled by itself.
#include <nlohmann/json.hpp>

#include "base/precompiled.h"
#include "base/text_of_list.h"
#include "comm/call.h"
#include "schema/calls.h"
#include "schema/op_row.h"
