// memory_watcher.h - bytes that one rank held while it ran a program: at each backward, at most,
// and by line.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/memory_account.h"
#include "sim/language/run/interpreter.h"
#include "tests/facts/program_lines.h"

namespace shardlab {

/// All in bytes.
struct MemoryAtBackward {
  std::int64_t line = 0;  ///< of the program, from 1
  std::int64_t live = 0, gradients = 0, saved = 0;
  std::int64_t kept = 0;  ///< held by no name, without inputs and gradients
  std::set<std::string> saved_inputs;
};

/// Line and pass.
using MemoryPlace = std::pair<std::int64_t, Pass>;

/// Watches one rank while it runs a program; the account of its memory is here.
class MemoryWatcher : public ValueSink, public MemoryListener {
 public:
  explicit MemoryWatcher(ProgramLines lines) : lines_(lines) {}

  /// The rank's memory counts on the account from here on. Before it has any.
  void watch(RankContext& rank);
  /// Once it has its inputs; runs the program.
  void run(const std::vector<std::string>& inputs, Interpreter& interpreter);

  const std::vector<MemoryAtBackward>& backwards() const { return backwards_; }
  const MemoryAccount& account() const { return account_; }
  std::int64_t end_bytes() const { return end_bytes_; }
  /// The most bytes of gradients of inputs and of leaves that a name held.
  std::int64_t most_gradients() const { return most_gradients_; }
  /// The most that was held for a purpose at any time.
  std::int64_t most(HeldFor purpose) const { return most_[static_cast<std::size_t>(purpose)]; }
  /// The most for all purposes but inputs, gradients and backward together.
  std::int64_t most_other() const { return most_other_; }
  /// The most that was held at each place.
  const std::map<MemoryPlace, std::int64_t>& by_place() const { return by_place_; }

  void begins(SourceSpan statement) override {
    note_gradients();
    line_ = lines_.of(statement);
  }
  void computes(SourceSpan expression) override { line_ = lines_.of(expression); }
  void backward_begins(const DTensor& loss, const DTensor& seed) override;
  void assigned(const std::string&, std::int64_t, const Value&, const Where&) override {}
  void printed(const std::string&) override {}
  void changed(const MemoryAccount& account) override;

 private:
  using Storages = std::unordered_set<Storage*>;
  static void add_storages(const Value& value, Storages& storages);
  /// The gradients of inputs and of leaves that a name holds.
  Storages gradients() const;
  /// Bytes held by names and by the arguments of backward, without inputs and `gradients`.
  std::int64_t named_bytes(const DTensor& loss, const DTensor& seed,
                           const Storages& gradients) const;
  /// Gradients after a backward are a maximum: names change only after it.
  void note_gradients();

  ProgramLines lines_;
  MemoryAccount account_;
  std::vector<std::pair<std::string, DTensor>> inputs_;
  const Interpreter* interpreter_ = nullptr;
  std::int64_t line_ = 0;
  std::vector<MemoryAtBackward> backwards_;
  std::map<MemoryPlace, std::int64_t> by_place_;
  HeldBytes most_{};
  std::int64_t most_other_ = 0, most_gradients_ = 0, end_bytes_ = 0;
  bool backward_ran_ = false;  // and its gradients are not noted yet
};

}  // namespace shardlab
