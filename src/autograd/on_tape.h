// on_tape.h - the actions of the functions of autograd.h and tape.h, below everything that wraps
// the program's calls (program.h). For gradients, and for the end of that chain.
#pragma once

#include <memory>
#include <vector>

#include "autograd/hooks.h"
#include "autograd/tape.h"

namespace shardlab {
struct CustomFunction;  // autograd/custom_function.h
class FunctionContext;
}  // namespace shardlab

namespace shardlab::on_tape {

DTensor redistribute(const DTensor& x, const DTensorSpec* target,
                     const RedistributeOptions& options, const RedistributeDTypes& dtypes);
DTensor from_local(const DTensor& local, const DTensorSpec* spec);
/// `gradient`: the label of the gradient.
DTensor to_local(const DTensor& x, const DTensorSpec* gradient);
void require_grad(const DTensor& x);
void require_no_grad(const DTensor& x);
DTensor detach(const DTensor& x);
void detach_in_place(const DTensor& x);
void drop_grad(const DTensor& leaf);
HookHandle register_hook(const DTensor& x, GradientHook hook);
std::vector<DTensor> hook_gradients(const std::vector<DTensor>& tensors, MissingGradients missing,
                                    GradientsHook hook);
std::vector<DTensor> with_gradient(const std::shared_ptr<FunctionContext>& context,
                                   const std::shared_ptr<const CustomFunction>& function,
                                   const std::vector<DTensor>& arguments,
                                   const std::vector<DTensor>& results);
void backward(const DTensor& loss, const DTensor& seed, Graph graph);
std::vector<DTensor> gradients(const DTensor& loss, const std::vector<DTensor>& inputs,
                               const DTensor& seed, Graph graph);

}  // namespace shardlab::on_tape
