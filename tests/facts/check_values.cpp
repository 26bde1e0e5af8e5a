// Redistributions and their gradients, run on simulated ranks from the recorded pieces.
#include "redistribute/redistribute.h"
#include "tensor/host.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/fact_world.h"

// Values that real processes ended with, against our ranks (values_* and backward_* of the facts).

namespace shardlab {
namespace {

DType dtype_or(const Json& names, const char* key, DType otherwise) {
  return names.contains(key) ? dtype_of(names.at(key)) : otherwise;
}

Tensor converted(FactWorld& world, const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor result = empty(world.device(), x.shape(), dtype);
  write_doubles(result, read_doubles(x));
  return result;
}

const DTensorSpec* with_dtype(const DTensorSpec* spec, DType dtype) {
  TensorMeta meta = spec->meta();
  meta.dtype = dtype;
  return spec->with(meta);
}

class ValuesChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    const SpecPair specs = specs_of(world_.arena(), fact);
    if (fact.contains("error")) {
      report.expect_error("error", fact.at("error"), [&] { moved(fact, specs, {}, nullptr); });
      return;
    }
    FactCounts counts;
    expect_pieces("out", fact.at("out"), moved(fact, specs, {}, &counts), report);
    if (fact.contains("comms")) report.expect("comms", fact.at("comms"), Json(counts));
    // The public method of the reference refused this; its executor does it, and so does ours
    //
    if (fact.contains("api_error")) {
      report.differs("api_error", fact.at("api_error").at("type"), "no error");
    }
    if (!fact.contains("graph_same")) return;
    const char* recorded = fact.at("graph_same").get<bool>() ? "out" : "graph_out";
    const auto by_graph = moved(fact, specs, PlannerKind::kGraph, nullptr);
    expect_pieces("graph_out", fact.at(recorded), by_graph, report);
  }

 private:
  std::vector<Json> moved(const Json& fact, const SpecPair& specs,
                          std::optional<PlannerKind> planner, FactCounts* counts) {
    const Json& pieces = fact.at("in");
    std::vector<Json> out(pieces.size());
    const auto body = [&](std::size_t rank) {
      const Tensor local = world_.tensor_of(pieces.at(rank), specs.source->dtype());
      out[rank] = FactWorld::json_of(
          redistribute_local(local, specs.source, specs.target, {.planner = planner}));
    };
    world_.run(specs.source->layout(), body, counts);
    return out;
  }

  FactWorld world_;
};

/// A redistribution and its gradient, with the dtypes of W-12.
class BackwardChecker : public FactChecker {
 public:
  void check(const Json& fact, CaseReport& report) override {
    if (fact.contains("error")) {
      report.expect_error("error", fact.at("error"), [&] { run(fact); });
      return;
    }
    const Outcome outcome = run(fact);
    const Json& labels = fact.at("grad_placements");
    if (outcome.target == nullptr || labels.size() != outcome.target->layout()->ndim()) {
      fail(ErrorKind::kValue, "a backward has a gradient (gin) and one placement a mesh dim");
    }
    expect_pieces("gout", fact.at("gout"), outcome.gradients, report);
    for (std::size_t dim = 0; dim < labels.size(); ++dim) {
      report.expect(fmt::format("grad_placements.{}", dim), labels[dim],
                    to_string(outcome.target->placement(dim)));
    }
    report.expect("fwd_comms", fact.at("fwd_comms"), Json(outcome.forward));
    report.expect("bwd_comms", fact.at("bwd_comms"), Json(outcome.backward));
    report.expect("fwd_dtype", fact.at("fwd_dtype"), std::string(to_string(outcome.forward_dtype)));
    report.expect("grad_dtype", fact.at("grad_dtype"),
                  std::string(to_string(outcome.gradient_dtype)));
  }

 private:
  struct Outcome {
    std::vector<Json> gradients;
    const DTensorSpec* target = nullptr;
    DType forward_dtype = DType::kF32, gradient_dtype = DType::kF32;
    FactCounts forward, backward;
  };

  Outcome run(const Json& fact) {
    const SpecPair specs = specs_of(world_.arena(), fact);
    const DType original = specs.source->dtype();
    const Json dtypes = fact.value("dtypes", Json::object());
    const DType forward = dtype_or(dtypes, "forward_dtype", original);
    const DType backward = dtype_or(dtypes, "backward_dtype", original);
    Outcome outcome;
    std::vector<Tensor> outputs(fact.at("in").size());
    const auto move = [&](std::size_t rank) {
      const Tensor local = world_.tensor_of(fact.at("in").at(rank), original);
      outputs[rank] =
          redistribute_local(converted(world_, local, forward), with_dtype(specs.source, forward),
                             with_dtype(specs.target, forward));
    };
    world_.run(specs.source->layout(), move, &outcome.forward);
    outcome.forward_dtype = outputs[0].dtype();
    if (!fact.contains("gin")) return outcome;

    const DTensorSpec* gradient =
        with_dtype(specs.source, backward)->with(placements_of(fact.at("gplace")));
    outcome.target = gradient_target(gradient, specs.source);
    outcome.gradients.resize(outputs.size());
    const auto move_back = [&](std::size_t rank) {
      const Tensor incoming = world_.tensor_of(fact.at("gin").at(rank), forward);
      const Tensor local = redistribute_local(converted(world_, incoming, backward), gradient,
                                              outcome.target, {.direction = Direction::kBackward});
      const Tensor result = converted(world_, local, original);
      outcome.gradients[rank] = FactWorld::json_of(result);
      if (rank == 0) outcome.gradient_dtype = result.dtype();
    };
    world_.run(specs.source->layout(), move_back, &outcome.backward);
    return outcome;
  }

  FactWorld world_;
};

}  // namespace

std::unique_ptr<FactChecker> make_values_checker(std::string_view) {
  return std::make_unique<ValuesChecker>();
}

std::unique_ptr<FactChecker> make_backward_checker(std::string_view) {
  return std::make_unique<BackwardChecker>();
}

}  // namespace shardlab
