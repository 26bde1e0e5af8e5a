// kernel_id.h - the list of local computations. A row of src/ops names one; each Device has its own
// table id -> kernel.
//
// Arguments are in the schema order of the functional op, defaults filled in, keyword-only ones
// last; in-place and out= variants run the same kernel with the written tensor as output. An
// argument is a Tensor or a Scalar wherever overloads differ only in that: kAdd serves add.Tensor
// and add.Scalar. The comment of an id lists the arguments it reads where the op's name does not.
#pragma once

#include <cstdint>

#include "kernels/element_functions.h"

namespace shardlab {

/// Order and numbers have no meaning; no id is stored.
enum class KernelId : std::uint16_t {
  kNone = 0,

  // Copies and constants.
  kCopy,       ///< copy(self, src, ..): src, converted and broadcast
  kConvert,    ///< argument 0 converted to the output: _to_copy, clone, contiguous
  kFill,       ///< argument 1 everywhere: fill, full, full_like
  kFillThird,  ///< argument 2 everywhere: new_full(self, size, fill_value)
  kZeros,      ///< zeros, zeros_like, new_zeros, zero; also empty, so that results are reproducible
  kOnes,
  kArange,  ///< (end), (start, end) or (start, end, step) in front of dtype
  kLinspace,
  kLogspace,    ///< (start, end, steps, base)
  kHannWindow,  ///< (length) or (length, periodic)
  kEye,
  kTrilIndices,  ///< (rows, columns, offset): where the lower triangle has its elements
  kTriuIndices,
  kTril,
  kTriu,

// Pointwise functions that are a kernel by themselves.
#define SHARDLAB_NAME(function, operands, kinds, how) k##function,
  SHARDLAB_ELEMENT_KERNELS(SHARDLAB_NAME)
#undef SHARDLAB_NAME

  // Pointwise kernels that choose between functions, or bring their operands into order first.
  kFrexp,  ///< outputs: mantissa, exponent
  kNextafter,
  kGelu,
  kBitwiseNot,
  kAdd,
  kSub,
  kRsub,
  kDiv,
  kClamp,
  kClampMin,
  kClampMax,
  kMaskedFill,
  kGeluBackward,

  // Matrix products.
  kMm,
  kBmm,
  kAddmm,
  kBaddbmm,
  kMv,
  kDot,

  // Reductions: over all dims when argument 1 is not a dim list.
  kSum,
  kMean,
  kProd,
  kAmax,
  kAmin,
  kAny,
  kAll,
  kVar,
  kStd,
  kVarMean,
  kStdMean,
  kArgmax,
  kArgmin,
  kMax,
  kMin,  ///< max(self), min(self)
  kMaxDim,
  kMinDim,      ///< outputs: values, indices
  kVectorNorm,  ///< linalg_vector_norm(self, ord, dim, keepdim, *, dtype)

  // Along one dim.
  kSoftmax,
  kLogSoftmax,
  kSoftmaxBackward,
  kLogSoftmaxBackward,
  kCumsum,
  kSort,        ///< sort(self, dim, descending); always stable
  kSortStable,  ///< sort.stable(self, stable, dim, descending)
  kTopk,
  kCumprod,
  kLogcumsumexp,
  kCummax,
  kCummin,     ///< outputs: values, indices
  kKthvalue,   ///< kthvalue(self, k, dim, keepdim); outputs: values, indices
  kMedian,     ///< of all elements
  kNanMedian,  ///< of all that are numbers
  kMedianDim,  ///< median(self, dim, keepdim); outputs: values, indices
  kNanMedianDim,
  kMode,                   ///< mode(self, dim, keepdim); outputs: values, indices
  kHistc,                  ///< histc(self, bins, min, max)
  kSegmentReduce,          ///< (data, reduce, lengths, indices, offsets, axis, unsafe, initial)
  kSegmentReduceBackward,  ///< (grad, output, data, reduce, lengths, offsets, axis, initial)
  kBucketize,              ///< bucketize(self, boundaries, .., right)

  // Normalisation and losses.
  kNativeLayerNorm,
  kNativeLayerNormBackward,
  kNllLossForward,
  kNllLossBackward,

  // Convolutions: (a, b, stride, padding, dilation, groups), all lists of the spatial dims. Padding
  // may be of any sign and size: everything outside of a counts as zeros, and the output's sizes
  // limit the windows.
  kConvolution,            ///< a input, b weight
  kConvolutionInputGrad,   ///< a gradient of the output, b weight
  kConvolutionWeightGrad,  ///< a input, b gradient of the output

  // Resampling of the last dims, as many as output_size has sizes; see resample.cpp.
  kUpsampleNearest,
  kUpsampleNearestExact,
  kUpsampleLinear,
  kUpsampleCubic,
  kUpsampleLinearAa,
  kUpsampleCubicAa,
  kUpsampleLanczosAa,
  kUpsampleNearestBackward,
  kUpsampleNearestExactBackward,
  kUpsampleLinearBackward,
  kUpsampleCubicBackward,
  kUpsampleLinearAaBackward,
  kUpsampleCubicAaBackward,
  kUpsampleLanczosAaBackward,
  kAvgPool,
  kAvgPoolBackward,
  kAdaptiveAvgPool,
  kAdaptiveAvgPoolBackward,
  kMaxPool,          ///< outputs: values, indices within the pooled dims
  kAdaptiveMaxPool,  ///< outputs: values, indices within the pooled dims

  kFractionalMaxPool,  ///< outputs: values, indices within the pooled dims

  // Values between places, at the points of a grid: (input, grid, interpolation_mode, padding_mode,
  // align_corners), and backward with the gradient in front.
  kGridSample,
  kGridSampleBackward,  ///< outputs: of input, of grid

  // Fourier transforms.
  kFftC2c,
  kFftR2c,
  kFftC2r,

  // Linear algebra of the last two dims; see linalg.cpp and factorization.cpp.
  kCholeskyEx,
  kCholeskyInverse,
  kCholeskySolve,
  kDet,
  kEig,
  kEigh,
  kGeqrf,
  kHouseholderProduct,
  kInvEx,
  kLdlFactorEx,
  kLdlSolve,
  kLinalgCheckErrors,  ///< fails where an info is not 0
  kLu,
  kLuFactorEx,
  kLuSolve,
  kLuUnpack,
  kMatrixExp,
  kOrmqr,
  kQr,
  kSlogdet,
  kSolveEx,
  kSolveTriangular,
  kSvd,
  kTriangularSolve,

  // Selection.
  kCat,
  kStack,
  kReshapeCopy,
  kIndexSelect,
  kGather,
  kScatterAdd,
  kScatterReduce,  ///< (self, dim, index, src, reduce, include_self)
  kScatter,
  kEmbedding,
  kEmbeddingDenseBackward,
  kEmbeddingMasked,  ///< embedding's arguments; table rows by `view`; outputs: values, mask
  kGatherMasked,     ///< gather's arguments; part of self by `view`; outputs: values, mask
  kSliceBackward,
  kSelectBackward,
  kFlip,
  kRepeat,
  kConstantPadNd,

  // Random: element i draws from counter `random.offset` + global index i.
  kRand,        ///< uniform in [0, 1): rand, rand_like
  kRandn,       ///< standard normal: randn, randn_like
  kRandint,     ///< randint(high, size), randint_like(self, high)
  kRandintLow,  ///< randint.low(low, high, size), randint_like.low_dtype(self, low, high)
  kUniform,
  kNormal,         ///< (mean, std), behind self where there is one
  kExponential,    ///< (self, lambda)
  kGeometric,      ///< (self, p)
  kLogNormal,      ///< (self, mean, std)
  kCauchy,         ///< (self, median, sigma)
  kPoisson,        ///< (rates)
  kBinomial,       ///< (counts, chances)
  kStandardGamma,  ///< (shapes)
  kMultinomial,    ///< (weights, draws, replacement)
  kBernoulli,      ///< bernoulli(self): probabilities are self
  kBernoulliP,     ///< bernoulli.p(self, p)
  kNativeDropout,  ///< outputs: values, mask

  kCount,
};

}  // namespace shardlab
