// Edits of several places at once, known by the forms of calls and blocks.
#include "sim/edit/block_edits.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/language/syntax/ast_walk.h"

namespace shardlab {

using ast::Expression;

static std::string name_of(const Expression& function) {
  if (const auto* name = function.get<ast::Name>()) return name->id;
  if (const auto* method = function.get<ast::Attribute>()) return method->name;
  return "";
}

const ast::Call* call_of(const Expression& expression, std::initializer_list<const char*> names) {
  const auto* call = expression.get<ast::Call>();
  if (call == nullptr) return nullptr;
  const std::string name = name_of(*call->function);
  const bool found = std::ranges::any_of(names, [&](const char* one) { return name == one; });
  return found ? call : nullptr;
}

const ast::Attribute* called_method(const ast::Call* call) {
  return call == nullptr ? nullptr : call->function->get<ast::Attribute>();
}

const ast::Call* call_alone(const ast::Statement& statement) {
  const auto* alone = statement.get<ast::ExpressionStatement>();
  return alone == nullptr ? nullptr : alone->value->get<ast::Call>();
}

std::vector<Proposal> at_borders(const ast::Program& program) {
  const std::string_view text = program.source->text();
  std::vector<TextEdit> leaves, gathers;  // x.to_local() as x, and as x.full_tensor()
  // from_local(y, mesh=mesh, tp=S(0)) as y, and as a replica.
  std::vector<std::vector<TextEdit>> returns, unlabelled;
  ast::any_part(program.body, [&](const Expression& part) {
    const SourceSpan whole = whole_span(text, part);
    const ast::Call* call = call_of(part, {"to_local", "from_local"});
    if (call == nullptr) return false;
    const ast::Attribute* method = called_method(call);
    if (method != nullptr && method->name == "to_local") {
      const std::uint32_t end = whole_span(text, *method->object).end;
      leaves.push_back({{end, whole.end}, ""});
      gathers.push_back({{end, whole.end}, ".full_tensor()"});
    } else if (call_of(part, {"from_local"}) != nullptr && !call->arguments.empty()) {
      const SourceSpan value = whole_span(text, *call->arguments.front().value);
      returns.push_back({{{whole.begin, value.begin}, ""}, {{value.end, whole.end}, ""}});
      unlabelled.push_back({{{value.end, whole.end}, ", mesh=mesh)"}});
    }
    return false;
  });
  std::vector<Proposal> all;
  const auto add = [&](std::vector<TextEdit> edits, const char* what) {
    std::ranges::sort(edits, {}, [](const TextEdit& edit) { return edit.span.begin; });
    all.push_back({std::move(edits), what});
  };
  std::vector<TextEdit> everything = leaves;
  for (const auto& edits : returns) {
    everything.insert(everything.end(), edits.begin(), edits.end());
  }
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    for (std::size_t j = 0; j < returns.size(); ++j) {
      std::vector<TextEdit> edits = returns[j];
      edits.push_back(leaves[i]);
      add(std::move(edits), "distributed tensors");
      edits = unlabelled[j];
      edits.push_back(gathers[i]);
      add(std::move(edits), "whole tensors");
    }
  }
  add(std::move(everything), "distributed tensors");
  return all;
}

std::vector<Proposal> along_dims(const ast::Program& program,
                                 const std::vector<std::string>& dims) {
  std::vector<Proposal> all;
  for (const std::string& dim : dims) {
    Proposal one{{}, fmt::format("the place and the ranks along {}", dim)};
    ast::any_part(program.body, [&](const Expression& part) {
      const auto* name = part.get<ast::Name>();
      const bool place = (name != nullptr && name->id == "rank") || call_of(part, {"get_rank"});
      const bool ranks =
          (name != nullptr && name->id == "world_size") || call_of(part, {"get_world_size"});
      if (!place && !ranks) return false;
      one.edits.push_back({whole_span(program.source->text(), part),
                           fmt::format("mesh.{}(\"{}\")", place ? "coordinate" : "size", dim)});
      return false;
    });
    std::ranges::sort(one.edits, {}, [](const TextEdit& edit) { return edit.span.begin; });
    if (dims.size() > 1 && one.edits.size() > 1) all.push_back(std::move(one));
  }
  return all;
}

namespace {

SourceSpan span_of(std::size_t begin, std::size_t end) {
  return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

// `if rank == 0:` gives way to what is inside of it.
void unwrap(const ast::Program& program, const ast::Block& block, std::vector<Proposal>& all) {
  const std::string& text = program.source->text();
  for (const ast::Statement& statement : block) {
    ast::for_each_block(statement, [&](const ast::Block& inner) { unwrap(program, inner, all); });
    const auto* choice = statement.get<ast::If>();
    if (choice == nullptr || choice->branches.size() != 1) continue;
    const ast::Block& body = choice->branches.front().body;
    const auto& last = body.back().node;
    const bool jumps = std::holds_alternative<ast::Break>(last) ||
                       std::holds_alternative<ast::Continue>(last) ||
                       std::holds_alternative<ast::Return>(last);
    if (jumps) continue;  // all behind it would be gone
    const std::size_t begin = text.rfind('\n', statement.span.begin) + 1;
    const std::size_t first = body.front().span.begin;
    const std::size_t blanks = statement.span.begin - begin;
    const std::size_t deeper = first - text.rfind('\n', first) - 1 - blanks;
    std::vector<TextEdit> edits = {{span_of(begin + blanks, first), ""}};
    for (std::size_t line = text.find('\n', first) + 1; line > 0 && line < text.size();
         line = text.find('\n', line) + 1) {
      if (text.find_first_not_of(' ', line) <= line + blanks) break;
      edits.push_back({span_of(line, line + deeper), ""});
    }
    all.push_back({std::move(edits), "what all ranks do"});
  }
}

/// dist.send(t, peer), or `work = dist.isend(t, peer)`.
struct Message {
  SourceSpan name;               // "send"
  std::string first, arguments;  // "dist.isend", "t, peer"
};

std::optional<Message> message_of(const ast::Program& program, const ast::Statement& statement) {
  const auto* alone = statement.get<ast::ExpressionStatement>();
  const auto* assign = statement.get<ast::Assign>();
  if (alone == nullptr && assign == nullptr) return std::nullopt;
  const Expression& value = alone != nullptr ? *alone->value : *assign->value;
  const ast::Call* call = call_of(value, {"send", "recv", "isend", "irecv"});
  const ast::Attribute* method = called_method(call);
  if (method == nullptr || call->arguments.size() != 2) return std::nullopt;
  const std::string_view text = program.source->text();
  Message message{.name = method->name_span, .first = "dist." + method->name};
  if (!method->name.starts_with('i')) message.first.insert(5, "i");
  const SourceSpan from = whole_span(text, *call->arguments[0].value);
  const SourceSpan to = whole_span(text, *call->arguments[1].value);
  message.arguments = text.substr(from.begin, to.end - from.begin);
  return message;
}

void pair_messages(const ast::Program& program, const ast::Block& block,
                   std::vector<Proposal>& all) {
  for (std::size_t i = 0; i < block.size(); ++i) {
    ast::for_each_block(block[i],
                        [&](const ast::Block& inner) { pair_messages(program, inner, all); });
    const auto one = message_of(program, block[i]);
    if (!one) continue;
    if (one->name.end - one->name.begin == 4 && one->first == "dist.isend") {
      all.push_back({{{{one->name.begin, one->name.begin}, "i"}}, "a send that does not wait"});
    }
    const auto other = i + 1 < block.size() ? message_of(program, block[i + 1]) : std::nullopt;
    if (!other || one->first == other->first) continue;
    const std::string& text = program.source->text();
    const std::uint32_t begin = block[i].span.begin;
    const std::size_t blanks = begin - (text.rfind('\n', begin) + 1);
    all.push_back(
        {{{{begin, block[i + 1].span.end},
           fmt::format(
               "for work in dist.batch_isend_irecv([dist.P2POp({}, {}), dist.P2POp({}, {})]):"
               "\n{}    work.wait()",
               one->first, one->arguments, other->first, other->arguments,
               std::string(blanks, ' '))}},
         "one batch of messages"});
  }
}

}  // namespace

std::vector<Proposal> unwrapped(const ast::Program& program) {
  std::vector<Proposal> all;
  unwrap(program, program.body, all);
  return all;
}

std::vector<Proposal> of_messages(const ast::Program& program) {
  std::vector<Proposal> all;
  pair_messages(program, program.body, all);
  for (Proposal& one : all) one.moves_alone = true;
  return all;
}

}  // namespace shardlab
