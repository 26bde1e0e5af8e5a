// probe.h - reading the files and libraries of a system.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sim/doctor/doctor.h"

namespace shardlab {

/// The text of a file below the view's root; empty when it cannot be read.
std::string file_text(const MachineView& view, const std::string& path);
/// The text after "key" and a colon or blanks on its line of `text`; empty if there is none.
std::string field_of(const std::string& text, std::string_view key);
/// Names in a folder below the view's root, sorted; none when it cannot be read.
std::vector<std::string> names_in(const MachineView& view, const std::string& folder);
/// The path of the program of this name; empty if the view's path has none.
std::string program_at(const MachineView& view, const std::string& name);

/// The version a shared library gives: `ask` names a function of this form. Asked in a process of
/// its own with a limit on time, since a broken installation may crash or hang.
enum class AskForm {
  kNumber,  ///< int f(int* version), 0 for success: CUDA, NCCL
  kText,    ///< int f(char* version, int* length): MPI
};
struct Library {
  std::vector<std::string> files;  ///< tried in order: "libnccl.so.2"
  std::string ask;
  AskForm form = AskForm::kNumber;
};
struct LibraryAnswer {
  std::string file;  ///< the one that opened; empty: none
  long number = 0;
  std::string text;
};
/// Libraries of this machine, also if the view has another root.
LibraryAnswer ask_library(const Library& library);

}  // namespace shardlab
