#pragma once

#include "fovea/tasks/tasks.h"
#include "models/attention_pooling.h"
#include "models/cct.h"
#include "models/mlp.h"
#include "models/nearest_mean.h"
#include "models/resnet.h"
#include "models/seq2seq.h"
#include "models/swin.h"
#include "models/transformer.h"
#include "models/vit.h"

namespace fovea::models {

/// Every model a config can name. A new one adds its line here.
inline std::vector<train::ModelEntry> all_models() {
  return {
      transformer_entry(), seq2seq_entry(), vit_entry(),          deit_entry(), swin_entry(),
      cct_entry(),         resnet_entry(),  nearest_mean_entry(), mlp_entry(),  nadaraya_watson_entry(),
      pooling_entry(),
  };
}

/// All that the program fovea can do.
inline tasks::Registry registry() {
  return {all_models(), tasks::all_tasks()};
}

}  // namespace fovea::models
