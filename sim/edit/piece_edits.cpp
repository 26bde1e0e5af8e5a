// A slice of what was gathered, or summed for all, is the rank's own piece, or one reduce_scatter;
// a collective in place goes, or two over groups are one over all ranks.
#include <algorithm>
#include <cctype>
#include <optional>

#include "sim/edit/cheaper_edits.h"

namespace shardlab {

namespace {

using ast::Expression;
using ast::Statement;

struct PieceFinder {
  std::vector<CheaperEdit> all() {
    pieces();
    in_place();
    return std::move(found_);
  }

  // A slice of what was gathered or summed for all.
  struct Whole {
    const Expression* call = nullptr;
    const Statement* bound_by = nullptr;  ///< name = call
    std::string name;
  };

  // all_gather(x, ...), which gives a tensor.
  static const ast::Call* collective(const Expression& expression,
                                     std::initializer_list<const char*> names) {
    const ast::Call* call = call_of(expression, names);
    const bool plain = call != nullptr && call->function->is<ast::Name>();
    return plain && !call->arguments.empty() ? call : nullptr;
  }

  void pieces() {
    std::vector<Whole> wholes;
    places_.each_expression([&](const Expression& part) {
      if (collective(part, {"all_gather", "all_reduce"}) == nullptr) return;
      Whole whole{.call = &part};
      for (const StatementPlace& place : places_.all) {
        const auto* assign = place.statement->get<ast::Assign>();
        if (assign == nullptr || assign->value.get() != &part) continue;
        const auto* target = assign->targets.front()->get<ast::Name>();
        if (target == nullptr) continue;
        whole.bound_by = place.statement;
        whole.name = target->id;
      }
      wholes.push_back(std::move(whole));
    });
    for (const Whole& whole : wholes) {
      places_.each_expression([&](const Expression& part) { slice_of(whole, part); });
    }
  }

  // Subscripts, and chunks and parts along a dim.
  static const Expression* sliced(const Expression& expression) {
    if (const auto* subscript = expression.get<ast::Subscript>()) {
      for (const char* method : {"chunk", "tensor_split", "split"}) {
        if (const ast::Attribute* of = method_of(*subscript->object, method)) {
          return of->object.get();
        }
      }
      return subscript->object.get();
    }
    const ast::Attribute* narrow = method_of(expression, "narrow");
    return narrow == nullptr ? nullptr : narrow->object.get();
  }

  void slice_of(const Whole& whole, const Expression& part) {
    const Expression* object = sliced(part);
    if (object == nullptr) return;
    const auto* name = object->get<ast::Name>();
    const bool named = name != nullptr && !whole.name.empty() && name->id == whole.name;
    if (object != whole.call && !named) return;
    const auto& call = std::get<ast::Call>(whole.call->node);
    const std::string value = text_.of(*call.arguments.front().value);
    const bool gathered = collective(*whole.call, {"all_gather"}) != nullptr;
    std::vector<std::string> texts;
    if (gathered) texts = {value};
    for (int dim = 0; !gathered && dim < 3; ++dim) {
      texts.push_back(fmt::format("reduce_scatter({}{})", value, scatter_arguments(call, dim)));
    }
    for (const std::string& text : texts) {
      const TextEdit put = text_.put(part, text);
      const CheaperEdit like{
          .edits = {put},
          .what = gathered ? "the rank's own piece, not gathered" : "one reduce_scatter",
          .spares = fmt::format("{}", whole.call->span.begin),
          .of_pieces = true};
      if (named) {
        // Without the statement that nothing else reads.
        if (const auto gone =
                places_.without(*whole.bound_by, whole_span(text_.text, *whole.call).end)) {
          CheaperEdit alone = like;
          alone.edits.push_back(*gone);
          add(std::move(alone));
        }
      }
      add(like);
    }
  }

  std::string scatter_arguments(const ast::Call& call, int dim) const {
    std::string op = "\"sum\"", rest;
    for (std::size_t i = 1; i < call.arguments.size(); ++i) {
      const ast::CallArgument& argument = call.arguments[i];
      if (i == 1 && argument.keyword.empty()) {
        op = text_.of(*argument.value);
      } else if (!argument.keyword.empty()) {
        rest += fmt::format(", {}={}", argument.keyword, text_.of(*argument.value));
      }
    }
    return fmt::format(", {}, {}{}", op, dim, rest);
  }

  // A statement dist.all_reduce(t): what it writes has a name before it.
  struct InPlace {
    const Statement* statement = nullptr;
    const ast::Call* call = nullptr;
    std::string called, name;  ///< "all_reduce", "t"
    TextEdit gone;
  };

  std::optional<InPlace> in_place_at(const StatementPlace& place) const {
    constexpr std::string_view kCalls[] = {"all_reduce", "all_gather", "all_gather_into_tensor",
                                           "broadcast"};
    const ast::Call* call = call_alone(*place.statement);
    const ast::Attribute* method = called_method(call);
    if (method == nullptr || call->arguments.empty()) return std::nullopt;
    if (std::ranges::find(kCalls, method->name) == std::end(kCalls)) return std::nullopt;
    const std::string module = text_.of(*method->object);
    if (module != "dist" && module != "torch.distributed") return std::nullopt;
    const Expression& alone = *std::get<ast::ExpressionStatement>(place.statement->node).value;
    const auto gone = places_.without(*place.statement, whole_span(text_.text, alone).end);
    if (!gone) return std::nullopt;
    return InPlace{place.statement, call, method->name, text_.of(*call->arguments[0].value), *gone};
  }

  // No call, one over all ranks for two over groups, or the own piece alone.
  void in_place() {
    std::vector<InPlace> calls;
    for (const StatementPlace& place : places_.all) {
      if (auto call = in_place_at(place)) calls.push_back(std::move(*call));
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const InPlace& one = calls[i];
      const CheaperEdit like{.edits = {one.gone},
                             .what = fmt::format("no {}({})", one.called, one.name),
                             .spares = fmt::format("{}", one.statement->span.begin),
                             .of_pieces = true};
      add(like);
      places_.each_expression([&](const Expression& part) { own_piece(one, like, part); });
      if (i + 1 < calls.size()) over_all(one, calls[i + 1], like);
    }
  }

  void over_all(const InPlace& one, const InPlace& next, const CheaperEdit& like) {
    if (one.called != "all_reduce" || next.called != one.called || next.name != one.name) return;
    const auto group = std::ranges::find(one.call->arguments, "group", &ast::CallArgument::keyword);
    if (group == one.call->arguments.end()) return;
    CheaperEdit edit = like;
    const SourceSpan before = std::prev(group)->value->span;
    edit.edits = {{{before.end, group->value->span.end}, ""}, next.gone};
    edit.what = fmt::format("one all_reduce of {} over all ranks", one.name);
    add(std::move(edit));
  }

  void own_piece(const InPlace& one, const CheaperEdit& like, const Expression& part) {
    const Expression* object = sliced(part);
    if (object == nullptr || text_.of(*object) != one.name ||
        part.span.begin < like.edits[0].span.end)
      return;
    if (one.called.starts_with("all_gather") && one.call->arguments.size() > 1) {
      CheaperEdit edit = like;
      edit.edits.push_back(text_.put(part, text_.of(*one.call->arguments[1].value)));
      edit.what = "the rank's own piece, not gathered";
      edit.within = one.name;
      if (const auto bound = unread(one.name, edit.edits)) edit.edits.push_back(*bound);
      add(std::move(edit));
    }
    for (int dim = 0; one.called == "all_reduce" && dim < 3; ++dim) {
      CheaperEdit edit = like;
      edit.within = one.name;
      edit.edits.push_back(text_.put(
          part, fmt::format("reduce_scatter({}{})", one.name, in_place_arguments(*one.call, dim))));
      edit.what = "one reduce_scatter";
      add(std::move(edit));
    }
  }

  // The statement that gives the name a value, where the edits leave no other place of it.
  std::optional<TextEdit> unread(const std::string& name,
                                 const std::vector<TextEdit>& edits) const {
    const auto in = [](SourceSpan at) {
      return [at](const TextEdit& edit) {
        return edit.span.begin <= at.begin && at.end <= edit.span.end;
      };
    };
    const auto left = std::ranges::count_if(tokens_, [&](const Token& token) {
      return token.text == name && std::ranges::none_of(edits, in(token.span));
    });
    for (const StatementPlace& place : places_.all) {
      const auto* assign = place.statement->get<ast::Assign>();
      if (left != 1 || assign == nullptr || text_.of(*assign->targets.front()) != name) continue;
      return places_.without(*place.statement, whole_span(text_.text, *assign->value).end);
    }
    return std::nullopt;
  }

  // dist.ReduceOp.AVG is "avg" of what returns a tensor.
  std::string in_place_arguments(const ast::Call& call, int dim) const {
    std::string op = "sum", rest;
    for (std::size_t i = 1; i < call.arguments.size(); ++i) {
      const ast::CallArgument& argument = call.arguments[i];
      if (argument.keyword.empty() || argument.keyword == "op") {
        op = text_.of(*argument.value);
        op = op.substr(op.rfind('.') + 1);
        for (char& c : op) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      } else {
        rest += fmt::format(", {}={}", argument.keyword, text_.of(*argument.value));
      }
    }
    return fmt::format(", \"{}\", {}{}", op, dim, rest);
  }

  void add(CheaperEdit edit) { found_.push_back(std::move(edit)); }

  const ProgramPlaces& places_;
  const ProgramText& text_ = places_.text;
  const std::vector<Token>& tokens_ = places_.tokens;
  std::vector<CheaperEdit> found_ = {};
};

}  // namespace

std::vector<CheaperEdit> pieces_for_wholes(const ProgramPlaces& places) {
  return PieceFinder{places}.all();
}

}  // namespace shardlab
