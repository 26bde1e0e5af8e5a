// Small recordings on two ranks, written by hand: a value whose number differs by rank, in every
// kind of event, and what a replay makes of it. Elements and fingerprints are computed by hand.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "sim/files/json_value.h"
#include "sim/recording/merge.h"
#include "sim/recording/recording.h"
#include "sim/recording/recording_file.h"
#include "sim/replay/replay.h"
#include "tests/support/temporary_folder.h"

using namespace shardlab;

namespace {

// Lines of a file, with a program and an end around them.
class Written {
 public:
  explicit Written(std::size_t world, const Json& rank = "all") {
    put({{"k", "program"},
         {"form", "recording"},
         {"schema", 2},
         {"program", "x.py"},
         {"torch", "2.15.0"},
         {"world", world},
         {"rank", rank}});
    put({{"k", "place"}, {"p", 0}, {"file", "x.py"}, {"line", 1}});
    put({{"k", "place"}, {"p", 1}, {"file", "x.py"}, {"line", 2}});
  }

  void put(const Json& line) { lines_.push_back(line); }
  void add(const std::string& line) { lines_.push_back(parsed_json(line)); }
  // f32 elements, of each rank its own.
  void constant(std::int64_t v, const std::vector<std::vector<float>>& ranks) {
    Json raw = Json::array();
    for (const std::vector<float>& one : ranks) {
      raw.push_back({raw_.size(), one.size() * sizeof(float)});
      raw_.append(reinterpret_cast<const char*>(one.data()), one.size() * sizeof(float));
    }
    Json line = {
        {"k", "const"}, {"v", v}, {"dtype", "f32"}, {"shape", {ranks[0].size()}}, {"local", true}};
    if (ranks.size() == 1) line["raw"] = raw[0];
    if (ranks.size() > 1) line["raw_ranks"] = raw;
    put(line);
  }

  std::vector<std::string> text(std::int64_t values, const std::string& error = "") const {
    std::vector<std::string> lines;
    for (const Json& line : lines_) lines.push_back(line.dump());
    Json end = {
        {"k", "end"}, {"events", lines.size() + 1}, {"n_values", values}, {"raw", raw_.size()}};
    if (!error.empty()) end["error"] = error;
    lines.push_back(end.dump());
    return lines;
  }
  RecordedProgram read(std::int64_t values, const std::string& error = "") const {
    return read_recording({.path = "x.json.gz", .lines = text(values, error), .raw = raw_});
  }
  // The last line begins with its kind.
  void save(const std::string& path, std::int64_t values, const std::string& error = "") const {
    std::ofstream out(path, std::ios::binary);
    std::vector<std::string> lines = text(values, error);
    for (const std::string& line : lines) {
      Json one = parsed_json(line);
      const std::string kind = one.at("k").dump();
      one.erase("k");
      out << "{\"k\":" << kind << "," << one.dump().substr(1) << "\n";
    }
    out << raw_;
  }

 private:
  std::vector<Json> lines_;
  std::string raw_;
};

std::string shape2(const std::string& v, const std::string& more = "") {
  return R"({"v":)" + v + R"(,"dtype":"f32","shape":[2],"local":true)" + more + "}";
}

// Two constants with elements 1, 2 and 10, 20.
Written two_constants() {
  Written file(2);
  file.constant(0, {{1, 2}});
  file.constant(1, {{10, 20}});
  return file;
}

const RecordedEvent& last(const RecordedProgram& program) { return program.events.back(); }

const RecordedEvent* maker_of(const RecordedProgram& program, std::int32_t number) {
  for (const RecordedEvent& event : program.events) {
    for (const EventValue& value : event.out) {
      if (value.id.id == number) return &event;
    }
  }
  return nullptr;
}

// It is one value, of which rank 0 has `first` and rank 1 `second`.
void check_of_ranks(const RecordedProgram& program, std::int32_t number, std::int32_t first,
                    std::int32_t second) {
  const RecordedEvent* maker = maker_of(program, number);
  REQUIRE(maker != nullptr);
  CHECK(maker->kind == RecordedKind::kOfRanks);
  CHECK(maker->takes == std::vector<std::int32_t>{first, second});
}

}  // namespace

TEST_CASE("B-28 a value's number may differ by rank in every field of every kind of event") {
  const std::string own = R"({"ranks":[0,1]})", out = shape2("2");
  const std::string own_v = R"({"ranks":[{"v":0},{"v":1}]})";
  const std::string kEvents[] = {
      R"({"k":"alias","of":)" + own + R"(,"v":2,"dtype":"f32","shape":[2],"offset":0})",
      R"({"k":"local_op","op":"aten.neg.default","args":[)" + own_v + R"(],"out":[)" + out + "]}",
      R"({"k":"local_op","op":"aten.neg.default","args":[{"v":)" + own + R"(}],"out":[)" + out +
          "]}",
      R"({"k":"local_op","op":"aten.neg.default","args":[],"kwargs":{"self":)" + own_v +
          R"(},"out":[)" + out + "]}",
      R"({"k":"call","c":0,"op":"aten.neg.default","args":[)" + own_v + R"(],"out":[)" + out + "]}",
      R"({"k":"module","m":"a","in":[)" + own + R"(],"out":[]})",
      R"({"k":"module","m":"a","in":[],"out":[)" + own + "]}",
      R"({"k":"module","m":"a","in":{"ranks":[[0],[1]]},"out":[]})",
      R"({"k":"function","name":"F","in":[)" + own + "]}",
      R"({"k":"rule","f":0,"args":[)" + own_v + R"(],"out":[]})",
      R"({"k":"backward","of":[)" + own + "]}",
      R"({"k":"backward","of":[0],"grads":[)" + own + "]}",
      R"({"k":"backward","of":[0],"to":[)" + own + "]}",
      R"({"k":"backward","of":[0],"only":[)" + own + "]}",
      R"({"k":"read","in":[)" + own + R"(],"out":[{"scalar":1}]})",
      R"({"k":"read","in":[)" + own + R"(],"out":[{"scalar":[{"ranks":[1,2]}]}]})",
      R"({"k":"storage","v":)" + own + R"(,"bytes":0})",
      R"({"k":"check","name":"w","v":)" + own + R"(,"dtype":"f32","shape":[2]})",
      R"({"k":"arrived","v":)" + own + R"(,"dtype":"f32","shape":[2]})",
      R"({"k":"gradients","out":[)" + shape2(own) + "]}",
      R"({"k":"call","c":0,"op":"aten.neg.default","args":[{"v":0}],"out":[)" + shape2(own) + "]}",
      R"({"k":"local_op","op":"aten.neg.default","args":[{"v":0}],"out":[)" + out + R"(],"mut":[)" +
          shape2(own) + "]}",
      R"({"k":"call","c":0,"op":"aten.neg.default","args":[{"v":0}],"leaves":[)" + own +
          R"(],"out":[)" + out + "]}",
      R"({"k":"call","c":0,"op":"aten.neg.default","args":[{"v":0}],"detached":[)" + own +
          R"(],"out":[)" + out + "]}",
      R"({"k":"coll","op":"c10d.allreduce_.default","args":[[)" + own_v +
          R"(],{"pg":0},{"reduce":"sum"}],"out":[]})"};
  for (const std::string& event : kEvents) {
    CAPTURE(event);
    Written file = two_constants();
    file.add(R"({"k":"group","g":0,"ranks":[0,1]})");
    file.add(event);
    const RecordedProgram program = file.read(3);
    std::set<std::int32_t> named;
    const RecordedEvent& one = last(program);
    for_each_operand(one, [&](std::int32_t v) { named.insert(v); });
    for (const auto* list :
         {&one.takes, &one.gives, &one.gradients, &one.wanted, &one.leaves, &one.detached}) {
      named.insert(list->begin(), list->end());
    }
    for (const auto* list : {&one.out, &one.written}) {
      for (const EventValue& value : *list) named.insert(value.id.id);
    }
    for (const std::int32_t other : {-1, 0, 2}) named.erase(other);
    if (event.find("[[0],[1]]") != std::string::npos) {  // lists, put together
      CHECK(one.takes == std::vector<std::int32_t>{0, 1});
      continue;
    }
    REQUIRE(named.size() == 1);
    check_of_ranks(program, *named.begin(), 0, 1);
  }
}

TEST_CASE("B-28 counts, texts and lines that differ by rank are those of the first") {
  Written file = two_constants();
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":0}],"out":[)" + shape2("2") +
           R"(],"p":{"ranks":[null,1]},"c":{"ranks":[7,8]},"of":{"ranks":[3,4]},)"
           R"("m":{"ranks":["a","b"]},"node":{"ranks":["X","Y"]},"pass":"fwd"})");
  const RecordedProgram program = file.read(3);
  CHECK(last(program).place == 1);
  CHECK(last(program).call == 7);
  CHECK(last(program).of == 3);
  CHECK(program.modules == std::vector<std::string>{"a"});
  CHECK(last(program).node == "X");
}

TEST_CASE("B-28 a result under two numbers is one value, and each rank's later number means it") {
  Written file = two_constants();
  const std::string neg = R"({"k":"local_op","op":"aten.neg.default","args":[{"v":)";
  // Rank 0 writes its value 0, rank 1 its value 1; then both write value 0.
  file.add(R"({"k":"local_op","op":"aten.neg_.default","args":[{"ranks":[{"v":0},{"v":1}]}],)"
           R"("out":[)" +
           shape2(R"({"ranks":[0,1]})", R"(,"fp":{"ranks":[[-3,-5],[-30,-50]]})") + "]}");
  file.add(neg + R"(0}],"out":[)" + shape2("2", R"(,"fp":{"ranks":[[3,5],[-3,-5]]})") + "]}");
  file.add(neg + R"(1}],"out":[)" + shape2("3", R"(,"fp":{"ranks":[[-30,-50],[30,50]]})") + "]}");
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":2}],"out":[)" +
           shape2("0", R"(,"fp":{"ranks":[[-3,-5],[3,5]]})") + "]}");
  file.add(neg + R"(0}],"out":[)" + shape2("4", R"(,"fp":{"ranks":[[3,5],[-3,-5]]})") + "]}");
  const RecordedProgram program = file.read(5);
  CHECK(std::get<ValueRef>(last(program).args[0].value).id == 0);  // and not what it was on some
  const ReplayReport report = replay_recording(program);
  CHECK(report.ok());
  CHECK(report.agree == 5);
  CHECK(report.skipped == 0);
}

TEST_CASE("B-28 a call that is told again has the results of its ops") {
  Written file = two_constants();
  const std::string values =
      R"([{"ranks":[{"v":0},{"v":1}]}],"out":[)" +
      shape2(R"({"ranks":[0,1]})", R"(,"fp":{"ranks":[[-3,-5],[-30,-50]]})") + "]}";
  file.add(R"({"k":"local_op","op":"aten.neg_.default","args":)" + values);
  file.add(R"({"k":"call","c":0,"op":"aten.neg_.default","args":)" + values);
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":0}],"out":[)" +
           shape2("2", R"(,"fp":{"ranks":[[3,5],[-3,-5]]})") + "]}");
  const ReplayReport report = replay_recording(file.read(3));
  CHECK(report.agree == 2);
  CHECK(report.skipped == 0);
  CHECK(report.ok());
}

TEST_CASE("B-28 shapes, strides and dtypes are those of each rank") {
  Written file(2);
  file.constant(0, {{1, 2, 3, 4}, {1, 2, 3, 4}});
  file.add(R"({"k":"local_op","op":"aten.view.default","args":[{"v":0},{"ranks":[[2,2],[4,1]]}],)"
           R"("out":[{"v":1,"dtype":"f32","shapes":[[2,2],[4,1]],"shape":[2,2],)"
           R"("strides":[null,[1,4]],"fp":[10,30]}]})");
  const RecordedProgram program = file.read(2);
  const EventValue& value = last(program).out[0];
  CHECK(value.meta(0).shape == Dims{2, 2});
  CHECK(value.meta(1).shape == Dims{4, 1});
  CHECK(value.meta(1).stride == Dims{1, 4});
  CHECK(replay_recording(program).agree == 1);
}

TEST_CASE("B-28 collectives that move memory give what gloo gave to strided tensors") {
  // Rank 0 scatters rows 0..5 to outputs whose memory is transposed (recorded from gloo).
  Written file(2);
  file.constant(0, {{0, 1, 2, 3, 4, 5}});
  file.add(R"({"k":"local_op","op":"aten.view.default","args":[{"v":0},[2,3]],)"
           R"("out":[{"v":1,"dtype":"f32","shape":[2,3]}]})");
  file.add(R"({"k":"local_op","op":"aten.empty_strided.default","args":[[2,3],[1,2]],)"
           R"("out":[{"v":2,"dtype":"f32","shape":[2,3],"stride":[1,2]}],"undefined":true})");
  file.add(R"({"k":"group","g":0,"ranks":[0,1]})");
  file.add(R"({"k":"coll","op":"c10d.scatter_.default","args":[[{"v":2}],)"
           R"({"ranks":[[[{"v":1},{"v":1}]],[]]},{"pg":0},0,false],"out":[],)"
           R"("mut":[{"v":2,"dtype":"f32","shape":[2,3],"stride":[1,2]}]})");
  // Memory 0 1 2 3 4 5 is rows 0 2 4 and 1 3 5.
  file.add(R"({"k":"arrived","v":2,"dtype":"f32","shape":[2,3],"stride":[1,2],)"
           R"("fp":[15,65]})");
  const ReplayReport report = replay_recording(file.read(3));
  CHECK(report.differences.empty());
  CHECK(report.agree == 1);
}

TEST_CASE("B-28 a reduction leaves its sum on one rank") {
  Written file(2);
  file.constant(0, {{1, 2}, {10, 20}});
  file.add(R"({"k":"group","g":0,"ranks":[0,1]})");
  file.add(R"({"k":"coll","op":"c10d.reduce_.default","args":[[{"v":0}],{"pg":0},{"reduce":"sum"},)"
           R"(1,0,false],"out":[],"mut":[)" +
           shape2("0") + "]}");
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":0}],"out":[)" +
           shape2("1", R"(,"fp":{"ranks":[[-3,-5],[-33,-55]]})") + "]}");
  const ReplayReport report = replay_recording(file.read(2));
  CHECK(report.differences.empty());
  CHECK(report.agree == 1);
}

TEST_CASE("B-28 the nine digits of a file are the floor of a comparison in f64") {
  Written file(1);
  file.add(R"({"k":"const","v":0,"dtype":"f64","shape":[1],"fill":{"seed":3,"bias":0,"scale":1}})");
  file.add(R"({"k":"local_op","op":"aten.div.Tensor","args":[{"v":0},3.0],)"
           R"("out":[{"v":1,"dtype":"f64","shape":[1],"fp":[0,0]}]})");
  const RecordedProgram first = file.read(2);
  const std::string got = replay_recording(first).differences.at(0).got;
  const double exact = parsed_json(got).at(0).get<double>();
  for (const double off : {1e-10, 1e-6}) {
    Written again(1);
    again.add(
        R"({"k":"const","v":0,"dtype":"f64","shape":[1],"fill":{"seed":3,"bias":0,"scale":1}})");
    const double told = exact * (1 + off);
    again.add(fmt::format(R"({{"k":"local_op","op":"aten.div.Tensor","args":[{{"v":0}},3.0],)"
                          R"("out":[{{"v":1,"dtype":"f64","shape":[1],"fp":[{0},{0}]}}]}})",
                          told));
    CHECK(replay_recording(again.read(2)).ok() == (off < 1e-8));
  }
}

TEST_CASE("B-28 a program that failed is never right, and what has no row is not judged") {
  Written file = two_constants();
  const std::string mystery = R"({"k":"local_op","op":"aten.mystery_.default","args":[{"v":0}],)"
                              R"("out":[)";
  file.add(mystery + shape2("0", R"(,"raw":[8,8],"fp":[30,50])") + "]}");
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":0}],"out":[)" +
           shape2("2", R"(,"fp":[-30,-50])") + "]}");
  const ReplayReport report = replay_recording(file.read(3));
  CHECK(report.ok());
  CHECK(report.unjudged == 1);
  CHECK(report.agree == 1);  // by the elements of the file
  CHECK(report.skipped == 0);
  CHECK(!replay_recording(file.read(3, "RuntimeError: x")).ok());
}

TEST_CASE("B-28 a function with jumps may take the other side of one that is near") {
  // Fingerprints are the sum, and the sum of each times its number.
  const auto differences = [](const char* factor, const char* product, const char* floor) {
    Written file = two_constants();
    file.add(fmt::format(R"({{"k":"local_op","op":"aten.mul.Scalar","args":[{{"v":1}},{}],"out":[)",
                         factor) +
             shape2("2", fmt::format(R"(,"fp":{})", product)) + "]}");
    file.add(R"({"k":"local_op","op":"aten.floor.default","args":[{"v":2}],"out":[)" +
             shape2("3", fmt::format(R"(,"fp":{})", floor)) + "]}");
    return replay_recording(file.read(4)).differences.size();
  };
  // PyTorch's first product is a little below 1, ours is 1.
  CHECK(differences("0.1", "[2.99999994,4.99999994]", "[2,4]") == 0);
  CHECK(differences("0.17", "[5.1,8.5]", "[4,7]") == 0);
  CHECK(differences("0.17", "[5.1,8.5]", "[3,6]") == 1);
}

TEST_CASE(
    "B-28 values computed from memory that nothing wrote are not judged until it is written") {
  Written file = two_constants();
  file.add(R"({"k":"local_op","op":"aten.empty_like.default","args":[{"v":0}],"undefined":true,)"
           R"("out":[)" +
           shape2("2") + "]}");
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":2}],"out":[)" +
           shape2("3", R"(,"fp":[7,7])") + "]}");
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":3}],"out":[)" +
           shape2("4", R"(,"fp":[7,7])") + "]}");
  file.add(R"({"k":"local_op","op":"aten.copy_.default","args":[{"v":2},{"v":0}],"out":[)" +
           shape2("2", R"(,"fp":[3,5])") + "]}");
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":2}],"out":[)" +
           shape2("5", R"(,"fp":[-3,-5])") + "]}");
  const RecordedProgram right = file.read(7);
  CHECK(replay_recording(right).ok());
  CHECK(replay_recording(right).agree == 2);
  file.add(R"({"k":"local_op","op":"aten.neg.default","args":[{"v":2}],"out":[)" +
           shape2("6", R"(,"fp":[-3,-6])") + "]}");
  CHECK(replay_recording(file.read(7)).differences.size() == 1);
}

TEST_CASE("B-28 files of ranks are merged field by field, and what differs is told by rank") {
  namespace fs = std::filesystem;
  const TemporaryFolder temporary;
  const fs::path folder = temporary.path();
  std::vector<std::string> paths;
  for (const int rank : {0, 1}) {
    Written file(2, rank);
    file.constant(0, {{1, 2}});
    file.constant(1, {{10, 20}});
    const std::string own = std::to_string(rank);
    for (const int g : {0, 1}) {
      file.put(Json{{"k", "group"}, {"g", g}, {"ranks", {g}}});
    }
    file.add(R"({"k":"call","c":0,"op":"aten.neg.default","args":[{"v":0}],"out":[)" + shape2("2") +
             (rank == 0 ? "]}" : R"(],"leaves":[1]})"));
    file.add(R"({"k":"local_op","op":"aten.add.out","args":[{"v":0},{"v":0}],"kwargs":{"alpha":1,)"
             R"("out":{"v":)" +
             own + R"(}},"p":)" + own + R"(,"out":[)" +
             shape2(own, R"(,"fp":[2,3],"stride":[)" + std::to_string(rank + 1) + "]") + "]}");
    // Rank 1's number 1 is the sum by now.
    file.add(R"({"k":"call","c":1,"op":"aten.neg.default","args":[{"v":2}],"out":[)" + shape2("2") +
             (rank == 0 ? "]}" : R"(],"leaves":[1]})"));
    file.add(R"({"k":"coll","op":"c10d.allreduce_.default","args":[[{"v":0}],{"pg":)" + own +
             R"(},{"reduce":"sum"}],"out":[]})");
    paths.push_back((folder / ("r" + own)).string());
    file.save(paths.back(), 3, rank == 1 ? "ValueError: y" : "");
  }
  const std::string merged = (folder / "all").string();
  merge_recordings(paths, merged);
  const RecordedProgram program = read_recording(read_recording_file(merged));
  CHECK(program.error == "ValueError: y");
  const auto with = [&](RecordedKind kind) {
    for (const RecordedEvent& event : program.events) {
      if (event.kind == kind) return event;
    }
    return RecordedEvent{};
  };
  CHECK(with(RecordedKind::kCall).leaves == std::vector<std::int32_t>{1});
  const RecordedEvent op = with(RecordedKind::kOp);
  const auto later = std::ranges::find(program.events, 1, &RecordedEvent::call);
  REQUIRE(later != program.events.end());
  CHECK(later->leaves == std::vector<std::int32_t>{op.out[0].id.id});
  REQUIRE(op.args.size() == 4);
  check_of_ranks(program, std::get<ValueRef>(op.args[3].value).id, 0, 1);
  CHECK(op.out[0].meta(0).stride == Dims{1});
  CHECK(op.out[0].meta(1).stride == Dims{2});
  const RecordedEvent coll = with(RecordedKind::kCollect);
  const RecordedGroup& groups = program.groups.at(static_cast<std::size_t>(coll.group));
  CHECK(groups == RecordedGroup{{0}, {1}});
}
