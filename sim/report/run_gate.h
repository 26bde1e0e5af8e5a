// run_gate.h - figures of runs that may not grow, held to those of stored runs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardlab {

/// A figure of a run and its allowed growth.
struct Gate {
  std::string figure;   ///< "bytes", "peak", "collectives" or "time"
  double share = 0;     ///< 0.05: 5 % of the stored figure
  double absolute = 0;  ///< or this many more, in the figure's own unit
};

/// "bytes=+5%,peak=+64KiB,collectives": without a growth none is allowed.
///   fails  Value: no such figure or growth
std::vector<Gate> parse_gates(const std::string& text);

/// One figure of one run. A line of the program that grew is "line 20  h = x @ w  384 B -> 768 B".
struct GatedFigure {
  Gate gate;
  double stored = 0, found = 0;
  std::vector<std::string> grown;  ///< of one that is over: the lines that grew, most first
  bool met() const;
};

/// Runs are matched by file and point; a file with another path by its title and point, if no other
/// run has them. `what`: why a run fails without figures ("is gone").
struct GatedRun {
  std::string title;
  std::string what;
  std::vector<GatedFigure> figures;
  bool met() const;
};

/// All runs of `stored`, then those that are new, which have no figures to be held to.
///   fails  Value: two runs of one list have the same file and point
std::vector<GatedRun> gate_runs(const std::vector<nlohmann::json>& stored,
                                const std::vector<nlohmann::json>& found,
                                const std::vector<Gate>& gates);

std::string gate_text(const std::vector<GatedRun>& runs);
/// One object, keys in alphabetical order.
std::string gate_json(const std::vector<GatedRun>& runs);

}  // namespace shardlab
