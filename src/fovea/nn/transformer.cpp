#include "fovea/nn/transformer.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/nn/children.h"

namespace fovea::nn {
namespace {

PositionalEncoding positions(const TransformerOptions& o, bool looks_ahead) {
  return PositionalEncoding(PositionalEncodingOptions{.num_hiddens = o.block.num_hiddens,
                                                      .num_heads = o.block.num_heads,
                                                      .dropout = o.block.dropout,
                                                      .max_len = o.max_len,
                                                      .positions = o.positions,
                                                      .looks_ahead = looks_ahead});
}

// Registers blks.block0, blks.block1, ... as d2l's Sequential does.
template <typename Block>
std::vector<Block> make_blocks(Children& list, const TransformerOptions& o) {
  std::vector<Block> blocks;
  for (int64_t i = 0; i < o.num_blks; ++i) {
    blocks.push_back(Block(o.block));
    list.register_module("block" + std::to_string(i), blocks.back());
  }
  return blocks;
}

}  // namespace

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerOptions& o)
    : scale_(std::sqrt(static_cast<double>(o.block.num_hiddens))) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.block.num_hiddens));
  pos_encoding_ = register_module("pos_encoding", positions(o, /*looks_ahead=*/true));
  const auto blks = register_module("blks", std::make_shared<Children>());
  blks_ = make_blocks<TransformerEncoderBlock>(*blks, o);
}

at::Tensor TransformerEncoderImpl::forward(const at::Tensor& tokens, const AttentionMask& mask,
                                           AttentionRecorder* recorder) {
  const AttentionMask self_mask = pos_encoding_->for_attention(mask);
  at::Tensor x = pos_encoding_->forward(embedding_->forward(tokens) * scale_, mask.queries());
  for (auto& blk : blks_) x = blk->forward(x, self_mask, recorder);
  return x;
}

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerOptions& o)
    : scale_(std::sqrt(static_cast<double>(o.block.num_hiddens))) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.block.num_hiddens));
  pos_encoding_ = register_module("pos_encoding", positions(o, /*looks_ahead=*/false));
  const auto blks = register_module("blks", std::make_shared<Children>());
  blks_ = make_blocks<TransformerDecoderBlock>(*blks, o);
  dense_ = register_module("dense", Linear(o.block.num_hiddens, o.vocab_size));
}

at::Tensor TransformerDecoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout,
                                           const at::Tensor& encoded, const SequenceLayout& encoded_layout,
                                           AttentionRecorder* recorder) {
  const AttentionMask self_mask = pos_encoding_->for_attention(AttentionMask::self(layout, /*causal=*/true));
  const AttentionMask cross_mask = AttentionMask::cross(layout, encoded_layout);
  at::Tensor x = pos_encoding_->forward(embedding_->forward(tokens) * scale_, layout);
  for (auto& blk : blks_) x = blk->forward(x, self_mask, encoded, cross_mask, recorder);
  return dense_->forward(x);
}

Cache TransformerDecoderImpl::make_cache(const at::Tensor& encoded, const SequenceLayout& encoded_layout,
                                         const Size& max_steps) {
  Cache cache;
  for (auto& blk : blks_) append(cache, blk->make_cache(encoded, encoded_layout, max_steps));
  return cache;
}

at::Tensor TransformerDecoderImpl::step(const at::Tensor& tokens, const Size& position, Cache& cache,
                                        AttentionRecorder* recorder) {
  at::Tensor x = embedding_->forward(tokens).unsqueeze(1) * scale_;  // (batch, 1, num_hiddens)
  x = pos_encoding_->step(x, position);
  // One query, the last of the tokens so far: it sees them all.
  const AttentionMask self_mask = pos_encoding_->for_attention(
      AttentionMask::cross(SequenceLayout::full(x), SequenceLayout::full(x, position + 1)));
  CacheCursor cursor(cache);
  for (auto& blk : blks_) x = blk->step(x, cursor, self_mask, recorder);
  cursor.check_end();
  return dense_->forward(x).squeeze(1);  // (batch, vocab_size)
}

}  // namespace fovea::nn
