// zlib is fed by hand: gzip's own reader takes the bytes after the lines for damage or ignores
// them.
#include "sim/recording/recording_file.h"

#include <zlib.h>
#include <utility>

#include <algorithm>
#include <array>
#include <fstream>

#include "base/error.h"
#include "sim/checkpoint/zip_archive.h"
#include "sim/files/json_value.h"
#include "sim/recording/advice.h"

namespace shardlab {

namespace {

constexpr std::int64_t kSchema = 2;

[[noreturn]] void refuse(const std::string& path, const std::string& what) {
  fail(Fix{record_again()}, "{}: {}", path, what);
}

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

// One gzip member: its text, and how many bytes it took.
class Inflater {
 public:
  explicit Inflater(std::string_view bytes) {
    // 16: gzip; 15: the largest window.
    ready_ = inflateInit2(&stream_, 16 + 15) == Z_OK;
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));  // zlib's own habit
    stream_.avail_in = static_cast<uInt>(std::min<std::size_t>(bytes.size(), 0xFFFFFFFFu));
  }
  ~Inflater() {
    if (ready_) inflateEnd(&stream_);
  }
  Inflater& operator=(Inflater&&) = delete;

  /// Up to `most` bytes of text; false: damaged, or cut short although `whole` is asked for.
  bool read(std::string& text, std::size_t most, bool whole) {
    std::array<char, 1 << 16> block;
    int status = ready_ ? Z_OK : Z_STREAM_ERROR;
    while (status == Z_OK && text.size() < most) {
      stream_.next_out = reinterpret_cast<Bytef*>(block.data());
      stream_.avail_out = static_cast<uInt>(block.size());
      status = inflate(&stream_, Z_NO_FLUSH);
      text.append(block.data(), block.size() - stream_.avail_out);
    }
    return status == Z_STREAM_END || (!whole && !text.empty());
  }
  std::size_t taken() const { return stream_.total_in; }

 private:
  z_stream stream_ = {};
  bool ready_ = false;
};

// An empty object if the line is none.
Json parsed(const std::string& line) {
  const Json json = read_json(line);
  return json.is_object() ? json : Json::object();
}

bool says_schema(const std::string& line, std::string_view form) {
  const Json head = parsed(line);
  return head.value("k", Json()) == "program" && head.value("form", Json()) == form &&
         head.contains("schema") && head.at("schema") != 1;
}

void check_schema(const std::string& path, const std::string& line) {
  const Json schema = parsed(line).value("schema", Json());
  if (schema == kSchema) return;
  fail(ErrorKind::kUnsupported,
       Fix{"use the shardlab_record.py of this shardlab, or a newer shardlab"},
       "{}: a recording of schema {}, and this shardlab reads schema 2", path, schema.dump());
}

// The lines up to "end"; the text after it is raw, too.
void split_lines(const std::string& text, RecordingFile& file) {
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    if (end == std::string::npos) break;  // a line that was not finished
    file.lines.push_back(text.substr(start, end - start));
    start = end + 1;
    if (file.lines.back().starts_with("{\"k\":\"end\"")) {
      file.raw = text.substr(start);
      return;
    }
  }
  refuse(file.path,
         fmt::format("the file is cut short after event {}: it has no end", file.lines.size()));
}

void check_end(const RecordingFile& file) {
  const Json end = parsed(file.lines.back());
  const auto number = [&](const char* key) {
    const Json value = end.value(key, Json());
    return value.is_number_unsigned() ? integer_of<std::size_t>(value) : std::size_t{0};
  };
  // With the last line, or without it.
  const std::size_t events = number("events");
  if (events != file.lines.size() && events + 1 != file.lines.size()) {
    refuse(file.path, fmt::format("the last line counts {} events, and there are {}",
                                  end.value("events", Json()).dump(), file.lines.size()));
  }
  if (number("raw") == file.raw.size()) return;
  refuse(file.path, fmt::format("{} bytes of elements follow the last line, which says {}",
                                file.raw.size(), end.value("raw", Json()).dump()));
}

}  // namespace

bool is_recording_file(const std::string& path, std::string_view form) {
  std::ifstream in(path, std::ios::binary);
  std::string begin(std::size_t{1} << 14, '\0');
  in.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(in.gcount()));
  if (ZipArchive::begins(begin)) return form == "recording";
  std::string text;
  if (is_gzip(begin)) {
    Inflater inflater(begin);
    if (!inflater.read(text, std::size_t{1} << 12, false)) return false;
  } else {
    text = begin;
  }
  return says_schema(text.substr(0, text.find('\n')), form);
}

RecordingFile read_recording_file(const FileBytes& stored) {
  constexpr std::size_t kMostText = std::size_t{1} << 30;
  const std::string& path = stored.path();
  std::string bytes = stored.text(0, stored.size());
  if (ZipArchive::begins(bytes)) refuse(path, "an archive, and no file of lines");
  RecordingFile file{.path = path, .lines = {}, .raw = {}};
  if (!is_gzip(bytes)) {
    split_lines(bytes, file);
    check_schema(path, file.lines.front());
    check_end(file);
    return file;
  }
  std::string text;
  Inflater inflater(bytes);
  const bool whole = inflater.read(text, kMostText, true);
  check_schema(path, text.substr(0, text.find('\n')));
  if (text.size() >= kMostText) refuse(path, "there is more than 1 GiB of lines");
  if (!whole) refuse(path, "the compressed lines are damaged or cut short");
  split_lines(text, file);
  bytes.erase(0, inflater.taken());
  file.raw = file.raw.empty() ? std::move(bytes) : file.raw + bytes;
  check_end(file);
  return file;
}

RecordingFile read_recording_file(const std::string& path) {
  return read_recording_file(FileBytes::open(path));
}

}  // namespace shardlab
