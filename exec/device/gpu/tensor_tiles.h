// Tiles of bfloat16 in shared memory and a warp's operations on them, for heads of `size` numbers,
// a multiple of 16. For .cu files only.
#pragma once

#include "exec/device/gpu/attention.h"
#include "exec/device/gpu/fragments.h"

namespace pipesim::exec::kernels {

// A row is padded by 16 bytes, so that eight begin in different banks.
template <int size>
__host__ __device__ constexpr int tile_bytes(int rows) {
  return rows * 2 * (size + 8);
}

// An offset in a tile, or from one tile to a later one.
__host__ __device__ constexpr SharedAddress shared_bytes(int bytes) {
  return static_cast<SharedAddress>(bytes);
}
template <int size>
__host__ __device__ constexpr SharedAddress shared_rows(int rows, int column = 0) {
  return shared_bytes(tile_bytes<size>(rows) + 2 * column);
}

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
// The positions of a thread's numbers in a fragment of sums.
__device__ inline int row_of(int i) { return lane() / 4 + i / 2 * 8; }
__device__ inline int column_of_sum(int i) { return lane() % 4 * 2 + i % 2; }

// The part of a matrix that a thread moves between it and tiles: the same eight columns of every
// n-th row.
template <int size, int threads, typename T>
class OwnPart {
 public:
  // From row `first` on.
  __device__ OwnPart(const HeadRows<T>& x, int first)
      : at_(x.row(first + own_row()) + own_column()),
        stride_(static_cast<int>(x.stride)),
        rows_(x.count - first - own_row()),
        columns_(x.columns - own_column()) {}

  // Loads a tile of the next `count` rows, or of those `beside` numbers next to them; missing
  // columns and rows are 0. Wide: by copies that must be finished.
  template <int count>
  __device__ void start_tile(SharedAddress tile, bool is_wide, int beside = 0) const {
    if (is_wide) {
      each_wide<count>(tile, beside, [](SharedAddress to, T* from, bool there) {
        start_copy<16>(to, from, there);
      });
    } else {
      each_narrow<count>(tile, beside, [](SharedAddress to, T* from, bool there) {
        shared_at<gpuBfloat16>(to).bits = there ? from->bits : std::uint16_t{0};
      });
    }
  }
  // Moves on to the next rows.
  __device__ void pass(int count) {
    at_ += std::int64_t{stride_} * count;
    rows_ -= count;
  }

  // Stores a tile that all threads of the block have written.
  template <int count>
  __device__ void store_tile(SharedAddress tile, bool is_wide) const {
    if (is_wide) {
      each_wide<count>(tile, 0, [](SharedAddress from, T* to, bool there) {
        if (there) *reinterpret_cast<Words<4>*>(to) = shared_at<Words<4>>(from);
      });
    } else {
      each_narrow<count>(tile, 0, [](SharedAddress from, T* to, bool there) {
        if (there) *to = shared_at<gpuBfloat16>(from);
      });
    }
  }

 private:
  static constexpr int across = size / 8;           // threads along a row
  static constexpr int at_once = threads / across;  // rows; further threads have none

  __device__ static int own_row() { return static_cast<int>(threadIdx.x) / across; }
  __device__ static int own_column() { return static_cast<int>(threadIdx.x) % across * 8; }

  // move(address in the tile, address in the matrix, whether that exists).
  template <int count, typename Move>
  __device__ void each_wide(SharedAddress tile, int beside, Move move) const {
    if (at_once * across < threads && own_row() >= at_once) return;
    tile += shared_rows<size>(own_row(), own_column());
    const int end = columns_ > 0 ? rows_ : 0;
#pragma unroll
    for (int i = 0; i < count; i += at_once) {
      if (count % at_once != 0 && i + own_row() >= count) break;
      move(tile + shared_rows<size>(i), at_ + beside + std::int64_t{stride_} * i, i < end);
    }
  }
  template <int count, typename Move>
  __device__ void each_narrow(SharedAddress tile, int beside, Move move) const {
    if (at_once * across < threads && own_row() >= at_once) return;
    tile += shared_rows<size>(own_row(), own_column());
#pragma unroll 1
    for (int i = 0; i + own_row() < count; i += at_once) {
#pragma unroll 1
      for (int j = 0; j < 8; ++j) {
        move(tile + shared_rows<size>(i, j), at_ + beside + std::int64_t{stride_} * i + j,
             i < rows_ && j < columns_);
      }
    }
  }

  T* at_;
  int stride_;
  int rows_;  // of x from there on
  int columns_;
};

template <int high, int columns>
using SumTiles = FragmentC[high][columns / 8];

// The start of a lane's row for load_matrices(): 16 rows for A, or as rows of B; 16 rows that
// become columns of B.
template <int size>
__device__ inline SharedAddress lane_in_rows() {
  return shared_rows<size>(lane() % 16, lane() / 16 * 8);
}
template <int size>
__device__ inline SharedAddress lane_in_columns() {
  return shared_rows<size>(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2 * 8);
}

// sums = the rows of a (16 x high of them) times those of b. A fragment of b is loaded
// `ahead` steps before it is multiplied, since a load takes as long as some products.
template <int size, int high, int columns, int ahead>
__device__ inline void products(SharedAddress a, SharedAddress b, SumTiles<high, columns>& sums) {
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) sums[i][j] = {{0, 0, 0, 0}};
  }
  a += lane_in_rows<size>();
  b += lane_in_columns<size>();
  constexpr int across = columns / 16;
  constexpr int steps = size / 16 * across;
  FragmentA left[2][high];
  FragmentB right[ahead + 1];
  const auto load_left = [&](int k) {
#pragma unroll
    for (int i = 0; i < high; ++i) {
      load_matrices<false>(left[k % 2][i].word, a + shared_rows<size>(16 * i, 16 * k));
    }
  };
  const auto load_right = [&](int step) {
    load_matrices<false>(right[step % (ahead + 1)].word,
                         b + shared_rows<size>(16 * (step % across), 16 * (step / across)));
  };
  load_left(0);
#pragma unroll
  for (int step = 0; step < ahead; ++step) load_right(step);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int k = step / across;
    const int j = step % across;
    if (step + ahead < steps) load_right(step + ahead);
    if (j == across - 2 && 16 * (k + 1) < size) load_left(k + 1);
#pragma unroll
    for (int i = 0; i < high; ++i) {
      multiply_add(sums[i][2 * j], left[k % 2][i], right[step % (ahead + 1)], 0);
      multiply_add(sums[i][2 * j + 1], left[k % 2][i], right[step % (ahead + 1)], 1);
    }
  }
}

// Sums converted for multiplication by another matrix.
template <int high, int columns>
using Weights = FragmentA[high][columns / 16];

template <int high, int columns>
__device__ inline void round(const SumTiles<high, columns>& sums, Weights<high, columns>& weights) {
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int k = 0; k < columns / 16; ++k) {
      const FragmentC& near = sums[i][2 * k];
      const FragmentC& far = sums[i][2 * k + 1];
      weights[i][k] = {{bfloat16_pair(near.v[0], near.v[1]), bfloat16_pair(near.v[2], near.v[3]),
                        bfloat16_pair(far.v[0], far.v[1]), bfloat16_pair(far.v[2], far.v[3])}};
    }
  }
}

// sums += weights times the rows of x, likewise.
template <int size, int high, int columns, int ahead>
__device__ inline void mix(const Weights<high, columns>& weights, SharedAddress x,
                           SumTiles<high, size>& sums) {
  x += lane_in_rows<size>();
  constexpr int across = size / 16;
  constexpr int steps = columns / 16 * across;
  FragmentB right[ahead + 1];
  const auto load_right = [&](int step) {
    load_matrices<true>(right[step % (ahead + 1)].word,
                        x + shared_rows<size>(16 * (step / across), 16 * (step % across)));
  };
#pragma unroll
  for (int step = 0; step < ahead; ++step) load_right(step);
#pragma unroll
  for (int step = 0; step < steps; ++step) {
    const int k = step / across;
    const int j = step % across;
    if (step + ahead < steps) load_right(step + ahead);
#pragma unroll
    for (int i = 0; i < high; ++i) {
      multiply_add(sums[i][2 * j], weights[i][k], right[step % (ahead + 1)], 0);
      multiply_add(sums[i][2 * j + 1], weights[i][k], right[step % (ahead + 1)], 1);
    }
  }
}
// Rounds in steps of 16 columns, since all of them at once would take too many registers.
template <int size, int high, int columns, int ahead>
__device__ inline void mix(const SumTiles<high, columns>& weights, SharedAddress x,
                           SumTiles<high, size>& sums) {
#pragma unroll
  for (int k = 0; k < columns / 16; ++k) {
    SumTiles<high, 16> part;
#pragma unroll
    for (int i = 0; i < high; ++i) {
      part[i][0] = weights[i][2 * k];
      part[i][1] = weights[i][2 * k + 1];
    }
    Weights<high, 16> rounded;
    round<high, 16>(part, rounded);
    mix<size, high, 16, ahead>(rounded, x + shared_rows<size>(16 * k), sums);
  }
}

// The warp's rows of a tile, which its lanes may just have read, become the sums times
// factor[i][j], of fragment i's rows group + 8 j.
template <int size, int high>
__device__ inline void write_sums(const SumTiles<high, size>& sums, const float (&factor)[high][2],
                                  SharedAddress to) {
  warp_barrier();
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int j = 0; j < size / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const SharedAddress at =
            to + shared_rows<size>(16 * i + row_of(2 * half), 8 * j + column_of_sum(0));
        shared_at<std::uint32_t>(at) = bfloat16_pair(sums[i][j].v[2 * half] * factor[i][half],
                                                     sums[i][j].v[2 * half + 1] * factor[i][half]);
      }
    }
  }
}

}  // namespace pipesim::exec::kernels
