// Compares recorded facts with our answers: check_main FILE...
#include <cstdio>
#include <string>

#include "sim/verify/check.h"
#include "sim/verify/known_differences.h"

int main(int argc, char** argv) {
  using namespace shardlab;
  if (argc < 2) {
    std::fputs("usage: check_main FILE...\n", stderr);
    return 2;
  }
  const auto known_file = KnownDifferences::find_file(argv[1]);
  const KnownDifferences known =
      known_file ? KnownDifferences::read(*known_file) : KnownDifferences();
  CheckRun run(check_families(), &known, {});
  for (int i = 1; i < argc; ++i) run.check_file(argv[i]);
  const CheckSummary summary = run.finish();
  std::fputs(summary.text().c_str(), stdout);
  return summary.failed == 0 ? 0 : 1;
}
