// The values of two runs, element by element in global order.
#include <fmt/format.h>

#include <cmath>

#include "base/dtype.h"
#include "base/text.h"
#include "sim/files/json_value.h"
#include "sim/report/run_diff.h"

namespace shardlab {

namespace {

// The comparison of two whole values.
struct ValueVerdict {
  enum class Kind : std::uint8_t { kBitwise, kEnvelope, kUndecided, kDifferent };
  Kind kind = Kind::kBitwise;
  std::string text;
};

// The distance from the single-device run in f64 that a run allows; empty if it was not verified.
std::optional<double> allowed_of(const Json& value) {
  if (!value.contains("verdict")) return std::nullopt;
  const Json& allowed = value.at("allowed");
  return number_of(allowed);
}

double allowed_for(const Json& a, const Json& b, const Json& whole_a, const Json& whole_b) {
  const auto one = allowed_of(a), other = allowed_of(b);
  if (one && other) return *one + *other;
  const auto dtype = parse_dtype(whole_a.at("dtype").get<std::string>());
  const double scale =
      std::max(whole_a.at("largest").get<double>(), whole_b.at("largest").get<double>());
  return dtype ? 32 * unit_roundoff(*dtype) * scale : 0;
}

// Row-major `element` of `shape`, as "[3, 1]".
std::string index_text(std::size_t element, const Json& shape) {
  std::vector<std::size_t> index(shape.size());
  for (std::size_t dim = shape.size(); dim-- > 0;) {
    const auto size = integer_of<std::size_t>(shape[dim]);
    index[dim] = size > 0 ? element % size : 0;
    element = size > 0 ? element / size : 0;
  }
  return fmt::format("[{}]", text_of_list(index, ", "));
}

bool same_element(const Json& a, const Json& b, double allowed) {
  if (a == b) return true;
  const double x = number_of(a), y = number_of(b);
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (std::isinf(x) || std::isinf(y)) return x == y;
  return allowed > 0 && std::fabs(x - y) <= allowed;
}

std::string element_difference(const Json& a, const Json& b, std::size_t element, const Json& shape,
                               double allowed) {
  const double off = std::fabs(number_of(a) - number_of(b));
  return fmt::format("element {} is {} in A and {} in B: off by {:.3g}, {}",
                     index_text(element, shape), a.dump(), b.dump(), off,
                     allowed > 0 ? fmt::format("both envelopes together allow {:.3g}", allowed)
                                 : std::string("both runs are exact there"));
}

ValueVerdict compare_whole(const Json& a, const Json& b, double allowed) {
  if (a.at("shape") != b.at("shape") || a.at("dtype") != b.at("dtype")) {
    return {
        ValueVerdict::Kind::kDifferent,
        fmt::format("{}{} in A, {}{} in B", a.at("dtype").get<std::string>(), a.at("shape").dump(),
                    b.at("dtype").get<std::string>(), b.at("shape").dump())};
  }
  if (a.at("hash") == b.at("hash")) return {};
  const Json &elements_a = a.at("elements"), &elements_b = b.at("elements");
  const auto count = integer_of<std::size_t>(a.at("count"));
  const std::size_t common = std::min(elements_a.size(), elements_b.size());
  const std::size_t width = a.at("dtype") == "c64" || a.at("dtype") == "c128" ? 2 : 1;
  for (std::size_t i = 0; i < common; ++i) {
    if (same_element(elements_a[i], elements_b[i], allowed)) continue;
    return {ValueVerdict::Kind::kDifferent,
            element_difference(elements_a[i], elements_b[i], i / width, a.at("shape"), allowed)};
  }
  if (common == count * width) return {ValueVerdict::Kind::kEnvelope, {}};
  const std::string text = fmt::format(
      "the first {} of {} elements agree, the hashes of all differ", common / width, count);
  if (allowed == 0) return {ValueVerdict::Kind::kDifferent, text};
  return {ValueVerdict::Kind::kUndecided, text + ": compare them with run --json --values all"};
}

struct ValueDiff {
  DiffSection build() {
    if (a_.contains("error") || b_.contains("error")) {
      return {"values", "not compared: a run that fails verifies none", {}, false};
    }
    if (other_products(a_, b_)) {
      return {
          "values",
          fmt::format("not compared: products of {} in A and of {} in B add up in another "
                      "order; run both in builds with one -Dcpu",
                      a_.at("products").get<std::string>(), b_.at("products").get<std::string>()),
          {},
          false};
    }
    for (const Json& value : a_.at("values")) {
      const Json* other = same_value(b_, value);
      if (other == nullptr) {
        differ(value, "only A has it");
      } else {
        compare(value, *other);
      }
    }
    for (const Json& value : b_.at("values")) {
      if (same_value(a_, value) == nullptr) differ(value, "only B has it");
    }
    const auto [bitwise, envelope, undecided, differing] = counts_;
    section_.name = "values";
    section_.text = fmt::format("{} bitwise, {} within the envelope", bitwise, envelope);
    if (undecided > 0) section_.text += fmt::format(", {} undecided", undecided);
    const std::size_t different = section_.differences.size() - undecided;
    if (different > 0) section_.text += fmt::format(", {} different", different);
    if (types_ > 0) {
      section_.text += fmt::format(", {} by type only ({})", types_, why_types_only());
      section_.compared = bitwise + envelope > 0;
    }
    return section_;
  }

  std::string why_types_only() const {
    for (const Json* run : {&a_, &b_}) {
      if (run->contains("not_verified")) return run->at("not_verified").get<std::string>();
    }
    return "elements come with run --json --values all";
  }

  void differ(const Json& value, const std::string& text) {
    const std::string at = value.contains("at") ? value.at("at").get<std::string>() + "\n" : "";
    section_.differences.push_back(
        {about_value(value), at + text, integer_or<std::size_t>(value, "event", 0)});
  }

  void compare(const Json& a, const Json& b) {
    if (a_.at("mesh") == b_.at("mesh") && a.at("type") != b.at("type")) {
      return differ(a, fmt::format("is {} in A and {} in B", a.at("type").get<std::string>(),
                                   b.at("type").get<std::string>()));
    }
    if (!a.contains("whole") || !b.contains("whole")) {
      ++types_;
      return;
    }
    ValueVerdict worst;
    for (const Json& whole : a.at("whole")) {
      for (const Json& other : b.at("whole")) {
        if (whole.at("rank") != other.at("rank")) continue;
        ValueVerdict verdict = compare_whole(whole, other, allowed_for(a, b, whole, other));
        if (verdict.kind > worst.kind) worst = std::move(verdict);
      }
    }
    ++counts_[static_cast<std::size_t>(worst.kind)];
    if (worst.kind <= ValueVerdict::Kind::kEnvelope) return;
    std::string text = worst.text;
    if (a_.at("seed") != b_.at("seed")) {
      text += "\nthe seeds differ, and with them random inputs and draws";
    }
    differ(a, text);
  }

  const Json& a_;
  const Json& b_;
  DiffSection section_;
  std::size_t counts_[4] = {}, types_ = 0;  // compared values, by kind, and others
};

}  // namespace

bool other_products(const Json& a, const Json& b) {
  return a.contains("products") && b.contains("products") && a.at("products") != b.at("products");
}

const Json* same_value(const Json& run, const Json& value) {
  for (const Json& other : run.at("values")) {
    const bool same = other.at("name") == value.at("name");
    if (same && other.at("occurrence") == value.at("occurrence")) return &other;
  }
  return nullptr;
}

std::string about_value(const Json& value) {
  const auto occurrence = integer_of<std::int64_t>(value.at("occurrence"));
  return fmt::format("value {}{}", value.at("name").get<std::string>(),
                     occurrence > 0 ? fmt::format(", assignment {}", occurrence + 1) : "");
}

DiffSection diff_values(const Json& a, const Json& b) { return ValueDiff{a, b}.build(); }

}  // namespace shardlab
