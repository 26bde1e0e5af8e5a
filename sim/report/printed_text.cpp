// Prints are matched by their place in the program: the n-th time one rank passes a print belongs
// to the n-th time another does. Ranks that pass fewer prints do not move the others' prints.
#include "sim/report/printed_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <tuple>

#include "base/error.h"
#include "comm/verdict.h"

namespace shardlab {

namespace {

// A print that some ranks passed, and the text that each printed there.
struct Passed {
  int line = 0;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> texts;
};

}  // namespace

std::vector<PrintedBy> merged_prints(const std::vector<std::vector<PrintedLine>>& prints) {
  using Key = std::tuple<int, int, int>;  // line, column, how often passed
  std::list<Passed> order;
  std::map<Key, std::list<Passed>::iterator> known;
  for (std::size_t printer = 0; printer < prints.size(); ++printer) {
    std::map<std::pair<int, int>, int> passes;
    auto next = order.begin();
    for (const PrintedLine& printed : prints[printer]) {
      const int pass = passes[{printed.line, printed.column}]++;
      const auto [place, fresh] = known.try_emplace({printed.line, printed.column, pass});
      if (fresh) place->second = order.insert(next, Passed{printed.line, {}});
      next = std::next(place->second);
      auto& texts = place->second->texts;
      const auto same =
          std::ranges::find(texts, printed.text, &decltype(Passed::texts)::value_type::first);
      if (same != texts.end()) {
        same->second.push_back(printer);
      } else {
        texts.push_back({printed.text, {printer}});
      }
    }
  }
  std::vector<PrintedBy> merged;
  for (Passed& passed : order) {
    for (auto& [text, who] : passed.texts) {
      merged.push_back({passed.line, std::move(text), std::move(who)});
    }
  }
  return merged;
}

std::string printers_text(const Run& run, const std::vector<std::size_t>& who) {
  if (!run.shapes_only()) return fold_ranks(std::vector<std::int64_t>(who.begin(), who.end()));
  std::string text;
  for (const std::size_t index : who) {
    const ClassReport& ranks = run.classes[index];
    text += text.empty() ? "" : "; ";
    text += ranks.size == 1 ? fmt::format("rank {}", ranks.first_rank) : ranks.where;
  }
  return text;
}

void check_printer(const Scenario& scenario, std::int64_t rank) {
  if (rank < scenario.world) return;
  fail(Fix{fmt::format("ranks are numbered from 0 to {}", scenario.world - 1)},
       "--rank {}: there is no such rank", rank);
}

std::size_t printer_of(const Run& run, std::int64_t rank) {
  const auto index = static_cast<std::size_t>(rank);
  if (!run.shapes_only()) return index;
  if (index < run.class_of.size()) return run.class_of[index];
  const auto first = std::ranges::find(run.classes, rank, &ClassReport::first_rank);
  if (first != run.classes.end()) return static_cast<std::size_t>(first - run.classes.begin());
  fail(ErrorKind::kUnsupported, Fix{fmt::format("--rank {}", run.classes.front().first_rank)},
       "--rank {}: of so many ranks the first of each class is known", rank);
}

}  // namespace shardlab
