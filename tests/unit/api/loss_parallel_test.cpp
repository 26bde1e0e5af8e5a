// Cross entropy over logits whose classes are cut.
#include <doctest/doctest.h>

#include "sim/world/spmd.h"
#include "tests/unit/dispatch/op_mesh.h"
#include "tests/unit/dispatch/seen.h"

namespace shardlab {
namespace {

using test::whole;
using Values = std::vector<double>;

void check_loss(const Values& got, const Values& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-5).scale(1e-3));
  }
}

struct Expected {
  const char* reduction;
  std::int64_t ignored;
  bool weighted;
  Values loss, gradient;  ///< of the sum of the loss's elements; row by row, three samples
};

// Logits [3, 5]; targets 4, 0, 2; weights 1 to 5. Written down from the reference on one device.
const Values kLogits{1, -2, 0.5, 3, 0, -1, 2, 0.25, 0, 1, 4, 0, -3, 1, 1};
const Expected kCases[] = {
    {"mean",
     -100,
     false,
     {4.633544},
     {0.03541107, 0.001763013, 0.0214779, 0.2616543, -0.3203063, -0.3237225, 0.193038, 0.03354497,
      0.02612485, 0.0710147, 0.2979379, 0.005456923, -0.3330617, 0.01483345, 0.01483345}},
    {"mean",
     -100,
     true,
     {4.565958},
     {0.05901845, 0.002938355, 0.0357965, 0.4360906, -0.5338439, -0.1079075, 0.06434599, 0.01118166,
      0.008708283, 0.02367157, 0.2979379, 0.005456923, -0.3330617, 0.01483345, 0.01483345}},
    {"mean",
     0,
     true,
     {4.69342},
     {0.06639575, 0.003305649, 0.04027106, 0.4906019, -0.6005744, 0, 0, 0, 0, 0, 0.3351801,
      0.006139038, -0.3746943, 0.01668763, 0.01668763}},
    {"sum",
     -100,
     false,
     {13.90063},
     {0.1062332, 0.005289038, 0.06443369, 0.784963, -0.960919, -0.9711676, 0.579114, 0.1006349,
      0.07837455, 0.2130441, 0.8938136, 0.01637077, -0.999185, 0.04450035, 0.04450035}},
    {"sum",
     -100,
     true,
     {41.09362},
     {0.531166, 0.02644519, 0.3221685, 3.924815, -4.804595, -0.9711676, 0.579114, 0.1006349,
      0.07837455, 0.2130441, 2.681441, 0.04911231, -2.997555, 0.1335011, 0.1335011}},
    {"sum",
     0,
     true,
     {37.54736},
     {0.531166, 0.02644519, 0.3221685, 3.924815, -4.804595, 0, 0, 0, 0, 0, 2.681441, 0.04911231,
      -2.997555, 0.1335011, 0.1335011}},
    {"none",
     -100,
     false,
     {3.242119, 3.546256, 7.112258},
     {0.1062332, 0.005289038, 0.06443369, 0.784963, -0.960919, -0.9711676, 0.579114, 0.1006349,
      0.07837455, 0.2130441, 0.8938136, 0.01637077, -0.999185, 0.04450035, 0.04450035}},
    {"none",
     -100,
     true,
     {16.21059, 3.546256, 21.33677},
     {0.531166, 0.02644519, 0.3221685, 3.924815, -4.804595, -0.9711676, 0.579114, 0.1006349,
      0.07837455, 0.2130441, 2.681441, 0.04911231, -2.997555, 0.1335011, 0.1335011}},
    {"none",
     0,
     true,
     {16.21059, 0, 21.33677},
     {0.531166, 0.02644519, 0.3221685, 3.924815, -4.804595, 0, 0, 0, 0, 0, 2.681441, 0.04911231,
      -2.997555, 0.1335011, 0.1335011}},
};

TEST_CASE("a loss over cut classes is that of one device, whatever counts") {
  struct Where {
    std::vector<MeshDim> mesh;
    const char* logits;
    const char* target;
  };
  const Where places[] = {
      {{{"tp", 2}}, "tp=S(1)", "tp=R"},                         // three classes and two
      {{{"tp", 7}}, "tp=S(1)", "tp=R"},                         // ranks without a class
      {{{"dp", 2}, {"tp", 2}}, "dp=S(0), tp=S(1)", "dp=S(0)"},  // two samples and one
      {{{"dp", 4}, {"tp", 2}}, "dp=S(0), tp=S(1)", "dp=R"},     // ranks without a sample
      {{{"dp", 2}, {"tp", 3}}, "dp=P(sum), tp=S(1)", "dp=R"},
  };
  for (const Where& where : places) {
    std::int64_t ranks = 1;
    for (const MeshDim& dim : where.mesh) ranks *= dim.size;
    CAPTURE(where.logits);
    spmd(ranks, [&](RankContext&) {
      const MeshLayout* mesh = init_mesh(where.mesh);
      const DTensor target =
          distribute_tensor(tensor({4, 0, 2}, {3}, DType::kI64), mesh, where.target);
      for (const Expected& row : kCases) {
        CAPTURE(row.reduction);
        const DTensor logits = distribute_tensor(tensor(kLogits, {3, 5}), mesh, where.logits);
        require_grad(logits);
        ClassLoss how{{}, row.reduction, row.ignored};
        if (row.weighted) how.weight = tensor({1, 2, 3, 4, 5}, {5});
        const DTensor loss = loss_parallel(logits, target, how);
        check_loss(whole(loss), row.loss);
        backward(sum(loss));
        check_loss(whole(grad_of(logits)), row.gradient);
      }
    });
  }
}

TEST_CASE("a loss over cut classes reduces three numbers per sample and never moves the logits") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"tp", 4}});
    const DTensor logits = distribute_tensor(rand({6, 90}), mesh, "tp=S(1)");
    require_grad(logits);
    test::Seen seen;
    const DTensor loss = loss_parallel(logits, tensor({0, 89, 5, 7, 1, 2}, {6}, DType::kI64));
    REQUIRE(seen.collectives.size() == 3);
    for (const CollectiveRecord& record : seen.collectives) {
      CHECK(record.kind == CollectiveKind::kAllReduce);
      CHECK(record.input_shape == Dims{6, 1});
    }
    CHECK(loss.spec()->is_replicated());
    backward(loss);
    CHECK(seen.collectives.size() == 3);
    CHECK(grad_of(logits).spec() == logits.spec());
  });
}

TEST_CASE("a loss over cut classes refuses classes that are whole, cut twice, or plain") {
  spmd(4, [](RankContext&) {
    const MeshLayout* mesh = init_mesh({{"dp", 2}, {"tp", 2}});
    const DTensor target = tensor({0, 1}, {2}, DType::kI64);
    const auto refused = [&](const DTensor& logits, const ClassLoss& how) {
      CHECK_THROWS_WITH_AS(loss_parallel(logits, target, how), doctest::Contains("loss_parallel"),
                           Error);
    };
    refused(zeros({2, 4}), {});
    refused(distribute_tensor(zeros({2, 4}), mesh, "dp=S(0)"), {});
    refused(distribute_tensor(zeros({2, 4}), mesh, "dp=S(1), tp=S(1)"), {});
    refused(distribute_tensor(zeros({2, 4}), mesh, "tp=S(1)"), {{}, "average", -100});
  });
}

}  // namespace
}  // namespace shardlab
