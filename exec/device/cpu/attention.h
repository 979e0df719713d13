// Causal attention in two forms: one keeps the probabilities, the other, linear in the sequence's
// length, only the largest score and the sum of exponentials of each row (Milakov and Gimelshein,
// 2018; Dao et al., 2022). A single logarithm, as on GPUs, would lose some digits of probabilities
// for large scores.
//
// For cpu_operators.cpp only, hence internal linkage. `Multiply` does a
// MatrixProduct. Sums are made in an order that depends on the shape alone: of a
// head's gradients by keys and values over rows from the last block to the first,
// and over a group from its first head to its last.
#pragma once

#include <cstdint>

#include "exec/device/cpu/library_products.h"
#include "exec/device/cpu/softmax.h"
#include "exec/device/cpu/vector.h"
#include "exec/device/device.h"

namespace pipesim::exec {
namespace {

constexpr std::int64_t query_block = 64;  // rows at a time
constexpr std::int64_t key_block = 512;   // and columns, if no scores are kept
static_assert(key_block % query_block == 0, "the first columns of a block are seen by all rows");

// The memory layout of the (sequence, head) pairs.
struct Heads {
  explicit Heads(const AttentionShape& shape)
      : count(shape.batch * shape.heads),
        heads(shape.heads),
        group(shape.group),
        size(shape.head_size),
        sequence(shape.sequence),
        hidden(shape.hidden()),
        kv_size(shape.kv_size()),
        stride(shape.qkv_size()),
        scale(1 / __builtin_sqrtf(static_cast<float>(shape.head_size))) {}

  // The first element of a head in y, and of its queries and keys in qkv.
  std::int64_t offset(std::int64_t i) const {
    return i / heads * sequence * hidden + i % heads * size;
  }
  std::int64_t offset_of_query(std::int64_t i) const {
    return i / heads * sequence * stride + i % heads * size;
  }
  std::int64_t offset_of_key(std::int64_t i) const {
    return i / heads * sequence * stride + hidden + i % heads / group * size;
  }
  bool is_first_of_group(std::int64_t i) const { return i % group == 0; }

  std::int64_t count;
  std::int64_t heads;
  std::int64_t group;
  std::int64_t size;
  std::int64_t sequence;
  std::int64_t hidden;
  std::int64_t kv_size;
  std::int64_t stride;
  float scale;
};

// ---- With all probabilities

// By blocks of rows, each with the columns up to the end of its diagonal.
template <typename Multiply>
void attention(const AttentionShape& shape, const float* qkv, float* probabilities, float* y,
               Multiply multiply) {
  const Heads heads(shape);
  for (std::int64_t head = 0; head < heads.count; ++head) {
    const std::int64_t at = heads.offset(head);
    const float* q = qkv + heads.offset_of_query(head);
    const float* k = qkv + heads.offset_of_key(head);
    const float* v = k + heads.kv_size;
    float* p = probabilities + head * heads.sequence * heads.sequence;
    for (std::int64_t first = 0; first < heads.sequence; first += query_block) {
      const std::int64_t end = smaller(first + query_block, heads.sequence);
      float* rows = p + first * heads.sequence;
      multiply({false, true, end - first, end, heads.size, q + first * heads.stride, heads.stride,
                k, heads.stride, rows, heads.sequence, false});
      for (std::int64_t row = first; row < end; ++row) {
        float* x = p + row * heads.sequence;
        softmax(row + 1, heads.scale, x);
        clear(heads.sequence - row - 1, x + row + 1);
      }
      multiply({false, false, end - first, heads.size, end, rows, heads.sequence, v, heads.stride,
                y + at + first * heads.hidden, heads.hidden, false});
    }
  }
}

// p becomes the gradient by the scores before they are scaled.
inline void softmax_backward(std::int64_t count, float factor, const float* dp, float* p) {
  const float dot =
      sum(count, [&](std::int64_t i, auto n) { return load(dp + i, n) * load(p + i, n); });
  each_vector(count, [&](std::int64_t i, auto n) {
    store(p + i, load(p + i, n) * (load(dp + i, n) - dot) * factor, n);
  });
}

inline std::int64_t attention_backward_room(const AttentionShape& shape) {
  return query_block * shape.sequence;
}

// The last block of rows first: it covers all of k and v, so the one of a group's first head may
// write dk and dv, to which the others add. `dp` is workspace.
template <typename Multiply>
void attention_backward(const AttentionShape& shape, const float* qkv, float* probabilities,
                        const float* dy, float* dqkv, float* dp, Multiply multiply) {
  const Heads heads(shape);
  for (std::int64_t head = 0; head < heads.count; ++head) {
    const float* q = qkv + heads.offset_of_query(head);
    const float* k = qkv + heads.offset_of_key(head);
    const float* v = k + heads.kv_size;
    float* dq = dqkv + heads.offset_of_query(head);
    float* dk = dqkv + heads.offset_of_key(head);
    float* dv = dk + heads.kv_size;
    float* p = probabilities + head * heads.sequence * heads.sequence;
    for (std::int64_t end = heads.sequence; end > 0;) {
      const std::int64_t first = (end - 1) / query_block * query_block;
      const bool others = end < heads.sequence || !heads.is_first_of_group(head);
      const std::int64_t count = end - first;
      const float* dy_rows = dy + heads.offset(head) + first * heads.hidden;
      float* p_rows = p + first * heads.sequence;
      multiply({false, true, count, end, heads.size, dy_rows, heads.hidden, v, heads.stride, dp,
                end, false});
      multiply({true, false, end, heads.size, count, p_rows, heads.sequence, dy_rows, heads.hidden,
                dv, heads.stride, others});
      for (std::int64_t row = 0; row < count; ++row) {
        softmax_backward(first + row + 1, heads.scale, dp + row * end,
                         p_rows + row * heads.sequence);
      }
      multiply({false, false, count, heads.size, end, p_rows, heads.sequence, k, heads.stride,
                dq + first * heads.stride, heads.stride, false});
      multiply({true, false, end, heads.size, count, p_rows, heads.sequence,
                q + first * heads.stride, heads.stride, dk, heads.stride, others});
      end = first;
    }
  }
}

// ---- Linear in the sequence's length

constexpr std::int64_t linear_attention_room = 2 * query_block * key_block;  // both ways

// The softmax of a row whose scores are processed block by block.
struct RunningSoftmax {
  float most = -__builtin_inff();
  float total = 0;  // of exp(scale (score - most))

  // Scores become exp(scale (score - most)). Returns the factor for earlier sums.
  float add(std::int64_t count, float scale, float* scores) {
    const float before = most;
    const float most_here = largest(count, scores);
    most = most_here > before ? most_here : before;
    const float here = sum(count, [&](std::int64_t i, auto n) {
      const Floats e = exponential((load(scores + i, n) - most) * scale);
      store(scores + i, e, n);
      return e;
    });
    const float factor = exponential(Floats{} + (before - most) * scale)[0];
    total = total * factor + here;
    return factor;
  }
};

inline void multiply_by(std::int64_t count, float factor, float* x) {
  each_vector(count, [&](std::int64_t i, auto n) { store(x + i, load(x + i, n) * factor, n); });
}

// state[2 x batch x heads x sequence]: the largest scores, and then the factors of exponentials;
// `scores` is workspace.
template <typename Multiply>
void linear_attention(const AttentionShape& shape, const float* qkv, float* state, float* y,
                      float* scores, Multiply multiply) {
  const Heads heads(shape);
  float* inverses = state + heads.count * heads.sequence;
  for (std::int64_t head = 0; head < heads.count; ++head) {
    const float* q = qkv + heads.offset_of_query(head);
    const float* k = qkv + heads.offset_of_key(head);
    const float* v = k + heads.kv_size;
    for (std::int64_t first = 0; first < heads.sequence; first += query_block) {
      const std::int64_t end = smaller(first + query_block, heads.sequence);
      const std::int64_t rows = end - first;
      float* y_rows = y + heads.offset(head) + first * heads.hidden;
      RunningSoftmax softmaxes[query_block];
      for (std::int64_t key = 0; key < end; key += key_block) {
        const std::int64_t columns = smaller(key_block, end - key);
        multiply({false, true, rows, columns, heads.size, q + first * heads.stride, heads.stride,
                  k + key * heads.stride, heads.stride, scores, columns, false});
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t seen = smaller(columns, first + row + 1 - key);
          float* x = scores + row * columns;
          const float factor = softmaxes[row].add(seen, heads.scale, x);
          clear(columns - seen, x + seen);
          if (key > 0) multiply_by(heads.size, factor, y_rows + row * heads.hidden);
        }
        multiply({false, false, rows, heads.size, columns, scores, columns, v + key * heads.stride,
                  heads.stride, y_rows, heads.hidden, key > 0});
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = head * heads.sequence + first + row;
        state[at] = softmaxes[row].most;
        inverses[at] = 1 / softmaxes[row].total;
        multiply_by(heads.size, inverses[at], y_rows + row * heads.hidden);
      }
    }
  }
}

// Recomputes scores. Blocks of rows as above, each with all blocks of columns.
template <typename Multiply>
void linear_attention_backward(const AttentionShape& shape, const float* qkv, const float* state,
                               const float* y, const float* dy, float* dqkv, float* room,
                               Multiply multiply) {
  const Heads heads(shape);
  float* p = room;
  float* dp = room + query_block * key_block;
  for (std::int64_t head = 0; head < heads.count; ++head) {
    const float* k = qkv + heads.offset_of_key(head);
    const float* v = k + heads.kv_size;
    float* dk = dqkv + heads.offset_of_key(head);
    float* dv = dk + heads.kv_size;
    for (std::int64_t end = heads.sequence; end > 0;) {
      const std::int64_t first = (end - 1) / query_block * query_block;
      const std::int64_t rows = end - first;
      const bool others = end < heads.sequence || !heads.is_first_of_group(head);
      const float* q = qkv + heads.offset_of_query(head) + first * heads.stride;
      float* dq = dqkv + heads.offset_of_query(head) + first * heads.stride;
      const std::int64_t at = heads.offset(head) + first * heads.hidden;
      const float* most = state + head * heads.sequence + first;
      const float* inverse = most + heads.count * heads.sequence;
      float dots[query_block];
      for (std::int64_t row = 0; row < rows; ++row) {
        const float* of_y = y + at + row * heads.hidden;
        const float* of_dy = dy + at + row * heads.hidden;
        dots[row] = sum(heads.size, [&](std::int64_t i, auto n) {
          return load(of_y + i, n) * load(of_dy + i, n);
        });
      }
      for (std::int64_t key = 0; key < end; key += key_block) {
        const std::int64_t columns = smaller(key_block, end - key);
        const std::int64_t at_key = key * heads.stride;
        multiply({false, true, rows, columns, heads.size, q, heads.stride, k + at_key, heads.stride,
                  p, columns, false});
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t seen = smaller(columns, first + row + 1 - key);
          float* x = p + row * columns;
          each_value(seen, x, [&](std::int64_t i, auto n) {
            return exponential((load(x + i, n) - most[row]) * heads.scale) * inverse[row];
          });
          clear(columns - seen, x + seen);
        }
        multiply({true, false, columns, heads.size, rows, p, columns, dy + at, heads.hidden,
                  dv + at_key, heads.stride, others});
        multiply({false, true, rows, columns, heads.size, dy + at, heads.hidden, v + at_key,
                  heads.stride, dp, columns, false});
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t seen = smaller(columns, first + row + 1 - key);
          float* x = p + row * columns;
          const float* dx = dp + row * columns;
          each_value(seen, x, [&](std::int64_t i, auto n) {
            return load(x + i, n) * (load(dx + i, n) - dots[row]) * heads.scale;
          });
        }
        multiply({false, false, rows, heads.size, columns, p, columns, k + at_key, heads.stride, dq,
                  heads.stride, key > 0});
        multiply({true, false, columns, heads.size, rows, p, columns, q, heads.stride, dk + at_key,
                  heads.stride, others});
      }
      end = first;
    }
  }
}

}  // namespace
}  // namespace pipesim::exec
