// Tiles of bfloat16 in shared memory and what a warp does with them, for heads of
// `size` numbers, a multiple of 16. For .cu files alone.
#pragma once

#include "exec/device/gpu/attention.h"
#include "exec/device/gpu/fragments.h"

namespace pipesim::exec::kernels {

// A row takes 16 bytes more than it needs, so that eight begin in different banks.
template <int size>
__host__ __device__ constexpr int tile_bytes(int rows) {
  return rows * 2 * (size + 8);
}

// In a tile, or from one tile to another that lies behind it.
__host__ __device__ constexpr SharedAddress shared_bytes(int bytes) {
  return static_cast<SharedAddress>(bytes);
}
template <int size>
__host__ __device__ constexpr SharedAddress shared_rows(int rows, int column = 0) {
  return shared_bytes(tile_bytes<size>(rows) + 2 * column);
}

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % 32; }
// Where the numbers of a fragment of sums stand in it.
__device__ inline int row_of(int i) { return lane() / 4 + i / 2 * 8; }
__device__ inline int column_of_sum(int i) { return lane() % 4 * 2 + i % 2; }

// `count` rows of x from `first` on, columns and rows beyond it as 0. Wide: by
// copies of 16 bytes that have to be finished.
template <int size, int threads>
__device__ inline void start_tile(SharedAddress to, int count, const HeadRows<const gpuBfloat16>& x,
                                  int first, bool is_wide) {
  constexpr int in_row = size / 8;
  for (int i = static_cast<int>(threadIdx.x); i < count * in_row; i += threads) {
    const int row = i / in_row;
    const int column = i % in_row * 8;
    const SharedAddress at = to + shared_rows<size>(row, column);
    const bool there = first + row < x.count && column < x.columns;
    const gpuBfloat16* from = there ? x.row(first + row) + column : x.data;
    if (is_wide) {
      start_copy<16>(at, from, there);
    } else {
      for (int j = 0; j < 8; ++j) {
        shared_at<gpuBfloat16>(at + shared_bytes(2 * j)).bits =
            there && column + j < x.columns ? from[j].bits : std::uint16_t{0};
      }
    }
  }
}

// The other way; all of the block have written the tile.
template <int size, int threads>
__device__ inline void store_tile(SharedAddress from, int count, const HeadRows<gpuBfloat16>& x,
                                  int first, bool is_wide) {
  constexpr int in_row = size / 8;
  for (int i = static_cast<int>(threadIdx.x); i < count * in_row; i += threads) {
    const int row = i / in_row;
    const int column = i % in_row * 8;
    if (first + row >= x.count || column >= x.columns) continue;
    const SharedAddress at = from + shared_rows<size>(row, column);
    gpuBfloat16* to = x.row(first + row) + column;
    if (is_wide) {
      *reinterpret_cast<Words<4>*>(to) = shared_at<Words<4>>(at);
    } else {
      for (int j = 0; j < 8 && column + j < x.columns; ++j) {
        to[j] = shared_at<gpuBfloat16>(at + shared_bytes(2 * j));
      }
    }
  }
}

template <int high, int columns>
using SumTiles = FragmentC[high][columns / 8];

// Where a lane's row begins in what load_matrices() reads: 16 rows as A, or as
// they are in B; 16 rows that become columns of B.
template <int size>
__device__ inline SharedAddress lane_in_rows() {
  return shared_rows<size>(lane() % 16, lane() / 16 * 8);
}
template <int size>
__device__ inline SharedAddress lane_in_columns() {
  return shared_rows<size>(lane() % 8 + lane() / 16 * 8, lane() / 8 % 2 * 8);
}

// sums = the rows of a (16 x high of them) times those of b.
template <int size, int high, int columns>
__device__ inline void products(SharedAddress a, SharedAddress b, SumTiles<high, columns>& sums) {
#pragma unroll
  for (int i = 0; i < high; ++i) {
#pragma unroll
    for (int j = 0; j < columns / 8; ++j) sums[i][j] = {{0, 0, 0, 0}};
  }
  a += lane_in_rows<size>();
  b += lane_in_columns<size>();
#pragma unroll
  for (int k = 0; k < size; k += 16) {
    FragmentA left[high];
#pragma unroll
    for (int i = 0; i < high; ++i) {
      load_matrices<false>(left[i].word, a + shared_rows<size>(16 * i, k));
    }
#pragma unroll
    for (int j = 0; j < columns; j += 16) {
      FragmentB right;
      load_matrices<false>(right.word, b + shared_rows<size>(j, k));
#pragma unroll
      for (int i = 0; i < high; ++i) {
        multiply_add(sums[i][j / 8], left[i], right, 0);
        multiply_add(sums[i][j / 8 + 1], left[i], right, 1);
      }
    }
  }
}

// sums += weights (rounded to bfloat16) times the rows of x.
template <int size, int high, int columns>
__device__ inline void mix(const SumTiles<high, columns>& weights, SharedAddress x,
                           SumTiles<high, size>& sums) {
  x += lane_in_rows<size>();
#pragma unroll
  for (int k = 0; k < columns; k += 16) {
    FragmentA left[high];
#pragma unroll
    for (int i = 0; i < high; ++i) {
      const FragmentC& near = weights[i][k / 8];
      const FragmentC& far = weights[i][k / 8 + 1];
      left[i] = {{bfloat16_pair(near.v[0], near.v[1]), bfloat16_pair(near.v[2], near.v[3]),
                  bfloat16_pair(far.v[0], far.v[1]), bfloat16_pair(far.v[2], far.v[3])}};
    }
#pragma unroll
    for (int j = 0; j < size; j += 16) {
      FragmentB right;
      load_matrices<true>(right.word, x + shared_rows<size>(k, j));
#pragma unroll
      for (int i = 0; i < high; ++i) {
        multiply_add(sums[i][j / 8], left[i], right, 0);
        multiply_add(sums[i][j / 8 + 1], left[i], right, 1);
      }
    }
  }
}

// The warp's rows of a tile become the sums times factor[i][j], of fragment i's
// rows group + 8 j.
template <int size, int high>
__device__ inline void write_sums(const SumTiles<high, size>& sums, const float (&factor)[high][2],
                                  SharedAddress to) {
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
