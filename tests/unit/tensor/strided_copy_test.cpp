// Copies between strided arrays against a loop over all indices. Targets are longer than the
// written part, and bytes between the elements must not change.
#include "tensor/strided_copy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "base/error.h"
#include "base/inline_vector.h"

using namespace shardlab;

namespace {

using ByteArray = std::vector<unsigned char>;

/// Strides for dims in the order of `order`, outermost first, each `gap` times as far apart as it
/// needs; and the number of elements in that span.
struct Layout {
  Dims stride;
  std::int64_t span = 1;
};

Layout laid_out(const Dims& shape, const std::vector<std::size_t>& order, std::int64_t gap) {
  Layout layout{Dims(shape.size()), gap};
  std::int64_t step = gap;
  for (std::size_t i = order.size(); i-- > 0;) {
    layout.stride[order[i]] = step;
    layout.span += std::max<std::int64_t>(shape[order[i]] - 1, 0) * step;
    step *= std::max<std::int64_t>(shape[order[i]], 1);
  }
  return layout;
}

ByteArray numbered(std::int64_t elements, std::int64_t element_bytes, unsigned char from) {
  ByteArray bytes(static_cast<std::size_t>(elements * element_bytes));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(from + 7 * i + i / 251);
  }
  return bytes;
}

/// One element after another, by its index.
void copied_by_loop(ByteArray& to, const Dims& to_stride, const ByteArray& from,
                    const Dims& from_stride, const Dims& shape, std::int64_t element_bytes) {
  if (product(shape) == 0) return;
  Dims index(shape.size(), 0);
  for (bool more = true; more;) {
    std::int64_t target = 0, source = 0;
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      target += index[dim] * to_stride[dim];
      source += index[dim] * from_stride[dim];
    }
    for (std::int64_t byte = 0; byte < element_bytes; ++byte) {
      to[static_cast<std::size_t>(target * element_bytes + byte)] =
          from[static_cast<std::size_t>(source * element_bytes + byte)];
    }
    more = false;
    for (std::size_t dim = shape.size(); dim-- > 0 && !more;) {
      more = ++index[dim] < shape[dim];
      if (!more) index[dim] = 0;
    }
  }
}

void check_copy(const Dims& shape, const Layout& to, const Layout& from, std::int64_t element_bytes,
                std::size_t begin = 0) {
  const ByteArray source = numbered(from.span, element_bytes, 3);
  ByteArray target = numbered(to.span, element_bytes, 101);
  ByteArray expected = target;
  copied_by_loop(expected, to.stride, source, from.stride, shape, element_bytes);
  ByteArray read(begin, 0), written(begin, 0);
  read.insert(read.end(), source.begin(), source.end());
  written.insert(written.end(), target.begin(), target.end());
  strided_copy({written.data() + begin, to.stride}, {read.data() + begin, from.stride}, shape,
               element_bytes);
  written.erase(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(begin));
  CHECK(written == expected);
}

}  // namespace

TEST_CASE("strided_copy gives what a loop gives, for every order of dims on both sides") {
  const Dims shapes[] = {{2, 3, 4}, {5, 1, 3}, {3, 0, 2}, {1, 1, 1}, {4, 33, 2}, {2, 2, 40}};
  for (const Dims& shape : shapes) {
    std::vector<std::size_t> to_order{0, 1, 2};
    do {
      std::vector<std::size_t> from_order{0, 1, 2};
      do {
        for (const std::int64_t gap : {1, 2}) {
          CAPTURE(product(shape));
          CAPTURE(gap);
          check_copy(shape, laid_out(shape, to_order, gap), laid_out(shape, from_order, 3 - gap),
                     4);
          check_copy(shape, laid_out(shape, to_order, gap), laid_out(shape, from_order, gap), 2);
        }
      } while (std::next_permutation(from_order.begin(), from_order.end()));
    } while (std::next_permutation(to_order.begin(), to_order.end()));
  }
}

TEST_CASE("strided_copy moves elements of 1, 2, 4, 8 and 16 bytes, transposed ones in tiles") {
  for (const std::int64_t bytes : {1, 2, 4, 8, 16}) {
    CAPTURE(bytes);
    // 31, 32, 33 and 65 are on both sides of a tile's edge.
    for (const std::int64_t rows : {1, 31, 32, 33, 65}) {
      for (const std::int64_t columns : {1, 32, 35}) {
        const Dims shape{rows, columns};
        CAPTURE(rows);
        CAPTURE(columns);
        check_copy(shape, laid_out(shape, {0, 1}, 1), laid_out(shape, {1, 0}, 1), bytes);
        check_copy(shape, laid_out(shape, {0, 1}, 2), laid_out(shape, {1, 0}, 1), bytes);
        check_copy(shape, laid_out(shape, {0, 1}, 1), laid_out(shape, {0, 1}, 1), bytes);
      }
    }
  }
}

TEST_CASE("strided_copy takes elements that begin anywhere, as those of a file do") {
  for (const std::int64_t bytes : {2, 4, 8, 16}) {
    for (const Dims& shape : {Dims{1, 1}, Dims{3, 5}, Dims{40, 70}}) {
      check_copy(shape, laid_out(shape, {0, 1}, 1), laid_out(shape, {1, 0}, 1), bytes, 1);
      check_copy(shape, laid_out(shape, {0, 1}, 2), laid_out(shape, {0, 1}, 1), bytes, 1);
    }
  }
}

TEST_CASE("strided_copy turns whole tiles and what is left beside and below them") {
  for (const std::int64_t bytes : {1, 2, 4, 8, 16}) {
    CAPTURE(bytes);
    for (const Dims& shape : {Dims{64, 128}, Dims{67, 131}, Dims{129, 63}, Dims{40, 260}}) {
      check_copy(shape, laid_out(shape, {0, 1}, 1), laid_out(shape, {1, 0}, 1), bytes);
      check_copy(shape, laid_out(shape, {0, 1}, 2), laid_out(shape, {1, 0}, 1), bytes);
    }
  }
}

TEST_CASE("strided_copy turns matrices of more than 8 MiB, wherever a cache line begins in a row") {
  // Rows of whole cache lines, and others.
  for (const std::int64_t columns : {2080, 2081}) {
    const Dims shape{1111, columns};
    const Layout from = laid_out(shape, {1, 0}, 1), to = laid_out(shape, {0, 1}, 1);
    const ByteArray source = numbered(from.span, 4, 3);
    for (const std::size_t shift : {0, 4, 60}) {
      CAPTURE(columns);
      CAPTURE(shift);
      ByteArray shifted = numbered(to.span + 16, 4, 101), expected = shifted;
      strided_copy({shifted.data() + shift, to.stride}, {source.data(), from.stride}, shape, 4);
      for (std::int64_t row = 0; row < shape[0]; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          std::memcpy(expected.data() + shift + 4 * (row * columns + column),
                      source.data() + 4 * (column * shape[0] + row), 4);
        }
      }
      CHECK(shifted == expected);
    }
  }
}

TEST_CASE("strided_copy reads a source of stride 0 again for every index of the dim") {
  const Dims shape{3, 4, 5};
  const Dims expanded[] = {{0, 5, 1}, {5, 0, 1}, {4, 1, 0}, {0, 0, 1}, {0, 0, 0}};
  for (const Dims& stride : expanded) {
    check_copy(shape, laid_out(shape, {2, 0, 1}, 1), {stride, 20}, 8);
    check_copy(shape, laid_out(shape, {0, 1, 2}, 1), {stride, 20}, 1);
  }
}

TEST_CASE("strided_copy gives what a loop gives on 300 drawn layouts of up to 5 dims") {
  std::mt19937 random(20261123);
  const auto draw = [&random](std::int64_t most) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(most + 1));
  };
  for (int number = 0; number < 300; ++number) {
    Dims shape;
    for (std::int64_t dims = draw(5); dims > 0; --dims)
      shape.push_back(draw(number % 9 == 0 ? 5 : 4) + 1);
    if (number % 11 == 0 && !shape.empty()) shape[0] = 0;
    std::vector<std::size_t> orders[2];
    for (auto& order : orders) {
      order.resize(shape.size());
      std::iota(order.begin(), order.end(), std::size_t{0});
      for (std::size_t i = order.size(); i > 1; --i) {
        std::swap(order[i - 1],
                  order[static_cast<std::size_t>(draw(static_cast<std::int64_t>(i) - 1))]);
      }
    }
    const std::int64_t bytes = std::int64_t{1} << draw(4);
    CAPTURE(number);
    check_copy(shape, laid_out(shape, orders[0], 1 + draw(1)),
               laid_out(shape, orders[1], 1 + draw(2)), bytes);
  }
}

TEST_CASE("strided_copy of a number without dims copies it, and of no elements touches nothing") {
  std::int32_t target = 1;
  const std::int32_t source = 2;
  strided_copy({&target, {}}, {&source, {}}, {}, 4);
  CHECK(target == 2);
  const Dims shape{2, 0}, stride{1, 1};
  strided_copy({nullptr, stride}, {nullptr, stride}, shape, 4);
  try {
    strided_copy({&target, {}}, {&source, {}}, {}, 3);
    FAIL("3 bytes were copied");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::kInternal);
    CHECK(error.summary() == "invariant violated: elements have 1, 2, 4, 8 or 16 bytes");
  }
}

TEST_CASE("sort_dims is stable") {
  struct Entry {
    int key, was;
  };
  std::vector<Entry> entries{{2, 0}, {1, 1}, {2, 2}, {1, 3}, {0, 4}, {2, 5}};
  sort_dims(entries, [](const Entry& a, const Entry& b) { return a.key > b.key; });
  const int expected[] = {0, 2, 5, 1, 3, 4};
  for (std::size_t i = 0; i < 6; ++i) CHECK(entries[i].was == expected[i]);
}
