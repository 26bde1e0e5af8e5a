// Doctest itself, compiled once for all programs of tests. Their main() is in the next file, so
// that the conformance suite can be a library of programs that have their own.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_MULTI_LANE_ATOMICS
#include <doctest/doctest.h>

#ifdef __SANITIZE_THREAD__
// Data that doctest keeps per thread is shared by the fibers of one thread, which take turns.
extern "C" const char* __tsan_default_suppressions() {
  return "race:doctest::detail::ContextScopeBase\nrace:doctest::detail::tlss";
}
#endif
