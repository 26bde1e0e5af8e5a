// Hashes of numbers and of tuples of them are CPython's: residues of a Mersenne prime, mixed for
// tuples. Those of texts differ from run to run there, and have no order here.
#include "sim/language/values/dict_entries.h"

#include <bit>
#include <cmath>
#include <functional>
#include <iterator>
#include <string>

namespace shardlab {

namespace {

constexpr int kBits = 61;
constexpr std::uint64_t kPrime = (std::uint64_t{1} << kBits) - 1;
constexpr std::size_t kFewestPlaces = 8;
constexpr std::size_t kNeighbours = 9;  // looked at before other places are tried
constexpr std::uint64_t kMinusOne = ~std::uint64_t{0};

struct Hash {
  std::uint64_t bits = 0;
  bool of_python = true;
};

// No hash is -1.
std::uint64_t with_sign(std::uint64_t residue, bool negative) {
  const std::uint64_t signed_residue = negative ? 0 - residue : residue;
  return signed_residue == kMinusOne ? kMinusOne - 1 : signed_residue;
}

std::uint64_t hash_of(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return with_sign((number < 0 ? 0 - bits : bits) % kPrime, number < 0);
}

std::uint64_t turned(std::uint64_t residue, int by) {
  return ((residue << by) & kPrime) | residue >> (kBits - by);
}

// The fraction's bits, 28 at a time, times a power of two.
Hash hash_of(double number) {
  constexpr std::uint64_t kInfinite = 314159;
  if (std::isnan(number)) return {.bits = 0, .of_python = false};
  if (std::isinf(number)) return {.bits = with_sign(kInfinite, number < 0)};
  int exponent = 0;
  double rest = std::frexp(std::fabs(number), &exponent);
  std::uint64_t residue = 0;
  while (rest != 0) {
    residue = turned(residue, 28);
    rest *= 1 << 28;
    exponent -= 28;
    const auto whole = static_cast<std::uint64_t>(rest);
    rest -= static_cast<double>(whole);
    residue = (residue + whole) % kPrime;
  }
  exponent = ((exponent % kBits) + kBits) % kBits;
  return {.bits = with_sign(turned(residue, exponent), number < 0)};
}

Hash hash_of(const Value& key);

Hash hash_of(const Values& items) {
  constexpr std::uint64_t kFirst = 11400714785074694791u, kSecond = 14029467366897019727u;
  constexpr std::uint64_t kLast = 2870177450012600261u;
  Hash hash{.bits = kLast};
  for (const Value& item : items) {
    const Hash one = hash_of(item);
    hash.bits = std::rotl(hash.bits + one.bits * kSecond, 31) * kFirst;
    hash.of_python = hash.of_python && one.of_python;
  }
  hash.bits += items.size() ^ (kLast ^ 3527539u);
  if (hash.bits == kMinusOne) hash.bits = 1546275796;
  return hash;
}

Hash hash_of(const Value& key) {
  if (const auto* number = key.get<double>()) return hash_of(*number);
  if (key.is_integer()) return {.bits = hash_of(std::get<std::int64_t>(number_of(key)))};
  if (const auto* tuple = key.get<TupleValue>()) return hash_of(*tuple->items);
  const auto* text = key.get<std::string>();
  return {.bits = text != nullptr ? std::hash<std::string>()(*text) : 0, .of_python = false};
}

}  // namespace

std::list<DictEntries::Entry>::const_iterator DictEntries::begin() const {
  if (is_set && !in_order_ && unordered_ == 0) {
    for (const Place& place : places_) {
      if (place.state == State::kUsed) entries_.splice(entries_.end(), entries_, place.entry);
    }
    in_order_ = true;
  }
  return entries_.begin();
}

const Value* DictEntries::find(const Value& key) const {
  if (places_.empty()) return nullptr;
  const Place& place = places_[place_of(hash_of(key).bits, &key)];
  return place.state == State::kUsed ? &place.entry->second : nullptr;
}

void DictEntries::set(const Value& key, const Value& value) {
  if (places_.empty()) places_.resize(kFewestPlaces);
  const Hash hash = hash_of(key);
  std::size_t removed = places_.size();
  const std::size_t at = place_of(hash.bits, &key, &removed);
  if (places_[at].state == State::kUsed) {
    places_[at].entry->second = value;
    return;
  }
  entries_.emplace_back(key, value);
  in_order_ = false;
  unordered_ += hash.of_python ? 0 : 1;
  const bool again = removed < places_.size();
  places_[again ? removed : at] = {hash.bits, State::kUsed, std::prev(entries_.end())};
  if (!again && 5 * ++filled_ >= 3 * (places_.size() - 1)) resize(grown());
}

bool DictEntries::erase(const Value& key) {
  if (places_.empty()) return false;
  const Hash hash = hash_of(key);
  Place& place = places_[place_of(hash.bits, &key)];
  if (place.state != State::kUsed) return false;
  place.state = State::kRemoved;
  entries_.erase(place.entry);
  unordered_ -= hash.of_python ? 0 : 1;
  return true;
}

void DictEntries::clear() {
  entries_.clear();
  places_.clear();
  filled_ = unordered_ = 0;
}

// Into an empty table of the same size all keep their places.
void DictEntries::merge(const DictEntries& more) {
  if (&more == this || more.empty()) return;
  if (places_.empty()) places_.resize(kFewestPlaces);
  if (5 * (filled_ + more.size()) >= 3 * (places_.size() - 1)) resize(2 * (size() + more.size()));
  const bool in_table = more.is_set && more.unordered_ == 0 && more.filled_ == more.size();
  if (!in_table || filled_ > 0 || places_.size() != more.places_.size()) {
    for (const auto& [key, value] : more) set(key, value);
    return;
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = more.places_[i];
    if (place.state != State::kUsed) continue;
    entries_.push_back(*place.entry);
    places_[i] = {place.hash, place.state, std::prev(entries_.end())};
  }
  filled_ = more.filled_;
}

void DictEntries::subtract(const DictEntries& others) {
  if (&others == this) return clear();
  for (const auto& [key, none] : others) erase(key);
  if (filled_ - size() > (places_.size() - 1) / 4) resize(grown());
}

void DictEntries::toggle(const DictEntries& others) {
  if (&others == this) return clear();
  for (const auto& [key, none] : others) {
    if (!erase(key)) set(key, {});
  }
}

void DictEntries::become(DictEntries&& other) {
  entries_.swap(other.entries_);
  places_.swap(other.places_);
  in_order_ = other.in_order_;
  filled_ = other.filled_;
  unordered_ = other.unordered_;
}

// The place of the key, or the free one where looking for it ends; `removed`: the last one before
// it that held another, which Python takes for a new key.
std::size_t DictEntries::place_of(std::uint64_t hash, const Value* key,
                                  std::size_t* removed) const {
  const std::size_t mask = places_.size() - 1;
  std::uint64_t rest = hash;
  for (std::size_t first = hash & mask;;) {
    const std::size_t last = first + kNeighbours <= mask ? first + kNeighbours : first;
    for (std::size_t at = first; at <= last; ++at) {
      const Place& place = places_[at];
      if (place.state == State::kFree) return at;
      if (place.state == State::kRemoved) {
        if (removed != nullptr) *removed = at;
      } else if (key != nullptr && place.hash == hash && equal(place.entry->first, *key)) {
        return at;
      }
    }
    rest >>= 5;
    first = (first * 5 + 1 + rest) & mask;
  }
}

// More than `least` places, without those of what was removed.
void DictEntries::resize(std::size_t least) {
  std::size_t count = kFewestPlaces;
  while (count <= least) count *= 2;
  const std::vector<Place> before = std::exchange(places_, std::vector<Place>(count));
  filled_ = size();
  in_order_ = false;
  for (const Place& place : before) {
    if (place.state == State::kUsed) places_[place_of(place.hash, nullptr)] = place;
  }
}

std::size_t DictEntries::grown() const { return size() > 50'000 ? 2 * size() : 4 * size(); }

void intersect(const DictEntries& a, const DictEntries& b, DictEntries& made) {
  if (&a == &b) return made.merge(a);
  const bool turned = b.size() > a.size();
  for (const auto& [key, none] : turned ? a : b) {
    if ((turned ? b : a).find(key) != nullptr) made.set(key, {});
  }
}

void difference(const DictEntries& a, const DictEntries& b, DictEntries& made) {
  if (a.size() / 4 > b.size()) {
    made.merge(a);
    return made.subtract(b);
  }
  for (const auto& [key, none] : a) {
    if (b.find(key) == nullptr) made.set(key, {});
  }
}

}  // namespace shardlab
