// gzip and plain files are read in the same way, line by line; a damaged file is an error and not a
// short one.
#include "sim/files/text_lines.h"

#include <zlib.h>
#include <memory>

#include <array>

#include "base/error.h"

namespace shardlab {

std::string read_text(const std::string& path) {
  // zlib reads files that are not compressed as they are.
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file)
    fail(ErrorKind::kValue, Fix{"give the path of a file that is there"},
         "{}: the file cannot be read", path);
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::string text;
  std::array<char, 1 << 16> block;
  int count = 0;
  while ((count = gzread(file.get(), block.data(), block.size())) > 0) {
    text.append(block.data(), static_cast<std::size_t>(count));
    if (text.size() <= kLargest) continue;
    fail(ErrorKind::kValue, Fix{"give a graph, a recording or a run that was written to a file"},
         "{}: there is more to read than 1 GiB", path);
  }
  int status = Z_OK;
  gzerror(file.get(), &status);
  // Z_BUF_ERROR: the compressed stream ends too early.
  if (count < 0 || status != Z_OK)
    fail(ErrorKind::kValue, Fix{"write or fetch the file again"},
         "{}: the file is damaged or cut short", path);
  if (text.empty())
    fail(ErrorKind::kValue, Fix{"write or fetch the file again"}, "{}: the file is empty", path);
  return text;
}

std::vector<std::string> read_lines(const std::string& path) { return lines_in(read_text(path)); }

std::vector<std::string> lines_in(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    lines.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return lines;
}

}  // namespace shardlab
