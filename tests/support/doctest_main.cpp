#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
// Its counters per thread would be shared by the fibers of one, which the thread sanitizer reports.
#define DOCTEST_CONFIG_NO_MULTI_LANE_ATOMICS
#include <doctest/doctest.h>
