// Placements are tried in the order of the cost of moving there, which is a lower bound of the
// whole price: the search ends when no further one can be among the cheapest.
#include "propagate/nearest_placements.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mesh/type_string.h"
#include "plan/cost.h"
#include "schema/op_row.h"

namespace shardlab {
namespace {

constexpr std::size_t kReported = 2, kTried = 64;

// A tensor among the arguments.
struct Place {
  std::size_t argument = 0, element = 0;
  bool in_list = false;
};

std::vector<Place> places_of(const OpSchema& schema) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < schema.args.size(); ++i) {
    if (schema.args[i].is_spec()) places.push_back({i, 0, false});
    if (!schema.args[i].is_list()) continue;
    for (std::size_t k = 0; k < schema.args[i].list().size(); ++k) {
      if (schema.args[i].list()[k].is_spec()) places.push_back({i, k, true});
    }
  }
  return places;
}

const DTensorSpec* spec_at(const OpSchema& schema, const Place& place) {
  const Argument& argument = schema.args[place.argument];
  return place.in_list ? argument.list()[place.element].spec() : argument.spec();
}

void replace(OpSchema& schema, const Place& place, const DTensorSpec* spec) {
  Argument& argument = schema.args[place.argument];
  if (!place.in_list) {
    argument = spec;
    return;
  }
  ArgumentList list = argument.list();
  list[place.element] = spec;
  argument = std::move(list);
}

struct Moved {
  Place place;
  const DTensorSpec* to = nullptr;
};

struct WayOut {
  std::vector<Moved> inputs;
  double price = 0;
};

class Search {
 public:
  Search(const OpSchema& schema, const PlanOptions& options)
      : schema_(schema), options_(options), places_(places_of(schema)) {}

  std::string text(const DecideFn& decide) {
    for (const Place& place : places_) add_moves_of(place);
    std::vector<Moved> whole;
    for (const Place& place : places_) {
      const DTensorSpec* spec = spec_at(schema_, place);
      const DTensorSpec* replicated = spec->with(Placements(spec->layout()->ndim()));
      if (replicated != spec) whole.push_back({place, replicated});
    }
    if (whole.size() > 1) add(std::move(whole));
    const auto cheaper = [](const WayOut& a, const WayOut& b) { return a.price < b.price; };
    std::ranges::stable_sort(ways_, cheaper);
    if (ways_.size() > kTried) ways_.resize(kTried);
    std::vector<WayOut> found;
    for (WayOut& way : ways_) {
      if (found.size() == kReported && way.price >= found.back().price) break;
      way.price += price_of_call(way, decide);
      if (std::isinf(way.price)) continue;
      found.insert(std::ranges::upper_bound(found, way, cheaper), way);
      if (found.size() > kReported) found.pop_back();
    }
    std::string text;
    for (const WayOut& way : found) text += (text.empty() ? "" : ", or ") + text_of(way);
    return text;
  }

 private:
  void add_moves_of(const Place& place) {
    const DTensorSpec* given = spec_at(schema_, place);
    std::vector<const DTensorSpec*> targets;
    const auto target = [&](const Placements& placements) {
      const DTensorSpec* spec = given->with(placements);
      if (spec != given && std::ranges::find(targets, spec) == targets.end()) {
        targets.push_back(spec);
      }
    };
    for (std::size_t mesh_dim = 0; mesh_dim < given->layout()->ndim(); ++mesh_dim) {
      Placements placements = given->placements();
      placements[mesh_dim] = Placement::replicate();
      target(placements);
      for (std::size_t dim = 0; dim < given->ndim(); ++dim) {
        placements[mesh_dim] = Placement::shard(static_cast<std::int64_t>(dim));
        target(placements);
      }
    }
    for (const Place& other : places_) {
      const DTensorSpec* spec = spec_at(schema_, other);
      if (spec->ndim() == given->ndim()) target(spec->placements());
    }
    target(Placements(given->layout()->ndim()));
    for (const DTensorSpec* spec : targets) add({{place, spec}});
  }

  void add(std::vector<Moved> inputs) {
    double price = 0;
    for (const Moved& moved : inputs) {
      price += redistribute_cost(*spec_at(schema_, moved.place), *moved.to, options_);
    }
    if (!std::isinf(price)) ways_.push_back({std::move(inputs), price});
  }

  // Infinite for a call that is refused.
  double price_of_call(const WayOut& way, const DecideFn& decide) const {
    OpSchema schema = schema_;
    for (const Moved& moved : way.inputs) replace(schema, moved.place, moved.to);
    try {
      const OutputSharding sharding = decide(schema);
      return std::accumulate(sharding.costs.begin(), sharding.costs.end(), 0.0);
    } catch (const std::exception&) {
      return std::numeric_limits<double>::infinity();
    }
  }

  std::string text_of(const WayOut& way) const {
    std::string text;
    for (const Moved& moved : way.inputs) {
      const std::string_view name = schema_.row->op.arguments[moved.place.argument].name;
      text += text.empty() ? "" : " and ";
      text += name;
      if (moved.place.in_list) text += fmt::format("[{}]", moved.place.element);
      text += " " + type_string(*moved.to);
    }
    return fmt::format("{} for {}", text, price_text(way.price));
  }

  const OpSchema& schema_;
  const PlanOptions& options_;
  std::vector<Place> places_;
  std::vector<WayOut> ways_;
};

}  // namespace

std::string nearest_placements(const OpSchema& schema, const PlanOptions& options,
                               const DecideFn& decide) {
  return Search(schema, options).text(decide);
}

}  // namespace shardlab
