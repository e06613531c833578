// How Catch2 shows pairs.
#pragma once

#include <ostream>

#include "fovea/tasks/translation/corpus.h"

namespace fovea::translation {

inline std::ostream& operator<<(std::ostream& stream, const Pair& pair) {
  return stream << '"' << pair.source << "\" -> \"" << pair.target << '"';
}

}  // namespace fovea::translation
