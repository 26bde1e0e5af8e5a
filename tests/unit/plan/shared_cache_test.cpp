// Entries in use outlive their places, however many others come; entries not in use are freed,
// whatever other entries are in use.
#include "plan/shared_cache.h"

#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "base/hash.h"

namespace shardlab {
namespace {

// Reports its end, and its number as long as it lives.
struct Numbered {
  std::uint64_t number = 0;
  std::shared_ptr<std::uint64_t> told;  // written by itself alone: its number
};

constexpr std::size_t kPlaces = 8;  // one bucket

class Numbers {
 public:
  InUse<Numbered> get(std::uint64_t number) {
    const auto matches = [number](const Numbered& entry) { return entry.number == number; };
    InUse<Numbered> known = cache_.find(0, matches);
    if (known) return known;
    return cache_.insert(0, matches, {number, std::make_shared<std::uint64_t>(number)});
  }
  std::set<std::uint64_t> living() const {
    std::set<std::uint64_t> numbers;
    cache_.visit([&](const Numbered& entry) { numbers.insert(*entry.told); });
    return numbers;
  }
  CacheStats stats() const { return cache_.stats(); }
  void clear() { cache_.clear(); }

 private:
  SharedCache<Numbered> cache_{kPlaces};
};

TEST_CASE("R-41 an entry in use outlives any number of others, and is freed after its use") {
  Numbers numbers;
  {
    const InUse<Numbered> held = numbers.get(0);
    for (std::uint64_t other = 1; other < 1000; ++other) numbers.get(other);
    CHECK(numbers.living().contains(0));
    CHECK(*held->told == 0);
    CHECK(numbers.stats().evictions == 992);
  }
  numbers.get(1000);
  CHECK_FALSE(numbers.living().contains(0));
  for (std::uint64_t other = 1001; other < 1010; ++other) numbers.get(other);
  CHECK(numbers.living().size() == 2 * kPlaces);
}

TEST_CASE("R-41 uses that follow one another without a gap hold up nothing for long") {
  Numbers numbers;
  InUse<Numbered> first = numbers.get(0), second = numbers.get(1);
  for (std::uint64_t other = 2; other < 500; ++other) {
    // At every moment one of the two is a use, and none is one for long.
    (other % 2 == 0 ? first : second) = numbers.get(other);
    CHECK(*first->told == first->number);
    CHECK(*second->told == second->number);
    CHECK(numbers.living().size() <= 4 * kPlaces);
  }
}

TEST_CASE("R-41 a part of an entry keeps the whole, and what was moved from keeps nothing") {
  Numbers numbers;
  {
    InUse<Numbered> whole = numbers.get(0);
    const InUse<std::shared_ptr<std::uint64_t>> told = std::move(whole).part(&Numbered::told);
    for (std::uint64_t other = 1; other < 100; ++other) numbers.get(other);
    CHECK(**told == 0);
    CHECK(numbers.living().contains(0));
  }
  for (std::uint64_t other = 100; other < 120; ++other) numbers.get(other);
  CHECK(numbers.living().size() == 2 * kPlaces);
}

TEST_CASE("R-41 hits are uses that found an entry, and clearing counts anew") {
  Numbers numbers;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t number = 0; number < 5; ++number) numbers.get(number);
  }
  CHECK(numbers.stats().hits == 10);
  CHECK(numbers.stats().misses == 5);
  CHECK(numbers.stats().entries == 5);
  numbers.clear();
  CHECK(numbers.stats().hits == 0);
  CHECK(numbers.living().empty());
  for (std::uint64_t number = 0; number < 100; ++number) numbers.get(number);
  CHECK(numbers.living().size() == 2 * kPlaces);
}

TEST_CASE("R-41 threads that crowd a few places read what they hold, never what was freed") {
  constexpr std::size_t kThreads = 4;
  Numbers numbers;
  std::vector<std::uint64_t> wrong(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      std::array<InUse<Numbered>, 3> held;
      for (std::uint64_t step = 0; step < 20000; ++step) {
        const std::uint64_t number = hash_mix(thread, step) % 40;
        held[step % held.size()] = numbers.get(number);
        for (const InUse<Numbered>& one : held) {
          if (one && *one->told != one->number) ++wrong[thread];
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<std::uint64_t>(kThreads));
  const CacheStats stats = numbers.stats();
  CHECK(stats.hits + stats.misses == kThreads * 20000);
}

}  // namespace
}  // namespace shardlab
