// A row for each pair of types that differ. Backward is another move of the table, so that a
// gradient of a gradient needs nothing more. V is stacked on a new dim, which makes it a piece of
// length 1.
#include "sim/language/builtins/spmd_moves.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "api/collectives.h"
#include "api/factories.h"
#include "api/tensor_ops.h"
#include "autograd/custom_function.h"
#include "autograd/grad_mode.h"
#include "autograd/grad_node.h"
#include "autograd/program.h"
#include "base/error.h"
#include "mesh/local_shape.h"
#include "mesh/type_string.h"
#include "sim/log/marks.h"

namespace shardlab {

namespace {

enum class Act : std::uint8_t {
  kKeep,
  kSum,
  kGather,
  kSumPieces,
  kExchange,
  kCut,
  kSpread,
  kFirst
};

/// The letters are those of types; V stands for S(d), too.
struct ActRow {
  char from, to;
  Act act;
};
constexpr ActRow kActs[] = {
    {'P', 'R', Act::kSum},    {'P', 'I', Act::kSum},    {'P', 'V', Act::kSumPieces},
    {'V', 'R', Act::kGather}, {'V', 'I', Act::kGather}, {'V', 'V', Act::kExchange},
    {'R', 'V', Act::kCut},    {'I', 'V', Act::kCut},    {'I', 'R', Act::kKeep},
    {'R', 'P', Act::kFirst},  {'R', 'I', Act::kKeep},   {'I', 'P', Act::kFirst},
    {'V', 'P', Act::kSpread},
};

char letter_of(const SpmdType& type) { return to_string(without_dim(type))[0]; }

// The types are unlike, or vary.
Act act_of(const SpmdType& from, const SpmdType& to) {
  return std::ranges::find_if(kActs,
                              [&](const ActRow& one) {
                                return one.from == letter_of(from) && one.to == letter_of(to);
                              })
      ->act;
}

bool is_stacked(const SpmdType& type) { return type.varies() && !type.is_s(); }
std::int64_t dim_of(const SpmdType& type) { return type.is_s() ? type.placement->dim : 0; }

std::int64_t sum_of(const Dims& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
}

class Mover {
 public:
  /// Fills in the lengths that `move` leaves out.
  Mover(const DTensor& x, SpmdMove& move)
      : x_(x),
        move_(move),
        act_(move.keeps_bytes ? Act::kKeep : act_of(move.from, move.to)),
        varying_(move.from.varies() ? move.from : move.to),
        stacked_(is_stacked(varying_)),
        dim_(stacked_ ? move.stack_dim : dim_of(varying_)) {
    if (act_ == Act::kKeep || act_ == Act::kSum || act_ == Act::kFirst) return;
    const bool whole = act_ == Act::kSumPieces || act_ == Act::kCut;
    const auto ndim = static_cast<std::int64_t>(x.ndim());
    const bool exists = dim_ < ndim + (stacked_ && !whole ? 1 : 0);
    if (!exists) refuse(fmt::format("it has no dim {}", dim_), "name one of its dims: S(0)");
    const std::int64_t length = stacked_ && !whole ? 1 : x.shape()[static_cast<std::size_t>(dim_)];
    if (act_ == Act::kExchange) {
      fill_exchanged();
      return;
    }
    if (whole && stacked_ && length != move.ranks) {
      refuse(fmt::format("V takes one row for each of {} ranks", move.ranks),
             "cut a dim of it: dst=S(0)");
    }
    fill_lengths(length, whole);
  }

  DTensor run() const {
    if (act_ == Act::kExchange) return exchanged();
    if (act_ == Act::kGather) return gathered();
    if (act_ == Act::kCut) return own_piece();
    if (act_ == Act::kSpread) return spread();
    if (act_ == Act::kSumPieces) {
      if (alone()) return own_piece();
      return unstacked(collected(CollectiveKind::kReduceScatter, dim_, 0, move_.lengths, {}));
    }
    if (act_ == Act::kKeep || alone()) return x_;
    if (act_ == Act::kSum) return all_reduce(x_, ReduceOp::kSum, *move_.group);
    return program_calls().one(move_.place == 0 ? "aten::alias" : "aten::zeros_like", {x_});
  }

 private:
  bool alone() const { return move_.group == nullptr; }

  [[noreturn]] void refuse(const std::string& what, const std::string& fix) const {
    refuse_move(x_, move_, what, fix);
  }

  void fill_lengths(std::int64_t length, bool whole) {
    Dims& lengths = move_.lengths;
    const auto own = static_cast<std::size_t>(move_.place);
    if (alone() && !stacked_) lengths.clear();  // those of other ranks' pieces: it has the whole
    if (lengths.empty()) {
      for (std::int64_t i = 0; i < move_.ranks; ++i) {
        lengths.push_back(whole ? chunk_of(length, move_.ranks, i).size : length);
      }
    }
    if (static_cast<std::int64_t>(lengths.size()) != move_.ranks) {
      refuse(fmt::format("split_sizes has {} lengths", lengths.size()),
             fmt::format("give one for each of {} ranks", move_.ranks));
    }
    const std::int64_t fits = whole ? sum_of(lengths) : lengths[own];
    if (alone() || fits == length) return;
    refuse(fmt::format("split_sizes says {}, and dim {} has {}", fits, dim_, length),
           "give the lengths of all ranks' pieces, in their order");
  }

  // Along the dims that are cut and put together; empty where every rank's chunks are alike.
  void fill_exchanged() const {
    Dims &sent = move_.lengths, &received = move_.received;
    if (sent.empty() && received.empty()) return;
    const Dims::value_type cut = x_.shape()[static_cast<std::size_t>(split_dim())];
    const Dims::value_type own = x_.shape()[static_cast<std::size_t>(joined_dim())];
    const bool one_dim = split_dim() == joined_dim();
    Dims chunks, alike;
    for (std::int64_t i = 0; i < move_.ranks; ++i) {
      chunks.push_back(chunk_of(cut, move_.ranks, i).size);
      alike.push_back(one_dim ? cut / move_.ranks : own);
    }
    if (sent.empty()) sent = chunks;
    if (received.empty()) received = alike;
  }

  std::int64_t split_dim() const {
    const bool both = move_.from.is_s() && move_.to.is_s();
    return dim_of(both ? move_.to : move_.from);
  }
  std::int64_t joined_dim() const {
    const bool both = move_.from.is_s() && move_.to.is_s();
    return dim_of(both ? move_.from : move_.to);
  }

  DTensor unstacked(const DTensor& piece) const { return stacked_ ? squeeze(piece, dim_) : piece; }

  DTensor collected(CollectiveKind kind, std::int64_t dim, std::int64_t split_dim, const Dims& sent,
                    const Dims& received) const {
    CollectiveEvent event{.kind = kind, .group = move_.group, .x = x_, .dim = dim};
    event.split_dim = split_dim;
    event.sent = sent;
    event.received = received;
    return program_calls().perform(event).at(0).tensor();
  }

  // One device has the whole value already; a stack of V has its value once for each rank.
  DTensor gathered() const {
    if (alone()) {
      return stacked_ ? stack(std::vector<DTensor>(static_cast<std::size_t>(move_.ranks), x_), dim_)
                      : x_;
    }
    const bool equal =
        std::ranges::adjacent_find(move_.lengths, std::not_equal_to{}) == move_.lengths.end();
    if (equal) return all_gather(stacked_ ? unsqueeze(x_, dim_) : x_, dim_, *move_.group);
    return collected(CollectiveKind::kAllGather, dim_, 0, {}, move_.lengths);
  }

  std::int64_t offset() const {
    return std::accumulate(move_.lengths.begin(), move_.lengths.begin() + move_.place,
                           std::int64_t{0});
  }

  DTensor own_piece() const {
    if (stacked_) return select(x_, dim_, move_.place);
    if (alone()) return x_;
    const std::int64_t start = offset();
    return slice(
        x_, dim_,
        {.start = start, .end = start + move_.lengths[static_cast<std::size_t>(move_.place)]});
  }

  // x at its place of the whole, which has zeros elsewhere.
  DTensor spread() const {
    if (alone() && !stacked_) return x_;
    const DTensor piece = stacked_ ? unsqueeze(x_, dim_) : x_;
    const auto zeros_of = [&](std::int64_t length) {
      Dims shape = piece.shape();
      shape[static_cast<std::size_t>(dim_)] = length;
      return program_calls().one("aten::new_zeros", {piece, shape});
    };
    const std::int64_t before = offset();
    const std::int64_t all = sum_of(move_.lengths);
    const std::int64_t own = piece.shape()[static_cast<std::size_t>(dim_)];
    return cat({zeros_of(before), piece, zeros_of(all - before - own)}, dim_);
  }

  // A piece of dim i becomes one of dim j: cut along j, put together along i. One device has its
  // own rows in place of received ones, as many.
  DTensor exchanged() const {
    const Dims &sent = move_.lengths, &received = move_.received;
    if (alone()) {
      return sent.empty() || split_dim() != joined_dim()
                 ? x_
                 : slice(x_, joined_dim(), {.end = sum_of(received)});
    }
    if (sent.empty()) return all_to_all(x_, split_dim(), joined_dim(), *move_.group);
    return collected(CollectiveKind::kAllToAll, joined_dim(), split_dim(), sent, received);
  }

  const DTensor& x_;
  SpmdMove& move_;
  const Act act_;
  const SpmdType varying_;
  const bool stacked_;
  const std::int64_t dim_;
};

bool sums(const SpmdMove& move) {
  if (move.keeps_bytes) return false;
  const Act act = act_of(move.from, move.to);
  return act == Act::kSum || act == Act::kSumPieces;
}

SpmdMove backward_of(const SpmdMove& move, DType operand) {
  SpmdMove back = move;
  back.from = gradient_type(move.to);
  back.to = gradient_type(move.from);
  if (!back.lengths.empty() && !back.received.empty()) std::swap(back.lengths, back.received);
  back.carried = move.carries_back;
  back.given = operand;
  return back;
}

void check_sum_of_gradients(const DTensor& x, const SpmdMove& move, const SpmdMove& back) {
  const auto is_short = [](std::optional<DType> dtype) {
    return dtype && is_floating(*dtype) && item_bytes(*dtype) < item_bytes(DType::kF32);
  };
  const bool some = is_short(move.carried) || is_short(move.given) || is_short(x.dtype());
  if (!some || back.carried || !sums(back) || !requires_grad(x) || !grad_enabled()) return;
  fail(Fix{"say in which type its gradient is added: backward_options={\"op_dtype\": "
           "torch.float32}"},
       "{} of {}: backward adds gradients, in 16 bits", move.name, type_string(x));
}

DTensor as_dtype(const DTensor& x, DType dtype) {
  return x.dtype() == dtype ? x : program_calls().one("aten::_to_copy", {x, dtype});
}

}  // namespace

void refuse_move(const DTensor& x, const SpmdMove& move, const std::string& what,
                 const std::string& fix) {
  fail(Fix{fix}, "{}({} to {}) of {}: {}", move.name, to_string(move.from), to_string(move.to),
       type_string(x), what);
}

DTensor moved_as(const DTensor& x, const SpmdMove& given) {
  auto move = std::make_shared<SpmdMove>(given);
  check_sum_of_gradients(x, *move, backward_of(*move, x.dtype()));
  const DType dtype = x.dtype();
  CustomFunction function{.name = move->name};
  function.forward = [&](FunctionContext&) -> std::vector<DTensor> {
    const DTensor sent = as_dtype(x, move->carried.value_or(dtype));
    const DTensor result = Mover(sent, *move).run();
    return {as_dtype(result, move->given.value_or(sent.dtype()))};
  };
  const bool parts = !move->keeps_bytes && act_of(move->from, move->to) == Act::kFirst;
  function.backward = [move, dtype](FunctionContext&, const std::vector<DTensor>& gradients) {
    return std::vector<DTensor>{moved_as(gradients[0], backward_of(*move, dtype))};
  };
  const DTensor result = apply_function(std::move(function), {x}).at(0);
  if (parts && move->group != nullptr) note_terms(result);
  return result;
}

}  // namespace shardlab
