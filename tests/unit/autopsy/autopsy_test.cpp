// Dumps with one rank that parts, written here as JSON, and what is said of it.
#include "sim/autopsy/autopsy.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/autopsy/flight_values.h"
#include "sim/files/json_value.h"
#include "tests/support/refusal.h"

namespace shardlab {
namespace {

struct Entry {
  std::string op = "all_reduce";
  std::int64_t size = 8, line = 10;
  std::string group = "dp";
  bool pending = false;
  std::string thread = "1", name = "0";  // the name is that of the group
  std::int64_t launch = 0;               // p2p_seq_id
};

// Four ranks in "dp", which is all.
Json dump_of(const std::vector<Entry>& entries) {
  Json dump = {{"version", "2.10"},
               {"pg_config", {{"0", {{"name", "0"}, {"desc", "dp"}, {"ranks", "[0, 1, 2, 3]"}}}}},
               {"entries", Json::array()}};
  for (const Entry& entry : entries) {
    const std::size_t number = dump["entries"].size();
    dump["entries"].push_back(
        {{"record_id", number},
         {"process_group", {entry.name, entry.group}},
         {"collective_seq_id", number + 1},
         {"p2p_seq_id", entry.launch},
         {"profiling_name", "nccl:" + entry.op},
         {"time_created_ns", 1000 * number},
         {"input_sizes", {{entry.size}}},
         {"input_dtypes", {"Float"}},
         {"output_sizes", {{entry.size}}},
         {"state", entry.pending ? "started" : "completed"},
         {"retired", !entry.pending},
         {"thread_id", entry.thread},
         {"is_p2p",
          entry.launch > 0 || entry.op.starts_with("send") || entry.op.starts_with("recv")},
         {"frames",
          {{{"name", "c"}, {"filename", "/torch/distributed/c10d.py"}, {"line", 1}},
           {{"name", "step"}, {"filename", "train.py"}, {"line", entry.line}}}}});
  }
  return dump;
}

class Dumps {
 public:
  void add(std::int64_t rank, const std::vector<Entry>& entries) {
    add_file("rank_" + std::to_string(rank), dump_of(entries).dump());
  }
  void add_file(const std::string& name, const std::string& bytes) {
    FlightValues values(words);
    all.push_back(flight_dump_of(name, bytes, values));
  }
  Autopsy autopsy() const { return autopsy_of(all, words); }

  FlightWords words;
  std::vector<FlightDump> all;
};

constexpr std::int64_t kOdd = 2;

// Rank 2 has `odd`, the others have `usual`.
struct Parted : Dumps {
  Parted(const std::vector<Entry>& usual, const std::vector<Entry>& odd) {
    for (std::int64_t rank = 0; rank < 4; ++rank) add(rank, rank == kOdd ? odd : usual);
  }
};

TEST_CASE("B-42 the rank that calls something else is named, wherever it is in the list") {
  const Entry first{.line = 9}, wanted{.op = "reduce_scatter", .line = 12, .pending = true};
  struct Case {
    std::vector<Entry> odd;
    std::string kind;
    std::int64_t line;
  };
  const Entry later{.line = 15};
  const std::vector<Case> cases = {
      {{first, {.op = "all_gather", .line = 13, .pending = true}}, "other_kind", 13},
      {{first, {.op = "reduce_scatter", .size = 9, .line = 12, .pending = true}}, "other_size", 12},
      {{first, {.op = "broadcast", .line = 11}, wanted}, "extra", 11},
      {{first}, "stopped", 12},
  };
  for (const Case& one : cases) {
    CAPTURE(one.kind);
    const Parted dumps({first, wanted}, one.odd);
    const Autopsy found = dumps.autopsy();
    CHECK(to_string(found.kind) == one.kind);
    CHECK(found.culprits == std::vector<std::int64_t>{kOdd});
    CHECK(found.line == one.line);
    const std::string text = found.text(dumps.words);
    CHECK(std::ranges::count(text, '\n') <= 12);
    CHECK(text.find("Rank 2 parted first") != std::string::npos);
  }
  // Most are right, not the first.
  Dumps led;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    led.add(rank, rank == 0 ? cases[0].odd : std::vector<Entry>{first, wanted});
  }
  CHECK(led.autopsy().culprits == std::vector<std::int64_t>{0});
  // A call that is skipped: the next one comes in its place.
  const Autopsy skipped =
      Parted({first, wanted, {.line = 15}}, {first, {.line = 15, .pending = true}}).autopsy();
  CHECK(to_string(skipped.kind) == "skipped");
  CHECK(skipped.culprits == std::vector<std::int64_t>{kOdd});
  CHECK(skipped.line == 12);
}

TEST_CASE("B-42 nobody is blamed where all have called, or nothing waits") {
  const Entry done, waits{.pending = true};
  CHECK(to_string(Parted({done, done}, {done, done}).autopsy().kind) == "healthy");
  const Autopsy stuck = Parted({done, waits}, {done, waits}).autopsy();
  CHECK(to_string(stuck.kind) == "device_stuck");
  CHECK(stuck.culprits.empty());
  Dumps two;
  two.add(0, {done, {.op = "all_gather", .pending = true}});
  two.add(1, {done, {.op = "broadcast", .pending = true}});
  const Autopsy tie = two.autopsy();
  CHECK(tie.tie);
  CHECK(tie.culprits == std::vector<std::int64_t>{0, 1});
}

// Threads of autograd call in any order; calls of one group, or of one thread, have one.
TEST_CASE("B-42 threads of a rank have no order between their groups") {
  const Entry a{.line = 11}, c{.op = "all_gather", .line = 13}, end{.line = 14, .pending = true};
  Entry b{.op = "broadcast", .line = 12, .group = "tp", .thread = "2", .name = "1"};
  const Autopsy apart = Parted({a, b, c, end}, {a, c, b, end}).autopsy();
  CHECK(to_string(apart.kind) == "device_stuck");
  CHECK(apart.culprits.empty());
  REQUIRE(!apart.notes.empty());
  CHECK(apart.notes.back().starts_with("threads of rank 2 call in another order"));
  // The same fault as without threads, beside calls in another order.
  const Entry wrong{.op = "reduce_scatter", .line = 15, .pending = true};
  const Autopsy other = Parted({a, b, c, end}, {a, c, b, wrong}).autopsy();
  CHECK(other.culprits == std::vector<std::int64_t>{kOdd});
  CHECK(other.line == 15);
  for (const bool one_thread : {true, false}) {
    Entry alike = b;
    (one_thread ? alike.thread : alike.name) = one_thread ? "1" : "0";
    const Autopsy crossed = Parted({a, alike, c, end}, {a, c, alike, end}).autopsy();
    CHECK(to_string(crossed.kind) == "crossed");
    CHECK(crossed.culprits == std::vector<std::int64_t>{kOdd});
  }
}

TEST_CASE("B-42 messages that wait for each other are a circle, and nobody is blamed") {
  const auto autopsy_of_two = [](const std::vector<Entry>& first,
                                 const std::vector<Entry>& second) {
    Dumps dumps;
    dumps.add(0, first);
    dumps.add(1, second);
    const Autopsy found = dumps.autopsy();
    return std::pair(found, found.text(dumps.words));
  };
  const auto message = [](std::string op, std::int64_t line) {
    return Entry{.op = std::move(op), .line = line, .pending = true};
  };
  const Entry to_1 = message("send 0->1", 11), from_1 = message("recv 0<-1", 12);
  const Entry to_0 = message("send 1->0", 14), from_0 = message("recv 1<-0", 15);
  const auto [head_on, text] = autopsy_of_two({to_1, from_1}, {to_0, from_0});
  CHECK(head_on.culprits.empty());
  REQUIRE(head_on.circle.size() == 2);
  CHECK(head_on.line == 11);
  CHECK(text.find("Nobody parted: ranks 0,1 wait for each other") != std::string::npos);
  CHECK(text.find("train.py:14") != std::string::npos);
  // Its twin meets: the network does not deliver.
  const Autopsy meets = autopsy_of_two({to_1, from_1}, {from_0, to_0}).first;
  CHECK(meets.circle.empty());
  CHECK(to_string(meets.kind) == "device_stuck");
  const Autopsy lost = autopsy_of_two({{.line = 9}, from_1}, {{.line = 9}}).first;
  CHECK(to_string(lost.kind) == "lost_send");
  CHECK(lost.culprits == std::vector<std::int64_t>{1});
  CHECK(lost.line == 12);
}

// PyTorch keeps the state of a batch in the record that ends it; its messages stay "scheduled".
std::vector<Entry> ring_step(std::int64_t rank, std::int64_t ranks, std::int64_t launch,
                             bool pending = false) {
  const auto message = [&](std::string_view form, std::int64_t further) {
    const std::int64_t peer = (rank + further + ranks) % ranks;
    return Entry{.op = fmt::format(fmt::runtime(form), rank, peer),
                 .line = 20,
                 .pending = true,
                 .launch = launch};
  };
  return {message("send {}->{}", 1), message("recv {}<-{}", -1),
          Entry{.op = "coalesced", .line = 20, .pending = pending, .launch = launch}};
}

TEST_CASE("B-42 a batch is in the state of the record that ends it") {
  const auto found = [](bool pending, std::vector<Entry> odd_end) {
    Dumps dumps;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      std::vector<Entry> all = ring_step(rank, 4, 1, false);
      std::ranges::copy(ring_step(rank, 4, 2, pending), std::back_inserter(all));
      if (rank == kOdd) std::ranges::copy(odd_end, std::back_inserter(all));
      if (rank != kOdd && !odd_end.empty()) all.push_back({.line = 30, .pending = true});
      dumps.add(rank, all);
    }
    return dumps.autopsy();
  };
  CHECK(to_string(found(false, {}).kind) == "healthy");
  // Its messages stand side by side: each is met by one of the same batch.
  const Autopsy stuck = found(true, {});
  CHECK(to_string(stuck.kind) == "device_stuck");
  CHECK(stuck.circle.empty());
  // Ranks of a ring run one program, around its end, too.
  const Autopsy parted = found(false, {{.op = "broadcast", .line = 31, .pending = true}});
  CHECK(parted.culprits == std::vector<std::int64_t>{kOdd});
  CHECK(parted.line == 31);
}

TEST_CASE("B-42 the other side without a dump is the cause, whoever else of a batch has not come") {
  Dumps dumps;
  for (const std::int64_t rank : {0, 1, 2}) {
    std::vector<Entry> all = ring_step(rank, 4, 1, rank != 1);
    if (rank == 1) all.push_back({.op = "reduce_scatter", .line = 30, .pending = true});
    dumps.add(rank, all);
    // A ring buffer has lost what was before.
    for (FlightEntry& entry : dumps.all.back().entries) entry.record += 90;
  }
  const Autopsy found = dumps.autopsy();
  CHECK(to_string(found.kind) == "no_dump");
  CHECK(found.culprits == std::vector<std::int64_t>{3});
}

// Two pipelines of two stages, ranks 0 and 2, 1 and 3; "embedding" joins first and last stages.
Json stages_dump(std::int64_t rank, std::vector<Entry> entries) {
  const std::string own = std::to_string(rank % 2);
  for (Entry& entry : entries) entry.name = entry.group == "world" ? "0" : entry.group + own;
  Json dump = dump_of(entries);
  const auto group = [&](const std::string& name, const std::string& description,
                         const std::string& ranks) {
    dump["pg_config"][name] = {{"name", name}, {"desc", description}, {"ranks", ranks}};
  };
  dump["pg_config"] = Json::object();
  group("0", "world", "[0, 1, 2, 3]");
  group(rank < 2 ? "dp0" : "dp1", "dp", rank < 2 ? "[0, 1]" : "[2, 3]");
  for (const std::string name : {"pp", "embedding"}) {
    group(name + own, name, rank % 2 == 0 ? "[0, 2]" : "[1, 3]");
  }
  return dump;
}

TEST_CASE("B-42 a group of several stages joins no roles, and other stages say what comes") {
  const auto found = [](const std::vector<Entry>& odd_end) {
    Dumps dumps;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const bool first = rank < 2;
      std::vector<Entry> all = {{.op = first ? "send 0->1" : "recv 1<-0",
                                 .line = first ? 11 : 12,
                                 .group = "pp",
                                 .launch = 1},
                                {.size = 10 + rank, .line = 13, .group = "embedding"},
                                {.size = 20 + rank, .line = 14, .group = "world"}};
      std::vector<Entry> end = {{.line = 15, .group = "world", .pending = true}};
      if (rank == kOdd) end = odd_end;
      std::ranges::copy(end, std::back_inserter(all));
      dumps.add_file("rank_" + std::to_string(rank), stages_dump(rank, all).dump());
    }
    return dumps.autopsy();
  };
  // Nobody is blamed for the other stage's message.
  const Autopsy healthy = found({{.line = 15, .group = "world", .pending = true}});
  CHECK(to_string(healthy.kind) == "device_stuck");
  CHECK(healthy.culprits.empty());
  const Autopsy ends = found({});
  CHECK(to_string(ends.kind) == "stopped");
  CHECK(ends.culprits == std::vector<std::int64_t>{kOdd});
}

// The groups of stages_dump(), but "pp" is a ring of two ranks, both of which send and receive.
TEST_CASE("B-42 ranks of rings run one program, of which three are more than one") {
  Dumps dumps;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    std::vector<Entry> all;
    for (std::int64_t step = 1; step <= 2; ++step) {
      for (Entry entry : ring_step(rank / 2, 2, step)) {
        entry.group = "pp";
        all.push_back(entry);
      }
      all.push_back({.line = 25, .group = "dp"});
    }
    const bool odd = rank == kOdd;
    all.push_back({.op = odd ? "broadcast" : "all_reduce",
                   .line = odd ? 31 : 30,
                   .group = "world",
                   .pending = true});
    dumps.add_file("rank_" + std::to_string(rank), stages_dump(rank, all).dump());
  }
  const Autopsy found = dumps.autopsy();
  CHECK(found.culprits == std::vector<std::int64_t>{kOdd});
  CHECK(found.line == 31);
}

// Stages of one rank each: a message to the next one and a sum over all, step by step.
std::vector<Entry> stage_steps(std::int64_t rank, std::int64_t steps) {
  std::vector<Entry> all;
  for (std::int64_t step = 1; step <= steps; ++step) {
    const auto message = [&](const char* kind, std::int64_t peer, std::int64_t line) {
      const bool sends = kind == std::string_view("send");
      all.push_back({.op = fmt::format("{} {}{}{}", kind, rank, sends ? "->" : "<-", peer),
                     .line = line,
                     .group = "pp",
                     .launch = 2 * step - (line == 11 ? 1 : 0)});
    };
    if (rank > 0) message("recv", rank - 1, 11);
    if (rank < 3) message("send", rank + 1, 12);
    all.push_back({.line = 13, .group = "world"});
    all.push_back({.size = 2, .line = 14, .group = "world"});
  }
  return all;
}

Json line_dump(std::vector<Entry> entries) {
  for (Entry& entry : entries) entry.name = entry.group == "world" ? "0" : "1";
  Json dump = dump_of(entries);
  for (const auto& [name, description] : {std::pair{"0", "world"}, {"1", "pp"}})
    dump["pg_config"][name] = {{"name", name}, {"desc", description}, {"ranks", "[0, 1, 2, 3]"}};
  for (std::int64_t calls = 0; Json & entry : dump["entries"]) {
    calls += entry["is_p2p"] == false ? 1 : 0;
    entry["collective_seq_id"] = calls;
  }
  return dump;
}

TEST_CASE("B-42 a call of several stages in which one has another size names that one") {
  const auto found = [](std::int64_t odd, std::int64_t size, std::int64_t ranks) {
    Dumps dumps;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      std::vector<Entry> all = stage_steps(rank, 3);
      all.back().pending = true;
      if (rank >= odd && rank < odd + ranks) all.back().size = size;
      dumps.add_file("rank_" + std::to_string(rank), line_dump(all).dump());
    }
    return dumps.autopsy();
  };
  for (const std::int64_t odd : {0, 2, 3}) {
    const Autopsy autopsy = found(odd, 99, 1);
    CHECK(to_string(autopsy.kind) == "other_size");
    CHECK(autopsy.culprits == std::vector{odd});
    CHECK(autopsy.line == 14);
    CHECK_FALSE(autopsy.tie);
  }
  // Against a tie, the sides that have always called it so are right.
  CHECK(found(2, 99, 2).culprits == std::vector<std::int64_t>{2, 3});
  CHECK(to_string(found(0, 2, 1).kind) == "device_stuck");
}

TEST_CASE("B-42 the one that left its habit is named among stages that wait for each other") {
  const auto found = [](bool leaves) {
    Dumps dumps;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      std::vector<Entry> all = stage_steps(rank, 3);
      // Rank 1 is in the sum without its last message, for which rank 2 waits, and it rank 3.
      if (rank == 1 && leaves) all.erase(all.end() - 3);
      all.resize(all.size() - (rank == 2 && leaves ? 3 : rank == 3 && leaves ? 2 : 1));
      all.back().pending = true;
      dumps.add_file("rank_" + std::to_string(rank), line_dump(all).dump());
    }
    return dumps.autopsy();
  };
  const Autopsy lost = found(true);
  CHECK(to_string(lost.kind) == "lost_send");
  CHECK(lost.culprits == std::vector<std::int64_t>{1});
  CHECK(lost.line == 12);
  CHECK(found(false).culprits.empty());
}

TEST_CASE("B-42 ranks of another role that parted, too, are told behind the first") {
  Dumps dumps;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    const std::string group = rank < 4 ? "0" : "1";
    std::vector<Entry> all = {{.line = 9, .name = group},
                              {.line = 10, .pending = true, .name = group}};
    if (rank == 1) all[1] = {.op = "broadcast", .line = 30, .pending = true, .name = group};
    if (rank == 6) all[1] = {.op = "all_gather", .line = 40, .pending = true, .name = group};
    Json dump = dump_of(all);
    if (rank > 3) {
      dump["pg_config"] = {{"1", {{"name", "1"}, {"desc", "dp"}, {"ranks", "[4, 5, 6, 7]"}}}};
      for (Json& entry : dump["entries"])
        entry["time_created_ns"] = 1 + integer_of<std::int64_t>(entry["time_created_ns"]);
    }
    dumps.add_file("rank_" + std::to_string(rank), dump.dump());
  }
  const Autopsy found = dumps.autopsy();
  CHECK(found.culprits == std::vector<std::int64_t>{1});
  CHECK(found.line == 30);
  CHECK(found.text(dumps.words)
            .find("also rank 6: called something else, all_gather of dp at "
                  "train.py:40 in step\n") != std::string::npos);
  CHECK(found.json(dumps.words)["also"][0]["culprits"] == Json({6}));
}

TEST_CASE("B-42 the kind is the change after which ranks agree for longest") {
  const auto gather = [](std::int64_t size, bool pending = false) {
    return Entry{.op = "all_gather", .size = size, .line = 12, .pending = pending};
  };
  const Entry first{.line = 9}, other{.op = "broadcast", .line = 14, .pending = true};
  const Entry end{.op = "reduce_scatter", .line = 20, .pending = true};
  const std::vector<Entry> usual = {first, gather(1, true), gather(2, true), gather(3, true), end};
  const auto kind = [&](const std::vector<Entry>& odd) {
    const Autopsy found = Parted(usual, odd).autopsy();
    CHECK(found.culprits == std::vector<std::int64_t>{kOdd});
    return std::string(to_string(found.kind));
  };
  CHECK(kind({first, gather(1, true), gather(3, true), end}) == "skipped");
  CHECK(kind({first, gather(1, true), gather(1, true), gather(2, true), gather(3, true), end}) ==
        "extra");
  CHECK(kind({first, gather(1, true), gather(9, true), gather(3, true), end}) == "other_size");
  CHECK(kind({first, other, gather(2, true), gather(3, true), end}) == "other_kind");
  CHECK(kind({first, gather(2, true), gather(1, true), gather(3, true), end}) == "crossed");
}

TEST_CASE("B-42 a rank that goes on where most have ended has made a call more") {
  const Entry done, more{.line = 11, .pending = true};
  const Parted dumps({done}, {done, more});
  const Autopsy found = dumps.autopsy();
  CHECK(to_string(found.kind) == "extra");
  CHECK(found.culprits == std::vector<std::int64_t>{kOdd});
  CHECK(found.line == 11);
  CHECK(found.text(dumps.words).find("no call after the one before it") != std::string::npos);
}

TEST_CASE("B-42 sizes part ranks of one group, where the call has not ended") {
  const auto found = [](const std::string& op, bool pending, const Entry& odd_end) {
    Dumps dumps;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const Entry uneven{.op = op, .size = rank == 3 ? 2 : 8, .line = 9, .pending = pending};
      if (pending) {
        dumps.add(rank, {{.line = 8}, uneven});
      } else {
        dumps.add(rank, {{.line = 8}, uneven, rank == 1 ? odd_end : Entry{.line = 20}});
      }
    }
    return dumps.autopsy();
  };
  const Entry end{.line = 20}, other{.op = "broadcast", .line = 30, .pending = true};
  // Rank 3 has a smaller piece; rank 1 parts later.
  const Autopsy later = found("all_reduce", false, other);
  CHECK(later.culprits == std::vector<std::int64_t>{1});
  CHECK(to_string(later.kind) == "other_kind");
  CHECK(later.line == 30);
  // Its twin has ended; in the others it is the call that hangs.
  CHECK(to_string(found("all_reduce", false, end).kind) == "healthy");
  const Autopsy hangs = found("all_reduce", true, end);
  CHECK(to_string(hangs.kind) == "other_size");
  CHECK(hangs.culprits == std::vector<std::int64_t>{3});
  CHECK(to_string(found("all_to_all", true, end).kind) == "device_stuck");
}

TEST_CASE("B-42 a dump that is cut keeps the entries before the cut") {
  const std::string whole = dump_of({{.line = 9}, {.line = 10}, {.line = 11}}).dump();
  const std::size_t last = whole.rfind("record_id");
  Dumps dumps;
  dumps.add_file("rank_0.json", whole.substr(0, last - 30));
  CHECK(dumps.all[0].cut);
  CHECK(dumps.all[0].entries.size() == 2);
  CHECK(dumps.all[0].rank == 0);
}

TEST_CASE("B-42 records may have holes of any width, as where active calls alone are dumped") {
  constexpr std::int64_t kFar = 1'000'000'000'000'000;
  Dumps dumps;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    Json dump = dump_of({{.line = 9}, {.line = rank == kOdd ? 13 : 12, .pending = true}});
    dump["entries"][1]["record_id"] = kFar;
    dumps.add_file("rank_" + std::to_string(rank), dump.dump());
  }
  const Autopsy found = dumps.autopsy();
  CHECK(found.culprits == std::vector<std::int64_t>{kOdd});
  CHECK(found.line == 13);
}

TEST_CASE("B-42 files that are not a dump, of two jobs or of no rank are refused") {
  Dumps dumps;
  const auto refused = [&](const std::string& name, const std::string& bytes) {
    return refusal_of([&] { dumps.add_file(name, bytes); });
  };
  const auto has = [](const std::string& text, std::string_view part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(refused("rank_0", ""), "rank_0: ");
  has(refused("rank_0", "{\"a\": 1}"), "rank_0: no dump of a flight recorder");
  has(refused("rank_0", "{\"entries\": }"), "rank_0: the JSON is damaged at byte 13");
  has(refused("trace", dump_of({{}}).dump()), "trace: whose dump is it?");
  has(refused("rank_0", std::string("\x80\x02}c", 4)), "the opcode GLOBAL at byte 3");
  for (const std::int64_t record : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    Json dump = dump_of({{}});
    dump["entries"][0]["record_id"] = record;
    has(refused("rank_0", dump.dump()),
        fmt::format("rank_0: records are numbered from 0, and one has {}", record));
  }
  const auto all_refused = [&] { return refusal_of([&] { dumps.autopsy(); }); };
  dumps.add(0, {{}});
  dumps.add(0, {{}});
  has(all_refused(), "rank 0 has two dumps");
  dumps.all.pop_back();
  Json other = dump_of({{}});
  other["pg_config"]["0"]["ranks"] = "[0, 1]";
  dumps.add_file("rank_1", other.dump());
  has(all_refused(), "a dump of another job: its group '0' has other ranks");
}

}  // namespace
}  // namespace shardlab
