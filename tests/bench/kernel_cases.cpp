// A row is a kernel on tensors at hand, called as the dispatcher would, or, where an op is a
// program of several kernels, the op on a plain tensor.
#include "tests/bench/kernel_cases.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <memory>
#include <numeric>
#include <unsupported/Eigen/FFT>

#include "autograd/autograd.h"
#include "dispatch/all_ops.h"
#include "dispatch/dispatcher.h"
#include "dispatch/plain_calls.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"
#include "tests/bench/kernel_launch.h"

namespace shardlab {

namespace {

// Bytes of a large array, for every dtype: several times a core's share of the last cache.
constexpr std::int64_t kLargeBytes = std::int64_t{1} << 27;
constexpr std::int64_t kColumns = 1024;

// Number of its elements, which is also its number of rows of kColumns.
std::int64_t large(DType dtype = DType::kF32) { return kLargeBytes / item_bytes(dtype); }
std::int64_t large_rows(DType dtype = DType::kF32) { return large(dtype) / kColumns; }
Dims large_matrix(DType dtype = DType::kF32) { return {large_rows(dtype), kColumns}; }

struct Product {
  std::int64_t batch, rows, inner, columns;
  DType dtype = DType::kF32;
  bool left_turned = false;
  bool right_turned = false;
};

KernelPair product_pair(const Product& p) {
  const auto operand = [&](std::int64_t rows, std::int64_t columns, bool is_turned) {
    if (p.batch > 1) return numbers({p.batch, rows, columns}, p.dtype);
    return is_turned ? turned(numbers({columns, rows}, p.dtype))
                     : numbers({rows, columns}, p.dtype);
  };
  const Dims shape = p.batch > 1 ? Dims{p.batch, p.rows, p.columns} : Dims{p.rows, p.columns};
  Launch launch{
      p.batch > 1 ? KernelId::kBmm : KernelId::kMm,
      {operand(p.rows, p.inner, p.left_turned), operand(p.inner, p.columns, p.right_turned)},
      {output(shape, p.dtype)}};
  return {std::move(launch), eigen_floor(p.dtype, p.batch, p.rows, p.inner, p.columns)};
}

void add_products(std::vector<KernelCase>& cases) {
  const auto add = [&](const char* name, const Product& product) {
    cases.push_back({name, Floor::kProduct, [product] { return product_pair(product); }});
  };
  add("mm_f32_1024", {1, 1024, 1024, 1024});
  add("mm_f64_768", {1, 768, 768, 768, DType::kF64});
  add("mm_bf16_1024", {1, 1024, 1024, 1024, DType::kBF16});
  add("mm_f32_128", {1, 128, 128, 128});
  add("mm_f32_32", {1, 32, 32, 32});
  add("mm_f32_tall_16384x256x64", {1, 16384, 256, 64});
  add("mm_f32_tall_16384x32x32", {1, 16384, 32, 32});
  add("mm_f32_wide_64x512x2048", {1, 64, 512, 2048});
  add("mm_f32_64x512x8", {1, 64, 512, 8});
  add("mm_f32_64x8x512", {1, 64, 8, 512});
  add("mm_f32_left_turned_512", {1, 512, 512, 512, DType::kF32, true, false});
  add("mm_f32_right_turned_512", {1, 512, 512, 512, DType::kF32, false, true});
  add("mm_f32_right_turned_64x8x512", {1, 64, 8, 512, DType::kF32, false, true});
  add("mm_f32_left_turned_512x64x8", {1, 512, 64, 8, DType::kF32, true, false});
  add("bmm_f32_64x128", {64, 128, 128, 128});
  add("bmm_f64_64x64", {64, 64, 64, 64, DType::kF64});
  add("bmm_bf16_64x128", {64, 128, 128, 128, DType::kBF16});
}

// An elementwise kernel on a large array.
struct Elementwise {
  const char* name;
  KernelId kernel;
  std::vector<DType> inputs;
  DType out = DType::kF32;
  std::vector<LocalArg> rest{};
};

std::vector<Elementwise> elementwise_rows() {
  using enum KernelId;
  constexpr DType f32 = DType::kF32, f64 = DType::kF64, bf16 = DType::kBF16;
  return {
      {"add_f32", kAdd, {f32, f32}, f32, {Scalar(1)}},
      {"add_f64", kAdd, {f64, f64}, f64, {Scalar(1)}},
      {"add_bf16", kAdd, {bf16, bf16}, bf16, {Scalar(1)}},
      {"add_scaled_f32", kAdd, {f32, f32}, f32, {Scalar(0.5)}},
      {"add_i64", kAdd, {DType::kI64, DType::kI64}, DType::kI64, {Scalar(1)}},
      {"add_i32", kAdd, {DType::kI32, DType::kI32}, DType::kI32, {Scalar(1)}},
      {"mul_f32", kMul, {f32, f32}},
      {"mul_number_f32", kMul, {f32}, f32, {Scalar(1.5)}},
      {"div_f32", kDiv, {f32, f32}},
      {"relu_f32", kRelu, {f32}},
      {"gelu_f32", kGelu, {f32}},
      {"gelu_bf16", kGelu, {bf16}, bf16},
      {"gelu_f64", kGelu, {f64}, f64},
      {"gelu_backward_f32", kGeluBackward, {f32, f32}},
      {"exp_f32", kExp, {f32}},
      {"exp_f64", kExp, {f64}, f64},
      {"log_f32", kLog, {f32}},
      {"sqrt_f32", kSqrt, {f32}},
      {"tanh_f32", kTanh, {f32}},
      {"tanh_f64", kTanh, {f64}, f64},
      {"sigmoid_f32", kSigmoid, {f32}},
      {"silu_f32", kSilu, {f32}},
      {"silu_backward_f32", kSiluBackward, {f32, f32}},
      {"erf_f32", kErf, {f32}},
      {"exp_bf16", kExp, {bf16}, bf16},
      {"log_bf16", kLog, {bf16}, bf16},
      {"tanh_bf16", kTanh, {bf16}, bf16},
      {"silu_bf16", kSilu, {bf16}, bf16},
      {"log_f64", kLog, {f64}, f64},
      {"abs_f32", kAbs, {f32}},
      {"maximum_f32", kMaximum, {f32, f32}},
      {"gt_f32", kGt, {f32, f32}, DType::kBool},
      {"where_f32", kWhere, {DType::kBool, f32, f32}},
      {"masked_fill_f32", kMaskedFill, {f32, DType::kBool}, f32, {Scalar(0)}},
      {"clone_f32", kConvert, {f32}},
      {"cast_f32_bf16", kConvert, {f32}, bf16},
      {"cast_bf16_f32", kConvert, {bf16}},
      {"cast_f32_f16", kConvert, {f32}, DType::kF16},
      {"cast_f16_f32", kConvert, {DType::kF16}},
      {"cast_f32_f64", kConvert, {f32}, f64},
      {"cast_f32_i64", kConvert, {f32}, DType::kI64},
      {"cast_i64_f32", kConvert, {DType::kI64}},
      {"cast_f32_i32", kConvert, {f32}, DType::kI32},
      {"cast_f32_bool", kConvert, {f32}, DType::kBool},
  };
}

// Functions that the C library computes one by one.
std::vector<Elementwise> function_rows() {
  using enum KernelId;
  constexpr DType f32 = DType::kF32, f64 = DType::kF64;
  return {
      {"sin_f32", kSin, {f32}},
      {"sin_f64", kSin, {f64}, f64},
      {"tan_f32", kTan, {f32}},
      {"log1p_f32", kLog1p, {f32}},
      {"atan_f32", kAtan, {f32}},
      {"pow_f32", kPow, {f32, f32}},
      {"erfc_f32", kErfc, {f32}},
      {"lgamma_f32", kLgamma, {f32}},
      {"remainder_f32", kRemainder, {f32, f32}},
  };
}

void add_elementwise(std::vector<KernelCase>& cases) {
  using enum KernelId;
  const auto add = [&](const Elementwise& row, Floor floor) {
    cases.push_back({row.name, floor, [row] {
                       DType widest = row.out;
                       for (const DType dtype : row.inputs) {
                         if (item_bytes(dtype) > item_bytes(widest)) widest = dtype;
                       }
                       const Dims shape{large(widest)};
                       Launch launch{row.kernel, {}, {output(shape, row.out)}};
                       for (const DType dtype : row.inputs) {
                         launch.args.emplace_back(numbers(shape, dtype));
                       }
                       launch.args.insert(launch.args.end(), row.rest.begin(), row.rest.end());
                       return against_memory(std::move(launch));
                     }});
  };
  for (const Elementwise& row : elementwise_rows()) add(row, Floor::kMemory);
  for (const Elementwise& row : function_rows()) add(row, Floor::kLoop);
  cases.push_back({"add_row_f32", Floor::kMemory, [] {
                     return against_memory(
                         {kAdd,
                          {numbers(large_matrix()), numbers({kColumns}), Scalar(1)},
                          {output(large_matrix())}});
                   }});
  cases.push_back({"add_column_f32", Floor::kMemory, [] {
                     return against_memory(
                         {kAdd,
                          {numbers(large_matrix()), numbers({large_rows(), 1}), Scalar(1)},
                          {output(large_matrix())}});
                   }});
  cases.push_back({"add_turned_f32", Floor::kMemory, [] {
                     return against_memory(
                         {kAdd,
                          {numbers({8192, 4096}), turned(numbers({4096, 8192})), Scalar(1)},
                          {output({8192, 4096})}});
                   }});
  cases.push_back(
      {"contiguous_turned_f32", Floor::kLoop, [] {
         return against_memory({kConvert, {turned(numbers({4096, 8192}))}, {output({8192, 4096})}});
       }});
}

// Numbers around 1: with other numbers the product of a leaf is subnormal, which takes a processor
// longer than the work that is measured.
Tensor numbers_around_one(const Dims& shape) {
  const Tensor logarithms = output(shape), result = output(shape);
  Launch{KernelId::kMul, {numbers(shape), Scalar(0.125)}, {logarithms}}();
  Launch{KernelId::kExp, {logarithms}, {result}}();
  return result;
}

void add_reductions(std::vector<KernelCase>& cases) {
  using enum KernelId;
  struct Reduction {
    const char* name;
    KernelId kernel;
    DType dtype;
    std::int64_t dim;  // -1: over all
    DType out = DType::kF32;
  };
  constexpr DType f32 = DType::kF32, bf16 = DType::kBF16, i64 = DType::kI64;
  const Reduction rows[] = {
      {"sum_f32_all", kSum, f32, -1},
      {"sum_f32_last", kSum, f32, 1},
      {"sum_f32_first", kSum, f32, 0},
      {"sum_f64_last", kSum, DType::kF64, 1, DType::kF64},
      {"sum_bf16_all", kSum, bf16, -1, bf16},
      {"sum_bf16_last", kSum, bf16, 1, bf16},
      {"sum_bf16_first", kSum, bf16, 0, bf16},
      {"sum_i64_all", kSum, i64, -1, i64},
      {"mean_f32_all", kMean, f32, -1},
      {"mean_f32_last", kMean, f32, 1},
      {"mean_f32_first", kMean, f32, 0},
      {"amax_f32_all", kAmax, f32, -1},
      {"amax_f32_last", kAmax, f32, 1},
      {"amax_f32_first", kAmax, f32, 0},
      {"prod_f32_all", kProd, f32, -1},
      {"argmax_f32_last", kArgmax, f32, 1, i64},
      {"argmax_f32_first", kArgmax, f32, 0, i64},
      {"any_bool_last", kAny, DType::kBool, 1, DType::kBool},
      {"all_bool_all", kAll, DType::kBool, -1, DType::kBool},
      {"var_f32_last", kVar, f32, 1},
      {"var_f32_first", kVar, f32, 0},
      {"norm_f32_all", kVectorNorm, f32, -1},
  };
  for (const Reduction& row : rows) {
    const bool adds = row.kernel == kSum || row.kernel == kMean;
    cases.push_back({row.name, adds ? Floor::kMemory : Floor::kLoop, [row] {
                       const Tensor x = row.kernel == kProd
                                            ? numbers_around_one(large_matrix())
                                            : numbers(large_matrix(row.dtype), row.dtype);
                       const Dims kept = row.dim < 0 ? Dims{} : Dims{x.size(row.dim == 1 ? 0 : 1)};
                       Launch launch{row.kernel, {x}, {output(kept, row.out)}};
                       if (row.kernel == kVectorNorm) launch.args.emplace_back(Scalar(2));
                       // Indices of extrema take one dim, all others a list.
                       if (row.dim >= 0 && row.kernel == kArgmax)
                         launch.args.emplace_back(Scalar(row.dim));
                       if (row.dim >= 0 && row.kernel != kArgmax)
                         launch.args.emplace_back(Dims{row.dim});
                       return against_memory(std::move(launch));
                     }});
  }
}

// An op that is a program of kernels, on plain tensors.
KernelPair program_pair(const char* name, const std::vector<LocalArg>& tensors, Arguments args) {
  auto held = std::make_shared<Arguments>();
  for (const Tensor& tensor : tensors_of(tensors)) held->emplace_back(DTensor(tensor));
  const Tensor first = tensors_of(tensors).front();
  for (Argument& arg : args) held->push_back(std::move(arg));
  const OpRow& row = all_ops().at(name);
  return {[held, &row] { benchmark::DoNotOptimize(plain_calls()(row.op.name(), *held)); },
          memory_floor({&first, 1}, first)};
}

void add_row_kernels(std::vector<KernelCase>& cases) {
  using enum KernelId;
  constexpr DType f32 = DType::kF32, bf16 = DType::kBF16;
  const Dims shape = large_matrix();
  const auto add = [&](const char* name, std::function<KernelPair()> make,
                       Floor floor = Floor::kRows) {
    cases.push_back({name, floor, std::move(make)});
  };
  const auto softmax = [=](KernelId kernel, DType dtype, std::int64_t dim) {
    return [=] {
      const Dims whole = large_matrix(dtype);
      return against_memory(
          {kernel, {numbers(whole, dtype), Scalar(dim), Scalar(false)}, {output(whole, dtype)}});
    };
  };
  add("softmax_f32", softmax(kSoftmax, f32, 1));
  add("softmax_f32_first", softmax(kSoftmax, f32, 0), Floor::kLoop);
  add("softmax_bf16", softmax(kSoftmax, bf16, 1), Floor::kHalfRows);
  add("log_softmax_f32", softmax(kLogSoftmax, f32, 1));
  const auto backward = [=](KernelId kernel) {
    return [=] {
      return against_memory({kernel, {numbers(shape), numbers(shape), Scalar(1)}, {output(shape)}});
    };
  };
  add("softmax_backward_f32", backward(kSoftmaxBackward));
  add("log_softmax_backward_f32", backward(kLogSoftmaxBackward));
  const auto layer_norm = [=](DType dtype) {
    return [=] {
      const Dims whole = large_matrix(dtype), each{whole[0], 1};
      return against_memory({kNativeLayerNorm,
                             {numbers(whole, dtype), Dims{kColumns}, numbers({kColumns}, dtype),
                              numbers({kColumns}, dtype), Scalar(1e-5)},
                             {output(whole, dtype), output(each, dtype), output(each, dtype)}});
    };
  };
  add("layer_norm_f32", layer_norm(f32));
  add("layer_norm_bf16", layer_norm(bf16), Floor::kHalfRows);
  add("layer_norm_backward_f32", [=] {
    return against_memory(
        {kNativeLayerNormBackward,
         {numbers(shape), numbers(shape), Dims{kColumns}, numbers({large_rows(), 1}),
          numbers({large_rows(), 1}), numbers({kColumns}), numbers({kColumns})},
         {output(shape), output({kColumns}), output({kColumns})}});
  });
}

void add_programs(std::vector<KernelCase>& cases) {
  const auto add = [&](const char* name, std::function<KernelPair()> make) {
    cases.push_back({name, Floor::kLoop, std::move(make)});
  };
  add("rms_norm_f32", [] {
    return program_pair("aten::_fused_rms_norm", {numbers(large_matrix())},
                        {Dims{kColumns}, DTensor(numbers({kColumns})), 1e-5});
  });
  add("batch_norm_f32", [] {
    const Argument weight = DTensor(numbers({64})), bias = DTensor(numbers({64}));
    return program_pair("aten::native_batch_norm", {numbers({128, 64, 64, 64})},
                        {weight, bias, Argument(), Argument(), true, 0.1, 1e-5});
  });
  add("attention_f32_8x8x256x64", [] {
    KernelPair pair = program_pair(
        "aten::scaled_dot_product_attention",
        {numbers({8, 8, 256, 64}), numbers({8, 8, 256, 64}), numbers({8, 8, 256, 64})}, {});
    const TimedWork scores = eigen_floor(DType::kF32, 64, 256, 64, 256);
    const TimedWork values = eigen_floor(DType::kF32, 64, 256, 256, 64);
    pair.floor = [scores, values] {
      scores();
      values();
    };
    return pair;
  });
}

// Convolutions compared with the one product that has as many multiplications.
void add_convolutions(std::vector<KernelCase>& cases) {
  using enum KernelId;
  struct Shapes {
    Dims input, weight, output;
    std::int64_t stride, padding;
  };
  const auto add = [&](const char* name, KernelId kernel, const Shapes& s) {
    cases.push_back({name, Floor::kLoop, [=] {
                       const Dims& first = kernel == kConvolutionInputGrad ? s.output : s.input;
                       const Dims& second = kernel == kConvolutionWeightGrad ? s.output : s.weight;
                       const Dims& result = kernel == kConvolution            ? s.output
                                            : kernel == kConvolutionInputGrad ? s.input
                                                                              : s.weight;
                       const Dims ones(2, 1);
                       Launch launch{kernel,
                                     {numbers(first), numbers(second), Dims(2, s.stride),
                                      Dims(2, s.padding), ones, Scalar(1)},
                                     {output(result)}};
                       const std::int64_t taps = s.weight[1] * s.weight[2] * s.weight[3];
                       const std::int64_t places = s.output[2] * s.output[3];
                       return KernelPair{std::move(launch), eigen_floor(DType::kF32, s.output[0],
                                                                        s.weight[0], taps, places)};
                     }});
  };
  const Shapes middle{{8, 32, 32, 32}, {64, 32, 3, 3}, {8, 64, 32, 32}, 1, 1};
  add("conv_f32_8x32x32x32", kConvolution, middle);
  add("conv_input_grad_f32", kConvolutionInputGrad, middle);
  add("conv_weight_grad_f32", kConvolutionWeightGrad, middle);
  add("conv_f32_strided", kConvolution, {{8, 3, 64, 64}, {32, 3, 7, 7}, {8, 32, 32, 32}, 2, 3});
  add("conv_f32_1x1", kConvolution, {{8, 64, 32, 32}, {64, 64, 1, 1}, {8, 64, 32, 32}, 1, 0});
}

// Sorting each of `rows` rows, or its first `wanted` values, by the standard library.
TimedWork sorting_floor(const Tensor& x, std::int64_t wanted) {
  auto copy = std::make_shared<std::vector<float>>(static_cast<std::size_t>(x.numel()));
  return [=] {
    std::copy_n(x.data<float>(), x.numel(), copy->begin());
    const std::int64_t columns = x.size(1);
    for (std::int64_t i = 0; i < x.size(0); ++i) {
      const auto first = copy->begin() + i * columns;
      if (wanted == columns) {
        std::sort(first, first + columns);
      } else {
        std::partial_sort(first, first + wanted, first + columns, std::greater<>());
      }
    }
    benchmark::DoNotOptimize(copy->data());
  };
}

void add_orders(std::vector<KernelCase>& cases) {
  using enum KernelId;
  const Dims shape{256, 4096};
  cases.push_back({"sort_f32_256x4096", Floor::kLoop, [=] {
                     const Tensor x = numbers(shape);
                     return KernelPair{Launch{kSort,
                                              {x, Scalar(1), Scalar(false)},
                                              {output(shape), output(shape, DType::kI64)}},
                                       sorting_floor(x, 4096)};
                   }});
  cases.push_back({"topk_f32_10_of_4096", Floor::kLoop, [=] {
                     const Tensor x = numbers(shape);
                     return KernelPair{
                         Launch{kTopk,
                                {x, Scalar(10), Scalar(1), Scalar(true), Scalar(true)},
                                {output({256, 10}), output({256, 10}, DType::kI64)}},
                         sorting_floor(x, 10)};
                   }});
  const auto cumsum = [=](std::int64_t dim) {
    return [=] {
      return against_memory(
          {kCumsum, {numbers(large_matrix()), Scalar(dim)}, {output(large_matrix())}});
    };
  };
  cases.push_back({"cumsum_f32_last", Floor::kLoop, cumsum(1)});
  cases.push_back({"cumsum_f32_first", Floor::kLoop, cumsum(0)});
}

// Rows of a table, or single elements, one after the other.
void add_lookups(std::vector<KernelCase>& cases) {
  using enum KernelId;
  const auto rows_by_loop = [](const Tensor& table, const Tensor& places, const Tensor& out) {
    auto to = std::make_shared<std::vector<float>>(static_cast<std::size_t>(out.numel()));
    return [=] {
      const std::int64_t columns = table.size(1);
      for (std::int64_t i = 0; i < places.numel(); ++i) {
        std::copy_n(table.data<float>() + places.data<std::int64_t>()[i] * columns, columns,
                    to->data() + i * columns);
      }
      benchmark::DoNotOptimize(to->data());
    };
  };
  const auto lookup = [=](KernelId kernel, std::int64_t columns) {
    return [=] {
      const std::int64_t count = (std::int64_t{1} << 21) / columns;
      const Tensor table = numbers({16384, columns}), places = indices({count}, 16384);
      const Tensor out = output({count, columns});
      std::vector<LocalArg> args{table, Scalar(0), places};
      if (kernel == kEmbedding) args = {table, places, Scalar(-1), Scalar(false), Scalar(false)};
      return KernelPair{Launch{kernel, std::move(args), {out}}, rows_by_loop(table, places, out)};
    };
  };
  cases.push_back({"index_select_f32_rows_of_64", Floor::kLoop, lookup(kIndexSelect, 64)});
  cases.push_back({"index_select_f32_rows_of_4", Floor::kLoop, lookup(kIndexSelect, 4)});
  cases.push_back({"embedding_f32_rows_of_256", Floor::kLoop, lookup(kEmbedding, 256)});
  const Dims shape{1024, 1024};
  const auto by_element = [=](KernelId kernel) {
    return [=] {
      const Tensor x = numbers(shape), places = indices(shape, 1024), y = numbers(shape);
      std::vector<LocalArg> args{x, Scalar(1), places};
      if (kernel != kGather) args.emplace_back(y);
      auto to = std::make_shared<std::vector<float>>(static_cast<std::size_t>(x.numel()));
      const TimedWork floor = [=] {
        const auto* at = places.data<std::int64_t>();
        const float *from = x.data<float>(), *source = y.data<float>();
        if (kernel != kGather) std::copy_n(from, x.numel(), to->data());
        for (std::int64_t row = 0; row < shape[0]; ++row) {
          for (std::int64_t i = row * shape[1]; i < (row + 1) * shape[1]; ++i) {
            const auto place = static_cast<std::size_t>(row * shape[1] + at[i]);
            if (kernel == kGather) {
              (*to)[static_cast<std::size_t>(i)] = from[place];
            } else {
              (*to)[place] = kernel == kScatter ? source[i] : (*to)[place] + source[i];
            }
          }
        }
        benchmark::DoNotOptimize(to->data());
      };
      return KernelPair{Launch{kernel, std::move(args), {output(shape)}}, floor};
    };
  };
  cases.push_back({"gather_f32", Floor::kLoop, by_element(kGather)});
  cases.push_back({"scatter_f32", Floor::kLoop, by_element(kScatter)});
  cases.push_back({"scatter_add_f32", Floor::kLoop, by_element(kScatterAdd)});
}

void add_fourier(std::vector<KernelCase>& cases) {
  const auto transform = [](std::int64_t rows, std::int64_t size) {
    return [=] {
      const Tensor x = numbers({rows, size}, DType::kC64);
      auto to =
          std::make_shared<std::vector<std::complex<float>>>(static_cast<std::size_t>(rows * size));
      auto fft = std::make_shared<Eigen::FFT<float>>();
      const TimedWork floor = [=] {
        for (std::int64_t i = 0; i < rows; ++i) {
          fft->fwd(to->data() + i * size, x.data<std::complex<float>>() + i * size, size);
        }
        benchmark::DoNotOptimize(to->data());
      };
      return KernelPair{Launch{KernelId::kFftC2c,
                               {x, Dims{1}, Scalar(0), Scalar(true)},
                               {output({rows, size}, DType::kC64)}},
                        floor};
    };
  };
  cases.push_back({"fft_c64_256x1024", Floor::kLoop, transform(256, 1024)});
  cases.push_back({"fft_c64_256x1000", Floor::kLoop, transform(256, 1000)});
}

// Small tensors compared with a loop that a compiler makes of the same function.
template <typename Function>
TimedWork small_loop(const Tensor& x, Function function) {
  auto to = std::make_shared<std::vector<float>>(static_cast<std::size_t>(x.numel()));
  return [=] {
    const float* from = x.data<float>();
    for (std::size_t i = 0; i < to->size(); ++i) (*to)[i] = function(from[i]);
    benchmark::DoNotOptimize(to->data());
    benchmark::ClobberMemory();
  };
}

void add_small(std::vector<KernelCase>& cases) {
  using enum KernelId;
  struct Small {
    const char* name;
    KernelId kernel;
    std::vector<Dims> inputs;
    Dims out;
    std::vector<LocalArg> rest{};
    DType dtype = DType::kF32;
    DType out_dtype = DType::kF32;
  };
  const Small rows[] = {
      {"small_add_1", kAdd, {{1}, {1}}, {1}, {Scalar(1)}},
      {"small_add_8", kAdd, {{8}, {8}}, {8}, {Scalar(1)}},
      {"small_add_64", kAdd, {{8, 8}, {8, 8}}, {8, 8}, {Scalar(1)}},
      {"small_add_scaled_64", kAdd, {{8, 8}, {8, 8}}, {8, 8}, {Scalar(0.5)}},
      {"small_add_row_64", kAdd, {{8, 8}, {8}}, {8, 8}, {Scalar(1)}},
      {"small_add_bf16_64",
       kAdd,
       {{8, 8}, {8, 8}},
       {8, 8},
       {Scalar(1)},
       DType::kBF16,
       DType::kBF16},
      {"small_mul_number_1", kMul, {{1}}, {1}, {Scalar(2)}},
      {"small_mul_number_64", kMul, {{8, 8}}, {8, 8}, {Scalar(2)}},
      {"small_relu_64", kRelu, {{8, 8}}, {8, 8}},
      {"small_gt_64", kGt, {{8, 8}, {8, 8}}, {8, 8}, {}, DType::kF32, DType::kBool},
      {"small_clone_64", kConvert, {{8, 8}}, {8, 8}},
      {"small_cast_bf16_64", kConvert, {{8, 8}}, {8, 8}, {}, DType::kF32, DType::kBF16},
      {"small_fill_64", kZeros, {{8, 8}}, {8, 8}},
      {"small_sum_8x8", kSum, {{8, 8}}, {}},
      {"small_sum_last_8x8", kSum, {{8, 8}}, {8}, {Dims{1}}},
      {"small_sum_first_8x8", kSum, {{8, 8}}, {8}, {Dims{0}}},
      {"small_amax_last_8x8", kAmax, {{8, 8}}, {8}, {Dims{1}}},
      {"small_mm_4x4", kMm, {{4, 4}, {4, 4}}, {4, 4}},
  };
  for (const Small& row : rows) {
    cases.push_back({row.name, Floor::kSmallLoop, [row] {
                       Launch launch{row.kernel, {}, {output(row.out, row.out_dtype)}};
                       for (const Dims& shape : row.inputs) {
                         launch.args.emplace_back(numbers(shape, row.dtype));
                       }
                       launch.args.insert(launch.args.end(), row.rest.begin(), row.rest.end());
                       const TimedWork floor =
                           small_loop(numbers(row.inputs[0]), [](float x) { return x + 1.5f; });
                       return KernelPair{std::move(launch), floor};
                     }});
  }
}

}  // namespace

std::vector<KernelCase> kernel_cases() {
  std::vector<KernelCase> cases;
  add_products(cases);
  add_elementwise(cases);
  add_reductions(cases);
  add_row_kernels(cases);
  add_programs(cases);
  add_convolutions(cases);
  add_orders(cases);
  add_lookups(cases);
  add_fourier(cases);
  add_small(cases);
  return cases;
}

}  // namespace shardlab
