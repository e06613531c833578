// Whatever bytes come, the readers of text give a result that holds together or throw fovea::Error.
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/data/split.h"
#include "fovea/data/text.h"
#include "fovea/data/tokenizer.h"
#include "fovea/data/vocabulary.h"
#include "fovea/tasks/translation/corpus.h"
#include "fovea/tasks/translation/encode.h"

#include <algorithm>
#include <cstdlib>

using namespace fovea;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// The way of a corpus from its bytes to its ids.
void read_and_encode(const translation::Corpus& corpus) {
  const translation::ReadCounts& counts = corpus.counts;
  static_cast<void>(translation::doubts(corpus));
  require(!corpus.pairs.empty() && counts.kept == static_cast<int64_t>(corpus.pairs.size()));
  require(counts.lines == counts.kept + counts.skipped_blank + counts.skipped_one_sided);
  std::vector<std::string> keys;
  for (const translation::Pair& pair : corpus.pairs) {
    const std::string unified = data::unify_characters(pair.source);
    require(data::unify_characters(unified) == unified);
    const std::vector<std::string> source = data::to_tokens(pair.source);
    require(!source.empty() && data::tokenize(data::split_key(source)) == source);
    keys.push_back(data::split_key(source));
  }
  const translation::LengthOptions length{.num_steps = 9, .too_long = translation::TooLong::kTruncate};
  for (const data::TokenizerEntry& entry : data::all_tokenizers()) {
    const auto settings = entry.named.make();
    const auto learner = entry.learner(*settings, {}), unused = entry.learner(*settings, {});
    translation::learn_from(corpus.pairs, length, *learner, *unused);
    const auto tokenizer = learner->learn();
    for (const translation::EncodedPair& pair :
         translation::encode_pairs(corpus.pairs, *tokenizer, *tokenizer, length).pairs) {
      require(pair.source.back() == tokenizer->eos() && pair.source.size() <= 9);
      require(std::count(pair.target.begin(), pair.target.end(), tokenizer->eos()) == 1);
      const std::vector<int64_t> ids(pair.source.begin(), pair.source.end() - 1);
      require(tokenizer->encode(tokenizer->decode(ids)).size() <= ids.size());
    }
  }
  require(!data::split_by_source(keys, {.validation = 0.1, .test = 0.1}).train.empty());
}

void run(uint8_t which, std::string_view bytes) {
  switch (which % 4) {
    case 0:
      read_and_encode(translation::parse_tsv(bytes, "a.tsv"));
      break;
    case 1: {
      const size_t half = bytes.size() / 2;
      read_and_encode(translation::parse_parallel(bytes.substr(0, half), bytes.substr(half), "a", "b"));
      break;
    }
    case 2: {
      const data::Vocabulary vocabulary = data::Vocabulary::parse(bytes, "vocabulary");
      require(vocabulary.dump() == bytes);
      break;
    }
    default:
      require(gunzip(bytes, "a.gz", 1 << 20).size() <= 1 << 20);
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  static_cast<void>(data::excerpt(bytes));
  try {
    run(data[0], bytes);
  } catch (const Error&) {
  }
  return 0;
}
