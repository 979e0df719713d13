// Causal attention, and back through it, on tiles of 64 queries by 64 keys.
//
// Forward, a block has a tile of queries and goes through the keys, with the
// largest score and the sum of exponentials so far (Milakov and Gimelshein,
// 2018; Dao et al., 2022). Backward, the weights are made again from the
// logarithms of those sums: one kernel has a tile of queries and adds up dq in
// the order of keys, another a tile of keys and adds up dk and dv in the order of
// queries. Threads are 16 x 16, each with 4 x 4 of a tile's scores and with 4 rows
// of the sums. All arithmetic is float32.
#include <string>

#include "exec/device/gpu/attention.h"
#include "exec/device/gpu/kernels.h"
#include "traces/base/error.h"

namespace pipesim::exec::kernels {
namespace {

constexpr int tile = 64;
constexpr int depth = 16;
constexpr int side = 4;              // of a thread's part of the scores
constexpr int across = tile / side;  // threads
constexpr std::int64_t max_head_size = 4 * tile;
constexpr std::int64_t max_sequence = std::int64_t{1} << 30;  // in 32 bits, and tiles beyond
static_assert(across * across == block_threads, "a thread for each part");
static_assert(tile * depth == 4 * block_threads, "a thread loads four of a strip");

// Four more than a row needs, so that a column's elements meet other banks.
using Strip = float[depth][tile + 4];
using Weights = float[tile][tile + 4];
template <int groups>
using WideStrip = float[depth][groups * tile];

__device__ inline int own_row() { return static_cast<int>(threadIdx.x) / across * side; }
__device__ inline int own_column() { return static_cast<int>(threadIdx.x) % across * side; }

__device__ inline Four four_of(const float* aligned) {
  const float4 all = *reinterpret_cast<const float4*>(aligned);
  return {{all.x, all.y, all.z, all.w}};
}

// The four numbers of a strip that this thread loads.
template <typename T>
__device__ inline Four fetch(const HeadRows<const T>& x, int row, int column) {
  if (row >= x.count || column >= x.columns) return {};
  return load<4>(x.row(row) + column, group_size(column, x.columns));
}

struct Products {
  Strip a;
  Strip b;
};

// sum[i][j] = a's row times b's row, of this thread's part of the two tiles. The next strips are
// loaded while these are multiplied. No thread reads `room` any more when it returns.
template <typename T>
__device__ inline void products(const HeadRows<const T>& a, int first_a, const HeadRows<const T>& b,
                                int first_b, Products (&room)[2], float (&sum)[side][side]) {
  for (auto& row : sum) {
    for (float& one : row) one = 0;
  }
  const int line = static_cast<int>(threadIdx.x) / (depth / 4);
  const int place = static_cast<int>(threadIdx.x) % (depth / 4) * 4;
  Four next_a = fetch(a, first_a + line, place);
  Four next_b = fetch(b, first_b + line, place);
  int turn = 0;
  for (int column = 0; column < a.columns; column += depth) {
    Products& strips = room[turn];
    turn = 1 - turn;
    for (int j = 0; j < 4; ++j) {
      strips.a[place + j][line] = next_a.v[j];
      strips.b[place + j][line] = next_b.v[j];
    }
    __syncthreads();
    next_a = fetch(a, first_a + line, column + depth + place);
    next_b = fetch(b, first_b + line, column + depth + place);
#pragma unroll
    for (int p = 0; p < depth; ++p) {
      const Four left = four_of(&strips.a[p][own_row()]);
      const Four right = four_of(&strips.b[p][own_column()]);
      for (int i = 0; i < side; ++i) {
        for (int j = 0; j < side; ++j) sum[i][j] += left.v[i] * right.v[j];
      }
    }
  }
  __syncthreads();
}

// A thread's part of a tile of results: 4 rows, and of each group of 64 columns 4.
template <int groups>
struct Sums {
  float v[side][groups][4] = {};

  // Row i by factor[i].
  __device__ void scale(const float (&factor)[side]) {
#pragma unroll
    for (int i = 0; i < side; ++i) {
#pragma unroll
      for (int group = 0; group < groups; ++group) {
        for (int j = 0; j < 4; ++j) v[i][group][j] *= factor[i];
      }
    }
  }
};

// sums += weights times the 64 rows of x from `first`. `weights` may have been written just before;
// no thread reads them or `room` any more when it returns.
template <int groups, typename T>
__device__ inline void mix(const Weights& weights, const HeadRows<const T>& x, int first,
                           WideStrip<groups>& room, Sums<groups>& sums) {
  Four next[groups];  // every 256th group of four of the strip
  const auto fetch_next = [&](int p) {
#pragma unroll
    for (int k = 0; k < groups; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * block_threads;
      const int line = i / (groups * tile / 4);
      next[k] = fetch(x, first + p + line, i % (groups * tile / 4) * 4);
    }
  };
  fetch_next(0);
  for (int p = 0; p < tile; p += depth) {
#pragma unroll
    for (int k = 0; k < groups; ++k) {
      const int i = static_cast<int>(threadIdx.x) + k * block_threads;
      const auto& v = next[k].v;
      *reinterpret_cast<float4*>(&room[i / (groups * tile / 4)][i % (groups * tile / 4) * 4]) =
          make_float4(v[0], v[1], v[2], v[3]);
    }
    __syncthreads();
    if (p + depth < tile) fetch_next(p + depth);
#pragma unroll
    for (int q = 0; q < depth; q += 4) {
      Four left[side];
      for (int i = 0; i < side; ++i) left[i] = four_of(&weights[own_row() + i][p + q]);
      for (int part = 0; part < 4; ++part) {
#pragma unroll
        for (int group = 0; group < groups; ++group) {
          const Four right = four_of(&room[q + part][group * tile + own_column()]);
          for (int i = 0; i < side; ++i) {
            for (int j = 0; j < 4; ++j) sums.v[i][group][j] += left[i].v[part] * right.v[j];
          }
        }
      }
    }
    __syncthreads();
  }
}

// Used alternately for products and for mixing.
template <int groups>
union Room {
  Products products[2];
  WideStrip<groups> wide;
};

__device__ inline void store_weights(const float (&part)[side][side], Weights& weights) {
  for (int i = 0; i < side; ++i) {
    *reinterpret_cast<float4*>(&weights[own_row() + i][own_column()]) =
        make_float4(part[i][0], part[i][1], part[i][2], part[i][3]);
  }
}

// The rows of x from `first` become the sums.
template <int groups, typename T>
__device__ inline void store_sums(const Sums<groups>& sums, const HeadRows<T>& x, int first) {
#pragma unroll
  for (int i = 0; i < side; ++i) {
    const int row = first + own_row() + i;
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      const int column = group * tile + own_column();
      if (row >= x.count || column >= x.columns) continue;
      const auto& part = sums.v[i][group];
      store(x.row(row) + column, Four{{part[0], part[1], part[2], part[3]}},
            group_size(column, x.columns));
    }
  }
}

// Of the rows of a tile. Four threads share a row.
struct Softmax {
  float largest[tile];
  float sum[tile];     // of exp(score - largest)
  float factor[tile];  // multiplies earlier sums
  float part[2][tile][4];
};

// Scores become exp(score - largest so far). All threads call it, and each
// passes a barrier before it reads what another has written.
__device__ inline void exponentials(Weights& scores, Softmax& rows) {
  const int row = static_cast<int>(threadIdx.x) / 4;
  const int quarter = static_cast<int>(threadIdx.x) % 4;
  float most = -INFINITY;
  for (int i = quarter; i < tile; i += 4) most = Largest()(most, scores[row][i]);
  rows.part[0][row][quarter] = most;
  __syncthreads();
  const float before = rows.largest[row];
  most = before;
  for (const float part : rows.part[0][row]) most = Largest()(most, part);
  float sum = 0;
  for (int i = quarter; i < tile; i += 4) {
    scores[row][i] = expf(scores[row][i] - most);
    sum += scores[row][i];
  }
  rows.part[1][row][quarter] = sum;
  __syncthreads();
  if (quarter != 0) return;
  const float* parts = rows.part[1][row];
  const float factor = expf(before - most);
  rows.factor[row] = factor;
  rows.largest[row] = most;
  rows.sum[row] = rows.sum[row] * factor + ((parts[0] + parts[1]) + (parts[2] + parts[3]));
}

// Blocks per multiprocessor: two, if registers allow it, hide each other's waits.
template <int groups>
constexpr int blocks_at_once = groups > 2 ? 1 : 2;

template <typename T, int groups>
__global__ void __launch_bounds__(block_threads) attention_kernel(AttentionArrays<T> arrays) {
  alignas(16) __shared__ Room<groups> room;
  alignas(16) __shared__ Weights weights;
  __shared__ Softmax rows;
  const Place place = place_of_queries(arrays.sequence, arrays.heads, tile);
  const auto queries = arrays.queries(arrays.qkv, place.head);
  const auto keys = arrays.keys(arrays.qkv, place.head / arrays.group());
  const auto values = arrays.values(arrays.qkv, place.head / arrays.group());
  const int row = own_row();
  if (threadIdx.x < tile) {
    rows.largest[threadIdx.x] = -INFINITY;
    rows.sum[threadIdx.x] = 0;
  }
  Sums<groups> y;
  // Every row meets key 0 first, so that its largest score is soon a number.
  for (int key = 0; key <= place.first; key += tile) {
    float score[side][side];
    products(queries, place.first, keys, key, room.products, score);
    for (int i = 0; i < side; ++i) {
      for (int j = 0; j < side; ++j) {
        const bool seen = key + own_column() + j <= place.first + row + i;
        score[i][j] = seen ? score[i][j] * arrays.scale : -INFINITY;
      }
    }
    store_weights(score, weights);
    __syncthreads();
    exponentials(weights, rows);
    __syncthreads();
    float factor[side];
    for (int i = 0; i < side; ++i) factor[i] = rows.factor[row + i];
    y.scale(factor);
    mix<groups>(weights, values, key, room.wide, y);
  }
  float inverse[side];
  for (int i = 0; i < side; ++i) inverse[i] = 1 / rows.sum[row + i];
  y.scale(inverse);
  store_sums(y, arrays.outputs(arrays.result, place.head), place.first);
  const int own = static_cast<int>(threadIdx.x);
  if (own < tile && place.first + own < arrays.sequence) {
    arrays.log_sums[std::int64_t{place.head} * arrays.sequence + place.first + own] =
        rows.largest[own] + logf(rows.sum[own]);
  }
}

// A query's numbers for the backward pass.
struct Query {
  float log_sum;
  float dot;
};
template <typename T>
__device__ inline Query query_of(const AttentionArrays<T>& arrays, int head, int query) {
  if (query >= arrays.sequence) return {0, 0};  // its q and dy are 0 then
  const std::int64_t at = std::int64_t{head} * arrays.sequence + query;
  return {arrays.log_sums[at], arrays.dots[at]};
}

template <typename T, int groups>
__global__ void __launch_bounds__(block_threads, blocks_at_once<groups>)
    query_gradient_kernel(AttentionArrays<T> arrays) {
  alignas(16) __shared__ Room<groups> room;
  alignas(16) __shared__ Weights weights;
  const Place place = place_of_queries(arrays.sequence, arrays.heads, tile);
  const auto queries = arrays.queries(arrays.qkv, place.head);
  const auto keys = arrays.keys(arrays.qkv, place.head / arrays.group());
  const auto values = arrays.values(arrays.qkv, place.head / arrays.group());
  const auto dy = arrays.outputs(arrays.dy, place.head);
  const int first = place.first + own_row();
  Query query[side];
  for (int i = 0; i < side; ++i) query[i] = query_of(arrays, place.head, first + i);
  Sums<groups> dq;
  for (int key = 0; key <= place.first; key += tile) {
    float score[side][side];
    float slope[side][side];
    products(queries, place.first, keys, key, room.products, score);
    products(dy, place.first, values, key, room.products, slope);
    for (int i = 0; i < side; ++i) {
      for (int j = 0; j < side; ++j) {
        const bool seen = key + own_column() + j <= first + i;
        const float weight = expf(score[i][j] * arrays.scale - query[i].log_sum);
        slope[i][j] = seen ? weight * (slope[i][j] - query[i].dot) : 0;
      }
    }
    store_weights(slope, weights);
    mix<groups>(weights, keys, key, room.wide, dq);
  }
  const float factor[side] = {arrays.scale, arrays.scale, arrays.scale, arrays.scale};
  dq.scale(factor);
  store_sums(dq, arrays.queries(arrays.result, place.head), place.first);
}

// Rows of the tiles are keys, columns queries: those of each head that shares the keys, in turn.
template <typename T, int groups>
__global__ void __launch_bounds__(block_threads, blocks_at_once<groups>)
    key_value_gradient_kernel(AttentionArrays<T> arrays) {
  alignas(16) __shared__ Room<groups> room;
  alignas(16) __shared__ Weights weights;
  const Place place = place_of_keys(arrays.sequence, arrays.kv_heads, tile);
  const auto keys = arrays.keys(arrays.qkv, place.head);
  const auto values = arrays.values(arrays.qkv, place.head);
  const int first = place.first + own_row();
  Sums<groups> dk;
  Sums<groups> dv;
  for (int i_of_group = 0; i_of_group < arrays.group(); ++i_of_group) {
    const int head = place.head * arrays.group() + i_of_group;
    const auto queries = arrays.queries(arrays.qkv, head);
    const auto dy = arrays.outputs(arrays.dy, head);
    for (int tile_of_queries = place.first; tile_of_queries < arrays.sequence;
         tile_of_queries += tile) {
      float weight[side][side];
      float slope[side][side];
      Query query[side];
      products(keys, place.first, queries, tile_of_queries, room.products, weight);
      for (int j = 0; j < side; ++j) {
        const int at = tile_of_queries + own_column() + j;
        query[j] = query_of(arrays, head, at);
        for (int i = 0; i < side; ++i) {
          const float exponent = weight[i][j] * arrays.scale - query[j].log_sum;
          weight[i][j] = first + i <= at ? expf(exponent) : 0;
        }
      }
      store_weights(weight, weights);
      mix<groups>(weights, dy, tile_of_queries, room.wide, dv);
      products(values, place.first, dy, tile_of_queries, room.products, slope);
      for (int i = 0; i < side; ++i) {
        for (int j = 0; j < side; ++j) slope[i][j] = weight[i][j] * (slope[i][j] - query[j].dot);
      }
      store_weights(slope, weights);
      mix<groups>(weights, queries, tile_of_queries, room.wide, dk);
    }
  }
  const float factor[side] = {arrays.scale, arrays.scale, arrays.scale, arrays.scale};
  dk.scale(factor);
  store_sums(dk, arrays.keys(arrays.result, place.head), place.first);
  store_sums(dv, arrays.values(arrays.result, place.head), place.first);
}

// Sixteen threads for each row of a head.
constexpr int dot_threads = 16;

template <typename T>
__global__ void dots_kernel(std::int64_t count, std::int64_t heads, std::int64_t sequence,
                            std::int64_t head_size, const T* y, const T* dy, float* dots) {
  constexpr int size = group_of<T>;
  __shared__ float room[block_threads];
  const int own = static_cast<int>(threadIdx.x) % dot_threads;
  const std::int64_t i = (std::int64_t{blockIdx.x} * block_threads + threadIdx.x) / dot_threads;
  float sum = 0;
  if (i < count) {
    for (std::int64_t column = size * own; column < head_size; column += size * dot_threads) {
      const int n = group_size<size>(column, head_size);
      const auto a = load_pack(y + i * head_size + column, n);
      const auto b = load_pack(dy + i * head_size + column, n);
      auto products = a.unpacked();
      const auto others = b.unpacked();
      for (int j = 0; j < size; ++j) products.v[j] *= others.v[j];
      sum += tree<size>(products.v, Add());
    }
  }
  room[threadIdx.x] = sum;
  __syncthreads();
  for (int half = dot_threads / 2; half > 0; half /= 2) {
    if (own < half) room[threadIdx.x] += room[threadIdx.x + static_cast<unsigned>(half)];
    __syncthreads();
  }
  if (own != 0 || i >= count) return;
  const std::int64_t row = i / heads;
  const std::int64_t head = row / sequence * heads + i % heads;
  dots[head * sequence + row % sequence] = room[threadIdx.x];
}

template <typename T>
using Kernel = void (*)(AttentionArrays<T>);

// The one for heads of that size.
template <typename T>
Kernel<T> of_size(const AttentionShape& shape, const Kernel<T> (&kernels)[4]) {
  return kernels[(shape.head_size - 1) / tile];
}

}  // namespace

bool attention_has_work(const AttentionShape& shape) {
  if (shape.head_size > max_head_size) {
    throw input_error("GPU: heads of " + std::to_string(shape.head_size) +
                      " numbers are too large for attention; use at most " +
                      std::to_string(max_head_size));
  }
  if (shape.sequence > max_sequence) {
    throw input_error("GPU: a sequence of " + std::to_string(shape.sequence) +
                      " is too long for attention; use at most " + std::to_string(max_sequence));
  }
  return shape.rows() * shape.hidden() > 0;
}

template <typename T>
void attention(gpuStream_t stream, const AttentionShape& shape, const T* qkv, float* log_sums,
               T* y) {
  if (!attention_has_work(shape)) return;
  AttentionArrays<T> arrays = arrays_of(shape, qkv, y);
  arrays.log_sums = log_sums;
  launch(stream, "attention", attention_grid(shape, shape.heads, tile),
         of_size<T>(shape, {attention_kernel<T, 1>, attention_kernel<T, 2>, attention_kernel<T, 3>,
                            attention_kernel<T, 4>}),
         arrays);
}

template <typename T>
void attention_dots(gpuStream_t stream, const AttentionShape& shape, const T* y, const T* dy,
                    float* dots) {
  const std::int64_t count = shape.rows() * shape.heads;
  if (count <= 0) return;
  launch(stream, "attention_backward", grid(blocks_for(count * dot_threads, block_threads)),
         dots_kernel<T>, count, shape.heads, shape.sequence, shape.head_size, y, dy, dots);
}

template <typename T>
void attention_backward(gpuStream_t stream, const AttentionShape& shape, const T* qkv,
                        float* log_sums, float* dots, const T* dy, T* dqkv) {
  if (!attention_has_work(shape)) return;
  AttentionArrays<T> arrays = arrays_of(shape, qkv, dqkv);
  arrays.dy = dy;
  arrays.log_sums = log_sums;
  arrays.dots = dots;
  launch(stream, "attention_backward", attention_grid(shape, shape.heads, tile),
         of_size<T>(shape, {query_gradient_kernel<T, 1>, query_gradient_kernel<T, 2>,
                            query_gradient_kernel<T, 3>, query_gradient_kernel<T, 4>}),
         arrays);
  launch(stream, "attention_backward", attention_grid(shape, shape.kv_heads(), tile),
         of_size<T>(shape, {key_value_gradient_kernel<T, 1>, key_value_gradient_kernel<T, 2>,
                            key_value_gradient_kernel<T, 3>, key_value_gradient_kernel<T, 4>}),
         arrays);
}

#define PIPESIM_FOR(T)                                                                           \
  template void attention(gpuStream_t, const AttentionShape&, const T*, float*, T*);             \
  template void attention_dots(gpuStream_t, const AttentionShape&, const T*, const T*, float*);  \
  template void attention_backward(gpuStream_t, const AttentionShape&, const T*, float*, float*, \
                                   const T*, T*);
PIPESIM_FOR(float)
PIPESIM_FOR(gpuBfloat16)
#undef PIPESIM_FOR

}  // namespace pipesim::exec::kernels
