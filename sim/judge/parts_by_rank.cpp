// The decision is made once, in f64, and holds for the run in the program's dtypes, too.
#include "sim/judge/parts_by_rank.h"

#include <algorithm>

#include "autograd/program.h"
#include "sim/verify/labels/label.h"
#include "sim/verify/rounding.h"

namespace shardlab {

namespace {

constexpr int kNoPieces = -2, kTensor = -1;

// The dim along which views follow each other in one memory; -1: they do not.
int dim_of_views(const std::vector<DTensor>& list) {
  const Tensor& first = list[0].local();
  for (std::size_t dim = 0; dim < first.shape().size(); ++dim) {
    std::int64_t offset = first.offset();
    const bool follows = std::ranges::all_of(list, [&](const DTensor& item) {
      const Tensor& view = item.local();
      const bool here = view.storage() == first.storage() && view.offset() == offset &&
                        view.meta().stride == first.meta().stride;
      offset += view.shape()[dim] * view.meta().stride[dim];
      return here;
    });
    if (follows) return static_cast<int>(dim);
  }
  return -1;
}

bool are_pieces(const std::vector<GlobalValue>& parts, const GlobalValue& whole,
                const MeshLayout& layout) {
  const auto label = label_of(parts, whole, layout, rounding::kRelativeInF64);
  return label && !label->has_terms();
}

}  // namespace

PartListener PartsByRank::listener() {
  return [this](std::size_t rank, SourceSpan expression, std::int64_t before, const Value&,
                const Value& part) -> std::optional<Value> {
    const auto* tensor = part.get<DTensor>();
    if (tensor == nullptr || tensor->distributed() || tensor->numel() > kMostLabelled) {
      return std::nullopt;
    }
    taken_[rank].emplace(Place{expression, before}, whole_value(tensor->local()));
    return std::nullopt;
  };
}

PartListener PartsByRank::wholes() {
  return [this](std::size_t, SourceSpan expression, std::int64_t before, const Value& whole,
                const Value&) {
    return whole_of({expression, before}, whole);
  };
}

std::optional<std::vector<GlobalValue>> PartsByRank::parts_of(const Place& place) const {
  std::vector<GlobalValue> parts;
  for (std::int64_t i = 0; i < layout_.size(); ++i) {
    const auto& own = taken_[static_cast<std::size_t>(layout_.rank_at_index(i))];
    const auto found = own.find(place);
    if (found == own.end()) return std::nullopt;
    parts.push_back(found->second);
  }
  return parts;
}

std::optional<Value> PartsByRank::whole_of(const Place& place, const Value& whole) {
  const auto known = decided_.find(place);
  const bool fresh = known == decided_.end();
  int dim = fresh ? kNoPieces : known->second;
  std::vector<DTensor> list;
  if (whole.is_sequence()) {
    for (const Value& item : items_of(whole)) {
      const auto* tensor = item.get<DTensor>();
      if (tensor == nullptr) return std::nullopt;
      list.push_back(*tensor);
    }
  }
  const auto parts = fresh ? parts_of(place) : std::nullopt;
  if (parts && whole.is_tensor()) {
    const GlobalValue all = whole_value(whole.as<DTensor>().local());
    if (are_pieces(*parts, all, layout_)) dim = kTensor;
  } else if (parts && !list.empty()) {
    std::vector<GlobalValue> items;
    for (const DTensor& item : list) items.push_back(whole_value(item.local()));
    const int cut = dim_of_views(list);
    const auto dims = static_cast<int>(items[0].meta.shape.size());
    for (int along = std::max(cut, 0); along < (cut < 0 ? dims : cut + 1); ++along) {
      const auto all = joined(items, static_cast<std::size_t>(along));
      if (dim == kNoPieces && all && are_pieces(*parts, *all, layout_)) dim = along;
    }
  }
  if (fresh) decided_[place] = dim;
  if (dim == kNoPieces) others_.insert(place.first);
  if (dim == kNoPieces) return std::nullopt;
  if (dim == kTensor) return whole;
  std::vector<Argument> tensors(list.begin(), list.end());
  return Value(program_calls().one("aten::cat", {std::move(tensors), std::int64_t{dim}}));
}

std::set<SourceSpan> PartsByRank::pieces() const {
  std::set<SourceSpan> all;
  for (const auto& [place, dim] : decided_) {
    if (!others_.contains(place.first)) all.insert(place.first);
  }
  return all;
}

}  // namespace shardlab
