#include "tests/bench/floor.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <numeric>
#include <vector>

namespace shardlab {

double thread_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

namespace {

template <typename Function>
double best_of(int rounds, const Function& function) {
  double best = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const double begin = thread_seconds();
    function();
    best = std::min(best, thread_seconds() - begin);
  }
  return best;
}

std::vector<float> ones(std::int64_t bytes) {
  return std::vector<float>(static_cast<std::size_t>(bytes) / sizeof(float), 1.0f);
}

}  // namespace

// Reads N inputs of S bytes side by side, writes S bytes.
double floor_of_reduction(std::int64_t ranks, std::int64_t bytes) {
  const std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks), ones(bytes));
  std::vector<float> output = ones(bytes);
  const double reading = best_of(7, [&] {
    for (const std::vector<float>& input : inputs) {
      // Eight sums, so that the additions do not wait for each other.
      std::int64_t sums[8] = {};
      for (std::size_t i = 0; i + 16 <= input.size(); i += 16) {
        for (std::size_t k = 0; k < 8; ++k) {
          std::int64_t word = 0;
          std::memcpy(&word, input.data() + i + 2 * k, sizeof(word));
          sums[k] ^= word;
        }
      }
      benchmark::DoNotOptimize(std::accumulate(std::begin(sums), std::end(sums), std::int64_t{0}));
    }
  });
  const double writing = best_of(7, [&] {
    std::fill(output.begin(), output.end(), 2.0f);
    benchmark::ClobberMemory();
  });
  return reading + writing;
}

double floor_of_copy(std::int64_t ranks, std::int64_t bytes) {
  const std::vector<std::vector<float>> inputs(static_cast<std::size_t>(ranks), ones(bytes));
  std::vector<float> output = ones(ranks * bytes);
  return best_of(7, [&] {
    float* to = output.data();
    for (const std::vector<float>& input : inputs) {
      std::memcpy(to, input.data(), static_cast<std::size_t>(bytes));
      to += input.size();
    }
    benchmark::ClobberMemory();
  });
}

}  // namespace shardlab
