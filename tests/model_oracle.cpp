#include "tests/model_oracle.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "exec/device/random.h"

namespace pipesim::testing {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// The residual stream and what is done to it: rows of numbers, row by row.
class Pass {
 public:
  Pass(const Model& model, const Weights& weights, const OracleBatch& batch)
      : model_(model),
        weights_(weights),
        batch_(batch),
        rows_(static_cast<std::int64_t>(batch.tokens.size())) {}

  Doubles losses() {
    Doubles x = embedding();
    for (int layer = 1; layer + 1 < model_.layers(); ++layer) {
      layer_ = layer;
      if (model_.architecture == Architecture::mlp) {
        x = gelu(linear(x, model_.hidden_size, "matrix", "bias"));
        continue;
      }
      Doubles qkv = linear(norm(x, "norm1"), model_.hidden_size, "qkv");
      if (is_llama()) qkv = turn(std::move(qkv));
      add(x, drop(linear(attention(qkv), heads_size(), "out"), 0));
      const Doubles up = linear(norm(x, "norm2"), model_.hidden_size, "up");
      add(x, drop(linear(is_llama() ? gated_silu(up) : gelu(up), model_.mlp_size, "down"), 1));
    }
    layer_ = model_.layers() - 1;
    return cross_entropy(model_.architecture == Architecture::mlp ? x : norm(x, "norm"));
  }

 private:
  bool is_llama() const { return model_.architecture == Architecture::llama; }
  const Doubles& weight(const std::string& name) const {
    return weights_.at(model_.layer_name(layer_) + " " + name);
  }
  // Of a llama, only queries, keys and values may have biases.
  bool has_bias(const std::string& name) const {
    return !is_llama() || (name == "qkv bias" && model_.biases.qkv);
  }

  Doubles embedding() {
    const std::int64_t h = model_.hidden_size;
    const Doubles& table = weight("table");
    Doubles x;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t i = 0; i < h; ++i) {
        x.push_back(table[at(batch_.tokens[at(row)] * h + i)]);
        if (!is_llama()) x.back() += weight("positions")[at(row % batch_.sequence * h + i)];
      }
    }
    return drop(x, 0);
  }

  // Inverted dropout: what stays is scaled up to keep the mean.
  Doubles drop(Doubles x, std::uint32_t site) const {
    const double probability = static_cast<double>(model_.dropout_ppm) / 1e6;
    if (probability == 0) return x;
    const exec::RandomKey key{
        batch_.seed, exec::Purpose::dropout,
        site,        static_cast<std::uint32_t>(layer_),
        batch_.step, batch_.first_sequence * batch_.sequence * model_.hidden_size};
    const auto first = static_cast<std::size_t>(key.first);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto words = exec::random_words(key, (first + i) / 4);
      const bool stays = words.word[(first + i) % 4] >= probability * 4294967296.0;
      x[i] = stays ? x[i] / (1 - probability) : 0;
    }
    return x;
  }

  Doubles linear(const Doubles& x, std::int64_t inputs, const std::string& name) const {
    return linear(x, inputs, name + " matrix", name + " bias");
  }
  // x W + b, where there is a b; W[input][output].
  Doubles linear(const Doubles& x, std::int64_t inputs, const std::string& matrix,
                 const std::string& bias) const {
    const Doubles& w = weight(matrix);
    const auto outputs = static_cast<std::int64_t>(w.size()) / inputs;
    Doubles y;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t o = 0; o < outputs; ++o) {
        double sum = has_bias(bias) ? weight(bias)[at(o)] : 0;
        for (std::int64_t i = 0; i < inputs; ++i) {
          sum += x[at(row * inputs + i)] * w[at(i * outputs + o)];
        }
        y.push_back(sum);
      }
    }
    return y;
  }

  Doubles norm(const Doubles& x, const std::string& name) const {
    return is_llama() ? rms_norm(x, name) : layer_norm(x, name);
  }
  // A row by the root of the mean of its squares.
  Doubles rms_norm(const Doubles& x, const std::string& name) const {
    const std::int64_t h = model_.hidden_size;
    const Doubles& gamma = weight(name + " gamma");
    Doubles y;
    for (std::int64_t row = 0; row < rows_; ++row) {
      double mean = 0;
      for (std::int64_t i = 0; i < h; ++i) mean += std::pow(x[at(row * h + i)], 2);
      mean /= static_cast<double>(h);
      for (std::int64_t i = 0; i < h; ++i) {
        y.push_back(x[at(row * h + i)] / std::sqrt(mean + 1e-5) * gamma[at(i)]);
      }
    }
    return y;
  }
  Doubles layer_norm(const Doubles& x, const std::string& name) const {
    const std::int64_t h = model_.hidden_size;
    const Doubles& gamma = weight(name + " gamma");
    const Doubles& beta = weight(name + " beta");
    Doubles y;
    for (std::int64_t row = 0; row < rows_; ++row) {
      double mean = 0;
      for (std::int64_t i = 0; i < h; ++i) mean += x[at(row * h + i)] / static_cast<double>(h);
      double variance = 0;
      for (std::int64_t i = 0; i < h; ++i) {
        variance += std::pow(x[at(row * h + i)] - mean, 2) / static_cast<double>(h);
      }
      for (std::int64_t i = 0; i < h; ++i) {
        const double normed = (x[at(row * h + i)] - mean) / std::sqrt(variance + 1e-5);
        y.push_back(normed * gamma[at(i)] + beta[at(i)]);
      }
    }
    return y;
  }

  static Doubles gelu(Doubles x) {
    for (double& v : x) {
      const double inner = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
      v = v / 2 * (1 + std::tanh(inner));
    }
    return x;
  }

  // Of a row: gates, then what they let through.
  Doubles gated_silu(const Doubles& x) const {
    const std::int64_t m = model_.mlp_size;
    Doubles y;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t i = 0; i < m; ++i) {
        const double gate = x[at(row * 2 * m + i)];
        y.push_back(gate / (1 + std::exp(-gate)) * x[at(row * 2 * m + m + i)]);
      }
    }
    return y;
  }

  static void add(Doubles& x, const Doubles& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  std::int64_t head_size() const {
    return model_.own_head_size ? *model_.own_head_size : model_.hidden_size / model_.heads;
  }
  std::int64_t heads_size() const { return model_.heads * head_size(); }
  std::int64_t keys_size() const { return model_.kv_heads * head_size(); }
  std::int64_t qkv_size() const { return heads_size() + 2 * keys_size(); }

  // Queries and keys by their positions: of a head of n numbers, i and i + n / 2 are a point,
  // which goes round by 1 / base^(2 i / n) radians from position to position.
  Doubles turn(Doubles qkv) const {
    const std::int64_t half = head_size() / 2;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t head = 0; head < model_.heads + model_.kv_heads; ++head) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double pace = std::pow(static_cast<double>(model_.rotary_base),
                                       static_cast<double>(i) / static_cast<double>(half));
          const double angle = static_cast<double>(row % batch_.sequence) / pace;
          double& x = qkv[at(row * qkv_size() + head * head_size() + i)];
          double& y = qkv[at(row * qkv_size() + head * head_size() + i + half)];
          const double before = x;
          x = std::cos(angle) * before - std::sin(angle) * y;
          y = std::sin(angle) * before + std::cos(angle) * y;
        }
      }
    }
    return qkv;
  }

  // Of a row: q, k, v, each head by head; neighbouring heads may share k and v. A position
  // looks at its sequence's positions up to itself.
  Doubles attention(const Doubles& qkv) const {
    const std::int64_t h = heads_size();
    const std::int64_t size = head_size();
    Doubles y(at(rows_ * h));
    for (std::int64_t row = 0; row < rows_; ++row) {
      const std::int64_t first = row - row % batch_.sequence;
      for (std::int64_t head = 0; head < model_.heads; ++head) {
        const std::int64_t shared = head * model_.kv_heads / model_.heads;
        const auto q = [&](std::int64_t r, std::int64_t i) {
          return qkv[at(r * qkv_size() + head * size + i)];
        };
        const auto k = [&](std::int64_t r, std::int64_t i) {
          return qkv[at(r * qkv_size() + h + shared * size + i)];
        };
        const auto v = [&](std::int64_t r, std::int64_t i) {
          return qkv[at(r * qkv_size() + h + keys_size() + shared * size + i)];
        };
        Doubles share;
        double all = 0;
        for (std::int64_t past = first; past <= row; ++past) {
          double score = 0;
          for (std::int64_t i = 0; i < size; ++i) score += q(row, i) * k(past, i);
          share.push_back(std::exp(score / std::sqrt(static_cast<double>(size))));
          all += share.back();
        }
        for (std::int64_t past = first; past <= row; ++past) {
          for (std::int64_t i = 0; i < size; ++i) {
            y[at(row * h + head * size + i)] += share[at(past - first)] / all * v(past, i);
          }
        }
      }
    }
    return y;
  }

  Doubles cross_entropy(const Doubles& x) const {
    const std::int64_t h = model_.hidden_size;
    const Doubles& matrix = weight("matrix");  // [class][hidden]
    Doubles losses;
    for (std::int64_t row = 0; row < rows_; ++row) {
      double all = 0;
      double target = 0;
      for (std::int64_t c = 0; c < model_.vocabulary_size; ++c) {
        double logit = 0;
        for (std::int64_t i = 0; i < h; ++i) logit += x[at(row * h + i)] * matrix[at(c * h + i)];
        all += std::exp(logit);
        if (c == batch_.targets[at(row)]) target = logit;
      }
      losses.push_back(std::log(all) - target);
    }
    return losses;
  }

  const Model& model_;
  const Weights& weights_;
  const OracleBatch& batch_;
  std::int64_t rows_;
  int layer_ = 0;
};

}  // namespace

Doubles oracle_losses(const Model& model, const Weights& weights, const OracleBatch& batch) {
  return Pass(model, weights, batch).losses();
}

}  // namespace pipesim::testing
