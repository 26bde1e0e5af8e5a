// A comment at the end of every line has the user's module and line.
#include "sim/capture/step_scenario.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/fix.h"
#include "sim/capture/graph_writer.h"
#include "sim/capture/recorded_event.h"
#include "sim/capture/recorded_json.h"
#include "sim/scenario/toml_text.h"

namespace shardlab {

namespace {

// Keywords about the making of a tensor, without effect on values.
bool is_left_out(const std::string& keyword) {
  return keyword == "device" || keyword == "layout" || keyword == "pin_memory" ||
         keyword == "non_blocking" || keyword == "generator";
}

class StepWriter {
 public:
  StepWriter(const StepProgram& program, const StepMesh& mesh, const StepPlan& plan,
             std::optional<DType> dtype)
      : program_(program), mesh_(mesh), plan_(plan), dtype_(dtype) {}

  std::string write() {
    std::string text = fmt::format("title = {}\n", toml_quoted(program_.recording->title));
    if (program_.recording->shapes_only) text += "backend = \"fake\"\n";
    text += "[mesh]\n";
    for (const StepMeshDim& dim : mesh_) text += fmt::format("{} = {}\n", dim.name, dim.size);
    text += "[inputs]\n";
    for (const StepInput& input : program_.inputs) text += input_line(input);
    text += "[program]\ncode = \"\"\"\n" + statements() + "\"\"\"\n";
    return text + gradients();
  }

 private:
  static std::string dim_text(std::int64_t size, const std::vector<std::string>& cuts) {
    if (cuts.empty()) return std::to_string(size);
    std::string names;
    for (const std::string& name : cuts) names += (names.empty() ? "" : ",") + name;
    return cuts.size() == 1 ? fmt::format("{}@{}", size, names)
                            : fmt::format("{}@({})", size, names);
  }

  std::string input_line(const StepInput& input) const {
    std::string dims;
    const auto& cuts = plan_.cuts.at(input.value);
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      dims += (i == 0 ? "" : ", ") + dim_text(input.meta.shape[i], cuts[i]);
    }
    return fmt::format("{} = {{ type = \"{}[{}]\", {}{} }}{}\n", input.name,
                       to_string(dtype_of_all(input.meta.dtype)), dims, elements_of(input),
                       input.parameter ? ", requires_grad = true" : "",
                       input.user == nullptr ? "" : comment(*input.user));
  }

  DType dtype_of_all(DType own) const { return dtype_ && is_floating(own) ? *dtype_ : own; }

  std::string elements_of(const StepInput& input) const {
    if (program_.recording->shapes_only) return "init = \"zeros\"";
    const std::string& path = program_.recording->path;
    return fmt::format("file = {}, tensor = {}", toml_quoted(path.substr(path.rfind('/') + 1)),
                       toml_quoted(input.tensor));
  }

  std::string gradients() const {
    const bool any = std::ranges::any_of(program_.statements, [](const StepStatement& one) {
      return one.kind == StatementKind::kBackward;
    });
    if (!any) return "";
    std::string names;
    for (const StepInput& input : program_.inputs) {
      if (input.graded) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", input.name);
    }
    return names.empty() ? "" : "[expect]\ngrads = [" + names + "]\n";
  }

  std::string statements() {
    std::string text;
    bool inside = false;  // of no_grad
    for (at_ = 0; at_ < program_.statements.size(); ++at_) {
      const StepStatement& one = program_.statements[at_];
      now_ = &one;
      if (one.no_grad && !inside) text += "with no_grad():\n";
      inside = one.no_grad;
      const std::string indent = inside ? "    " : "";
      before_.clear();
      for (const std::size_t leaf : one.leaves) {
        if (!program_.names.contains(leaf)) continue;  // nothing takes it
        before_.push_back(name(leaf) + ".requires_grad_()");
        moved_.clear();
      }
      const std::string line = statement(one);
      for (const std::string& moved : before_) text += indent + moved + "\n";
      text += indent + line + comment(*one.event) + "\n";
      for (const std::string& moved : behind(one)) text += indent + moved + "\n";
      // A moved copy is the old value, once something is written.
      if (is_in_place(one.op)) moved_.clear();
    }
    return text + updates();
  }

  // The plan has no entry for these: parameters keep their placements.
  std::string updates() {
    if (program_.updates.empty()) return "";
    std::string text = "with no_grad():\n";
    for (const StepStatement& one : program_.updates) {
      now_ = &one;
      ++at_;
      text += "    " + update(one) + comment(*one.event) + "\n";
    }
    return text;
  }

  std::string update(const StepStatement& one) {
    if (one.kind == StatementKind::kEnd) {
      return fmt::format("{} = {}.detach()", name(one.outs[0]), name(one.takes[0]));
    }
    if (one.kind == StatementKind::kGradient) return gradient(one);
    if (is_in_place(one.op)) return fmt::format("{}({})", one.op, arguments(one));
    return statement(one);
  }

  std::string gradient(const StepStatement& one) const {
    if (program_.input(one.takes[0]) == nullptr)
      return fmt::format("{} = {}.grad.clone()", name(one.outs[0]), name(one.takes[0]));
    return fmt::format("{} = {}.grad.redistribute({}).clone()", name(one.outs[0]),
                       name(one.takes[0]), placed(one.takes[0]));
  }

  // The placements of a parameter, as redistribute() takes them.
  std::string placed(std::size_t value) const {
    std::string text;
    for (const StepMeshDim& mesh_dim : mesh_) {
      std::string placement = "R";
      std::size_t dim = 0;
      for (const std::vector<std::string>& cuts : plan_.cuts.at(value)) {
        const bool cut = std::ranges::find(cuts, mesh_dim.name) != cuts.end();
        if (cut) placement = fmt::format("S({})", dim);
        ++dim;
      }
      text += fmt::format("{}{}={}", text.empty() ? "" : ", ", mesh_dim.name, placement);
    }
    return text;
  }

  std::string comment(const Json& event) const {
    std::string place = place_of(*program_.recording, event);
    std::erase(place, '"');
    std::erase(place, '\\');
    return place.empty() ? "" : "    # " + place;
  }

  const std::string& name(std::size_t value) const { return program_.names.at(value); }

  std::string statement(const StepStatement& one) {
    if (one.kind == StatementKind::kGradient) return gradient(one);
    if (one.kind == StatementKind::kBackward) {
      for (const std::size_t parameter : one.resets) {
        if (program_.input(parameter) == nullptr) continue;
        before_.push_back(name(parameter) + ".grad = None");
      }
      return fmt::format("backward({}{})", roots(one), kept_graph(one));
    }
    if (one.kind == StatementKind::kGradients) return gradients_of(one);
    if (one.kind == StatementKind::kFunction) return function(one);
    std::string outs;
    for (const std::size_t v : one.outs) outs += (outs.empty() ? "" : ", ") + name(v);
    if (one.kind == StatementKind::kDropout) {
      return fmt::format("{} = {} * {} * {}", outs, operand(one.takes[0]), name(one.mask),
                         one.scale);
    }
    if (one.kind == StatementKind::kDrawn) {
      return fmt::format("{} = aten.copy_.default({}, {})", outs, name(one.takes[0]),
                         name(one.takes[1]));
    }
    if (one.kind == StatementKind::kChosen) return outs + " = " + chosen(one);
    if (one.kind == StatementKind::kAttention) return outs + " = " + attention(one);
    const std::string& op = one.renewed.empty() ? one.op : one.renewed;
    std::string call = fmt::format("{}({})", op, arguments(one));
    const OpRow* row = recorded_row(*one.event);
    const bool list = row != nullptr && row->op.returns_list_of_tensors();
    if (list && one.outs.size() == 1) call += "[0]";
    if (one.kind == StatementKind::kFactory) {
      return fmt::format("{} = distribute({}, mesh=mesh)", outs, call);
    }
    return fmt::format("{} = {}", outs, call);
  }

  // The elements of a row at the recorded indices.
  std::string chosen(const StepStatement& one) {
    const std::string bare = bare_op(one.op);
    const std::size_t at = bare == "topk" || bare == "kthvalue" ? 2 : 1;
    const Json dim = argument_of(*one.event, at, "dim", -1);
    const Json kept = argument_of(*one.event, at + 1, "keepdim", false);
    const bool keeps = bare == "topk" || (kept.is_boolean() && kept.get<bool>());
    const std::string indices = operand(one.mask);
    if (keeps) {
      return fmt::format("aten.gather.default({}, {}, {})", operand(one.takes[0]), dim.dump(),
                         indices);
    }
    return fmt::format("aten.gather.default({}, {}, {}.unsqueeze({})).squeeze({})",
                       operand(one.takes[0]), dim.dump(), indices, dim.dump(), dim.dump());
  }

  // The arguments of backward() and grad(). Several values are one sum, in which each has its
  // gradient as a factor.
  std::string roots(const StepStatement& one) {
    std::string text;
    const bool several = one.roots.size() > 1;
    for (std::size_t i = 0; i < one.roots.size(); ++i) {
      const std::string root = operand(one.roots[i]);
      const std::string by = one.incoming[i] ? operand(*one.incoming[i]) + ".detach()" : "";
      if (!several) return by.empty() ? root : fmt::format("{}, gradient={}", root, by);
      text += i == 0 ? "" : " + ";
      text += by.empty() ? root : fmt::format("({} * {}).sum()", root, by);
    }
    return text;
  }

  static std::string kept_graph(const StepStatement& one) {
    if (one.event->value("create_graph", false)) return ", create_graph=True";
    return one.event->value("retain_graph", false) ? ", retain_graph=True" : "";
  }

  std::string gradients_of(const StepStatement& one) {
    std::string outs, inputs;
    const std::size_t first = one.takes.size() - one.outs.size();
    for (std::size_t i = 0; i < one.outs.size(); ++i) {
      outs += (i == 0 ? "" : ", ") + name(one.outs[i]);
      inputs += (i == 0 ? "" : ", ") + name(one.takes[first + i]);
    }
    return fmt::format("{} = grad({}, [{}], allow_unused=True{}){}", outs, roots(one), inputs,
                       kept_graph(one), one.outs.size() == 1 ? "[0]" : "");
  }

  // A class for each application, above it.
  std::string function(const StepStatement& one) {
    std::string operands, outs, parameters = "ctx";
    std::set<std::string> taken;
    for (const std::size_t v : one.takes) {
      operands += (operands.empty() ? "" : ", ") + operand(v);
      parameters += ", " + parameter(name(v), taken);
    }
    for (const std::size_t v : one.outs) outs += (outs.empty() ? "" : ", ") + name(v);
    write_class(one, parameters);
    return fmt::format("{} = {}.apply({})", outs, one.function->name, operands);
  }

  static std::string parameter(std::string name, std::set<std::string>& taken) {
    while (!taken.insert(name).second) name += "_again";
    return name;
  }

  void write_class(const StepStatement& one, const std::string& parameters) {
    const StepFunction& own = *one.function;
    std::vector<std::string> lines = std::move(before_);
    const StepStatement* before = now_;
    const std::size_t at = std::exchange(at_, SIZE_MAX);
    lines.push_back(fmt::format("class {}(torch.autograd.Function):", own.name));
    lines.push_back("    @staticmethod");
    lines.push_back(fmt::format("    def forward({}):", parameters));
    write_body(own.forward, lines);
    if (!own.saved.empty()) {
      lines.push_back(fmt::format("        ctx.save_for_backward({})", names(own.saved)));
    }
    if (!own.constant.empty()) {
      lines.push_back(fmt::format("        ctx.mark_non_differentiable({})", names(own.constant)));
    }
    const bool zeros =
        std::ranges::all_of(own.arrives, [](const auto& v) { return v.has_value(); });
    if (!zeros) lines.push_back("        ctx.set_materialize_grads(False)");
    lines.push_back("        return " + names(own.results));
    std::string gradients = "ctx", gives;
    std::set<std::string> taken;
    for (const auto& v : own.arrives) {
      gradients += ", " + parameter(v ? name(*v) : "no_gradient", taken);
    }
    lines.push_back("    @staticmethod");
    lines.push_back(fmt::format("    def backward({}):", gradients));
    for (std::size_t i = 0; i < own.saved.size(); ++i) {
      lines.push_back(fmt::format("        {} = ctx.saved_tensors[{}]", name(own.saved[i]), i));
    }
    write_body(own.backward, lines);
    for (const auto& v : own.gives) gives += (gives.empty() ? "" : ", ") + (v ? name(*v) : "None");
    lines.push_back("        return " + gives);
    now_ = before;
    at_ = at;
    before_ = std::move(lines);
  }

  std::string names(const std::vector<std::size_t>& values) const {
    std::string text;
    for (const std::size_t v : values) text += (text.empty() ? "" : ", ") + name(v);
    return text;
  }

  void write_body(const std::vector<StepStatement>& body, std::vector<std::string>& lines) {
    for (const StepStatement& one : body) {
      now_ = &one;
      before_.clear();
      const std::string line = statement(one);
      for (const std::string& more : before_) lines.push_back("        " + more);
      lines.push_back("        " + line + comment(*one.event));
    }
  }

  // softmax(q k / sqrt(d)) v, with the recorded mask between the two.
  std::string attention(const StepStatement& one) {
    const Dims q = program_.shape_of(one.takes[0]), k = program_.shape_of(one.takes[1]);
    if (q.size() < 2 || k.size() < 2) {
      fail(ErrorKind::kValue, Fix{record_again()}, "{}: attention of values with fewer than 2 dims",
           program_.recording->path);
    }
    const double root = std::sqrt(static_cast<double>(q.back()));
    const Json scale = keywords_of(*one.event).value("scale", Json());
    std::string scores =
        fmt::format("{} @ {}.transpose(-2, -1) {}", operand(one.takes[0]), operand(one.takes[1]),
                    scale.is_number() ? fmt::format("* {:#}", scale.get<double>())
                                      : fmt::format("/ {:#}", root));
    const Json& args = one.event->at("args");
    if (args.at(3).is_object()) {
      const std::string mask = operand(one.takes[3]);
      scores = program_.metas.at(one.takes[3]).dtype == DType::kBool
                   ? fmt::format("({}).masked_fill({}.logical_not(), float('-inf'))", scores, mask)
                   : fmt::format("({} + {})", scores, mask);
    } else if (args.size() > 5 && args.at(5) == true) {
      scores = fmt::format(
          "({}).masked_fill(distribute(torch.ones([{}, {}], "
          "dtype=torch.bool).tril().logical_not(), "
          "mesh=mesh), float('-inf'))",
          scores, q[q.size() - 2], k[k.size() - 2]);
    } else {
      scores = "(" + scores + ")";
    }
    return fmt::format("({}.softmax(-1) * {} * {}) @ {}", scores, name(one.mask), one.scale,
                       operand(one.takes[2]));
  }

  std::string arguments(const StepStatement& one) {
    std::string text;
    const bool without_bias = has_bias_behind();
    std::size_t index = 0;
    for (const Json& given : one.event->at("args")) {
      if (without_bias && index == 2) break;
      text += (index++ == 0 ? "" : ", ") + argument(given);
    }
    if (!one.event->contains("kwargs")) return text;
    for (const auto& [key, given] : one.event->at("kwargs").items()) {
      if (is_left_out(key) || is_default_format(given)) continue;
      text += (text.empty() ? "" : ", ") + key + "=" + argument(given);
    }
    return text;
  }

  bool has_bias_behind() const {
    return std::ranges::find(plan_.bias_behind, at_) != plan_.bias_behind.end();
  }

  static bool is_default_format(const Json& given) {
    return given.is_object() && given.contains("memory_format") &&
           given.at("memory_format") != "contiguous";
  }

  // Moves, and a bias that is no part of a pending sum.
  std::vector<std::string> behind(const StepStatement& one) const {
    std::vector<std::string> lines;
    if (one.outs.empty()) return lines;
    const std::string& result = name(one.outs[0]);
    if (const auto after = plan_.after.find(at_); after != plan_.after.end()) {
      lines.push_back(fmt::format("{} = {}.redistribute({})", result, result, after->second));
    }
    if (has_bias_behind())
      lines.push_back(fmt::format("{} = {} + {}", result, result, bias_of(one)));
    return lines;
  }

  std::string bias_of(const StepStatement& one) const {
    const auto moved = plan_.before.find({at_, one.takes[2]});
    std::string text = name(one.takes[2]);
    if (moved != plan_.before.end()) text += fmt::format(".redistribute({})", moved->second);
    return text + cast_of(one.takes[2]);
  }

  // By autocast, for this statement.
  std::string cast_of(std::size_t value) const {
    const auto cast = now_->casts.find(value);
    if (cast == now_->casts.end()) return "";
    return fmt::format(".to({})", to_string(dtype_of_all(cast->second)));
  }

  // The value as the statement takes it.
  std::string operand(std::size_t value) { return placed_operand(value) + cast_of(value); }

  // Moved, without its gradient, or as it is.
  std::string placed_operand(std::size_t value) {
    std::string text = name(value);
    const Json& event = *now_->event;
    for (const Json& detached : list_at(event, "detached")) {
      if (detached == value && !taped_) text += ".detach()";
    }
    const auto moved = plan_.before.find({at_, value});
    if (moved == plan_.before.end()) return text;
    // Parameters are gathered for each use, results once for all.
    if (program_.input(value) != nullptr)
      return fmt::format("{}.redistribute({})", text, moved->second);
    std::string& known = moved_[text + moved->second];
    if (known.empty()) {
      known = name(value) + "_moved";
      while (
          std::ranges::any_of(program_.names, [&](const auto& n) { return n.second == known; })) {
        known += "_";
      }
      before_.push_back(fmt::format("{} = {}.redistribute({})", known, text, moved->second));
    }
    return known;
  }

  std::string argument(const Json& given) {
    if (given.is_null()) return "None";
    if (given.is_boolean()) return given.get<bool>() ? "True" : "False";
    if (given.is_number_integer()) return given.dump();
    if (given.is_number()) return fmt::format("{:#}", given.get<double>());
    if (given.is_string()) return quoted_single(given.get<std::string>());
    if (given.is_array()) {
      std::string list;
      for (const Json& item : given) list += (list.empty() ? "" : ", ") + argument(item);
      return "[" + list + "]";
    }
    if (given.contains("v")) {
      taped_ = given.contains("taped");
      const std::string text = operand(integer_of<std::size_t>(given.at("v")));
      taped_ = false;
      return text;
    }
    if (given.contains("dtype")) {
      return std::string(to_string(dtype_of_all(dtype_of(given.at("dtype")))));
    }
    if (given.contains("f")) return fmt::format("float('{}')", given.at("f").get<std::string>());
    if (given.contains("memory_format")) {
      return "torch." + given.at("memory_format").get<std::string>() + "_format";
    }
    if (given.contains("device") || given.contains("layout")) return "None";
    const Json& event = *now_->event;
    fail(ErrorKind::kUnsupported,
         Fix{"replay it as it is: shardlab replay " + program_.recording->path},
         "{}: {} at {} takes {}, which programs cannot say", program_.recording->path,
         event.value("op", ""), place_of(*program_.recording, event), given.dump());
  }

  // In a program inside of TOML's double quotes.
  std::string quoted_single(const std::string& text) const {
    const bool plain = std::ranges::all_of(
        text, [](char c) { return c >= ' ' && c <= '~' && c != '\'' && c != '"' && c != '\\'; });
    if (plain) return "'" + text + "'";
    fail(ErrorKind::kUnsupported, Fix{"use letters and digits"}, "{}: a text of the program has {}",
         program_.recording->path, Json(text).dump());
  }

  const StepProgram& program_;
  const StepMesh& mesh_;
  const StepPlan& plan_;
  std::optional<DType> dtype_;
  const StepStatement* now_ = nullptr;
  bool taped_ = false;  // the operand has its gradient, where the same value has none elsewhere
  std::size_t at_ = 0;
  std::vector<std::string> before_;           // lines ahead of the statement
  std::map<std::string, std::string> moved_;  // name of the moved value
};

}  // namespace

std::string step_scenario(const StepProgram& program, const StepMesh& mesh, const StepPlan& plan,
                          std::optional<DType> dtype) {
  return StepWriter(program, mesh, plan, dtype).write();
}

}  // namespace shardlab
