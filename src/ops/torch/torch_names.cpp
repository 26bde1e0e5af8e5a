// torch's spellings of rows, in one table: a name of torch either is that of the op, or is listed
// here. The meaning of a call is then the row's business alone, so that rules, gradients and
// messages are the same however a program calls an op.
#include "ops/torch/torch_names.h"

#include <algorithm>
#include <map>

#include "ops/family.h"
#include "ops/torch/functional.h"

namespace shardlab {
namespace {

/// Other words for the same op with the same arguments, sorted. In-place forms follow: multiply_
/// is mul_.
struct Synonym {
  std::string_view torch, aten;
};
constexpr Synonym kSynonyms[] = {
    {"absolute", "abs"},       {"broadcast_to", "expand"},
    {"concat", "cat"},         {"concatenate", "cat"},
    {"divide", "div"},         {"greater", "gt"},
    {"greater_equal", "ge"},   {"less", "lt"},
    {"less_equal", "le"},      {"moveaxis", "movedim"},
    {"multiply", "mul"},       {"negative", "neg"},
    {"not_equal", "ne"},       {"subtract", "sub"},
    {"swapaxes", "transpose"}, {"swapdims", "transpose"},
    {"true_divide", "div"},
};
static_assert(std::ranges::is_sorted(kSynonyms, {}, &Synonym::torch));

/// F.embedding(input, weight, padding_idx, ...): there a negative index counts from the end, in
/// ATen -1 is none.
Arguments embedding(const Arguments& torch) {
  const std::int64_t padding = padding_row("embedding", torch[2], torch[1]);
  return {torch[1], torch[0], padding, torch[5], torch[6]};
}

/// x.to("cuda", copy=True), as to.dtype_layout.
Arguments to_device(const Arguments& torch) {
  const Argument none;
  return {torch[0], none, none, torch[1], none, torch[2], torch[3], none};
}

/// A norm of one value is 0, whatever the value is; torch's functions refuse it, ATen's ops do not.
void require_several(const char* name, const DTensor& input, std::int64_t values) {
  if (values != 1 || input.numel() == 0) return;
  fail(Fix{"give more samples or places, or running statistics and training=False"},
       "{}: an input of shape [{}] has one value for each mean", name,
       text_of_list(input.shape(), ", "));
}

std::int64_t places_of(const DTensor& input) {
  std::int64_t places = 1;
  for (std::size_t d = 2; d < input.ndim(); ++d) places *= input.shape()[d];
  return places;
}

/// F.batch_norm and F.instance_norm: (input, running_mean, running_var, weight, bias, use of the
/// input's own statistics, momentum, eps), where ATen's weight and bias are first.
template <bool over_samples>
Arguments batch_norm(const Arguments& torch) {
  if (torch[0].is_tensor() && torch[5].to_bool() && torch[0].tensor().ndim() > 1) {
    const DTensor& input = torch[0].tensor();
    const std::int64_t samples = over_samples ? input.shape()[0] : 1;
    require_several(over_samples ? "batch_norm" : "instance_norm", input,
                    samples * places_of(input));
  }
  return {torch[0], torch[3], torch[4], torch[1], torch[2], torch[5], torch[6], torch[7], false};
}

/// F.group_norm(input, num_groups, weight, bias, eps)
Arguments group_norm(const Arguments& torch) {
  const std::int64_t groups = torch[1].to_int();
  if (torch[0].is_tensor() && torch[0].tensor().ndim() > 1 && groups > 0) {
    const DTensor& input = torch[0].tensor();
    const std::int64_t shares = input.shape()[0] * input.shape()[1] / groups;
    require_several("group_norm", input, shares * places_of(input));
  }
  return {torch[0], torch[1], torch[2], torch[3], torch[4]};
}

/// F.affine_grid(theta, size, align_corners)
Arguments affine_grid(const Arguments& torch) {
  return {torch[0], torch[1], torch[2].is_none() ? Argument(false) : torch[2]};
}

/// tensordot(a, b, dims): the last dims of a and the first of b, `dims` of each.
Arguments tensordot_of_count(const Arguments& torch) {
  const std::int64_t count = torch[2].to_int();
  Dims last, first;
  for (std::int64_t i = 0; i < count; ++i) {
    last.push_back(i - count);
    first.push_back(i);
  }
  return {torch[0], torch[1], last, first};
}

/// tensordot(a, b, dims): a pair of dims, or of lists of them.
Arguments tensordot_of_dims(const Arguments& torch) {
  const auto dims_of = [](const Argument& given) {
    return given.is_ints() ? given : Argument(Dims{given.to_int()});
  };
  const Argument& dims = torch[2];
  if (dims.is_ints() && dims.ints().size() == 2) {
    return {torch[0], torch[1], Dims{dims.ints()[0]}, Dims{dims.ints()[1]}};
  }
  if (dims.is_list() && dims.list().size() == 2) {
    return {torch[0], torch[1], dims_of(dims.list()[0]), dims_of(dims.list()[1])};
  }
  fail(Fix{"give a number, or the dims of each tensor: dims=([0, 1], [1, 0])"},
       "tensordot: dims is {}; it must be a number, or a list of dims for each tensor",
       dims.text());
}

/// F.grid_sample(input, grid, mode, padding_mode, align_corners): words that ATen numbers.
Arguments grid_sample(const Arguments& torch) {
  const auto number = [](const Argument& word, std::string_view name,
                         std::initializer_list<std::string_view> words) {
    const auto* found = std::ranges::find(words, std::string_view(word.string()));
    if (found != words.end()) return static_cast<std::int64_t>(found - words.begin());
    fail(Fix{fmt::format("use one of {}", text_of_list(words, ", "))},
         "grid_sample: there is no {} '{}'", name, word.string());
  };
  return {torch[0], torch[1], number(torch[2], "mode", {"bilinear", "nearest", "bicubic"}),
          number(torch[3], "padding_mode", {"zeros", "border", "reflection"}),
          torch[4].is_none() ? Argument(false) : torch[4]};
}

/// F.adaptive_avg_pool2d, 3d(input, output_size): None is the input's own size.
template <std::size_t dims>
Arguments adaptive_pool(const Arguments& torch) {
  if (!torch[0].is_tensor()) return torch;
  return {torch[0], pooled_sizes_of(torch[1], torch[0].tensor(), dims)};
}

/// torch.cdist(x1, x2, p, compute_mode): a word that ATen numbers.
Arguments cdist(const Arguments& torch) {
  static constexpr std::string_view kModes[] = {"use_mm_for_euclid_dist_if_necessary",
                                                "use_mm_for_euclid_dist",
                                                "donot_use_mm_for_euclid_dist"};
  const auto* mode = std::ranges::find(kModes, torch[3].string());
  if (mode == std::end(kModes)) {
    fail(Fix{fmt::format("use one of {}", text_of_list(kModes, ", "))},
         "cdist: there is no compute_mode '{}'", torch[3].string());
  }
  return {torch[0], torch[1], torch[2], mode - std::begin(kModes)};
}

/// F.upsample_bilinear(input, size, scale_factor)
Arguments upsample_bilinear(const Arguments& torch) {
  return {torch[0], torch[1], torch[2], "bilinear", true, Argument(), false};
}

// Spellings whose arguments a function makes, sorted by name.
// clang-format off
const TorchSpellingRow kSpellings[] = {
    {"adaptive_avg_pool2d(Tensor input, any output_size)",
     "adaptive_avg_pool2d", "", adaptive_pool<2>},
    {"adaptive_avg_pool3d(Tensor input, any output_size)",
     "adaptive_avg_pool3d", "", adaptive_pool<3>},
    {"affine_grid(Tensor theta, int[] size, bool? align_corners=None)",
     "affine_grid_generator", "", affine_grid},
    {"batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
     "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-05)",
     "batch_norm", "", batch_norm<true>},
    {"cdist(Tensor x1, Tensor x2, float p=2.0, str compute_mode="
     "\"use_mm_for_euclid_dist_if_necessary\")",
     "cdist", "", cdist},
    {"embedding(Tensor input, Tensor weight, int? padding_idx=None, float? max_norm=None, float "
     "norm_type=2.0, bool scale_grad_by_freq=False, bool sparse=False)",
     "embedding", "", embedding},
    {"grid_sample(Tensor input, Tensor grid, str mode=\"bilinear\", str padding_mode=\"zeros\", "
     "bool? align_corners=None)",
     "grid_sampler", "", grid_sample},
    {"group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
     "eps=1e-05)", "group_norm", "", group_norm},
    {"instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? "
     "weight=None, Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float "
     "eps=1e-05)",
     "instance_norm", "", batch_norm<false>},
    {"tensordot(Tensor a, Tensor b, int dims=2)",
     "tensordot", "", tensordot_of_count},
    {"tensordot(Tensor a, Tensor b, any dims)",
     "tensordot", "", tensordot_of_dims},
    {"to(Tensor self, Device device, *, bool non_blocking=False, bool copy=False)",
     "to.dtype_layout", "", to_device},
    {"upsample_bilinear(Tensor input, any? size=None, any? scale_factor=None)",
     "functional::interpolate", "", upsample_bilinear},
};
// clang-format on

// Those whose arguments are named (torch_spellings.txt, which says its form).
constexpr const char* kText =
#include "ops/torch_spellings.inc"
    ;

using SpellingTable = std::map<std::string, std::vector<TorchSpelling>, std::less<>>;

/// A function that torch writes in Python is called by its own signature.
TorchSpelling spelling_of(const FunctionRow& function) {
  TorchSpelling spelling;
  spelling.signature = parse_literal_schema(function.schema.text);
  spelling.name = bare_name(spelling.signature);
  spelling.text = std::string_view(function.schema.text).substr(kFunctionSpace.size());
  for (const SchemaArgument& argument : spelling.signature.arguments) {
    spelling.defaults.push_back(parse_default(argument));
  }
  spelling.row = spelling.signature.name();
  spelling.convert = [](const Arguments& given) { return given; };
  return spelling;
}

const SpellingTable& spellings() {
  static const SpellingTable table = [] {
    SpellingTable by_name;
    for (const FunctionRow& function : functions_of_torch()) {
      TorchSpelling spelling = spelling_of(function);
      by_name[spelling.name].push_back(std::move(spelling));
    }
    const auto add = [&](const TorchSpellingRow& row) {
      TorchSpelling spelling = parse_spelling(row);
      by_name[spelling.name].push_back(std::move(spelling));
    };
    for (const std::string_view row : rows_of_table(kText)) {
      const std::size_t arrow = row.find(" -> ") + 4, open = row.find('(', arrow);
      add({row.substr(0, arrow - 4), row.substr(arrow, open - arrow),
           row.substr(open + 1, row.size() - open - 2)});
    }
    for (const TorchSpellingRow& row : kSpellings) add(row);
    return by_name;
  }();
  return table;
}

std::span<const TorchSpelling> spellings_of(std::string_view name) {
  const auto found = spellings().find(name);
  if (found == spellings().end()) return {};
  return found->second;
}

/// The op's own name for a synonym, else the name itself.
std::string aten_name(std::string_view name) {
  const bool in_place = name.ends_with('_');
  const std::string_view stem = name.substr(0, name.size() - (in_place ? 1 : 0));
  const auto* found = std::ranges::lower_bound(kSynonyms, stem, {}, &Synonym::torch);
  if (found == std::end(kSynonyms) || found->torch != stem) return std::string(name);
  return std::string(found->aten) + (in_place ? "_" : "");
}

}  // namespace

ResolvedCall resolve_torch_call(const OpRegistry& registry, std::string_view name,
                                const GivenArguments& given) {
  // F.silu(x, inplace=True) is silu_(x).
  const auto in_place = std::ranges::find(given.keywords, "inplace", [](const auto& keyword) {
    return std::string_view(keyword.first);
  });
  const std::string aten = aten_name(name);
  if (in_place != given.keywords.end() && in_place->second.is_scalar() &&
      !registry.overloads(aten + "_").empty()) {
    GivenArguments rest = given;
    rest.keywords.erase(rest.keywords.begin() + (in_place - given.keywords.begin()));
    const std::string written = aten + "_";
    return resolve_torch_call(registry, in_place->second.to_bool() ? written : name, rest);
  }
  return resolve_call(registry, aten, given, spellings_of(name));
}

bool is_torch_name(const OpRegistry& registry, std::string_view name) {
  if (!registry.overloads(aten_name(name)).empty()) return true;
  const auto rows = spellings_of(name);
  return std::ranges::any_of(
      rows, [&](const TorchSpelling& row) { return registry.find(row.row) != nullptr; });
}

std::vector<const OpRow*> rows_of_torch_name(const OpRegistry& registry, std::string_view name) {
  for (const std::string_view module : {"torch.nn.functional.", "F.", "torch."}) {
    if (!name.starts_with(module)) continue;
    name.remove_prefix(module.size());
    break;
  }
  std::string called(name);
  for (const std::string_view family : kTorchFamilies) {
    const bool of_family = name.starts_with(family) && name.substr(family.size()).starts_with('.');
    if (of_family) called[family.size()] = '_';
  }
  std::vector<const OpRow*> rows;
  const auto add = [&](const OpRow* row) {
    if (row != nullptr && std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
  };
  for (const TorchSpelling& spelling : spellings_of(called)) add(registry.find(spelling.row));
  for (const OpRow* row : registry.overloads(aten_name(called))) add(row);
  return rows;
}

std::vector<std::string> torch_names(const OpRegistry& registry) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view name) {
    if (is_torch_name(registry, name)) names.emplace_back(name);
  };
  for (const std::string& op : op_names(registry)) add(op);
  for (const Synonym& synonym : kSynonyms) add(synonym.torch);
  for (const auto& [name, rows] : spellings()) add(name);
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace shardlab
