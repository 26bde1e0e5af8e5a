// A launch is stored under all data that decides its result, with its input Buffers held: a held
// Buffer is copied before a write to it, so that its address identifies its content. A rank that
// finds an equal launch takes the result's Buffer. Entries are removed when the slowest rank has
// passed their step, or when too many bytes wait.
#include "sim/world/sharing_device.h"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/rank_context.h"

namespace shardlab {

namespace {

// Results that wait for slower ranks; beyond it the oldest are removed.
constexpr std::int64_t kMostBytes = std::int64_t{64} << 20;
// The number of launches between searches for those that no rank can ask for any more.
constexpr std::size_t kLaunchesBetween = 8;

void for_each_input(const KernelCall& call, auto visit) {
  for (const LocalArg& arg : call.args) {
    if (const auto* tensor = std::get_if<Tensor>(&arg)) visit(*tensor);
    if (const auto* tensors = std::get_if<std::vector<Tensor>>(&arg)) {
      for (const Tensor& tensor : *tensors) visit(tensor);
    }
  }
}

// Whether the kernel writes to the memory of an input.
bool is_input(const KernelCall& call, const Tensor& output) {
  bool is = false;
  for_each_input(call, [&](const Tensor& input) {
    is = is || (input.defined() && input.storage() == output.storage());
  });
  return is;
}

// All data that makes two launches equal, as words.
class Key {
 public:
  explicit Key(const KernelCall& call, std::int64_t step) {
    words_.reserve(64);
    add(static_cast<std::uint64_t>(step));
    add(static_cast<std::uint64_t>(call.kernel));
    add(call.random.seed);
    add(call.random.offset);
    for (const LocalArg& arg : call.args) {
      add(arg.index());
      std::visit([this](const auto& value) { add(value); }, arg);
    }
    for (const Tensor& output : call.outputs) {
      add(output.defined() ? &output.meta() : nullptr);
      if (output.defined() && is_input(call, output)) add(output);  // written in place
    }
    add(std::uint64_t{call.view != nullptr});
    if (call.view != nullptr) add(*call.view);
  }
  std::vector<std::uint64_t> take() { return std::move(words_); }

 private:
  void add(std::uint64_t word) { words_.push_back(word); }
  void add(std::monostate) {}
  void add(DType dtype) { add(static_cast<std::uint64_t>(dtype)); }
  void add(const Dims& dims) {
    add(dims.size());
    for (const std::int64_t value : dims) add(static_cast<std::uint64_t>(value));
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  void add(const Scalar& scalar) {
    add(static_cast<std::uint64_t>(scalar.category()));
    // Integers as they are: large ones differ in bits that a double does not hold.
    add(scalar.is_integral() ? static_cast<std::uint64_t>(scalar.to_int()) : 0);
    add(scalar.to_double());
    add(scalar.imaginary());
  }
  void add(const std::vector<double>& values) {
    add(values.size());
    for (const double value : values) add(value);
  }
  void add(const std::string& text) {
    add(text.size());
    for (const char c : text) add(static_cast<std::uint64_t>(c));
  }
  void add(const TensorMeta* meta) {
    add(std::uint64_t{meta != nullptr});
    if (meta == nullptr) return;
    add(meta->dtype);
    add(meta->shape);
    add(meta->stride);
  }
  void add(const Tensor& tensor) {
    add(std::uint64_t{tensor.defined()});
    if (!tensor.defined()) return;
    add(&tensor.meta());
    add(static_cast<std::uint64_t>(tensor.offset()));
    add(reinterpret_cast<std::uintptr_t>(tensor.storage()->buffer().get()));
  }
  void add(const std::vector<Tensor>& tensors) {
    add(tensors.size());
    for (const Tensor& tensor : tensors) add(tensor);
  }
  void add(const LocalView& view) {
    add(view.global_shape);
    for (const DimMap& dim : view.dims) {
      add(dim.runs.size());
      for (const IndexRun& run : dim.runs) {
        add(static_cast<std::uint64_t>(run.offset));
        add(static_cast<std::uint64_t>(run.size));
      }
    }
  }

  std::vector<std::uint64_t> words_;
};

std::uint64_t hash_of(const std::vector<std::uint64_t>& key) {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) hash = hash_mix(hash, word);
  return hash;
}

// True when another rank may hold the same inputs. Waits for pending inputs.
bool may_be_shared(const KernelCall& call) {
  bool may = true;
  for_each_input(call, [&](const Tensor& input) {
    if (!input.defined()) return;
    if (input.storage()->buffer()->use_count() == 1) may = false;
  });
  return may;
}

// Counts a write as a kernel does, without a copy: another rank's kernel has written already.
void count_write(Storage& storage) {
  const BufferRef before = storage.buffer();
  storage.complete(BufferRef(new Buffer(before->device(), nullptr, before->size_bytes())));
  static_cast<void>(storage.writable());
}

}  // namespace

struct SharingDevice::Launch {
  std::uint64_t hash;
  std::vector<std::uint64_t> key;
  std::int64_t step;
  std::vector<BufferRef> inputs;   // held, so that writes to them are made on copies meanwhile
  std::vector<BufferRef> results;  // of the outputs, once ended
  std::int64_t size_bytes = 0;
  bool ended = false;
  int waiting = 0;  // OS threads
};

SharingDevice::SharingDevice(Device& device, std::int64_t ranks)
    : device_(device),
      steps_(std::make_unique<std::atomic<std::int64_t>[]>(static_cast<std::size_t>(ranks))),
      ranks_(ranks),
      let_go_at_(kLaunchesBetween) {}

SharingDevice::~SharingDevice() = default;

SharingStats SharingDevice::stats() const { return {run_.load(), shared_.load()}; }

void SharingDevice::run_alone(const KernelCall& call) {
  run_.fetch_add(1, std::memory_order_relaxed);
  device_.run(call);
}

SharingDevice::Launches::iterator SharingDevice::find(std::uint64_t hash,
                                                      const std::vector<std::uint64_t>& key) {
  const auto [begin, end] = by_hash_.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second->key == key) return it->second;
  }
  return launches_.end();
}

void SharingDevice::run(const KernelCall& call) {
  const RankContext* rank = current_rank_or_null();
  if (rank == nullptr) return run_alone(call);
  steps_[static_cast<std::size_t>(rank->rank)].store(rank->step, std::memory_order_relaxed);
  if (!may_be_shared(call)) return run_alone(call);
  std::vector<std::uint64_t> key = Key(call, rank->step).take();
  const std::uint64_t hash = hash_of(key);
  std::unique_lock lock(mutex_);
  const auto known = find(hash, key);
  if (known != launches_.end()) {
    if (take(call, known, lock)) return;
    lock.unlock();
    return run_alone(call);
  }
  let_go();
  Launch launch{.hash = hash, .key = std::move(key), .step = rank->step};
  for_each_input(call, [&](const Tensor& input) {
    if (input.defined()) launch.inputs.push_back(input.storage()->buffer());
  });
  const auto added = launches_.insert(launches_.end(), std::move(launch));
  by_hash_.emplace(hash, added);
  lock.unlock();
  run_first(call, added);
}

void SharingDevice::run_first(const KernelCall& call, Launches::iterator launch) {
  try {
    run_alone(call);
  } catch (...) {
    // Every rank is to see the error as its own.
    const std::lock_guard lock(mutex_);
    launch->ended = true;
    ended_.notify_all();
    throw;
  }
  const std::lock_guard lock(mutex_);
  for (const Tensor& output : call.outputs) {
    launch->results.push_back(output.defined() ? output.storage()->buffer() : BufferRef());
    if (output.defined()) launch->size_bytes += output.size_bytes();
  }
  held_bytes_ += launch->size_bytes;
  launch->ended = true;
  ended_.notify_all();
}

// False when the one that ran it failed.
bool SharingDevice::take(const KernelCall& call, Launches::iterator launch,
                         std::unique_lock<std::mutex>& lock) {
  // On another OS thread: kernels do not switch between ranks.
  ++launch->waiting;
  ended_.wait(lock, [&] { return launch->ended; });
  --launch->waiting;
  if (launch->results.size() != call.outputs.size()) return false;
  const std::vector<BufferRef> results = launch->results;
  lock.unlock();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!call.outputs[i].defined()) continue;
    Storage& storage = *call.outputs[i].storage();
    if (is_input(call, call.outputs[i])) count_write(storage);
    storage.complete(results[i]);
  }
  shared_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void SharingDevice::erase(Launches::iterator launch) {
  const auto [begin, end] = by_hash_.equal_range(launch->hash);
  for (auto it = begin; it != end; ++it) {
    if (it->second != launch) continue;
    by_hash_.erase(it);
    break;
  }
  held_bytes_ -= launch->size_bytes;
  launches_.erase(launch);
}

void SharingDevice::let_go() {
  const bool full = held_bytes_ > kMostBytes;
  if (!full && launches_.size() < let_go_at_) return;
  std::int64_t slowest = steps_[0].load(std::memory_order_relaxed);
  for (std::int64_t rank = 1; rank < ranks_; ++rank) {
    slowest = std::min(slowest, steps_[static_cast<std::size_t>(rank)].load());
  }
  for (auto it = launches_.begin(); it != launches_.end();) {
    const auto launch = it++;
    const bool unreachable = launch->step < slowest || held_bytes_ > kMostBytes;
    if (launch->ended && launch->waiting == 0 && unreachable) erase(launch);
  }
  // A rank that is far ahead keeps all of them reachable: searching them again and again would take
  // time with the square of their number.
  let_go_at_ = launches_.size() + std::max(launches_.size(), kLaunchesBetween);
}

}  // namespace shardlab
