// ctc.h - programs of the loss of sequences without an alignment (connectionist temporal
// classification); their rows are in the table of margin losses. Log-probabilities are [steps,
// batch, classes], lengths are lists or tensors of whole numbers.
//   fails  Value: lengths that do not fit, classes out of range of the table's shape
#pragma once

#include "ops/core/gradient_math.h"

namespace shardlab {

/// _ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity): for each
/// sequence minus the logarithm of the sum of all its alignments; the logarithms of the sums up to
/// each step, [batch, steps, 2 * labels + 1].
Results ctc_alignments(Calls& calls, const Arguments& args);
/// _ctc_loss_backward(grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
/// log_alpha, blank, zero_infinity)
Results ctc_alignments_backward(Calls& calls, const Arguments& args);
/// ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
Results ctc_loss(Calls& calls, const Arguments& args);

/// The gradient of the first result, by the backward of the same overload.
grad::Gradients grad_ctc_of_lists(const GradContext& context);
grad::Gradients grad_ctc_of_tensors(const GradContext& context);

}  // namespace shardlab
