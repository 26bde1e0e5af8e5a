// The memory floor walks all arrays in as many chunks as the longest one has, so that short and
// long ones are read at the same pace, and keeps its sums in registers.
#include "tests/bench/kernel_floors.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace shardlab {

namespace {

constexpr std::size_t kWords = 16;  // of 8 bytes: what a loop holds in registers

struct Array {
  const std::uint64_t* words;
  std::size_t count;
};

// The part of [0, count) that chunk `index` of `chunks` covers, in whole groups of kWords.
std::size_t edge(std::size_t count, std::size_t index, std::size_t chunks) {
  return index == chunks ? count : count / kWords * index / chunks * kWords;
}

void read(const Array& array, std::size_t first, std::size_t last, std::uint64_t* sums) {
  std::uint64_t local[kWords];
  std::copy_n(sums, kWords, local);
  for (std::size_t i = first; i + kWords <= last; i += kWords) {
    for (std::size_t k = 0; k < kWords; ++k) local[k] ^= array.words[i + k];
  }
  std::copy_n(local, kWords, sums);
}

void write(std::uint64_t* to, std::size_t first, std::size_t last, const std::uint64_t* sums) {
  std::uint64_t local[kWords];
  std::copy_n(sums, kWords, local);
  for (std::size_t i = first; i + kWords <= last; i += kWords) {
    for (std::size_t k = 0; k < kWords; ++k) to[i + k] = local[k];
  }
}

std::size_t words_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel() * item_bytes(tensor.dtype())) / 8;
}

}  // namespace

TimedWork memory_floor(std::span<const Tensor> inputs, const Tensor& output) {
  std::vector<Tensor> held(inputs.begin(), inputs.end());
  auto written = std::make_shared<std::vector<std::uint64_t>>(words_of(output) + 1, 1);
  const std::size_t count = words_of(output);
  return [held, written, count] {
    std::vector<Array> arrays;
    std::size_t longest = count;
    for (const Tensor& tensor : held) {
      const auto* words = reinterpret_cast<const std::uint64_t*>(tensor.data<std::byte>());
      arrays.push_back({words, words_of(tensor)});
      longest = std::max(longest, arrays.back().count);
    }
    const std::size_t chunks = std::max<std::size_t>(1, longest / 512);
    std::uint64_t sums[kWords] = {};
    for (std::size_t i = 0; i < chunks; ++i) {
      for (const Array& array : arrays) {
        read(array, edge(array.count, i, chunks), edge(array.count, i + 1, chunks), sums);
      }
      write(written->data(), edge(count, i, chunks), edge(count, i + 1, chunks), sums);
    }
    benchmark::DoNotOptimize(sums);
    benchmark::ClobberMemory();
  };
}

}  // namespace shardlab
