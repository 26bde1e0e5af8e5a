// Householder's reflections in packed form: vectors below the diagonal, 1 on it, and a factor for
// each. Their product H_1 .. H_k, H_i = I - tau_i v_i v_i^H, is I - V T V^H, where T solves (I + D
// S) T = D for D = diag(tau) and S = V^H V above its diagonal: so gradients need no loop, and hold
// for factors with which no H_i is a reflection.
#include "ops/core/expression.h"
#include "ops/linalg/matrices.h"

namespace shardlab::linalg {

DTensor with_columns(Calls& calls, const DTensor& x, std::int64_t columns) {
  const Dims missing{0, columns - x.shape().back()};
  return calls.one("aten::constant_pad_nd", {x, missing});
}

std::vector<DTensor> packed_gradients(Calls& calls, const DTensor& packed, const DTensor& tau,
                                      const DTensor& g) {
  const std::int64_t count = tau.shape().back();
  const auto times = [&](const DTensor& a, const DTensor& b) { return product(calls, a, b); };
  const auto plain = [&](const DTensor& x) { return Expression(calls, x); };
  const DTensor below = lower(calls, calls.one("aten::slice.Tensor", {packed, -1, 0, count}), -1);
  const DTensor one = on_diagonal(calls, calls.one("aten::ones_like", {tau}));
  const Dims missing{0, 0, 0, packed.shape()[packed.ndim() - 2] - count};
  const DTensor v = plain(below).plus(plain(calls.one("aten::constant_pad_nd", {one, missing})));
  const DTensor vh = adjoint(calls, v), d = on_diagonal(calls, tau);
  const DTensor s = upper(calls, times(vh, v), 1);
  const DTensor mixed = plain(one).plus(plain(times(d, s)));
  const DTensor t = calls.one("aten::linalg_solve_triangular", {mixed, d, true, true, true});
  const DTensor th = adjoint(calls, t), of_t = -plain(times(vh, times(g, v)));
  const DTensor of_s = upper(calls, -plain(times(th, times(of_t, th))), 1);
  const DTensor rest = plain(one).minus(plain(times(s, t)));
  const DTensor turned = times(of_t, adjoint(calls, rest));
  const DTensor of_d = calls.one("aten::linalg_solve_triangular",
                                 {adjoint(calls, mixed), turned, false, true, true});
  const DTensor both = plain(of_s).plus(plain(adjoint(calls, of_s)));
  const DTensor gh = adjoint(calls, g);
  const Expression of_v = plain(times(v, both))
                              .minus(plain(times(g, times(v, th))))
                              .minus(plain(times(gh, times(v, t))));
  return {with_columns(calls, lower(calls, of_v, -1), packed.shape().back()),
          diagonal(calls, of_d)};
}

}  // namespace shardlab::linalg
