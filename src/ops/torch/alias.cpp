// Other names of ops: only the schema differs, so that rule, kernel and gradient are those of the
// op that is meant. Names of all overloads of another op, and single ones, as "name=meant".
#include <algorithm>
#include <string>
#include <string_view>

#include "ops/register.h"
#include "schema/aten_schemas.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// Every overload of the first is the overload of the second with the same arguments; in place and
/// with out=, too.
constexpr std::string_view kNames =
    "absolute=abs arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan=atan "
    "arctan2=atan2 arctanh=atanh divide=div fix=trunc greater=gt greater_equal=ge less=lt "
    "less_equal=le multiply=mul negative=neg not_equal=ne special_digamma=digamma "
    "special_erf=erf special_erfc=erfc special_erfinv=erfinv special_exp2=exp2 "
    "special_expit=sigmoid special_expm1=expm1 special_gammainc=igamma "
    "special_gammaincc=igammac special_gammaln=lgamma special_i0=i0 special_log1p=log1p "
    "special_logit=logit special_logsumexp=logsumexp special_multigammaln=mvlgamma "
    "special_polygamma=polygamma special_psi=digamma special_sinc=sinc subtract=sub";

/// The same, but the reference lets no pending reduction pass.
constexpr std::string_view kBareNames = "clip=clamp true_divide=div";

/// Single overloads, whose operands are in the same order. In none a pending reduction passes.
constexpr std::string_view kBareOverloads =
    "__ilshift__.Scalar=bitwise_left_shift_.Tensor_Scalar "
    "__ilshift__.Tensor=bitwise_left_shift_.Tensor "
    "__irshift__.Scalar=bitwise_right_shift_.Tensor_Scalar "
    "__irshift__.Tensor=bitwise_right_shift_.Tensor __ixor__.Scalar=bitwise_xor_.Scalar "
    "__ixor__.Tensor=bitwise_xor_.Tensor __lshift__.Scalar=bitwise_left_shift.Tensor_Scalar "
    "__lshift__.Scalar_out=bitwise_left_shift.Tensor_Scalar_out "
    "__lshift__.Tensor=bitwise_left_shift.Tensor "
    "__lshift__.Tensor_out=bitwise_left_shift.Tensor_out "
    "__rshift__.Scalar=bitwise_right_shift.Tensor_Scalar "
    "__rshift__.Scalar_out=bitwise_right_shift.Tensor_Scalar_out "
    "__rshift__.Tensor=bitwise_right_shift.Tensor "
    "__rshift__.Tensor_out=bitwise_right_shift.Tensor_out __xor__.Scalar=bitwise_xor.Scalar "
    "__xor__.Tensor=bitwise_xor.Tensor _conj=conj_physical _conj_physical=conj_physical "
    "max.other=maximum max.out=maximum.out min.other=minimum min.out=minimum.out "
    "prims::abs=abs prims::bessel_i0e=special_i0e prims::bessel_i1=special_i1 "
    "prims::bessel_i1e=special_i1e prims::bessel_j0=special_bessel_j0 "
    "prims::bessel_j1=special_bessel_j1 prims::bitwise_not=bitwise_not "
    "prims::conj_physical=conj_physical prims::digamma=digamma prims::erfcx=special_erfcx "
    "prims::exp2=exp2 prims::frexp=frexp.Tensor prims::gcd=gcd prims::hypot=hypot "
    "prims::igamma=igamma prims::igammac=igammac prims::log2=log2 prims::maximum=maximum "
    "prims::minimum=minimum prims::ndtri=special_ndtri prims::ne=ne.Tensor "
    "prims::nextafter=nextafter prims::reciprocal=reciprocal prims::rsqrt=rsqrt "
    "prims::sign=sign prims::signbit=signbit "
    "prims::spherical_bessel_j0=special_spherical_bessel_j0 prims::trunc=trunc "
    "prims::zeta=special_zeta";

/// The same with the rule of the op that is meant.
constexpr std::string_view kOverloads =
    "__and__.Scalar=bitwise_and.Scalar __and__.Tensor=bitwise_and.Tensor "
    "__iand__.Scalar=bitwise_and_.Scalar __iand__.Tensor=bitwise_and_.Tensor "
    "__ior__.Scalar=bitwise_or_.Scalar __ior__.Tensor=bitwise_or_.Tensor "
    "__or__.Scalar=bitwise_or.Scalar __or__.Tensor=bitwise_or.Tensor _cdist_forward=cdist "
    "_efficientzerotensor=zeros _pdist_forward=pdist lift_fresh=alias prims::copy_to=copy_ "
    "prims::fmax=fmax prims::fmin=fmin special_log_softmax=log_softmax.int "
    "special_round=round.decimals special_softmax=softmax.int special_xlogy=xlogy.Tensor "
    "special_xlogy.other_scalar=xlogy.Scalar_Other "
    "special_xlogy.self_scalar=xlogy.Scalar_Self";

/// Calls visit(name, meant) for each of "name=meant other=meant".
void for_each_name(std::string_view names, const auto& visit) {
  while (!names.empty()) {
    const std::string_view one = names.substr(0, names.find(' '));
    visit(one.substr(0, one.find('=')), one.substr(one.find('=') + 1));
    names.remove_prefix(std::min(one.size() + 1, names.size()));
  }
}

enum class Rule : std::uint8_t { kSame, kBare };

bool called_alike(const OpDescriptor& a, const OpDescriptor& b) {
  bool same = a.arguments.size() == b.arguments.size();
  for (std::size_t i = 0; same && i < a.arguments.size(); ++i) {
    same = a.arguments[i].name == b.arguments[i].name;
  }
  return same;
}

void add_alias(OpRegistry& registry, std::string_view schema, std::string_view meant, Rule rule) {
  const OpRow& same = registry.at(meant);
  OpRow row;
  static_cast<OpColumns&>(row) = same;
  row.base = same.base;
  row.op = parse_literal_schema(schema);
  // A gradient lists the values that it keeps by the names of the arguments.
  if (!called_alike(row.op, same.op)) row.gradient.reads = nullptr;
  row.info = {};
  row.why = registry.keep("another name of " + std::string(meant));
  if (rule == Rule::kBare) row.rule = PointwiseRule{};
  registry.add(std::move(row));
}

/// "aten::arccos_(..": "acos_"; the base name ends at the underscore of writing in place, at the
/// overload or at the arguments.
void add_names(OpRegistry& registry, std::string_view name, std::string_view meant, Rule rule) {
  for (const std::string_view schema : aten_schemas_of("aten::" + std::string(name))) {
    const std::size_t start = std::string_view("aten::").size();
    const std::string_view full = schema.substr(start, schema.find('(') - start);
    const std::string_view rest = full.substr(name.size());
    const bool overload = rest.empty() || rest[0] == '.' || rest == "_" || rest.starts_with("_.");
    const std::string target = std::string(meant) + std::string(rest);
    if (overload && registry.find(target) != nullptr) add_alias(registry, schema, target, rule);
  }
}

}  // namespace

void register_alias(OpRegistry& registry) {
  using Name = std::string_view;
  for_each_name(kNames, [&](Name a, Name b) { add_names(registry, a, b, Rule::kSame); });
  for_each_name(kBareNames, [&](Name a, Name b) { add_names(registry, a, b, Rule::kBare); });
  for_each_name(kBareOverloads,
                [&](Name a, Name b) { add_alias(registry, aten_schema(a), b, Rule::kBare); });
  for_each_name(kOverloads,
                [&](Name a, Name b) { add_alias(registry, aten_schema(a), b, Rule::kSame); });
}

}  // namespace shardlab
