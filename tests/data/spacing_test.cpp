#include "fovea/data/spacing.h"

#include "tests/catch.h"

using namespace fovea;

TEST_CASE("C57: text without spaces is known by its script") {
  for (const std::string text : {"我爱你。", "今天天气很好，我们去公园吧。", "今日はいい天気ですね。",
                                 "東京へ行きたい。", "วันนี้อากาศดีมาก", "ខ្ញុំស្រលាញ់អ្នកណាស់", "ဒီနေ့ရာသီဥတုကောင်းတယ်"}) {
    INFO(text);
    CHECK(data::lacks_spaces({text}));
    CHECK(data::lacks_spaces({text, "GPU 3.5"}));
  }
}

TEST_CASE("C57: long words are not text without spaces") {
  for (const std::string text :
       {"Donaudampfschifffahrtsgesellschaftskapitänswitwenrente",
        "Rindfleischetikettierungsüberwachungsaufgabe ist lang.",
        "Lentokonesuihkuturbiinimoottoriapumekaanikkoaliupseerioppilas", "한국어에는 띄어쓰기가 있습니다", "Нормально",
        "हिन्दी में रिक्त स्थान होते हैं", "", "...", "مرحبا بالعالم"}) {
    INFO(text);
    CHECK_FALSE(data::lacks_spaces({text}));
  }
  // A quotation in a German text, and text that was cut into words before.
  CHECK_FALSE(data::lacks_spaces({"Das heißt auf Chinesisch 我爱你 und ist leicht zu merken, sagt man."}));
  CHECK_FALSE(data::lacks_spaces({"今天 天气 很 好 ， 我们 去 公园 吧 。", "我 爱 你 。"}));
  CHECK_FALSE(data::lacks_spaces({"วัน นี้ อากาศ ดี มาก"}));
  CHECK_FALSE(data::lacks_spaces({"\xFF\xFE"}));
}
