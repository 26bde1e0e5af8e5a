// Fourier transforms of short times: a signal in frames that overlap, each transformed by itself,
// and back.
#include <algorithm>

#include "ops/family.h"
#include "tensor/device.h"

namespace shardlab {
namespace {

/// Places [from, to) of the last dim.
DTensor places(Calls& calls, const DTensor& x, std::int64_t from, std::int64_t to) {
  return calls.one("aten::slice.Tensor", {x, -1, from, to});
}

DTensor joined_parts(Calls& calls, ArgumentList parts, std::int64_t dim) {
  return calls.one("aten::cat", {std::move(parts), dim});
}

/// More places on both sides of the last dim: zeros, or copies of those near the ends.
DTensor with_ends(Calls& calls, const DTensor& x, std::int64_t count, const std::string& mode) {
  if (count == 0 || x.ndim() == 0) return x;  // the latter is refused with its shape
  const std::int64_t size = x.shape().back();
  if (mode == "constant") return calls.one("aten::constant_pad_nd", {x, Dims{count, count}});
  const auto part = [&](std::int64_t from, std::int64_t to) { return places(calls, x, from, to); };
  const bool fits = mode == "circular" ? count <= size : count < size;
  if (mode == "replicate") {
    Dims sizes = x.shape();
    sizes.back() = count;
    return joined_parts(calls,
                        {calls.one("aten::expand", {part(0, 1), sizes}), x,
                         calls.one("aten::expand", {part(size - 1, size), sizes})},
                        -1);
  }
  if (!fits || (mode != "reflect" && mode != "circular")) {
    fail(Fix{"use pad_mode='constant', or a longer signal"},
         "pad_mode '{}' cannot lengthen {} places by {} on each side", mode, size, count);
  }
  if (mode == "circular") {
    return joined_parts(calls, {part(size - count, size), x, part(0, count)}, -1);
  }
  const auto flipped = [&](std::int64_t from, std::int64_t to) {
    return calls.one("aten::flip", {part(from, to), Dims{-1}});
  };
  return joined_parts(calls, {flipped(1, count + 1), x, flipped(size - 1 - count, size - 1)}, -1);
}

/// Frames of `length` places, `hop` apart; a window may be shorter and is in their middle.
struct Frames {
  std::int64_t length, hop, window_length;
  Argument window;
};

Frames frames_of(const Argument& length, const Argument& hop, const Argument& window_length,
                 const Argument& window) {
  const std::int64_t size = length.to_int();
  const Frames frames{size, int_or(hop, size / 4), int_or(window_length, size), window};
  if (window.is_tensor() && window.tensor().shape() != Dims{frames.window_length}) {
    fail(Fix{fmt::format("give a window [{}]", frames.window_length)},
         "a window has shape [{}]; it must be [{}], win_length",
         text_of_list(window.tensor().shape(), ", "), frames.window_length);
  }
  const bool fits =
      size > 0 && frames.hop > 0 && frames.window_length > 0 && frames.window_length <= size;
  if (fits) return frames;
  fail(Fix{"give n_fft and hop_length above 0, and a window of win_length <= n_fft places"},
       "n_fft is {}, hop_length {} and win_length {}; they must be above 0, win_length at most "
       "n_fft",
       size, frames.hop, frames.window_length);
}

/// The window as long as a frame; None where it is 1 everywhere.
Argument whole_window(Calls& calls, const Frames& frames, const DTensor& like) {
  const std::int64_t missing = frames.length - frames.window_length;
  if (missing == 0) return frames.window;
  const Argument window =
      frames.window.is_tensor()
          ? frames.window
          : Argument(calls.one("aten::new_ones",
                               {like, Dims{frames.window_length}, real_dtype(like.dtype())}));
  return calls.one("aten::constant_pad_nd", {window, Dims{missing / 2, missing - missing / 2}});
}

/// Signals [batch, time] as spectra [batch, frequency, frame]; one signal needs no batch.
Results transformed_frames(Calls& calls, DTensor x, const Frames& frames, bool normalized,
                           const Argument& onesided, const Argument& return_complex) {
  const bool single = x.ndim() == 1;
  const bool from_complex = is_complex(x.dtype()) || (frames.window.is_tensor() &&
                                                      is_complex(frames.window.tensor().dtype()));
  if (return_complex.is_none() && !from_complex) {
    fail(Fix{"write return_complex=True"}, "stft: return_complex has to be given for real inputs");
  }
  if (single) x = calls.one("aten::unsqueeze", {x, 0});
  const std::int64_t length = x.ndim() == 0 ? 0 : x.shape().back();
  if (x.ndim() != 2 || length < frames.length) {
    fail(
        Fix{"give [time] or [batch, time], at least n_fft long"},
        "stft: the signal has shape [{}]; it must be [time] or [batch, time] of at least {} places",
        text_of_list(x.shape(), ", "), frames.length);
  }
  ArgumentList pieces;
  for (std::int64_t from = 0; from + frames.length <= length; from += frames.hop) {
    pieces.emplace_back(places(calls, x, from, from + frames.length));
  }
  DTensor framed = calls.one("aten::stack", {pieces, 1});
  const Argument window = whole_window(calls, frames, x);
  if (window.is_tensor()) framed = calls.one("aten::mul.Tensor", {framed, window});
  const bool half = onesided.is_none() ? !from_complex : onesided.to_bool();
  if (half && from_complex) {
    fail(Fix{"leave onesided out, or write onesided=False"},
         "stft: the spectrum of complex signals has no half that says all");
  }
  const Dims last{2};
  const std::int64_t scale = normalized ? 1 : 0;
  framed = from_complex ? calls.one("aten::_fft_c2c", {framed, last, scale, true})
                        : calls.one("aten::_fft_r2c", {framed, last, scale, half});
  DTensor result = calls.one("aten::transpose.int", {framed, 1, 2});
  if (single) result = calls.one("aten::squeeze.dim", {result, 0});
  const bool as_pairs = !return_complex.is_none() && !return_complex.to_bool();
  return {Argument(as_pairs ? calls.one("aten::view_as_real", {result}) : result)};
}

/// stft(self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex, _)
Results stft(Calls& calls, const Arguments& args) {
  return transformed_frames(calls, args[0].tensor(), frames_of(args[1], args[2], args[3], args[4]),
                            args[5].to_bool(), args[6], args[7]);
}

/// stft.center(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided,
/// return_complex, _): frames are centered at their places.
Results centered_stft(Calls& calls, const Arguments& args) {
  const Frames frames = frames_of(args[1], args[2], args[3], args[4]);
  const DTensor& given = args[0].tensor();
  const DTensor x =
      args[5].to_bool() ? with_ends(calls, given, frames.length / 2, args[6].string()) : given;
  return transformed_frames(calls, x, frames, args[7].to_bool(), args[8], args[9]);
}

/// Frames [batch, frame, place] added up where they overlap.
DTensor overlapped(Calls& calls, const DTensor& framed, std::int64_t hop) {
  const std::int64_t count = framed.shape()[1], length = framed.shape()[2];
  const std::int64_t whole = (count - 1) * hop + length;
  DTensor sum;
  for (std::int64_t i = 0; i < count; ++i) {
    const DTensor one = calls.one("aten::select.int", {framed, 1, i});
    const DTensor placed =
        calls.one("aten::constant_pad_nd", {one, Dims{i * hop, whole - length - i * hop}});
    sum = sum.defined() ? calls.one("aten::add.Tensor", {sum, placed}) : placed;
  }
  return sum;
}

void check_inverse(const Frames& frames, bool half, bool return_complex) {
  if (frames.hop > frames.window_length) {
    fail(Fix{fmt::format("give a hop_length from 1 to {}", frames.window_length)},
         "istft: windows have {} places and are {} apart; they must not leave places between them",
         frames.window_length, frames.hop);
  }
  if (half && return_complex) {
    fail(Fix{"give all frequencies and onesided=False, or no return_complex"},
         "istft: one half of a spectrum is that of a real signal");
  }
  if (!return_complex && frames.window.is_tensor() && is_complex(frames.window.tensor().dtype())) {
    fail(Fix{"write return_complex=True"}, "istft: a complex window gives a complex signal");
  }
}

/// No place is divided by 0, as far as values are known: they are not where shapes alone are
/// computed, and outside of the mesh.
void require_weight(Calls& calls, const Expression& weight) {
  const Tensor& local = weight.value().local();
  if (weight.value().numel() == 0 || (local.defined() && local.device()->shape_only())) return;
  const Expression none = weight.of("aten::abs").of("aten::min").lt(1e-11);
  const Results read = calls("aten::_local_scalar_dense", {none});
  if (!read[0].is_scalar() || !read[0].to_bool()) return;
  fail(ErrorKind::kRuntime, Fix{"give a window, and a hop_length, that leave no place without one"},
       "istft: squares of the windows add up to 0 at a place");
}

/// istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length,
/// return_complex): frames return to their places, divided by the sum of the windows.
Results istft(Calls& calls, const Arguments& args) {
  const Frames frames = frames_of(args[1], args[2], args[3], args[4]);
  DTensor x = args[0].tensor();
  const bool single = x.ndim() == 2;
  if (single) x = calls.one("aten::unsqueeze", {x, 0});
  const bool half =
      args[7].is_none() ? x.ndim() == 3 && x.shape()[1] != frames.length : args[7].to_bool();
  const std::int64_t frequencies = half ? frames.length / 2 + 1 : frames.length;
  if (x.ndim() != 3 || !is_complex(x.dtype()) || x.shape()[1] != frequencies || x.shape()[2] == 0) {
    fail(Fix{"give what stft gave with the same n_fft"},
         "istft: a spectrum [{}] is not [batch, {}, frames] of complex numbers",
         text_of_list(args[0].tensor().shape(), ", "), frequencies);
  }
  check_inverse(frames, half, args[9].to_bool());
  x = calls.one("aten::transpose.int", {x, 1, 2});
  const Dims last{2};
  const std::int64_t scale = args[6].to_bool() ? 1 : 2;
  if (args[9].to_bool()) {
    x = calls.one("aten::_fft_c2c", {x, last, scale, false});
  } else {
    if (!half) x = places(calls, x, 0, frames.length / 2 + 1);
    x = calls.one("aten::_fft_c2r", {x, last, scale, frames.length});
  }
  Argument window = whole_window(calls, frames, x);
  if (!window.is_tensor()) {
    window = calls.one("aten::new_ones", {x, Dims{frames.length}, real_dtype(x.dtype())});
  }
  const DTensor once = calls.one("aten::pow.Tensor_Scalar", {window, 2});
  const DTensor square = calls.one("aten::expand", {once, Dims{1, x.shape()[1], frames.length}});
  const std::int64_t from = args[5].to_bool() ? frames.length / 2 : 0;
  const std::int64_t whole = (x.shape()[1] - 1) * frames.hop + frames.length;
  const std::int64_t to = args[8].is_none() ? whole - from : from + args[8].to_int();
  const auto kept = [&](const DTensor& framed) {
    return places(calls, overlapped(calls, framed, frames.hop), from, std::min(to, whole));
  };
  const DTensor sum = kept(calls.one("aten::mul.Tensor", {x, window}));
  const DTensor weight = kept(square);
  require_weight(calls, Expression(calls, weight));
  DTensor y = calls.one("aten::div.Tensor", {sum, weight});
  if (to > whole) y = calls.one("aten::constant_pad_nd", {y, Dims{0, to - whole}});
  return {Argument(single ? calls.one("aten::squeeze.dim", {y, 0}) : y)};
}

// Sorted by name.
// clang-format off
constexpr Row kShortTimeRows[] = {
    composite("istft"_op, istft, "_fft_c2r or _fft_c2c of each frame", kDataDependent),
    composite("stft"_op, stft, "_fft_r2c or _fft_c2c of each frame"),
    composite("stft.center"_op, centered_stft, "_fft_r2c or _fft_c2c of each frame"),
};
// clang-format on

}  // namespace

void register_short_time(OpRegistry& registry) { add_rows(registry, kShortTimeRows); }

}  // namespace shardlab
