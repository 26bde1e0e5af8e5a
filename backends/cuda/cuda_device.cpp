// The device door over a table of functions that a module compiled for GPUs provides. Kernels are
// found by id and written in terms of few generic launches (pointwise, fold, scan, scatter, lookup,
// draw, merge, search, patches, product), so that the module is small and this file needs no CUDA
// compiler. An op without a kernel is refused, or runs on the host and is listed, as the caller
// wants.
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "backends/cuda/cuda.h"
#include "backends/cuda/kernels.h"
#include "backends/cuda/memory_pool.h"
#include "backends/shared/module.h"
#include "backends/shared/patience.h"
#include "base/fix.h"
#include "kernels/cpu_kernels.h"
#include "tensor/cpu_device.h"

namespace shardlab::cuda {

namespace {

class TableDevice;

class CudaBuffer final : public Buffer {
 public:
  CudaBuffer(TableDevice* device, const MemoryPool::Block& block, std::size_t size_bytes);
  ~CudaBuffer() override;

 private:
  TableDevice& owner_;
  const MemoryPool::Block block_;
};

const CudaKernelTable& kernel_table() {
  static const CudaKernelTable table = [] {
    CudaKernelTable filled;
    add_pointwise_kernels(filled);
    add_convolution_kernels(filled);
    add_copy_kernels(filled);
    add_row_kernels(filled);
    add_matrix_kernels(filled);
    add_index_kernels(filled);
    add_position_kernels(filled);
    add_resample_kernels(filled);
    add_sort_kernels(filled);
    return filled;
  }();
  return table;
}

void throw_if(Failure failure, std::string_view what) {
  if (failure != nullptr) fail(ErrorKind::kRuntime, "device cuda: {}: {}", what, failure);
}

// Name of the op that runs, for messages.
std::string op_name(const KernelCall& call) {
  const RankContext* rank = current_rank_or_null();
  if (rank != nullptr && rank->op != nullptr) return rank->op;
  return fmt::format("kernel {}", static_cast<int>(call.kernel));
}

// One GPU in this process: all devices on it share its stream, since they read each other's memory
// (the judge of a run has a device of its own), and memory is used again in the stream's order.
struct Gpu {
  Gpu(const Table& functions, int ordinal) : table(functions) {
    if (const Failure failure = table.open(ordinal, &context)) {
      throw Error(ErrorKind::kUnsupported, fmt::format("no GPU {} to run on: {}", ordinal, failure))
          .with("fix", "shardlab doctor says which GPUs and drivers are found");
    }
  }
  ~Gpu() { table.close(context); }
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

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
class TableDevice final : public CudaDevice, public Ops {
 public:
  TableDevice(const Table& table, int ordinal, HostFallback fallback)
      : table_(table),
        gpu_(Gpu::open(table, ordinal)),
        pool_(std::make_unique<MemoryPool>(table, gpu_->context)),
        fallback_(fallback),
        host_(make_cpu_device(cpu_kernel_table())) {}
  ~TableDevice() override {
    const std::lock_guard lock(gpu_->mutex);
    pool_.reset();
  }

  std::string_view type() const override { return "cuda"; }
  BufferRef allocate(std::size_t size_bytes) override;
  void run(const KernelCall& call) override;
  void copy(const Tensor& dst, const Tensor& src) override;
  void read(const Tensor& src, void* out) override;
  void write(const Tensor& dst, const void* data) override;
  MemoryUse memory() const override;

  std::vector<std::string> ran_on_host() const override;
  std::string description() const override { return table_.description(gpu_->context); }
  void* stream() const override { return table_.stream(gpu_->context); }
  void combine(const backends::Reduction& work) override;
  void order(const backends::Ordering& work) override;
  void watch(backends::StreamWatch watch) override;

  Device& device() override { return *this; }
  void pointwise(PointwiseCall call) override {
    throw_if(table_.pointwise(gpu_->context, call), "pointwise");
  }
  void move(MoveCall call) override { throw_if(table_.move(gpu_->context, call), "copy"); }
  void fold(const FoldCall& call) override {
    throw_if(table_.fold(gpu_->context, call), "reduction");
  }
  void scan(const ScanCall& call) override {
    throw_if(table_.scan(gpu_->context, call), "running value");
  }
  void scatter(const ScatterCall& call) override {
    throw_if(table_.scatter(gpu_->context, call), "scatter");
  }
  void lookup(const LookupCall& call) override {
    throw_if(table_.lookup(gpu_->context, call), "lookup");
  }
  void draw(const DrawCall& call) override { throw_if(table_.draw(gpu_->context, call), "draw"); }
  void merge(const MergeCall& call) override {
    throw_if(table_.merge(gpu_->context, call), "sort");
  }
  void search(const SearchCall& call) override {
    throw_if(table_.search(gpu_->context, call), "search");
  }
  void gather_patches(const PatchCall& call) override {
    throw_if(table_.gather_patches(gpu_->context, call), "patches");
  }
  void add_patches(const PatchCall& call) override {
    throw_if(table_.add_patches(gpu_->context, call), "sums of patches");
  }
  void sample(const SampleCall& call) override {
    throw_if(table_.sample(gpu_->context, call), "weighted sums");
  }
  void largest(const LargestCall& call) override {
    throw_if(table_.largest(gpu_->context, call), "the largest of windows");
  }
  void product(const ProductCall& call) override {
    throw_if(table_.product(gpu_->context, call), "matrix product");
  }
  void check_indices(std::string_view what) override;

  void release(const MemoryPool::Block& block, std::size_t size_bytes);

 private:
  void run_on_host(const KernelCall& call);
  void await_stream();
  Tensor to_host(const Tensor& tensor);
  LocalArg to_host(const LocalArg& argument);

  const Table& table_;
  const std::shared_ptr<Gpu> gpu_;  // its mutex guards the following
  std::unique_ptr<MemoryPool> pool_;
  std::int64_t held_bytes_ = 0;
  std::int64_t peak_bytes_ = 0;
  std::set<std::string> ran_on_host_;
  backends::StreamWatch watch_;
  const HostFallback fallback_;
  const std::unique_ptr<Device> host_;
};

CudaBuffer::CudaBuffer(TableDevice* device, const MemoryPool::Block& block, std::size_t size_bytes)
    : Buffer(device, block.data, size_bytes), owner_(*device), block_(block) {}

CudaBuffer::~CudaBuffer() { owner_.release(block_, size_bytes_); }

BufferRef TableDevice::allocate(std::size_t size_bytes) {
  const std::lock_guard lock(gpu_->mutex);
  const MemoryPool::Block block = pool_->take(size_bytes);
  if (block.data == nullptr) {
    fail(ErrorKind::kRuntime, Fix{"use smaller sizes, or fewer ranks per device"},
         "device cuda cannot allocate {} bytes; {} bytes are held", size_bytes, held_bytes_);
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
  const std::lock_guard lock(gpu_->mutex);
  const CudaKernel kernel = kernel_table().find(call.kernel);
  try {
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
  const std::lock_guard lock(gpu_->mutex);
  convert(*this, dst, src);
}

void TableDevice::read(const Tensor& src, void* out) {
  if (src.numel() == 0) return;
  const std::lock_guard lock(gpu_->mutex);
  const Tensor lined = as_contiguous(*this, src, src.dtype());
  await_stream();
  throw_if(table_.copy_out(gpu_->context, out, readable(lined),
                           static_cast<std::size_t>(src.size_bytes())),
           "copy to the host");
}

void TableDevice::write(const Tensor& dst, const void* data) {
  if (dst.numel() == 0) return;
  const std::lock_guard lock(gpu_->mutex);
  const Tensor lined = dst.contiguous() ? dst : empty(*this, dst.shape(), dst.dtype());
  await_stream();
  throw_if(table_.copy_in(gpu_->context, writable(lined), data,
                          static_cast<std::size_t>(dst.size_bytes())),
           "copy to the device");
  if (!dst.contiguous()) convert(*this, dst, lined);
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
  throw_if(table_.combine(gpu_->context, call), "reduction of several ranks' terms");
}

void TableDevice::order(const backends::Ordering& work) {
  const std::lock_guard lock(gpu_->mutex);
  throw_if(table_.order(gpu_->context, work), "order of floats");
}

void TableDevice::watch(backends::StreamWatch watch) {
  const std::lock_guard lock(gpu_->mutex);
  watch_ = std::move(watch);
}

// Called before each call of the table that would wait for the stream, whatever its result.
void TableDevice::await_stream() {
  if (!watch_) return;
  backends::Patience patience;
  while (true) {
    bool idle = false;
    throw_if(table_.idle(gpu_->context, &idle), "the stream");
    watch_(idle ? std::chrono::milliseconds(0) : patience.waited());
    if (idle) return;
    patience.pause();
  }
}

void TableDevice::check_indices(std::string_view what) {
  std::int64_t bad = 0;
  await_stream();
  throw_if(table_.bad_indices(gpu_->context, &bad), "check of indices");
  if (bad > 0) {
    fail(ErrorKind::kValue, Fix{"--device cpu names the first of them"},
         "{}: {} indices are out of range", what, bad);
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
  return std::make_unique<TableDevice>(table, ordinal, fallback);
}

}  // namespace shardlab::cuda
