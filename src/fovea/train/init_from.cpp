#include "fovea/train/init_from.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/train/checkpoint.h"
#include "fovea/train/experiment.h"
#include "fovea/train/name_map.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/run_directory.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

// The names along a parameter's dimension, there and here.
struct RowNames {
  int64_t dim = 0;
  std::vector<std::string> there, here;
};

// A tensor that is copied, whole or by rows.
struct Transfer {
  std::string name;
  at::Tensor to, from;
  int64_t dim = 0;
  std::vector<int64_t> to_rows = {}, from_rows = {};  // empty: whole
  int64_t rows = 0;                                   // that there are
};

class WeightTransfer {
 public:
  WeightTransfer(std::map<std::string, at::Tensor> saved, std::map<std::string, RowNames> rows)
      : saved_(std::move(saved)), rows_(std::move(rows)) {}

  void plan(const std::string& name, const at::Tensor& own) {
    const auto found = saved_.find(name);
    if (found == saved_.end()) return problem("{}: the run has no such weight", name);
    const auto labelled = rows_.find(name);
    const bool by_rows = labelled != rows_.end() && labelled->second.there != labelled->second.here;
    if (by_rows) return plan_rows(name, own, found->second, labelled->second);
    if (found->second.sizes() != own.sizes()) {
      return problem("{}: {} in the run, {} here", name, c10::str(found->second.sizes()), c10::str(own.sizes()));
    }
    transfers_.push_back({.name = name, .to = own, .from = found->second});
  }

  std::vector<std::pair<std::string, std::string>> copy(const std::string& run) {
    if (!problems_.empty()) {
      fail_usage(
          "{}: its weights do not fit this model:{}\ntrain.init_only takes over a part of them, train.init_map renames "
          "or leaves out weights",
          run, problems_);
    }
    if (transfers_.empty()) fail_usage("train.init_only: no weight of the model is below these names");
    const at::NoGradGuard no_grad;
    std::vector<std::pair<std::string, std::string>> lines = {
        {"initial weights", fmt::format("{} of {}", counted(transfers_.size(), "tensor"), run)}};
    for (auto& t : transfers_) {
      if (t.rows == 0) {
        t.to.copy_(t.from);
        continue;
      }
      const at::Tensor to_rows = at::tensor(t.to_rows, at::kLong), from_rows = at::tensor(t.from_rows, at::kLong);
      t.to.index_copy_(t.dim, to_rows, t.from.index_select(t.dim, from_rows).to(t.to.scalar_type()));
      lines.emplace_back("", fmt::format("{}: {} of {} by name, {} new", t.name, t.to_rows.size(),
                                         counted(t.rows, "row"), t.rows - static_cast<int64_t>(t.to_rows.size())));
    }
    return lines;
  }

 private:
  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    problems_ += "\n  " + fmt::format(format, std::forward<Args>(args)...);
  }

  void plan_rows(const std::string& name, const at::Tensor& own, const at::Tensor& saved, const RowNames& names) {
    auto expected = own.sizes().vec();
    expected.at(static_cast<size_t>(names.dim)) = static_cast<int64_t>(names.there.size());
    if (saved.sizes() != at::IntArrayRef(expected)) {
      return problem("{}: {} in the run, expected {}", name, c10::str(saved.sizes()),
                     c10::str(at::IntArrayRef(expected)));
    }
    Transfer transfer{.name = name, .to = own, .from = saved, .dim = names.dim};
    transfer.rows = own.size(names.dim);
    std::map<std::string, int64_t> there;
    for (size_t i = 0; i < names.there.size(); ++i) there.emplace(names.there[i], static_cast<int64_t>(i));
    for (size_t i = 0; i < names.here.size(); ++i) {
      const auto row = there.find(names.here[i]);
      if (row == there.end()) continue;
      transfer.to_rows.push_back(static_cast<int64_t>(i));
      transfer.from_rows.push_back(row->second);
    }
    transfers_.push_back(std::move(transfer));
  }

  std::map<std::string, at::Tensor> saved_;
  std::map<std::string, RowNames> rows_;
  std::vector<Transfer> transfers_;
  std::string problems_;
};

std::map<std::string, at::Tensor> renamed(std::map<std::string, at::Tensor> tensors,
                                          const std::optional<fs::path>& map_file) {
  if (!map_file) return tensors;
  const NameMap map = NameMap::load(*map_file);
  std::map<std::string, at::Tensor> by_our_name;
  for (auto& [theirs, tensor] : tensors) {
    for (const auto& [ours, share] : map.apply(theirs, tensor)) by_our_name.emplace(ours, share);
  }
  if (const auto unused = map.unused(); !unused.empty()) {
    fail_usage("{}: no weight of the run is called as this line says: {}", map_file->string(), unused.front());
  }
  return by_our_name;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> init_from(Module& module, const data::DataAssets& assets,
                                                           const Entries& entries, const InitOptions& options) {
  std::string checkpoint_name;
  std::shared_ptr<const data::DataAssets> saved_assets;
  SafeTensors weights;
  RunDirectory::open(options.run).checkpoints().read("", [&](const fs::path& checkpoint) {
    const ExperimentConfig saved_config =
        load_experiment(entries, checkpoint / kConfigFile, {}, config::Document::kRuns);
    saved_assets = saved_config.data_entry().load_assets(*saved_config.data.section, checkpoint);
    weights = load_safetensors(checkpoint / weights_to_use(checkpoint));
    checkpoint_name = checkpoint.filename().string();
  });

  std::map<std::string, RowNames> rows;
  for (const auto& axis : module.labelled_axes()) {
    rows[axis.parameter] = {axis.dim, saved_assets->labels(axis.axis), assets.labels(axis.axis)};
  }
  WeightTransfer transfer(renamed(std::move(weights.tensors), options.map), std::move(rows));
  for (const auto& [name, tensor] : persistent_tensors(module.network())) {
    if (options.only.empty() || is_below_any(name, options.only)) transfer.plan(name, tensor);
  }
  return transfer.copy(fmt::format("{} ({})", options.run.string(), checkpoint_name));
}

}  // namespace fovea::train
