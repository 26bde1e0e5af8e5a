// XML by hand. Text that comes from programs and errors may hold any bytes: bytes that are no
// character of XML become U+FFFD, so that the file can always be parsed.
#include "sim/report/junit.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "sim/language/syntax/characters.h"

namespace shardlab {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// Bytes of the UTF-8 character that `text` begins with; 0 when there is none, or XML has no such
// character.
std::size_t character_size(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return first >= 0x20 || first == '\n' || first == '\t' || first == '\r' ? 1 : 0;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < size) return 0;
  std::uint32_t point = first & (0xFFu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (starts_character(text[i])) return 0;
    point = point << 6 | (static_cast<unsigned char>(text[i]) & 0x3Fu);
  }
  const bool overlong = point < (size == 2 ? 0x80u : size == 3 ? 0x800u : 0x10000u);
  const bool surrogate = point >= 0xD800 && point < 0xE000;
  const bool no_character = point == 0xFFFE || point == 0xFFFF || point > 0x10FFFF;
  return overlong || surrogate || no_character ? 0 : size;
}

// For text and for attributes, where a parser would turn line breaks into blanks.
std::string escaped(std::string_view text) {
  static constexpr std::pair<char, std::string_view> kNames[] = {
      {'&', "&amp;"},   {'<', "&lt;"},   {'>', "&gt;"},  {'"', "&quot;"},
      {'\'', "&apos;"}, {'\n', "&#10;"}, {'\t', "&#9;"}, {'\r', "&#13;"}};
  std::string result;
  while (!text.empty()) {
    const auto* name =
        std::ranges::find_if(kNames, [&](const auto& one) { return one.first == text[0]; });
    const std::size_t size = character_size(text);
    if (name != std::end(kNames)) {
      result += name->second;
    } else if (size == 0) {
      result += kReplacement;
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string folder_of(const std::string& file) {
  const std::size_t slash = file.rfind('/');
  return slash == std::string::npos ? "." : file.substr(0, slash);
}

std::string counts_text(const std::vector<const TestReport*>& reports) {
  const auto count = [&](TestReport::Verdict verdict) {
    return std::ranges::count_if(reports,
                                 [&](const TestReport* one) { return one->verdict == verdict; });
  };
  double seconds = 0;
  for (const TestReport* one : reports) seconds += one->seconds;
  return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\"",
                     reports.size(), count(TestReport::Verdict::kFailed),
                     count(TestReport::Verdict::kError), count(TestReport::Verdict::kSkipped),
                     seconds);
}

// The counts of a run's verified values; nothing of a case that did not run.
std::string properties(const TestReport& report) {
  if (!report.values) return "";
  const auto property = [](std::string_view name, std::int64_t count) {
    return fmt::format("        <property name=\"{}\" value=\"{}\"/>\n", name, count);
  };
  std::string text = "      <properties>\n";
  for (std::size_t i = 0; i < kOutcomes; ++i) {
    const auto outcome = static_cast<Outcome>(i);
    if (outcome != Outcome::kPartOfCause)
      text += property(key_of(outcome), (*report.values)[outcome]);
  }
  return text + property("not_verified", report.values->not_verified) + "      </properties>\n";
}

std::string case_xml(const TestReport& report) {
  const std::string head = fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.3f}\"",
                                       escaped(report.file), escaped(report.name), report.seconds);
  const std::string counts = properties(report);
  if (report.verdict == TestReport::Verdict::kPassed) {
    return counts.empty() ? head + "/>\n" : fmt::format("{}>\n{}    </testcase>\n", head, counts);
  }
  if (report.verdict == TestReport::Verdict::kSkipped) {
    return fmt::format("{}>\n      <skipped message=\"{}\"/>\n    </testcase>\n", head,
                       escaped(report.message));
  }
  const char* kind = report.verdict == TestReport::Verdict::kFailed ? "failure" : "error";
  return fmt::format("{0}>\n{4}      <{1} message=\"{2}\">{3}</{1}>\n    </testcase>\n", head, kind,
                     escaped(report.message), escaped(report.text), counts);
}

}  // namespace

std::string github_annotation(const TestReport& report) {
  const auto encoded = [](std::string_view text, std::string_view special) {
    std::string result;
    for (const char letter : text) {
      const bool kept = special.find(letter) == std::string_view::npos;
      result += kept ? std::string(1, letter) : fmt::format("%{:02X}", static_cast<int>(letter));
    }
    return result;
  };
  const std::string line = report.line > 0 ? fmt::format(",line={}", report.line) : "";
  const bool unreadable = report.verdict == TestReport::Verdict::kError;
  const char* kind = report.verdict == TestReport::Verdict::kPassed ? "warning" : "error";
  return fmt::format("::{} file={}{},title={}::{}\n", kind, encoded(report.file, "%\r\n:,"), line,
                     encoded(report.name, "%\r\n:,"),
                     encoded(unreadable ? report.text : report.message, "%\r\n"));
}

std::string junit_xml(const std::vector<TestReport>& reports) {
  std::vector<const TestReport*> all;
  std::vector<std::pair<std::string, std::vector<const TestReport*>>> suites;
  for (const TestReport& report : reports) {
    all.push_back(&report);
    const std::string folder = folder_of(report.file);
    auto suite =
        std::ranges::find_if(suites, [&](const auto& known) { return known.first == folder; });
    if (suite == suites.end()) suite = suites.insert(suites.end(), {folder, {}});
    suite->second.push_back(&report);
  }
  std::string xml =
      fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"shardlab\" {}>\n",
                  counts_text(all));
  for (const auto& [folder, members] : suites) {
    xml += fmt::format("  <testsuite name=\"{}\" {}>\n", escaped(folder), counts_text(members));
    for (const TestReport* report : members) xml += case_xml(*report);
    xml += "  </testsuite>\n";
  }
  return xml + "</testsuites>\n";
}

}  // namespace shardlab
