// Row-major strides, views inside of their storage, and memory shared by parts of tensors: against
// a walk over all elements of small shapes.
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "tensor/bounds.h"
#include "tensor/cpu_device.h"
#include "tensor/host.h"

using namespace shardlab;

namespace {

/// Places of the elements of a view, in row-major order of indices.
std::vector<std::int64_t> places_of(const Dims& shape, const Dims& stride, std::int64_t offset) {
  std::vector<std::int64_t> places{offset};
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t place : places) {
      for (std::int64_t i = 0; i < shape[dim]; ++i) longer.push_back(place + i * stride[dim]);
    }
    places = std::move(longer);
  }
  return places;
}

/// Calls visit(shape, stride) for all shapes of up to 3 dims of up to 3 and small strides.
void for_each_layout(const std::vector<std::int64_t>& strides,
                     const std::function<void(const Dims&, const Dims&)>& visit) {
  for (std::size_t ndim = 0; ndim <= 3; ++ndim) {
    const auto all = [&](const std::vector<std::int64_t>& values) {
      std::vector<Dims> lists{Dims{}};
      for (std::size_t dim = 0; dim < ndim; ++dim) {
        std::vector<Dims> longer;
        for (const Dims& list : lists) {
          for (const std::int64_t value : values) {
            longer.push_back(list);
            longer.back().push_back(value);
          }
        }
        lists = std::move(longer);
      }
      return lists;
    };
    for (const Dims& shape : all({0, 1, 2, 3})) {
      for (const Dims& stride : all(strides)) visit(shape, stride);
    }
  }
}

}  // namespace

TEST_CASE("is_contiguous says whether a walk in row-major order meets 0, 1, 2, ...") {
  std::size_t contiguous_ones = 0;
  for_each_layout({0, 1, 2, 3, 6}, [&](const Dims& shape, const Dims& stride) {
    const std::vector<std::int64_t> places = places_of(shape, stride, 0);
    bool in_order = true;
    for (std::size_t i = 0; i < places.size(); ++i) {
      in_order &= places[i] == static_cast<std::int64_t>(i);
    }
    if (in_order) ++contiguous_ones;
    CHECK(is_contiguous(shape, stride) == in_order);
    CHECK(is_contiguous(shape, contiguous_strides(shape)));
  });
  CHECK(contiguous_ones > 100);
}

TEST_CASE("a view is within its storage where a walk stays in it, whatever its strides") {
  const auto device = make_cpu_device({});
  const Tensor storage = empty(*device, Dims{6}, DType::kI16);
  std::size_t inside = 0;
  for_each_layout({-2, 0, 1, 4}, [&](const Dims& shape, const Dims& stride) {
    for (const std::int64_t offset : {0, 2, 5}) {
      const std::vector<std::int64_t> places = places_of(shape, stride, offset);
      const bool fits =
          std::ranges::all_of(places, [](std::int64_t place) { return place >= 0 && place < 6; });
      inside += fits ? 1 : 0;
      bool accepted = true;
      try {
        check_within_storage(storage.as_view({shape, stride, DType::kI16}, offset));
      } catch (const Error& error) {
        accepted = false;
        CHECK(error.kind() == ErrorKind::kInternal);
        CHECK(error.summary().ends_with("of a storage of 6"));
      }
      CHECK(accepted == fits);
    }
  });
  CHECK(inside > 100);
}

TEST_CASE("narrow shows the elements of its range, and writes show on both sides") {
  const auto device = make_cpu_device({});
  const Tensor base = empty(*device, Dims{3, 4}, DType::kI64);
  std::vector<std::int64_t> values(12);
  for (std::size_t i = 0; i < 12; ++i) values[i] = static_cast<std::int64_t>(i);
  for (std::size_t dim = 0; dim < 2; ++dim) {
    for (std::int64_t start = 0; start <= base.size(dim); ++start) {
      for (std::int64_t size = 0; start + size <= base.size(dim); ++size) {
        write_integers(base, values);
        const Tensor part = base.narrow(dim, start, size);
        std::vector<std::int64_t> expected, after = values;
        for (std::int64_t row = 0; row < 3; ++row) {
          for (std::int64_t column = 0; column < 4; ++column) {
            const std::int64_t at = dim == 0 ? row : column;
            if (at < start || at >= start + size) continue;
            expected.push_back(row * 4 + column);
            after[static_cast<std::size_t>(row * 4 + column)] = -1;
          }
        }
        CHECK(read_integers(part) == expected);
        const std::uint64_t before = base.storage()->version();
        write_integers(part, std::vector<std::int64_t>(expected.size(), -1));
        CHECK(read_integers(base) == after);
        CHECK(base.storage()->version() > before);  // views count writes together
      }
    }
  }
}

TEST_CASE("copies and snapshots part with the first write, on whichever side it is") {
  const auto device = make_cpu_device({});
  for (const bool write_original : {true, false}) {
    const Tensor original = empty(*device, Dims{2}, DType::kI32);
    write_integers(original, std::vector<std::int64_t>{1, 2});
    const Tensor snapshot = original.snapshot();
    const Tensor copied(original.storage()->copy(), original.meta());
    const Tensor clone = clone_contiguous(original);
    CHECK(snapshot.data<std::int32_t>() == original.data<std::int32_t>());
    CHECK(clone.data<std::int32_t>() != original.data<std::int32_t>());
    write_integers(write_original ? original : snapshot, std::vector<std::int64_t>{7, 8});
    const std::vector<std::int64_t> old{1, 2}, fresh{7, 8};
    CHECK(read_integers(original) == (write_original ? fresh : old));
    CHECK(read_integers(snapshot) == (write_original ? old : fresh));
    CHECK(read_integers(copied) == old);
    CHECK(read_integers(clone) == old);
  }
}

TEST_CASE("a device counts what it holds, gives back what is freed, and takes large blocks again") {
  const auto device = make_cpu_device({});
  CHECK(device->memory().held_bytes == 0);
  std::int64_t most = 0, held = 0;
  std::vector<Tensor> kept;
  for (const std::int64_t elements : {10, 100000, 7, 50000, 200000}) {
    kept.push_back(empty(*device, Dims{elements}, DType::kF32));
    held += 4 * elements;
    most = std::max(most, held);
    CHECK(device->memory().held_bytes == held);
    if (kept.size() % 2 == 0) {
      held -= kept.front().size_bytes();
      kept.erase(kept.begin());
      CHECK(device->memory().held_bytes == held);
    }
    CHECK(device->memory().peak_bytes == most);
  }
  kept.clear();
  CHECK(device->memory().held_bytes == 0);
  const Tensor again = empty(*device, Dims{200000}, DType::kF32);
  write_doubles(again, std::vector<double>(200000, 3));
  CHECK(device->memory().held_bytes == 800000);
  CHECK(device->memory().peak_bytes == most);
}
