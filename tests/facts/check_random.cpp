// Random ops promise a law, not a stream: shape and dtype, the range of their values, mean,
// standard deviation and quantiles. Two samples of one law differ; a difference of up to five
// standard errors is accepted.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "dispatch/plain_calls.h"
#include "tensor/host.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/kernel_facts.h"
#include "tests/facts/plain_world.h"
#include "tests/facts/propagate_facts.h"
#include "tests/facts/recorded_event.h"
#include "tests/facts/value_case.h"

namespace shardlab {

namespace {

constexpr double kStandardErrors = 5;
constexpr double kQuantileShares[] = {0.01, 0.25, 0.50, 0.75, 0.99};

// Numbers as a tensor of this dtype holds them.
std::vector<double> rounded_to(DType dtype, const std::vector<double>& numbers, Device& device) {
  const Tensor tensor = empty(device, Dims{static_cast<std::int64_t>(numbers.size())}, dtype);
  write_doubles(tensor, numbers);
  return read_doubles(tensor);
}

// The numbers that follow `word` in a text: "weights 0.1,0.2,0.7".
std::vector<double> numbers_behind(const std::string& text, std::string_view word) {
  std::vector<double> numbers;
  std::size_t at = text.find(word);
  if (at == std::string::npos) return numbers;
  const char* next = text.c_str() + at + word.size();
  for (char* end = nullptr;; next = end + (*end == ',' ? 1 : 0)) {
    const double number = std::strtod(next, &end);
    if (end == next) return numbers;
    numbers.push_back(number);
  }
}

// The range of the values of a law.
struct Support {
  double low = -INFINITY, high = INFINITY;
  bool with_low = true, with_high = true;
  bool whole = false;           ///< integers alone
  bool permutation = false;     ///< every one of 0 to n-1, once
  std::vector<double> members;  ///< not empty: these alone

  bool holds(double x) const {
    if (std::isnan(x)) return false;
    if (!members.empty()) return std::ranges::count(members, x) > 0;
    if (whole && x != std::floor(x)) return false;
    return (with_low ? x >= low : x > low) && (with_high ? x <= high : x < high);
  }
};

// "[0,1)" or "(0,inf)".
Support interval_of(const std::string& text) {
  const std::size_t comma = text.find(',');
  return {.low = std::strtod(text.c_str() + 1, nullptr),
          .high = std::strtod(text.c_str() + comma + 1, nullptr),
          .with_low = text.front() == '[',
          .with_high = text.back() == ']'};
}

// "{0..9}", "{1,2,...}", "{0, 1/(1-p)}" or "{0,1,2}".
Support set_of(const std::string& text, double p) {
  const double first = std::strtod(text.c_str() + 1, nullptr);
  if (text.ends_with(",...}")) return {.low = first, .with_high = false, .whole = true};
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    return {.low = first, .high = std::strtod(text.c_str() + dots + 2, nullptr), .whole = true};
  }
  if (text == "{0, 1/(1-p)}") return {.members = {0, 1 / (1 - p)}};
  return {.members = numbers_behind(text, "{")};
}

Support support_of(const Json& fact) {
  const auto text = fact.at("support").get<std::string>();
  if (text == "all reals") return {.with_low = false, .with_high = false};
  if (text == "a permutation of 0..n-1") return {.permutation = true};
  if (text.starts_with('[') || text.starts_with('(')) return interval_of(text);
  if (text.starts_with('{')) {
    const Json& args = fact.at("args");
    return set_of(text, args.size() > 1 && args[1].is_number() ? args[1].get<double>() : 0);
  }
  fail(ErrorKind::kValue, Fix{"name an interval, a set, \"all reals\" or a permutation"},
       "\"{}\" is no support of a law", text);
}

// Ends and members as tensors of this dtype hold them: a value drawn near an end is rounded to it.
Support in_dtype(Support support, DType dtype, Device& device) {
  // The mask that is a second result has one bool per element: kept or not.
  if (dtype == DType::kBool) return {.members = {0, 1}};
  if (!support.members.empty()) support.members = rounded_to(dtype, support.members, device);
  if (!is_floating(dtype)) return support;
  const auto ends = rounded_to(dtype, {support.low, support.high}, device);
  support.low = ends[0];
  support.high = ends[1];
  return support;
}

struct Moments {
  double mean = 0, std = 0;
  double fourth = 0;  ///< the fourth central one
};

Moments moments_of(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  Moments moments;
  for (const double x : values) moments.mean += x;
  moments.mean /= n;
  double squares = 0;
  for (const double x : values) {
    const double square = (x - moments.mean) * (x - moments.mean);
    squares += square;
    moments.fourth += square * square / n;
  }
  moments.std = std::sqrt(squares / (n - 1));
  return moments;
}

// One result that was drawn, against one that was recorded.
class LawJudge {
 public:
  LawJudge(const Json& recorded, const Support& support, std::string field, double draws,
           CaseReport& report)
      : recorded_(recorded),
        support_(support),
        field_(std::move(field)),
        draws_(draws),
        report_(report) {}

  void judge(const Tensor& drawn) {
    const Dims shape = dims_of(recorded_.at("shape"));
    const DType dtype = dtype_of(recorded_.at("dtype"));
    if (drawn.shape() != shape || drawn.dtype() != dtype) {
      return report_.differs(
          field_, recorded_.at("dtype").get<std::string>() + recorded_.at("shape").dump(),
          fmt::format("{}{}", to_string(drawn.dtype()), Json(drawn.shape()).dump()));
    }
    std::vector<double> values = read_doubles(drawn);
    std::ranges::sort(values);
    judge_support(values);
    judge_moments(values);
    judge_quantiles(values, dtype);
  }

 private:
  // `sorted`: the values in ascending order.
  void judge_support(const std::vector<double>& sorted) {
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const bool inside =
          support_.permutation ? sorted[i] == static_cast<double>(i) : support_.holds(sorted[i]);
      if (inside) continue;
      return report_.differs(field_ + ".support", "values of the support",
                             fmt::format("{}", sorted[i]));
    }
  }

  void judge_moments(const std::vector<double>& values) {
    const Moments ours = moments_of(values);
    const auto n = static_cast<double>(values.size());
    const double both = std::sqrt(1 / n + 1 / draws_);
    near("mean", recorded_.at("mean").get<double>(), ours.mean, ours.std * both);
    if (ours.std == 0) return near("std", recorded_.at("std").get<double>(), 0, 0);
    // The variance of s^2 is (m4 - s^4) / n, that of s a 4 s^2 th of it.
    const double variance = ours.std * ours.std;
    const double spread = std::max(ours.fourth - variance * variance, 0.0);
    near("std", recorded_.at("std").get<double>(), ours.std,
         std::sqrt(spread) / (2 * ours.std) * both);
  }

  // The share of draws below a quantile is at most its share, that up to it at least as much. A law
  // may be rounded to its dtype or drawn in as many steps: a place is known only to one rounding.
  void judge_quantiles(const std::vector<double>& sorted, DType dtype) {
    const Json& quantiles = recorded_.at("quantiles_1_25_50_75_99");
    const auto n = static_cast<double>(sorted.size());
    const double step = is_floating(dtype) ? unit_roundoff(dtype) : 0;
    const double width = quantiles.back().get<double>() - quantiles.front().get<double>();
    for (std::size_t i = 0; i < std::size(kQuantileShares); ++i) {
      const double at = quantiles.at(i).get<double>(), share = kQuantileShares[i];
      const double room = step * (std::fabs(at) + width);
      const auto from = std::ranges::lower_bound(sorted, at - room);
      const auto to = std::ranges::upper_bound(sorted, at + room);
      const double below = static_cast<double>(from - sorted.begin()) / n;
      const double up_to = static_cast<double>(to - sorted.begin()) / n;
      near(fmt::format("quantiles.{}", i), share, std::clamp(share, below, up_to),
           std::sqrt(share * (1 - share) * (1 / n + 1 / draws_)));
    }
  }

  void near(const std::string& what, double expected, double got, double standard_error) {
    // Sums of many numbers are rounded.
    const double room = kStandardErrors * standard_error + 1e-9 * std::fabs(expected);
    if (std::fabs(got - expected) <= room) return;
    report_.differs(fmt::format("{}.{}", field_, what), expected, got);
  }

  const Json& recorded_;
  const Support& support_;
  std::string field_;
  double draws_;
  CaseReport& report_;
};

class RandomChecker final : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const OpRow* row = fact_row(fact);
    if (row == nullptr) return report.skip(SkipReason::kNotRegistered);
    world_.run(report, [&] { judge(*row, fact, report); });
  }

 private:
  // A tensor of one number; for a tensor of several, the numbers after "weights" in the note.
  DTensor filled(const Json& given, const std::string& note) {
    const Tensor tensor =
        empty(world_.device(), dims_of(given.at("shape")), dtype_of(given.at("dtype")));
    std::vector<double> elements = numbers_behind(note, "weights ");
    if (elements.empty()) {
      elements.assign(static_cast<std::size_t>(tensor.numel()), given.at("fill").get<double>());
    }
    write_doubles(tensor, elements);
    return DTensor(tensor);
  }

  void judge(const OpRow& row, const Json& fact, CaseReport& report) {
    const auto note = fact.at("note").get<std::string>();
    const ArgumentOf tensor = [&](const Json& object) -> std::optional<Argument> {
      if (!object.contains("fill")) return std::nullopt;
      return filled(object, note);
    };
    Arguments args;
    for (const Json& arg : fact.at("args")) args.push_back(recorded_argument(arg, tensor));
    std::vector<std::pair<std::string, Argument>> kwargs;
    for (const auto& [name, arg] : fact.at("kwargs").items()) {
      kwargs.emplace_back(name, recorded_argument(arg, tensor));
    }
    const Results results =
        plain_calls().call(row, bind_arguments(row, with_numbered_dtypes(row, args), kwargs));
    const Json& outputs = fact.at("outputs");
    report.expect("outputs", outputs.size(), results.size());
    const Support support = support_of(fact);
    for (std::size_t i = 0; i < std::min(results.size(), outputs.size()); ++i) {
      const Tensor& drawn = results[i].tensor().local();
      const Support held = in_dtype(support, drawn.dtype(), world_.device());
      LawJudge(outputs[i], held, fmt::format("outputs.{}", i), fact.at("draws").get<double>(),
               report)
          .judge(drawn);
    }
  }

  PlainWorld world_;
};

}  // namespace

std::unique_ptr<FactChecker> make_random_checker(std::string_view) {
  return std::make_unique<RandomChecker>();
}

}  // namespace shardlab
