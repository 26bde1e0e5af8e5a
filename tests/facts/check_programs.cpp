// Recorded programs: every line is a call whose operands are results of the lines before it. A call
// that we do not have is skipped, and so are all calls that follow from it. If our answer differs,
// the recorded placements are restored for later calls, so that one difference is one line.
#include "tests/facts/check_programs.h"

#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "schema/op_row.h"
#include "sim/verify/global_value.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/program_player.h"
#include "tests/facts/recorded_form.h"
#include "tests/facts/recorded_moves.h"

namespace shardlab {

namespace {

// Recorded values are f32 from other kernels, and optimizers that divide by roots amplify rounding.
constexpr double kTolerance = 5e-5;

bool close(double expected, double got, double scale, double tolerance) {
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) == std::isnan(got);
  if (std::isinf(expected) || std::isinf(got)) return expected == got;
  return std::fabs(expected - got) <= tolerance * std::max(1.0, scale);
}

std::vector<double> numbers_of(const GlobalValue& value) {
  if (!value.is_integral()) return value.reals;
  return std::vector<double>(value.integers.begin(), value.integers.end());
}

// [sum x_i, sum x_i * ((i mod 7) + 1)], and the same of the magnitudes.
struct FactFingerprint {
  double sums[2] = {0, 0};
  double sizes[2] = {0, 0};

  explicit FactFingerprint(const std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double weight = static_cast<double>(i % 7 + 1);
      sums[0] += values[i];
      sums[1] += values[i] * weight;
      sizes[0] += std::fabs(values[i]);
      sizes[1] += std::fabs(values[i]) * weight;
    }
  }

  bool agrees(const Json& recorded) const {
    return close(number_of(recorded.at(0)), sums[0], sizes[0], kTolerance) &&
           close(number_of(recorded.at(1)), sums[1], sizes[1], kTolerance);
  }
  Json json() const { return {json_number(sums[0]), json_number(sums[1])}; }
};

class ProgramChecker : public FactChecker {
 public:
  void check(const Json& event, CaseReport& report) override {
    if (takes_program("", event)) return begin_program(event);
    if (player_ == nullptr) {
      fail(ErrorKind::kValue, Fix{"see tests/golden/facts/programs/README.md"},
           "the recording's first line does not say on what it ran");
    }
    form_->check(event);
    const std::string kind = event.at("k").get<std::string>();
    const bool calls = kind == "op" || kind == "local_op";
    if (const auto reason = why_not(event, calls)) {
      forget(event);
      const bool ours = *reason != SkipReason::kNoValue;
      if (calls && ours) ++skipped_[event.at("op").get<std::string>()];
      return report.skip(*reason);
    }
    const PlayedEvent played = player_->play(event);
    if (event.contains("error") || played.error) {
      forget(event);
      return compare_errors(event, played, report);
    }
    // If the recorded value is not the one of one device, its moves and collectives are wrong, too.
    const bool compares = !is_root(event);
    if (calls && compares) compare_moves(event, played, report);
    const bool moves = calls || kind.starts_with("redistribute");
    if (moves && compares) compare_collectives(event, played, report);
    note_wrong_values(event);
    compare_results(event, played, report);
    player_->keep(event, played);
  }

  void finish(CheckSummary& summary) override {
    std::vector<std::string> skips;
    for (const auto& [op, count] : skipped_) skips.push_back(fmt::format("{} {}", op, count));
    if (!skips.empty()) {
      summary.notes.push_back(fmt::format("calls skipped by op: {}", text_of_list(skips, ", ")));
    }
    if (better_.empty()) return;
    summary.notes.push_back(
        fmt::format("calls that the reference refuses run here: {}", text_of_list(better_, ", ")));
  }

 private:
  static constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;  // calls are small

  void begin_program(const Json& program) {
    player_ = nullptr;
    form_.emplace(program);
    random_ = !program.at("values").get<bool>();
    player_ = std::make_unique<ProgramPlayer>(program, kMostBytes);
  }

  // Drops the results of a call that is not played; of shapes alone they are in the file.
  void forget(const Json& event) {
    player_->forget(event);
    if (player_->shapes_only()) player_->suppose(event);
  }

  std::optional<SkipReason> why_not(const Json& event, bool calls) const {
    if (!player_->has_operands(event)) return SkipReason::kNoValue;
    if (!calls) return std::nullopt;
    const OpRow* row = fact_row(event);
    if (row == nullptr || !row->runs()) return SkipReason::kNotRegistered;
    return std::nullopt;
  }

  // Calls that the reference refuses may run here; calls that it runs must run here.
  void compare_errors(const Json& event, const PlayedEvent& played, CaseReport& report) {
    if (!event.contains("error")) {
      if (played.error->kind() == ErrorKind::kUnsupported) {
        ++skipped_[event.value("op", event.at("k").get<std::string>())];
        return report.skip(SkipReason::kNotSupported);
      }
      return report.differs("error", nullptr, played.error->text());
    }
    if (!played.error) {
      better_.insert(event.at("op").get<std::string>());
      return;
    }
    const Json& recorded = event.at("error");
    if (same_error(recorded.at("class").get<std::string>(), played.error->kind())) return;
    report.differs("error", recorded, played.error->text());
  }

  // Calls visit(value) for each value that the event returns or writes to.
  template <typename Visit>
  static void for_each_result(const Json& event, const Visit& visit) {
    for (const char* key : {"out", "mut"}) {
      if (!event.contains(key)) continue;
      for (const Json& value : event.at(key)) {
        if (value.is_object() && value.contains("v")) visit(value);
      }
    }
  }

  // The reference's value differs from one device's, though its operands are right.
  bool is_root(const Json& event) const {
    bool differs = false;
    for_each_result(event, [&](const Json& value) { differs |= value.contains("single_fp"); });
    return differs && !takes_wrong(event);
  }

  bool takes_wrong(const Json& event) const {
    bool takes = false;
    for_each_operand(event, [&](std::size_t number) { takes |= wrong_.contains(number); });
    return takes;
  }

  // A value computed from a wrong one is wrong if the file has another one next to it, or if an
  // infinity or NaN hides the difference.
  void note_wrong_values(const Json& event) {
    const bool takes = takes_wrong(event);
    for_each_result(event, [&](const Json& value) {
      const auto number = integer_of<std::size_t>(value.at("v"));
      if (value.contains("single_fp")) {
        wrong_[number] = value.at("single_fp");
      } else if (takes && value.contains("fp") && hides(value.at("fp"))) {
        wrong_[number] = nullptr;
      } else {
        wrong_.erase(number);
      }
    });
  }

  static bool hides(const Json& print) {
    return print.is_array() && !std::isfinite(number_of(print.at(0)));
  }

  // The value that a recorded one is compared with: one device's if the file has it, none if the
  // recorded one is known to be wrong.
  Json print_of(const Json& recorded) const {
    if (recorded.contains("single_fp")) return recorded.at("single_fp");
    const auto wrong = recorded.contains("v")
                           ? wrong_.find(integer_of<std::size_t>(recorded.at("v")))
                           : wrong_.end();
    if (wrong != wrong_.end()) return wrong->second;
    return recorded.contains("fp") ? recorded.at("fp") : Json();
  }

  void compare_moves(const Json& event, const PlayedEvent& played, CaseReport& report) const {
    // A composite op is recorded as its parts.
    if (fact_row(event)->parts() != nullptr || of_loss_parallel(event)) return;
    const Json expected = recorded_moves(event);
    // Moves of operands by a handler before its calls of ops are not in the file.
    if (event.contains("inner") && expected != played.moves) {
      return report.skip_field(SkipReason::kNoInput);
    }
    report.expect("redist", expected, played.moves);
  }

  void compare_collectives(const Json& event, const PlayedEvent& played, CaseReport& report) const {
    const Json expected = recorded_collectives(event, player_->one_rank_recorded());
    const bool inside = event.contains("inner") && list_at(event, "redist") != played.moves;
    if (!inside) return report.expect("comm", expected, played.collectives);
    if (!has_in_order(expected, played.collectives)) {
      report.differs("comm", expected, played.collectives);
    }
  }

  void compare_results(const Json& event, const PlayedEvent& played, CaseReport& report) const {
    if (!event.contains("out")) {
      // Inputs and checks are values themselves.
      const bool is_value = !event.contains("op") && event.contains("shape");
      if (is_value) compare_value("value", event, played, 0, event, report);
      return;
    }
    std::size_t index = 0;
    for (const Json& out : event.at("out")) {
      compare_value(fmt::format("out[{}]", index), out, played, index, event, report);
      ++index;
    }
    for (const Json& written : list_at(event, "mut")) {
      compare_written(written, event, report);
    }
  }

  // A tensor that the call wrote to without returning it.
  void compare_written(const Json& written, const Json& event, CaseReport& report) const {
    PlayedEvent holder;
    for (const DTensor& value : player_->values(integer_of<std::int64_t>(written.at("v")))) {
      holder.results.push_back({Argument(value)});
    }
    compare_value(fmt::format("mut {}", written.at("v").dump()), written, holder, 0, event, report);
  }

  void compare_value(const std::string& field, const Json& recorded, const PlayedEvent& played,
                     std::size_t index, const Json& event, CaseReport& report) const {
    if (recorded.is_null() || recorded.contains("scalar")) return;
    std::vector<DTensor> pieces;
    for (const Results& results : played.results) {
      const bool there =
          index < results.size() && results[index].is_tensor() && results[index].tensor().defined();
      if (!there) return report.differs(field, recorded, nullptr);
      pieces.push_back(results[index].tensor());
    }
    Json expected = described(recorded);
    Json got = described(pieces[0]);
    if (is_wrong(recorded)) {
      expected.erase("placements");
      got.erase("placements");
    }
    report.expect(field, expected, got);
    if (expected != got || event.value("random", false)) return;
    if (recorded.contains("local")) return compare_locals(field, recorded, pieces, report);
    compare_whole(field, recorded, pieces, report);
  }

  static Json described(const Json& recorded) {
    Json json = {{"dtype", to_string(dtype_of(recorded.at("dtype")))}};
    json["shape"] = recorded.at("shape");
    if (!recorded.value("local", false)) json["placements"] = recorded.at("placements");
    return json;
  }

  static Json described(const DTensor& value) {
    Json json = {{"dtype", to_string(value.dtype())}, {"shape", json_of(value.shape())}};
    if (value.distributed()) json["placements"] = texts_of(value.spec()->placements());
    return json;
  }

  void compare_locals(const std::string& field, const Json& recorded,
                      const std::vector<DTensor>& pieces, CaseReport& report) const {
    if (!recorded.contains("fp")) return;
    const Json& prints = recorded.at("fp");
    const std::size_t ranks = player_->one_rank_recorded() ? 1 : pieces.size();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const FactFingerprint print(numbers_of(whole_value(pieces[rank].local())));
      const Json& expected = prints.is_object() ? prints.at("ranks").at(rank) : prints;
      if (print.agrees(expected)) continue;
      return report.differs(fmt::format("{}.fp of rank {}", field, rank), expected, print.json());
    }
  }

  // For a value on a part of the mesh, the part that holds rank 0.
  void compare_whole(const std::string& field, const Json& recorded,
                     const std::vector<DTensor>& all, CaseReport& report) const {
    const Json print = print_of(recorded);
    const bool wrong = is_wrong(recorded);
    const char* data_key = recorded.contains("single_data") ? "single_data" : "data";
    const bool has_data = recorded.contains(data_key) && (!wrong || data_key[0] == 's');
    if (random_ || (print.is_null() && !has_data)) return;
    const DTensorSpec& spec = *all[0].spec();
    std::vector<DTensor> pieces;
    for (std::int64_t i = 0; i < spec.layout()->size(); ++i) {
      pieces.push_back(all.at(static_cast<std::size_t>(spec.layout()->rank_at_index(i))));
    }
    std::vector<AssemblyFault> faults;
    const std::vector<double> values = numbers_of(assemble(spec, pieces, faults));
    for (const AssemblyFault& fault : faults) report.differs(field, nullptr, fault.what);
    if (!print.is_null()) {
      const FactFingerprint ours(values);
      if (!ours.agrees(print)) report.differs(field + ".fp", print, ours.json());
    }
    if (has_data) compare_data(field, recorded.at(data_key), values, report);
  }

  bool is_wrong(const Json& recorded) const {
    return recorded.contains("single_fp") ||
           (recorded.contains("v") && wrong_.contains(integer_of<std::size_t>(recorded.at("v"))));
  }

  void compare_data(const std::string& field, const Json& recorded,
                    const std::vector<double>& values, CaseReport& report) const {
    const std::vector<double> expected = recorded_numbers(recorded);
    double largest = 0;
    for (const double number : expected) {
      if (std::isfinite(number)) largest = std::max(largest, std::fabs(number));
    }
    const bool agree =
        expected.size() == values.size() &&
        std::equal(expected.begin(), expected.end(), values.begin(), [&](double want, double got) {
          return close(want, got, largest, 10 * kTolerance);
        });
    if (!agree) report.differs(field + ".data", recorded, values);
  }

  std::optional<RecordedForm> form_;  // of the program that is played
  std::unique_ptr<ProgramPlayer> player_;
  bool random_ = false;
  /// Values that the reference has wrong, with the fingerprint of one device; null: unknown.
  std::map<std::size_t, Json> wrong_;
  std::map<std::string, std::int64_t> skipped_;  // calls that we do not have, by op
  std::set<std::string> better_;  // ops of calls that run here and fail in the reference
};

}  // namespace

bool takes_program(std::string_view, const Json& line) {
  return line.is_object() && line.contains("n_values") && line.contains("mesh_dim_names");
}

std::unique_ptr<FactChecker> make_program_checker(std::string_view) {
  return std::make_unique<ProgramChecker>();
}

}  // namespace shardlab
