// Pairs with a mistake that was planted by hand: numbers say where each element is from.
#include <doctest/doctest.h>

#include <numeric>

#include "sim/checkpoint/compare.h"

using namespace shardlab;

namespace {

using PlainNumbers = std::vector<std::uint8_t>;

MadeTensor bytes_of(const std::string& name, Dims shape, const PlainNumbers& numbers) {
  MadeTensor tensor{name, &stored_type(DType::kU8), std::move(shape),
                    [numbers] { return std::string(numbers.begin(), numbers.end()); }};
  const auto row = static_cast<std::int64_t>(numbers.size()) / tensor.shape[0];
  tensor.rows = [numbers, row](std::int64_t from, std::int64_t to, char* out) {
    std::copy(numbers.begin() + from * row, numbers.begin() + to * row, out);
  };
  return tensor;
}

PlainNumbers counted_up(std::size_t count) {
  PlainNumbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), std::uint8_t{1});
  return numbers;
}

// One row a number.
PlainNumbers rows(const std::vector<int>& order) {
  PlainNumbers numbers;
  for (const int row : order) {
    for (int i = 1; i <= 2; ++i)
      numbers.push_back(static_cast<std::uint8_t>(row < 0 ? 0 : 2 * row + i));
  }
  return numbers;
}

TensorDifference only_difference(const std::string& name, const Dims& shape,
                                 const PlainNumbers& b) {
  const std::size_t count = static_cast<std::size_t>(product(shape));
  const CheckpointComparison found =
      compare({bytes_of(name, shape, counted_up(count))}, {bytes_of(name, shape, b)}, nullptr);
  REQUIRE(found.differences.size() == 1);
  return found.differences[0];
}

}  // namespace

TEST_CASE("B-52 zeros in place of all elements are a missing piece, and no factor") {
  for (const Dims& shape : {Dims{1}, Dims{8, 2}}) {
    const PlainNumbers zeros(static_cast<std::size_t>(product(shape)), 0);
    const TensorDifference found = only_difference("w", shape, zeros);
    REQUIRE(found.mistake.has_value());
    CHECK(found.mistake->id == "piece-missing");
    CHECK(found.mistake->told == "all of it=zeros");
    CHECK(found.mistake->edits.empty());
  }
  // One float, as PyTorch's consolidation writes a number without dims.
  const auto number = [](float value) {
    return MadeTensor{"w", &stored_type(DType::kF32), {}, [value] {
                        return std::string(reinterpret_cast<const char*>(&value), sizeof value);
                      }};
  };
  const CheckpointComparison zero = compare({number(1)}, {number(0)}, nullptr);
  REQUIRE(zero.differences.size() == 1);
  CHECK(zero.differences[0].mistake->id == "piece-missing");
  const CheckpointComparison half = compare({number(1)}, {number(0.5F)}, nullptr);
  CHECK(half.differences[0].mistake->id == "factor");
}

TEST_CASE("B-52 elements of 16 bytes are counted as one each") {
  const auto numbers = [](std::vector<double> parts) {
    return MadeTensor{"w", &stored_type(DType::kC128), {2}, [parts] {
                        return std::string(reinterpret_cast<const char*>(parts.data()), 32);
                      }};
  };
  const CheckpointComparison found =
      compare({numbers({1, 2, 3, 4})}, {numbers({5, 6, 3, 4})}, nullptr);
  REQUIRE(found.differences.size() == 1);
  CHECK(found.differences[0].counts.differ == 1);
}

TEST_CASE("B-52 one bit is a difference, of which nothing is told that is not so") {
  PlainNumbers b = counted_up(16);
  b[13] ^= 64;
  const TensorDifference found = only_difference("w", {8, 2}, b);
  CHECK_FALSE(found.mistake.has_value());
  CHECK(found.wrong == "6");
  CHECK(found.counts.differ == 1);
  MadeTensors a = {bytes_of("w", {8, 2}, counted_up(16)), bytes_of("none", {2, 0}, {})};
  CHECK(compare(a, a, nullptr).ok());
  a[1].rows = nullptr;
  CHECK(compare(a, a, nullptr).equal == 2);
}

TEST_CASE("B-52 edits of a tensor fit no other whose name has its own as a part") {
  const PlainNumbers first = counted_up(8), second = rows({9, 8, 7, 6}), third = rows({4, 4, 5, 6});
  const auto tensors = [](const PlainNumbers& w, const PlainNumbers& moment,
                          const PlainNumbers& other) -> MadeTensors {
    return {bytes_of("l.w", {4, 2}, w), bytes_of("optim.l.w.m", {4, 2}, moment),
            bytes_of("v", {4, 2}, other)};
  };
  const MadeTensors a = tensors(first, second, third);
  for (const MadeTensors& b :
       {tensors(second, first, third), tensors(rows({1, 0, 3, 2}), second, third),
        tensors(third, second, first)}) {
    const CheckpointComparison found = compare(a, b, nullptr);
    CHECK(found.mended);
    MadeTensors mended = b;
    for (const Edit& edit : found.repairs) apply(edit, mended);
    for (const MadeTensor& one : a) CHECK(find(mended, one.name)->elements() == one.elements());
  }
}

TEST_CASE("B-52 a checkpoint that lacks a tensor is not said to be mended") {
  const MadeTensor x = bytes_of("x", {4, 2}, counted_up(8)),
                   y = bytes_of("y", {4, 2}, rows({9, 8, 7, 6})),
                   z = bytes_of("z", {4, 2}, rows({4, 4, 5, 6}));
  CHECK_FALSE(compare({x, y}, {x, z}, nullptr).mended);
  CHECK(compare({x, y}, {x, y, z}, nullptr).mended);
  MadeTensor renamed = y;
  renamed.name = "q";
  CHECK(compare({x, y}, {x, renamed}, nullptr).mended);
}

TEST_CASE("B-52 a tied tensor that B lacks is tied again to the one that B has") {
  const MadeTensor embed = bytes_of("embed", {8, 2}, counted_up(16));
  const MadeTensor head = bytes_of("head", {8, 2}, counted_up(16));
  const MadeTensor other = bytes_of("head", {8, 2}, PlainNumbers(16, 7));
  const auto edits_of = [](const MadeTensors& a, const MadeTensors& b) {
    const CheckpointComparison found = compare(a, b, nullptr);
    std::string text = found.mended ? "mended" : "not mended";
    for (const Edit& edit : found.repairs) text += " " + edit.option + " " + edit.text;
    return text;
  };
  CHECK(edits_of({embed, head}, {embed}) == "mended tie head = embed");
  CHECK(edits_of({head, embed}, {embed}) == "mended tie head = embed");
  CHECK(edits_of({embed, other}, {embed}) == "not mended");
  // A renamed tensor of B is the one, and a damaged one gives nothing.
  const MadeTensor named = bytes_of("lm_head", {8, 2}, counted_up(16));
  CHECK(edits_of({embed, head}, {embed, named}) == "mended rename lm_head -> head");
  CHECK(edits_of({embed, head}, {bytes_of("embed", {8, 2}, PlainNumbers(16, 3))}) == "not mended");
}

TEST_CASE("B-52 the order of many rows is told in runs") {
  PlainNumbers lost = counted_up(240);
  std::fill(lost.begin() + 100, lost.begin() + 102, std::uint8_t{0});
  const TensorDifference found = only_difference("w", {120, 2}, lost);
  REQUIRE(found.mistake.has_value());
  CHECK(found.mistake->id == "piece-missing");
  CHECK(found.mistake->told.size() < 80);
}

TEST_CASE("B-52 elements that moved into the tensor before are a flat shift") {
  PlainNumbers all = counted_up(24), shifted(all.begin() + 3, all.end());
  shifted.resize(24, 0);
  const auto parts = [](const PlainNumbers& flat) -> MadeTensors {
    return {bytes_of("a", {4, 2}, {flat.begin(), flat.begin() + 8}),
            bytes_of("b", {8, 2}, {flat.begin() + 8, flat.end()})};
  };
  const CheckpointComparison found = compare(parts(all), parts(shifted), nullptr);
  REQUIRE(found.differences.size() == 2);
  REQUIRE(found.differences[0].mistake.has_value());
  CHECK(found.differences[0].mistake->told == "shift=-3; ends with=the begin of b");
  CHECK(found.differences[1].mistake->told == "shift=-3; ends with=zeros");
}

TEST_CASE("B-52 a mistake has its name, and edits that make A of B") {
  struct Case {
    const char *name, *id, *told;
    PlainNumbers b;
    bool mended;
  };
  for (const Case& one : std::vector<Case>{
           // Cut by x in halves, these by y in halves; joined as if y had cut first.
           {"w", "order-of-cuts", "dim=0; mesh=2 x 2", rows({0, 1, 4, 5, 2, 3, 6, 7}), true},
           {"q", "rope-pairs", "dim=0; heads=1; b=pairs", rows({0, 4, 1, 5, 2, 6, 3, 7}), true},
           {"w", "piece-missing", "dim=0; ranks=4; order=0, 1, -1, 3 (-1: zeros)",
            rows({0, 1, 2, 3, -1, -1, 6, 7}), false},
           {"w", "piece-twice", "dim=0; ranks=4; order=0, 1, 1, 3", rows({0, 1, 2, 3, 2, 3, 6, 7}),
            false},
           {"expert", "expert-order", "dim=0; ranks=8; order=7, 1, 2, 3, 4, 5, 6, 0",
            rows({7, 1, 2, 3, 4, 5, 6, 0}), true},
       }) {
    CAPTURE(one.id);
    const TensorDifference found = only_difference(one.name, {8, 2}, one.b);
    REQUIRE(found.mistake.has_value());
    CHECK(found.mistake->id == one.id);
    CHECK(found.mistake->told == one.told);
    CHECK(found.tried == one.mended);
  }
}

TEST_CASE("B-52 a flat shift by more than a tensor holds") {
  const PlainNumbers all = counted_up(40);
  PlainNumbers shifted(5, 0);
  shifted.insert(shifted.end(), all.begin(), all.end() - 5);
  const auto parts = [](const PlainNumbers& flat) -> MadeTensors {
    return {bytes_of("a", {8, 2}, {flat.begin(), flat.begin() + 16}),
            bytes_of("bias", {3}, {flat.begin() + 16, flat.begin() + 19}),
            bytes_of("b", {7, 3}, {flat.begin() + 19, flat.end()})};
  };
  const CheckpointComparison found = compare(parts(all), parts(shifted), nullptr);
  REQUIRE(found.differences.size() == 3);
  for (const TensorDifference& one : found.differences) {
    CAPTURE(one.name);
    REQUIRE(one.mistake.has_value());
    CAPTURE(one.mistake->told);
    CHECK(one.mistake->id == "flat-shifted");
    CHECK(one.mistake->told.starts_with("shift=5; begins with="));
  }
}

TEST_CASE("B-52 tensors of many layers are found in each other's place") {
  MadeTensors a, b;
  for (std::uint8_t i = 0; i < 40; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".w";
    const auto other = static_cast<std::uint8_t>((i + 1) % 40);
    a.push_back(bytes_of(name, {2, 2}, {i, 1, 2, 3}));
    b.push_back(bytes_of(name, {2, 2}, {other, 1, 2, 3}));
  }
  const CheckpointComparison found = compare(a, b, nullptr);
  CHECK(found.differences.size() == 40);
  for (const TensorDifference& one : found.differences)
    CHECK((one.mistake && one.mistake->id == "names-exchanged"));
  CHECK(found.mended);
}

TEST_CASE("B-52 pieces along one dim that were joined along another have other sizes") {
  // Two pieces of rows, side by side; then two pieces of columns, one behind the other.
  const PlainNumbers numbers = counted_up(8), beside = {1, 2, 5, 6, 3, 4, 7, 8},
                     behind = {1, 3, 5, 7, 2, 4, 6, 8};
  for (const auto& [shape, b, told] :
       {std::tuple{Dims{2, 4}, beside, "ranks=2; cut_dim=0; joined_dim=1"},
        std::tuple{Dims{8, 1}, behind, "ranks=2; cut_dim=1; joined_dim=0"}}) {
    const MadeTensors a = {bytes_of("w", {4, 2}, numbers)}, other = {bytes_of("w", shape, b)};
    const CheckpointComparison found = compare(a, other, nullptr);
    REQUIRE(found.differences.size() == 1);
    REQUIRE(found.differences[0].mistake.has_value());
    CHECK(found.differences[0].mistake->id == "other-dim");
    CHECK(found.differences[0].mistake->told == told);
    CHECK(found.mended);
  }
}

TEST_CASE("B-52 one row with zeros behind it, and none") {
  for (const auto& [rows_of_a, numbers] : {std::pair{1, PlainNumbers{1, 2}}, {0, PlainNumbers{}}}) {
    MadeTensor a = bytes_of("w", {1, 2}, {1, 2});
    a.shape[0] = rows_of_a;
    a.make([numbers = numbers] { return std::string(numbers.begin(), numbers.end()); });
    PlainNumbers padded = numbers;
    padded.resize(6, 0);
    const CheckpointComparison found = compare({a}, {bytes_of("w", {3, 2}, padded)}, nullptr);
    REQUIRE(found.differences.size() == 1);
    REQUIRE(found.differences[0].mistake.has_value());
    CHECK(found.differences[0].mistake->id == "padding-kept");
    CHECK(found.mended == (rows_of_a > 0));
  }
}

TEST_CASE("B-52 one mistake behind another one") {
  const auto floats = [](const std::vector<float>& numbers, DType dtype, Dims shape) {
    MadeTensor made{"w", &stored_type(dtype), std::move(shape), {}};
    std::string bytes(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size());
    made.elements = [bytes = converted(bytes, DType::kF32, dtype)] { return bytes; };
    return made;
  };
  const std::vector<float> a = {1, 2, 3, 4, 5, 6.001F, 7, 8}, moved = {5, 6.001F, 7, 8, 1, 2, 3, 4},
                           scaled = {2.5F, 3.0005F, 3.5F, 4, 0.5F, 1, 1.5F, 2},
                           rounded = {5, 6, 7, 8, 1, 2, 3, 4},
                           turned = {5, 7, 1, 3, 6.001F, 8, 2, 4};
  struct Case {
    const char* id;
    std::vector<float> b;
    Dims shape;
    bool mended;
  };
  for (const Case& one : std::vector<Case>{{"rank-order", moved, {4, 2}, true},
                                           {"factor", scaled, {4, 2}, true},
                                           {"rounded", rounded, {4, 2}, false},
                                           {"transposed", turned, {2, 4}, true}}) {
    CAPTURE(one.id);
    const CheckpointComparison found =
        compare({floats(a, DType::kF32, {4, 2})}, {floats(one.b, DType::kF32, one.shape)}, nullptr);
    REQUIRE(found.differences.size() == 1);
    REQUIRE(found.differences[0].mistake.has_value());
    CHECK(found.differences[0].mistake->id == one.id);
    CHECK(found.mended == one.mended);
  }
  // In a dtype that holds all of A, and in one that does not.
  const std::vector<float> whole = {1, 2, 3, 4, 5, 6, 7, 8};
  for (const auto& [from, to] :
       {std::pair{DType::kBF16, DType::kF32}, {DType::kF32, DType::kBF16}}) {
    const CheckpointComparison found =
        compare({floats(whole, from, {4, 2})}, {floats(rounded, to, {4, 2})}, nullptr);
    REQUIRE(found.differences.size() == 1);
    REQUIRE(found.differences[0].mistake.has_value());
    CHECK(found.differences[0].mistake->id == "rank-order");
    CHECK(found.mended);
  }
}

TEST_CASE("B-52 pieces of a mesh that cuts two dims") {
  struct Case {
    const char *id, *told;
    PlainNumbers b;
    bool mended;
  };
  // 4 x 4 elements in four pieces: rows 0:2 and 2:4, columns likewise.
  for (const Case& one : std::vector<Case>{{"rank-order",
                                            "dims=0, 1; ranks=2 x 2; order=0, 2, 1, 3",
                                            {1, 2, 9, 10, 5, 6, 13, 14, 3, 4, 11, 12, 7, 8, 15, 16},
                                            true},
                                           {"piece-twice",
                                            "dims=0, 1; ranks=2 x 2; order=0, 1, 1, 3",
                                            {1, 2, 3, 4, 5, 6, 7, 8, 3, 4, 11, 12, 7, 8, 15, 16},
                                            false},
                                           {"piece-missing",
                                            "dims=0, 1; ranks=2 x 2; order=0, -1, 2, 3 (-1: zeros)",
                                            {1, 2, 0, 0, 5, 6, 0, 0, 9, 10, 11, 12, 13, 14, 15, 16},
                                            false}}) {
    CAPTURE(one.id);
    const TensorDifference found = only_difference("w", {4, 4}, one.b);
    REQUIRE(found.mistake.has_value());
    CHECK(found.mistake->id == one.id);
    CHECK(found.mistake->told == one.told);
    CHECK(found.tried == one.mended);
  }
}

TEST_CASE("B-52 three dims in another order, and joined along one that is not next to it") {
  const MadeTensors a = {bytes_of("w", {2, 3, 2}, counted_up(12))};
  const auto explained = [&](const Dims& shape, const PlainNumbers& numbers) {
    const CheckpointComparison found = compare(a, {bytes_of("w", shape, numbers)}, nullptr);
    REQUIRE(found.differences.size() == 1);
    CHECK(found.mended);
    const auto& mistake = found.differences[0].mistake;
    return mistake ? mistake->id + "; " + mistake->told : "none";
  };
  // Element [i, j, k] is 6 i + 2 j + k + 1; as columns before rows, and as if it were row-major.
  const PlainNumbers turned = {1, 7, 3, 9, 5, 11, 2, 8, 4, 10, 6, 12};
  CHECK(explained({2, 3, 2}, turned) == "transposed; dims=2, 1, 0");
  CHECK(explained({2, 2, 3}, {1, 3, 5, 2, 4, 6, 7, 9, 11, 8, 10, 12}) ==
        "transposed; dims=0, 2, 1");
  CHECK(explained({1, 3, 4}, {1, 2, 7, 8, 3, 4, 9, 10, 5, 6, 11, 12}) ==
        "other-dim; ranks=2; cut_dim=0; joined_dim=2");
}

TEST_CASE("B-52 elements beside a flat shift are of any other tensor, in another dtype") {
  const auto floats = [](const std::string& name, const std::vector<float>& numbers, DType dtype) {
    const std::string bytes(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size());
    const std::string stored = converted(bytes, DType::kF32, dtype);
    return MadeTensor{
        name, &stored_type(dtype), {std::ssize(numbers)}, [stored] { return stored; }};
  };
  const DType wide = DType::kF32, narrow = DType::kBF16;
  // In the flat parameter "z" is before "b".
  const MadeTensors a = {floats("a", {9, 8, 7}, wide), floats("b", {1, 2, 3, 4, 5}, wide),
                         floats("c", {6, 5, 4}, wide), floats("z", {11, 12, 13}, wide)};
  const MadeTensors b = {a[0], floats("b", {12, 13, 1, 2, 3}, narrow), a[2], a[3]};
  const CheckpointComparison found = compare(a, b, nullptr);
  REQUIRE(found.differences.size() == 1);
  REQUIRE(found.differences[0].mistake.has_value());
  CHECK(found.differences[0].mistake->told == "shift=2; begins with=the end of z");
  // Contents of another name, rounded; and those that A ties.
  const MadeTensors whole = {floats("u", {1, 2}, wide), floats("v", {3, 4.001F}, wide),
                             floats("w", {1, 2}, wide)},
                    other = {floats("u", {1, 2}, narrow), floats("v", {1, 2}, narrow),
                             floats("w", {3, 7}, narrow)};
  const CheckpointComparison names = compare(whole, other, nullptr);
  REQUIRE(names.differences.size() == 3);
  CHECK(names.differences[0].mistake->id == "other-dtype");
  CHECK(names.differences[1].mistake->told == "b=u; to=bf16");
  CHECK(names.differences[2].mistake->id == "tied-differ");
}

TEST_CASE("B-52 columns of another tensor") {
  const PlainNumbers other = {21, 22, 23, 24};
  const MadeTensors a = {bytes_of("u", {2, 2}, other), bytes_of("w", {2, 4}, counted_up(8))},
                    b = {a[0], bytes_of("w", {2, 4}, {1, 2, 21, 22, 5, 6, 23, 24})};
  const CheckpointComparison found = compare(a, b, nullptr);
  REQUIRE(found.differences.size() == 1);
  REQUIRE(found.differences[0].mistake.has_value());
  CHECK(found.differences[0].mistake->told == "dim=1; 2:4=of u");
}

TEST_CASE("B-52 16-bit floats that were rounded to the other kind") {
  const auto made = [](std::vector<float> numbers, bool rounded) {
    const auto bytes = [](const std::string& text, DType from, DType to) {
      return converted(text, from, to);
    };
    std::string all(reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size());
    all = bytes(all, DType::kF32, DType::kF16);
    if (rounded) all = bytes(bytes(all, DType::kF16, DType::kBF16), DType::kBF16, DType::kF16);
    return MadeTensor{"w", &stored_type(DType::kF16), {3}, [all] { return all; }};
  };
  const CheckpointComparison found =
      compare({made({1, 2, 3.002F}, false)}, {made({1, 2, 3.002F}, true)}, nullptr);
  REQUIRE(found.differences.size() == 1);
  REQUIRE(found.differences[0].mistake.has_value());
  CHECK(found.differences[0].mistake->told == "to=bf16");
}

TEST_CASE("B-52 elements that repeat all over are looked at a bounded number of times") {
  // Each shift by a multiple of 251 fits but for the last element.
  constexpr std::size_t kRows = 4096, kColumns = 1024;
  PlainNumbers numbers(kRows * kColumns);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint8_t>(i % 251);
  PlainNumbers other = numbers;
  other.back() ^= 1;
  const CheckpointComparison found = compare({bytes_of("w", {kRows, kColumns}, numbers)},
                                             {bytes_of("w", {kRows, kColumns}, other)}, nullptr);
  REQUIRE(found.differences.size() == 1);
  CHECK_FALSE(found.differences[0].mistake.has_value());
  CHECK(found.differences[0].wrong == "4095");
}
