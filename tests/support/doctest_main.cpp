#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#define DOCTEST_CONFIG_NO_MULTI_LANE_ATOMICS
#include <doctest/doctest.h>

#ifdef __SANITIZE_THREAD__
// What doctest keeps per thread is shared by the fibers of one, which take turns.
extern "C" const char* __tsan_default_suppressions() {
  return "race:doctest::detail::ContextScopeBase\nrace:doctest::detail::tlss";
}
#endif
