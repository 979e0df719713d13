// Helpers of the kernels: launches, groups of elements, and tree
// sums. For .cu files only.
#pragma once

#include <cstdint>
#include <string>

#include "exec/device/gpu/bfloat16.h"
#include "exec/device/gpu/gpu.h"

namespace pipesim::exec::kernels {

// Threads in a block, a power of two for the trees.
constexpr int block_threads = 256;

constexpr std::int64_t blocks_for(std::int64_t count, std::int64_t each) {
  return (count + each - 1) / each;
}

inline unsigned grid(std::int64_t blocks) { return static_cast<unsigned>(blocks); }

template <typename T>
struct Same {
  using Type = T;
};

struct Block {
  int threads = block_threads;
  int shared_bytes = 0;  // in addition to those declared by the kernel
};

// Launches blocks. `name` is the operator's, for the work error of a failed launch.
template <typename... Parameters>
void launch(gpuStream_t stream, const char* name, dim3 blocks, const Block& block,
            void (*kernel)(Parameters...), typename Same<Parameters>::Type... arguments) {
  const auto shared_bytes = static_cast<std::size_t>(block.shared_bytes);
#ifndef PIPESIM_GPU_EMULATED
  kernel<<<blocks, block.threads, shared_bytes, stream>>>(arguments...);
#else
  emulated_gpu::launch(stream, name, {blocks, block.threads, shared_bytes}, kernel, arguments...);
#endif
  const gpuError_t result = gpuGetLastError();
  if (result != gpuSuccess) check(result, ("run the kernel of " + std::string(name)).c_str());
}

// With block_threads threads each.
template <typename... Parameters>
void launch(gpuStream_t stream, const char* name, dim3 blocks, void (*kernel)(Parameters...),
            typename Same<Parameters>::Type... arguments) {
  launch(stream, name, blocks, Block{}, kernel, arguments...);
}

// ---- Groups of elements, held as floats in registers

template <int size>
struct Group {
  float v[size];
};
using Four = Group<4>;

// As many as fit into an access of 16 bytes.
template <typename T>
constexpr int group_of = 16 / static_cast<int>(sizeof(T));

// Memory read or written in one access.
template <int words>
struct [[gnu::may_alias]] alignas(4 * words) Words {
  std::uint32_t word[words];
};

__device__ inline void unpack(std::uint32_t word, float* v, const float* /*type*/) {
  v[0] = float_of_bits(word);
}
__device__ inline void unpack(std::uint32_t word, float* v, const gpuBfloat16* /*type*/) {
  v[0] = float_of_bits(word << 16);
  v[1] = float_of_bits(word & 0xffff0000U);
}
__device__ inline std::uint32_t pack(const float* v, const float* /*type*/) {
  return bits_of_float(v[0]);
}
__device__ inline std::uint32_t pack(const float* v, const gpuBfloat16* /*type*/) {
  return bfloat16_pair(v[0], v[1]);
}

// How a group of `size` elements is read and written at once.
template <int size, typename T>
struct Wide {
  static constexpr int in_word = 4 / static_cast<int>(sizeof(T));
  static constexpr int words = size / in_word < 4 ? size / in_word : 4;  // in one access
  using Access = Words<words>;

  __device__ static bool fits(const T* x) {
    return (reinterpret_cast<std::uintptr_t>(x) & (sizeof(Access) - 1)) == 0;
  }
};

// The first n (1 to `size`) numbers at x, then 0; by wide accesses if x is aligned.
template <int size, typename T>
__device__ inline Group<size> load(const T* x, int n) {
  using Way = Wide<size, T>;
  Group<size> group = {};
  if (n == size && Way::fits(x)) {
    for (int j = 0; j < size; j += Way::words * Way::in_word) {
      const auto all = *reinterpret_cast<const typename Way::Access*>(x + j);
      for (int w = 0; w < Way::words; ++w) unpack(all.word[w], group.v + j + w * Way::in_word, x);
    }
  } else {
    for (int j = 0; j < size; ++j) {
      if (j < n) group.v[j] = x[j];
    }
  }
  return group;
}
template <typename T>
__device__ inline Group<group_of<T>> load(const T* x, int n) {
  return load<group_of<T>, T>(x, n);
}

template <typename T, int size>
__device__ inline void store(T* x, const Group<size>& group, int n) {
  using Way = Wide<size, T>;
  if (n == size && Way::fits(x)) {
    for (int j = 0; j < size; j += Way::words * Way::in_word) {
      typename Way::Access all;
      for (int w = 0; w < Way::words; ++w) all.word[w] = pack(group.v + j + w * Way::in_word, x);
      *reinterpret_cast<typename Way::Access*>(x + j) = all;
    }
  } else {
    for (int j = 0; j < size; ++j) {
      if (j < n) x[j] = static_cast<T>(group.v[j]);
    }
  }
}

// A group of 16 bytes as in memory. Unpacking waits for the load, so load several packs first to
// have them in flight together.
template <typename T>
struct Pack {
  static constexpr int size = group_of<T>;
  Words<4> all = {};

  __device__ Group<size> unpacked() const {
    Group<size> group;
    constexpr int in_word = size / 4;
    for (int w = 0; w < 4; ++w) {
      unpack(all.word[w], group.v + w * in_word, static_cast<const T*>(nullptr));
    }
    return group;
  }
};
// The first n (1 to the group's size) numbers at x, then 0.
template <typename T>
__device__ inline Pack<T> load_pack(const T* x, int n) {
  Pack<T> pack;
  if (n == Pack<T>::size && Wide<Pack<T>::size, T>::fits(x)) {
    pack.all = *reinterpret_cast<const Words<4>*>(x);
  } else {
    T each[Pack<T>::size] = {};
    for (int j = 0; j < Pack<T>::size; ++j) {
      if (j < n) each[j] = x[j];
    }
    memcpy(&pack.all, each, sizeof each);
  }
  return pack;
}

// The size of the group at `i`.
template <int size = 4>
__device__ inline int group_size(std::int64_t i, std::int64_t count) {
  return count - i < size ? static_cast<int>(count - i) : size;
}

// i % columns, without a 64-bit division if possible.
__device__ inline std::int64_t column_of(std::int64_t i, std::int64_t columns) {
  if (((i | columns) >> 32) == 0) {
    return static_cast<std::uint32_t>(i) % static_cast<std::uint32_t>(columns);
  }
  return i % columns;
}

// The values of a row of `columns` for elements i ... i + n - 1 of a matrix; the group may continue
// in the next row.
template <typename T>
__device__ inline Group<group_of<T>> load_over(const T* row, std::int64_t i, std::int64_t columns,
                                               int n) {
  std::int64_t column = column_of(i, columns);
  if (column + n <= columns) return load(row + column, n);
  Group<group_of<T>> group = {};
  for (int j = 0; j < group_of<T>; ++j) {
    if (j >= n) break;
    group.v[j] = row[column];
    if (++column == columns) column = 0;
  }
  return group;
}

// body(i, n) for each group of `size` elements of `count`, one thread each.
template <int size, typename Body>
__global__ void each_group_kernel(std::int64_t count, Body body) {
  const std::int64_t i = size * (std::int64_t{blockIdx.x} * block_threads + threadIdx.x);
  if (i < count) body(i, group_size<size>(i, count));
}

template <int size = 4, typename Body>
void each_group(gpuStream_t stream, const char* name, std::int64_t count, const Body& body) {
  if (count <= 0) return;
  launch(stream, name, grid(blocks_for(count, size * block_threads)), each_group_kernel<size, Body>,
         count, body);
}

// ---- A block's sum or largest, which all its threads get

struct Add {
  template <typename T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Largest {  // a NaN stays
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

// The first n of v, n a power of two, by a tree.
template <int n, typename T, typename Combine>
__device__ inline T tree(const T* v, Combine combine) {
  if constexpr (n == 1) {
    return v[0];
  } else {
    return combine(tree<n / 2>(v, combine), tree<n / 2>(v + n / 2, combine));
  }
}

// By two trees: a few threads each combine every n-th thread's, and all threads combine those. All
// threads of the block must call it; `room`, one entry per thread, is in shared memory, and free
// again when it returns.
template <typename T, typename Combine>
__device__ inline T combined(T own, T* room, Combine combine) {
  constexpr int few = 16;
  constexpr int each = block_threads / few;
  const int thread = static_cast<int>(threadIdx.x);
  room[thread] = own;
  __syncthreads();
  if (thread < few) {
    T part[each];
#pragma unroll
    for (int i = 0; i < each; ++i) part[i] = room[thread + i * few];
    room[thread] = tree<each>(part, combine);
  }
  __syncthreads();
  T part[few];
#pragma unroll
  for (int i = 0; i < few; ++i) part[i] = room[i];
  __syncthreads();
  return tree<few>(part, combine);
}

// body(i, n) for this thread's groups of a row, in ascending order.
template <int size = 4, typename Body>
__device__ inline void each_group_of_row(std::int64_t count, Body body) {
  for (std::int64_t i = std::int64_t{size} * threadIdx.x; i < count; i += size * block_threads) {
    body(i, group_size<size>(i, count));
  }
}

// body(i, n, group) for those of x, with several loads in flight at a time.
template <typename T, typename Body>
__device__ inline void each_pack_of_row(const T* x, std::int64_t count, Body body) {
  constexpr int at_once = 4;
  constexpr int step = group_of<T> * block_threads;
  for (std::int64_t i = std::int64_t{group_of<T>} * threadIdx.x; i < count; i += at_once * step) {
    Pack<T> pack[at_once];
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const std::int64_t at = i + k * step;
      if (at < count) pack[k] = load_pack(x + at, group_size<group_of<T>>(at, count));
    }
#pragma unroll
    for (int k = 0; k < at_once; ++k) {
      const std::int64_t at = i + k * step;
      if (at < count) body(at, group_size<group_of<T>>(at, count), pack[k].unpacked());
    }
  }
}

// A thread's part of a row: its packs, in ascending order. With `held` above 0, which must be
// enough for the row, they are loaded on construction; with 0 each is loaded when used.
template <typename T, int held>
class OwnPacks {
 public:
  __device__ OwnPacks(const T* row, std::int64_t count) : row_(row) {
#pragma unroll
    for (int k = 0; k < held; ++k) {
      const int n = size_at(k, count);
      if (n > 0) pack_[k] = load_pack(row + at(k), n);
    }
  }
  // The k-th, elements i to i + n - 1.
  __device__ Group<group_of<T>> group(int k, std::int64_t i, int n) const {
    return held > 0 ? pack_[k].unpacked() : load_pack(row_ + i, n).unpacked();
  }
  // body(k, i, n) for each.
  template <typename Body>
  __device__ static void each(std::int64_t count, Body body) {
    if constexpr (held > 0) {
#pragma unroll
      for (int k = 0; k < held; ++k) {
        const int n = size_at(k, count);
        if (n > 0) body(k, at(k), n);
      }
    } else {
      int k = 0;
      each_group_of_row<group_of<T>>(count, [&](std::int64_t i, int n) { body(k++, i, n); });
    }
  }

 private:
  __device__ static std::int64_t at(int k) {
    return std::int64_t{group_of<T>} * (static_cast<int>(threadIdx.x) + k * block_threads);
  }
  __device__ static int size_at(int k, std::int64_t count) {
    const std::int64_t left = count - at(k);
    return left < group_of<T> ? (left < 0 ? 0 : static_cast<int>(left)) : group_of<T>;
  }

  const T* row_;
  Pack<T> pack_[held > 0 ? held : 1];
};

// The sum over the block of what term(k, i, n) returns for each pack of a row: groups, of which
// the first n count.
template <typename Packs, int size, typename Term>
__device__ inline float sum_of_row(std::int64_t count, float* room, Term term) {
  Group<size> sum = {};
  Packs::each(count, [&](int k, std::int64_t i, int n) {
    const Group<size> group = term(k, i, n);
    for (int j = 0; j < size; ++j) {
      if (j < n) sum.v[j] += group.v[j];
    }
  });
  return combined(tree<size>(sum.v, Add()), room, Add());
}

}  // namespace pipesim::exec::kernels
