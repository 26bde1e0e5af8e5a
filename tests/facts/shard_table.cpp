// An OpInfo counts as right on even shards when none of their placings is refused or wrong, and as
// tried there when there are any.
#include "tests/facts/shard_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "dispatch/all_ops.h"
#include "sim/files/text_lines.h"
#include "sim/proof/proof_text.h"
#include "tests/facts/check.h"
#include "tests/facts/sequence_sample.h"

namespace shardlab {

namespace {

// OpInfos by how they fared on one kind of shards.
struct KindCounts {
  std::int64_t tried = 0, right = 0, moved = 0, refused = 0, wrong = 0;

  void add(const ProofTally& tally) {
    if (tally.tried() == 0) return;
    ++tried;
    if (tally.wrong == 0 && tally.refused == 0 && tally.moved > 0) ++moved;
    if (tally.wrong > 0) {
      ++wrong;
    } else if (tally.refused > 0) {
      ++refused;
    } else {
      ++right;
    }
  }
  Json json() const {
    return {{"opinfos", tried},
            {"right", right},
            {"of_them_moved", moved},
            {"refused", refused},
            {"wrong", wrong}};
  }
  std::string text(std::string_view kind) const {
    return fmt::format(
        "{:<7} {:>4} OpInfos: {} right in every placement ({} of them moved), {} refused in some, "
        "{} wrong\n",
        kind, tried, right, moved, refused, wrong);
  }
};

struct KindSums {
  KindCounts even, uneven;
};

KindSums kinds_of(const std::vector<OpProof>& proofs) {
  KindSums sums;
  for (const OpProof& proof : proofs) {
    sums.even.add(proof.even);
    sums.uneven.add(proof.uneven);
  }
  return sums;
}

// Counts of each reason, and its OpInfos.
struct Refusals {
  std::int64_t times = 0;
  std::vector<std::string> opinfos;
};

using Reasons = std::map<std::string, std::int64_t>;

std::map<std::string, Refusals> refusals_of(const std::vector<OpProof>& proofs,
                                            Reasons OpProof::*reasons) {
  std::map<std::string, Refusals> refusals;
  for (const OpProof& proof : proofs) {
    for (const auto& [reason, times] : proof.*reasons) {
      refusals[reason].times += times;
      refusals[reason].opinfos.push_back(proof.op);
    }
  }
  return refusals;
}

std::string wrong_text(const OpProof& proof, const OpInfoSequences& opinfo) {
  const WrongCall& call = *proof.least;
  return fmt::format("WRONG {} in {} of {} placings, as {} on a mesh of {} with ({})\n  {}\n",
                     proof.op, proof.wrong, proof.tried, opinfo.sequences.at(call.sample)->id,
                     text_of_list(call.mesh, " x "), placing_text(call.placing), call.what);
}

}  // namespace

std::vector<OpInfoSequences> read_opinfos(const std::vector<std::string>& files,
                                          const std::string& id, std::int64_t& skipped) {
  std::vector<OpInfoSequences> opinfos;
  std::map<std::string, std::size_t> known;
  for (const std::string& file : files) {
    std::int64_t number = 0;
    for (const std::string& line : read_lines(file)) {
      ++number;
      if (line.empty()) continue;
      const Json json = read_json(line);
      if (!json.is_object() || !json.contains("calls") || !json.contains("opinfo")) {
        fail(ErrorKind::kValue, Fix{"see tests/golden/facts/kernels/README.md, OpInfo sequences"},
             "{}:{} is no sequence of calls", file, number);
      }
      if (!id.empty() && json.value("id", "") != id) continue;
      if (has_half_complex(json)) {
        ++skipped;
        continue;
      }
      auto sequence = std::make_shared<const CallSequence>(read_sequence(json));
      const auto [place, added] = known.emplace(sequence->opinfo, opinfos.size());
      if (added) opinfos.push_back({sequence->opinfo, {}});
      opinfos[place->second].sequences.push_back(std::move(sequence));
    }
  }
  if (!opinfos.empty()) return opinfos;
  fail(ErrorKind::kValue, Fix{"give the id of a line, as in \"id\""},
       "there is no sequence in {}{}{}", text_of_list(files, ", "), id.empty() ? "" : " with id ",
       id);
}

ProofOptions shard_options(std::int64_t draws, std::uint64_t seed) {
  ProofOptions options;
  options.meshes = {{4}, {3}, {2, 2}};
  options.backward = false;
  options.missing = false;
  const auto most = static_cast<std::uint64_t>(draws);
  options.of_one = options.of_several = {most, most};
  options.seed = seed;
  return options;
}

OpProof prove_sharded(const OpInfoSequences& opinfo, const ProofOptions& options) {
  std::vector<OpSample> samples;
  for (const auto& sequence : opinfo.sequences) samples.push_back(sample_of(sequence));
  std::vector<const OpSample*> pointers;
  for (const OpSample& sample : samples) pointers.push_back(&sample);
  return OpProver(all_ops(), options).prove(pointers);
}

template <typename Holds>
double percent(const std::vector<OpProof>& proofs, Holds holds) {
  const auto count = std::ranges::count_if(proofs, holds);
  return proofs.empty() ? 0 : 100 * static_cast<double>(count) / static_cast<double>(proofs.size());
}

bool ShardTable::any_wrong() const { return sums_of(proofs).wrong > 0; }

double ShardTable::share_in_every_placement() const {
  return percent(proofs,
                 [](const OpProof& proof) { return proof.wrong == 0 && proof.refused == 0; });
}

double ShardTable::share_as_they_are() const {
  return percent(proofs, [](const OpProof& proof) {
    return proof.wrong == 0 && proof.refused == 0 && proof.moved.empty();
  });
}

std::string ShardTable::text() const {
  std::string text;
  const ProofSums all = sums_of(proofs);
  std::int64_t sequences = 0;
  for (std::size_t i = 0; i < proofs.size(); ++i) {
    const OpProof& proof = proofs[i];
    sequences += static_cast<std::int64_t>(opinfos[i].sequences.size());
    if (proof.least) text += wrong_text(proof, opinfos[i]);
  }
  for (const auto& [reason, refusals] : refusals_of(proofs, &OpProof::moved)) {
    text += fmt::format("moved   {} times: {}\n  {}\n", refusals.times, reason,
                        text_of_list(refusals.opinfos, ", "));
  }
  for (const auto& [reason, refusals] : refusals_of(proofs, &OpProof::reasons)) {
    text += fmt::format("refused {} times: {}\n  {}\n", refusals.times, reason,
                        text_of_list(refusals.opinfos, ", "));
  }
  if (skipped > 0) {
    text += fmt::format("skipped {} lines: {}\n", skipped, to_string(SkipReason::kHalfComplex));
  }
  const KindSums kinds = kinds_of(proofs);
  text += kinds.even.text("even") + kinds.uneven.text("uneven");
  std::vector<std::string> names;
  for (const Dims& mesh : meshes) names.push_back(fmt::format("[{}]", text_of_list(mesh, ", ")));
  text += fmt::format(
      "{} sequences of {} OpInfos, {} placings on meshes {}: {} right, {} refused, "
      "{} wrong\n",
      sequences, proofs.size(), all.tried, text_of_list(names, ", "), all.right, all.refused,
      all.wrong);
  text += fmt::format(
      "{:.1f} % of OpInfos run in every placement, {:.1f} % without being moved; {:.1f} s\n",
      share_in_every_placement(), share_as_they_are(), seconds);
  return text;
}

Json ShardTable::json() const {
  const KindSums kinds = kinds_of(proofs);
  Json list = Json::array();
  for (std::size_t i = 0; i < proofs.size(); ++i) {
    const OpProof& proof = proofs[i];
    Json one = {{"opinfo", proof.op},       {"sequences", opinfos[i].sequences.size()},
                {"tried", proof.tried},     {"right", proof.right},
                {"refused", proof.refused}, {"wrong", proof.wrong},
                {"reasons", proof.reasons}, {"moved", proof.moved}};
    one["even"] = {{"tried", proof.even.tried()}, {"right", proof.even.right}};
    one["uneven"] = {{"tried", proof.uneven.tried()}, {"right", proof.uneven.right}};
    if (proof.least) {
      one["least"] = {{"id", opinfos[i].sequences.at(proof.least->sample)->id},
                      {"mesh", proof.least->mesh},
                      {"placements", placing_text(proof.least->placing)},
                      {"what", proof.least->what}};
    }
    list.push_back(std::move(one));
  }
  return {{"even", kinds.even.json()},
          {"uneven", kinds.uneven.json()},
          {"run_in_every_placement_percent", share_in_every_placement()},
          {"as_they_are_percent", share_as_they_are()},
          {"seconds", seconds},
          {"skipped", skipped},
          {"opinfos", std::move(list)}};
}

}  // namespace shardlab
