// one_value.h - the ranks' parts of one device's value: the same, pieces, terms, or something
// else. In one precision. Private to the files that verify.
#pragma once

#include "sim/run/reference_calls.h"
#include "sim/verify/verify.h"

namespace shardlab {

/// False where another stage gives the name a value of its own: on another part of a mesh, by
/// another statement.
bool is_held_as(const ValueReport& report, const RecordedValue& held);

/// Fills in the facts about agreement, the comparison and what is read of it.
class OneValue {
 public:
  /// `report` has the value's name and number; both outlive this.
  OneValue(const VerifyInputs& inputs, Precision precision, const ValueReport& report);
  /// `by_rank`: the values of the ranks, where not all recordings are complete.
  OneValue(const VerifyInputs& inputs, Precision precision, const ValueReport& report,
           std::vector<const RecordedValue*> by_rank);

  /// Null if no rank has the value in this precision.
  const RecordedValue* first() const { return first_; }
  /// The distance of the value from the single-device run in f64; 0 if there is none.
  double astray() const { return astray_; }
  void expect_astray(double astray) { astray_ = astray; }
  void run(ValueReport& report);

 private:
  using Fits = ValueFacts::Fits;
  struct Answer {
    Comparison comparison;
    bool known = false;  ///< one device has a value
  };

  Answer compared(const GlobalValue& value, bool exact, std::size_t rank);
  const RecordedValue* alone(Precision precision, std::size_t rank) const;
  bool is_given() const;
  double relative(DType dtype) const;
  void add(ValueReport& report, const Comparison& comparison, Fits fits);
  void keep(ValueReport& report, const GlobalValue& value, std::size_t rank) const;
  void distributed(ValueReport& report);
  void on_mesh(const DTensorSpec& spec, ValueReport& report);
  bool is_near(const DTensorSpec& spec, const std::vector<DTensor>& pieces, ValueReport& report);
  void add_faults(const std::vector<AssemblyFault>& faults, const DTensorSpec& spec,
                  const std::vector<DTensor>& pieces, ValueReport& report) const;
  void plain(ValueReport& report);
  void claimed(ValueReport& report);
  static void wrong_claim(ValueReport& report, const std::string& what);
  bool replicas(ValueReport& report);
  bool of_one_rank(ValueReport& report);
  bool labelled(ValueReport& report);
  bool may_be(const Label& label, const std::vector<GlobalValue>& held) const;
  bool takes_extremes() const;

  const VerifyInputs& inputs_;
  Precision precision_;
  const ValueReport& report_;
  std::vector<const RecordedValue*> by_rank_;
  const RecordedValue* first_ = nullptr;
  double astray_ = 0;
};

}  // namespace shardlab
