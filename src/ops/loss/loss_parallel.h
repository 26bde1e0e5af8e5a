// loss_parallel.h - cross entropy over logits whose classes are cut, and its parts: as
// loss_parallel() of PyTorch with _log_softmax, nll_loss_forward and nll_loss_backward. In terms of
// other ops, on global values. Used on the running rank, as the calls are.
#pragma once

#include "schema/calls.h"

namespace shardlab {

/// log(softmax(logits)) along `dim`: the samples' maxima and sums are shared, not the logits.
/// 16-bit floats are computed in f32.
DTensor log_softmax_of_pieces(Calls& calls, const DTensor& logits, std::int64_t dim);

struct NllOfPieces {
  DTensor loss;          ///< reduced as in `args`
  DTensor total_weight;  ///< of the samples; pending where samples are cut, but for a mean
};
/// Both take `args` as shardlab::loss_parallel does: log-probabilities or logits [samples, classes]
/// or [classes], target, weight or None, reduction, ignore_index.
///   fail  Value: classes that are not cut on exactly one mesh dim
NllOfPieces nll_of_pieces(Calls& calls, const Arguments& args, const DTensor& logs);
/// The gradient of the logits: (softmax - one hot) * share of the sample * gradient of its loss.
DTensor nll_gradient_of_pieces(Calls& calls, const Arguments& args, const DTensor& logs,
                               const DTensor& total_weight, const DTensor& gradient);

}  // namespace shardlab
