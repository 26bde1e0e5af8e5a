// word_numbers.h - numbers of words, equal where two words have the same meaning in some respect.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "sim/autopsy/flight_dump.h"

namespace shardlab {

/// Made when first asked for. Not thread-safe.
class WordNumbers {
 public:
  explicit WordNumbers(const FlightWords& words) : words_(words) {}

  /// Without places in the group, for other stages.
  std::int32_t loose(std::int32_t word) const {
    return number(loose_, word, [](FlightWord& one) { one.op = std::string(one.kind()); });
  }

  /// Without sizes, which ranks of a role may have of their own; a message by how far it goes,
  /// around the places that messages have.
  std::int32_t alike(std::int32_t word) const {
    std::map<std::string_view, std::size_t> sizes;  // of groups
    for (std::size_t i = alike_.size(); i < words_.size(); ++i) {
      const FlightWord& one = words_[static_cast<std::int32_t>(i)];
      const auto places = one.places();
      if (places)
        sizes[one.group] = std::max({sizes[one.group], places->first + 1, places->second + 1});
    }
    return number(alike_, word, [&](FlightWord& one) {
      one.sizes = one.output_sizes = one.dtypes = {};
      const auto places = one.places();
      if (!places) return;
      const std::size_t size = sizes.at(one.group);
      one.op = fmt::format("{} {}", one.kind(), (places->second + size - places->first) % size);
    });
  }

  /// With the sizes that members of one group have in common.
  std::int32_t fit(std::int32_t word) const {
    return number(fit_, word, [](FlightWord& one) {
      const auto has = [&](std::string_view part) { return one.op.find(part) < one.op.size(); };
      const bool all_to_all = has("to_all");
      if (all_to_all) one.dtypes = {};
      if (all_to_all || has("allgather") || has("all_gather") || one.op == "scatter")
        one.sizes = {};
      if (all_to_all || has("reduce_scatter") || one.op == "gather" || one.op == "reduce") {
        one.output_sizes = {};
      }
    });
  }

 private:
  std::int32_t number(std::vector<std::int32_t>& numbers, std::int32_t word, auto change) const {
    std::map<FlightWord, std::int32_t> known;
    for (std::size_t i = 0; numbers.size() < words_.size(); ++i) {
      FlightWord one = words_[static_cast<std::int32_t>(i)];
      change(one);
      numbers.push_back(known.try_emplace(one, static_cast<std::int32_t>(i)).first->second);
    }
    return numbers[static_cast<std::size_t>(word)];
  }

  const FlightWords& words_;
  mutable std::vector<std::int32_t> loose_, alike_, fit_;  // by word
};

}  // namespace shardlab
