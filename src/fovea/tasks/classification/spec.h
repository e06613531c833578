#pragma once

#include <cstdint>

#include "fovea/data/data_spec.h"

namespace fovea::classification {

/// What every model that classifies must know of its data. Each kind of data derives its own: images/spec.h.
struct ClassificationSpec : data::DataSpec {
  static constexpr const char* kKind = "labelled examples";

  int64_t num_classes = 0;

  const char* task() const override { return "classification"; }
  const char* kind() const override { return kKind; }
};

}  // namespace fovea::classification
