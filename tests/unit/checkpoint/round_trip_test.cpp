#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "api/mesh.h"
#include "mesh/shard_pattern.h"
#include "mesh/type_string.h"
#include "sim/checkpoint/compare.h"
#include "sim/checkpoint/writer.h"
#include "tests/unit/checkpoint/stored_elements.h"

using namespace shardlab;

namespace {

/// Elements that differ from each other, of any width.
MadeTensor numbered(const std::string& name, DType dtype, const Dims& shape) {
  MadeTensor tensor{name, &stored_type(dtype), shape, nullptr};
  std::string bytes;
  for (std::int64_t i = 0; i < product(shape); ++i) {
    bytes.append(reinterpret_cast<const char*>(&i), sizeof i);
  }
  bytes = converted(bytes, DType::kI64, dtype);
  tensor.elements = [bytes] { return bytes; };
  return tensor;
}

// Uneven sizes, fewer rows than ranks, no rows, a number.
MadeTensors example() {
  return {numbered("w", DType::kF32, {7, 5}),    numbered("few", DType::kBF16, {2, 3}),
          numbered("none", DType::kF32, {0, 4}), numbered("number", DType::kI64, {}),
          numbered("vector", DType::kU8, {11}),  numbered("cube", DType::kF64, {3, 4, 5}),
          numbered("flag", DType::kBool, {3, 3})};
}

struct Layout {
  const char *mesh, *matrix;  // the placements of all tensors with two dims; "": one file
};
constexpr Layout kLayouts[] = {
    {"", ""},
    {"x=1", "[_, _]"},
    {"x=2", "[_@x, _]"},
    {"x=3", "[_, _@x]"},
    {"x=4", "[_@x, _]"},
    {"x=6", "[_@x, _]"},
    {"x=8", "[_, _@x]"},
    {"x=2,y=2", "[_@(x,y), _]"},
    {"x=2,y=2", "[_@(y,x), _]"},
    {"x=2,y=3", "[_@x, _@y]"},
    {"x=3,y=2", "[_@y, _]"},
    {"x=2,y=2", "[_@x, _@y]"},
    {"x=2,y=2,z=2", "[_@(z,x), _@y]"},
    {"x=2,y=2", "[_@y~2, _]"},
};

void write(const std::string& path, const MadeTensors& tensors, const Layout& layout) {
  WriteOptions options{.replace = true};
  std::vector<const DTensorSpec*> specs;
  Arena arena;
  if (*layout.mesh != '\0') {
    MeshLayout::Init init;
    for (const MeshDim& dim : parse_mesh_dims(layout.mesh)) {
      init.names.push_back(dim.name);
      init.shape.push_back(dim.size);
    }
    options.mesh = arena.layout(init);
    for (const MadeTensor& tensor : tensors) {
      std::string type = "[";
      for (std::size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        type += (dim == 0 ? "" : ", ") + std::to_string(tensor.shape[dim]);
        if (dim == 0 && tensor.shape.size() != 2) type += "@" + options.mesh->names().back();
      }
      type += "]";
      if (tensor.shape.size() == 2) type = with_sizes(layout.matrix, tensor.shape, tensor.name);
      const ParsedType parsed = parse_type(type, *options.mesh);
      specs.push_back(arena.spec(options.mesh, parsed.placements, parsed.order,
                                 contiguous_meta(parsed.shape, DType::kF32)));
    }
    options.placed = [&specs](std::size_t i) { return specs[i]; };
  }
  write_tensors(path, tensors, options);
}

bool same(const MadeTensors& a, const Checkpoint& b) {
  for (const StoredTensor& tensor : b.tensors()) {
    if (!faults_of(tensor).empty()) return false;
  }
  const CheckpointComparison found = compare(a, tensors_of(b), nullptr);
  return found.ok() && found.equal == static_cast<std::int64_t>(a.size());
}

}  // namespace

TEST_CASE("B-51 each layout of ranks to each other and back gives the same bits") {
  const TemporaryFolder folder;
  const MadeTensors tensors = example();
  for (const Layout& from : kLayouts) {
    CAPTURE(from.mesh);
    CAPTURE(from.matrix);
    const std::string first = folder.path() + "/first";
    write(first, tensors, from);
    const Checkpoint stored = Checkpoint::open(first);
    REQUIRE(same(tensors, stored));
    for (const Layout& to : kLayouts) {
      CAPTURE(to.mesh);
      CAPTURE(to.matrix);
      write(folder.path() + "/second", tensors_of(stored), to);
      const Checkpoint there = Checkpoint::open(folder.path() + "/second");
      CHECK(same(tensors, there));
      write(folder.path() + "/back", tensors_of(there), from);
      CHECK(same(tensors, Checkpoint::open(folder.path() + "/back")));
    }
  }
}

TEST_CASE("a result that is there is kept, and one that fails leaves nothing") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/x.safetensors";
  write_tensors(path, example(), {});
  CHECK_THROWS_WITH_AS(write_tensors(path, example(), {}), doctest::Contains("is there already"),
                       Error);
  MadeTensors broken = example();
  broken[5].elements = []() -> std::string { throw Error(ErrorKind::kValue, "cut short"); };
  CHECK_THROWS_AS(write_tensors(path, broken, {.replace = true}), Error);
  CHECK(same(example(), Checkpoint::open(path)));
  CHECK_THROWS_AS(write_tensors(folder.path() + "/new", broken, {.most_bytes = 100}), Error);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("B-51 every edit is undone by its inverse") {
  const MadeTensors before = {
      numbered("layers.0.qkv.weight", DType::kF32, {16, 3}),
      numbered("layers.1.qkv.weight", DType::kF32, {16, 3}),
      numbered("layers.0.q_proj.weight", DType::kF32, {12, 2}),
      numbered("layers.0.k_proj.weight", DType::kBF16, {12, 2}),
      numbered("head.weight", DType::kF32, {4, 3}),
  };
  const std::vector<Edit> edits = {
      {"rename", "layers.{i}.qkv -> model.{i}.attention.wqkv"},
      {"rename", "weight -> w"},
      {"split", "qkv = q:8, k:4, v:4"},
      {"rope", "halves q=3,kv=2"},
      {"rope", "pairs q=2"},
      {"transpose", "*"},
      {"transpose", "head.weight"},
      {"pick", "q_proj.weight = [3:12+0+1:3, 1+0]"},
      {"swap", "layers.*.qkv.weight = 2, 4, 2, 3"},
      {"dtype", "k_proj.weight = f64"},
      {"scale", "head.weight = -0.25"},
      {"tie", "other.weight = head.weight"},
  };
  for (const Edit& edit : edits) {
    CAPTURE(edit.command());
    MadeTensors tensors = before;
    const std::vector<Edit> undo = apply(edit, tensors);
    REQUIRE_FALSE(undo.empty());
    CHECK_FALSE(compare(before, tensors, nullptr).ok());
    for (const Edit& inverse : undo) apply(inverse, tensors);
    CHECK(compare(before, tensors, nullptr).ok());
  }
  // There is no inverse where something is lost.
  for (const Edit& edit : std::vector<Edit>{{"drop", "head"},
                                            {"dtype", "bf16"},
                                            {"scale", "head.weight = 3"},
                                            {"pick", "head.weight = [0:2, _]"},
                                            {"tie", "layers.0.qkv.weight = layers.1.qkv.weight"}}) {
    MadeTensors tensors = before;
    CHECK(apply(edit, tensors).empty());
  }
}

TEST_CASE("edits give the elements that they say") {
  const auto after = [](const Edit& edit, const std::string& name) {
    MadeTensors tensors = {numbered("w", DType::kU8, {4, 2}), numbered("v", DType::kU8, {2, 2})};
    apply(edit, tensors);
    std::vector<int> numbers;
    for (const char one : find(tensors, name)->elements()) numbers.push_back(one);
    return numbers;
  };
  CHECK(after({"transpose", "w"}, "w") == std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(after({"pick", "w = [3+0:2, 1]"}, "w") == std::vector<int>{7, 1, 3});
  CHECK(after({"split", "w = a:1, b:3"}, "b") == std::vector<int>{2, 3, 4, 5, 6, 7});
  CHECK(after({"join", "all = v, w"}, "all") ==
        std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7});
  // Rows 0 2 | 1 3: of pairs (0, 1), (2, 3) the first ones, then the second ones.
  CHECK(after({"rope", "halves w=1"}, "w") == std::vector<int>{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK(after({"rope", "pairs w=1"}, "w") == std::vector<int>{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK(after({"tie", "x = v"}, "x") == std::vector<int>{0, 1, 2, 3});
}
