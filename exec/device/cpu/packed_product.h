// The project's own GEMM: blocks of both matrices are packed into
// panels in the order in which a tile of c, held in registers, reads them.
//
// For cpu_operators.cpp only, hence internal linkage. The order of
// additions depends only on k.
#pragma once

#include <cstdint>

#include "exec/device/cpu/library_products.h"
#include "exec/device/cpu/vector.h"

namespace pipesim::exec {
namespace {

constexpr int tile_rows = lanes == 16 ? 8 : 6;
constexpr int tile_columns = 2 * lanes;
constexpr std::int64_t block_depth = 256;    // a panel of b, 32 KiB at most, stays in the L1 cache
constexpr std::int64_t block_rows = 96;      // a block of a, 96 KiB, in L2
constexpr std::int64_t block_columns = 512;  // a block of b, 512 KiB, in L2 or L3
constexpr std::int64_t packed_floats = block_depth * (block_rows + block_columns);

// Lines are rows of op(a) or columns of op(b): element p of line i is at from[i x line_stride + p x
// depth_stride], one stride being 1. Packs panels of `width` lines, with element p of all of them
// adjacent, padded with zeros.
template <int width>
inline void pack(const float* from, std::int64_t line_stride, std::int64_t depth_stride,
                 std::int64_t lines, std::int64_t depth, float* to) {
  for (std::int64_t line = 0; line < lines; line += width, to += width * depth) {
    const std::int64_t count = smaller(width, lines - line);
    const float* panel = from + line * line_stride;
    if (count < width) __builtin_memset(to, 0, bytes_of(width * depth));
    if (line_stride == 1 && count == width) {
      for (std::int64_t p = 0; p < depth; ++p) {
        __builtin_memcpy(to + p * width, panel + p * depth_stride, bytes_of(width));
      }
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t p = 0; p < depth; ++p) {
          to[p * width + i] = panel[i * line_stride + p * depth_stride];
        }
      }
    }
  }
}

// c[rows x columns], at most one tile, from a panel of each matrix.
inline void tile(std::int64_t depth, const float* a, const float* b, std::int64_t rows,
                 std::int64_t columns, float* c, std::int64_t ldc, bool accumulate) {
  Floats left[tile_rows] = {};
  Floats right[tile_rows] = {};
  for (std::int64_t p = 0; p < depth; ++p, a += tile_rows, b += tile_columns) {
    const Floats b_left = load(b, Whole{});
    const Floats b_right = load(b + lanes, Whole{});
    for (int i = 0; i < tile_rows; ++i) {
      left[i] += b_left * a[i];
      right[i] += b_right * a[i];
    }
  }
  const auto put = [&](float* to, Floats value, auto n) {
    store(to, accumulate ? load(to, n) + value : value, n);
  };
  for (int i = 0; i < tile_rows; ++i) {  // to a constant: both arrays stay in registers
    if (i >= rows) break;
    float* row = c + i * ldc;
    if (columns == tile_columns) {
      put(row, left[i], Whole{});
      put(row + lanes, right[i], Whole{});
    } else {
      put(row, left[i], Part{smaller(columns, lanes)});
      if (columns > lanes) put(row + lanes, right[i], Part{columns - lanes});
    }
  }
}

// `packed` is room for packed_floats.
void packed_product(const MatrixProduct& product, float* packed) {
  const std::int64_t a_line = product.transpose_a ? 1 : product.lda;
  const std::int64_t a_depth = product.transpose_a ? product.lda : 1;
  const std::int64_t b_line = product.transpose_b ? product.ldb : 1;
  const std::int64_t b_depth = product.transpose_b ? 1 : product.ldb;
  float* packed_b = packed + block_depth * block_rows;
  for (std::int64_t j = 0; j < product.n; j += block_columns) {
    const std::int64_t columns = smaller(block_columns, product.n - j);
    for (std::int64_t p = 0; p < product.k; p += block_depth) {
      const std::int64_t depth = smaller(block_depth, product.k - p);
      const bool accumulate = product.accumulate || p > 0;
      pack<tile_columns>(product.b + j * b_line + p * b_depth, b_line, b_depth, columns, depth,
                         packed_b);
      for (std::int64_t i = 0; i < product.m; i += block_rows) {
        const std::int64_t rows = smaller(block_rows, product.m - i);
        pack<tile_rows>(product.a + i * a_line + p * a_depth, a_line, a_depth, rows, depth, packed);
        for (std::int64_t column = 0; column < columns; column += tile_columns) {
          for (std::int64_t row = 0; row < rows; row += tile_rows) {
            tile(depth, packed + row * depth, packed_b + column * depth,
                 smaller(tile_rows, rows - row), smaller(tile_columns, columns - column),
                 product.c + (i + row) * product.ldc + j + column, product.ldc, accumulate);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace pipesim::exec
