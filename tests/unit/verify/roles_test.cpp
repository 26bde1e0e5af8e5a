// The values that a value leads to, by the text of a program.
#include "sim/verify/roles.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/language/syntax/parser.h"

using namespace shardlab;

namespace {

struct Flow {
  explicit Flow(const std::string& code)
      : text(code), uses(parse_program(std::make_shared<const SourceText>("t", code))) {}
  DefUse::Ids of(const std::string& name) const {
    const std::size_t begin = text.find(name + " = ");
    const auto place = static_cast<std::uint32_t>(begin);
    return begin == text.npos ? uses.held_by(name)
                              : made_from(uses, uses.held_by(name, place), place);
  }
  bool leads(const std::string& from, const std::string& to) const {
    const DefUse::Ids made = uses.makes(of(from));
    return std::ranges::any_of(of(to),
                               [&](DefUse::Id id) { return std::ranges::binary_search(made, id); });
  }
  std::string text;
  DefUse uses;
};

}  // namespace

TEST_CASE("V-34 a value that shares memory with an earlier one does not lead where that leads") {
  const Flow flow("full = a.full_tensor()\nc = a * 2\nd = full + 1\n");
  CHECK(flow.leads("a", "c"));
  CHECK(flow.leads("a", "full"));
  CHECK(flow.leads("full", "d"));
  CHECK_FALSE(flow.leads("full", "c"));
}

TEST_CASE("V-34 a further name and one of two values lead where these lead") {
  const Flow flow("y = x * 2\nb = y\ne = y if n > 3 else x\nz = b + e\n");
  CHECK(flow.leads("y", "z"));
  CHECK(flow.leads("b", "z"));
  CHECK(flow.leads("e", "z"));
}
