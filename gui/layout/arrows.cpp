// Arrows from group to group, and what is picked.
#include <algorithm>
#include <bit>
#include <tuple>

#include "gui/layout/parts.h"

namespace pipesim::gui {
namespace {

constexpr std::size_t max_looked_at = 8192;
constexpr int faint = 110;  // of 256, how much is seen of arrows that are not picked

struct Row {
  int y = 0;
  int height = 0;
  bool in_sight = false;
};

// The row of each group and trace from which and to which arrows go.
class Ends {
 public:
  explicit Ends(const Drawing& drawing) : drawing_(&drawing) {
    bands_.resize(drawing.scene.groups.size());
    for (const Band& band : drawing.bands) {
      bands_[static_cast<std::size_t>(band.placed.group)] = &band;
    }
  }

  std::optional<Row> of(int group, int trace) const {
    if (group < 0 || static_cast<std::size_t>(group) >= bands_.size()) return {};
    const Band* band = bands_[static_cast<std::size_t>(group)];
    if (band == nullptr) return {};
    const auto& lanes = drawing_->scene.groups[static_cast<std::size_t>(group)].lanes;
    const bool overlay = drawing_->scene.options.show == Show::overlay;
    const auto lane_of = [&](const PlacedRow& row) -> const Lane& {
      return lanes[static_cast<std::size_t>(row.lane)];
    };
    for (const PlacedRow& row : band->rows) {
      if (row.lane < 0 || row.row != 0) continue;
      const bool covered =
          overlay && std::ranges::any_of(band->rows, [&](const PlacedRow& other) {
            return other.lane > row.lane && lane_of(other).kind == lane_of(row).kind;
          });
      if (lane_of(row).trace != trace || covered) continue;
      return Row{row.y, row.height, band->cut.of(row.y, row.height).height() > 0};
    }
    return {};
  }

 private:
  const Drawing* drawing_;
  std::vector<const Band*> bands_;
};

struct Bundle {
  std::int32_t trace = 0, from_group = 0, to_group = 0;
  std::int64_t bucket = 0;
  std::int64_t count = 0;
  double from_ns = 0, to_ns = 0;  // sums over its arrows, from the range's start

  auto pair() const { return std::tie(trace, from_group, to_group); }
  auto key() const { return std::tie(trace, from_group, to_group, bucket); }
};

// Joins neighbours of one key; they are sorted by it.
void join(std::vector<Bundle>& bundles) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    if (kept > 0 && bundles[kept - 1].key() == bundles[i].key()) {
      Bundle& into = bundles[kept - 1];
      into.count += bundles[i].count;
      into.from_ns += bundles[i].from_ns;
      into.to_ns += bundles[i].to_ns;
    } else {
      bundles[kept++] = bundles[i];
    }
  }
  bundles.resize(kept);
}

struct ArrowDrawer {
  Drawing& drawing;
  Ends ends;

  // From the edge of one row to that of the other.
  void add(const Row& from, const Row& to, std::int64_t from_ns, std::int64_t to_ns, Rgb colour,
           int width) const {
    const Viewport& viewport = drawing.picture.viewport;
    const bool down = to.y > from.y;
    const bool same = to.y == from.y;
    const int from_y = same ? from.y + from.height / 2 : down ? from.y + from.height - 1 : from.y;
    const int to_y = same ? to.y + to.height / 2 : down ? to.y : to.y + to.height - 1;
    drawing.add_line(drawing.plot, {.x1 = viewport.x_of(from_ns),
                                    .y1 = from_y,
                                    .x2 = viewport.x_of(to_ns),
                                    .y2 = to_y,
                                    .colour = colour,
                                    .width = width,
                                    .arrow = true});
  }

  bool is_picked(const Arrow& arrow) const {
    const auto& picked = drawing.view.picked;
    return picked && !picked->bubble && picked->trace == arrow.trace &&
           (picked->ref == arrow.ref || picked->ref == arrow.to_ref);
  }

  void add_bundles(const std::vector<Arrow>& arrows, std::int64_t weight) const {
    const TimeRange& range = drawing.picture.viewport.range;
    // Buckets are powers of two of nanoseconds, wherever the range starts: they stay
    // what they are when it moves.
    const auto length =
        static_cast<std::uint64_t>(range.to_ns) - static_cast<std::uint64_t>(range.from_ns);
    const int bits = std::max(static_cast<int>(std::bit_width(length)) - 6, 0);
    std::vector<Bundle> bundles;
    bundles.reserve(arrows.size());
    for (const Arrow& arrow : arrows) {
      bundles.push_back({arrow.trace, arrow.from_group, arrow.to_group, arrow.from_ns >> bits,
                         weight, static_cast<double>(arrow.from_ns - range.from_ns),
                         static_cast<double>(arrow.to_ns - range.from_ns)});
    }
    std::ranges::sort(bundles, [](const Bundle& a, const Bundle& b) { return a.key() < b.key(); });
    for (Bundle& bundle : bundles) bundle.count = weight;
    join(bundles);
    for (int i = 0; i < 64 && bundles.size() > max_arrows; ++i) {
      for (Bundle& bundle : bundles) bundle.bucket >>= 1;
      join(bundles);
    }
    if (bundles.size() > max_arrows) {  // of too many pairs those with the most
      std::ranges::stable_sort(bundles, std::greater(), &Bundle::count);
      bundles.resize(max_arrows);
    }
    const Rgb colour = mix(drawing.palette.background, drawing.palette.arrow, faint);
    for (const Bundle& bundle : bundles) {
      const auto from = ends.of(bundle.from_group, bundle.trace);
      const auto to = ends.of(bundle.to_group, bundle.trace);
      if (!from || !to) continue;
      const double looked_at = static_cast<double>(bundle.count / weight);
      const auto mean = [&](double sum) {
        return range.from_ns + static_cast<std::int64_t>(sum / looked_at);
      };
      add(*from, *to, mean(bundle.from_ns), mean(bundle.to_ns), colour, drawing.scaled(1));
    }
  }
};

std::optional<Band> band_of(const Drawing& drawing, int group) {
  for (const Band& band : drawing.bands) {
    if (band.placed.group == group) return band;
  }
  return {};
}

// Where a bar is in the picture, in sight or not.
struct PickedBar {
  Cut cut;
  DrawList::Box box;
};
std::optional<PickedBar> place_of(const Drawing& drawing, const Pick& pick) {
  const auto place = find(drawing.scene, drawing.document, pick);
  if (!place) return {};
  const auto band = band_of(drawing, place->group);
  if (!band) return {};
  for (const PlacedRow& row : band->rows) {
    if (row.lane != place->lane || row.row != place->row) continue;
    const Viewport& viewport = drawing.picture.viewport;
    const int from = viewport.x_of(place->range.from_ns);
    const int to = std::max(viewport.x_of(place->range.to_ns), from + drawing.scaled(3));
    return PickedBar{band->cut, {.x = from, .y = row.y, .width = to - from, .height = row.height}};
  }
  return {};
}

void frame(Drawing& drawing, const PickedBar& bar) {
  for (int i = 0; i < drawing.scaled(2); ++i) {
    DrawList::Box box = bar.box;
    box.x += i - 1;
    box.y += i - 1;
    box.width += 2 - 2 * i;
    box.height += 2 - 2 * i;
    if (box.width < 1 || box.height < 1) break;
    box.filled = false;
    box.framed = true;
    box.frame = drawing.palette.selection;
    drawing.add_box(bar.cut, box);
  }
}

// The same action of the other side.
std::optional<Pick> counterpart(const Drawing& drawing, const Pick& pick) {
  const auto side = drawing.document.side_of(pick.trace);
  if (!side || drawing.document.pair == nullptr) return {};
  const Pair& pair = *drawing.document.pair;
  const OperationId operation = pair.find(*side, pick.ref);
  if (operation == no_operation) return {};
  const Side other = *side == predicted_side ? measured_side : predicted_side;
  const Ref ref = pair.span_of[other][static_cast<std::size_t>(operation)];
  if (ref == no_ref) return {};
  return Pick{pair.trace[other], ref, pick.bubble};
}

}  // namespace

void draw_arrows(Drawing& drawing) {
  const Scene& scene = drawing.scene;
  const TimeRange& range = drawing.picture.viewport.range;
  const std::size_t first = scene.arrows.first_from(range.from_ns - scene.arrows.longest_ns());
  const std::size_t last = std::max(scene.arrows.first_from(range.to_ns), first);
  // The same ones wherever the range is.
  const std::size_t stride = std::bit_ceil((last - first) / max_looked_at + 1);
  const ArrowDrawer drawer{drawing, Ends(drawing)};

  std::vector<Arrow> arrows;
  std::vector<Arrow> picked;
  for (std::size_t i = (first + stride - 1) / stride * stride; i < last; i += stride) {
    const Arrow arrow = scene.arrows[i];
    if (arrow.to_ns < range.from_ns) continue;
    const auto from = drawer.ends.of(arrow.from_group, arrow.trace);
    const auto to = drawer.ends.of(arrow.to_group, arrow.trace);
    if (!from || !to || (!from->in_sight && !to->in_sight)) continue;
    (drawer.is_picked(arrow) ? picked : arrows).push_back(arrow);
  }
  if (arrows.size() > max_arrows || stride > 1) {
    drawing.picture.bundled_arrows = static_cast<std::int64_t>(arrows.size() * stride);
    drawer.add_bundles(arrows, static_cast<std::int64_t>(stride));
  } else {
    for (const Arrow& arrow : arrows) {
      drawer.add(*drawer.ends.of(arrow.from_group, arrow.trace),
                 *drawer.ends.of(arrow.to_group, arrow.trace), arrow.from_ns, arrow.to_ns,
                 mix(drawing.palette.background, drawing.palette.arrow, faint), drawing.scaled(1));
    }
  }
  for (const Arrow& arrow : picked) {
    drawer.add(*drawer.ends.of(arrow.from_group, arrow.trace),
               *drawer.ends.of(arrow.to_group, arrow.trace), arrow.from_ns, arrow.to_ns,
               drawing.palette.selection, drawing.scaled(2));
  }
}

void draw_picked(Drawing& drawing) {
  if (!drawing.view.picked) return;
  const auto bar = place_of(drawing, *drawing.view.picked);
  const auto other_pick = counterpart(drawing, *drawing.view.picked);
  const auto other = other_pick ? place_of(drawing, *other_pick) : std::nullopt;
  if (bar) frame(drawing, *bar);
  if (!other) return;
  frame(drawing, *other);
  if (!bar || bar->box.x == other->box.x) return;
  const auto& upper = bar->box.y < other->box.y ? bar->box : other->box;
  const auto& lower = bar->box.y < other->box.y ? other->box : bar->box;
  drawing.add_line(drawing.plot, {.x1 = upper.x,
                                  .y1 = upper.y + upper.height,
                                  .x2 = lower.x,
                                  .y2 = lower.y,
                                  .colour = drawing.palette.selection,
                                  .width = drawing.scaled(1)});
}

}  // namespace pipesim::gui
