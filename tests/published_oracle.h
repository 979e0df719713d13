// Transformers' GPT-2, Llama and Qwen2 by their own names and shapes, in double and with plain
// loops: the mean loss of a sequence, with no dropout. It shares nothing with pipeexec's layers.
//
// As modeling_gpt2.py, modeling_llama.py and modeling_qwen2.py have them: Conv1D is x W + b, a
// Linear x W^T + b; rotate_half() takes the second half of a head's numbers, negated, before the
// first.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "sim/cost/model.h"
#include "tests/tensor_files.h"

namespace pipesim::testing {

class PublishedOracle {
 public:
  PublishedOracle(const Model& model, const TestTensors& tensors)
      : model_(model), tensors_(tensors) {}

  double loss(const std::vector<std::int32_t>& tokens,
              const std::vector<std::int32_t>& targets) const {
    const bool is_llama = model_.architecture == Architecture::llama;
    Rows x = is_llama ? embed_llama(tokens) : embed_gpt(tokens);
    for (std::int64_t block = 0; block < model_.blocks; ++block) {
      x = is_llama ? llama_block(x, "model.layers." + std::to_string(block) + ".")
                   : gpt_block(x, "transformer.h." + std::to_string(block) + ".");
    }
    x = is_llama ? rms_norm(x, "model.norm") : layer_norm(x, "transformer.ln_f");
    const std::string table = is_llama ? "model.embed_tokens" : "transformer.wte";
    const Rows logits = linear(x, model_.tied_head ? table : "lm_head");
    double sum = 0;
    for (std::size_t row = 0; row < logits.size(); ++row) {
      double all = 0;
      for (const double logit : logits[row]) all += std::exp(logit);
      sum += std::log(all) - logits[row][static_cast<std::size_t>(targets[row])];
    }
    return sum / static_cast<double>(tokens.size());
  }

 private:
  using Rows = std::vector<std::vector<double>>;

  const TestTensor& tensor(const std::string& name) const { return tensors_.at(name); }
  double at(const std::string& name, std::size_t row, std::size_t column) const {
    const TestTensor& matrix = tensor(name);
    return double{matrix.numbers[row * static_cast<std::size_t>(matrix.shape[1]) + column]};
  }

  Rows embed_llama(const std::vector<std::int32_t>& tokens) const {
    return embed(tokens, [&](std::size_t token, std::size_t /*place*/, std::size_t i) {
      return at("model.embed_tokens.weight", token, i);
    });
  }
  Rows embed_gpt(const std::vector<std::int32_t>& tokens) const {
    return embed(tokens, [&](std::size_t token, std::size_t place, std::size_t i) {
      return at("transformer.wte.weight", token, i) + at("transformer.wpe.weight", place, i);
    });
  }
  using Word = std::function<double(std::size_t, std::size_t, std::size_t)>;
  Rows embed(const std::vector<std::int32_t>& tokens, const Word& word) const {
    Rows x;
    for (std::size_t place = 0; place < tokens.size(); ++place) {
      std::vector<double>& row = x.emplace_back();
      for (std::size_t i = 0; i < static_cast<std::size_t>(model_.hidden_size); ++i) {
        row.push_back(word(static_cast<std::size_t>(tokens[place]), place, i));
      }
    }
    return x;
  }

  Rows biased(Rows y, const std::string& name) const {
    const auto bias = tensors_.find(name + ".bias");
    if (bias == tensors_.end()) return y;
    for (auto& row : y) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += double{bias->second.numbers[i]};
    }
    return y;
  }
  Rows product(const Rows& x, const std::string& name, bool is_linear) const {
    const std::vector<std::int64_t>& shape = tensor(name + ".weight").shape;
    const auto outputs = static_cast<std::size_t>(shape[is_linear ? 0 : 1]);
    Rows y(x.size(), std::vector<double>(outputs));
    for (std::size_t row = 0; row < x.size(); ++row) {
      for (std::size_t o = 0; o < outputs; ++o) {
        for (std::size_t i = 0; i < x[row].size(); ++i) {
          const double weight = is_linear ? at(name + ".weight", o, i) : at(name + ".weight", i, o);
          y[row][o] += x[row][i] * weight;
        }
      }
    }
    return biased(std::move(y), name);
  }
  Rows linear(const Rows& x, const std::string& name) const { return product(x, name, true); }
  Rows conv1d(const Rows& x, const std::string& name) const { return product(x, name, false); }

  Rows layer_norm(Rows x, const std::string& name) const {
    for (auto& row : x) {
      double mean = 0, variance = 0;
      for (const double value : row) mean += value / static_cast<double>(row.size());
      for (const double value : row) {
        variance += (value - mean) * (value - mean) / static_cast<double>(row.size());
      }
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + 1e-5) *
                 double{tensor(name + ".weight").numbers[i]};
      }
    }
    return biased(std::move(x), name);
  }
  Rows rms_norm(Rows x, const std::string& name) const {
    for (auto& row : x) {
      double squares = 0;
      for (const double value : row) squares += value * value / static_cast<double>(row.size());
      for (std::size_t i = 0; i < row.size(); ++i) {
        row[i] *= double{tensor(name + ".weight").numbers[i]} / std::sqrt(squares + 1e-5);
      }
    }
    return x;
  }

  static Rows sum(Rows x, const Rows& y) {
    for (std::size_t row = 0; row < x.size(); ++row) {
      for (std::size_t i = 0; i < x[row].size(); ++i) x[row][i] += y[row][i];
    }
    return x;
  }
  Rows columns(const Rows& x, std::size_t begin, std::size_t count) const {
    Rows part;
    for (const auto& row : x) {
      const auto first = row.begin() + static_cast<std::ptrdiff_t>(begin);
      part.emplace_back(first, first + static_cast<std::ptrdiff_t>(count));
    }
    return part;
  }

  // Causal; head h of the queries has head h / (heads / kv_heads) of keys and values.
  Rows attention(const Rows& q, const Rows& k, const Rows& v) const {
    const auto size = static_cast<std::size_t>(model_.head_size());
    Rows y(q.size(), std::vector<double>(q.front().size()));
    for (std::size_t head = 0; head < static_cast<std::size_t>(model_.heads); ++head) {
      const std::size_t shared =
          head / static_cast<std::size_t>(model_.heads / model_.kv_heads) * size;
      for (std::size_t row = 0; row < q.size(); ++row) {
        std::vector<double> weights;
        double all = 0;
        for (std::size_t other = 0; other <= row; ++other) {
          double score = 0;
          for (std::size_t i = 0; i < size; ++i) {
            score += q[row][head * size + i] * k[other][shared + i];
          }
          weights.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          all += weights.back();
        }
        for (std::size_t other = 0; other <= row; ++other) {
          for (std::size_t i = 0; i < size; ++i) {
            y[row][head * size + i] += weights[other] / all * v[other][shared + i];
          }
        }
      }
    }
    return y;
  }

  // q cos + rotate_half(q) sin, head by head.
  Rows rotated(const Rows& x) const {
    const auto size = static_cast<std::size_t>(model_.head_size());
    const std::size_t half = size / 2;
    Rows y = x;
    for (std::size_t place = 0; place < x.size(); ++place) {
      for (std::size_t i = 0; i < x[place].size(); ++i) {
        const std::size_t within = i % size;
        const double power = 2.0 * static_cast<double>(within % half) / static_cast<double>(size);
        const double angle =
            static_cast<double>(place) / std::pow(static_cast<double>(model_.rotary_base), power);
        const double turned = within < half ? -x[place][i + half] : x[place][i - half];
        y[place][i] = x[place][i] * std::cos(angle) + turned * std::sin(angle);
      }
    }
    return y;
  }

  Rows gpt_block(const Rows& x, const std::string& name) const {
    const auto size = static_cast<std::size_t>(model_.hidden_size);
    const Rows qkv = conv1d(layer_norm(x, name + "ln_1"), name + "attn.c_attn");
    const Rows mixed =
        attention(columns(qkv, 0, size), columns(qkv, size, size), columns(qkv, 2 * size, size));
    const Rows h = sum(x, conv1d(mixed, name + "attn.c_proj"));
    Rows up = conv1d(layer_norm(h, name + "ln_2"), name + "mlp.c_fc");
    for (auto& row : up) {
      for (double& v : row) {  // gelu_new
        v = 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
      }
    }
    return sum(h, conv1d(up, name + "mlp.c_proj"));
  }

  Rows llama_block(const Rows& x, const std::string& name) const {
    const Rows normed = rms_norm(x, name + "input_layernorm");
    const Rows mixed = attention(rotated(linear(normed, name + "self_attn.q_proj")),
                                 rotated(linear(normed, name + "self_attn.k_proj")),
                                 linear(normed, name + "self_attn.v_proj"));
    const Rows h = sum(x, linear(mixed, name + "self_attn.o_proj"));
    const Rows normed2 = rms_norm(h, name + "post_attention_layernorm");
    Rows gate = linear(normed2, name + "mlp.gate_proj");
    const Rows up = linear(normed2, name + "mlp.up_proj");
    for (std::size_t row = 0; row < gate.size(); ++row) {
      for (std::size_t i = 0; i < gate[row].size(); ++i) {
        gate[row][i] *= up[row][i] / (1 + std::exp(-gate[row][i]));
      }
    }
    return sum(h, linear(gate, name + "mlp.down_proj"));
  }

  const Model& model_;
  const TestTensors& tensors_;
};

}  // namespace pipesim::testing
