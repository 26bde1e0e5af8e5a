// Errors as bytes, causes included.
#include "backends/process/messages.h"

#include <utility>

namespace shardlab::process {

void put(Writer& writer, const Error& error) {
  writer.all(error.kind(), error.summary(), error.parts(), error.cause() != nullptr);
  if (error.cause() != nullptr) put(writer, *error.cause());
}

Error get_error(Reader& reader) {
  const auto kind = reader.get<ErrorKind>();
  Error error(kind, reader.text());
  for (const auto& [key, value] : reader.read<std::vector<std::pair<std::string, std::string>>>()) {
    error.with(key, value);
  }
  if (reader.get<bool>()) error.caused_by(get_error(reader));
  return error;
}

}  // namespace shardlab::process
