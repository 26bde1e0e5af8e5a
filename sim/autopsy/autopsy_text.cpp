// The report of an autopsy, at most 12 lines, and its JSON.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <span>
#include <thread>

#include "base/text.h"
#include "comm/verdict.h"
#include "sim/autopsy/autopsy.h"
#include "sim/autopsy/flight_values.h"
#include "sim/files/json_value.h"

namespace shardlab {

namespace {

struct KindWords {
  std::string_view id, text;
};

// In the order of the enumeration.
constexpr KindWords kKinds[] = {
    {"healthy", "nothing is wrong"},
    {"device_stuck", "all have called, it does not end"},
    {"other_kind", "called something else"},
    {"skipped", "skipped a call"},
    {"extra", "made a call more"},
    {"other_size", "other sizes"},
    {"other_dtype", "other dtypes"},
    {"stopped", "stopped before a call"},
    {"no_dump", "no dump"},
    {"crossed", "two calls in the other order"},
    {"lost_send", "a message nobody sent"},
};

std::string place_of(const FlightWord& word) {
  if (word.line == 0) return "";
  const bool named = word.function != "<module>";
  return fmt::format(" at {}:{}{}", word.file, word.line, named ? " in " + word.function : "");
}

std::string ordinal(std::int64_t number) {
  const std::int64_t last = number % 10, tens = number / 10 % 10;
  const std::string_view ending = tens == 1   ? "th"
                                  : last == 1 ? "st"
                                  : last == 2 ? "nd"
                                  : last == 3 ? "rd"
                                              : "th";
  return fmt::format("{}{}", number, ending);
}

std::string call_text(const FlightWord& word, std::int64_t place, bool many) {
  std::string what = word.op;
  for (const std::string& part : {word.sizes, word.dtypes}) what += part.empty() ? "" : " " + part;
  return fmt::format("{} on {}, {} {}{}", what, word.group, many ? "their" : "its", ordinal(place),
                     place_of(word));
}

std::string text_of(const std::vector<AutopsyWait>& waits) {
  std::vector<std::string> waiting;
  std::size_t count = 0;
  for (const AutopsyWait& wait : waits) {
    count += wait.ranks.size();
    if (waiting.size() == 4) continue;
    std::string one = fmt::format("{} in {}", rank_ranges(wait.ranks), wait.group);
    if (!wait.awaited.empty()) one += " for " + fold_ranks(wait.awaited);
    waiting.push_back(std::move(one));
  }
  return fmt::format("{} rank{}: {}", count, count == 1 ? " waits" : "s wait",
                     text_of_list(waiting, "; "));
}

std::string text_of(const AutopsyParting& one, const FlightWord& word) {
  return fmt::format("also {}: {}, {} of {}{}", fold_ranks(one.culprits),
                     kKinds[static_cast<std::size_t>(one.kind)].text, word.op, word.group,
                     place_of(word));
}

std::string headline(const Autopsy& found, const std::vector<std::int64_t>& in_circle) {
  const std::string_view said = kKinds[static_cast<std::size_t>(found.kind)].text;
  std::string head =
      fmt::format("{}, {}, {} entries. ", counted(static_cast<std::int64_t>(found.ranks), "rank"),
                  counted(static_cast<std::int64_t>(found.groups), "group"), found.entries);
  if (found.tie) {
    head += fmt::format("Ranks {} parted, and nothing says who is right: {}",
                        rank_ranges(found.culprits), said);
  } else if (!found.circle.empty() && found.culprits.empty()) {
    head += fmt::format("Nobody parted: {} wait for each other", fold_ranks(in_circle));
  } else if (found.culprits.empty()) {
    head += std::string(1, static_cast<char>(said[0] - 'a' + 'A')) + std::string(said.substr(1));
  } else {
    std::string who = fold_ranks(found.culprits);
    who[0] = 'R';
    head += fmt::format("{} parted first: {}", who, said);
  }
  return head;
}

}  // namespace

std::string_view to_string(AutopsyKind kind) { return kKinds[static_cast<std::size_t>(kind)].id; }

std::string Autopsy::text(const FlightWords& words) const {
  std::vector<std::int64_t> in_circle;
  for (const AutopsyLink& link : circle) in_circle.push_back(link.rank);
  std::vector<std::string> lines = {headline(*this, in_circle)};
  if (!circle.empty() && culprits.empty()) {
    constexpr std::size_t kMostShown = 6;
    for (const AutopsyLink& link : std::span(circle).first(std::min(circle.size(), kMostShown))) {
      lines.push_back(fmt::format("  {:<15} {}", fmt::format("rank {}", link.rank),
                                  call_text(words[link.word], link.place, false)));
    }
  } else if (kind == AutopsyKind::kDeviceStuck && ours >= 0) {
    lines.push_back(fmt::format("  all             {}", call_text(words[ours], our_place, true)));
    if (slowest >= 0) lines.push_back(fmt::format("  rank {} started last", slowest));
  } else if (ours >= 0) {
    const std::string who = fold_ranks(others);
    lines.push_back(fmt::format("  {:<15} {}",
                                left_habit       ? "until then"
                                : others.empty() ? "the others"
                                                 : who,
                                call_text(words[ours], our_place, !left_habit)));
  }
  if (theirs >= 0) {
    lines.push_back(fmt::format("  {:<15} {}", tie ? "or" : fold_ranks(culprits),
                                call_text(words[theirs], their_place, culprits.size() > 1)));
  }
  if (theirs < 0 ? kind == AutopsyKind::kStopped : ours < 0) {
    lines.push_back(fmt::format("  {:<15} no call after the one before it",
                                fold_ranks(ours < 0 ? others : culprits)));
  }
  for (const AutopsyParting& one : std::span(also).first(std::min<std::size_t>(also.size(), 2)))
    lines.push_back(text_of(one, words[one.word]));
  if (!waits.empty()) lines.push_back(text_of(waits));
  if (!circle.empty() && !culprits.empty()) {
    lines.push_back(fmt::format("a circle of waits: ranks {}", text_of_list(in_circle, ", ")));
  }
  if (before >= 0) {
    const FlightWord& word = words[before];
    lines.push_back(fmt::format("before it           everyone: {} of {}{}", word.op, word.group,
                                place_of(word)));
  }
  if (!missing.empty()) lines.push_back("no dump of " + fold_ranks(missing));
  lines.insert(lines.end(), recorded.begin(), recorded.end());
  for (const std::string& note : notes) {
    if (lines.size() < 12) lines.push_back("note: " + note);
  }
  // Names of a file may have any length.
  for (std::string& line : lines) line = printed_text(line.substr(0, 600));
  return text_of_list(lines, "\n") + "\n";
}

Json Autopsy::json(const FlightWords& words) const {
  Json json = {{"kind", to_string(kind)}, {"culprits", culprits}, {"tie", tie},
               {"ranks", ranks},          {"groups", groups},     {"entries", entries},
               {"missing", missing},      {"notes", notes}};
  if (!recorded.empty()) json["recorded"] = recorded;
  json["group"] = group.empty() ? Json() : Json(group);
  json["op"] = op.empty() ? Json() : Json(op);
  json["line"] = line == 0 ? Json() : Json(line);
  const auto call = [&](const char* name, std::int32_t number) {
    if (number < 0) return;
    const FlightWord& word = words[number];
    json[name] = {{"group", word.group},      {"op", word.op},     {"sizes", word.sizes},
                  {"dtypes", word.dtypes},    {"file", word.file}, {"line", word.line},
                  {"function", word.function}};
  };
  call("theirs", theirs);
  call("ours", ours);
  json["also"] = Json::array();
  for (const AutopsyParting& one : also) {
    json["also"].push_back({{"kind", to_string(one.kind)},
                            {"culprits", one.culprits},
                            {"op", std::string(words[one.word].kind())},
                            {"line", words[one.word].line}});
  }
  json["circle"] = Json::array();
  for (const AutopsyLink& link : circle) {
    json["circle"].push_back({{"rank", link.rank}, {"line", words[link.word].line}});
  }
  json["waits"] = Json::array();
  for (const AutopsyWait& wait : waits) {
    json["waits"].push_back(
        {{"group", wait.group}, {"ranks", wait.ranks}, {"awaited", wait.awaited}});
  }
  return json;
}

std::vector<FlightDump> read_flight_dumps(const std::vector<std::string>& paths, FlightWords& words,
                                          std::size_t workers, std::vector<std::string>& notes) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  std::vector<FlightDump> dumps(files.size());
  std::vector<std::exception_ptr> failures(files.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    FlightValues values(words);
    for (std::size_t i; (i = next++) < files.size();) {
      try {
        dumps[i] = read_flight_dump(files[i], values);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(workers, files.size()); ++i) threads.emplace_back(work);
  work();
  threads.clear();
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!failures[i]) continue;
    const bool other = rank_in(files[i]) < 0 && std::ranges::count(paths, files[i]) == 0;
    if (!other) std::rethrow_exception(failures[i]);
    notes.push_back(files[i] + " is no dump");
  }
  std::erase_if(dumps, [](const FlightDump& dump) { return dump.path.empty(); });
  return dumps;
}

}  // namespace shardlab
