// A launch is identified by its kernel and its number among the rank's launches of that kernel, so
// that it is the same one in a program whose other kernels convert less. The right result is
// computed first, and then spoilt: the effect of a mistake is the difference of the two.
#include "tests/support/mutating_device.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/rank_context.h"
#include "kernels/kernel_id.h"
#include "tensor/host.h"
#include "tensor/local_view.h"

namespace shardlab {

namespace {

using Bytes = std::vector<std::byte>;

void set_bytes(const Tensor& tensor, const Bytes& bytes) {
  if (!bytes.empty()) tensor.device()->write(tensor, bytes.data());
}

struct Result {
  TensorMeta meta;
  Bytes bytes;
};

// Written by its rank only. Holds no tensors, which would outlive the accounts of their memory.
struct Past {
  std::map<KernelId, std::int64_t> launches;
  std::vector<Result> results;  // the first ones of the latest launches
};

bool looks_up(const KernelCall& call) {
  return std::ranges::any_of(call.args, [](const LocalArg& argument) {
    const auto* tensor = std::get_if<Tensor>(&argument);
    return tensor != nullptr && tensor->defined() && tensor->dtype() == DType::kI64;
  });
}

// Number of elements of the mask that a masked lookup returns in addition to its values; 0: it
// returns none.
std::int64_t masked_elements(const KernelCall& call) {
  if (call.view == nullptr || call.outputs.size() < 2 || !looks_up(call)) return 0;
  const Tensor& mask = call.outputs.back();
  return mask.defined() && mask.dtype() == DType::kBool ? mask.numel() : 0;
}

bool writes_inputs(const KernelCall& call) {
  for (const LocalArg& argument : call.args) {
    const auto* tensor = std::get_if<Tensor>(&argument);
    if (tensor == nullptr || !tensor->defined()) continue;
    for (const Tensor& output : call.outputs) {
      if (output.defined() && output.storage() == tensor->storage()) return true;
    }
  }
  return false;
}

// The view moved by one element along a dim that is cut: forward, or backward at the end of the
// dim.
LocalView moved(const LocalView& view) {
  LocalView other = view;
  for (std::size_t i = 0; i < view.dims.size(); ++i) {
    if (view.dims[i].local_size() == view.global_shape[i]) continue;
    auto& runs = other.dims[i].runs;
    const bool room = !runs.empty() && runs.back().offset + runs.back().size < view.global_shape[i];
    for (IndexRun& run : runs) run.offset += room ? 1 : -1;
  }
  return other;
}

class MutatingDevice final : public Device {
 public:
  MutatingDevice(Device& device, std::int64_t ranks, std::optional<WrongLaunch> wrong,
                 std::shared_ptr<LaunchLog> log)
      : device_(device),
        wrong_(wrong),
        log_(std::move(log)),
        past_(static_cast<std::size_t>(ranks)) {
    log_->by_rank.assign(past_.size(), {});
  }

  std::string_view type() const override { return device_.type(); }
  BufferRef allocate(std::size_t size_bytes) override { return device_.allocate(size_bytes); }
  void copy(const Tensor& dst, const Tensor& src) override { device_.copy(dst, src); }
  void read(const Tensor& src, void* out) override { device_.read(src, out); }
  void write(const Tensor& dst, const void* data) override { device_.write(dst, data); }
  MemoryUse memory() const override { return device_.memory(); }

  void run(const KernelCall& call) override {
    const RankContext* rank = current_rank_or_null();
    if (rank == nullptr || (rank->mode & kModeObserve) == 0) return device_.run(call);
    const auto number = static_cast<std::size_t>(rank->rank);
    Past& past = past_[number];
    const std::int64_t index = past.launches[call.kernel]++;
    log_->by_rank[number].push_back(
        {call.kernel, index, call.view != nullptr, masked_elements(call) > 0});
    device_.run(call);
    const bool hit = wrong_ && wrong_->kernel == call.kernel && wrong_->index == index &&
                     wrong_->rank.value_or(rank->rank) == rank->rank;
    if (hit) make_wrong(call, past);
    remember(call, past);
  }

 private:
  void remember(const KernelCall& call, Past& past) const {
    constexpr std::size_t kMost = 16;
    if (!wrong_ || wrong_->mistake != KernelMistake::kStaleResult) return;
    if (call.outputs.empty() || !call.outputs[0].defined()) return;
    if (past.results.size() == kMost) past.results.erase(past.results.begin());
    past.results.push_back({call.outputs[0].meta(), read_bytes(call.outputs[0])});
  }

  Tensor copy_of(const Tensor& tensor) const {
    Tensor result = empty(device_, tensor.shape(), tensor.dtype());
    device_.copy(result, tensor);
    return result;
  }

  void make_wrong(const KernelCall& call, const Past& past) {
    std::vector<Bytes> right;
    for (const Tensor& output : call.outputs) {
      right.push_back(output.defined() ? read_bytes(output) : Bytes());
    }
    spoil(call, past);
    for (std::size_t i = 0; i < call.outputs.size(); ++i) {
      if (!call.outputs[i].defined() || read_bytes(call.outputs[i]) == right[i]) continue;
      ++log_->changed;
      return;
    }
  }

  void spoil(const KernelCall& call, const Past& past) {
    const bool gives = !call.outputs.empty() && call.outputs[0].defined();
    switch (wrong_->mistake) {
      case KernelMistake::kWrongOffset:
        return run_elsewhere(call);
      case KernelMistake::kNoMask:
        return find_everywhere(call);
      case KernelMistake::kStaleResult:
        if (gives) take_stale(call.outputs[0], past);
        return;
      case KernelMistake::kSwappedHalves:
        if (gives) swap_halves(call.outputs[0]);
        return;
    }
  }

  // Kernels that write to an input have read it already, so these are left as they are.
  void run_elsewhere(const KernelCall& call) {
    if (call.view == nullptr || writes_inputs(call)) return;
    const LocalView view = moved(*call.view);
    KernelCall other = call;
    other.view = &view;
    device_.run(other);
  }

  // The result of a lookup that only clamps its index to the rows that are here.
  static void find_everywhere(const KernelCall& call) {
    const std::int64_t count = masked_elements(call);
    const auto* table = std::get_if<Tensor>(&call.args[0]);
    if (count == 0 || table == nullptr || table->numel() == 0) return;
    const Bytes mask = read_bytes(call.outputs.back()), entries = read_bytes(*table);
    Bytes found = read_bytes(call.outputs[0]);
    const std::size_t size = found.size() / static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < mask.size(); ++i) {
      if (mask[i] == std::byte{0}) continue;
      std::copy_n(entries.begin(), static_cast<std::ptrdiff_t>(size),
                  found.begin() + static_cast<std::ptrdiff_t>(i * size));
    }
    set_bytes(call.outputs[0], found);
    set_bytes(call.outputs.back(), Bytes(mask.size(), std::byte{0}));
  }

  static void take_stale(const Tensor& output, const Past& past) {
    const auto stale =
        std::find_if(past.results.rbegin(), past.results.rend(), [&](const Result& result) {
          return result.meta.shape == output.shape() && result.meta.dtype == output.dtype();
        });
    if (stale != past.results.rend()) return set_bytes(output, stale->bytes);
    set_bytes(output, Bytes(static_cast<std::size_t>(output.size_bytes()), std::byte{0}));
  }

  void swap_halves(const Tensor& output) {
    if (output.dim() == 0 || output.size(0) < 2) return;
    const std::int64_t size = output.size(0), half = size / 2;
    const Tensor right = copy_of(output);
    device_.copy(output.narrow(0, 0, half), right.narrow(0, size - half, half));
    device_.copy(output.narrow(0, size - half, half), right.narrow(0, 0, half));
  }

  Device& device_;
  const std::optional<WrongLaunch> wrong_;
  const std::shared_ptr<LaunchLog> log_;
  std::vector<Past> past_;  // by rank
};

}  // namespace

std::string_view to_string(KernelMistake mistake) {
  constexpr std::string_view kNames[] = {"wrong offset", "no mask", "stale result",
                                         "swapped halves"};
  return kNames[static_cast<std::size_t>(mistake)];
}

bool applies(KernelMistake mistake, const Launch& launch) {
  if (mistake == KernelMistake::kWrongOffset) return launch.positioned;
  if (mistake == KernelMistake::kNoMask) return launch.masked;
  return true;
}

std::unique_ptr<Device> plant_launch(Device& device, std::int64_t ranks,
                                     std::optional<WrongLaunch> wrong,
                                     std::shared_ptr<LaunchLog> log) {
  return std::make_unique<MutatingDevice>(device, ranks, wrong, std::move(log));
}

}  // namespace shardlab
