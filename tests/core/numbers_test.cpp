#include "fovea/core/numbers.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"

using fovea::format_double;
using fovea::parse_double;
using fovea::parse_int;

TEST_CASE("doubles are read in every usual spelling", "[numbers][C29]") {
  for (const char* text : {"1e-3", "1.0e-3", "1E-3", ".001", "+1e-3", "0.001", "0.001000", "1e-03", "+.001"}) {
    INFO(text);
    REQUIRE(parse_double(text));
    CHECK(*parse_double(text) == 1e-3);
  }
  CHECK(*parse_double("-0.5") == -0.5);
  CHECK(*parse_double("-.5") == -0.5);
  CHECK(*parse_double("5.") == 5.0);
  CHECK(*parse_double("1E+3") == 1000.0);
  CHECK(*parse_double("0e5") == 0.0);
  CHECK(std::signbit(*parse_double("-0")));
  CHECK(*parse_double("1.7976931348623157e308") == std::numeric_limits<double>::max());
  CHECK(*parse_double("5e-324") == std::numeric_limits<double>::denorm_min());
}

TEST_CASE("what is not a finite double is refused with a reason", "[numbers][C29]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "there is no text"},
      {"1e400", "it is too large for a double"},
      {"-1e400", "it is too large for a double"},
      {std::string(400, '9'), "it is too large for a double"},
      {"1e-400", "it is too close to zero for a double"},
      {"0." + std::string(400, '0') + "1", "it is too close to zero for a double"},
      {"nan", "it is not a finite number"},
      {"NaN", "it is not a finite number"},
      {".nan", "it is not a finite number"},
      {"inf", "it is not a finite number"},
      {"-inf", "it is not a finite number"},
      {"+.INF", "it is not a finite number"},
      {"infinity", "it is not a finite number"},
      {"nan(1)", "it is not a number"},
      {"abc", "it is not a number"},
      {"-", "it is not a number"},
      {".", "it is not a number"},
      {"+-5", "it is not a number"},
      {"--5", "it is not a number"},
      {" 1", "it is not a number"},
      {"e5", "it is not a number"},
      {"1 ", "text follows the number"},
      {"0.1f", "text follows the number"},
      {"1e", "text follows the number"},
      {"1e+", "text follows the number"},
      {"1,5", "text follows the number"},
      {"1_000", "text follows the number"},
      {"1.2.3", "text follows the number"},
      {"10%", "text follows the number"},
      {"0x10", "write it in decimal"},
      {"010", "write it without leading zeros"},
      {"00.5", "write it without leading zeros"},
      {"-007", "write it without leading zeros"},
      {std::string("1\0", 2), "text follows the number"},
  };
  for (const auto& [text, reason] : cases) {
    INFO(text);
    CHECK_FALSE(parse_double(text));
    CHECK(parse_double(text).reason == reason);
  }
}

TEST_CASE("whole numbers are read exactly", "[numbers]") {
  CHECK(*parse_int("0") == 0);
  CHECK(*parse_int("-0") == 0);
  CHECK(*parse_int("+12") == 12);
  CHECK(*parse_int("-1") == -1);
  CHECK(*parse_int("9007199254740993") == 9007199254740993);
  CHECK(*parse_int("9223372036854775807") == std::numeric_limits<int64_t>::max());
  CHECK(*parse_int("-9223372036854775808") == std::numeric_limits<int64_t>::min());
}

TEST_CASE("what is not a whole number is refused with a reason", "[numbers][C29]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "there is no text"},
      {"3 epochs", "text follows the number"},
      {"3.5", "it has a fraction"},
      {"1e-3", "it has a fraction"},
      {"3.0", "write 3"},
      {"1e3", "write 1000"},
      {"-1E3", "write -1000"},
      {"1e400", "it is too large for a double"},
      {"1e30", "it does not fit into 64 bits"},
      {"9223372036854775808", "it does not fit into 64 bits"},
      {"nan", "it is not a finite number"},
      {"three", "it is not a number"},
      {"010", "write it without leading zeros"},
      {"0o10", "text follows the number"},
      {"0x1F", "write it in decimal"},
      {"1,000", "text follows the number"},
      {"++1", "it is not a number"},
  };
  for (const auto& [text, reason] : cases) {
    INFO(text);
    CHECK_FALSE(parse_int(text));
    CHECK(parse_int(text).reason == reason);
  }
}

TEST_CASE("doubles are written short and read back exactly", "[numbers]") {
  CHECK(format_double(0.1) == "0.1");
  CHECK(format_double(1.0) == "1");
  CHECK(format_double(65536.0) == "65536");
  CHECK(format_double(1e6) == "1000000");
  CHECK(format_double(-2.5) == "-2.5");
  CHECK(format_double(1e-4) == "0.0001");
  CHECK(format_double(1e-9) == "1.0e-09");
  CHECK(format_double(2.5e-9) == "2.5e-09");
  CHECK(format_double(1e300) == "1.0e+300");
  CHECK(format_double(0.0) == "0");
  for (const double value : {0.1 + 0.2, 1.0 / 3, -0.0, 1e15, 1e16, 123456789012345680.0, 1e300, 5e-324, 0.98, 1e-9,
                             std::numeric_limits<double>::max(), std::numeric_limits<double>::min()}) {
    const auto back = parse_double(format_double(value));
    INFO(format_double(value));
    REQUIRE(back);
    CHECK(*back == value);
    CHECK(std::signbit(*back) == std::signbit(value));
  }
}
