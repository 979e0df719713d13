// Array layouts of the attention kernels. For .cu files only.
#pragma once

#include <cmath>
#include <cstdint>

#include "exec/device/device.h"
#include "exec/device/gpu/kernel.h"

namespace pipesim::exec::kernels {

// Rows of one head: row i begins at data + i x stride.
template <typename T>
struct HeadRows {
  T* data;
  std::int64_t stride;
  int count;
  int columns;

  __device__ T* row(std::int64_t i) const { return data + i * stride; }
};

// One call's arrays. log_sums and dots are [batch x heads x sequence]:
// the logarithm of the sum of a row's exp(scaled score), and its sum of dy y.
template <typename T>
struct AttentionArrays {
  int sequence;
  int heads;
  int kv_heads;
  int head_size;
  float scale;  // of scores
  const T* qkv;
  const T* dy;
  T* result;  // y, or dqkv
  float* log_sums;
  float* dots;

  // Heads are counted over all sequences, and so are those of keys and values, which are fewer if
  // `group` heads share them. Rows of y or dy, and of qkv or dqkv:
  template <typename U>
  __device__ HeadRows<U> outputs(U* array, int head) const {
    return part(array, hidden(), 0, heads, head);
  }
  template <typename U>
  __device__ HeadRows<U> queries(U* array, int head) const {
    return part(array, hidden() + 2 * kv_size(), 0, heads, head);
  }
  template <typename U>
  __device__ HeadRows<U> keys(U* array, int kv_head) const {
    return part(array, hidden() + 2 * kv_size(), hidden(), kv_heads, kv_head);
  }
  template <typename U>
  __device__ HeadRows<U> values(U* array, int kv_head) const {
    return part(array, hidden() + 2 * kv_size(), hidden() + kv_size(), kv_heads, kv_head);
  }
  __device__ int group() const { return heads / kv_heads; }
  __device__ int hidden() const { return heads * head_size; }
  __device__ int kv_size() const { return kv_heads * head_size; }

 private:
  template <typename U>
  __device__ HeadRows<U> part(U* array, int width, int column, int heads_in_row, int head) const {
    const std::int64_t row = std::int64_t{head / heads_in_row} * sequence;
    return {array + row * width + column + head % heads_in_row * head_size, width, sequence,
            head_size};
  }
};

// False if there are no rows; throws a work error for shapes without a kernel.
bool attention_has_work(const AttentionShape& shape);

template <typename T>
AttentionArrays<T> arrays_of(const AttentionShape& shape, const T* qkv, T* result) {
  AttentionArrays<T> arrays{};
  arrays.sequence = static_cast<int>(shape.sequence);
  arrays.heads = static_cast<int>(shape.heads);
  arrays.kv_heads = static_cast<int>(shape.kv_heads());
  arrays.head_size = static_cast<int>(shape.head_size);
  arrays.scale = 1 / std::sqrt(static_cast<float>(shape.head_size));
  arrays.qkv = qkv;
  arrays.result = result;
  return arrays;
}

// The blocks of a sequence are adjacent. Among all its heads, those with the most work come first,
// so that it ends with short ones: a head's last queries, or its first keys.
struct Place {
  int head;
  int first;  // of the tile's rows

  __device__ int end(int sequence, int tile) const {
    return sequence - first < tile ? sequence : first + tile;
  }
};
__device__ inline Place place_of_keys(int sequence, int heads, int tile) {
  const auto tiles = static_cast<unsigned>((sequence + tile - 1) / tile);
  const auto across = static_cast<unsigned>(heads);  // of a sequence
  const unsigned own_sequence = blockIdx.x / (across * tiles);
  const unsigned own = blockIdx.x % (across * tiles);
  return {static_cast<int>(own_sequence * across + own % across),
          static_cast<int>(own / across) * tile};
}
__device__ inline Place place_of_queries(int sequence, int heads, int tile) {
  const Place place = place_of_keys(sequence, heads, tile);
  const int tiles = (sequence + tile - 1) / tile;
  return {place.head, (tiles - 1) * tile - place.first};
}
inline unsigned attention_grid(const AttentionShape& shape, std::int64_t heads, int tile) {
  return grid(shape.batch * heads * blocks_for(shape.sequence, tile));
}

}  // namespace pipesim::exec::kernels
