// A call in f64 has no rounding that matters to a narrower one; finite differences use no rule of a
// gradient: both know the answer another way.
#include "tests/facts/second_opinion.h"

#include <algorithm>
#include <cmath>
#include <complex>

#include "autograd/program.h"
#include "schema/op_row.h"
#include "sim/run/reference_calls.h"
#include "tensor/host.h"
#include "tests/facts/call_sequence.h"

namespace shardlab {

namespace {

// The gradient is wrong for elements replaced by src, for the half of a factor that is not read,
// and for lookups that are divided by the count of their row: the gradients must be divided, too.
constexpr std::string_view kRefuted[] = {"aten::as_strided_scatter", "aten::cholesky_solve",
                                         "aten::embedding_dense_backward"};

Results results_of(const OpRow& row, const Arguments& args) {
  return program_calls().perform(OpEvent{&row, &args});
}

// Sum over the results of <result, its gradient>.
double weighed(const Results& results, const std::vector<Tensor>& grads) {
  double sum = 0;
  std::size_t next = 0;
  for_each_flat(results, [&](const Argument& result) {
    const std::size_t index = next++;
    if (index >= grads.size() || !grads[index].defined()) return;
    const std::vector<double> values = read_doubles(result.tensor().local());
    const std::vector<double> weights = read_doubles(grads[index]);
    for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  });
  return sum;
}

bool about(double got, double derivative) {
  return std::fabs(got - derivative) <= 1e-3 * std::max(1.0, std::fabs(derivative));
}

}  // namespace

Results results_in_f64(const OpRow& row, Arguments args) {
  for_each_tensor(args, [](DTensor& tensor) {
    if (tensor.defined()) tensor = in_reference_precision(tensor);
  });
  ReferenceCalls reference(program_calls());
  const ProgramScope scope(reference);
  return results_of(row, args);
}

bool differences_refute(const OpRow& row, const Arguments& args, const std::vector<Tensor>& grads,
                        std::size_t which, const Tensor& ours, const RecordedOutput& recorded) {
  const bool exact = ours.dtype() == DType::kF64 || ours.dtype() == DType::kC128;
  if (std::ranges::count(kRefuted, row.name()) == 0 || !exact) return false;
  Arguments moved = args;
  DTensor* leaf = nullptr;
  std::size_t number = 0;
  for_each_tensor(moved, [&](DTensor& tensor) {
    if (number++ == which) leaf = &tensor;
  });
  if (leaf == nullptr) return false;
  const Tensor fresh = empty(*current_rank().device, leaf->shape(), leaf->dtype());
  std::vector<double> numbers = read_doubles(leaf->local());
  *leaf = DTensor(fresh);
  const std::vector<double> gradient = read_doubles(ours);
  // For complex numbers each part by itself: the gradient holds the slopes of both.
  const std::size_t parts = is_complex(ours.dtype()) ? 2 : 1;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::complex<double>& number = recorded.values[i / parts];
    if (about(gradient[i], i % parts == 0 ? number.real() : number.imag())) continue;
    const double at = numbers[i], step = 1e-5 * std::max(1.0, std::fabs(at));
    const auto at_step = [&](double moved_by) {
      numbers[i] = at + moved_by;
      write_doubles(fresh, numbers);
      return weighed(results_of(row, moved), grads);
    };
    const double below = at_step(-step), here = at_step(0), above = at_step(step);
    numbers[i] = at;
    if (!about(gradient[i], (above - here) / step)) return false;
    if (!about(gradient[i], (here - below) / step)) return false;
  }
  return true;
}

}  // namespace shardlab
