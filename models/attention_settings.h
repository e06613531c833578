#pragma once

#include <string>

#include "fovea/config/checker.h"
#include "fovea/config/fields.h"
#include "fovea/nn/attention.h"

/// What the configurations of all models with multi-head attention have in common.
namespace fovea::models {

inline void attention_field(config::Fields& f, std::string& attention) {
  f("attention", attention, "flash computes tile by tile; plain writes all weights to memory, with the same result",
    config::choice({"flash", "plain"}));
}

inline nn::AttentionPath attention_path(const std::string& attention) {
  return attention == "plain" ? nn::AttentionPath::kPlain : nn::AttentionPath::kFlash;
}

inline void check_heads(const config::Checker& c, int64_t num_hiddens, int64_t num_heads) {
  if (num_hiddens % num_heads == 0) return;
  c.fail({"num_heads", "num_hiddens"}, "num_hiddens must be divisible by num_heads, got {} and {}", num_hiddens,
         num_heads);
}

}  // namespace fovea::models
