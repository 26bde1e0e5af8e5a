#include <doctest/doctest.h>

#include <string>

#include "tests/unit/checkpoint/stored_elements.h"

using namespace shardlab;

namespace {

/// A file with this header, as the format writes one.
std::string safetensors(const std::string& header, const std::string& data) {
  std::string size(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) size[i] = static_cast<char>(header.size() >> 8 * i);
  return size + header + data;
}

std::string fault_of_header(const std::string& header, const std::string& data) {
  const TemporaryFolder folder;
  return fault_of(folder.write("x.safetensors", safetensors(header, data)));
}

std::string of_rank(const std::string& offset, const std::string& shape, const std::string& data) {
  return safetensors(R"({"__metadata__":{"DCP_SHARDING_INFO":"{\"w\": {\"saved_offsets\": )" +
                         offset + R"(}}"},"w":{"dtype":"U8","shape":)" + shape +
                         R"(,"data_offsets":[0,)" + std::to_string(data.size()) + "]}}",
                     data);
}

}  // namespace

TEST_CASE("a safetensors file gives its tensors in the order of their bytes") {
  const TemporaryFolder folder;
  const auto file = Checkpoint::open(folder.write(
      "x.safetensors", safetensors(R"({"b":{"dtype":"I16","shape":[2],"data_offsets":[3,7]},)"
                                   R"("z":{"dtype":"U8","shape":[3,1],"data_offsets":[0,3]},)"
                                   R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[7,7]},)"
                                   R"("n":{"dtype":"U8","shape":[],"data_offsets":[7,8]},)"
                                   R"("q":{"dtype":"F4","shape":[2],"data_offsets":[8,9]},)"
                                   R"("__metadata__":{"format":"pt"}})",
                                   std::string("\x01\x02\x03\x05\x00\xff\xff\x09*", 9))));
  REQUIRE(file.tensors().size() == 5);
  CHECK(file.tensors()[0].name == "z");
  CHECK(elements_of(file, "z") == std::vector<double>{1, 2, 3});
  CHECK(elements_of(file, "b") == std::vector<double>{5, -1});
  CHECK(elements_of(file, "e").empty());
  CHECK(elements_of(file, "n") == std::vector<double>{9});
  // A type that is not read is refused by tensor, and not by file.
  CHECK(file.find("q")->text() == "F4[2]");
  CHECK(fault_of(file.path()).find("'q' has the dtype F4, which is not read") != std::string::npos);
}

TEST_CASE("an index decides which files and tensors count") {
  const TemporaryFolder folder;
  const std::string one = R"({"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                          R"("old":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})";
  folder.write("a.safetensors", safetensors(one, "\x01\x02\x03"));
  folder.write("piece.safetensors", safetensors(one, "\x04\x05\x06"));
  folder.write("m.safetensors.index.json",
               R"({"metadata":{},"weight_map":{"w":"a.safetensors","v":"a.safetensors"}})");
  const auto both = Checkpoint::open(folder.path());
  CHECK(both.tensors().size() == 1);
  CHECK(elements_of(both, "w") == std::vector<double>{1, 2});
  REQUIRE(both.notes().size() == 3);
  CHECK(both.notes()[0].find("1 of its tensors are not read") != std::string::npos);
  CHECK(both.notes()[1] == "'v' is not in a.safetensors, where the index has it");
  CHECK(both.notes()[2] == "piece.safetensors is not read: the index does not name it");
  folder.write("m.safetensors.index.json", R"({"weight_map":{"w":"b.safetensors"}})");
  CHECK(fault_of(folder.path()).find("b.safetensors, in which it has 1 tensors, is not there") !=
        std::string::npos);
  folder.write("m.safetensors.index.json", R"({"weight_map":{"w":"../b.safetensors"}})");
  folder.write("../b.safetensors", "");
  CHECK(fault_of(folder.path()).find("which is not in its folder") != std::string::npos);
  std::filesystem::remove(folder.path() + "/../b.safetensors");
}

TEST_CASE("files of ranks make one tensor, with its holes and overlaps") {
  const TemporaryFolder folder;
  const auto name = [](int rank) {
    return "shard-0000" + std::to_string(rank + 1) + "-model-00001-of-00001.safetensors";
  };
  folder.write(name(0), of_rank("[0, 0]", "[2, 2]", "\x01\x02\x05\x06"));
  folder.write(name(1), of_rank("[0, 2]", "[2, 2]", "\x03\x04\x07\x08"));
  const auto whole = Checkpoint::open(folder.path());
  CHECK(whole.find("w")->text() == "u8[2, 4]");
  CHECK(elements_of(whole, "w") == std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8});
  CHECK(faults_of(*whole.find("w")).empty());
  CHECK(whole.rank_of(whole.find("w")->pieces[1].file) == 1);
  // A part that begins in one piece and ends in the other.
  std::string part(2, '\0');
  whole.read(*whole.find("w"), {{1, 1}, {1, 2}}, part.data());
  CHECK(part == "\x06\x07");
  // [0, 0] to [1, 1] twice, and nothing at [2, 1].
  folder.write(name(1), of_rank("[1, 0]", "[2, 1]", "\x09\x0a"));
  const auto broken = Checkpoint::open(folder.path());
  CHECK(broken.find("w")->text() == "u8[3, 2]");
  const std::vector<PieceFault> faults = faults_of(*broken.find("w"));
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].pieces.empty());
  CHECK(faults[0].box.from == Dims{2, 1});
  CHECK(faults[0].box.shape == Dims{1, 1});
  CHECK(faults[1].pieces == std::vector<std::size_t>{0, 1});
  CHECK(faults[1].box.from == Dims{1, 0});
  CHECK(elements_of(broken, "w") == std::vector<double>{1, 2, 5, 6, 10, 0});
}

TEST_CASE("B-50 damaged headers are refused at once") {
  const TemporaryFolder folder;
  CHECK(fault_of(folder.write("a", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10)))
            .find("a header of 9223372036854775807 bytes is expected, and it has 10") !=
        std::string::npos);
  CHECK(fault_of_header("{\"w\":", "").find("no JSON object") != std::string::npos);
  CHECK(fault_of_header("{" + std::string(100, '['), "").find("header is damaged") !=
        std::string::npos);
  CHECK(fault_of_header("{\"w\":" + std::string(20, '[') + std::string(20, ']') + "}", "")
            .find("nested too deep") != std::string::npos);
  for (const char* entry : {
           R"({"dtype":"U8","shape":[2],"data_offsets":[0,3]})",
           R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})",
           R"({"dtype":"U8","shape":[1],"data_offsets":[2,1]})",
           R"({"dtype":"U8","shape":[-1],"data_offsets":[0,1]})",
           R"({"dtype":"U8","shape":[9223372036854775807,4],"data_offsets":[0,1]})",
           R"({"dtype":"U8","data_offsets":[0,1]})",
           R"({"dtype":"U8","shape":[1]})",
           R"({"dtype":7,"shape":1,"data_offsets":"x"})",
           "[]",
       }) {
    CAPTURE(entry);
    const std::string fault = fault_of_header(std::string("{\"w\":") + entry + "}", "abc");
    CHECK(fault.find("the header is damaged: 'w' is ") != std::string::npos);
  }
}
