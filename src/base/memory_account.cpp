// The account keeps purposes apart, and nothing walks over living Storages for that: a Storage
// reports when it is made, dropped, or held for another purpose.
#include "base/memory_account.h"

#include <algorithm>
#include <utility>

namespace shardlab {

std::string_view to_string(HeldFor purpose) {
  constexpr std::array<std::string_view, kHeldForCount> kNames = {
      "parameters and inputs", "gradients",  "kept for backward", "gathered copies",
      "communication buffers", "temporaries"};
  return kNames[static_cast<std::size_t>(purpose)];
}

std::string_view key_of(HeldFor purpose) {
  constexpr std::array<std::string_view, kHeldForCount> kKeys = {
      "inputs", "gradients", "kept_for_backward", "gathered", "communication", "temporaries"};
  return kKeys[static_cast<std::size_t>(purpose)];
}

void MemoryAccount::add(HeldFor purpose, std::int64_t bytes) {
  const auto index = static_cast<std::size_t>(purpose);
  held[index] += bytes;
  most[index] = std::max(most[index], held[index]);
  held_bytes += bytes;
  if (held_bytes > peak_bytes) note_peak();
  if (listener != nullptr) listener->changed(*this);
}

void MemoryAccount::move(HeldFor from, HeldFor to, std::int64_t bytes) {
  const auto index = static_cast<std::size_t>(to);
  held[static_cast<std::size_t>(from)] -= bytes;
  held[index] += bytes;
  most[index] = std::max(most[index], held[index]);
  if (listener != nullptr) listener->changed(*this);
}

void MemoryAccount::begin() {
  most = held;
  parameters_read = false;
  note_peak();
}

void MemoryAccount::note_peak() {
  peak_bytes = held_bytes;
  at_peak = held;
  const RankContext* rank = current_rank_or_null();
  if (rank == nullptr) return;
  peak_position = rank->position;
  peak_pass = rank->pass;
}

MakingScope::MakingScope(HeldFor purpose) {
  const RankContext* rank = current_rank_or_null();
  account_ = rank == nullptr ? nullptr : rank->memory;
  if (account_ == nullptr) return;
  before_ = account_->making;
  if (before_ == HeldFor::kOther) account_->making = purpose;
}

MakingScope::~MakingScope() {
  if (account_ != nullptr) account_->making = before_;
}

UncountedScope::UncountedScope() : rank_(current_rank_or_null()) {
  if (rank_ != nullptr) account_ = std::exchange(rank_->memory, nullptr);
}
UncountedScope::~UncountedScope() {
  if (rank_ != nullptr) rank_->memory = account_;
}

KernelScope::KernelScope() : account_(current_rank().memory) {
  if (account_ != nullptr) before_ = std::exchange(account_->inside_kernel, true);
}

KernelScope::~KernelScope() {
  if (account_ != nullptr) account_->inside_kernel = before_;
}

}  // namespace shardlab
