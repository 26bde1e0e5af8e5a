// Elements in another order, in another dtype, or times a number.
#include <cstring>

#include "base/text.h"
#include "kernels/convert.h"
#include "sim/checkpoint/edited.h"

namespace shardlab {

std::string text_of(const Picked& picked) {
  std::vector<std::string> runs;
  for (std::size_t i = 0, end = 0; i < picked.size(); i = end) {
    const bool zeros = picked[i] < 0;
    for (end = i + 1; end < picked.size() && picked[end] == (zeros ? -1 : picked[end - 1] + 1);)
      ++end;
    runs.push_back(zeros          ? fmt::format("{} of zeros", end - i)
                   : end == i + 1 ? fmt::format("{}", picked[i])
                                  : fmt::format("{}:{}", picked[i], picked[end - 1] + 1));
  }
  return text_of_list(runs, "+");
}

Picked inverse_of(const Picked& picked, std::int64_t size) {
  Picked places(static_cast<std::size_t>(size), -1);
  for (std::size_t i = picked.size(); i-- > 0;) {
    if (picked[i] >= 0) places[static_cast<std::size_t>(picked[i])] = static_cast<std::int64_t>(i);
  }
  return places;
}

std::pair<std::int64_t, std::int64_t> around(const Dims& shape, std::size_t dim) {
  const auto cut = static_cast<std::ptrdiff_t>(dim);
  return {product(Dims(shape.begin(), shape.begin() + cut)),
          product(Dims(shape.begin() + cut + 1, shape.end()))};
}

std::string picked(const std::string& elements, const Dims& shape, std::int64_t item,
                   std::size_t dim, const Picked& indices) {
  const auto [outer, inner] = around(shape, dim);
  const auto run = static_cast<std::size_t>(inner * item);
  std::string out(static_cast<std::size_t>(outer) * indices.size() * run, '\0');
  char* to = out.data();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const std::int64_t index : indices) {
      const auto from =
          static_cast<std::size_t>(o * shape[dim] + std::max<std::int64_t>(index, 0)) * run;
      if (index >= 0) std::memcpy(to, elements.data() + from, run);
      to += run;
    }
  }
  return out;
}

std::string Swap::text() const { return fmt::format("{}, {}, {}, {}", o, a, b, r); }

std::string swapped(const std::string& elements, std::int64_t item, const Swap& swap) {
  const auto run = static_cast<std::size_t>(swap.r * item);
  std::string out(elements.size(), '\0');
  char* to = out.data();
  for (std::int64_t at = 0; at < product(Dims{swap.o, swap.a, swap.b}); ++at, to += run) {
    const std::int64_t from = swap.source(at * swap.r) * item;
    std::memcpy(to, elements.data() + from, run);
  }
  return out;
}

std::string converted(const std::string& elements, DType from, DType to) {
  const auto count = static_cast<std::int64_t>(elements.size()) / item_bytes(from);
  std::string out(static_cast<std::size_t>(count * item_bytes(to)), '\0');
  convert_run({out.data(), 1, to}, {elements.data(), 1, from}, count);
  return out;
}

std::string scaled(const std::string& elements, DType dtype, double factor) {
  std::string wide = converted(elements, dtype, DType::kF64);
  auto* numbers = reinterpret_cast<double*>(wide.data());
  for (std::size_t i = 0; i < wide.size() / sizeof(double); ++i) numbers[i] *= factor;
  return converted(wide, DType::kF64, dtype);
}

}  // namespace shardlab
