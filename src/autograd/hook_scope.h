// hook_scope.h - functions of a program that backward calls run lines of their own.
#pragma once

#include <exception>

#include "base/rank_context.h"

namespace shardlab {

/// While one lives, backward runs lines of the program; then the rank is again at the op whose
/// gradient it computes, unless one of them failed.
class HookScope {
 public:
  HookScope() : rank_(current_rank()), position_(rank_.position), pass_(rank_.pass) {
    rank_.pass = Pass::kBackward;
  }
  ~HookScope() {
    if (std::uncaught_exceptions() == uncaught_) rank_.position = position_;
    rank_.pass = pass_;
  }
  HookScope& operator=(HookScope&&) = delete;

 private:
  RankContext& rank_;
  SourcePosition position_;
  Pass pass_;
  const int uncaught_ = std::uncaught_exceptions();
};

}  // namespace shardlab
