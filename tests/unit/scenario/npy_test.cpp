#include "sim/scenario/npy.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace shardlab;

namespace {

/// A file of its own that is gone afterwards.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes)
      : path_((std::filesystem::temp_directory_path() / "shardlab_npy_test.npy").string()) {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::filesystem::remove(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string npy(const std::string& header, const std::string& data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size());
  out += '\0';
  return out + header + data;
}

std::string fault_of(const std::string& bytes) {
  const TemporaryFile file(bytes);
  try {
    read_npy(file.path());
    return "";
  } catch (const Error& error) {
    return error.summary();
  }
}

}  // namespace

TEST_CASE("an .npy file gives shape and elements") {
  // numpy.save of np.array([[1, -2, 300]], dtype="<i2")
  const TemporaryFile file(npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }\n",
                               std::string("\x01\x00\xfe\xff\x2c\x01", 6)));
  const NpyArray array = read_npy(file.path());
  CHECK(array.shape == Dims{1, 3});
  CHECK(array.numbers == std::vector<Scalar>{1, -2, 300});
  const TemporaryFile scalar(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n",
                                 std::string("\x00\x00\x00\x00\x00\x00\xf8\x3f", 8)));
  CHECK(read_npy(scalar.path()).numbers == std::vector<Scalar>{1.5});
}

TEST_CASE("files that are no .npy, or of a kind that is not read, are refused") {
  CHECK(fault_of("hello, this is text").find("is not an .npy file") != std::string::npos);
  CHECK(fault_of("").find("is not an .npy file") != std::string::npos);
  CHECK(fault_of(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", "abcd"))
            .find("is in Fortran order") != std::string::npos);
  CHECK(fault_of(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd"))
            .find("holds a dtype that is not read here") != std::string::npos);
  CHECK(fault_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcd"))
            .find("is too short") != std::string::npos);
  CHECK(fault_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}",
                     "abcd"))
            .find("has an impossible shape") != std::string::npos);
  CHECK(fault_of(npy("{'descr': '<f4', 'shape': (-1,)}", "")).find("has a broken header") !=
        std::string::npos);
  CHECK(fault_of(npy("nonsense", "")).find("has a broken header") != std::string::npos);
}
