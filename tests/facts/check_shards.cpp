// --shard: the sequences of each OpInfo are proven by a prover of their own, OpInfos side by
// side.
#include <algorithm>
#include <thread>

#include "base/error.h"
#include "sim/edit/stopwatch.h"
#include "sim/files/json_value.h"
#include "sim/schedule/ordered_jobs.h"
#include "tests/facts/check_arguments.h"
#include "tests/facts/shard_table.h"

namespace shardlab {

int check_shards(const CheckArguments& arguments) {
  const Stopwatch watch;
  ShardTable table;
  table.opinfos = read_opinfos(arguments.files, arguments.id, table.skipped);
  constexpr std::int64_t kDraws = 64;
  const ProofOptions options =
      shard_options(arguments.draws.value_or(kDraws), arguments.seed.value_or(0));
  table.meshes = options.meshes;
  table.proofs.resize(table.opinfos.size());
  std::vector<std::string> failures(table.opinfos.size());
  run_in_order(
      table.opinfos.size(),
      arguments.workers.value_or(std::max(1U, std::thread::hardware_concurrency())),
      [&](std::size_t i) {
        try {
          table.proofs[i] = prove_sharded(table.opinfos[i], options);
        } catch (const std::exception& error) {
          failures[i] = fmt::format("{}: {}", table.opinfos[i].opinfo, error.what());
        }
      },
      [&](std::size_t i) {
        if (!failures[i].empty()) fail(ErrorKind::kInternal, Fix{}, "{}", failures[i]);
      });
  table.seconds = watch.seconds();
  const bool json = arguments.common.json;
  print_text(json ? table.json().dump() + "\n" : table.text());
  return table.any_wrong() ? kFailed : kFine;
}

}  // namespace shardlab
