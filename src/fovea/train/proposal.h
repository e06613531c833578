#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fovea::train {

/// A setting of a configuration that is proposed to a user (`fovea init`).
struct ProposedSetting {
  std::string key;       // "model.num_hiddens"
  std::string value;     // as YAML
  std::string why = {};  // a comment in plain words; may be empty
};

/// How much there is to learn from.
struct DataAmount {
  int64_t examples = 0;         // to train on
  int64_t items = 0;            // what the loss is counted in: target tokens, images, rows
  int64_t steps_per_epoch = 1;  // batches
};

/// `wanted` steps in whole epochs, between `least` and `most`.
inline int64_t epochs_for(const DataAmount& amount, int64_t wanted, int64_t least, int64_t most) {
  const int64_t epochs = (wanted + amount.steps_per_epoch - 1) / amount.steps_per_epoch;
  return epochs < least ? least : epochs > most ? most : epochs;
}

}  // namespace fovea::train
