#pragma once

namespace fovea {

/// From here on SIGINT and SIGTERM ask for a stop instead of ending the process; a second one ends it.
void catch_stop_signals();
/// The signal that asked for a stop, or 0.
int stop_signal();

}  // namespace fovea
