#include "sim/cost/estimate/device_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace pipesim {
namespace {

double peak_of(const DeviceSpec& device, Precision precision) {
  return device.flops_per_second[static_cast<std::size_t>(precision)].value();
}

double gaps(const DeviceSpec& device, int kernels) {
  return kernels * static_cast<double>(device.software.kernel_gap_ns) * 1e-9;
}

double streaming_seconds(const DeviceSpec& device, double bytes) {
  return bytes / (static_cast<double>(device.memory_bytes_per_second) * device.memory_share);
}

double share_of(const MatmulRate& matmul, Precision precision) {
  return precision == Precision::fp8 ? matmul.fp8_share.value_or(matmul.peak_share)
                                     : matmul.peak_share;
}

// The factor for dimensions that do not fit tiles and loads.
double misfit_of(const MatmulRate& matmul, const MatrixProduct& product) {
  const auto all_divide = [&](std::int64_t by) {
    return product.rows % by == 0 && product.columns % by == 0 && product.inner % by == 0;
  };
  if (product.is_padded) return 1;
  if (!all_divide(8)) return matmul.unaligned_8;
  return all_divide(64) ? 1 : matmul.unaligned_64;
}

// At the full peak.
double tile_seconds(const DeviceSpec& device, double peak, const MatrixProduct& product,
                    const Tile& tile) {
  const double inner = static_cast<double>(product.inner + device.matmul.ramp);
  if (tile.rows == 0) {
    return 2.0 * static_cast<double>(product.batch) * static_cast<double>(product.rows) *
           static_cast<double>(product.columns) * inner / (peak * tile.efficiency);
  }
  const std::int64_t tiles = product.batch * ((product.rows + tile.rows - 1) / tile.rows) *
                             ((product.columns + tile.columns - 1) / tile.columns);
  const double processors = static_cast<double>(device.multiprocessors);
  const double parts = static_cast<double>(tiles) / processors;
  const double whole = device.matmul.whole_waves;
  const double waves = std::max(1.0, whole * std::ceil(parts) + (1 - whole) * parts);
  const double tile_flops =
      2.0 * static_cast<double>(tile.rows) * static_cast<double>(tile.columns) * inner;
  return waves * tile_flops / (peak / processors * tile.efficiency);
}

}  // namespace

double memory_seconds(const DeviceSpec& device, double bytes, int kernels) {
  return streaming_seconds(device, bytes) + gaps(device, kernels);
}

double product_seconds(const DeviceSpec& device, Precision precision, const MatrixProduct& product,
                       double software_factor) {
  const double peak = peak_of(device, precision);
  double fastest = std::numeric_limits<double>::infinity();
  for (const Tile& tile : device.matmul.tiles) {
    fastest = std::min(fastest, tile_seconds(device, peak, product, tile));
  }
  fastest /= share_of(device.matmul, precision) * software_factor;
  fastest *= misfit_of(device.matmul, product);
  if (product.accumulates) fastest *= device.matmul.accumulation;
  const auto rows = static_cast<double>(product.rows);
  const auto columns = static_cast<double>(product.columns);
  const auto inner = static_cast<double>(product.inner);
  const auto value = static_cast<double>(bytes_of(precision));
  // A sum in fp32 is read and written.
  const double result = product.accumulates ? 8 : value;
  const double bytes = static_cast<double>(product.batch) *
                       (value * inner * (rows + columns) + result * rows * columns);
  return std::max(fastest, streaming_seconds(device, bytes)) + gaps(device, 1);
}

ListedTimes::ListedTimes(const DeviceSpec& device, const KernelList& list, double pace)
    : device_(device),
      rates_(kernels_of(device)),
      attention_(rates_.attention_of(list.attention, device.name, list.attention_place)) {
  rates_.sustained *= pace;
}

double ListedTimes::share_of(Precision precision) const {
  const double own = *device_.flops_per_second[static_cast<std::size_t>(precision)];
  return precision == Precision::fp8 ? rates_.fp8 : own / flops_of_values(device_);
}

double ListedTimes::memory_seconds(Traffic traffic, double bytes, int launches) const {
  return bytes / rates_.bytes_per_second[static_cast<std::size_t>(traffic)] +
         launches * static_cast<double>(rates_.start_ns) * 1e-9 + gaps(device_, launches);
}

double ListedTimes::product_seconds(Precision precision, const MatrixProduct& product,
                                    double factor) const {
  constexpr double tile = 128;
  // Of several at once each fills whole tiles.
  const auto filled_up = [&](std::int64_t size) {
    const auto exact = static_cast<double>(size);
    return product.batch == 1 ? exact : tile * std::ceil(exact / tile);
  };
  const double rows = filled_up(product.rows);
  const double columns = filled_up(product.columns);
  const auto inner = static_cast<double>(product.inner);
  const auto batch = static_cast<double>(product.batch);
  const double filled =
      batch * rows * columns / (tile * tile) / static_cast<double>(device_.multiprocessors);
  const double flops =
      2 * batch * rows * columns * (inner + static_cast<double>(rates_.product_ramp));
  const double compute =
      flops / (rates_.product_flops_per_second * share_of(precision)) / std::min(1.0, filled);
  const double value = precision == Precision::fp8 ? 1 : static_cast<double>(bytes_of(precision));
  const double bandwidth = rates_.bytes_per_second[static_cast<std::size_t>(Traffic::stream)];
  const double results = batch * rows * columns;
  const double moved = batch * value * inner * (rows + columns) + 2 * results;
  // A sum in fp32 is read and written.
  const double beyond = product.accumulates ? 8 - 2 : static_cast<double>(bytes_of(precision)) - 2;
  return std::max(compute / (rates_.sustained * factor), moved / bandwidth) +
         rates_.epilogue * beyond * results / bandwidth +
         static_cast<double>(rates_.product_start_ns) * 1e-9 + gaps(device_, 1);
}

double ListedTimes::attention_seconds(Precision precision, Pass pass, double flops,
                                      std::int64_t sequence, double factor) const {
  const AttentionRate& rate = pass == Pass::forward ? attention_.forward : attention_.backward;
  const double ramp = 1 + static_cast<double>(rate.ramp) / static_cast<double>(sequence);
  return flops * ramp / (rate.flops_per_second * share_of(precision) * rates_.sustained * factor) +
         static_cast<double>(rate.start_ns) * 1e-9 + gaps(device_, 1);
}

double work_seconds(const DeviceSpec& device, Precision precision, double flops, double share,
                    double bytes, int kernels) {
  return std::max(flops / (peak_of(device, precision) * share), streaming_seconds(device, bytes)) +
         gaps(device, kernels);
}

}  // namespace pipesim
