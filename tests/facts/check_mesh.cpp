// Meshes as arrays of ranks: coordinates, groups, slices and flattened dims as one rank sees them,
// and meshes that cannot be made.
#include "mesh/mesh_views.h"
#include "tests/facts/fact_json.h"
#include "tests/facts/layout_facts.h"

namespace shardlab {
namespace {

/// Nested lists (or a single number) as shape and ranks.
void read_nested(const Json& value, std::size_t depth, MeshLayout::Init* init) {
  if (!value.is_array()) {
    init->ranks.push_back(integer_of<std::int64_t>(value));
    return;
  }
  if (depth == init->shape.size()) {
    init->shape.push_back(static_cast<std::int64_t>(value.size()));
  }
  for (const Json& item : value) read_nested(item, depth + 1, init);
}

MeshLayout::Init init_of(const Json& mesh, const Json& names) {
  MeshLayout::Init init;
  read_nested(mesh, 0, &init);
  if (names.is_array()) init.names = names.get<std::vector<std::string>>();
  return init;
}

Json nested(const MeshLayout& layout, std::size_t dim, std::int64_t index) {
  if (dim == layout.ndim()) return layout.rank_at_index(index);
  Json list = Json::array();
  for (std::int64_t i = 0; i < layout.size(dim); ++i) {
    list.push_back(nested(layout, dim + 1, index * layout.size(dim) + i));
  }
  return list;
}

Json coordinate_of(const MeshLayout& layout, std::int64_t rank) {
  const auto coordinate = layout.coordinate_of(rank);
  return coordinate ? json_of(*coordinate) : Json();
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('+', start), text.size());
    names.push_back(text.substr(start, end - start));
    start = end + 1;
  }
  return names;
}

/// Ranks of the group along `mesh_dim` that holds `rank`, against the recorded list or error.
void check_group(const std::string& field, const Json& recorded, const MeshLayout& layout,
                 std::size_t mesh_dim, std::int64_t rank, CaseReport& report) {
  if (recorded.is_object()) {
    report.expect_error(field, recorded, [&] { layout.group_of(mesh_dim, rank); });
  } else {
    report.expect(field, recorded, json_of(layout.group_of(mesh_dim, rank)));
  }
}

void check_slice(const MeshLayout* layout, const std::string& joined, const Json& recorded,
                 std::int64_t rank, CaseReport& report) {
  const std::vector<std::string> names = split_names(joined);
  const std::string field = "slices." + joined;
  if (recorded.contains("error")) {
    report.expect_error(field, recorded.at("error"), [&] { slice_layout(layout, names, rank); });
    return;
  }
  const MeshLayout* slice = slice_layout(layout, names, rank);
  report.expect(field + ".mesh", recorded.at("mesh"), nested(*slice, 0, 0));
  report.expect(field + ".coordinate", recorded.at("coordinate"), coordinate_of(*slice, rank));
  report.expect(field + ".equal_to_parent", recorded.at("equal_to_parent"), slice == layout);
  if (!recorded.contains("flatten")) return;
  const MeshLayout* flat = flatten_layout(layout, names, rank, "");
  report.expect(field + ".flatten", recorded.at("flatten"), nested(*flat, 0, 0));
  report.expect(field + ".flatten_coordinate", recorded.at("flatten_coordinate"),
                coordinate_of(*flat, rank));
  check_group(field + ".flatten_group", recorded.at("flatten_group"), *flat, 0, rank, report);
}

/// A mesh as one rank sees it.
void check_view(Arena& arena, const Json& fact, CaseReport& report) {
  const MeshLayout* layout = arena.layout(init_of(fact.at("mesh"), fact.at("names")));
  layout->check_fits(integer_of<std::int64_t>(fact.at("world")));
  const auto rank = integer_of<std::int64_t>(fact.at("rank"));
  report.skip_field(SkipReason::kReferenceText);  // repr
  report.expect("shape", fact.at("shape"), json_of(layout->shape()));
  report.expect("ndim", fact.at("ndim"), layout->ndim());
  report.expect("size", fact.at("size"), layout->size());
  const Json coordinate = coordinate_of(*layout, rank);
  report.expect("coordinate", fact.at("coordinate"), coordinate);
  for (std::size_t dim = 0; dim < layout->ndim(); ++dim) {
    check_group(fmt::format("groups.{}", dim), fact.at("groups").at(dim), *layout, dim, rank,
                report);
    const std::string field = fmt::format("local_rank.{}", dim);
    const Json& local_rank = fact.at("local_rank").at(dim);
    if (local_rank.is_object()) {  // no group to have a place in
      report.expect_error(field, local_rank, [&] { layout->group_of(dim, rank); });
    } else {
      report.expect(field, local_rank, coordinate.at(dim));
    }
  }
  if (!fact.contains("slices")) return;
  for (const auto& [names, recorded] : fact.at("slices").items()) {
    check_slice(layout, names, recorded, rank, report);
  }
  const std::string unknown[] = {"nope"};
  report.expect_error("bad_slice", fact.at("bad_slice"),
                      [&] { slice_layout(layout, unknown, rank); });
}

/// A mesh that is made or refused.
void check_making(const Json& fact, CaseReport& report, const std::function<void()>& make) {
  if (fact.contains("error")) {
    report.expect_error("error", fact.at("error"), make);
  } else if (const auto kind = error_of(make)) {
    report.differs("ok", "no error", std::string(to_string(*kind)));
  }
}

void check_equality(Arena& arena, const Json& fact, CaseReport& report) {
  const MeshLayout* base = arena.layout({{2, 2}, {"a", "b"}, {}});
  const MeshLayout* same = arena.layout({{2, 2}, {"a", "b"}, {0, 1, 2, 3}});
  report.expect("same_layout_equal", fact.at("same_layout_equal"), base == same);
  report.expect("same_hash", fact.at("same_hash"), base->hash() == same->hash());
  report.expect("named_vs_unnamed_equal", fact.at("named_vs_unnamed_equal"),
                base == arena.layout({{2, 2}, {}, {}}));
  report.expect("1d_vs_2d_equal", fact.at("1d_vs_2d_equal"),
                arena.layout({{4}, {}, {}}) == arena.layout({{2, 2}, {}, {}}));
  report.expect("transposed_equal", fact.at("transposed_equal"),
                base == arena.layout({{2, 2}, {"a", "b"}, {0, 2, 1, 3}}));
}

}  // namespace

void check_device_mesh(Arena& arena, const Json& fact, CaseReport& report) {
  constexpr std::int64_t kWorld = 4;  // of the rows without a "world" (README of the facts)
  const auto& name = fact.at("name").get_ref<const std::string&>();
  if (fact.contains("rank")) return check_view(arena, fact, report);
  if (name == "equality") return check_equality(arena, fact, report);
  check_making(fact, report, [&] {
    if (name == "names") {
      arena.layout({{2, 2}, fact.at("names").get<std::vector<std::string>>(), {}});
    } else if (fact.contains("shape")) {
      mesh_of(arena, fact.at("shape"))->check_fits(integer_of<std::int64_t>(fact.at("world")));
    } else {
      arena.layout(init_of(fact.at("mesh"), {}))->check_fits(kWorld);
    }
  });
}

}  // namespace shardlab
