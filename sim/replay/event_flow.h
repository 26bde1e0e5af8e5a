// event_flow.h - which values an event of a recording reads, makes and overwrites.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "sim/recording/recorded_program.h"

namespace shardlab {

/// It makes values of others, and does not look at them again.
bool makes_values(const RecordedEvent& event);
bool is_collective(const RecordedEvent& event);
/// Its result is its operand.
bool copies(const RecordedEvent& event);
/// Events that take another number on each rank, as the first of the rank's words, and give a mask
/// or indices.
std::set<std::size_t> events_of_own_numbers(const RecordedProgram& program);
/// "c10d.allreduce_.default layers.0  train.py:24": the collective or move, and its line.
std::string moved_by(const RecordedProgram& program, const RecordedEvent& event);
/// An op of random numbers.
bool draws(const std::string& op);
/// Whether all elements of the tensors that it writes are new.
bool overwrites(const RecordedEvent& event);
/// Whether the results depend on that operand: what a rank overwrites, or receives, it does not
/// read.
bool reads(const RecordedProgram& program, const RecordedEvent& event, std::int32_t operand);
/// One past the last event of a line: ranks of one collective have events of their own.
std::size_t end_of_line(const RecordedProgram& program, std::size_t event);
/// The results of the same op at the same line, as this one of an event is, with their events: in
/// each micro-batch and, if `any_module`, in each layer.
std::vector<std::pair<std::size_t, std::int32_t>> results_of_line(const RecordedProgram& program,
                                                                  std::size_t event,
                                                                  std::int32_t value,
                                                                  bool any_module);

}  // namespace shardlab
