// Ranks go on in turn, as far as what they need has ended; columns do not depend on the turns.
#include "sim/prove/diagram.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shardlab {

namespace {

class DiagramRun {
 public:
  DiagramRun(const RankSteps& program, std::int32_t message,
             const std::function<std::int32_t(std::int32_t, std::int32_t)>& work)
      : program_(program), message_(message), work_(work), next_(program.ranks.size()) {
    for (const std::vector<RankStep>& steps : program.ranks) {
      result_.spans.emplace_back(steps.size());
      open_.emplace_back(steps.size());
    }
  }

  StepDiagram run() {
    const auto ranks = static_cast<std::int32_t>(program_.ranks.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::int32_t rank = 0; rank < ranks; ++rank) {
        while (advance(rank)) moved = true;
      }
    }
    for (std::size_t rank = 0; rank < open_.size(); ++rank) {
      for (std::size_t step = 0; step < open_[rank].size(); ++step) {
        if (open_[rank][step] > 0) result_.spans[rank][step].to = -1;
      }
    }
    return std::move(result_);
  }

 private:
  struct Place {
    std::int32_t rank = 0, step = 0;
  };
  struct Next {
    std::int32_t step = 0, column = 0;
  };

  StepDiagram::Span& span(Place at) {
    return result_.spans[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.step)];
  }
  std::int32_t& open(Place at) {
    return open_[static_cast<std::size_t>(at.rank)][static_cast<std::size_t>(at.step)];
  }

  bool advance(std::int32_t rank) {
    Next& next = next_[static_cast<std::size_t>(rank)];
    const Place at{rank, next.step};
    if (at.step ==
        static_cast<std::int32_t>(result_.spans[static_cast<std::size_t>(rank)].size())) {
      return false;
    }
    const RankStep& step = program_.at(rank, at.step);
    std::int32_t from = next.column;
    for (const std::int32_t need : step.needs) {
      if (open({rank, need}) > 0) return false;
      from = std::max(from, span({rank, need}).to);
    }
    const std::int32_t own = !step.posts.empty() ? message_ : work_ ? work_(rank, at.step) : 0;
    span(at) = {from, from + own};
    open(at) = static_cast<std::int32_t>(step.posts.size());
    next = {at.step + 1, from + own};
    for (const Operation& operation : step.posts) post(at, operation);
    return true;
  }

  void end(Place at, std::int32_t column) {
    span(at).to = std::max(span(at).to, column);
    --open(at);
  }

  void post(Place at, const Operation& operation) {
    if (operation.kind == Operation::Kind::kCollective) return join(at, operation.group);
    const bool sends = operation.kind == Operation::Kind::kSend;
    const std::int32_t from = sends ? at.rank : operation.peer,
                       to = sends ? operation.peer : at.rank;
    auto& [sent, received] = ways_[{from, to, operation.group, operation.tag}];
    (sends ? sent : received).push_back(at);
    if (sends) end(at, span(at).to);
    const std::size_t met = std::min(sent.size(), received.size());
    if ((sends ? sent : received).size() != met) return;
    const Place sender = sent[met - 1], receiver = received[met - 1];
    end(receiver, std::max(span(sender).from, span(receiver).from) + message_);
    result_.messages.push_back({sender.rank, sender.step, receiver.rank, receiver.step});
  }

  // The k-th collectives of a group belong together.
  void join(Place at, std::int32_t group) {
    const std::int32_t k = joined_[{group, at.rank}]++;
    std::vector<Place>& there = meetings_[{group, k}];
    there.push_back(at);
    if (there.size() != program_.groups[static_cast<std::size_t>(group)].size()) return;
    std::int32_t last = 0;
    for (const Place one : there) last = std::max(last, span(one).from);
    for (const Place one : there) end(one, last + message_);
  }

  const RankSteps& program_;
  const std::int32_t message_;
  const std::function<std::int32_t(std::int32_t, std::int32_t)>& work_;
  std::vector<Next> next_;
  std::vector<std::vector<std::int32_t>> open_;  // posts that have not ended, by rank and step
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t>,
           std::pair<std::vector<Place>, std::vector<Place>>>
      ways_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> joined_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<Place>> meetings_;
  StepDiagram result_;
};

}  // namespace

StepDiagram diagram_of(
    const RankSteps& program, std::int32_t message,
    const std::function<std::int32_t(std::int32_t rank, std::int32_t step)>& work) {
  return DiagramRun(program, message, work).run();
}

}  // namespace shardlab
