// scenario_text.h - scenarios that tests write down.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/scenario/scenario_file.h"

namespace shardlab::test {

/// The file with this text; `settings` as --set takes them: "mesh.x=4".
inline ScenarioFile file_of(std::string text, const std::vector<std::string>& settings = {}) {
  std::vector<Setting> parsed;
  for (const std::string& setting : settings) parsed.push_back(parse_setting(setting));
  return ScenarioFile::read(std::make_shared<const SourceText>("t.toml", std::move(text)),
                            std::move(parsed));
}

/// At the first point of its matrix.
inline Scenario scenario_of(std::string text, const std::vector<std::string>& settings = {}) {
  const ScenarioFile file = file_of(std::move(text), settings);
  return file.at(file.points().at(0));
}

}  // namespace shardlab::test
