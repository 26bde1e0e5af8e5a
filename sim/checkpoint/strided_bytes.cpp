// A part is cut in halves along its outermost dim until it is one run of bytes, which goes to its
// place at once, or small enough to be read with all that is between its elements.
#include "sim/checkpoint/strided_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "tensor/strided_copy.h"

namespace shardlab {

namespace {

// Bytes that are read for elements which are not next to each other; runs from this length on are
// read by themselves.
constexpr std::int64_t kBlock = 4 << 20, kLongRun = 64 << 10;

struct Copy {
  Dims count, from_stride, to_stride;
};

// Elements next to each other in both places, from the last dim on.
std::int64_t run_of(const Copy& copy) {
  std::int64_t run = 1;
  for (std::size_t dim = copy.count.size(); dim-- > 0;) {
    if (copy.count[dim] == 1) continue;
    if (copy.from_stride[dim] != run || copy.to_stride[dim] != run) break;
    run *= copy.count[dim];
  }
  return run;
}

void read_part(const StridedBytes& elements, Copy copy, std::int64_t at, char* out,
               std::vector<char>& block) {
  const std::int64_t item = elements.item, run = run_of(copy);
  if (run == product(copy.count)) {
    return elements.bytes.read(static_cast<std::uint64_t>(at * item),
                               static_cast<std::uint64_t>(run * item), out);
  }
  std::int64_t span = 1;
  std::size_t outer = 0;
  for (std::size_t dim = 0; dim < copy.count.size(); ++dim) {
    span += (copy.count[dim] - 1) * copy.from_stride[dim];
    const bool wider = copy.count[outer] == 1 || copy.from_stride[dim] > copy.from_stride[outer];
    if (copy.count[dim] > 1 && wider) outer = dim;
  }
  if (span * item <= kBlock && run * item < kLongRun) {
    block.resize(static_cast<std::size_t>(span * item));
    elements.bytes.read(static_cast<std::uint64_t>(at * item), block.size(), block.data());
    return strided_copy({out, copy.to_stride}, {block.data(), copy.from_stride}, copy.count, item);
  }
  const std::int64_t all = copy.count[outer], half = all / 2;
  copy.count[outer] = half;
  read_part(elements, copy, at, out, block);
  copy.count[outer] = all - half;
  read_part(elements, copy, at + half * copy.from_stride[outer],
            out + half * copy.to_stride[outer] * item, block);
}

}  // namespace

std::string text_of(const Box& box) {
  std::vector<std::string> dims;
  for (std::size_t dim = 0; dim < box.from.size(); ++dim) {
    dims.push_back(fmt::format("{}:{}", box.from[dim], box.from[dim] + box.shape[dim]));
  }
  return fmt::format("[{}]", text_of_list(dims, ", "));
}

Box common_part(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t dim = 0; dim < a.from.size(); ++dim) {
    const std::int64_t end = std::min(a.from[dim] + a.shape[dim], b.from[dim] + b.shape[dim]);
    common.from[dim] = std::max(a.from[dim], b.from[dim]);
    common.shape[dim] = std::max<std::int64_t>(end - common.from[dim], 0);
  }
  return common;
}

void StridedBytes::check() const {
  const std::int64_t count = product(shape);
  std::int64_t last = offset;
  bool fits = offset >= 0 && shape.size() == stride.size();
  for (std::size_t dim = 0; fits && dim < shape.size(); ++dim) {
    std::int64_t reach = 0;
    fits =
        shape[dim] >= 0 && stride[dim] >= 0 &&
        !__builtin_mul_overflow(std::max<std::int64_t>(shape[dim], 1) - 1, stride[dim], &reach) &&
        !__builtin_add_overflow(last, reach, &last);
  }
  constexpr std::int64_t kRepeated = 16 << 20;
  const auto size = static_cast<std::int64_t>(bytes.size());
  // A stride of 0, as that of an expanded tensor, may make much of little.
  const bool small = count <= std::max(size, kRepeated) / item;
  if (fits && (count == 0 || (last < size / item && small))) return;
  bytes.refuse("elements are outside of their bytes: it is cut short or damaged");
}

void StridedBytes::read(const Box& part, char* out, const Dims& out_stride) const {
  if (product(part.shape) == 0) return;
  std::int64_t at = offset;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) at += part.from[dim] * stride[dim];
  std::vector<char> block;
  read_part(*this, {part.shape, stride, out_stride}, at, out, block);
}

}  // namespace shardlab
