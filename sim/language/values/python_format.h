// python_format.h - format specs: the text after the colon in a field of an f-string.
#pragma once

#include <string>
#include <string_view>

#include "sim/language/values/builtin.h"

namespace shardlab {

/// format(value, spec) of Python 3.11, of ints, bools, floats and strings; everything else is
/// formatted as its str(). Types c and n, and the option z, are left out.
///   fails  Value: a spec that is none, or not one for such a value
std::string python_format(const Value& value, std::string_view spec);

/// "{} of {:.2f}".format(...): fields without a name, with a number, or with a name.
///   fails  Value: a field that no argument is for, a brace alone
std::string formatted(std::string_view text, const CallValues& call);
/// "%d of %.2f" % values; a value that is no tuple is the only one.
///   fails  Value: another number of values, a conversion that is none
std::string percent_formatted(std::string_view text, const Value& values);

}  // namespace shardlab
