// Texts, equality and refused specs. A recorded refusal has only its message, so the spec to build
// is read from the message.
#include "tests/facts/fact_json.h"
#include "tests/facts/layout_facts.h"

namespace shardlab {
namespace {

Placement placement_of(const Json& text) { return placements_of(Json::array({text}))[0]; }

void check_placement(const Json& fact, CaseReport& report) {
  const Placement placement = placement_of(fact.at("placement"));
  report.expect("str", our_spelling(fact.at("str").get<std::string>()), to_string(placement));
  report.skip_field(SkipReason::kReferenceText);  // repr
  // In the reference a strided shard is not a Shard; here is_shard() is true for both.
  report.expect("is_shard", fact.at("is_shard"), placement.is_plain_shard());
  report.expect("is_replicate", fact.at("is_replicate"), placement.is_replicate());
  report.expect("is_partial", fact.at("is_partial"), placement.is_partial());
}

void check_equality(const Json& fact, CaseReport& report) {
  const Placement a = placement_of(fact.at("a")), b = placement_of(fact.at("b"));
  report.expect("equal", fact.at("equal"), a == b);
  report.expect("hash_equal", fact.at("hash_equal"), hash_of(a) == hash_of(b));
}

/// The line records the message and not the call; the wording identifies the call.
void check_invalid_spec(Arena& arena, const Json& recorded, CaseReport& report) {
  const MeshLayout* layout = arena.layout({{2, 2}, {}, {}});
  const TensorMeta meta = contiguous_meta(Dims{8, 8}, DType::kF32);
  const Placement shard = Placement::shard(0);
  const auto& message = recorded.at("msg").get_ref<const std::string&>();
  const auto says = [&](std::string_view part) { return message.find(part) != std::string::npos; };
  if (says("doesn't have a matching shard")) {
    report.expect_error("invalid_spec_error", recorded, [&] {
      arena.spec(layout, {shard, shard}, {0, -1}, meta);
    });
  } else if (says("must be normalized")) {
    report.expect_error("invalid_spec_error", recorded, [&] {
      arena.spec(layout, {Placement::shard(-1), Placement::replicate()}, meta);
    });
  } else if (says("use_strided_shard_as_shard_order")) {
    report.expect_error("invalid_spec_error", recorded, [&] {
      arena.spec(layout, {Placement::strided_shard(0, 2), shard}, {1, 0}, meta);
    });
  } else if (says("tensor dim should be sorted")) {
    report.skip(SkipReason::kNotExpressible);
  } else {
    report.skip(SkipReason::kNoInput);
  }
}

/// "Spec(f32[8, 8](S(5)R))": a spec that the reference makes.
void check_accepted_spec(Arena& arena, const std::string& text, CaseReport& report) {
  const std::size_t open = text.find("](") + 2;
  Placements placements;
  for (std::size_t start = open; start < text.size() && text[start] != ')';) {
    std::size_t end = start + 1;  // "R" alone, or up to the closing bracket
    if (end < text.size() && text[end] != ')' && text[start] != 'R') end = text.find(')', end) + 1;
    placements.push_back(placement_of(text.substr(start, end - start)));
    start = end;
  }
  Dims shape;
  const std::string sizes = text.substr(text.find('['), open - 1 - text.find('['));
  for (const Json& size : parsed_json(sizes)) shape.push_back(integer_of<std::int64_t>(size));
  const MeshLayout* layout = arena.layout({Dims(placements.size(), 2), {}, {}});
  const auto kind =
      error_of([&] { arena.spec(layout, placements, contiguous_meta(shape, DType::kF32)); });
  report.expect("invalid_spec", "no error", kind ? std::string(to_string(*kind)) : "no error");
}

}  // namespace

void check_text_and_equality(Arena& arena, const Json& fact, CaseReport& report) {
  if (fact.contains("placement")) return check_placement(fact, report);
  if (fact.contains("a")) return check_equality(fact, report);
  if (fact.contains("invalid_spec_error")) {
    return check_invalid_spec(arena, fact.at("invalid_spec_error"), report);
  }
  check_accepted_spec(arena, fact.at("invalid_spec").get_ref<const std::string&>(), report);
}

}  // namespace shardlab
