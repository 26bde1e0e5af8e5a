// The call is made on tensors without elements, on a mesh of this one dim, by calls that move
// nothing: an operand that would have to move is a refusal. A composite op is taken apart as ever.
#include "sim/types/strict_op.h"

#include <fmt/format.h>

#include "base/fix.h"
#include "base/rank_context.h"
#include "dispatch/plain_calls.h"
#include "propagate/propagator.h"
#include "schema/op_row.h"

namespace shardlab {

namespace {

constexpr const char* kCutElsewhere = "its result is no piece of the op on the whole, and no term";

class PieceCalls final : public PlainCalls {
 public:
  // The mesh has one dim of this size; tensors that come in are pieces along it.
  PieceCalls(std::span<const SpmdType> types, std::int64_t size)
      : types_(types), layout_(process_arena().layout({{size}, {}, {}})), size_(size) {}

  // The whole of which x is a piece by the next one of the types.
  DTensor placed(const DTensor& x) {
    const Placement placement = spmd_type_to_dtensor_placement(types_[next_++]);
    Dims whole = x.shape();
    if (placement.is_shard()) whole[static_cast<std::size_t>(placement.dim)] *= size_;
    return handle(layout_->arena().spec(layout_, {placement}, contiguous_meta(whole, x.dtype())));
  }

 protected:
  Results as_one(const OpRow& row, const Arguments& args) override {
    OpSchema schema{&row, {}, layout_};
    for (const Argument& argument : args) schema.args.push_back(spec_in(argument));
    const InUse<OutputSharding> decision = current_rank().propagator->propagate(schema);
    if (decision->needs_redistribute) refuse(row.op.base);
    Results results;
    ArgumentList list;
    for (const DTensorSpec* spec : decision->outputs) {
      Argument result = spec == nullptr ? Argument() : Argument(handle(spec));
      if (row.op.returns_list_of_tensors()) {
        list.push_back(std::move(result));
      } else {
        results.push_back(std::move(result));
      }
    }
    if (row.op.returns_list_of_tensors()) results.push_back(std::move(list));
    return results;
  }
  DTensor moved(const DTensor&, const DTensorSpec*) override { refuse("a part of it"); }

 private:
  static DTensor handle(const DTensorSpec* spec) { return {Tensor(), spec}; }
  Argument spec_in(const Argument& argument) const {
    if (argument.is_list()) {
      ArgumentList list;
      for (const Argument& element : argument.list()) list.push_back(spec_in(element));
      return list;
    }
    if (!argument.is_tensor() || !argument.tensor().defined()) return argument;
    const DTensor& x = argument.tensor();
    if (x.distributed()) return x.spec();
    return layout_->arena().spec(layout_, {Placement::replicate()}, x.meta());
  }
  [[noreturn]] static void refuse(std::string_view what) {
    fail(Fix{}, "{}: {}", what, kCutElsewhere);
  }

  std::span<const SpmdType> types_;
  const MeshLayout* layout_;
  std::int64_t size_;
  std::size_t next_ = 0;
};

TypeAnswer answer_of(const DTensor& result) {
  const Placement placement =
      result.distributed() ? result.spec()->placement(0) : Placement::replicate();
  const auto type = parse_spmd_type(to_string(placement));
  return {type,
          type ? "" : fmt::format("it gives {}, for which there is no type", to_string(placement)),
          {}};
}

}  // namespace

std::vector<TypeAnswer> types_of_pieces(const OpRow& row, const Arguments& args,
                                        std::span<const SpmdType> types, std::int64_t size) {
  // The sizes that views are given are those of pieces.
  const bool views = std::holds_alternative<MeshRuleFn>(row.rule);
  PieceCalls calls(types, views ? 1 : size);
  std::vector<TypeAnswer> answers;
  try {
    Arguments placed = args;
    for_each_tensor(placed, [&](DTensor& x) {
      if (x.defined()) x = calls.placed(x);
    });
    const Results results = calls.call(row, placed);
    for_each_tensor(results, [&](const DTensor& result) {
      if (result.defined()) answers.push_back(answer_of(result));
    });
  } catch (const Error& error) {
    return {
        {std::nullopt, error.summary(), "all_gather the pieces, or cut another dim by all_to_all"}};
  }
  return answers;
}

}  // namespace shardlab
