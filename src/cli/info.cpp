#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.h"
#include "fovea/core/table.h"
#include "fovea/train/runtime.h"

namespace fovea::cli {

void add_info(CLI::App& app, Commands& commands) {
  auto json = std::make_shared<bool>(false);
  auto* command = app.add_subcommand("info", "Versions, CPU capability, devices, threads, build flags");
  command->add_flag("--json", *json, "One JSON object");
  commands.emplace_back(command, [json] {
    const auto facts = train::runtime_info();
    if (*json) {
      nlohmann::ordered_json line;
      for (const auto& [name, value] : facts) line[name] = value;
      std::cout << line.dump() << "\n";
    } else {
      Table table({.width = output_width()});
      for (const auto& [name, value] : facts) table.add_row({name, value});
      std::cout << table.str();
    }
    return 0;
  });
}

}  // namespace fovea::cli
