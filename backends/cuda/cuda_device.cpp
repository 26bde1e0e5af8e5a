// The device door over a table of functions that a module compiled for GPUs provides. Kernels are
// those of every device, over loops that are calls of the table (table_loops.h), so that the module
// is small and this file needs no CUDA compiler. An op without a kernel is refused, or runs on the
// host and is listed, as the caller wants.
#include <cstddef>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "backends/cuda/cuda.h"
#include "backends/cuda/table.h"
#include "backends/cuda/table_loops.h"
#include "backends/shared/module.h"
#include "backends/shared/patience.h"
#include "base/error.h"
#include "kernels/cpu_kernels.h"
#include "kernels/kernel_table.h"

namespace shardlab::cuda {

namespace {

// Freed blocks are kept by size and used again for requests up to a quarter smaller; when the
// device has no memory left, all of them are given back first.

class MemoryPool {
 public:
  MemoryPool(const Table& table, Context* context) : table_(table), context_(context) {}
  ~MemoryPool() { release_kept(); }
  MemoryPool& operator=(MemoryPool&&) = delete;

  struct Block {
    void* data = nullptr;
    std::size_t size_bytes = 0;
  };

  /// At least this many bytes, at most a quarter and 512 more; null data when there is no memory
  /// left, also after all kept blocks have been given back.
  Block take(std::size_t size_bytes);
  void keep(const Block& block);

 private:
  void release_kept();

  const Table& table_;
  Context* const context_;
  std::multimap<std::size_t, void*> kept_;
};

constexpr std::size_t kUnit = 512;

MemoryPool::Block MemoryPool::take(std::size_t size_bytes) {
  const std::size_t wanted = size_bytes == 0 ? kUnit : (size_bytes + kUnit - 1) / kUnit * kUnit;
  if (wanted < size_bytes) return {};
  const auto found = kept_.lower_bound(wanted);
  if (found != kept_.end() && found->first <= wanted + wanted / 4) {
    const Block block{found->second, found->first};
    kept_.erase(found);
    return block;
  }
  void* data = nullptr;
  if (table_.allocate(context_, wanted, &data) == nullptr && data != nullptr) return {data, wanted};
  if (kept_.empty()) return {};
  release_kept();
  data = nullptr;
  if (table_.allocate(context_, wanted, &data) != nullptr || data == nullptr) return {};
  return {data, wanted};
}

void MemoryPool::keep(const Block& block) { kept_.emplace(block.size_bytes, block.data); }

void MemoryPool::release_kept() {
  for (const auto& [size, data] : kept_) table_.release(context_, data);
  kept_.clear();
}

class TableDevice;

// Name of the op that runs, for messages.
std::string op_name(const KernelCall& call) {
  const RankContext* rank = current_rank_or_null();
  if (rank != nullptr && rank->op != nullptr) return rank->op;
  return fmt::format("kernel {}", static_cast<int>(call.kernel));
}

// Waits for pending results before the GPU is locked: the rank that sends them may need it, too.
void wait_for_operands(const KernelCall& call) {
  for (const LocalArg& argument : call.args) {
    if (const auto* tensor = std::get_if<Tensor>(&argument)) tensor->wait();
    const auto* list = std::get_if<std::vector<Tensor>>(&argument);
    if (list == nullptr) continue;
    for (const Tensor& tensor : *list) tensor.wait();
  }
  for (const Tensor& output : call.outputs) output.wait();
}

// One GPU in this process: all devices on it share its stream, since they read each other's memory
// (the judge of a run has a device of its own), and memory is used again in the stream's order.
struct Gpu {
  Gpu(const Table& functions, int ordinal) : table(functions) {
    if (const Failure failure = table.open(ordinal, &context)) {
      fail(ErrorKind::kUnsupported, Fix{"shardlab doctor says which GPUs and drivers are found"},
           "no GPU {} to run on: {}", ordinal, failure);
    }
  }
  ~Gpu() { table.close(context); }
  Gpu& operator=(Gpu&&) = delete;

  static std::shared_ptr<Gpu> open(const Table& table, int ordinal) {
    static std::mutex opening;
    static std::map<std::pair<const Table*, int>, std::weak_ptr<Gpu>> all;
    const std::lock_guard lock(opening);
    std::weak_ptr<Gpu>& known = all[{&table, ordinal}];
    std::shared_ptr<Gpu> gpu = known.lock();
    if (!gpu) known = gpu = std::make_shared<Gpu>(table, ordinal);
    return gpu;
  }

  const Table& table;
  Context* context = nullptr;
  std::recursive_mutex mutex;  ///< guards the context, and the memory that its devices keep
};

// One op at a time: functions of a table are called by one thread.
class TableDevice final : public CudaDevice, public TableLoops {
 public:
  TableDevice(std::shared_ptr<Gpu> gpu, HostFallback fallback)
      : TableLoops(gpu->table, gpu->context),
        gpu_(std::move(gpu)),
        pool_(std::make_unique<MemoryPool>(table_, context_)),
        fallback_(fallback),
        host_(make_cpu_device(cpu_kernel_table())) {}
  ~TableDevice() override {
    const std::lock_guard lock(gpu_->mutex);
    pool_.reset();
  }

  std::string_view type() const override { return "cuda"; }
  BufferRef allocate(std::size_t size_bytes) override;
  using TableLoops::run;
  void run(const KernelCall& call) override;
  void copy(const Tensor& dst, const Tensor& src) override;
  void read(const Tensor& src, void* out) override;
  void write(const Tensor& dst, const void* data) override;
  MemoryUse memory() const override;

  std::vector<std::string> ran_on_host() const override;
  std::string description() const override { return table_.description(context_); }
  void* stream() const override { return table_.stream(context_); }
  void combine(const backends::Reduction& work) override;
  void order(const backends::Ordering& work) override;
  void watch(backends::StreamWatch watch) override;

  Device& device() override { return *this; }
  void await_stream() override;

  void release(const MemoryPool::Block& block, std::size_t size_bytes);

 private:
  void run_on_host(const KernelCall& call);
  Tensor to_host(const Tensor& tensor);
  LocalArg to_host(const LocalArg& argument);

  const std::shared_ptr<Gpu> gpu_;  // its mutex guards the following
  std::unique_ptr<MemoryPool> pool_;
  std::int64_t held_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::set<std::string> ran_on_host_;
  backends::StreamWatch watch_;
  const HostFallback fallback_;
  const std::unique_ptr<Device> host_;
};

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(TableDevice* device, const MemoryPool::Block& block, std::size_t size_bytes)
      : Buffer(device, block.data, size_bytes), owner_(*device), block_(block) {}
  ~CudaBuffer() override { owner_.release(block_, size_bytes_); }

 private:
  TableDevice& owner_;
  const MemoryPool::Block block_;
};

BufferRef TableDevice::allocate(std::size_t size_bytes) {
  const std::lock_guard lock(gpu_->mutex);
  const MemoryPool::Block block = pool_->take(size_bytes);
  if (block.data == nullptr) {
    fail(ErrorKind::kRuntime, Fix{"use smaller sizes, or fewer ranks per device"},
         "device cuda {} {} bytes; {} bytes are held", kCannotAllocate, size_bytes, held_bytes_);
  }
  held_bytes_ += static_cast<std::int64_t>(size_bytes);
  peak_bytes_ = std::max(peak_bytes_, held_bytes_);
  return BufferRef(new CudaBuffer(this, block, size_bytes));
}

void TableDevice::release(const MemoryPool::Block& block, std::size_t size_bytes) {
  const std::lock_guard lock(gpu_->mutex);
  held_bytes_ -= static_cast<std::int64_t>(size_bytes);
  pool_->keep(block);
}

MemoryUse TableDevice::memory() const {
  const std::lock_guard lock(gpu_->mutex);
  return {held_bytes_, peak_bytes_};
}

void TableDevice::run(const KernelCall& call) {
  wait_for_operands(call);
  const std::lock_guard lock(gpu_->mutex);
  try {
    const Kernel kernel = shared_kernels().find(call.kernel);
    if (kernel == nullptr) {
      fail(ErrorKind::kUnsupported, "device cuda has no kernel for {}", op_name(call));
    }
    return kernel(*this, call);
  } catch (Error& error) {
    if (error.kind() != ErrorKind::kUnsupported) throw;
    if (fallback_ == HostFallback::kRefuse) {
      throw error.with("fix", "--allow-host-fallback runs such ops on the host and lists them");
    }
  }
  run_on_host(call);
}

Tensor TableDevice::to_host(const Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const Tensor copy = empty(*host_, tensor.shape(), tensor.dtype());
  read(tensor, copy.storage()->writable()->data());
  return copy;
}

LocalArg TableDevice::to_host(const LocalArg& argument) {
  if (const auto* tensor = std::get_if<Tensor>(&argument)) return to_host(*tensor);
  if (const auto* list = std::get_if<std::vector<Tensor>>(&argument)) {
    std::vector<Tensor> copies;
    for (const Tensor& tensor : *list) copies.push_back(to_host(tensor));
    return copies;
  }
  return argument;
}

void TableDevice::run_on_host(const KernelCall& call) {
  ran_on_host_.insert(op_name(call));
  std::vector<LocalArg> args;
  for (const LocalArg& argument : call.args) args.push_back(to_host(argument));
  std::vector<Tensor> outputs;
  for (const Tensor& output : call.outputs) {
    outputs.push_back(output.defined() ? empty(*host_, output.shape(), output.dtype()) : output);
  }
  KernelCall there = call;
  there.args = args;
  there.outputs = outputs;
  host_->run(there);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    write(call.outputs[i], outputs[i].storage()->buffer()->data());
  }
}

std::vector<std::string> TableDevice::ran_on_host() const {
  const std::lock_guard lock(gpu_->mutex);
  return {ran_on_host_.begin(), ran_on_host_.end()};
}

void TableDevice::copy(const Tensor& dst, const Tensor& src) {
  check_invariant(dst.shape() == src.shape() && dst.dtype() == src.dtype(),
                  "Device::copy takes two tensors of one shape and dtype");
  src.wait();
  dst.wait();
  const std::lock_guard lock(gpu_->mutex);
  convert(dst, src);
}

void TableDevice::read(const Tensor& src, void* out) {
  if (src.numel() == 0) return;
  src.wait();
  const std::lock_guard lock(gpu_->mutex);
  const Tensor lined = as_contiguous(*this, src, src.dtype());
  await_stream();
  throw_if(
      table_.copy_out(context_, out, readable(lined), static_cast<std::size_t>(src.size_bytes())),
      "copy to the host");
}

void TableDevice::write(const Tensor& dst, const void* data) {
  if (dst.numel() == 0) return;
  dst.wait();
  const std::lock_guard lock(gpu_->mutex);
  const Tensor lined = dst.contiguous() ? dst : empty(*this, dst.shape(), dst.dtype());
  await_stream();
  throw_if(
      table_.copy_in(context_, writable(lined), data, static_cast<std::size_t>(dst.size_bytes())),
      "copy to the device");
  if (!dst.contiguous()) convert(dst, lined);
}

void TableDevice::combine(const backends::Reduction& work) {
  if (is_complex(work.dtype) || work.dtype == DType::kF8E4M3FN) {
    fail(ErrorKind::kUnsupported, Fix{"use --device cpu"},
         "device cuda does not reduce tensors of dtype {} over ranks", to_string(work.dtype));
  }
  const std::int64_t bytes = work.row_elements * item_bytes(work.dtype);
  const auto* terms = static_cast<const std::byte*>(work.inputs[0]);
  for (std::size_t i = 0; i < work.inputs.size(); ++i) {
    check_invariant(
        work.rows == 1 && work.inputs[i] == terms + static_cast<std::int64_t>(i) * bytes,
        "terms follow each other");
  }
  const std::lock_guard lock(gpu_->mutex);
  const CombineCall call{work.dtype,        work.op,
                         work.inputs[0],    static_cast<std::int64_t>(work.inputs.size()),
                         work.row_elements, work.output};
  throw_if(table_.combine(context_, call), "reduction of several ranks' terms");
}

void TableDevice::order(const backends::Ordering& work) {
  const std::lock_guard lock(gpu_->mutex);
  throw_if(table_.order(context_, work), "order of floats");
}

void TableDevice::watch(backends::StreamWatch watch) {
  const std::lock_guard lock(gpu_->mutex);
  watch_ = std::move(watch);
}

void TableDevice::await_stream() {
  if (!watch_) return;
  backends::Patience patience;
  while (true) {
    bool idle = false;
    throw_if(table_.idle(context_, &idle), "the stream");
    watch_(idle ? std::chrono::milliseconds(0) : patience.waited());
    if (idle) return;
    patience.pause();
  }
}

}  // namespace

std::string_view fix_for_missing_module(const std::string& path) {
  if (!backends::program_in(path + ":/usr/local/cuda/bin", "nvcc").empty()) {
    return "nvcc is here: build with -Dgpu=enabled, which makes libshardlab_cuda.so (ninja -C "
           "build, or meson install)";
  }
  return "install the CUDA toolkit, then build again (-Dgpu=enabled says what is missing)";
}

std::unique_ptr<CudaDevice> make_cuda_device(int ordinal, HostFallback fallback) {
  const char* path = std::getenv("PATH");
  void* function = backends::module_function("shardlab_cuda", kTableSymbol,
                                             fix_for_missing_module(path == nullptr ? "" : path));
  return make_cuda_device(*reinterpret_cast<TableFunction>(function)(), ordinal, fallback);
}

std::unique_ptr<CudaDevice> make_cuda_device(const Table& table, int ordinal,
                                             HostFallback fallback) {
  return std::make_unique<TableDevice>(Gpu::open(table, ordinal), fallback);
}

}  // namespace shardlab::cuda
