#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "fovea/config/checker.h"
#include "fovea/config/fields.h"
#include "fovea/nn/attention.h"

/// Settings that several models have, declared once. Each binds a field of the options that the network itself takes.
namespace fovea::models {

/// The sizes of a stack of blocks. The width inside the dense layers has a name of its own in each chapter of the book.
inline void width_fields(config::Fields& f, int64_t& num_hiddens, std::string_view inner_key, int64_t& inner,
                         std::string_view inner_help, int64_t& num_heads) {
  f("num_hiddens", num_hiddens, "width of embeddings and of every layer", config::range(1, 65536));
  f(inner_key, inner, inner_help, config::range(1, 1048576));
  f("num_heads", num_heads, "attention heads; must divide num_hiddens", config::range(1, 1024));
}

inline void num_blks_field(config::Fields& f, int64_t& num_blks, std::string_view help) {
  f("num_blks", num_blks, help, config::range(1, 1000));
}

inline void use_bias_field(config::Fields& f, bool& use_bias) {
  f("use_bias", use_bias, "biases in the attention's projections");
}

inline void attention_field(config::Fields& f, nn::AttentionPath& attention) {
  f("attention", attention, "flash computes tile by tile; plain writes all weights to memory, with the same result");
}

inline void token_positions_field(config::Fields& f, nn::Positions& positions) {
  f("positions", positions,
    "how the places of an image's tokens, counted row by row, are known: learned and sinusoidal ones are added, the "
    "others are handed to attention");
}

inline void stochastic_depth_field(config::Fields& f, double& stochastic_depth) {
  f("stochastic_depth", stochastic_depth,
    "share of examples for which the last block adds nothing, in training; blocks before it fall silent less often",
    config::half_open(0, 1));
}

inline void layer_scale_field(config::Fields& f, std::optional<double>& layer_scale) {
  f("layer_scale", layer_scale,
    "what the learnt factors start from by which blocks multiply all they add, such as 1e-4; null: there are none",
    config::above(0));
}

inline void label_smoothing_field(config::Fields& f, double& label_smoothing, const std::string& over) {
  f("label_smoothing", label_smoothing, "share of the target spread over " + over + ", in training",
    config::half_open(0, 1));
}

inline void check_heads(const config::Checker& c, int64_t num_hiddens, int64_t num_heads) {
  if (num_hiddens % num_heads == 0) return;
  c.fail({"num_heads", "num_hiddens"}, "num_hiddens must be divisible by num_heads, got {} and {}", num_hiddens,
         num_heads);
}

}  // namespace fovea::models
