#include "fovea/nn/transformer.h"

#include <torch/torch.h>

#include <cmath>

#include "fovea/nn/children.h"

namespace fovea::nn {
namespace {

PositionalEncoding positions(const TransformerOptions& o) {
  return PositionalEncoding(PositionalEncodingOptions{.num_hiddens = o.block.num_hiddens,
                                                      .dropout = o.block.dropout,
                                                      .max_len = o.max_len,
                                                      .learned = o.learned_positions});
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

std::string block_name(const char* side, size_t i, const char* attention = "") {
  return std::string(side) + ".block" + std::to_string(i) + attention;
}

}  // namespace

TransformerEncoderImpl::TransformerEncoderImpl(const TransformerOptions& o)
    : scale_(std::sqrt(static_cast<double>(o.block.num_hiddens))) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.block.num_hiddens));
  pos_encoding_ = register_module("pos_encoding", positions(o));
  const auto blks = register_module("blks", std::make_shared<Children>());
  blks_ = make_blocks<TransformerEncoderBlock>(*blks, o);
}

at::Tensor TransformerEncoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout,
                                           AttentionRecorder* recorder) {
  const AttentionMask mask = AttentionMask::self(layout);
  at::Tensor x = pos_encoding_->forward(embedding_->forward(tokens) * scale_, layout);
  for (size_t i = 0; i < blks_.size(); ++i) {
    if (recorder != nullptr) recorder->expect({block_name("encoder", i)});
    x = blks_[i]->forward(x, mask, recorder);
  }
  return x;
}

TransformerDecoderImpl::TransformerDecoderImpl(const TransformerOptions& o)
    : scale_(std::sqrt(static_cast<double>(o.block.num_hiddens))) {
  embedding_ = register_module("embedding", torch::nn::Embedding(o.vocab_size, o.block.num_hiddens));
  pos_encoding_ = register_module("pos_encoding", positions(o));
  const auto blks = register_module("blks", std::make_shared<Children>());
  blks_ = make_blocks<TransformerDecoderBlock>(*blks, o);
  dense_ = register_module("dense", Linear(o.block.num_hiddens, o.vocab_size));
}

at::Tensor TransformerDecoderImpl::forward(const at::Tensor& tokens, const SequenceLayout& layout,
                                           const at::Tensor& encoded, const SequenceLayout& encoded_layout,
                                           AttentionRecorder* recorder) {
  const AttentionMask self_mask = AttentionMask::self(layout, /*causal=*/true);
  const AttentionMask cross_mask = AttentionMask::cross(layout, encoded_layout);
  at::Tensor x = pos_encoding_->forward(embedding_->forward(tokens) * scale_, layout);
  for (size_t i = 0; i < blks_.size(); ++i) {
    if (recorder != nullptr) recorder->expect({block_name("decoder", i, ".self"), block_name("decoder", i, ".cross")});
    x = blks_[i]->forward(x, self_mask, encoded, cross_mask, recorder);
  }
  return dense_->forward(x);
}

std::vector<DecoderBlockCache> TransformerDecoderImpl::make_caches(const at::Tensor& encoded,
                                                                   const SequenceLayout& encoded_layout,
                                                                   const Size& max_steps) {
  std::vector<DecoderBlockCache> caches;
  for (auto& blk : blks_) {
    DecoderBlockCache cache{.cross = blk->project_encoded(encoded, encoded_layout), .self = {}};
    // Beam search reorders rows; contiguous ones are copied in one piece.
    cache.cross = {cache.cross.keys.contiguous(), cache.cross.values.contiguous()};
    const at::Tensor& keys = cache.cross.keys;  // (batch, heads, keys, head_dim)
    const std::vector<Size> sizes = {Size::of(keys, 0), keys.size(1), max_steps, keys.size(3)};
    cache.self = {new_zeros(keys, sizes), new_zeros(keys, sizes)};
    caches.push_back(std::move(cache));
  }
  return caches;
}

at::Tensor TransformerDecoderImpl::step(const at::Tensor& tokens, const Size& position,
                                        const std::vector<DecoderBlockCache>& caches,
                                        const SequenceLayout& encoded_layout, AttentionRecorder* recorder) {
  const AttentionMask cross_mask(SequenceLayout::full(tokens.size(0), 1, tokens.device()), encoded_layout.as_padded());
  at::Tensor x = embedding_->forward(tokens).unsqueeze(1) * scale_;  // (batch, 1, num_hiddens)
  x = pos_encoding_->step(x, position);
  for (size_t i = 0; i < blks_.size(); ++i) {
    if (recorder != nullptr) recorder->expect({block_name("decoder", i, ".self"), block_name("decoder", i, ".cross")});
    x = blks_[i]->step(x, position, caches[i].self, caches[i].cross, cross_mask, recorder);
  }
  return dense_->forward(x).squeeze(1);  // (batch, vocab_size)
}

}  // namespace fovea::nn
