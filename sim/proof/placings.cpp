// The choices of all inputs along all mesh dims are the digits of one number, which counts the
// placings; some of them mix kinds of pending reductions and are skipped.
#include "sim/proof/placings.h"

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

// Saturates: no loop counts that far.
std::uint64_t count_of(const OpSample& sample, std::size_t mesh_dims) {
  std::uint64_t count = 1;
  for (std::size_t digit = 0; digit < sample.inputs.size() * mesh_dims; ++digit) {
    const std::uint64_t base = choices_of(sample.inputs[digit / mesh_dims]).size();
    if (__builtin_mul_overflow(count, base, &count))
      return std::numeric_limits<std::uint64_t>::max();
  }
  return count;
}

bool one_reduction(const Placements& placements) {
  const Placement* first = nullptr;
  for (const Placement& placement : placements) {
    if (!placement.is_partial()) continue;
    if (first != nullptr && !(*first == placement)) return false;
    first = &placement;
  }
  return true;
}

Placing placing_at(const OpSample& sample, std::size_t mesh_dims, std::uint64_t number) {
  Placing placing;
  for (const SampleInput& input : sample.inputs) {
    const Placements choices = choices_of(input);
    Placements placements;
    for (std::size_t dim = 0; dim < mesh_dims; ++dim) {
      placements.push_back(choices[number % choices.size()]);
      number /= choices.size();
    }
    placing.push_back(placements);
  }
  return placing;
}

std::vector<std::string> parts(std::string_view text, char separator) {
  std::vector<std::string> found(1);
  int depth = 0;
  for (const char letter : text) {
    depth += (letter == '(') - (letter == ')');
    if (letter == separator && depth == 0) {
      found.emplace_back();
    } else if (letter != ' ' || !found.back().empty()) {
      found.back() += letter;
    }
  }
  return found;
}

}  // namespace

Placements choices_of(const SampleInput& input) {
  Placements choices{Placement::replicate()};
  if (input.given && !input.given->placed) return choices;
  for (std::size_t dim = 0; dim < input.shape.size(); ++dim) {
    choices.push_back(Placement::shard(static_cast<std::int64_t>(dim)));
  }
  if (input.fill == Fill::kBool || (input.given && input.given->dtype == DType::kBool)) {
    return choices;
  }
  choices.push_back(Placement::partial(ReduceOp::kSum));
  if (input.fill == Fill::kIndex || input.fill == Fill::kCount) return choices;
  if (input.given && !is_floating(input.given->dtype)) return choices;
  for (const ReduceOp op : {ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin}) {
    choices.push_back(Placement::partial(op));
  }
  return choices;
}

std::vector<Placing> placings_of(const OpSample& sample, std::size_t mesh_dims, PlacingCount number,
                                 std::uint64_t seed) {
  const std::uint64_t count = count_of(sample, mesh_dims);
  std::vector<Placing> placings;
  const auto add = [&](std::uint64_t which) {
    Placing placing = placing_at(sample, mesh_dims, which);
    if (std::ranges::all_of(placing, one_reduction)) placings.push_back(std::move(placing));
  };
  if (count <= number.all) {
    for (std::uint64_t which = 0; which < count; ++which) add(which);
    return placings;
  }
  std::mt19937_64 random(seed);
  std::set<std::uint64_t> drawn;
  while (drawn.size() < number.drawn) {
    const std::uint64_t which = random() % count;
    if (drawn.insert(which).second) add(which);
  }
  return placings;
}

bool cuts_evenly(const Dims& shape, const Placements& placements, const Dims& mesh) {
  Dims pieces(shape.size(), 1);
  for (std::size_t dim = 0; dim < mesh.size(); ++dim) {
    if (!placements[dim].is_shard()) continue;
    pieces[static_cast<std::size_t>(placements[dim].dim)] *= mesh[dim];
  }
  return std::ranges::equal(
      shape, pieces, [](std::int64_t size, std::int64_t count) { return size % count == 0; });
}

std::string placements_text(const Placements& placements) {
  std::vector<std::string> words;
  for (const Placement& placement : placements) words.push_back(to_string(placement));
  return text_of_list(words, " ");
}

std::string placing_text(const Placing& placing) {
  std::vector<std::string> words;
  for (const Placements& placements : placing) words.push_back(placements_text(placements));
  return text_of_list(words, ", ");
}

Placing parse_placing(std::string_view text, const OpSample& sample, std::size_t mesh_dims) {
  const std::vector<std::string> inputs = parts(text, ',');
  if (inputs.size() != sample.inputs.size()) {
    fail(Fix{"give those of one input, a comma, those of the next"},
         "'{}' places {}, and {} is called with {}", text, inputs.size(), sample.op,
         sample.inputs.size());
  }
  Placing placing;
  for (const std::string& input : inputs) {
    Placements placements;
    for (const std::string& word : parts(input, ' ')) {
      const auto placement = parse_placement(word);
      if (!placement) {
        fail(Fix{"write R, S(dim) or P(sum)"}, "'{}' is not a placement", word);
      }
      placements.push_back(*placement);
    }
    if (placements.size() != mesh_dims) {
      fail(Fix{"give one for each mesh dim, with spaces between them"},
           "the number of placements in '{}' is {}, and the mesh has {} dims", input,
           placements.size(), mesh_dims);
    }
    placing.push_back(placements);
  }
  return placing;
}

}  // namespace shardlab
