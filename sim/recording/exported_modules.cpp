// A call names all modules that it is inside of: those that are not named any more have ended.
#include "sim/recording/exported_modules.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace shardlab {

namespace {

std::size_t at(std::int32_t value) { return static_cast<std::size_t>(value); }

}  // namespace

std::vector<ExportedModules::Open> ExportedModules::opened(std::string_view stack) {
  std::vector<Open> modules;
  for (const std::string_view one : parts_of_text(stack, ";")) {
    const std::vector<std::string_view> parts = parts_of_text(one, ",");
    if (parts.size() < 3 || parts[1].empty()) continue;
    modules.push_back({std::string(parts[0]), std::string(parts[1]),
                       std::string(parts[2].substr(parts[2].rfind('.') + 1))});
  }
  return modules;
}

// The deepest line that is not PyTorch's.
std::optional<RecordedPlace> ExportedModules::place_in(std::string_view trace) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  std::optional<RecordedPlace> place;
  for (std::size_t at = 0; (at = trace.find(kFile, at)) != std::string_view::npos; ++at) {
    const std::size_t begin = at + kFile.size(), end = trace.find(kLine, begin);
    if (end == std::string_view::npos) break;
    const std::string path(trace.substr(begin, end - begin));
    if (path.find("/torch/") != std::string::npos) continue;
    std::int64_t line = 0;
    for (std::size_t i = end + kLine.size(); i < trace.size() && line < 100'000'000; ++i) {
      if (trace[i] < '0' || trace[i] > '9') break;
      line = line * 10 + (trace[i] - '0');
    }
    place = {path.substr(path.rfind('/') + 1), line};
  }
  return place;
}

void ExportedModules::enter(std::string_view modules, std::string_view trace) {
  place_ = place_in(trace);
  if (modules == stack_) return;
  stack_ = modules;
  std::vector<Open> now = opened(modules);
  std::size_t same = 0;
  while (same < open_.size() && same < now.size() && open_[same].key == now[same].key &&
         open_[same].path == now[same].path) {
    ++same;
  }
  while (open_.size() > same) leave();
  for (; same < now.size(); ++same) {
    open_.push_back(std::move(now[same]));
    open_.back().first = calls_;
  }
}

void ExportedModules::leave() {
  closed_.emplace_back(std::move(open_.back()), calls_);
  open_.pop_back();
}

std::string ExportedModules::text() const {
  const std::string text =
      place_text(open_.empty() ? "" : open_.back().path, place_ ? &*place_ : nullptr);
  return text.empty() ? "" : " (" + text + ")";
}

std::int32_t ExportedModules::number_of(const std::string& path) {
  const auto next = static_cast<std::int32_t>(program_.modules.size());
  const auto [known, fresh] = paths_.try_emplace(path, next);
  if (fresh) program_.modules.push_back(path);
  return known->second;
}

void ExportedModules::describe(RecordedEvent& event) {
  if (!open_.empty()) event.module = number_of(open_.back().path);
  if (place_) {
    const auto next = static_cast<std::int32_t>(program_.places.size());
    const auto [known, fresh] = places_.try_emplace({place_->file, place_->line}, next);
    if (fresh) program_.places.push_back(*place_);
    event.place = known->second;
  }
  event.call = calls_++;
}

void ExportedModules::give_input(std::int32_t value, bool state) {
  values_.resize(std::max(values_.size(), at(value) + 1));
  values_[at(value)].state = state;
}

void ExportedModules::takes(std::int32_t value) {
  takes_.emplace_back(calls_, value);
  values_[at(value)].last_use = calls_ + 1;
}

void ExportedModules::gives(std::int32_t value) {
  give_input(value, false);
  values_[at(value)].maker = calls_ + 1;
  gives_.emplace_back(calls_, value);
}

void ExportedModules::returns(std::int32_t value) { values_[at(value)].last_use = ~std::size_t{0}; }

void ExportedModules::write() {
  while (!open_.empty()) leave();
  for (const auto& [module, end] : closed_) write(module, end);
}

void ExportedModules::write(const Open& module, std::size_t end) {
  using Use = std::pair<std::size_t, std::int32_t>;
  RecordedEvent event{.kind = RecordedKind::kModule, .name = module.type};
  event.module = number_of(module.path);
  event.first_call = module.first;
  event.end_call = end;
  for (auto take = std::ranges::lower_bound(takes_, module.first, {}, &Use::first);
       take != takes_.end() && take->first < end; ++take) {
    const Value& value = values_[at(take->second)];
    const bool outside = value.maker <= module.first;
    const bool known = std::ranges::find(event.takes, take->second) != event.takes.end();
    if (outside && !value.state && !known) event.takes.push_back(take->second);
  }
  for (auto give = std::ranges::lower_bound(gives_, module.first, {}, &Use::first);
       give != gives_.end() && give->first < end; ++give) {
    if (values_[at(give->second)].last_use > end) event.gives.push_back(give->second);
  }
  program_.events.push_back(std::move(event));
}

}  // namespace shardlab
