// Composite ops against the calls that the reference makes of them (recorded there by a dispatch
// mode over 2.15), by running shapes alone.
#include <doctest/doctest.h>
#include <fmt/ranges.h>

#include "dispatch/all_ops.h"
#include "ops/core/meta.h"
#include "schema/op_registry.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

/// Runs calls on shapes and notes each op with its arguments.
class ShapeCalls : public Calls {
 public:
  ShapeCalls() { register_all_ops(registry_); }

  Results call(const OpRow& row, const Arguments& args) override {
    if (row.parts() != nullptr) return row.parts()(*this, args);
    MetaList metas;
    std::string line = row.op.base.substr(6);
    for (std::size_t i = 0; i < args.size(); ++i) {
      if (!row.op.arguments[i].type.is_tensor()) continue;
      metas.push_back(args[i].is_tensor() ? &args[i].tensor().meta() : nullptr);
      if (args[i].is_tensor())
        line += fmt::format(" [{}]", fmt::join(args[i].tensor().shape(), ","));
    }
    log_.push_back(line);
    Results results;
    for (const OutputMeta& output : infer_metas(row, args, metas)) {
      results.emplace_back(tensor(output.meta));
    }
    if (row.inplace()) return {args[0]};
    return results;
  }
  const OpRow& find(std::string_view name) const override { return registry_.at(name); }
  DTensor redistribute(const DTensor& x, const Placements&) override { return x; }

  static DTensor tensor(const TensorMeta& meta) { return DTensor(Tensor(Ref<Storage>(), meta)); }
  static DTensor tensor(Dims shape, DType dtype = DType::kF32) {
    return tensor(contiguous_meta(shape, dtype));
  }
  /// The ops called by `name`, separated by semicolons, and the result's shape.
  std::string run(const char* name, Arguments args) {
    log_.clear();
    const Results results = (*this)(name, std::move(args));
    return fmt::format("{}; -> [{}]", fmt::join(log_, "; "),
                       fmt::join(results[0].tensor().shape(), ","));
  }

 private:
  OpRegistry registry_;
  std::vector<std::string> log_;
};

DTensor t(std::initializer_list<std::int64_t> shape) { return ShapeCalls::tensor(Dims(shape)); }

}  // namespace

TEST_CASE("D-19 matmul is made of the reference's steps for every number of dims") {
  ShapeCalls calls;
  CHECK(calls.run("matmul", {t({4}), t({4})}) == "dot [4] [4]; -> []");
  CHECK(calls.run("matmul", {t({3, 4}), t({4})}) == "mv [3,4] [4]; -> [3]");
  CHECK(calls.run("matmul", {t({4}), t({4, 5})}) ==
        "unsqueeze [4]; mm [1,4] [4,5]; squeeze [1,5]; -> [5]");
  CHECK(calls.run("matmul", {t({2, 3, 4}), t({4})}) ==
        "view [2,3,4]; mv [6,4] [4]; _unsafe_view [6]; -> [2,3]");
  CHECK(calls.run("matmul", {t({2, 2, 3, 4}), t({4, 5})}) ==
        "view [2,2,3,4]; mm [12,4] [4,5]; _unsafe_view [12,5]; -> [2,2,3,5]");
  CHECK(calls.run("matmul", {t({3, 4}), t({2, 4, 5})}) ==
        "expand [3,4]; view [2,3,4]; expand [2,4,5]; view [2,4,5]; bmm [2,3,4] [2,4,5]; "
        "_unsafe_view [2,3,5]; -> [2,3,5]");
  CHECK(calls.run("matmul", {t({2, 3, 3, 4}), t({2, 3, 4, 5})}) ==
        "expand [2,3,3,4]; view [2,3,3,4]; expand [2,3,4,5]; view [2,3,4,5]; "
        "bmm [6,3,4] [6,4,5]; _unsafe_view [6,3,5]; -> [2,3,3,5]");
  CHECK(calls.run("matmul", {t({5, 1, 3, 4}), t({6, 4, 2})}) ==
        "expand [5,1,3,4]; clone [5,6,3,4]; _unsafe_view [5,6,3,4]; expand [6,4,2]; "
        "clone [5,6,4,2]; _unsafe_view [5,6,4,2]; bmm [30,3,4] [30,4,2]; "
        "_unsafe_view [30,3,2]; -> [5,6,3,2]");
  CHECK(calls.run("matmul", {t({2, 3, 4}), t({1, 4, 5})}) ==
        "squeeze [1,4,5]; view [2,3,4]; mm [6,4] [4,5]; _unsafe_view [6,5]; -> [2,3,5]");
  CHECK_THROWS_AS(calls.run("matmul", {t({}), t({4})}), Error);
}

TEST_CASE("D-19 linear takes the fused product where there is a bias") {
  ShapeCalls calls;
  CHECK(calls.run("linear", {t({8, 16}), t({12, 16})}) ==
        "t [12,16]; mm [8,16] [16,12]; -> [8,12]");
  CHECK(calls.run("linear", {t({8, 16}), t({12, 16}), t({12})}) ==
        "t [12,16]; addmm [12] [8,16] [16,12]; -> [8,12]");
  CHECK(calls.run("linear", {t({2, 4, 16}), t({12, 16})}) ==
        "t [12,16]; view [2,4,16]; mm [8,16] [16,12]; _unsafe_view [8,12]; -> [2,4,12]");
  CHECK(calls.run("linear", {t({2, 4, 16}), t({12, 16}), t({12})}) ==
        "view [2,4,16]; t [12,16]; addmm [12] [8,16] [16,12]; _unsafe_view [8,12]; -> [2,4,12]");
}

TEST_CASE("D-19 norms, losses and dropout") {
  ShapeCalls calls;
  const DTensor target = ShapeCalls::tensor(Dims{4}, DType::kI64);
  CHECK(calls.run("layer_norm", {t({4, 8}), Dims{8}, t({8}), t({8})}) ==
        "native_layer_norm [4,8] [8] [8]; -> [4,8]");
  CHECK(calls.run("rms_norm", {t({4, 8}), Dims{8}, t({8})}) ==
        "pow [4,8]; mean [4,8]; add_ [4,1]; rsqrt [4,1]; mul [4,8] [4,1]; mul [4,8] [8]; "
        "-> [4,8]");
  CHECK(calls.run("softmax.int", {t({4, 8}), -1}) == "_softmax [4,8]; -> [4,8]");
  CHECK(calls.run("cross_entropy_loss", {t({4, 8}), target}) ==
        "_log_softmax [4,8]; nll_loss_forward [4,8] [4]; -> []");
  CHECK(calls.run("dropout", {t({4, 8}), 0.5, true}) ==
        "empty_like [4,8]; bernoulli_ [4,8]; div_ [4,8]; mul [4,8] [4,8]; -> [4,8]");
  CHECK(calls.run("dropout", {t({4, 8}), 0.5, false}) == "; -> [4,8]");
}

TEST_CASE("D-19 a reshape copies only where memory does not allow a view") {
  ShapeCalls calls;
  const DTensor transposed = ShapeCalls::tensor({Dims{8, 4}, Dims{1, 8}, DType::kF32});
  CHECK(calls.run("reshape", {t({4, 8}), Dims{-1}}) == "view [4,8]; -> [32]");
  CHECK(calls.run("reshape", {transposed, Dims{32}}) == "clone [8,4]; _unsafe_view [8,4]; -> [32]");
  CHECK(calls.run("contiguous", {transposed}) == "clone [8,4]; -> [8,4]");
  CHECK(calls.run("contiguous", {t({4, 8})}) == "; -> [4,8]");
  CHECK(calls.run("flatten.using_ints", {t({2, 4, 8}), 0, 1}) == "view [2,4,8]; -> [8,8]");
  CHECK(calls.run("unflatten.int", {t({2, 8}), 1, Dims{2, -1}}) == "view [2,8]; -> [2,2,4]");
  CHECK(calls.run("movedim.int", {t({2, 4, 8}), 0, 2}) == "permute [2,4,8]; -> [4,8,2]");
  CHECK(calls.run("numpy_T", {t({2, 4, 8})}) == "permute [2,4,8]; -> [8,4,2]");
  CHECK(calls.run("narrow", {t({2, 4, 8}), 1, 1, 2}) == "slice [2,4,8]; -> [2,2,8]");
}

TEST_CASE("D-19 attention: a causal mask is made of shapes alone") {
  ShapeCalls calls;
  const DTensor x = t({4, 8, 16});  // of 4 dims it is one kernel
  const std::string text =
      calls.run("scaled_dot_product_attention", {x, x, x, Argument(), 0.0, true});
  CHECK(text.find("tril [8,8]; logical_not [8,8]; zeros_like [8,8]; masked_fill [8,8] [8,8]; "
                  "add [4,8,8] [8,8]; _safe_softmax [4,8,8]") != std::string::npos);
  CHECK(text.ends_with("-> [4,8,16]"));
}

}  // namespace shardlab
