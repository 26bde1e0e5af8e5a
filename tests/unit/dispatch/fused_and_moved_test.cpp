// Ops that run as programs over others on every rank: fused optimizer steps, roll; and views in
// place that must not move.
#include <doctest/doctest.h>

#include <functional>
#include <optional>

#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab::test {
namespace {

using Values = std::vector<double>;

void check_close(const DTensor& got, const Values& wanted) {
  const Values values = whole(got);
  REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(values[i] == doctest::Approx(wanted[i]).epsilon(2e-6));
  }
}

struct AdamCase {
  const char* op;
  bool amsgrad, maximize;
  std::optional<double> found;  ///< with a gradient scale of 2
  Values weights, means, squares, largest;
};

// The reference's results for one step, the third, with rate 0.1, betas 0.9 and 0.99, decay 0.05.
const Values kLargest{0.02, 0.02, 0.2, 0.02, 0.5};
const AdamCase kSteps[] = {
    {"aten::_fused_adamw_",
     false,
     false,
     {},
     {0.915047, -2.069953, 3.064953, 0.417547, 1.935741},
     {0.14, 0.28, -0.42, 0.56, 0.425},
     {0.0124, 0.0496, 0.1116, 0.1984, 0.248125},
     kLargest},
    {"aten::_fused_adam_",
     false,
     false,
     {},
     {0.918891, -2.078618, 3.078618, 0.419893, 1.94442},
     {0.145, 0.27, -0.405, 0.5625, 0.435},
     {0.012925, 0.0477, 0.107325, 0.199406, 0.247725},
     kLargest},
    {"aten::_fused_adamw_",
     true,
     true,
     {},
     {0.977013, -2.012844, 3.002064, 0.474656, 1.947281},
     {0.04, 0.08, -0.12, 0.16, 0.475},
     {0.0124, 0.0496, 0.1116, 0.1984, 0.248125},
     {0.02, 0.0496, 0.2, 0.1984, 0.5}},
    {"aten::_fused_adam_",
     false,
     false,
     0,
     {0.926568, -2.068927, 3.068927, 0.428434, 1.942797},
     {0.12, 0.22, -0.33, 0.4625, 0.4475},
     {0.0108, 0.0412, 0.0927, 0.168906, 0.247506},
     kLargest},
    {"aten::_fused_adam_",
     false,
     false,
     1,
     {1, -2, 3, 0.5, 2},
     {0.1, 0.2, -0.3, 0.4, 0.5},
     {0.01, 0.04, 0.09, 0.16, 0.25},
     kLargest},
};

void check_step(OpMesh& mesh, const AdamCase& row, const char* kept, const char* of_gradient) {
  CAPTURE(row.op);
  CAPTURE(row.maximize);
  CAPTURE(of_gradient);
  const auto place = [&](const Values& values) { return mesh.place(kept, {5}, values); };
  const DTensor weight = place({1, -2, 3, 0.5, 2}), mean = place({0.1, 0.2, -0.3, 0.4, 0.5}),
                square = place({0.01, 0.04, 0.09, 0.16, 0.25}), largest = place(kLargest),
                gradient = mesh.place(of_gradient, {5}, {0.5, 1, -1.5, 2, -0.25});
  const ArgumentList spread = row.amsgrad ? ArgumentList{largest} : ArgumentList{};
  const Argument scale = row.found ? Argument(mesh.place("R", {}, {2})) : Argument();
  const Argument found = row.found ? Argument(mesh.place("R", {}, {*row.found})) : Argument();
  ops()(row.op, {ArgumentList{weight}, ArgumentList{gradient}, ArgumentList{mean},
                 ArgumentList{square}, spread, ArgumentList{mesh.place("R", {}, {3})}, 0.1, 0.9,
                 0.99, 0.05, 1e-8, row.amsgrad, row.maximize, scale, found});
  check_close(weight, row.weights);
  check_close(mean, row.means);
  check_close(square, row.squares);
  check_close(largest, row.largest);
}

TEST_CASE("a fused Adam step on shards is the recorded one, skipped where a gradient overflowed") {
  for (const std::int64_t ranks : {3, 7}) {  // two, two, one; and ranks without elements
    OpMesh mesh({ranks});
    mesh.run([&](RankContext&) {
      for (const AdamCase& row : kSteps) {
        check_step(mesh, row, "S(0)", "S(0)");
        // Pending gradients are added up on the way; they are not written.
        check_step(mesh, row, "R", "P(sum)");
        // Nothing is brought to pieces of which some would be empty.
        if (ranks == 3) check_step(mesh, row, "S(0)", "P(sum)");
      }
    });
  }
}

// torch 2.15's results for the step above, as lists of one tensor.
TEST_CASE("a step of Adam on copies gives what the step in place writes, and writes nothing") {
  struct Case {
    double found;
    Values weights, gradients, means;
  };
  const Values weights{1, -2, 3, 0.5, 2}, gradients{0.5, 1, -1.5, 2, -0.25},
      means{0.1, 0.2, -0.3, 0.4, 0.5}, squares{0.01, 0.04, 0.09, 0.16, 0.25};
  const Case cases[] = {{0,
                         {0.926568, -2.068927, 3.068927, 0.428434, 1.942797},
                         {0.25, 0.5, -0.75, 1, -0.125},
                         {0.12, 0.22, -0.33, 0.4625, 0.4475}},
                        {1, weights, gradients, means}};
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    for (const Case& row : cases) {
      const auto list = [&](const Values& values) {
        return ArgumentList{mesh.place("S(0)", {5}, values)};
      };
      const auto number = [&](double value) { return Argument(mesh.place("R", {}, {value})); };
      const ArgumentList given[] = {list(weights), list(gradients), list(means), list(squares)};
      const Results results =
          ops()("aten::_fused_adam",
                {given[0], given[1], given[2], given[3], ArgumentList{}, ArgumentList{number(3)},
                 0.1, 0.9, 0.99, 0.05, 1e-8, false, false, number(2), number(row.found)});
      REQUIRE(results.size() == 5);
      check_close(results[0].list()[0].tensor(), row.weights);
      check_close(results[1].list()[0].tensor(), row.gradients);
      check_close(results[2].list()[0].tensor(), row.means);
      CHECK(results[4].list().empty());
      check_close(given[0][0].tensor(), weights);
      check_close(given[1][0].tensor(), gradients);
    }
  });
}

// torch 2.15's results for one step, the third, with rate 0.1 from the same weights, gradients and
// means, or sums of squares.
struct PlainCase {
  bool changed;                 ///< nesterov and maximize, or maximize
  std::optional<double> found;  ///< with a gradient scale of 2
  Values weights, state;
};

const Values kWeights{1, -2, 3, 0.5, 2}, kFlowing{0.5, 1, -1.5, 2, -0.25};

/// The call in place, on a list of one tensor; then the one on copies.
void check_plain_step(OpMesh& mesh, const char* op, const PlainCase& row, const Values& state,
                      const std::function<Arguments(Arguments)>& call, const char* of_gradient) {
  CAPTURE(op);
  CAPTURE(row.changed);
  const std::string in_place = std::string(op) + "_";
  for (const bool copies : {true, false}) {
    const DTensor weight = mesh.place("S(0)", {5}, kWeights),
                  gradient = mesh.place(of_gradient, {5}, kFlowing),
                  kept = mesh.place("S(0)", {5}, state);
    Arguments args = call({ArgumentList{weight}, ArgumentList{gradient}, ArgumentList{kept}});
    args.emplace_back(row.found ? Argument(mesh.place("R", {}, {2})) : Argument());
    args.emplace_back(row.found ? Argument(mesh.place("R", {}, {*row.found})) : Argument());
    const Results results = ops()(copies ? op : in_place, args);
    check_close(copies ? results[0].list()[0].tensor() : weight, row.weights);
    check_close(copies ? results[2].list()[0].tensor() : kept, row.state);
    if (copies) check_close(weight, kWeights);
  }
}

TEST_CASE("fused steps of SGD and Adagrad on shards are torch's, in place and on copies") {
  const Values means{0.1, 0.2, -0.3, 0.4, 0.5}, squares{0.01, 0.04, 0.09, 0.16, 0.25};
  const PlainCase downhill[] = {
      {false, {}, {0.947, -2.09, 3.135, 0.302, 1.967}, {0.53, 0.9, -1.35, 1.98, 0.33}},
      {true, {}, {1.0693, -1.827, 2.7405, 0.8073, 1.8993}, {-0.27, -0.7, 1.05, -1.22, 0.73}},
      {false, 0, {0.967, -2.05, 3.075, 0.382, 1.957}, {0.33, 0.5, -0.75, 1.18, 0.43}},
      {false, 1, kWeights, means}};
  const PlainCase adaptive[] = {{false,
                                 {},
                                 {0.910727, -2.088998, 3.088998, 0.410839, 2.035203},
                                 {0.2804, 0.9616, 2.1636, 4.2001, 0.2941}},
                                {true,
                                 {},
                                 {1.088998, -1.910727, 2.910727, 0.589126, 1.954389},
                                 {0.2404, 1.1216, 2.5236, 4.1201, 0.3341}},
                                {false,
                                 0,
                                 {0.91475, -2.08337, 3.08337, 0.415478, 2.015236},
                                 {0.0829, 0.2516, 0.5661, 1.1801, 0.257225}},
                                {false, 1, kWeights, squares}};
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    for (const char* of_gradient : {"S(0)", "P(sum)"}) {
      for (const PlainCase& row : downhill) {
        const auto call = [&](Arguments args) {
          for (const double number : {0.05, 0.9, 0.1, 0.2}) args.emplace_back(number);
          for (const bool flag : {row.changed, row.changed, false}) args.emplace_back(flag);
          return args;
        };
        check_plain_step(mesh, "aten::_fused_sgd", row, means, call, of_gradient);
      }
      for (const PlainCase& row : adaptive) {
        const auto call = [&](Arguments args) {
          args.emplace_back(ArgumentList{mesh.place("R", {}, {3})});
          for (const double number : {0.1, 0.05, 0.02, 1e-8}) args.emplace_back(number);
          args.emplace_back(row.changed);
          return args;
        };
        check_plain_step(mesh, "aten::_fused_adagrad", row, squares, call, of_gradient);
      }
    }
  });
}

TEST_CASE("a fused step of SGD: its first one, without momentum, and lists that do not fit") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const auto step = [&](double momentum, const ArgumentList& kept, bool nesterov, bool first) {
      const DTensor weight = mesh.place("S(0)", {5}, kWeights);
      ops()("aten::_fused_sgd_",
            {ArgumentList{weight}, ArgumentList{mesh.place("S(0)", {5}, kFlowing)}, kept, 0.05,
             momentum, 0.1, 0.2, nesterov, false, first, Argument(), Argument()});
      return weight;
    };
    const DTensor kept = mesh.place("S(0)", {5}, {0.1, 0.2, -0.3, 0.4, 0.5});
    check_close(step(0.9, {kept}, true, true), {0.8955, -2.171, 3.2565, 0.11525, 2.0285});
    check_close(kept, {0.55, 0.9, -1.35, 2.025, -0.15});
    check_close(step(0, {}, false, false), {0.945, -2.09, 3.135, 0.2975, 2.015});
    CHECK(kind_of([&] { step(0, {kept}, false, false); }) == ErrorKind::kValue);
    CHECK(kind_of([&] { step(0.9, {}, false, false); }) == ErrorKind::kValue);
  });
}

TEST_CASE("lists are written into other lists, element by element, where these lie") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {1, 4, 9, 16}),
                  y = mesh.place("P(sum)", {3}, {4, 1, 0}), a = mesh.place("R", {4}, {7, 7, 7, 7}),
                  b = mesh.place("S(0)", {3}, {7, 7, 7});
    const ArgumentList given{x, y}, out{a, b};
    CHECK(ops()("aten::_foreach_sqrt.out", {given, out}).empty());
    CHECK(whole(a) == Values{1, 2, 3, 4});
    CHECK(whole(b) == Values{2, 1, 0});
    CHECK(to_string(a.spec()->placements()) == "R");
    ops()("aten::_foreach_add.Scalar_out", {given, 2.0, out});
    CHECK(whole(a) == Values{3, 6, 11, 18});
    const Results zeros = ops()("aten::_foreach_zero", {given});
    CHECK(whole(zeros[0].list()[0].tensor()) == Values{0, 0, 0, 0});
    CHECK(whole(x) == Values{1, 4, 9, 16});
    ops()("aten::_foreach_zero.out", {given, out});
    CHECK(whole(b) == Values{0, 0, 0});
    CHECK(kind_of([&] {
            ops()("aten::_foreach_sqrt.out", {given, ArgumentList{a}});
          }) == ErrorKind::kValue);
  });
}

TEST_CASE("argsort, outer, ger and ravel of pieces are those of the whole") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, {3, 1, 4, 2}), y = mesh.place("P(sum)", {2}, {5, 7}),
                  m = mesh.place("S(0)", {3, 2}, {1, 2, 3, 4, 5, 6});
    CHECK(whole(ops().one("aten::argsort", {x})) == Values{1, 3, 0, 2});
    CHECK(whole(ops().one("aten::argsort.stable", {x, true, 0, true})) == Values{2, 0, 3, 1});
    for (const char* op : {"aten::outer", "aten::ger"}) {
      CHECK(whole(ops().one(op, {x, y})) == Values{15, 21, 5, 7, 20, 28, 10, 14});
    }
    CHECK(whole(ops().one("aten::ravel", {m})) == Values{1, 2, 3, 4, 5, 6});
  });
}

TEST_CASE("drawn slopes lie where their input lies, and the noise is written where it lies") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const Values values{-1, 2, -3, 4, -5};
    for (const char* noise_at : {"R", "S(0)", "P(sum)"}) {
      CAPTURE(noise_at);
      const DTensor x = mesh.place("S(0)", {5}, values),
                    noise = mesh.place(noise_at, {5}, {9, 9, 9, 9, 9});
      const DTensor y = ops().one("aten::rrelu_with_noise", {x, noise, 0.25, 0.5, true});
      CHECK(to_string(y.spec()->placements()) == "S(0)");
      CHECK(to_string(noise.spec()->placements()) == noise_at);
      const Values got = whole(y), slopes = whole(noise);
      for (std::size_t i = 0; i < values.size(); ++i) {
        CHECK(got[i] == doctest::Approx(values[i] * slopes[i]));
        const bool drawn = slopes[i] >= 0.25 && slopes[i] < 0.5;
        CHECK((values[i] > 0 ? slopes[i] == 1 : drawn));
      }
    }
  });
}

TEST_CASE("X-13 X-46 lists in place keep pending sums where the tensor beside them may stay") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor cut = mesh.place("S(0)", {4}, {1, 2, 3, 4}),
                  pending = mesh.place("P(sum)", {2}, {5, -6}), by = mesh.place("R", {}, {2});
    const Seen seen;
    ops()("aten::_foreach_mul_.Tensor", {ArgumentList{cut, pending}, by});
    CHECK(seen.collectives.empty());
    CHECK(whole(cut) == Values{2, 4, 6, 8});
    CHECK(to_string(pending.spec()->placements()) == "P(sum)");
    CHECK(whole(pending) == Values{10, -12});
    // A sum takes the tensor as a term, but the first element needs all of it.
    CHECK(kind_of([&] {
            ops()("aten::_foreach_add_.Tensor", {ArgumentList{cut, pending}, by, 1});
          }) == ErrorKind::kRuntime);
  });
}

TEST_CASE("roll along any dims, flattened, backwards and round: cut dims that stay are not moved") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    struct Row {
      Dims shifts, dims;
      Values wanted;
    };
    const Row rows[] = {
        {{1}, {1}, {2, 0, 1, 5, 3, 4}},       {{-4}, {}, {4, 5, 0, 1, 2, 3}},
        {{1, 2}, {0, 1}, {4, 5, 3, 1, 2, 0}}, {{3}, {-1}, {0, 1, 2, 3, 4, 5}},
        {{1, 1}, {0, 0}, {0, 1, 2, 3, 4, 5}},
    };
    for (const char* text : {"R", "S(0)", "S(1)", "P(sum)"}) {
      CAPTURE(text);
      const DTensor x = mesh.place(text, {2, 3}, counted(6));
      for (const Row& row : rows) {
        CHECK(whole(ops().one("aten::roll", {x, row.shifts, row.dims})) == row.wanted);
      }
    }
    const DTensor wide = mesh.place("S(1)", {2, 5}, counted(10));
    const Seen seen;
    const DTensor kept = ops().one("aten::roll", {wide, Dims{1}, Dims{0}});
    CHECK(seen.collectives.empty());
    CHECK(whole(kept) == Values{5, 6, 7, 8, 9, 0, 1, 2, 3, 4});
    CHECK(
        whole(ops().one("aten::roll", {mesh.place("S(0)", {0, 2}, {}), Dims{1}, Dims{0}})).empty());
    CHECK(whole(ops().one("aten::roll", {mesh.place("R", {}, {3}), Dims{1}, Dims{}})) == Values{3});
    const DTensor x = mesh.place("S(0)", {2, 3}, counted(6));
    for (const auto& [shifts, dims] :
         {std::pair{Dims{}, Dims{}}, {Dims{1, 2}, Dims{}}, {Dims{1, 2}, Dims{0}}}) {
      CHECK(kind_of([&, &shifts = shifts, &dims = dims] {
              ops().one("aten::roll", {x, shifts, dims});
            }) == ErrorKind::kValue);
    }
  });
}

TEST_CASE("the gradient of roll rolls back") {
  OpMesh mesh({3});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {4}, counted(4));
    require_grad(x);
    const DTensor weights = mesh.place("S(0)", {4}, {1, 10, 100, 1000});
    const DTensor rolled = ops().one("aten::roll", {x, Dims{1}, Dims{0}});  // 3 0 1 2
    backward(ops().one("aten::sum", {ops().one("aten::mul.Tensor", {rolled, weights})}));
    CHECK(whole(grad_of(x)) == Values{10, 100, 1000, 1});
  });
}

TEST_CASE("D-45 t_ keeps placements: the handle's shape changes, cut dims are refused") {
  OpMesh mesh({2});
  mesh.run([&](RankContext&) {
    for (const char* text : {"R", "P(sum)"}) {
      const DTensor x = mesh.place(text, {3, 2}, counted(6));
      const DTensor result = ops().one("aten::t_", {x});
      CHECK(result.impl() == x.impl());
      CHECK(x.shape() == Dims{2, 3});
      CHECK(whole(x) == Values{0, 2, 4, 1, 3, 5});
    }
    const DTensor cut = mesh.place("S(0)", {3, 2}, counted(6));
    CHECK(kind_of([&] { ops().one("aten::t_", {cut}); }) == ErrorKind::kRuntime);
    CHECK(cut.shape() == Dims{3, 2});
  });
}

TEST_CASE("as_strided exchanges whole dims and refuses what would read across pieces") {
  OpMesh mesh({4});
  mesh.run([&](RankContext&) {
    const DTensor x = mesh.place("S(0)", {6, 4}, counted(24));
    const DTensor same = ops().one("aten::as_strided", {x, Dims{6, 4}, Dims{4, 1}});
    CHECK(same.spec()->placement(0) == Placement::shard(0));
    const DTensor turned = ops().one("aten::as_strided", {x, Dims{4, 6}, Dims{1, 4}});
    CHECK(turned.spec()->placement(0) == Placement::shard(1));
    CHECK(whole(turned)[1] == 4);
    CHECK(kind_of([&] {
            ops().one("aten::as_strided", {x, Dims{2, 2}, Dims{4, 1}});
          }) == ErrorKind::kRuntime);
    CHECK(kind_of([&] {
            ops().one("aten::as_strided", {x, Dims{6, 4}, Dims{4, 1}, 1});
          }) == ErrorKind::kRuntime);
  });
}

}  // namespace
}  // namespace shardlab::test
