// Working memory that is used again belongs to one call at a time, for all callers.
#include "kernels/scratch_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <complex>
#include <thread>
#include <vector>

namespace shardlab {
namespace {

constexpr std::int64_t kMany = std::int64_t{1} << 17;  // a MiB of f64, which is kept

TEST_CASE(
    "memory that calls hold at the same time does not overlap, before and after it is reused") {
  for (int round = 0; round < 3; ++round) {
    std::vector<Scratch<double>> held;
    for (int i = 0; i < 5; ++i) {
      held.push_back(scratch<double>(kMany + 1000 * i));
      std::fill_n(held.back().get(), kMany + 1000 * i, double(i));
    }
    for (int i = 0; i < 5; ++i) {
      const double* values = held[std::size_t(i)].get();
      CHECK(std::all_of(values, values + kMany + 1000 * i, [&](double x) { return x == i; }));
    }
  }
}

TEST_CASE("threads that take and give working memory have each their own") {
  std::vector<int> foreign(4, 0);
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&foreign, id] {
      for (int round = 0; round < 50; ++round) {
        const std::int64_t count = kMany + 4096 * (round % 7);
        const auto values = scratch<double>(count);
        for (std::int64_t i = 0; i < count; i += 512) values[std::size_t(i)] = id;
        for (std::int64_t i = 0; i < count; i += 512) {
          foreign[std::size_t(id)] += values[std::size_t(i)] != id;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(foreign == std::vector<int>(4, 0));
}

TEST_CASE("of more memory than is kept each call has what it asks for; of none, too") {
  std::vector<Scratch<float>> held;
  for (int i = 0; i < 12; ++i) {
    held.push_back(scratch<float>(std::int64_t{1} << 20));
    held.back()[(1 << 20) - 1] = float(i);
  }
  held.clear();
  held.push_back(scratch<float>(0));
  CHECK(held.back() != nullptr);
  const auto again = scratch<std::complex<double>>(3 * kMany);
  again[3 * kMany - 1] = {1, 2};
  CHECK(again[3 * kMany - 1].imag() == 2);
}

}  // namespace
}  // namespace shardlab
