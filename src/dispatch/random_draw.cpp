// Every draw of every random op advances a generator only here: by the global element count, which
// does not depend on how the result is cut.
#include "dispatch/random_draw.h"

#include "schema/op_row.h"

namespace shardlab {

RandomState& random_state(const OpRow& row, const Arguments& args, RandomState* own) {
  RandomState* state = own != nullptr ? own : &current_rank().random;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (row.op.arguments[i].type.kind != TypeKind::kGenerator || args[i].is_none()) continue;
    const auto* generator = std::get_if<Generator>(&args[i].variant());
    check_invariant(generator != nullptr && *generator, "a generator argument holds a generator");
    state = generator->get();
  }
  return *state;
}

RandomState draw(const OpRow& row, const Arguments& args, std::int64_t count, RandomState* own) {
  if (!row.has(kRandom)) return {};
  RandomState& state = random_state(row, args, own);
  const RandomState before = state;
  state.offset += static_cast<std::uint64_t>(count);
  return before;
}

}  // namespace shardlab
