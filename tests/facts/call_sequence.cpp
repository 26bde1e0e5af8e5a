// Values are numbered from the first reading on, so that a sequence can be run many times.
#include "tests/facts/call_sequence.h"

#include <algorithm>

#include "autograd/program.h"
#include "base/error.h"
#include "dispatch/plain_calls.h"
#include "sim/proof/sample_call.h"
#include "sim/run/reference_calls.h"
#include "tests/facts/recorded_event.h"

namespace shardlab {

namespace {

class SequenceReader {
 public:
  explicit SequenceReader(const Json& line) : line_(line) {}

  CallSequence read() {
    sequence_.id = line_.at("id").get<std::string>();
    sequence_.random = line_.value("random", false);
    sequence_.opinfo = line_.at("opinfo").get<std::string>();
    const auto variant = line_.value("variant", std::string());
    if (!variant.empty()) sequence_.opinfo += "/" + variant;
    for (const Json& input : line_.at("inputs")) {
      sequence_.inputs.push_back(read_recorded_tensor(input.at("t")));
    }
    // Results are numbered after the constants, which are counted first.
    constants_ = sequence_.inputs.size();
    const Json& calls = line_.at("calls");
    std::size_t next = constants_ + count_constants(calls);
    for (const Json& call : calls) {
      first_.push_back(next);
      next += call.at("out").size();
    }
    sequence_.values = next;
    for (const Json& call : calls) read_call(call);
    for (const Json& output : line_.at("outputs")) read_output(output);
    return std::move(sequence_);
  }

 private:
  static std::size_t count_constants(const Json& json) {
    if (json.is_object() && json.contains("t")) return 1;
    std::size_t count = 0;
    if (!json.is_structured()) return 0;
    for (const Json& item : json) count += count_constants(item);
    return count;
  }

  std::size_t number_of_reference(const Json& reference) const {
    if (reference.contains("in")) {
      const auto input = integer_of<std::size_t>(reference.at("in"));
      if (input < sequence_.inputs.size()) return input;
    } else {
      const auto call = integer_of<std::size_t>(reference.at("ref"));
      const auto result = integer_or<std::size_t>(reference, "i", 0);
      // Results of calls that are still to come are no values yet.
      const std::size_t known = std::min(first_.size(), sequence_.calls.size());
      const auto end = [&] {
        return call + 1 < first_.size() ? first_[call + 1] : sequence_.values;
      };
      if (call < known && first_[call] + result < end()) return first_[call] + result;
    }
    fail(ErrorKind::kValue, Fix{"name an input or a result of an earlier call"},
         "{} is no value of the sequence", reference.dump());
  }

  Argument argument(const Json& json, SequenceCall& call) {
    return recorded_argument(json, [&](const Json& object) -> std::optional<Argument> {
      std::size_t number = 0;
      if (object.contains("t")) {
        number = constants_ + sequence_.constants.size();
        sequence_.constants.push_back(read_recorded_tensor(object.at("t")));
      } else if (object.contains("in") || object.contains("ref")) {
        number = number_of_reference(object);
      } else {
        return std::nullopt;
      }
      call.takes.push_back(number);
      return fmt::format("${}", number);
    });
  }

  void read_call(const Json& json) {
    SequenceCall call;
    call.op = json.at("op").get<std::string>();
    call.row = fact_row(json);
    call.first = first_[sequence_.calls.size()];
    for (const Json& arg : json.at("args")) call.args.push_back(argument(arg, call));
    for (const auto& [name, value] : json.at("kwargs").items()) {
      call.kwargs.emplace_back(name, argument(value, call));
    }
    for (const Json& out : json.at("out")) call.out.push_back(recorded_output(out));
    sequence_.calls.push_back(std::move(call));
  }

  // A number that the sample gives is the result of the last call that gives one; where none does,
  // it comes from sizes, which the calls do not see.
  void read_output(const Json& json) {
    if (json.contains("from")) {
      sequence_.outputs.push_back(
          {number_of_reference(json.at("from")), recorded_output(json.at("t"))});
      return;
    }
    const RecordedOutput number = recorded_output(json);
    for (std::size_t n = sequence_.calls.size(); n-- > 0;) {
      const SequenceCall& call = sequence_.calls[n];
      if (call.out.size() != 1 || !call.out[0].scalar) continue;
      sequence_.outputs.push_back({call.first, number});
      return;
    }
  }

  const Json& line_;
  CallSequence sequence_;
  std::size_t constants_ = 0;       // number of the first one
  std::vector<std::size_t> first_;  // number of each call's first result
};

}  // namespace

CallSequence read_sequence(const Json& line) { return SequenceReader(line).read(); }

DTensor in_reference_precision(const DTensor& given) {
  const DType wide = reference_dtype(given.dtype());
  return wide == given.dtype() ? given : plain_calls().one("aten::_to_copy", {given, wide});
}

ResolvedCall bound_call(const SequenceCall& call, const Arguments& values) {
  const auto value = [&](std::size_t number) { return values.at(number); };
  GivenArguments given;
  for (const Argument& arg : call.args) given.positional.push_back(filled_in(arg, value));
  for (const auto& [name, arg] : call.kwargs) {
    given.keywords.emplace_back(name, filled_in(arg, value));
  }
  return recorded_call(*call.row, given);
}

Arguments run_bound(const SequenceCall& call, const ResolvedCall& bound) {
  Arguments results;
  for_each_flat(program_calls().perform(OpEvent{bound.row, &bound.args}),
                [&](const Argument& result) { results.push_back(result); });
  const bool nothing = results.empty() && call.out.size() == 1 && !call.out[0].defined;
  if (nothing) results.emplace_back();
  if (results.size() == call.out.size()) return results;
  fail(ErrorKind::kValue, Fix{"look at the schema"}, "{} gives {} results, {} are recorded",
       call.op, results.size(), call.out.size());
}

}  // namespace shardlab
