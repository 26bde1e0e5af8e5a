// The opcodes of plain values alone, so that nothing can be executed.
#include <fmt/format.h>

#include "base/error.h"
#include "sim/autopsy/flight_values.h"
#include "sim/checkpoint/pickle_machine.h"

namespace shardlab {

bool read_flight_pickle(const std::string& path, std::string_view bytes, FlightValues& values) {
  std::size_t begin = 0;
  const PickleEnd end = PickleMachine(bytes, values).run(begin);
  if (end == PickleEnd::kStop || end == PickleEnd::kCut) return end == PickleEnd::kStop;
  fail(ErrorKind::kValue, Fix{"write the dump again"}, "{}: the opcode {} at byte {} {}", path,
       opcode_name(bytes[begin]), begin,
       end == PickleEnd::kUnknown ? "is none of a dump's, and is not executed"
                                  : "does not fit: the pickle is damaged");
}

}  // namespace shardlab
