// The breadth probe: every schema of the propagation facts is in the table of ATen, parses, and
// prints as it was written.
#include <cstdio>

#include "schema/aten_schemas.h"
#include "schema/binder.h"
#include "sim/files/json_value.h"
#include "sim/files/text_lines.h"

int main(int argc, char** argv) {
  using namespace shardlab;
  if (argc != 2) return 2;
  std::string text;
  for (const std::string& line : read_lines(argv[1])) text += line;
  int parsed = 0, wrong = 0;
  const auto facts = nlohmann::json::parse(text);  // outlives the loop
  for (const auto& op : facts["ops"]) {
    const auto schema = op["schema"].get<std::string>();
    try {
      const OpDescriptor descriptor = parse_op_schema(schema);
      for (const SchemaArgument& argument : descriptor.arguments) parse_default(argument);
      if (descriptor.text() == schema && aten_schema(descriptor.name()) == schema) {
        ++parsed;
        continue;
      }
      std::printf("read   %s\nprints %s\n", schema.c_str(), descriptor.text().c_str());
    } catch (const Error& error) {
      std::printf("%s\n", error.what());
    }
    ++wrong;
  }
  std::printf("%d schemas read, %d wrong\n", parsed, wrong);
  return parsed == 1751 && wrong == 0 ? 0 : 1;
}
