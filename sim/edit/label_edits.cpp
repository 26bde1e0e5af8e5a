// Labels are written in the words of the program: Shard(0), or S(0).
#include <fmt/format.h>

#include <algorithm>

#include "sim/edit/found_edits.h"

namespace shardlab {

namespace {

using ast::Expression;

/// A placement as S(0) and as Shard(0).
struct Spelling {
  const char* brief;
  const char* in_full;
};
constexpr Spelling kReplicate = {"R", "Replicate()"};
constexpr Spelling kPlacements[] = {kReplicate,           {"P(sum)", "Partial()"},
                                    {"S(0)", "Shard(0)"}, {"S(1)", "Shard(1)"},
                                    {"S(2)", "Shard(2)"}, {"P(avg)", "Partial(\"avg\")"}};

// The items of placements=[Shard(0), Replicate()], also where the list has no keyword.
const std::vector<ast::ExpressionPtr>* placement_list(const ast::Call& call) {
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const ast::CallArgument& argument = call.arguments[i];
    if (argument.keyword != "placements" && (i == 0 || !argument.keyword.empty())) continue;
    if (const auto* list = argument.value->get<ast::List>()) return &list->items;
    if (const auto* tuple = argument.value->get<ast::Tuple>()) return &tuple->items;
  }
  return nullptr;
}

void relabel_in(const std::vector<ast::ExpressionPtr>& placements, FoundEdits& found) {
  for (const ast::ExpressionPtr& placement : placements) {
    const std::string given = found.text.of(*placement);
    const auto has = [&](const char* part) { return given.find(part) != given.npos; };
    const bool in_full = has("Shard(") || has("Replicate(") || has("Partial(");
    const auto word = [&](const Spelling& one) { return in_full ? one.in_full : one.brief; };
    if (given.find('P') != given.npos) {
      found.add(EditKind::kLess, *placement, word(kReplicate), "no sum over its mesh dim");
    }
    for (const Spelling& one : kPlacements) {
      if (word(one) == given) continue;
      found.add(EditKind::kLabel, *placement, word(one),
                fmt::format("{} for {}", word(one), given));
    }
  }
}

void relabel(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  for (const std::string& dim : found.of.mesh_dims) {
    const auto given = std::ranges::find(call.arguments, dim, &ast::CallArgument::keyword);
    if (given != call.arguments.end() && found.text.of(*given->value).starts_with('P')) {
      found.add(EditKind::kLess, expression, found.text.with_argument(call, dim, ""),
                "no sum over " + dim);
    }
    const auto label = [&](const std::string& placement) {
      const std::string value = placement == kReplicate.brief ? "" : placement;
      found.add(EditKind::kLabel, expression, found.text.with_argument(call, dim, value),
                fmt::format("the placement {} on {}", placement, dim));
    };
    for (const Spelling& one : kPlacements) label(one.brief);
    label("SS(0, 2)");
  }
}

// x.to_local() of what is pieces.
void local_pieces(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  const ast::Attribute* method = called_method(&call);
  if (method == nullptr) return;
  const std::string object = found.text.of(*method->object);
  std::vector<std::string> lists = {""};
  for (std::size_t i = 0; i < found.of.mesh_dims.size() && lists.size() < 64; ++i) {
    std::vector<std::string> longer;
    for (const std::string& list : lists) {
      for (const char* placement : {"P(sum)", "S(0)", "S(1)", "R"}) {
        longer.push_back(list + (list.empty() ? "" : ", ") + placement);
      }
    }
    lists = std::move(longer);
  }
  for (const std::string& list : lists) {
    found.add(EditKind::kLabel, expression,
              fmt::format("{}.to_local(grad_placements=[{}])", object, list),
              "placements of the gradient");
  }
  found.add(EditKind::kWhole, expression, object + ".full_tensor()", "the whole tensor");
  for (const std::string& dim : found.of.mesh_dims) {
    for (const char* placement : {"R", "S(0)", "S(1)"}) {
      found.add(EditKind::kWhole, expression,
                fmt::format("{}.redistribute({}={}).to_local()", object, dim, placement),
                fmt::format("the placement {} on {}", placement, dim));
    }
  }
}

// Gradients of local_map's replicas as terms: of all of them, then of some.
void terms_of_map(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  constexpr std::size_t kMost = 6;
  const auto given =
      std::ranges::find(call.arguments, "in_placements", &ast::CallArgument::keyword);
  const bool third = given == call.arguments.end() && call.arguments.size() > 2 &&
                     call.arguments[2].keyword.empty();
  if (given == call.arguments.end() && !third) return;
  const std::string text = found.text.of(third ? *call.arguments[2].value : *given->value);
  const bool in_full = text.find("Replicate()") != text.npos;
  const std::string_view word = in_full ? kReplicate.in_full : kReplicate.brief;
  std::vector<std::size_t> places;
  for (std::size_t at = text.find(word); at != text.npos && places.size() < kMost;
       at = text.find(word, at + 1)) {
    places.push_back(at);
  }
  for (std::size_t chosen = std::size_t{1} << places.size(); --chosen > 0;) {
    std::string terms = text;
    for (std::size_t k = places.size(); k-- > 0;) {
      const char* term = in_full ? kPlacements[1].in_full : kPlacements[1].brief;
      if ((chosen >> k & 1) != 0) terms.replace(places[k], word.size(), term);
    }
    found.add(EditKind::kLabel, expression,
              found.text.with_argument(call, "in_grad_placements", terms),
              "the gradients are terms of a sum");
  }
}

std::string distributed(std::string text) {
  constexpr std::string_view kLocal = ".to_local()";
  for (std::size_t at = 0; (at = text.find(kLocal, at)) != std::string::npos;) {
    text.erase(at, kLocal.size());
  }
  return text;
}

// The sizes of inputs, or of two of them, as those of the whole.
void shapes(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  if (std::ranges::count(call.arguments, "shape", &ast::CallArgument::keyword) > 0) return;
  const auto shape = [&](const std::string& text) {
    found.add(EditKind::kShape, expression, found.text.with_argument(call, "shape", text),
              "the shape of the whole");
  };
  constexpr std::size_t kMost = 4;
  const std::vector<std::string>& inputs = found.of.inputs;
  const std::size_t count = std::min(kMost, inputs.size());
  for (std::size_t i = 0; i < count; ++i) shape(inputs[i] + ".shape");
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < count; ++k) {
      if (i != k) shape(fmt::format("[{}.shape[0], {}.shape[-1]]", inputs[i], inputs[k]));
    }
  }
}

}  // namespace

void find_moves(const Expression& left, const Expression& right, FoundEdits& found) {
  if (!found.of.failed) return;
  for (const auto& [moved, stays] : {std::pair(&right, &left), std::pair(&left, &right)}) {
    const std::string to = found.text.operand(*stays);
    const std::string what = "moved to the mesh of " + found.text.of(*stays);
    for (const std::string& list :
         {to + ".placements", fmt::format("[R] * {}.device_mesh.ndim", to)}) {
      found.add(
          EditKind::kLabel, *moved,
          fmt::format("{}.redistribute({}.device_mesh, {})", found.text.operand(*moved), to, list),
          what);
      found[EditKind::kLabel].back().moves_alone = true;
    }
  }
}

void find_labels(const Expression& expression, const ast::Call& call, FoundEdits& found) {
  const ast::Attribute* method = called_method(&call);
  const bool of_module = method != nullptr && is_module(*method->object);
  const bool plain = call.arguments.size() > 1 && call.arguments[1].keyword.empty();
  if (plain && of_module) find_moves(*call.arguments[0].value, *call.arguments[1].value, found);
  if (call_of(expression, {"from_local", "redistribute", "distribute", "distribute_tensor"})) {
    if (const std::vector<ast::ExpressionPtr>* list = placement_list(call)) {
      relabel_in(*list, found);
    } else {
      relabel(expression, call, found);
    }
  }
  if (call_of(expression, {"to_local"})) local_pieces(expression, call, found);
  if (call_of(expression, {"local_map"})) terms_of_map(expression, call, found);
  if (call_of(expression, {"from_local"}) && !call.arguments.empty()) {
    // Without a piece in it the edit would only take the claim away.
    const std::string given = found.text.of(*call.arguments.front().value);
    if (const std::string whole = distributed(given); whole != given) {
      found.add(EditKind::kWhole, expression, whole, "the distributed tensors");
    }
    shapes(expression, call, found);
  }
  // torch.ones(n) next to distributed tensors.
  if (!of_module) return;
  found.add(EditKind::kLabel, expression,
            fmt::format("distribute({}, mesh=mesh)", found.text.of(expression)),
            "a distributed tensor");
}

}  // namespace shardlab
