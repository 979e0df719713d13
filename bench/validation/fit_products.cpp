#include "bench/validation/fit_products.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/validation/findings.h"
#include "bench/validation/nelder_mead.h"

namespace pipesim::validation {
namespace {

// What the fit may change: of the tiles, all those of one area alike. The best
// one is 1, and what no row of the table takes stays as it is.
struct ShapeConstants {
  double peak_share, ramp, whole_waves, accumulation, half, quarter;

  std::vector<double*> all() {
    return {&peak_share, &ramp, &whole_waves, &accumulation, &half, &quarter};
  }
};
constexpr const char* names[] = {"peak_share",   "ramp",         "whole_waves",
                                 "accumulation", "tile 128x128", "tile 128x64"};
constexpr double spreads[] = {0.1, 100, 0.3, 0.05, 0.1, 0.1};
constexpr std::int64_t half_area = 16'384;   // 128 x 128
constexpr std::int64_t quarter_area = 8192;  // 128 x 64, 64 x 128

ShapeConstants constants_of(const MatmulRate& matmul) {
  const auto efficiency = [&](std::int64_t area) {
    const auto at = std::ranges::find_if(
        matmul.tiles, [&](const Tile& tile) { return tile.rows * tile.columns == area; });
    return at == matmul.tiles.end() ? 1 : at->efficiency;
  };
  return {matmul.peak_share,     static_cast<double>(matmul.ramp),
          matmul.whole_waves,    matmul.accumulation,
          efficiency(half_area), efficiency(quarter_area)};
}

Device with(Device device, const ShapeConstants& constants) {
  MatmulRate& matmul = device.matmul;
  matmul.peak_share = constants.peak_share;
  matmul.ramp = std::llround(std::max(0.0, constants.ramp));
  matmul.whole_waves = std::clamp(constants.whole_waves, 0.0, 1.0);
  matmul.accumulation = std::max(1.0, constants.accumulation);
  for (Tile& tile : matmul.tiles) {
    if (tile.rows * tile.columns == half_area) tile.efficiency = constants.half;
    if (tile.rows * tile.columns == quarter_area) tile.efficiency = constants.quarter;
  }
  return device;
}

ErrorSummary errors_of(const MatmulTable& table, const Device& device, bool fitted) {
  const std::vector<ProductRow> rows = examine_products(table, device);
  std::vector<NamedError> errors;
  for (const ProductRow& row : rows) {
    if (row.fitted == fitted) errors.push_back({row.name, row.error()});
  }
  return summarise(errors);
}

}  // namespace

std::string fit_products(const std::string& folder) {
  const MatmulTable table = read_matmul_table(folder);
  const Device device = find_device(table.device);
  const ShapeConstants start = constants_of(device.matmul);
  const auto at = [&](const std::vector<double>& point) {
    ShapeConstants constants = start;
    const std::vector<double*> values = constants.all();
    for (std::size_t i = 0; i < values.size(); ++i) *values[i] += point[i] * spreads[i];
    return constants;
  };
  const auto loss = [&](const std::vector<double>& point) {
    double sum = 0;
    for (const ProductRow& row : examine_products(table, with(device, at(point)))) {
      constexpr double usual_error = 0.02;
      const double error = row.error() / usual_error;
      if (row.fitted) sum += std::log1p(error * error);
    }
    return sum;
  };
  constexpr double step = 0.5;
  constexpr double tolerance = 1e-6;
  constexpr int most = 20'000;
  ShapeConstants end =
      at(minimise(loss, std::vector<double>(std::size(spreads)), step, tolerance, most));

  ShapeConstants before = start;
  std::string text = fmt::format("{:<16} {:>9} {:>9}\n", "constant", "start", "end");
  for (std::size_t i = 0; i < std::size(names); ++i) {
    text += fmt::format("{:<16} {:>9.4f} {:>9.4f}\n", names[i], *before.all()[i], *end.all()[i]);
  }
  text += fmt::format("\nabsolute errors, %: mean, median, worst\n{:<10} {:<20}   {}\n", "",
                      "at the start", "at the end");
  for (const bool fitted : {true, false}) {
    text += fmt::format("{:<10}", fitted ? "fitted" : "unseen");
    for (const ShapeConstants& constants : {start, end}) {
      const ErrorSummary errors = errors_of(table, with(device, constants), fitted);
      text += fmt::format(" {:6.2f} {:6.2f} {:6.2f}  ", 100 * errors.mean, 100 * errors.median,
                          100 * errors.worst);
    }
    text += "\n";
  }
  return text;
}

}  // namespace pipesim::validation
