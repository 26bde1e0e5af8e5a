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

// The tensor, or those of a list; empty for others.
std::vector<DTensor> tensors_in(const Value& value) {
  if (value.is_tensor()) return {value.as<DTensor>()};
  std::vector<DTensor> tensors;
  for (const Value& item : value.is_sequence() ? items_of(value) : std::vector<Value>()) {
    const auto* tensor = item.get<DTensor>();
    if (tensor == nullptr) return {};
    tensors.push_back(*tensor);
  }
  return tensors;
}

// Terms of a sum, too, may be taken apart: the ranks' places are those of pieces, whatever they
// hold. A piece of a piece is out of another shape than on one device.
bool are_places_of_all(const auto& taken, const Dims& shape) {
  std::set<std::pair<std::int64_t, std::int64_t>> places;
  for (const auto* one : taken) {
    if (one->dim < 0 || one->dim != taken[0]->dim || one->shape != shape) return false;
    places.emplace(one->begin, one->end);
  }
  std::int64_t end = 0;
  for (const auto& [from, to] : places) {
    if (from != end) return false;
    end = to;
  }
  return end == shape[static_cast<std::size_t>(taken[0]->dim)];
}

}  // namespace

PartListener PartsByRank::listener() {
  return [this](std::size_t rank, SourceSpan expression, std::int64_t before, const Value& whole,
                const Value& part) -> std::optional<Value> {
    const auto* tensor = part.get<DTensor>();
    if (tensor == nullptr || tensor->distributed() || tensor->numel() > kMostLabelled) {
      return std::nullopt;
    }
    taken_[rank].emplace(Place{expression, before}, taken_from(whole, tensor->local()));
    return std::nullopt;
  };
}

PartsByRank::Taken PartsByRank::taken_from(const Value& whole, const Tensor& part) {
  Taken taken{whole_value(part)};
  const std::vector<DTensor> all = tensors_in(whole);
  if (all.empty()) return taken;
  const Tensor& first = all[0].local();
  taken.shape = first.shape();
  const int cut = dim_of_views(all);
  for (std::size_t i = 1; i < all.size() && cut >= 0; ++i) {
    const auto dim = static_cast<std::size_t>(cut);
    taken.shape[dim] += all[i].local().shape()[dim];
  }
  const bool view = part.storage() == first.storage() && part.meta().stride == first.meta().stride;
  for (std::size_t dim = 0; dim < taken.shape.size() && view && cut >= 0; ++dim) {
    const std::int64_t stride = first.meta().stride[dim];
    if (part.shape()[dim] == taken.shape[dim] || stride == 0) continue;
    taken.dim = static_cast<int>(dim);
    taken.begin = (part.offset() - first.offset()) / stride;
    taken.end = taken.begin + part.shape()[dim];
  }
  return taken;
}

PartListener PartsByRank::wholes() {
  return [this](std::size_t, SourceSpan expression, std::int64_t before, const Value& whole,
                const Value&) {
    return whole_of({expression, before}, whole);
  };
}

// Ordered by mesh index; none if some rank has none.
std::vector<const PartsByRank::Taken*> PartsByRank::parts_of(const Place& place) const {
  std::vector<const Taken*> parts;
  for (std::int64_t i = 0; i < layout_.size(); ++i) {
    const auto& own = taken_[static_cast<std::size_t>(layout_.rank_at_index(i))];
    const auto found = own.find(place);
    if (found == own.end()) return {};
    parts.push_back(&found->second);
  }
  return parts;
}

std::optional<Value> PartsByRank::whole_of(const Place& place, const Value& whole) {
  const auto known = decided_.find(place);
  const bool fresh = known == decided_.end();
  int dim = fresh ? kNoPieces : known->second;
  const std::vector<DTensor> list = tensors_in(whole);
  if (list.empty()) return std::nullopt;
  const auto taken = fresh ? parts_of(place) : std::vector<const Taken*>();
  std::vector<GlobalValue> parts, items;
  for (const Taken* one : taken) parts.push_back(one->part);
  for (const DTensor& item : list) items.push_back(whole_value(item.local()));
  const auto make = [&](const GlobalValue& all) {
    return are_pieces(parts, all, layout_) || are_places_of_all(taken, all.meta.shape);
  };
  if (!parts.empty() && whole.is_tensor()) {
    if (make(items[0])) dim = kTensor;
  } else if (!parts.empty()) {
    const int cut = dim_of_views(list);
    const auto dims = static_cast<int>(items[0].meta.shape.size());
    for (int along = std::max(cut, 0); along < (cut < 0 ? dims : cut + 1); ++along) {
      const auto all = joined(items, static_cast<std::size_t>(along));
      if (dim == kNoPieces && all && make(*all)) dim = along;
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
