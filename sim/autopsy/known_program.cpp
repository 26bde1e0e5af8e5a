// A dump has several steps of a program, a recording one: the last calls of the dump are a piece of
// two steps one after the other, whose end is the place.
#include "sim/autopsy/known_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace shardlab {

namespace {

// A call as a recording and a dump both have it: torch's groups and spellings are its own.
struct LooseCall {
  std::string kind, sizes;
  const std::string* place = nullptr;  ///< of a recording
  bool operator==(const LooseCall& other) const {
    return kind == other.kind && sizes == other.sizes;
  }
};

// "all_gather" of "_all_gather_base", "all_gather_into_tensor_coalesced".
std::string loose_kind(std::string_view kind) {
  if (kind.starts_with("_")) kind.remove_prefix(1);
  for (const std::string_view ending : {"_coalesced", "_base", "_into_tensor", "_tensor"}) {
    if (kind.ends_with(ending)) kind.remove_suffix(ending.size());
  }
  return std::string(kind);
}

std::vector<LooseCall> calls_of(const KnownProgram& program, std::int32_t rank) {
  std::vector<LooseCall> calls;
  for (std::size_t i = 0; i < program.log.calls.size(); ++i) {
    const FabricLog::Call& call = program.log.calls[i];
    if (call.rank != rank) continue;
    std::vector<std::string> sizes;
    for (const TensorMeta& meta : call.input) {
      sizes.push_back(fmt::format("[{}]", text_of_list(meta.shape, ", ")));
    }
    calls.push_back(
        {loose_kind(to_string(call.kind)), text_of_list(sizes, ", "), &program.places[i]});
  }
  return calls;
}

struct Alignment {
  std::size_t equal = 0, of = 0;
  std::size_t next = 0;  ///< in the program: the call behind the last equal one
};

Alignment align(const std::vector<LooseCall>& dumped, const std::vector<LooseCall>& program) {
  const std::size_t step = program.size();
  std::vector<std::size_t> best(2 * step + 1, 0);
  for (const LooseCall& call : dumped) {
    std::size_t diagonal = 0;
    for (std::size_t j = 1; j <= 2 * step; ++j) {
      const std::size_t above = best[j];
      best[j] = call == program[(j - 1) % step] ? diagonal + 1 : std::max(above, best[j - 1]);
      diagonal = above;
    }
  }
  const std::size_t equal = best.back();
  std::size_t end = 0;
  while (best[end] != equal) ++end;
  return {equal, dumped.size(), end % step};
}

// Settles a tie: the side whose word is the program's next call is right.
void settle(Autopsy& found, const std::vector<FlightDump>& dumps, const FlightWords& words,
            const LooseCall& next) {
  const auto is_next = [&](std::int32_t word) {
    return LooseCall{loose_kind(words[word].kind()), words[word].sizes} == next;
  };
  if (!found.tie || found.theirs < 0 || is_next(found.ours) == is_next(found.theirs)) return;
  if (is_next(found.theirs)) {
    std::swap(found.ours, found.theirs);
    std::swap(found.our_place, found.their_place);
  }
  found.tie = false;
  found.others.clear();
  std::erase_if(found.culprits, [&](std::int64_t rank) {
    const auto& all = std::ranges::find(dumps, rank, &FlightDump::rank)->entries;
    const auto entry = std::ranges::find(all, found.record, &FlightEntry::record);
    const bool right = entry != all.end() && is_next(entry->word);
    if (right) found.others.push_back(rank);
    return right;
  });
  const FlightWord& word = words[found.theirs];
  found.group = word.group;
  found.op = std::string(word.kind());
  found.line = word.line;
}

}  // namespace

void join(Autopsy& found, const std::vector<FlightDump>& dumps, const FlightWords& words,
          const KnownProgram& program) {
  const auto dump = std::ranges::find(dumps, found.rank, &FlightDump::rank);
  // A job of more ranks than were recorded has more ranks like the first.
  auto calls = calls_of(program, static_cast<std::int32_t>(found.rank));
  if (calls.empty()) calls = calls_of(program, 0);
  if (dump == dumps.end() || calls.empty()) return;
  std::vector<LooseCall> dumped;
  for (const FlightEntry& entry : dump->entries) {
    if (entry.record >= found.record) break;
    dumped.push_back({loose_kind(words[entry.word].kind()), words[entry.word].sizes});
  }
  if (dumped.size() > calls.size()) {
    const auto older = static_cast<std::ptrdiff_t>(dumped.size() - calls.size());
    dumped = std::vector<LooseCall>(dumped.begin() + older, dumped.end());
  }
  const Alignment there = align(dumped, calls);
  if (2 * there.equal < there.of) {
    found.recorded = {fmt::format("{} is of another program: {} of {} calls are equal",
                                  program.file, there.equal, there.of)};
    return;
  }
  const LooseCall& next = calls[there.next];
  const LooseCall& last = calls[(there.next + calls.size() - 1) % calls.size()];
  settle(found, dumps, words, next);
  found.recorded.push_back(fmt::format("recorded            rank {}'s next call is {} {} at {}",
                                       found.rank, next.kind, next.sizes, *next.place));
  const FlightWord* const word = found.theirs < 0 ? nullptr : &words[found.theirs];
  const std::string until = word == nullptr || word->line == 0
                                ? *next.place
                                : fmt::format("{}:{}", word->file, word->line);
  if (there.equal > 0) {
    found.recorded.push_back(
        fmt::format("the branch          is between {} and {}", *last.place, until));
  }
  found.recorded.push_back(program.hang.empty()
                               ? "the recording       ends on simulated ranks: it has no such fault"
                               : "the recording       has a fault itself: " + program.hang);
}

}  // namespace shardlab
