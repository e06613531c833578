// Whatever bytes come, the readers of text give a result that holds together or throw fovea::Error.
#include "fovea/core/error.h"
#include "fovea/core/gzip.h"
#include "fovea/tasks/translation/corpus.h"
#include "fovea/tasks/translation/encode.h"
#include "fovea/data/split.h"
#include "fovea/data/text.h"
#include "fovea/data/vocabulary.h"

#include <cstdlib>

using namespace fovea;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// The way of a corpus from its bytes to its ids.
void read_and_encode(const translation::Corpus& corpus) {
  const translation::ReadCounts& counts = corpus.counts;
  require(!corpus.pairs.empty() && counts.kept == static_cast<int64_t>(corpus.pairs.size()));
  require(counts.lines == counts.kept + counts.skipped_blank + counts.skipped_one_sided);
  const translation::TokenizedCorpus tokens = translation::tokenize_pairs(corpus.pairs, {}, {.num_steps = 9, .too_long = translation::TooLong::kTruncate});
  const data::Vocabulary vocabulary(tokens.sources, 1);
  require(data::Vocabulary::parse(vocabulary.dump(), "vocabulary") == vocabulary);
  std::vector<std::string> keys;
  for (int64_t i = 0; i < tokens.size(); ++i) {
    const translation::Tokens& source = tokens.sources[static_cast<size_t>(i)];
    require(!source.empty() && source.size() < 9);
    require(data::tokenize(data::split_key(source)) == source);
    keys.push_back(data::split_key(source));
  }
  for (const translation::EncodedPair& pair : translation::encode_pairs(tokens, vocabulary, vocabulary)) {
    require(pair.source.back() == vocabulary.eos() && pair.source.size() <= 9);
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
