#pragma once

#include <filesystem>

/// The folder of the project: what tests read beside what they write.
std::filesystem::path source_dir();
