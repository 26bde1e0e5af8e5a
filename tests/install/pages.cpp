// Pieces of programs that src/api/README.md shows, each in a program that it fits into. Prints
// their results, which install_test.py compares with the expected ones.
#include <shardlab/trace.h>

#include <cstdio>
#include <span>
#include <vector>

using namespace shardlab;

namespace {

DTensor weight(const MeshLayout* mesh) {
  DTensor w = distribute_tensor(tensor({1, 2, 3}, {3}), mesh, "tp=S(0)");
  require_grad(w);
  return w;
}

void tell(const char* what, const DTensor& x) {
  std::printf("%s:", what);
  for (const double number : read_doubles(x.local())) std::printf(" %g", number);
  std::printf("\n");
}

void step_by_hand(const MeshLayout* mesh, bool speaks) {
  DTensor w = weight(mesh);
  const DTensor loss = sum(w * 2.0);
#include <by_hand.inc>
  const DTensor whole = full_tensor(w);
  if (speaks) tell("by hand", whole);
}

void count_and_change(const MeshLayout* mesh, bool speaks) {
  const DTensor w = weight(mesh);
  const DTensor loss = sum(redistribute(w, "tp=R"));
#include <around.inc>
  const DTensor whole = full_tensor(grad_of(w));
  if (!speaks) return;
  tell("around", whole);
  std::printf("around: %d gathers, %srecorded\n", static_cast<int>(gathers),
              requires_grad(w * 2.0) ? "" : "not ");
}

void sum_in_backward(const MeshLayout* mesh, bool speaks) {
  DTensor x = tensor({1, 2, 3}, {3});
  require_grad(x);
  ProcessGroup& group = get_group(mesh, "tp");
#include <own_gradient.inc>
  backward(sum(y));
  if (speaks) tell("own gradient", grad_of(x));
}

void write_to_memory(bool speaks) {
#include <memory.inc>
  if (speaks) std::printf("memory: %g %g of %zu\n", numbers[0], numbers[5], numbers.size());
}

void trace_values(const MeshLayout* mesh, bool speaks) {
  const DTensor x = distribute_tensor(tensor({4, 8}, {2}), mesh, "tp=S(0)");
  const DTensor y = distribute_tensor(tensor({4, 8}, {2}), init_mesh({{"x", 2}}), "x=S(0)");
  try {
#include <traced.inc>
  } catch (const Error& error) {
    if (speaks) std::printf("traced: %s\n", error.summary().c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return run_main(argc, argv, {.ranks = 2}, [](RankContext& rank) {
    const MeshLayout* tp = init_mesh({{"tp", 2}});
    step_by_hand(tp, rank.rank == 0);
    count_and_change(tp, rank.rank == 0);
    sum_in_backward(tp, rank.rank == 0);
    write_to_memory(rank.rank == 0);
    trace_values(tp, rank.rank == 0);
    const MeshLayout* mesh = init_mesh({{"dp", 2}});
#include <drawn_inputs.inc>
  });
}
