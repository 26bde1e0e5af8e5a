#include <doctest/doctest.h>

#include <string>

#include "tests/unit/checkpoint/stored_elements.h"

using namespace shardlab;

namespace {

std::string npy(const std::string& header, const std::string& data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size());
  out += '\0';
  return out + header + data;
}

std::string fault_of_npy(const std::string& bytes) {
  const TemporaryFolder folder;
  return fault_of(folder.write("x.npy", bytes));
}

}  // namespace

TEST_CASE("B-50 an .npy file gives a tensor of its name") {
  const TemporaryFolder folder;
  // numpy.save of np.array([[1, -2, 300]], dtype="<i2")
  const auto file = Checkpoint::open(
      folder.write("x.npy", npy("{'descr': '<i2', 'fortran_order': False, 'shape': (1, 3), }\n",
                                std::string("\x01\x00\xfe\xff\x2c\x01", 6))));
  REQUIRE(file.find("x") != nullptr);
  CHECK(file.find("x")->text() == "i16[1, 3]");
  CHECK(elements_of(file, "x") == std::vector<double>{1, -2, 300});
  // np.array(1.5), and np.array([[1, 2], [3, 4], [5, 6]], order="F"), both in one folder
  folder.write("number.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n",
                                 std::string("\x00\x00\x00\x00\x00\x00\xf8\x3f", 8)));
  folder.write("columns.npy", npy("{'descr': '|i1', 'fortran_order': True, 'shape': (3, 2), }\n",
                                  "\x01\x03\x05\x02\x04\x06"));
  const auto all = Checkpoint::open(folder.path());
  CHECK(all.tensors().size() == 3);
  CHECK(elements_of(all, "number") == std::vector<double>{1.5});
  CHECK(elements_of(all, "columns") == std::vector<double>{1, 2, 3, 4, 5, 6});
}

TEST_CASE("B-50 files that are no .npy, or of a kind that is not read, are refused") {
  CHECK(fault_of_npy("hello, this is text").find("no checkpoint") != std::string::npos);
  CHECK(fault_of_npy("").find("no checkpoint") != std::string::npos);
  CHECK(fault_of_npy(npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", "abcd"))
            .find("its dtype is not read") != std::string::npos);
  CHECK(fault_of_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "abcd"))
            .find("outside of their bytes") != std::string::npos);
  CHECK(fault_of_npy(
            npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999)}",
                "abcd"))
            .find("outside of their bytes") != std::string::npos);
  CHECK(fault_of_npy(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", ""))
            .find("a broken .npy header: no shape") != std::string::npos);
  CHECK(fault_of_npy(npy("nonsense", "")).find("a broken .npy header") != std::string::npos);
}
