#pragma once

#include "fovea/config/fields.h"

namespace fovea::config {

/// Whose document it is. A run saves every setting, so that a key which its configuration lacks is younger than the
/// run: the setting has the value that it was declared to have had formerly.
enum class Document { kUsers, kRuns };

/// Sets every setting that the document gives, leaves the others at their defaults, then runs every
/// section's check. Unknown keys, missing required ones, wrong types and values out of range are
/// usage errors that name place, key path, what was expected and what was found. After an error the
/// section's content is unspecified.
///
/// The order of precedence, default < file < command line, is the caller's: load_yaml, then
/// apply_override for each argument, then read.
void read(Section& root, const Node& document, Document whose = Document::kUsers);

}  // namespace fovea::config
