#include "fovea/export/import_weights.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/core/counted.h"
#include "fovea/core/error.h"
#include "fovea/core/suggest.h"
#include "fovea/train/module.h"

namespace fovea::exports {
namespace {

std::string shape_of(const at::Tensor& tensor) {
  return c10::str(tensor.sizes());
}

// A weight that was offered, and under which name.
struct Offer {
  at::Tensor tensor;
  std::string their_name;
};

class Import {
 public:
  Import(torch::nn::Module& network, const std::string& file) : file_(file) {
    own_ = train::persistent_tensors(network);
    for (const auto& [alias, name] : train::tied_names(network)) canonical_[alias] = name;
    std::set<std::string> persistent;
    for (const auto& [name, tensor] : own_) persistent.insert(name);
    for (const auto& item : network.named_buffers()) {
      if (!persistent.contains(item.key())) derived_.insert(item.key());
    }
  }

  void offer(const ForeignWeights& weights, const train::NameMap& map) {
    for (const auto& [their_name, tensor] : weights.tensors) {
      const auto shares = map.apply(their_name, tensor);
      if (shares.empty()) notices.push_back(fmt::format("{}: left out, as the name map says", their_name));
      for (const auto& [name, share] : shares) offer(their_name, name, share);
    }
  }

  void match() {
    std::vector<std::string> extra;
    for (const auto& [name, offered] : offers_) {
      if (!is_own(name)) extra.push_back(name);
    }
    for (const auto& [name, tensor] : own_) {
      const auto found = offers_.find(name);
      if (found == offers_.end()) {
        problem(fmt::format("{}: missing, expected {}{}", name, shape_of(tensor), did_you_mean(name, extra)));
      } else {
        check(name, tensor, found->second);
      }
    }
    std::vector<std::string> missing;
    for (const auto& [name, tensor] : own_) {
      if (!offers_.contains(name)) missing.push_back(name);
    }
    for (const auto& name : extra) {
      const Offer& offered = offers_.at(name);
      const std::string was = offered.their_name == name ? "" : fmt::format(" (from {})", offered.their_name);
      problem(fmt::format("{}{}: {}, not part of this model{}", name, was, shape_of(offered.tensor),
                          did_you_mean(name, missing)));
    }
    if (!problems_.empty()) {
      fail_usage("{}: the weights do not fit this model:{}\nNames can be changed with --map", file_, problems_);
    }
  }

  void copy() {
    const at::NoGradGuard no_grad;
    std::map<std::string, int64_t> converted;
    for (const auto& [name, tensor] : own_) {
      const at::Tensor& theirs = offers_.at(name).tensor;
      if (theirs.scalar_type() != tensor.scalar_type()) ++converted[c10::toString(theirs.scalar_type())];
      at::Tensor(tensor).copy_(theirs);
    }
    for (const auto& [dtype, count] : converted) {
      notices.push_back(fmt::format("{} of {} {} {} and {} {} now", count, counted(own_.size(), "tensor"),
                                    count == 1 ? "was" : "were", dtype, count == 1 ? "is" : "are",
                                    c10::toString(own_.front().second.scalar_type())));
    }
  }

  std::vector<std::string> notices;

 private:
  void offer(const std::string& their_name, const std::string& name, const at::Tensor& tensor) {
    if (derived_.contains(name)) {
      notices.push_back(fmt::format("{}: not used, it is computed", their_name));
      return;
    }
    const auto tied = canonical_.find(name);
    const std::string& canonical = tied == canonical_.end() ? name : tied->second;
    const auto [found, is_new] = offers_.emplace(canonical, Offer{tensor, their_name});
    if (!is_new && !at::equal(found->second.tensor, tensor)) {
      problem(fmt::format("{} and {}: both are {}, with different values", found->second.their_name, their_name,
                          canonical));
    }
  }

  bool is_own(const std::string& name) const {
    return std::any_of(own_.begin(), own_.end(), [&](const auto& item) { return item.first == name; });
  }
  void problem(const std::string& text) { problems_ += "\n  " + text; }

  void check(const std::string& name, const at::Tensor& tensor, const Offer& offered) {
    const at::Tensor& theirs = offered.tensor;
    if (theirs.sizes() != tensor.sizes()) {
      problem(fmt::format("{}: found {}, expected {}", name, shape_of(theirs), shape_of(tensor)));
    } else if (theirs.is_floating_point() != tensor.is_floating_point()) {
      problem(fmt::format("{}: found numbers of {}, expected {}", name, c10::toString(theirs.scalar_type()),
                          c10::toString(tensor.scalar_type())));
    } else if (theirs.is_floating_point() && !at::isfinite(theirs.to(tensor.scalar_type())).all().item<bool>()) {
      problem(fmt::format("{}: not all of its numbers are finite", name));
    }
  }

  const std::string& file_;
  train::NamedTensors own_;
  std::map<std::string, std::string> canonical_;  // of the further names of tied weights
  std::set<std::string> derived_;
  std::map<std::string, Offer> offers_;
  std::string problems_;
};

}  // namespace

std::vector<std::string> import_weights(torch::nn::Module& network, const ForeignWeights& weights,
                                        const train::NameMap& map, const std::string& file) {
  Import import(network, file);
  import.offer(weights, map);
  import.match();
  import.copy();
  std::vector<std::string> notices = weights.notices;
  notices.insert(notices.end(), import.notices.begin(), import.notices.end());
  for (const auto& rule : map.unused()) notices.push_back(fmt::format("the name map's '{}' matched nothing", rule));
  return notices;
}

}  // namespace fovea::exports
