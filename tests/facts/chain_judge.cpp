// Values are compared as the facts' README says: shapes and dtypes equal, integers and bools bit
// for bit, NaN with NaN, infinities with their sign, and floats within a tolerance relative to the
// largest expected one, which was found for each program with perturbed runs of the reference.
#include "tests/facts/chain_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace shardlab {

namespace {

std::string type_text(DType dtype, const Dims& shape) {
  return fmt::format("{}[{}]", to_string(dtype), text_of_list(shape, ", "));
}

std::string element_text(const ChainTensor& expected, std::size_t index, std::string number) {
  Dims place(expected.shape.size());
  auto rest = static_cast<std::int64_t>(index);
  for (std::size_t dim = place.size(); dim-- > 0;) {
    place[dim] = rest % expected.shape[dim];
    rest /= expected.shape[dim];
  }
  return fmt::format("{} at [{}] of {}", number, text_of_list(place, ", "),
                     type_text(expected.dtype, expected.shape));
}

struct Difference {
  std::string expected, got;
};

class Comparer {
 public:
  explicit Comparer(const ChainFact& fact)
      : tolerance_(chain_tolerance(fact.coarsest)), signed_zero_(fact.signed_zero) {}

  std::optional<Difference> compare(const ChainTensor& expected, const GlobalValue& got) const {
    if (expected.dtype != got.meta.dtype || expected.shape != got.meta.shape) {
      return Difference{type_text(expected.dtype, expected.shape),
                        type_text(got.meta.dtype, got.meta.shape)};
    }
    for (std::size_t i = 0; i < expected.integers.size(); ++i) {
      if (expected.integers[i] == got.integers[i]) continue;
      return at(expected, i, expected.integers[i], got.integers[i]);
    }
    double largest = 0;
    for (const double number : expected.reals) {
      if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
    }
    const double allowed = tolerance_ * std::max(0.1, largest);
    for (std::size_t i = 0; i < expected.reals.size(); ++i) {
      if (agree(expected.reals[i], got.reals[i], allowed)) continue;
      return at(expected, i, expected.reals[i], got.reals[i]);
    }
    return std::nullopt;
  }

 private:
  template <typename T>
  static Difference at(const ChainTensor& expected, std::size_t index, T wanted, T got) {
    return {element_text(expected, index, fmt::format("{}", wanted)),
            element_text(expected, index, fmt::format("{}", got))};
  }

  bool agree(double expected, double got, double allowed) const {
    if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got);
    if (std::isinf(expected) || std::isinf(got)) return expected == got;
    if (signed_zero_ && expected == 0 && got == 0) {
      return std::signbit(expected) == std::signbit(got);
    }
    return std::fabs(expected - got) <= allowed;
  }

  double tolerance_;
  bool signed_zero_;
};

ChainVerdict wrong(std::string field, std::string expected, std::string got) {
  return {ChainOutcome::kWrong, std::move(field), std::move(expected), std::move(got), ""};
}

ChainVerdict judge_values(const ChainFact& fact, const ChainRun& run) {
  if (!run.fault.empty()) return wrong("", "the same on all ranks", run.fault);
  const Comparer comparer(fact);
  for (const auto* list : {&fact.values, &fact.gradients}) {
    for (const ChainExpected& expected : *list) {
      const auto found = run.values.find(expected.name);
      const bool here = found != run.values.end();
      if (!expected.value) {
        if (here) return wrong(expected.name, "no gradient", "a gradient");
        continue;
      }
      if (!here) return wrong(expected.name, "a tensor", "none");
      if (const auto difference = comparer.compare(*expected.value, found->second)) {
        return wrong(expected.name, difference->expected, difference->got);
      }
    }
  }
  return {};
}

// The part of a message in quotes, or else the whole message.
std::string quoted(const std::string& message) {
  const std::size_t first = message.find('\'');
  const std::size_t last = message.find('\'', first + 1);
  if (first == std::string::npos || last == std::string::npos) return message;
  return message.substr(first + 1, last - first - 1);
}

// "mm" of "mm(f32[4@dp, 3], ...)", "aten::view" of "aten::view: ...".
std::string op_of(const Error& error) {
  const std::string& summary = error.summary();
  if (summary.starts_with("aten::")) return summary.substr(0, summary.find_first_of(":( ", 6));
  const std::string* op = error.find("op");
  return op == nullptr ? "" : op->substr(0, op->find_first_of("( "));
}

bool names_placement(const Error& error) {
  const std::string* op = error.find("op");
  return error.find("placements") != nullptr || (op != nullptr && op->find('@') != op->npos);
}

std::string error_text(const ChainRun& run) {
  return fmt::format("line {}: {}: {}", run.error_line, to_string(run.error->kind()),
                     run.error->summary());
}

ChainVerdict judge_error(const ChainFact& fact, const ChainRun& run, bool drawn) {
  const Error& error = *run.error;
  if (run.before_run) {
    return {ChainOutcome::kNotSupported, "", "", "", quoted(error.summary())};
  }
  const bool unsupported = error.kind() == ErrorKind::kUnsupported;
  const bool at_its_line = fact.error_line == run.error_line;
  if (at_its_line && !unsupported && error.kind() != ErrorKind::kInternal) return {};
  if (!drawn && unsupported) {
    return {ChainOutcome::kNotSupported, "", "", "", error.summary()};
  }
  const bool early = fact.error_line == 0 || run.error_line <= fact.error_line;
  const bool told = !op_of(error).empty() && names_placement(error);
  if (drawn && early && told && error.kind() != ErrorKind::kInternal) {
    return {ChainOutcome::kRefused, "", "", error_text(run), op_of(error)};
  }
  return wrong("error", fact.error_line == 0 ? "none" : fmt::format("line {}", fact.error_line),
               error_text(run));
}

}  // namespace

ChainVerdict judge_chain(const ChainFact& fact, const ChainRun& run, bool drawn) {
  if (run.error) return judge_error(fact, run, drawn);
  if (fact.error_line != 0) {
    return wrong("error", fmt::format("line {}", fact.error_line), "none");
  }
  return judge_values(fact, run);
}

}  // namespace shardlab
