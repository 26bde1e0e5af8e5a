// exported_modules.h - the modules and the lines of the user that the nodes of an exported program
// name in their metadata.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/recording/recorded_program.h"

namespace shardlab {

/// Modules begin and end with the calls that name them. Used by one thread.
class ExportedModules {
 public:
  explicit ExportedModules(RecordedProgram& program) : program_(program) {}

  /// The next call, by its metadata: "L__self__,,__main__.M;L__self__l,l,...Linear", and a stack
  /// trace.
  void enter(std::string_view modules, std::string_view trace);
  /// Module and place of that call.
  void describe(RecordedEvent& event);
  /// "layers.0  model.py:22" in brackets, or empty.
  std::string text() const;

  /// The last call takes a value, or gives one. `state`: it is a parameter, a buffer or a constant.
  void takes(std::int32_t value);
  void gives(std::int32_t value);
  void give_input(std::int32_t value, bool state);
  /// The program returns it.
  void returns(std::int32_t value);

  /// Adds an event for each module: it takes what comes into its calls from outside, and gives what
  /// of its results is taken there.
  void write();

 private:
  struct Open {
    std::string key, path, type;
    std::size_t first = 0;  // its first call
  };
  struct Value {
    std::size_t maker = 0;     // one past the call that gives it; 0: an input
    std::size_t last_use = 0;  // one past the last call that takes it
    bool state = false;
  };
  static std::vector<Open> opened(std::string_view stack);
  static std::optional<RecordedPlace> place_in(std::string_view trace);
  std::int32_t number_of(const std::string& path);
  void leave();
  void write(const Open& module, std::size_t end);

  RecordedProgram& program_;
  std::size_t calls_ = 0;  // begun so far
  std::optional<RecordedPlace> place_;
  std::string stack_;  // the modules of the last call, as it names them
  std::vector<Open> open_;
  std::vector<std::pair<Open, std::size_t>> closed_;                 // and one past the last call
  std::vector<Value> values_;                                        // by number
  std::vector<std::pair<std::size_t, std::int32_t>> takes_, gives_;  // call and value, in order
  std::map<std::pair<std::string, std::int64_t>, std::int32_t> places_;
  std::map<std::string, std::int32_t> paths_;
};

}  // namespace shardlab
