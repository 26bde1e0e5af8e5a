#include "tensor/bounds.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "tests/unit/kernels/fixtures.h"

namespace shardlab {
namespace {

template <typename Call>
bool is_internal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::kInternal;
  }
  return false;
}

struct View {
  Dims shape, stride;
  std::int64_t offset;
  Tensor of(const Tensor& base) const {
    return base.as_view({shape, stride, base.dtype()}, offset);
  }
};

const View kOutside[] = {
    {{13}, {1}, 0},       // one too many
    {{3, 4}, {4, 1}, 1},  // the last one
    {{2, 2, 4}, {8, 4, 1}, 0},
    {{3}, {-1}, 1},  // before the first
    {{1}, {1}, 12},
    {{1}, {1}, -1},
};
const View kInside[] = {
    {{12}, {1}, 0},       {{4, 3}, {1, 4}, 0},  {{3}, {-1}, 2},
    {{5, 7}, {0, 0}, 11}, {{0, 9}, {9, 1}, 40},  // nothing to reach
};

TEST_CASE("a view that reaches out of its storage is never read or written") {
  test::Kernels kernels;
  const Tensor base = kernels.f32({3, 4}, std::vector<float>(12, 1));
  for (const View& view : kOutside) {
    const Tensor wrong = view.of(base);
    const Tensor fitting = kernels.f32(view.shape, std::vector<float>(24, 2));
    std::vector<float> values(24);
    INFO(view.shape.size(), " dims from ", view.offset);
    CHECK(is_internal([&] { check_within_storage(wrong); }));
    CHECK(is_internal([&] { kernels.device().read(wrong, values.data()); }));
    CHECK(is_internal([&] { kernels.device().write(wrong, values.data()); }));
    CHECK(is_internal([&] { kernels.device().copy(wrong, fitting); }));
    CHECK(is_internal([&] { kernels.device().copy(fitting, wrong); }));
    CHECK(is_internal([&] { kernels.run(KernelId::kNeg, {wrong}, {fitting}); }));
    CHECK(is_internal([&] { kernels.run(KernelId::kNeg, {fitting}, {wrong}); }));
  }
  for (const View& view : kInside) CHECK_NOTHROW(check_within_storage(view.of(base)));
}

TEST_CASE("a reshape writes as many elements as its output has") {
  test::Kernels kernels;
  const Tensor self = kernels.f32({3, 4}, std::vector<float>(12, 1));
  for (const Dims& shape : {Dims{2, 5}, Dims{0}, Dims{4, 4}}) {
    const Tensor out = kernels.f32(shape, std::vector<float>(16, 0));
    CHECK(is_internal([&] { kernels.run(KernelId::kReshapeCopy, {self, shape}, {out}); }));
  }
}

}  // namespace
}  // namespace shardlab
