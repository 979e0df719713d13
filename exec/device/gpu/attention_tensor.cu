// Causal attention of bfloat16, and back through it, on tensor cores.
//
// The orders are those of attention.cu, on larger tiles (Dao, 2023). A fragment that is
// loaded from shared memory is multiplied by 32 rows, since for 16 the loads would take
// longer than the products. Operands are
// bfloat16, and so are weights and their gradients when they are multiplied by
// another matrix; sums, softmax and what is kept are float32. The next keys and
// values, or queries, are copied while these are used: one barrier a tile.
#include "exec/device/gpu/attention.h"
#include "exec/device/gpu/kernels.h"

#ifndef PIPESIM_GPU_HIP

#include "exec/device/gpu/tensor_tiles.h"

namespace pipesim::exec::kernels {
namespace {

using Arrays = AttentionArrays<gpuBfloat16>;

constexpr float log2_e = 1.44269504F;

// How a kernel divides its work: a warp has 16 x `high` of a block's `own` rows, shared by
// `sharing` warps, and processes `others` at a time. They are in shared memory: `kinds` of its own,
// then two kinds of others, twice. The best distance of loads, `ahead`, was measured.
template <int warp_count, int fragments_high, int rows_met, int own_kinds, int sharing,
          int steps_ahead>
struct Plan {
  static constexpr int warps = warp_count;
  static constexpr int threads = 32 * warps;
  static constexpr int high = fragments_high;
  static constexpr int own = 16 * high * warps / sharing;
  static constexpr int others = rows_met;
  static constexpr int kinds = own_kinds;
  static constexpr int ahead = steps_ahead;
};
using ForwardPlan = Plan<4, 2, 64, 1, 1, 1>;
using QueryPlan = Plan<4, 2, 32, 2, 1, 2>;
using KeyPlan = Plan<8, 2, 64, 2, 2, 2>;

template <typename Plan, int size>
constexpr int plan_bytes() {
  return tile_bytes<size>(Plan::kinds * Plan::own + 4 * Plan::others);
}
constexpr int float_bytes = 4;
// With logarithms and dots of the queries, twice, and weights that warps pass on.
template <int size>
constexpr int key_plan_bytes() {
  return plan_bytes<KeyPlan, size>() + 4 * KeyPlan::others * float_bytes +
         2 * KeyPlan::own * KeyPlan::others;
}

template <typename Plan, int size>
using Part = OwnPart<size, Plan::threads, const gpuBfloat16>;

template <typename Plan, int size>
__device__ inline void start_own_tile(SharedAddress tile, const HeadRows<const gpuBfloat16>& x,
                                      const Place& place, bool is_wide) {
  Part<Plan, size>(x, place.first).template start_tile<Plan::own>(tile, is_wide);
}
template <typename Plan, int size>
__device__ inline void store_own_tile(SharedAddress tile, const HeadRows<gpuBfloat16>& x,
                                      const Place& place, bool is_wide) {
  const OwnPart<size, Plan::threads, gpuBfloat16> part(x, place.first);
  part.template store_tile<Plan::own>(tile, is_wide);
}

// A warp's first row of the block's.
template <typename Plan>
__device__ inline int warp_row() {
  return static_cast<int>(threadIdx.x) / 32 * 16 * Plan::high % Plan::own;
}

template <int high>
__device__ inline void set_all(float (&x)[high][2], float value) {
#pragma unroll
  for (int i = 0; i < high; ++i) x[i][0] = x[i][1] = value;
}

// Masks keys that a query may not see. Rows and columns are the first ones; `queries_are_rows` says
// which of them are queries.
template <bool queries_are_rows, int high, int columns>
__device__ inline void mask(SumTiles<high, columns>& sums, int row, int column, float value) {
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int ahead = (column + 8 * j + column_of_sum(e)) - (row + 16 * i + row_of(e));
        if (queries_are_rows ? ahead > 0 : ahead < 0) sums[i][j].v[e] = value;
      }
    }
  }
}

// Scores become weights, exp(score x scale - largest so far), of rows that are
// spread over four lanes; `factor` is scale x log2(e). Earlier sums of the rows, and y, are scaled
// down.
template <int size, int high, int columns>
__device__ inline void exponentials(SumTiles<high, columns>& scores, float factor,
                                    float (&largest)[high][2], float (&sum)[high][2],
                                    SumTiles<high, size>& y) {
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int first = 2 * half;
      float most = largest[i][half];
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
        most = fmaxf(most, fmaxf(scores[i][j].v[first], scores[i][j].v[first + 1]));
      }
      most = fmaxf(most, of_lane_across(most, 1));
      most = fmaxf(most, of_lane_across(most, 2));
      const float base = most * factor;
      const float shrink = power_of_two(largest[i][half] * factor - base);
      largest[i][half] = most;
      float added = 0;
#pragma unroll
      for (int j = 0; j < columns / 8; ++j) {
#pragma unroll
        for (int e = first; e < first + 2; ++e) {
          scores[i][j].v[e] = power_of_two(scores[i][j].v[e] * factor - base);
          added += scores[i][j].v[e];
        }
      }
      sum[i][half] = sum[i][half] * shrink + added;
#pragma unroll
      for (int j = 0; j < size / 8; ++j) {
        y[i][j].v[first] *= shrink;
        y[i][j].v[first + 1] *= shrink;
      }
    }
  }
}

template <int size>
__global__ void __launch_bounds__(ForwardPlan::threads, 2)
    tensor_attention_kernel(Arrays arrays, bool is_wide) {
  using Plan = ForwardPlan;
  constexpr int high = Plan::high;
  constexpr int others = Plan::others;
  constexpr SharedAddress both = shared_rows<size>(2 * others);
  const Place place = place_of_queries(arrays.sequence, arrays.heads, Plan::own);
  Part<Plan, size> keys(arrays.keys(arrays.qkv, place.head / arrays.group()), 0);
  const SharedAddress q = dynamic_shared();
  const SharedAddress k = q + shared_rows<size>(Plan::own);
  const SharedAddress v = k + shared_rows<size>(others);
  const int row = warp_row<Plan>();
  const SharedAddress own_q = q + shared_rows<size>(row);

  start_own_tile<Plan, size>(q, arrays.queries(arrays.qkv, place.head), place, is_wide);
  keys.template start_tile<others>(k, is_wide);
  keys.template start_tile<others>(v, is_wide, arrays.kv_size());
  SumTiles<high, size> y = {};
  float largest[high][2];
  float sum[high][2];  // of this lane's columns
  set_all(largest, -INFINITY);
  set_all(sum, 0);
  // Every row meets key 0 first, so that its largest score is soon a number.
  const int end = place.end(arrays.sequence, Plan::own);
  SharedAddress now = 0;
  for (int key = 0; key < end; key += others) {
    finish_copies();
    __syncthreads();
    const SharedAddress next = both - now;
    if (key + others < end) {
      keys.pass(others);
      keys.template start_tile<others>(k + next, is_wide);
      keys.template start_tile<others>(v + next, is_wide, arrays.kv_size());
    }
    SumTiles<high, others> weight;
    products<size, high, others, Plan::ahead>(own_q, k + now, weight);
    if (key + others > place.first + 1) {
      mask<true, high, others>(weight, place.first + row, key, -INFINITY);
    }
    exponentials<size, high, others>(weight, arrays.scale * log2_e, largest, sum, y);
    mix<size, high, others, Plan::ahead>(weight, v + now, y);
    now = next;
  }
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = sum[i][half];
      all += of_lane_across(all, 1);
      all += of_lane_across(all, 2);
      const int query = place.first + row + 16 * i + row_of(2 * half);
      if (lane() % 4 == 0 && query < arrays.sequence) {
        arrays.log_sums[std::int64_t{place.head} * arrays.sequence + query] =
            largest[i][half] * arrays.scale + logf(all);
      }
      sum[i][half] = 1 / all;
    }
  }
  write_sums<size, high>(y, sum, own_q);  // rows that only this warp reads
  __syncthreads();
  store_own_tile<Plan, size>(q, arrays.outputs(arrays.result, place.head), place, is_wide);
}

template <int size>
__global__ void __launch_bounds__(QueryPlan::threads, 2)
    tensor_query_gradient_kernel(Arrays arrays, bool is_wide) {
  using Plan = QueryPlan;
  constexpr int high = Plan::high;
  constexpr int others = Plan::others;
  constexpr SharedAddress both = shared_rows<size>(2 * others);
  const Place place = place_of_queries(arrays.sequence, arrays.heads, Plan::own);
  Part<Plan, size> keys(arrays.keys(arrays.qkv, place.head / arrays.group()), 0);
  const SharedAddress q = dynamic_shared();
  const SharedAddress dy = q + shared_rows<size>(Plan::own);
  const SharedAddress k = dy + shared_rows<size>(Plan::own);
  const SharedAddress v = k + shared_rows<size>(others);
  const int row = warp_row<Plan>();
  const SharedAddress own_q = q + shared_rows<size>(row);
  const SharedAddress own_dy = dy + shared_rows<size>(row);

  start_own_tile<Plan, size>(q, arrays.queries(arrays.qkv, place.head), place, is_wide);
  start_own_tile<Plan, size>(dy, arrays.outputs(arrays.dy, place.head), place, is_wide);
  keys.template start_tile<others>(k, is_wide);
  keys.template start_tile<others>(v, is_wide, arrays.kv_size());
  float log_sum[high][2];  // to the base 2
  float dot[high][2];
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = place.first + row + 16 * i + row_of(2 * half);
      const bool there = query < arrays.sequence;  // else its q and dy are 0
      const std::int64_t at = std::int64_t{place.head} * arrays.sequence + query;
      log_sum[i][half] = there ? arrays.log_sums[at] * log2_e : 0;
      dot[i][half] = there ? arrays.dots[at] : 0;
    }
  }
  SumTiles<high, size> dq = {};
  const float factor = arrays.scale * log2_e;
  const int end = place.end(arrays.sequence, Plan::own);
  SharedAddress now = 0;
  for (int key = 0; key < end; key += others) {
    finish_copies();
    __syncthreads();
    const SharedAddress next = both - now;
    if (key + others < end) {
      keys.pass(others);
      keys.template start_tile<others>(k + next, is_wide);
      keys.template start_tile<others>(v + next, is_wide, arrays.kv_size());
    }
    SumTiles<high, others> weight;
    SumTiles<high, others> slope;
    products<size, high, others, Plan::ahead>(own_q, k + now, weight);
#pragma unroll
    for (int i = 0; i < high; ++i) {
#pragma unroll
      for (int j = 0; j < others / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          weight[i][j].v[e] = power_of_two(weight[i][j].v[e] * factor - log_sum[i][e / 2]);
        }
      }
    }
    if (key + others > place.first + 1) {
      mask<true, high, others>(weight, place.first + row, key, 0);
    }
    products<size, high, others, Plan::ahead>(own_dy, v + now, slope);
#pragma unroll
    for (int i = 0; i < high; ++i) {
#pragma unroll
      for (int j = 0; j < others / 8; ++j) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          slope[i][j].v[e] = weight[i][j].v[e] * (slope[i][j].v[e] - dot[i][e / 2]);
        }
      }
    }
    mix<size, high, others, Plan::ahead>(slope, k + now, dq);
    now = next;
  }
  float scale[high][2];
  set_all(scale, arrays.scale);
  write_sums<size, high>(dq, scale, own_q);
  __syncthreads();
  store_own_tile<Plan, size>(q, arrays.queries(arrays.result, place.head), place, is_wide);
}

// The queries that a block of keys processes: rows of q and dy, and the logarithms and dots of
// those rows.
template <int size>
struct QueryTile {
  static constexpr int rows = KeyPlan::others;
  static constexpr SharedAddress bytes =
      shared_rows<size>(2 * rows) + shared_bytes(2 * rows * float_bytes);

  SharedAddress q;
  __device__ SharedAddress dy() const { return q + shared_rows<size>(rows); }
  __device__ SharedAddress log_sum(int j) const {
    return dy() + shared_rows<size>(rows) + shared_bytes(float_bytes * j);
  }
  __device__ SharedAddress dot(int j) const { return log_sum(rows + j); }
};

// Copies those of a head, from query `first` on.
template <int size>
class QueryReader {
 public:
  __device__ QueryReader(const Arrays& arrays, int head, int first)
      : queries_(arrays.queries(arrays.qkv, head), first),
        slopes_(arrays.outputs(arrays.dy, head), first),
        left_(arrays.sequence - first - own() % rows),
        number_((own() < rows ? arrays.log_sums : arrays.dots) +
                std::int64_t{head} * arrays.sequence + first + own() % rows) {}

  __device__ void start(const QueryTile<size>& tile, bool is_wide) {
    queries_.template start_tile<rows>(tile.q, is_wide);
    queries_.pass(rows);
    slopes_.template start_tile<rows>(tile.dy(), is_wide);
    slopes_.pass(rows);
    if (own() < 2 * rows) start_copy<4>(tile.log_sum(own()), number_, left_ > 0);
    number_ += rows;
    left_ -= rows;
  }

 private:
  static constexpr int rows = KeyPlan::others;
  static_assert(2 * rows <= KeyPlan::threads, "a thread for each number");
  __device__ static int own() { return static_cast<int>(threadIdx.x); }

  Part<KeyPlan, size> queries_;
  Part<KeyPlan, size> slopes_;
  int left_;
  const float* number_;
};

// Rows of the scores are keys here, columns queries: those of each head that shares the keys, in
// turn. Two warps share 32 keys, since one has no registers for the sums of both. The first makes
// the weights and adds up dv, the second makes their gradients and adds up dk; it gets the weights
// as they are multiplied, in bfloat16.
template <int size>
__global__ void __launch_bounds__(KeyPlan::threads, 1)
    tensor_key_value_gradient_kernel(Arrays arrays, bool is_wide) {
  using Plan = KeyPlan;
  constexpr int high = Plan::high;
  constexpr int others = Plan::others;
  constexpr int half = Plan::threads / 2;
  const Place place = place_of_keys(arrays.sequence, arrays.kv_heads, Plan::own);
  const SharedAddress k = dynamic_shared();
  const SharedAddress v = k + shared_rows<size>(Plan::own);
  QueryTile<size> now = {v + shared_rows<size>(Plan::own)};
  QueryTile<size> next = {now.q + QueryTile<size>::bytes};
  const int thread = static_cast<int>(threadIdx.x);
  const SharedAddress passed_on = next.q + QueryTile<size>::bytes;
  const auto passed = [&](int i, int j) -> FragmentA& {
    const int at = (i * others / 16 + j) * half + thread % half;
    return shared_at<FragmentA>(passed_on + shared_bytes(at * int{sizeof(FragmentA)}));
  };
  const int row = warp_row<Plan>();
  const int pair = 1 + row / (16 * high);  // its barrier
  const bool makes_dk = thread >= half;
  const SharedAddress own = (makes_dk ? v : k) + shared_rows<size>(row);

  start_own_tile<Plan, size>(k, arrays.keys(arrays.qkv, place.head), place, is_wide);
  start_own_tile<Plan, size>(v, arrays.values(arrays.qkv, place.head), place, is_wide);
  SumTiles<high, size> sums = {};
  const float factor = arrays.scale * log2_e;
  for (int i_of_group = 0; i_of_group < arrays.group(); ++i_of_group) {
    // No thread reads the tile `now` any more: the barrier of the last step came after that.
    QueryReader<size> reader(arrays, place.head * arrays.group() + i_of_group, place.first);
    reader.start(now, is_wide);
    for (int query = place.first; query < arrays.sequence; query += others) {
      finish_copies();
      __syncthreads();
      if (query + others < arrays.sequence) reader.start(next, is_wide);
      Weights<high, others> weights;
      SumTiles<high, others> part;  // of scores, or of weights' gradients
      products<size, high, others, Plan::ahead>(own, makes_dk ? now.dy() : now.q, part);
      if (!makes_dk) {
        if (query < place.first + Plan::own) {
          mask<false, high, others>(part, place.first + row, query, -INFINITY);
        }
#pragma unroll
        for (int j = 0; j < others / 8; ++j) {
          const auto log_sums = shared_at<float2>(now.log_sum(8 * j + column_of_sum(0)));
#pragma unroll
          for (int i = 0; i < high; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              const float log_sum = (e % 2 == 0 ? log_sums.x : log_sums.y) * log2_e;
              part[i][j].v[e] = power_of_two(part[i][j].v[e] * factor - log_sum);
            }
          }
        }
        round<high, others>(part, weights);
#pragma unroll
        for (int i = 0; i < high; ++i) {
#pragma unroll
          for (int j = 0; j < others / 16; ++j) passed(i, j) = weights[i][j];
        }
        pair_barrier_pass(pair);
      } else {
        pair_barrier_wait(pair);
#pragma unroll
        for (int j = 0; j < others / 16; ++j) {
          const auto near = shared_at<float2>(now.dot(16 * j + column_of_sum(0)));
          const auto far = shared_at<float2>(now.dot(16 * j + 8 + column_of_sum(0)));
#pragma unroll
          for (int i = 0; i < high; ++i) {
            const FragmentA weight = passed(i, j);
#pragma unroll
            for (int w = 0; w < 4; ++w) {
              const float* slope = part[i][2 * j + w / 2].v + w % 2 * 2;
              const float2 dots = w < 2 ? near : far;
              float of[2];
              unpack(weight.word[w], of, static_cast<const gpuBfloat16*>(nullptr));
              weights[i][j].word[w] =
                  bfloat16_pair(of[0] * (slope[0] - dots.x), of[1] * (slope[1] - dots.y));
            }
          }
        }
      }
      mix<size, high, others, Plan::ahead>(weights, makes_dk ? now.q : now.dy(), sums);
      const QueryTile<size> free = now;
      now = next;
      next = free;
    }
  }
  // Each warp writes to the rows that only it has read.
  float scale[high][2];
  set_all(scale, makes_dk ? arrays.scale : 1);
  write_sums<size, high>(sums, scale, own);
  __syncthreads();
  store_own_tile<Plan, size>(k, arrays.values(arrays.result, place.head), place, is_wide);
  store_own_tile<Plan, size>(v, arrays.keys(arrays.result, place.head), place, is_wide);
}

// ---- Launching them

using Kernel = void (*)(Arrays, bool);

bool is_aligned(const void* memory) {
  return (reinterpret_cast<std::uintptr_t>(memory) & 15U) == 0;
}

template <typename Plan>
void start(gpuStream_t stream, const char* name, const AttentionShape& shape, std::int64_t heads,
           Kernel kernel, int bytes, const Arrays& arrays) {
  check(gpuFuncSetAttribute(kernel, gpuFuncAttributeMaxDynamicSharedMemorySize, bytes),
        "allow attention its shared memory");
  const bool is_wide = shape.head_size % 8 == 0 && is_aligned(arrays.qkv) &&
                       is_aligned(arrays.dy) && is_aligned(arrays.result);
  launch(stream, name, attention_grid(shape, heads, Plan::own), Block{Plan::threads, bytes}, kernel,
         arrays, is_wide);
}

template <int size>
struct OfSize {
  static void forward(gpuStream_t stream, const AttentionShape& shape, const Arrays& arrays) {
    start<ForwardPlan>(stream, "attention", shape, shape.heads, tensor_attention_kernel<size>,
                       plan_bytes<ForwardPlan, size>(), arrays);
  }
  static void backward(gpuStream_t stream, const AttentionShape& shape, const Arrays& arrays) {
    const char* name = "attention_backward";
    start<QueryPlan>(stream, name, shape, shape.heads, tensor_query_gradient_kernel<size>,
                     plan_bytes<QueryPlan, size>(), arrays);
    start<KeyPlan>(stream, name, shape, shape.kv_heads(), tensor_key_value_gradient_kernel<size>,
                   key_plan_bytes<size>(), arrays);
  }
};

// body(OfSize) for the smallest that holds the heads.
template <typename Body>
void by_size(const AttentionShape& shape, const Body& body) {
  if (!attention_has_work(shape)) return;
  if (shape.head_size <= 32) {
    body(OfSize<32>());
  } else if (shape.head_size <= 64) {
    body(OfSize<64>());
  } else if (shape.head_size <= 80) {
    body(OfSize<80>());
  } else if (shape.head_size <= 96) {
    body(OfSize<96>());
  } else {
    body(OfSize<128>());
  }
}

}  // namespace

bool has_tensor_cores(int gpu) {
  gpuDeviceProp properties;
  check(gpuGetDeviceProperties(&properties, gpu), "tell what the GPU is");
  if (properties.sharedMemPerBlockOptin < std::size_t{key_plan_bytes<tensor_head_size>()}) {
    return false;
  }
#ifndef PIPESIM_GPU_EMULATED
  cudaFuncAttributes kernel;  // as compiled for this GPU
  check(cudaFuncGetAttributes(&kernel, tensor_key_value_gradient_kernel<tensor_head_size>),
        "look up the kernel of attention_backward");
  if (kernel.ptxVersion < 80) return false;
#endif
  return true;
}

void tensor_attention(gpuStream_t stream, const AttentionShape& shape, const gpuBfloat16* qkv,
                      float* log_sums, gpuBfloat16* y) {
  Arrays arrays = arrays_of(shape, qkv, y);
  arrays.log_sums = log_sums;
  by_size(shape, [&](auto of_size) { of_size.forward(stream, shape, arrays); });
}

void tensor_attention_backward(gpuStream_t stream, const AttentionShape& shape,
                               const gpuBfloat16* qkv, float* log_sums, float* dots,
                               const gpuBfloat16* dy, gpuBfloat16* dqkv) {
  Arrays arrays = arrays_of(shape, qkv, dqkv);
  arrays.dy = dy;
  arrays.log_sums = log_sums;
  arrays.dots = dots;
  by_size(shape, [&](auto of_size) { of_size.backward(stream, shape, arrays); });
}

}  // namespace pipesim::exec::kernels

#else

namespace pipesim::exec::kernels {

bool has_tensor_cores(int /*gpu*/) { return false; }
void tensor_attention(gpuStream_t, const AttentionShape&, const gpuBfloat16*, float*,
                      gpuBfloat16*) {}
void tensor_attention_backward(gpuStream_t, const AttentionShape&, const gpuBfloat16*, float*,
                               float*, const gpuBfloat16*, gpuBfloat16*) {}

}  // namespace pipesim::exec::kernels

#endif
