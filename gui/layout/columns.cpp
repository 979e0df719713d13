#include "gui/layout/columns.h"

#include <algorithm>

#include "gui/layout/palette.h"

namespace pipesim::gui {
namespace {

// Shares of a column are counted in so many parts.
constexpr std::int64_t parts = 1 << 16;
// However short bars are, they are seen.
constexpr double least_filled = 0.375 * parts;

// A colour with room between its channels for a product with `parts`.
struct Spread {
  std::uint64_t red_blue = 0;
  std::uint64_t green = 0;

  Spread() = default;
  explicit Spread(Rgb colour)
      : red_blue(std::uint64_t{colour & 0xff0000} << 16 | (colour & 0xff)),
        green(colour >> 8 & 0xff) {}

  void add(const Spread& colour, std::uint64_t share) {
    red_blue += colour.red_blue * share;
    green += colour.green * share;
  }
  Rgb mean() const {
    constexpr std::uint64_t half = parts / 2;
    const auto rounded = red_blue + (half << 32 | half);
    return static_cast<Rgb>((rounded >> 48 & 0xff) << 16 | ((green + half) >> 16 & 0xff) << 8 |
                            (rounded >> 16 & 0xff));
  }
};

struct UsedShade {
  Shade shade = 0;
  Spread colour;
};

// The first of `instants` from `index` on that is no earlier.
std::size_t first_from(std::span<const BarRow::Instant> instants, std::size_t index,
                       std::int64_t time_ns) {
  std::size_t step = 1;
  while (index + step < instants.size() && instants[index + step].time_ns < time_ns) step *= 2;
  const auto near = instants.subspan(index, std::min(step + 1, instants.size() - index));
  const auto found = std::ranges::lower_bound(near, time_ns, {}, &BarRow::Instant::time_ns);
  return index + static_cast<std::size_t>(found - near.begin());
}

// `filled` tells of which columns bars fill half or more.
void paint_instants(const BarRow& row, const RowPaint& paint, std::span<const std::int64_t> times,
                    const std::vector<char>& filled, std::span<Rgb> columns) {
  const auto instants = row.instants();
  std::size_t next = 0;
  for (std::size_t x = 0; x < columns.size(); ++x) {
    next = first_from(instants, next, times[x] - paint.offset_ns);
    if (next == instants.size()) break;
    if (instants[next].time_ns >= times[x + 1] - paint.offset_ns || filled[x]) continue;
    columns[x] = paint.shades[row[instants[next].bar].shade];
  }
}

}  // namespace

std::vector<std::int64_t> column_times(const Viewport& viewport) {
  std::vector<std::int64_t> times(static_cast<std::size_t>(std::max(viewport.width, 0)) + 1);
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i] = viewport.time_of(viewport.x + static_cast<int>(i));
  }
  return times;
}

void paint_row(const BarRow& row, const RowPaint& paint, std::span<const std::int64_t> times,
               std::span<Rgb> columns, std::vector<WideBar>* wide) {
  if (row.empty() || columns.empty()) return;
  std::array<UsedShade, shade_count> used;
  std::size_t used_count = 0;
  for (const Shade shade : row.shades()) {
    used[used_count++] = {shade, Spread(paint.shades[shade])};
  }
  const auto time = [&](std::size_t column) { return times[column] - paint.offset_ns; };

  std::vector<char> mostly_filled;
  if (!row.instants().empty()) mostly_filled.resize(columns.size());
  const auto fill = [&](std::size_t column) {
    if (!mostly_filled.empty()) mostly_filled[column] = 1;
  };
  BarRow::Sweep sweep(row);
  std::array<std::int64_t, shade_count> before{};  // of the used shades, at `swept_ns`
  std::int64_t swept_ns = time(0);
  const auto take = [&](std::int64_t at_ns) {
    const ShadeTimes& filled = sweep.filled_before(at_ns);
    for (std::size_t i = 0; i < used_count; ++i) before[i] = filled[used[i].shade];
    swept_ns = at_ns;
  };
  take(swept_ns);

  std::int64_t length_ns = 0;
  double parts_of_ns = 0;
  for (std::size_t x = 0; x < columns.size();) {
    const std::int64_t from = time(x);
    const std::int64_t to = time(x + 1);
    if (from == to) {  // less than a nanosecond: as the one before, within the same one
      columns[x] = columns[x == 0 ? 0 : x - 1];
      ++x;
      continue;
    }
    if (sweep.next() < row.size() && row.end_ns(sweep.next()) <= from) take(from);
    const std::size_t next = sweep.next();
    if (next == row.size()) break;
    const std::int64_t start_ns = row.start_ns(next);
    const std::int64_t end_ns = row.end_ns(next);
    if (start_ns >= to) {  // idle until then
      ++x;
      continue;
    }
    if (start_ns <= from && end_ns >= to) {
      const std::size_t first = x;
      const Bar bar = row[next];
      const Rgb colour = paint.shades[bar.shade];
      while (x < columns.size() && time(x + 1) <= end_ns) {
        fill(x);
        columns[x++] = colour;
      }
      const int filled = static_cast<int>(x - first);
      if (filled < paint.least_wide) continue;
      if (wide != nullptr) wide->push_back({next, static_cast<int>(first), static_cast<int>(x)});
      if (start_ns >= time(0) && !is_bubble(bar.shade)) {
        columns[first] = mix(colour, paint.edge_colour, paint.edge);
      }
      continue;
    }
    if (swept_ns != from) take(from);
    const ShadeTimes& filled = sweep.filled_before(to);
    swept_ns = to;
    if (to - from != length_ns) {
      length_ns = to - from;
      parts_of_ns = static_cast<double>(parts) / static_cast<double>(length_ns);
    }
    Spread sum;
    std::int64_t rest = parts;
    std::int64_t all_ns = 0;
    for (std::size_t i = 0; i < used_count; ++i) {
      all_ns += filled[used[i].shade] - before[i];
    }
    const double scale =
        all_ns == 0 ? 0 : std::max(parts_of_ns, least_filled / static_cast<double>(all_ns));
    for (std::size_t i = 0; i < used_count; ++i) {
      const std::int64_t busy_ns = filled[used[i].shade] - before[i];
      before[i] += busy_ns;
      const auto share = static_cast<std::int64_t>(static_cast<double>(busy_ns) * scale);
      sum.add(used[i].colour, static_cast<std::uint64_t>(share));
      rest -= share;
    }
    if (2 * all_ns >= length_ns) fill(x);
    sum.add(Spread(columns[x]), static_cast<std::uint64_t>(std::max<std::int64_t>(rest, 0)));
    columns[x++] = sum.mean();
  }
  if (!mostly_filled.empty()) paint_instants(row, paint, times, mostly_filled, columns);
}

}  // namespace pipesim::gui
