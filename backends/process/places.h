// places.h - the hosts of a job's processes, and the files in which their launcher looks for the
// reasons of failures: one process of a host speaks for all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardlab::process {

/// The places of all ranks. Never changes.
class Places {
 public:
  /// This process's, for the others. SHARDLAB_HOST replaces the host's own name, for tests.
  static std::string mine();
  Places() = default;
  /// `all`: by rank, as mine() gave them.
  explicit Places(const std::vector<std::string>& all);

  /// For each rank the number of its host, counted from 0 in the order of ranks.
  const std::vector<std::int64_t>& hosts() const { return hosts_; }
  /// Whether no rank of this one's host is before it, of those that are left. `gone`: ascending.
  bool first_of_host(std::int64_t rank, std::span<const std::int64_t> gone) const;
  /// Writes the reason of a failure for torchrun (TORCHELASTIC_ERROR_FILE), which takes the
  /// earliest for the root cause: for this rank, and for culprits of its host of which nobody has
  /// done so. A culprit's time is a second ago, before any rank that is ended because of it; ranks
  /// that are no culprits are two seconds behind it.
  void write_errors(std::int64_t rank, std::string_view text,
                    std::span<const std::int64_t> culprits) const;

 private:
  std::vector<std::int64_t> hosts_;
  std::vector<std::string> error_files_;  ///< empty: none
};

/// The same for a process that has not met others.
void write_own_error(std::string_view text);

}  // namespace shardlab::process
