// The text of commands.txt says which options a command has; the rows here say what each sets.
#include "sim/cli/command_line.h"

#include <concepts>
#include <initializer_list>
#include <map>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "sim/cli/command_text.h"
#include "sim/cli/completion.h"
#include "sim/cli/options.h"
#include "sim/verify/kept_value.h"

namespace shardlab {

namespace {

/// A member (a bool is a flag), or a function of the arguments: with the option's text, or without
/// one for a flag.
template <typename Arguments>
class OptionTarget {
 public:
  template <typename T>
  OptionTarget(T Arguments::*member)
      : add_([member](CLI::App& command, Arguments& arguments, const std::string& names,
                      const std::string& help) -> CLI::Option* {
          if constexpr (std::is_same_v<T, bool>) {
            return command.add_flag(names, arguments.*member, help);
          } else {
            CLI::Option* option = command.add_option(names, arguments.*member, help);
            // A list has one value for each time that its option is given: behind it, files begin.
            if (names.starts_with("-")) option->allow_extra_args(false);
            return option;
          }
        }) {}
  template <std::invocable<Arguments&> Set>
  OptionTarget(Set set)
      : add_([set](CLI::App& command, Arguments& arguments, const std::string& names,
                   const std::string& help) {
          return command.add_flag_callback(
              names, [set, &arguments] { set(arguments); }, help);
        }) {}
  template <std::invocable<Arguments&, const std::string&> Set>
  OptionTarget(Set set)
      : add_([set](CLI::App& command, Arguments& arguments, const std::string& names,
                   const std::string& help) {
          return command.add_option_function<std::string>(
              names, [set, &arguments](const std::string& text) { set(arguments, text); }, help);
        }) {}

  CLI::Option* add(CLI::App& command, Arguments& arguments, const std::string& names,
                   const std::string& help) const {
    return add_(command, arguments, names, help);
  }

 private:
  std::function<CLI::Option*(CLI::App&, Arguments&, const std::string&, const std::string&)> add_;
};

/// The targets of a command's options, by their names. The arguments outlive the command.
class OptionTargets {
 public:
  template <typename Arguments>
  OptionTargets& of(Arguments& arguments,
                    std::initializer_list<std::pair<const char*, OptionTarget<Arguments>>> rows) {
    for (const auto& [names, target] : rows) {
      add_[names] = [&arguments, target = target](CLI::App& command, const std::string& of_option,
                                                  const std::string& help) {
        return target.add(command, arguments, of_option, help);
      };
    }
    return *this;
  }

  CLI::Option* add(CLI::App& command, const std::string& names, const std::string& help) const {
    const auto found = add_.find(names);
    check_invariant(found != add_.end(), "every option of commands.txt has a target");
    return found->second(command, names, help);
  }

 private:
  std::map<std::string,
           std::function<CLI::Option*(CLI::App&, const std::string&, const std::string&)>>
      add_;
};

CLI::Validator size_in_bytes() {
  const auto read = [](std::string& text) -> std::string {
    const std::string given = text;
    try {
      if (CLI::AsSizeValue(false)(text).empty()) return "";
    } catch (const CLI::ValidationError&) {
    }
    return fmt::format("'{}' is no size, such as 4GiB, 512MiB or a number of bytes", given);
  };
  return {read, "b, kib, mib, gib"};
}

std::string below_zero(const std::string& text) {
  return text.starts_with('-') ? fmt::format("{} is below 0", text) : std::string();
}

std::string no_count(const std::string& text) {
  const bool number = !text.empty() && text.size() < 18 && text != "0" &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  return number || text == "all" ? std::string() : "'" + text + "' is not a count, nor 'all'";
}

// The values that an option takes, as its text has them.
void check_values(CLI::Option& option, const std::string& values) {
  const std::size_t dots = values.find("..");
  if (values == "size") {
    option.transform(size_in_bytes());
  } else if (values == "seed") {
    option.check(CLI::Validator(below_zero, ""));
  } else if (values == "count") {
    option.check(CLI::Validator(no_count, ""));
  } else if (values == ">0") {
    option.check(CLI::PositiveNumber);
  } else if (dots == std::string::npos) {
    option.check(CLI::IsMember(CLI::detail::split(values, '|')));
  } else if (dots + 2 == values.size()) {
    option.check(whole_number_from(std::stoll(values)));
  } else {
    option.check(CLI::Range(std::int64_t{std::stoll(values)},
                            std::int64_t{std::stoll(values.substr(dots + 2))}));
  }
}

void add_command(CLI::App& app, const CommandText& text, const OptionTargets& targets,
                 const std::function<void()>& choose) {
  CLI::App& command = *app.add_subcommand(text.name, text.about);
  for (const OptionText& row : text.options) {
    CLI::Option* option = targets.add(command, row.names, row.help);
    if (!row.values.empty()) check_values(*option, row.values);
    if (!row.type.empty()) option->type_name(row.type);
    if (row.required) option->required();
  }
  for (const OptionText& row : text.options) {
    CLI::Option* option = command.get_option(row.names.substr(0, row.names.find(',')));
    for (const std::string& other : row.without) option->excludes(command.get_option(other));
  }
  command.footer(text.footer);
  command.callback(choose);
}

OptionTargets with_common(CommonArguments& common) {
  OptionTargets targets;
  return targets.of<CommonArguments>(
      common, {{"--color", &CommonArguments::color}, {"--json", &CommonArguments::json}});
}

// For commands that run a program.
OptionTargets with_run(RunArguments& run) {
  return with_common(run.common)
      .of<RunArguments>(
          run,
          {{"--set", &RunArguments::settings},
           {"--link", &RunArguments::links},
           {"--backend", &RunArguments::backend},
           {"--check-collectives", [](RunArguments& run) { run.checks = CollectiveChecks::kOn; }},
           {"--no-check-collectives",
            [](RunArguments& run) { run.checks = CollectiveChecks::kOff; }},
           {"--device", [](RunArguments& run, const std::string& name) { run.device.name = name; }},
           {"--allow-host-fallback",
            [](RunArguments& run) { run.device.without_kernel = OpsWithoutKernel::kOnHost; }},
           {"--scheduler", [](RunArguments& run,
                              const std::string& name) { run.scheduler = *parse_scheduler(name); }},
           {"--planner", &RunArguments::planner},
           {"--seed", &RunArguments::seed},
           {"--workers", &RunArguments::workers},
           {"--sends",
            [](RunArguments& run, const std::string& name) {
              if (name == "buffered") run.transport = Transport::kBuffered;
            }},
           {"--transport", [](RunArguments& run,
                              const std::string& name) { run.transport = parse_transport(name); }},
           {"--lazy-groups", &RunArguments::lazy_groups},
           {"--no-share", [](RunArguments& run) { run.sharing = KernelSharing::kOff; }},
           {"--memory", &RunArguments::memory_bytes},
           {"--types", &RunArguments::types},
           {"--strict", &RunArguments::strict},
           {"--mesh", &RunArguments::mesh},
           {"--plan", &RunArguments::plan},
           {"--place", &RunArguments::placings},
           {"--place-file", &RunArguments::place_file},
           {"--dtype", &RunArguments::dtype},
           {"--backward", &RunArguments::backward},
           {"--weights", &RunArguments::weights},
           {"--rename", &RunArguments::renames},
           {"--no-optimizer", &RunArguments::without_optimizer}});
}

struct Command {
  OptionTargets targets;
  std::function<int()> run;
};
using Commands = std::map<std::string, Command>;

void add_running(Commands& commands, Parsed& parsed) {
  const auto keep = [](RunArguments& run, const std::string& text) {
    run.keep_elements = text == "all" ? kKeepAll : std::stoll(text);
  };
  commands["run"] = {
      with_run(parsed.run)
          .of<RunArguments>(
              parsed.run,
              {{"FILE", &RunArguments::files},
               {"--why", &RunArguments::why},
               {"--full", [](RunArguments& run) { run.length = ReportLength::kFull; }},
               {"--summary", [](RunArguments& run) { run.length = ReportLength::kSummary; }},
               {"--watch", &RunArguments::watch},
               {"--rank", &RunArguments::rank},
               {"--line", &RunArguments::line},
               {"--html", &RunArguments::html},
               {"--perfetto", &RunArguments::perfetto},
               {"--rates", &RunArguments::rates},
               {"--save", &RunArguments::save},
               {"--flight-recorder", &RunArguments::flight_recorder},
               {"--log", &RunArguments::log},
               {"--memory-timeline", &RunArguments::memory_timeline},
               {"--values", keep},
               {"--toml", &RunArguments::toml}}),
      [&run = parsed.run] {
        run.replay = Replay::kWhereItAdds;
        return in_job(run, [&run] { return run_command(run); });
      }};
  commands["test"] = {
      with_run(parsed.test)
          .of<RunArguments>(parsed.test, {{"PATH", &RunArguments::files},
                                          {"--filter", &RunArguments::filter},
                                          {"--verbose,-v", &RunArguments::verbose},
                                          {"--list", &RunArguments::list},
                                          {"--schedules", &RunArguments::schedules},
                                          {"--jobs,-j", &RunArguments::jobs},
                                          {"--junit", &RunArguments::junit},
                                          {"--github", &RunArguments::github}}),
      [&test = parsed.test] { return in_job(test, [&test] { return test_command(test); }); }};
}

// A command that has its ranks in this process; without a name it refuses other backends itself.
template <typename Arguments>
std::function<int()> in_process(const Arguments& arguments, std::string_view name,
                                int (*command)(const Arguments&)) {
  return [&arguments, name, command] {
    return in_one_process(arguments.run, name, [&] { return command(arguments); });
  };
}

void add_editing(Commands& commands, Parsed& parsed) {
  using Shrink = ShrinkArguments;
  using Blame = BlameArguments;
  using Advise = AdviseArguments;
  using New = NewArguments;
  commands["shrink"] = {with_run(parsed.shrink.run)
                            .of<Shrink>(parsed.shrink, {{"FILE", &Shrink::file},
                                                        {"-o,--out", &Shrink::out},
                                                        {"--budget", &Shrink::budget}}),
                        in_process(parsed.shrink, "shrink", shrink_command)};
  commands["blame"] = {
      with_run(parsed.blame.run)
          .of<Blame>(parsed.blame, {{"FILE", &Blame::file}, {"OTHER", &Blame::other}}),
      in_process(parsed.blame, "blame", blame_command)};
  commands["advise"] = {
      with_run(parsed.advise.run)
          .of<Advise>(parsed.advise, {{"FILE", &Advise::file}, {"--budget", &Advise::budget}}),
      in_process(parsed.advise, "advise", advise_command)};
  using Types = TypesArguments;
  commands["types"] = {with_run(parsed.types.run)
                           .of<Types>(parsed.types, {{"FILE", &Types::file},
                                                     {"ONE", &Types::one},
                                                     {"--annotate", &Types::annotate},
                                                     {"-o,--out", &Types::out}}),
                       in_process(parsed.types, "types", types_command)};
  commands["new"] = {
      OptionTargets().of<New>(parsed.fresh, {{"FILE", &New::file}, {"--kind", &New::kind}}),
      [&parsed] { return new_command(parsed.fresh); }};
}

void add_hangs(Commands& commands, Parsed& parsed) {
  using Prove = ProveArguments;
  using Autopsy = AutopsyArguments;
  commands["prove"] = {
      with_common(parsed.prove.run.common)
          .of<RunArguments>(parsed.prove.run, {{"--lazy-groups", &RunArguments::lazy_groups},
                                               {"--set", &RunArguments::settings},
                                               {"--mesh", &RunArguments::mesh}})
          .of<Prove>(parsed.prove, {{"FILE", &Prove::file},
                                    {"--transport", &Prove::transports},
                                    {"--defer", &Prove::deferred},
                                    {"--runs", &Prove::runs}}),
      [&parsed] { return prove_command(parsed.prove); }};
  commands["autopsy"] = {
      with_common(parsed.autopsy.run.common)
          .of<RunArguments>(parsed.autopsy.run,
                            {{"--mesh", &RunArguments::mesh}, {"--plan", &RunArguments::plan}})
          .of<Autopsy>(parsed.autopsy,
                       {{"DIR|FILE", &Autopsy::paths}, {"--recording", &Autopsy::recording}}),
      [&parsed] { return autopsy_command(parsed.autopsy); }};
}

void add_graphs(Commands& commands, Parsed& parsed) {
  commands["trace"] = {with_run(parsed.trace.run)
                           .of<TraceArguments>(parsed.trace, {{"FILE", &TraceArguments::file},
                                                              {"--out", &TraceArguments::out},
                                                              {"--check", &TraceArguments::check},
                                                              {"--rank", &TraceArguments::rank},
                                                              {"--ranks", &TraceArguments::ranks},
                                                              {"--level", &TraceArguments::level},
                                                              {"--dot", &TraceArguments::dot},
                                                              {"--toml", &TraceArguments::toml}}),
                       in_process(parsed.trace, "", trace_command)};
  commands["replay"] = {
      with_run(parsed.replay.run)
          .of<RunArguments>(parsed.replay.run, {{"FILE", &RunArguments::files}})
          .of<TraceArguments>(parsed.replay, {{"--until", &TraceArguments::until},
                                              {"--rank", &TraceArguments::rank},
                                              {"--pinned", &TraceArguments::pinned}}),
      [&replay = parsed.replay] {
        return in_job(replay.run, [&replay] { return replay_command(replay); });
      }};
}

// --python among the recorder's own options. These have a value each, but for flags, and the first
// word after them is the script.
void take_python(RecordArguments& record) {
  constexpr std::string_view kOption = "--python";
  std::vector<std::string>& words = record.words;
  for (std::size_t i = 0; i < words.size() && words[i].starts_with("-");) {
    const bool joined = words[i].find('=') != std::string::npos;
    const bool flag = words[i] == "--processes" || words[i] == "--blame" || words[i] == "--on-cpu";
    const std::size_t taken = joined || flag ? 1 : 2;
    if (words[i].substr(0, words[i].find('=')) != kOption || i + taken > words.size()) {
      i += taken;
      continue;
    }
    record.python = joined ? words[i].substr(kOption.size() + 1) : words[i + 1];
    words.erase(words.begin() + static_cast<std::ptrdiff_t>(i),
                words.begin() + static_cast<std::ptrdiff_t>(i + taken));
  }
}

void add_recording(Commands& commands, Parsed& parsed, const CLI::App& app) {
  using Record = RecordArguments;
  using Merge = MergeArguments;
  commands["record"] = {
      OptionTargets().of<Record>(
          parsed.record, {{"--print-path", &Record::print_path}, {"--python", &Record::python}}),
      [&parsed, &app] {
        parsed.record.words = app.get_subcommand("record")->remaining();
        take_python(parsed.record);
        return record_command(parsed.record);
      }};
  commands["merge"] = {
      OptionTargets().of<Merge>(parsed.merge, {{"FILE", &Merge::files}, {"--out", &Merge::out}}),
      [&parsed] { return merge_command(parsed.merge); }};
}

void add_questions(Commands& commands, Parsed& parsed) {
  using Spec = SpecArguments;
  using Plan = PlanArguments;
  using Diff = DiffArguments;
  const auto spec = [](Spec& arguments) {
    return with_common(arguments.common)
        .of<Spec>(arguments, {{"TYPE", &Spec::texts}, {"--mesh", &Spec::mesh}});
  };
  commands["show"] = {
      spec(parsed.show)
          .of<Spec>(parsed.show, {{"--tensor", &Spec::tensor}, {"--full", &Spec::full}}),
      [&parsed] { return show_command(parsed.show); }};
  commands["explain"] = {spec(parsed.explain),
                         [&parsed] { return explain_command(parsed.explain); }};
  commands["plan"] = {with_common(parsed.plan.common)
                          .of<Plan>(parsed.plan, {{"TYPE", &Plan::texts},
                                                  {"--mesh", &Plan::mesh},
                                                  {"--from-mesh", &Plan::from_mesh},
                                                  {"--to-mesh", &Plan::to_mesh},
                                                  {"--planner", &Plan::planner},
                                                  {"--rules", &Plan::rules},
                                                  {"--draw", &Plan::draw},
                                                  {"--link", &Plan::links},
                                                  {"--devices-per-host", &Plan::devices_per_host},
                                                  {"--flatten", &Plan::flatten},
                                                  {"--budget", &Plan::budget},
                                                  {"--batch", &Plan::batch}}),
                      [&parsed] { return plan_command(parsed.plan); }};
  commands["diff"] = {
      with_common(parsed.diff.common)
          .of<Diff>(parsed.diff, {{"A", &Diff::a}, {"B", &Diff::b}, {"--gate", &Diff::gate}}),
      [&parsed] { return diff_command(parsed.diff); }};
  commands["doctor"] = {with_common(parsed.doctor),
                        [&parsed] { return doctor_command(parsed.doctor); }};
}

void add_checkpoints(Commands& commands, ReshardArguments& reshard) {
  using Reshard = ReshardArguments;
  OptionTargets targets = with_common(reshard.common)
                              .of<Reshard>(reshard, {{"CHECKPOINT", &Reshard::paths},
                                                     {"--check", &Reshard::check},
                                                     {"--against", &Reshard::against},
                                                     {"--mesh", &Reshard::mesh},
                                                     {"--plan", &Reshard::plan},
                                                     {"--to", &Reshard::placements},
                                                     {"--max-bytes", &Reshard::most_bytes},
                                                     {"--force", &Reshard::force},
                                                     {"--heads", &Reshard::heads}});
  for (const EditOption& edit : edit_options()) {
    const std::string name = fmt::format("--{}", edit.name);
    targets.of<Reshard>(
        reshard, {{name.c_str(), [name](Reshard& into, const std::string& text) {
                     const bool heads = name == "--rope" && !into.heads.empty();
                     into.edits.push_back({name.substr(2), heads ? text + " " + into.heads : text});
                   }}});
  }
  commands["reshard"] = {targets, [&reshard] { return reshard_command(reshard); }};
}

void add_tables(Commands& commands, Parsed& parsed) {
  using Ops = OpsArguments;
  using Verify = VerifyOpsArguments;
  commands["ops"] = {with_common(parsed.ops.common).of<Ops>(parsed.ops, {{"NAME", &Ops::name}}),
                     [&parsed] { return ops_command(parsed.ops); }};
  commands["verify-ops"] = {
      with_common(parsed.verify_ops.common)
          .of<Verify>(parsed.verify_ops, {{"PATTERN", &Verify::pattern},
                                          {"--mesh", &Verify::mesh},
                                          {"--placements", &Verify::placements},
                                          {"--rules", &Verify::rules},
                                          {"--samples", &Verify::samples},
                                          {"--forward", &Verify::forward},
                                          {"--details", &Verify::details},
                                          {"--seed", &Verify::seed},
                                          {"--placings", &Verify::placings},
                                          {"--forms", &Verify::forms},
                                          {"--workers", &Verify::workers}}),
      [&parsed] { return verify_ops_command(parsed.verify_ops); }};
}

// Commands and options, first lines of their texts.
std::vector<CompletedCommand> completed(const CLI::App& app) {
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  std::vector<CompletedCommand> commands;
  for (const CLI::App* command : app.get_subcommands({})) {
    CompletedCommand one{{command->get_name(), first_line(command->get_description())}, {}};
    for (const CLI::Option* option : command->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        one.options.push_back({"--" + name, first_line(option->get_description())});
      }
    }
    commands.push_back(std::move(one));
  }
  return commands;
}

void add_completion(Commands& commands, Parsed& parsed, const CLI::App& app) {
  commands["completion"] = {
      with_common(parsed.completion).of<Parsed>(parsed, {{"SHELL", &Parsed::shell}}),
      [&parsed, &app] {
        const std::string script = completion_script(parsed.shell, completed(app));
        print_text(parsed.completion.json ? completion_json(parsed.shell, script) : script);
        return static_cast<int>(kFine);
      }};
}

}  // namespace

void add_commands(CLI::App& app, Parsed& parsed) {
  Commands commands;
  add_running(commands, parsed);
  add_editing(commands, parsed);
  add_hangs(commands, parsed);
  add_graphs(commands, parsed);
  add_recording(commands, parsed, app);
  add_questions(commands, parsed);
  add_checkpoints(commands, parsed.reshard);
  add_tables(commands, parsed);
  add_completion(commands, parsed, app);
  for (const CommandText& text : command_texts()) {
    const Command& command = commands.at(text.name);
    add_command(app, text, command.targets, [&parsed, run = command.run] { parsed.chosen = run; });
  }
  CLI::App& reshard = *app.get_subcommand("reshard");
  reshard.get_option("CHECKPOINT")->expected(1, 2);
  // Edits are made in the order in which they are given.
  reshard.get_option("--heads")->trigger_on_parse();
  for (const EditOption& edit : edit_options())
    reshard.get_option(fmt::format("--{}", edit.name))->trigger_on_parse();
  app.get_subcommand("record")->prefix_command();
  app.get_subcommand("show")->get_option("TYPE")->expected(1);
  app.get_subcommand("plan")->get_option("TYPE")->expected(2);
  app.get_subcommand("plan")->get_option("--flatten")->delimiter(';');
  app.get_subcommand("verify-ops")->get_option("--mesh")->delimiter(',');
}

}  // namespace shardlab
