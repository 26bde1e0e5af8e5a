// Facts about types: an op's expression runs as a program whose tensors have the recorded types, so
// that the check of programs is compared, too; all else asks the rules themselves.
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "autograd/tape.h"
#include "base/text.h"
#include "dispatch/all_ops.h"
#include "sim/files/json_value.h"
#include "sim/language/run/interpreter.h"
#include "sim/language/syntax/parser.h"
#include "sim/types/einsum_type.h"
#include "sim/types/typed_program.h"
#include "tests/facts/case_report.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/plain_world.h"
#include "tests/facts/type_facts.h"

namespace shardlab {
namespace {

constexpr const char* kRefused = "refused";

SpmdType type_at(const Json& fact, const char* field) {
  return *parse_spmd_type(fact.at(field).get<std::string>());
}

std::string text_of(const TypeAnswer& answer) {
  return answer.type ? to_string(*answer.type) : kRefused;
}

std::string recorded_text(const Json& fact) {
  if (!fact.at("ok").get<bool>()) return kRefused;
  const Json& out = fact.at("out");
  if (!out.is_array()) return out.get<std::string>();
  std::vector<std::string> texts;
  for (const Json& one : out) texts.push_back(one.get<std::string>());
  return text_of_list(texts, "/");
}

TypeAnswer move_answer(const Json& fact) {
  std::string name = fact.at("call").get<std::string>();
  const std::size_t comma = name.find(',');
  TypedMove move{name, SpmdType::same_work(), SpmdType::replicated(), comma != name.npos};
  if (comma != name.npos) move.name = std::string_view(name).substr(0, comma);
  if (fact.contains("src")) move.src = type_at(fact, "src");
  if (fact.contains("dst")) move.dst = type_at(fact, "dst");
  return type_of_move(move, type_at(fact, "actual"), TypeMode::kLocal);
}

TypeAnswer collective_answer(const Json& fact) {
  constexpr std::pair<const char*, CollectiveKind> kKinds[] = {
      {"all_reduce", CollectiveKind::kAllReduce},
      {"all_gather", CollectiveKind::kAllGather},
      {"all_gather_single", CollectiveKind::kAllGather},
      {"reduce_scatter_single", CollectiveKind::kReduceScatter},
      {"all_to_all_single", CollectiveKind::kAllToAll},
      {"broadcast", CollectiveKind::kBroadcast}};
  for (const auto& [name, kind] : kKinds) {
    if (fact.at("call") != name) continue;
    return type_of_collective(kind, type_at(fact, "in"), type_at(fact, "given_out"));
  }
  return {std::nullopt, "no such collective", {}};
}

TypeAnswer einsum_answer(const Json& fact) {
  LinearIn linear_in;
  for (const Json& group : fact.at("linear_in")) {
    linear_in.emplace_back();
    for (const Json& one : group.is_array() ? group : Json::array({group})) {
      linear_in.back().push_back(integer_of<std::size_t>(one));
    }
  }
  SpmdTypes types;
  for (const Json& one : fact.at("in")) types.push_back(*parse_spmd_type(one.get<std::string>()));
  return type_of_einsum(parse_einsum(fact.at("text").get<std::string>()), linear_in, types);
}

class TypeChecker final : public FactChecker {
 public:
  TypeChecker() {
    MeshLayout::Init init;
    init.shape = {2, 4};
    init.names = {"dp", "tp"};
    layout_ = process_arena().layout(std::move(init));
  }

  void begin(const CheckOptions&, const std::string& path) override {
    std::ifstream file(std::filesystem::path(path).parent_path() / "ops.json");
    expressions_ = Json::parse(file);
  }

  void check(const Json& fact, CaseReport& report) override {
    if (!fact.contains("kind")) return;  // versions and mesh
    const std::string kind = fact.at("kind").get<std::string>();
    const std::string recorded = recorded_text(fact);
    const auto expect = [&](const TypeAnswer& answer) {
      report.expect("out", recorded, text_of(answer));
      report.expect("has a reason", !answer.type, !answer.rule.empty());
    };
    if (kind == "move") return expect(move_answer(fact));
    if (kind == "raw") return expect(collective_answer(fact));
    if (kind == "einsum") return expect(einsum_answer(fact));
    if (kind == "loss") {
      const bool refused = refused_loss(type_at(fact, "dp")) || refused_loss(type_at(fact, "tp"));
      return report.expect("out", recorded, refused ? kRefused : "accepted");
    }
    world_.run([&] { report.expect("out", recorded, run(fact)); });
  }

 private:
  // The types of the results along tp, or that the program was refused.
  std::string run(const Json& fact) {
    const std::string expression = expressions_.at(fact.at("op").get<std::string>());
    const ast::Program program =
        parse_program(std::make_shared<SourceText>("op", "f = " + expression + "\n"));
    const Environment params;
    Interpreter in({.program = &program,
                    .params = &params,
                    .registry = &all_ops(),
                    .layout = layout_,
                    .reported = layout_,
                    .world_size = 8});
    in.run();
    const bool local = fact.at("kind") == "local";
    TypedProgram typed(program_calls(), local ? TypeMode::kLocal : TypeMode::kStrict, layout_);
    const ProgramScope scope(typed);
    CallValues call;
    for (const Json& one : fact.at("in")) {
      const TensorMeta meta = contiguous_meta(Dims{4, 4}, DType::kF32);
      const DTensor x(empty(*current_rank().device, meta));
      current_rank().device->write(x.local(), std::array<float, 16>{1, 2, 3, 4}.data());
      if (fact.at("grad").get<bool>()) require_grad(x);
      const SpmdType type = *parse_spmd_type(one.get<std::string>());
      typed.has(x, tensor_type(SpmdTypes{SpmdType::replicated(), type}));
      call.positional.emplace_back(x);
    }
    try {
      return text_of_results(typed, in.call(*in.find("f"), std::move(call)));
    } catch (const Error& error) {
      if (error.find("types") == nullptr) throw;
      return kRefused;
    }
  }

  static std::string text_of_results(const TypedProgram& typed, const Value& value) {
    if (const auto* x = value.get<DTensor>()) {
      const TensorType* type = typed.type_of(*x);
      return type == nullptr ? "no type" : to_string(type->types[1]);
    }
    std::vector<std::string> texts;
    for (const Value& item : items_of(value)) texts.push_back(text_of_results(typed, item));
    return text_of_list(texts, "/");
  }

  PlainWorld world_;
  const MeshLayout* layout_ = nullptr;
  Json expressions_;
};

}  // namespace

std::unique_ptr<FactChecker> make_type_checker(std::string_view /*stem*/) {
  return std::make_unique<TypeChecker>();
}

}  // namespace shardlab
