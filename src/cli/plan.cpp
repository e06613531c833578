#include "plan.h"

#include "fovea/core/error.h"
#include "fovea/core/user_path.h"
#include "run_argument.h"

namespace fovea::cli {
namespace fs = std::filesystem;

std::string joined(const std::vector<fs::path>& files) {
  std::string names;
  for (const auto& file : files) names += (names.empty() ? "" : " and ") + file.string();
  return names;
}

Plan make_plan(const tasks::ProposalRequest& request, const tasks::Registry& registry) {
  std::string reasons;
  for (const auto& task : registry.tasks) {
    if (!task.propose) continue;
    auto proposed = task.propose(request);
    if (const auto* reason = std::get_if<std::string>(&proposed)) {
      reasons += fmt::format("\n  {}: {}", task.name, *reason);
      continue;
    }
    auto* proposal = std::get_if<tasks::Proposal>(&proposed);
    for (const auto& model : registry.models) {
      if (!model.propose || model.takes != proposal->spec->kind()) continue;
      const auto settings = model.propose(*proposal->spec, proposal->amount);
      proposal->settings.insert(proposal->settings.end(), settings.begin(), settings.end());
      return {&task, std::move(*proposal), model.named.name};
    }
  }
  fail_usage("{}: no task knows what to do with that:{}", joined(request.files), reasons);
}

fs::path data_argument(const std::string& text) {
  fs::path path = user_path(text);
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  check_data(path);
  return path;
}

}  // namespace fovea::cli
