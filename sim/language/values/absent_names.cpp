// One table: the names of torch, Python and JAX that users try first, and a line of a program with
// the same effect. A test runs each line.
#include "sim/language/values/absent_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlab {

namespace {

// clang-format off
constexpr AbsentNames kRows[] = {
    {"_typed_storage data_ptr storage untyped_storage",
     "x.is_contiguous()", "buffers have no address here"},
    {"_c10d_functional", "z = all_reduce(x, \"sum\", \"tp\")"},
    {"accumulate chain islice itertools permutations",
     "[(a, c) for a in range(2) for c in range(3)]"},
    {"Adafactor Adam AdamW Adamax Muon NAdam RAdam",
     "m = 0.9 * m + 0.1 * g", "the rest of the step is a line each"},
    {"AdaptiveAvgPool1d", "F.adaptive_avg_pool1d(seq, 2)"},
    {"AdaptiveAvgPool2d", "F.adaptive_avg_pool2d(img, 2)"},
    {"AdaptiveAvgPool3d", "F.adaptive_avg_pool3d(vol, 2)"},
    {"AdaptiveMaxPool1d", "F.adaptive_max_pool1d(seq, 2)"},
    {"AdaptiveMaxPool2d", "F.adaptive_max_pool2d(img, 2)"},
    {"AdaptiveMaxPool3d", "F.adaptive_max_pool3d(vol, 2)"},
    {"add_module buffers children get_parameter get_submodule modules named_buffers "
     "named_children named_modules named_parameters parameters register_buffer "
     "register_module register_parameter",
     "params = {\"w\": w, \"b\": b}", "a program keeps its parameters by name"},
    {"all_gather_into_tensor",
     "dist.all_gather_into_tensor(torch.empty(8, 6), x, group=\"tp\")", "or all_gather(x, \"tp\")"},
    {"allow_in_graph compile compiler disable dynamo export fx is_compiling jit "
     "mark_dynamic script symbolic_trace",
     "trace(lambda t: t * 2)(x)", "trace makes a graph of a def"},
    {"AlphaDropout", "F.alpha_dropout(x, 0.1)"},
    {"amp autocast custom_bwd custom_fwd", "x.to(bf16)", "where the narrow dtype is wanted"},
    {"apply_ map_", "x * 2"},
    {"ArgumentParser argparse", "dict(lr=0.1)", "values from outside are [params], set by --set"},
    {"ASGD Adadelta Adagrad LBFGS Optimizer RMSprop Rprop SparseAdam "
     "ZeroRedundancyOptimizer optim",
     "w = (w.detach() - 0.1 * g).requires_grad_()", "the rule of the step in place of 0.1 * g"},
    {"AvgPool1d", "F.avg_pool1d(seq, 2)"},
    {"AvgPool2d", "F.avg_pool2d(img, 2)"},
    {"AvgPool3d", "F.avg_pool3d(vol, 2)"},
    {"axis_index", "dist.get_rank(mesh.get_group(\"tp\"))"},
    {"axis_size", "mesh.size(1)"},
    {"backends manual_seed_all set_float32_matmul_precision set_num_threads "
     "set_printoptions use_deterministic_algorithms",
     "torch.manual_seed(7)", "leave the line out otherwise: runs are deterministic"},
    {"BackwardPrefetch CPUOffload CPUOffloadPolicy FSDP FSDPModule "
     "FullyShardedDataParallel MixedPrecision MixedPrecisionPolicy OffloadPolicy "
     "ShardingStrategy reshard unshard",
     "distribute(torch.randn(8, 6), dp=S(0)).redistribute(dp=R)",
     "or bring the PyTorch program: shardlab record"},
    {"BatchNorm1d BatchNorm2d BatchNorm3d SyncBatchNorm",
     "F.batch_norm(img, None, None, training=True)"},
    {"BCELoss", "F.binary_cross_entropy(x.sigmoid(), y.sigmoid())"},
    {"BCEWithLogitsLoss", "F.binary_cross_entropy_with_logits(x, y.sigmoid())"},
    {"Bilinear", "F.bilinear(x, x, k3)", "keep k3 as an input"},
    {"breakpoint bytearray bytes dir eval exec globals help input locals memoryview open "
     "vars", "print(1)", "a program has no files and no code of its own in texts"},
    {"Buffer Parameter ParameterDict ParameterList UninitializedParameter",
     "w = torch.randn(8, 6, requires_grad=True)", "or an input with requires_grad = true"},
    {"CELU", "F.celu(x)"},
    {"ChainedScheduler ConstantLR CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR "
     "ExponentialLR LambdaLR LinearLR MultiStepLR MultiplicativeLR OneCycleLR "
     "PolynomialLR ReduceLROnPlateau SequentialLR StepLR lr_scheduler",
     "lr = 0.1 * math.cos(1.0)", "the rate is a number of the program"},
    {"ChannelShuffle", "F.channel_shuffle(img, 3)"},
    {"checkpoint_sequential create_selective_checkpoint_contexts",
     "torch.utils.checkpoint.checkpoint(lambda t: F.relu(t), x)"},
    {"CircularPad1d", "F.pad(seq, [1, 1], mode=\"circular\")"},
    {"CircularPad2d", "F.pad(img, [1, 1, 1, 1], mode=\"circular\")"},
    {"CircularPad3d", "F.pad(vol, [1, 1, 1, 1, 1, 1], mode=\"circular\")"},
    {"classmethod issubclass object property super", "isinstance(1, int)"},
    {"clip_grad_value_", "g = g.clamp(-1.0, 1.0)"},
    {"coalesce sparse_coo_tensor to_sparse to_sparse_coo to_sparse_csr", "x * (x > 0)"},
    {"collective_permute permute_tensor ppermute pshuffle",
     "dist.get_rank()", "messages: dist.batch_isend_irecv([dist.P2POp(dist.isend, x, to), ...])"},
    {"ParallelStyle PrepareModuleInput PrepareModuleInputOutput "
     "PrepareModuleOutput SequenceParallel",
     "distribute(torch.randn(8, 6), tp=S(0))",
     "column-wise is S(0) of a weight [out, in], row-wise S(1)"},
    {"compute_global_tensor_info compute_local_shape "
     "compute_local_shape_and_global_offset", "distribute(x, tp=S(0)).to_local().shape"},
    {"cond fori_loop scan while_loop",
     "[x * n for n in range(3)]", "for, while and if are the program's"},
    {"constant_ dirac_ eye_ init kaiming_normal_ kaiming_uniform_ ones_ orthogonal_ "
     "sparse_ trunc_normal_ xavier_normal_ xavier_uniform_ zeros_",
     "torch.nn.functional.relu(torch.randn(8, 6) * 0.02)",
     "draw with torch.randn, torch.rand or w.normal_(0, 0.02)"},
    {"ConstantPad1d", "F.pad(seq, [1, 1], value=1.0)"},
    {"ConstantPad2d", "F.pad(img, [1, 1, 1, 1], value=1.0)"},
    {"ConstantPad3d", "F.pad(vol, [1, 1, 1, 1, 1, 1], value=1.0)"},
    {"context_parallel set_rotate_method",
     "dist.get_rank()", "scenarios/models has ring attention with messages"},
    {"Conv1d", "F.conv1d(seq, k1)"},
    {"Conv2d", "F.conv2d(img, k2)"},
    {"Conv3d", "F.conv3d(vol, k3d)"},
    {"ConvTranspose1d", "F.conv_transpose1d(seq, k1.transpose(0, 1))"},
    {"ConvTranspose2d", "F.conv_transpose2d(img, k2.transpose(0, 1))"},
    {"ConvTranspose3d", "F.conv_transpose3d(vol, k3d.transpose(0, 1))"},
    {"CosineEmbeddingLoss", "F.cosine_embedding_loss(x, y, x[:, 0].sign())"},
    {"CosineSimilarity", "F.cosine_similarity(x, y)"},
    {"Counter defaultdict", "{}.get(\"k\", 0)"},
    {"CrossEntropyLoss", "F.cross_entropy(x, i)"},
    {"DataLoader Dataset DistributedSampler IterableDataset RandomSampler Subset "
     "TensorDataset random_split", "torch.randn(4, 6)", "data are inputs, or drawn"},
    {"datetime monotonic perf_counter sleep time",
     "x.sum()", "leave it out: a report has predicted times"},
    {"dcp get_model_state_dict get_optimizer_state_dict load load_file load_state_dict "
     "safe_open save save_file set_model_state_dict state_dict",
     "torch.randn(4, 6)",
     "an input with file = \"w.npy\" reads a tensor; a run ends with its values"},
    {"DDP DataParallel DistributedDataParallel replicate",
     "distribute(x, dp=S(0)) @ distribute(w.t())",
     "shard the batch, and gradients are summed by their placements"},
    {"deepcopy json pickle re", "x.clone()"},
    {"delattr setattr", "{\"k\": 1}.update({\"k\": 2})", "attributes are entries of a dict"},
    {"deque heapq", "[1, 2].pop(0)"},
    {"distribute_module",
     "distribute(torch.randn(8, 6), tp=S(0))", "each parameter by itself"},
    {"Dropout", "F.dropout(x, 0.1)"},
    {"Dropout1d", "F.dropout1d(seq, 0.1)"},
    {"Dropout2d", "F.dropout2d(img, 0.1)"},
    {"Dropout3d", "F.dropout3d(vol, 0.1)"},
    {"DTensorSpec TensorMeta", "distribute(x, tp=S(0)).placements"},
    {"einops pandas scipy", "torch.randn(4, 6).reshape(2, 12)"},
    {"ELU", "F.elu(x)"},
    {"Embedding", "F.embedding(i, w)", "keep w as an input"},
    {"EmbeddingBag", "F.embedding_bag(i, w, offsets)", "keep w as an input"},
    {"euler_gamma", "0.5772156649015329"},
    {"Event Stream current_stream default_stream empty_cache max_memory_allocated "
     "memory_allocated memory_summary record_stream reset_peak_memory_stats set_device "
     "stream synchronize wait_stream",
     "x.sum()", "leave the line out: a run reports its memory, and waits where it must"},
    {"FeatureAlphaDropout", "F.feature_alpha_dropout(img, 0.1)"},
    {"FileStore HashStore PrefixStore Store TCPStore",
     "dist.barrier()", "objects are exchanged by dist.broadcast_object_list"},
    {"Flatten", "x.flatten(1)"},
    {"Fold", "F.fold(torch.randn(1, 8, 9), [4, 4], 2)"},
    {"from_numpy frombuffer", "torch.tensor([[1.0, 2.0]])"},
    {"frozenset", "{1, 2}"},
    {"Function", "Twice.apply(x)",
     "behind a class Twice(torch.autograd.Function): with static methods forward and backward"},
    {"func functional_call functorch grad_and_value hessian jacfwd jacrev jvp make_fx "
     "stack_module_state value_and_grad vjp vmap", "torch.autograd.grad((p * 2).sum(), [p])"},
    {"GaussianNLLLoss", "F.gaussian_nll_loss(x, y, x.exp())"},
    {"GELU", "F.gelu(x)"},
    {"get_default_device set_default_device set_default_dtype set_default_tensor_type",
     "torch.randn(2, dtype=f64)", "each tensor has its dtype"},
    {"GLU", "F.glu(x)"},
    {"grad_fn", "p.requires_grad"},
    {"GradScaler unscale_",
     "(loss * 1024.0).item() / 1024.0", "a scale is a factor of the loss, and of the gradients"},
    {"GroupNorm", "F.group_norm(img, 3)"},
    {"GRU GRUCell LSTM LSTMCell RNN RNNCell",
     "torch.tanh(F.linear(x, w) + b)", "in a loop over time steps"},
    {"GSPMDSharding NamedSharding PartitionSpec PositionalSharding device_put "
     "with_sharding_constraint",
     "distribute(x, tp=S(0))", "the dims of the mesh, each with a placement"},
    {"Hardshrink", "F.hardshrink(x)"},
    {"Hardsigmoid", "F.hardsigmoid(x)"},
    {"Hardswish", "F.hardswish(x)"},
    {"Hardtanh", "F.hardtanh(x)"},
    {"hash id", "x is x"},
    {"HingeEmbeddingLoss", "F.hinge_embedding_loss(x, y.sign())"},
    {"HuberLoss", "F.huber_loss(x, y)"},
    {"Identity", "x"},
    {"InstanceNorm1d InstanceNorm2d InstanceNorm3d", "F.instance_norm(img)"},
    {"is_gloo_available is_mpi_available is_nccl_available is_torchelastic_launched",
     "dist.is_initialized()"},
    {"is_shared share_memory_", "x.contiguous()"},
    {"iter next", "[1, 2, 3][0]", "a list is indexed"},
    {"jax jnp lax", "torch.randn(4, 6).sum()", "ops are torch's"},
    {"KLDivLoss", "F.kl_div(x.log_softmax(-1), y.softmax(-1))"},
    {"L1Loss", "F.l1_loss(x, y)"},
    {"LayerNorm", "F.layer_norm(x, [6])"},
    {"LeakyReLU", "F.leaky_relu(x)"},
    {"Linear", "F.linear(x, w, b)", "keep w and b as inputs"},
    {"LocalResponseNorm", "F.local_response_norm(img, 2)"},
    {"logger logging tqdm wandb warnings", "print(1)"},
    {"LogSigmoid", "F.logsigmoid(x)"},
    {"LogSoftmax", "F.log_softmax(x, dim=-1)"},
    {"LPPool1d", "F.lp_pool1d(seq, 2, 2)"},
    {"LPPool2d", "F.lp_pool2d(img, 2, 2)"},
    {"LPPool3d", "F.lp_pool3d(vol, 2, 2)"},
    {"MarginRankingLoss", "F.margin_ranking_loss(x, y, y.sign())"},
    {"MaxPool1d", "F.max_pool1d(seq, 2)"},
    {"MaxPool2d", "F.max_pool2d(img, 2)"},
    {"MaxPool3d", "F.max_pool3d(vol, 2)"},
    {"Mesh create_device_mesh make_mesh", "mesh.size()", "the dims under [mesh]"},
    {"Mish", "F.mish(x)"},
    {"Module ModuleDict ModuleList Sequential",
     "F.relu(F.linear(x, w))",
     "layers are defs, and their parameters inputs; shardlab record takes modules as they are"},
    {"monitored_barrier", "dist.barrier()"},
    {"MSELoss", "F.mse_loss(x, y)"},
    {"MultiheadAttention",
     "F.scaled_dot_product_attention(q, q, q)", "between your own projections"},
    {"MultiLabelMarginLoss", "F.multilabel_margin_loss(x, labels)"},
    {"MultiLabelSoftMarginLoss", "F.multilabel_soft_margin_loss(x, (y > 0).to(f32))"},
    {"MultiMarginLoss", "F.multi_margin_loss(x, i)"},
    {"NLLLoss", "F.nll_loss(x.log_softmax(-1), i)"},
    {"no_sync set_requires_all_reduce set_requires_gradient_sync",
     "g = g / 2", "sum gradients once, after the last micro-batch"},
    {"np", "torch.arange(4).sum()", "ops are torch's"},
    {"numpy", "x.tolist()", "or go on with ops on tensors"},
    {"OrderedDict SimpleNamespace collections dataclass namedtuple",
     "dict(a=1)", "a dict keeps its order"},
    {"PairwiseDistance", "F.pairwise_distance(x, y)"},
    {"parameters_to_vector", "torch.cat([w.flatten(), b])"},
    {"Path argv environ getenv os pathlib sys",
     "dist.get_rank()", "values from outside are [params], set by --set"},
    {"PipelineStage Schedule1F1B ScheduleDualPipeV ScheduleGPipe ScheduleInterleaved1F1B "
     "ScheduleLoopedBFS ScheduleZBVZeroBubble SplitPoint pipe_split",
     "dist.get_rank()", "dist.send and dist.recv between stages, as in scenarios/models"},
    {"PixelShuffle", "F.pixel_shuffle(torch.randn(1, 4, 2, 2), 2)"},
    {"PixelUnshuffle", "F.pixel_unshuffle(img, 2)"},
    {"pjit pmap", "distribute(x, tp=S(0)) * 2"},
    {"pmax", "z = all_reduce(x, \"max\", \"tp\")"},
    {"pmean", "z = all_reduce(x, \"avg\", \"tp\")"},
    {"pmin", "z = all_reduce(x, \"min\", \"tp\")"},
    {"PoissonNLLLoss", "F.poisson_nll_loss(x, y.exp())"},
    {"PReLU", "F.prelu(x, a)", "keep a as an input"},
    {"PRNGKey fold_in", "torch.manual_seed(7)"},
    {"psum", "z = all_reduce(x, \"sum\", \"tp\")"},
    {"psum_scatter", "z = reduce_scatter(x, \"sum\", 0, \"tp\")"},
    {"random randrange seed shuffle", "torch.randint(0, 4, [2])"},
    {"rearrange", "x.reshape(2, 2, 6).transpose(0, 1)"},
    {"ReflectionPad1d", "F.pad(seq, [1, 1], mode=\"reflect\")"},
    {"ReflectionPad2d", "F.pad(img, [1, 1, 1, 1], mode=\"reflect\")"},
    {"ReflectionPad3d", "F.pad(vol, [1, 1, 1, 1, 1, 1], mode=\"reflect\")"},
    {"register_backward_hook register_forward_hook register_forward_pre_hook "
     "register_post_accumulate_grad_hook", "p.register_hook(lambda g: g * 2)"},
    {"ReLU", "F.relu(x)"},
    {"ReLU6", "F.relu6(x)"},
    {"remote_module rpc", "dist.barrier()", "messages are dist.send and dist.recv"},
    {"ReplicationPad1d", "F.pad(seq, [1, 1], mode=\"replicate\")"},
    {"ReplicationPad2d", "F.pad(img, [1, 1, 1, 1], mode=\"replicate\")"},
    {"ReplicationPad3d", "F.pad(vol, [1, 1, 1, 1, 1, 1], mode=\"replicate\")"},
    {"retain_grad", "torch.autograd.grad((p * 2).sum(), [p])", "gradients of inner values"},
    {"RMSNorm", "F.rms_norm(x, [6])"},
    {"RReLU", "F.rrelu(x)"},
    {"SDPBackend flash_attn_func flex_attention sdpa_kernel",
     "F.scaled_dot_product_attention(q, q, q)"},
    {"SELU", "F.selu(x)"},
    {"recv send", "dist.get_rank()", "messages: dist.send(x, to) and dist.recv(x, source)"},
    {"SGD", "w = (w.detach() - 0.1 * g).requires_grad_()"},
    {"shard_map",
     "distribute(x, tp=S(0)).to_local() * 2", "then from_local(piece, mesh=mesh, tp=S(0))"},
    {"Sigmoid", "F.sigmoid(x)"},
    {"SiLU", "F.silu(x)"},
    {"SmoothL1Loss", "F.smooth_l1_loss(x, y)"},
    {"SoftMarginLoss", "F.soft_margin_loss(x, y.sign())"},
    {"Softmax Softmax2d", "F.softmax(x, dim=-1)"},
    {"Softmin", "F.softmin(x, dim=-1)"},
    {"Softplus", "F.softplus(x)"},
    {"Softshrink", "F.softshrink(x)"},
    {"Softsign", "F.softsign(x)"},
    {"step", "w = (w.detach() - 0.1 * g).requires_grad_()", "a program writes its step"},
    {"Tanh", "F.tanh(x)"},
    {"Tanhshrink", "F.tanhshrink(x)"},
    {"Threshold", "F.threshold(x, 0.1, 0.0)"},
    {"train", "x", "a program has no modes: F.dropout takes training=True or False"},
    {"Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder "
     "TransformerEncoderLayer",
     "F.scaled_dot_product_attention(q, q, q)", "scenarios/models/attention_heads.toml is whole"},
    {"TripletMarginLoss", "F.triplet_margin_loss(x, y, x + y)"},
    {"Unflatten", "x.unflatten(1, [2, 3])"},
    {"Unfold", "F.unfold(img, 2)"},
    {"Upsample UpsamplingNearest2d", "F.interpolate(img, scale_factor=2)"},
    {"UpsamplingBilinear2d", "F.interpolate(img, scale_factor=2, mode=\"bilinear\")"},
    {"vector_to_parameters", "torch.randn(54).split([48, 6])"},
    {"zero_grad", "w = w.detach().requires_grad_()", "which has no gradient yet"},
    {"ZeroPad1d", "F.pad(seq, [1, 1])"},
    {"ZeroPad2d", "F.pad(img, [1, 1, 1, 1])"},
    {"ZeroPad3d", "F.pad(vol, [1, 1, 1, 1, 1, 1])"},
};
// clang-format on

// Whether `name` is one of the words.
bool has_word(std::string_view words, std::string_view name) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == name) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

}  // namespace

std::span<const AbsentNames> absent_names() { return kRows; }

std::string advice_on(std::string_view name) {
  const auto* row = std::ranges::find_if(
      kRows, [&](const AbsentNames& candidate) { return has_word(candidate.names, name); });
  if (name.empty() || row == std::end(kRows)) return "";
  return fmt::format("programs do not have it: write {}{}{}", row->instead,
                     row->note.empty() ? "" : "; ", row->note);
}

}  // namespace shardlab
