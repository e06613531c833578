// What ptxas said when it compiled the CUDA kernels: registers that do not fit spill to memory, and no other test here
// would notice, since there is no GPU to be slow.
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>

#include "tests/catch.h"

#ifdef FOVEA_PTXAS_REPORTS

namespace fs = std::filesystem;

namespace {

struct Report {
  std::set<std::string> architectures;
  int spilled_bytes = 0;  // the most of any architecture
};

// flash_forward<64> -> its report
std::map<std::string, Report> read_reports(const fs::path& directory) {
  std::map<std::string, Report> reports;
  const std::regex entry("Compiling entry function '_ZN5fovea3ops4cuda\\d+(\\w+)_kernelI(\\w+?)EEEv\\w+' for '(\\w+)'");
  const std::regex spills("(\\d+) bytes spill stores, (\\d+) bytes spill loads");
  for (const auto& file : fs::directory_iterator(directory)) {
    if (file.path().extension() != ".txt") continue;
    std::ifstream in(file.path());
    Report* current = nullptr;
    for (std::string line; std::getline(in, line);) {
      std::smatch match;
      if (std::regex_search(line, match, entry)) {
        const std::string argument = match[2];  // Li64, Lb1
        current = &reports[match[1].str() + "<" + argument.substr(2) + ">"];
        current->architectures.insert(match[3]);
      } else if (current != nullptr && std::regex_search(line, match, spills)) {
        current->spilled_bytes = std::max(current->spilled_bytes, std::stoi(match[1]) + std::stoi(match[2]));
      }
    }
  }
  return reports;
}

}  // namespace

TEST_CASE("the CUDA kernels keep their registers") {
  const auto reports = read_reports(FOVEA_PTXAS_REPORTS);
  const std::set<std::string> main_configurations = {"flash_forward<64>",   "flash_forward<128>", "flash_backward<64>",
                                                     "flash_backward<128>", "flash_short<0>",     "flash_short<1>",
                                                     "flash_delta<16>",     "flash_float<0>"};
  // Where 16 x 256 sums and their factors are all that fits, a few words outside the loops may spill.
  const std::set<std::string> others = {"flash_forward<256>", "flash_backward<256>", "flash_float<1>"};
  CHECK(reports.size() == main_configurations.size() + others.size());
  CHECK(reports.size() <= 12);
  for (const auto& [name, report] : reports) {
    INFO(name << " spills " << report.spilled_bytes << " bytes");
    CHECK((main_configurations.contains(name) || others.contains(name)));
    CHECK(report.spilled_bytes <= (main_configurations.contains(name) ? 0 : 256));
    CHECK(report.architectures == std::set<std::string>{"sm_80", "sm_90"});
  }
}

#else

TEST_CASE("the CUDA kernels keep their registers") {
  WARN("not checked: built without CUDA kernels");
}

#endif
