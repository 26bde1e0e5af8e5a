// A functor sees contiguous blocks of its compute type only, and data that already has this layout
// is passed on in place. Other operands are converted into buffers on the stack, block by block, so
// that one instantiation serves all strides and dtypes, and the conversions cost O(1) memory.
// Operands are rounded to the dtype that they promote to first, if the compute type is wider, as
// ATen does.
#include "kernels/elementwise.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "kernels/convert.h"
#include "kernels/strided_loop.h"

namespace shardlab {

namespace {

// Small enough for four operands on a fiber's stack, large enough to amortise the conversions.
constexpr std::size_t kBlockBytes = 4096;

struct BlockBuffer {
  alignas(64) std::byte bytes[kBlockBytes];
};

struct Operand {
  const std::byte* data;  // first element
  DType dtype;
  Dims stride;  // broadcast to the output's shape
  alignas(16) std::byte number[16];
};

// Tensors with the layout of the output, and numbers: all elements are one row.
bool is_one_row(const Tensor& out, std::span<const LocalArg> operands) {
  if (!out.contiguous()) return false;
  for (const LocalArg& operand : operands) {
    const auto* tensor = std::get_if<Tensor>(&operand);
    if (tensor == nullptr) continue;
    if (tensor->shape() != out.shape() || !tensor->contiguous()) return false;
  }
  return true;
}

// `shape`: the shape that tensors are broadcast to.
void prepare_operand(Operand& operand, const LocalArg& argument, DType dtype,
                     std::span<const std::int64_t> shape, bool one_row) {
  if (const auto* tensor = std::get_if<Tensor>(&argument)) {
    operand.data = readable_bytes(*tensor);
    operand.dtype = tensor->dtype();
    if (one_row) {
      operand.stride.push_back(1);
    } else {
      operand.stride = broadcast_strides(*tensor, shape);
    }
    return;
  }
  const auto* number = std::get_if<Scalar>(&argument);
  check_invariant(number != nullptr, "an operand is a tensor or a number");
  store_scalar(operand.number, dtype, *number);
  operand.data = operand.number;
  operand.dtype = dtype;
  operand.stride.resize(one_row ? 1 : shape.size(), 0);
}

// The elementwise call, prepared; rows() runs one inner row of the loop.
class BlockRunner {
 public:
  BlockRunner(const Tensor& out, std::span<const LocalArg> arguments, const ElementLoop& loop,
              DType rounded)
      : out_(out),
        loop_(loop),
        rounded_(rounded),
        operands_(arguments.size()),
        one_row_(is_one_row(out, arguments)) {
    target_ = writable_bytes(out);
    for (std::size_t i = 0; i < operands_; ++i) {
      prepare_operand(operand_[i], arguments[i], is_integral(rounded) ? rounded : loop.in[i],
                      out.shape(), one_row_);
    }
  }

  void run() {
    if (one_row_) {
      constexpr std::array<std::int64_t, kMaxOperands + 1> kOffsets{};
      std::array<std::int64_t, kMaxOperands + 1> strides{1};
      for (std::size_t i = 0; i < operands_; ++i) strides[i + 1] = operand_[i].stride[0];
      return run_row(kOffsets, strides, out_.numel());
    }
    StridedLoop loop(out_.shape());
    loop.add(out_.stride(), item_bytes(out_.dtype()));
    for (std::size_t i = 0; i < operands_; ++i) {
      loop.add(operand_[i].stride, item_bytes(operand_[i].dtype));
    }
    loop.run([this](std::span<const std::int64_t> offset, std::span<const std::int64_t> stride,
                    std::int64_t count) { run_row(offset, stride, count); });
  }

 private:
  void run_row(std::span<const std::int64_t> offset, std::span<const std::int64_t> stride,
               std::int64_t count) {
    if (block_ == 0) plan(stride);
    const std::int64_t block = block_ < 0 ? count : block_;
    for (std::int64_t start = 0; start < count; start += block) {
      const std::int64_t size = std::min(block, count - start);
      std::array<const std::byte*, kMaxOperands> in{};
      for (std::size_t i = 0; i < operands_; ++i) {
        const DType dtype = operand_[i].dtype;
        const std::byte* from =
            operand_[i].data + offset[i + 1] + start * stride[i + 1] * item_bytes(dtype);
        in[i] = direct_in_[i] ? from : load(i, {from, stride[i + 1], dtype}, size);
      }
      std::byte* to = target_ + offset[0] + start * stride[0] * item_bytes(out_.dtype());
      loop_.run(in.data(), direct_out_ ? to : buffer_[kMaxOperands].bytes, size);
      if (!direct_out_) {
        convert_run({to, stride[0], out_.dtype()}, {buffer_[kMaxOperands].bytes, 1, loop_.out},
                    size);
      }
    }
  }

  // Finds the operands that the function can use in place, the same for all rows.
  void plan(std::span<const std::int64_t> strides) {
    direct_out_ = out_.dtype() == loop_.out && strides[0] == 1;
    bool direct = direct_out_;
    for (std::size_t i = 0; i < operands_; ++i) {
      direct_in_[i] =
          operand_[i].dtype == loop_.in[i] && strides[i + 1] == 1 && !rounds(operand_[i].dtype);
      direct = direct && direct_in_[i];
    }
    block_ = direct ? -1 : block_elements();
  }

  bool rounds(DType dtype) const {
    return rounded_ != DType::kF64 && dtype != rounded_ && dtype != DType::kBool;
  }

  std::int64_t block_elements() const {
    std::int64_t widest = item_bytes(loop_.out);
    for (std::size_t i = 0; i < operands_; ++i) widest = std::max(widest, item_bytes(loop_.in[i]));
    return static_cast<std::int64_t>(kBlockBytes) / widest;
  }

  // Constants are converted once, not for every block.
  const std::byte* load(std::size_t i, const ElementRun& run, std::int64_t size) {
    std::byte* buffer = buffer_[i].bytes;
    const bool constant = run.stride == 0;
    if (constant && filled_from_[i] == run.data && filled_[i] >= size) return buffer;
    if (rounds(run.dtype) && operand_[i].data != operand_[i].number) {
      // The output's buffer is free until the block function runs.
      std::byte* rounded = buffer_[kMaxOperands].bytes;
      convert_run({rounded, 1, rounded_}, run, size);
      convert_run({buffer, 1, loop_.in[i]}, {rounded, 1, rounded_}, size);
    } else {
      convert_run({buffer, 1, loop_.in[i]}, run, size);
    }
    filled_from_[i] = constant ? run.data : nullptr;
    filled_[i] = size;
    return buffer;
  }

  const Tensor& out_;
  const ElementLoop& loop_;
  DType rounded_;
  std::size_t operands_;
  bool one_row_;
  bool direct_out_ = false;
  std::array<bool, kMaxOperands> direct_in_{};
  std::int64_t block_ = 0;  // elements; 0: not planned, -1: as many as there are
  std::byte* target_;
  std::array<Operand, kMaxOperands> operand_;
  std::array<const void*, kMaxOperands> filled_from_{};
  std::array<std::int64_t, kMaxOperands> filled_{};
  std::array<BlockBuffer, kMaxOperands + 1> buffer_;
};

// The function can use everything in place: one call and no walk, the usual case of small tensors.
bool run_directly(const Tensor& out, std::span<const LocalArg> operands, const ElementLoop& loop) {
  if (out.dtype() != loop.out || !is_one_row(out, operands)) return false;
  std::byte* const target = writable_bytes(out);
  std::array<const std::byte*, kMaxOperands> in{};
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto* tensor = std::get_if<Tensor>(&operands[i]);
    if (tensor == nullptr || tensor->dtype() != loop.in[i]) return false;
    in[i] = readable_bytes(*tensor);
  }
  loop.run(in.data(), target, out.numel());
  return true;
}

std::span<const ElementLoop> loops_of(DType dtype) {
  switch (dtype) {
    case DType::kI32:
      return element_loops<std::int32_t>();
    case DType::kI64:
      return element_loops<std::int64_t>();
    case DType::kF32:
      return element_loops<float>();
    case DType::kF64:
      return element_loops<double>();
    case DType::kC64:
      return element_loops<std::complex<float>>();
    default:
      return element_loops<std::complex<double>>();
  }
}

const ElementLoop& find_loop(Element function, DType promoted, DType stored) {
  const auto index = static_cast<std::size_t>(function);
  if (promoted == DType::kI32 && stored == promoted && loops_of(promoted)[index].run != nullptr) {
    return loops_of(promoted)[index];
  }
  const ElementLoop& loop = loops_of(compute_dtype(promoted))[index];
  if (loop.run == nullptr) refuse_dtype(promoted);
  return loop;
}

}  // namespace

void refuse_dtype(DType dtype) {
  fail(ErrorKind::kUnsupported, Fix{"cast the operands first, to a dtype that the op takes"},
       "device cpu has no kernel of this op for {}", to_string(dtype));
}

void run_elementwise(Element function, DType promoted, const Tensor& out,
                     std::span<const LocalArg> operands) {
  const ElementLoop& loop = find_loop(function, promoted, out.dtype());
  // f64 means that operands are not rounded.
  const DType rounded = computes_wider(promoted) ? promoted : DType::kF64;
  if (rounded == DType::kF64 && run_directly(out, operands, loop)) return;
  const auto across = [&](const LocalArg& operand) {
    const auto* tensor = std::get_if<Tensor>(&operand);
    return tensor != nullptr && is_across(tensor->shape(), tensor->stride());
  };
  std::vector<LocalArg> copied;
  if (out.contiguous() && std::ranges::any_of(operands, across)) {
    copied.assign(operands.begin(), operands.end());
    for (LocalArg& one : copied) {
      if (!across(one)) continue;
      const Tensor& tensor = std::get<Tensor>(one);
      const Tensor copy = empty(*out.device(), tensor.shape(), tensor.dtype());
      convert_tensor(copy, tensor);
      one = copy;
    }
    operands = copied;
  }
  BlockRunner(out, operands, loop, rounded).run();
}

}  // namespace shardlab
