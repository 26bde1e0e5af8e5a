// The file that CI systems read: suites by folder, one case per point, and text of any bytes as
// XML.
#include "sim/report/junit.h"

#include <doctest/doctest.h>

using namespace shardlab;

namespace {

using Ended = TestReport::Verdict;

std::string message_in_xml(std::string message) {
  const std::string xml =
      junit_xml({{"a.toml", "a.toml", Ended::kSkipped, std::move(message), ""}});
  const std::size_t first = xml.find("message=\"") + 9;
  return xml.substr(first, xml.find('"', first) - first);
}

}  // namespace

TEST_CASE("B-60 nothing tested is a file that can be read") {
  CHECK(junit_xml({}) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"shardlab\" tests=\"0\" failures=\"0\" errors=\"0\" skipped=\"0\" "
        "time=\"0.000\">\n"
        "</testsuites>\n");
}

TEST_CASE(
    "B-60 suites are folders in the order of their first case, with their own counts and times") {
  CHECK(junit_xml({{"m/a.toml", "m/a.toml", Ended::kPassed, "", "", 0.25},
                   {"b.toml", "b.toml x=2", Ended::kFailed, "y is wrong", "report", 1.5},
                   {"m/c.toml", "m/c.toml", Ended::kError, "no such key", "line 1\nline 2", 0.0004},
                   {"m/d.toml", "m/d.toml", Ended::kSkipped, "needs mpi", "unseen"}}) ==
        R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="shardlab" tests="4" failures="1" errors="1" skipped="1" time="1.750">
  <testsuite name="m" tests="3" failures="0" errors="1" skipped="1" time="0.250">
    <testcase classname="m/a.toml" name="m/a.toml" time="0.250"/>
    <testcase classname="m/c.toml" name="m/c.toml" time="0.000">
      <error message="no such key">line 1&#10;line 2</error>
    </testcase>
    <testcase classname="m/d.toml" name="m/d.toml" time="0.000">
      <skipped message="needs mpi"/>
    </testcase>
  </testsuite>
  <testsuite name="." tests="1" failures="1" errors="0" skipped="0" time="1.500">
    <testcase classname="b.toml" name="b.toml x=2" time="1.500">
      <failure message="y is wrong">report</failure>
    </testcase>
  </testsuite>
</testsuites>
)");
}

TEST_CASE("B-60 marks of XML are written by name, line breaks by number") {
  CHECK(message_in_xml("a < b && c > \"d\" or 'e'") ==
        "a &lt; b &amp;&amp; c &gt; &quot;d&quot; or &apos;e&apos;");
  CHECK(message_in_xml("one\n\ttwo\r") == "one&#10;&#9;two&#13;");
}

TEST_CASE("B-60 characters of UTF-8 stay, what is none becomes U+FFFD, one per byte") {
  const std::string broken = "\xEF\xBF\xBD";
  CHECK(message_in_xml("\xC3\xA4 \xE2\x94\x80 \xF0\x9F\x98\x80") ==
        "\xC3\xA4 \xE2\x94\x80 \xF0\x9F\x98\x80");
  CHECK(message_in_xml(std::string("a\0b", 3)) == "a" + broken + "b");
  CHECK(message_in_xml("\x1B[31m") == broken + "[31m");
  CHECK(message_in_xml("\xFF!") == broken + "!");
  CHECK(message_in_xml("\xC3") == broken);                            // cut short
  CHECK(message_in_xml("\xC0\x80") == broken + broken);               // overlong
  CHECK(message_in_xml("\xE0\x80\xAF") == broken + broken + broken);  // overlong
  CHECK(message_in_xml("\xED\xA0\x80") == broken + broken + broken);  // a surrogate
  CHECK(message_in_xml("\xEF\xBF\xBE") == broken + broken + broken);  // no character of XML
  CHECK(message_in_xml("\xF4\x90\x80\x80") == broken + broken + broken + broken);  // too large
}
