#include "gui/tables/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "gui/scene/shading.h"
#include "gui/tables/area_bars.h"
#include "gui/tables/table_rows.h"

namespace pipesim::gui {
namespace {

constexpr std::int64_t logarithmic_from = 100;  // times the least length

// Lengths are told twice: first to choose the bins, then to count.
class Lengths {
 public:
  void see(int trace, std::int64_t length_ns) {
    range_ =
        range_ ? std::pair(std::min(range_->first, length_ns), std::max(range_->second, length_ns))
               : std::pair(length_ns, length_ns);
    runs_.try_emplace(trace, runs_.size());
  }

  Histogram start(const Document& document, std::string title) const {
    Histogram histogram;
    histogram.title = std::move(title);
    if (!range_) return histogram;
    const auto [least, most] = *range_;
    histogram.logarithmic = most / logarithmic_from > std::max<std::int64_t>(least, 1);
    histogram.edges_ns = edges_between(least, most + 1, histogram.logarithmic);
    histogram.runs.resize(runs_.size());
    for (const auto& [trace, place] : runs_) {
      Histogram::Run& run = histogram.runs[place];
      if (runs_.size() > 1) {
        run.name = name_of_run(document, trace);
      }
      run.bins.resize(histogram.bins());
    }
    return histogram;
  }

  void count(Histogram& histogram, const Pick& pick, std::int64_t length_ns, Shade shade) const {
    const auto& edges = histogram.edges_ns;
    const auto after = std::ranges::upper_bound(edges, length_ns);
    const auto place = static_cast<std::size_t>(after - edges.begin()) - 1;
    Histogram::Bin& bin = histogram.runs[runs_.at(pick.trace)].bins[place];
    ++bin.counts[shade];
    if (bin.about.size() < max_picks) bin.about.push_back(pick);
  }

 private:
  // As many bins as are asked for, or fewer where they would be shorter than a nanosecond.
  static std::vector<std::int64_t> edges_between(std::int64_t from_ns, std::int64_t to_ns,
                                                 bool logarithmic) {
    const auto from =
        static_cast<double>(logarithmic ? std::max<std::int64_t>(from_ns, 1) : from_ns);
    const auto to = static_cast<double>(to_ns);
    std::vector<std::int64_t> edges{from_ns};
    for (std::size_t i = 1; i < max_bins; ++i) {
      const double share = static_cast<double>(i) / max_bins;
      const double edge =
          logarithmic ? from * std::pow(to / from, share) : from + (to - from) * share;
      const auto edge_ns = static_cast<std::int64_t>(edge);
      if (edge_ns > edges.back() && edge_ns < to_ns) edges.push_back(edge_ns);
    }
    edges.push_back(to_ns);
    return edges;
  }

  std::optional<std::pair<std::int64_t, std::int64_t>> range_;
  std::map<int, std::size_t> runs_;  // traces, as they come
};

// By trace, made when asked for.
class KindShades {
 public:
  explicit KindShades(const Document& document) : document_(document) {}

  Shade of(int trace, Ref ref) {
    auto& shading = shadings_[trace];
    if (!shading) shading = std::make_unique<Shading>(document_, trace, Colouring::kind);
    return shading->of(ref);
  }

 private:
  const Document& document_;
  std::map<int, std::unique_ptr<Shading>> shadings_;
};

// Tells what is like the picks, each once.
class Alike {
 public:
  Alike(const Document& document, const std::vector<Pick>& picks) : document_(document) {
    for (const Pick& pick : picks) {
      if (pick.bubble || pick.ref == no_ref) continue;
      const OpenTrace& trace = document.trace(pick.trace);
      if (trace.run) {
        const Action& action = trace.run->spans[pick.ref].action;
        kinds_.insert({pick.trace, static_cast<std::int64_t>(action.stage), action.kind});
      } else {
        add_name(pick.trace, trace.events->slices[pick.ref].name);
      }
    }
  }

  template <typename Each>
  void for_each(Each each) const {
    std::set<int> traces;
    for (const auto& [trace, stage, kind] : kinds_) traces.insert(trace);
    for (const auto& [trace, name] : names_) traces.insert(trace);
    for (const int trace : traces) {
      const OpenTrace& own = document_.trace(trace);
      if (own.run) {
        for (std::size_t i = 0; i < own.run->spans.size(); ++i) {
          const Span& span = own.run->spans[i];
          const auto key =
              std::tuple(trace, static_cast<std::int64_t>(span.action.stage), span.action.kind);
          if (!kinds_.contains(key)) continue;
          each(Pick{trace, static_cast<Ref>(i), false}, span.end_ns - span.start_ns);
        }
        continue;
      }
      for (std::size_t i = 0; i < own.events->slices.size(); ++i) {
        const Slice& slice = own.events->slices[i];
        if (!names_.contains({trace, slice.name})) continue;
        each(Pick{trace, static_cast<Ref>(i), false}, slice.end_ns - slice.start_ns);
      }
    }
  }

  // "B of stage 2", "gemm", or how many kinds or names.
  std::string title() const {
    std::set<std::string> all;
    for (const auto& [trace, stage, kind] : kinds_) {
      all.insert(fmt::format("{} of stage {}", kind_name(kind), stage));
    }
    for (const auto& [trace, name] : names_) {
      const std::string_view text = document_.trace(trace).events->text(name);
      all.insert(document_.trace(trace).input ? without_digits(text) : std::string(text));
    }
    if (all.size() == 1) return *all.begin();
    return all.empty() ? "" : plural(std::ssize(all), "kind of action", "kinds of actions");
  }

 private:
  // Of an input pipeline the name says the batch, too, which does not count.
  void add_name(int trace, std::uint32_t name) {
    const EventTrace& events = *document_.trace(trace).events;
    if (!document_.trace(trace).input) {
      names_.insert({trace, name});
      return;
    }
    const std::string wanted = without_digits(events.text(name));
    for (std::uint32_t i = 0; i < events.texts.size(); ++i) {
      if (without_digits(events.text(i)) == wanted) names_.insert({trace, i});
    }
  }

  static std::string without_digits(std::string_view text) {
    std::string kept(text);
    std::erase_if(kept, [](char letter) { return letter >= '0' && letter <= '9'; });
    return kept;
  }

  const Document& document_;
  std::set<std::tuple<int, std::int64_t, Kind>> kinds_;
  std::set<std::pair<int, std::uint32_t>> names_;
};

}  // namespace

std::int64_t Histogram::Bin::count() const {
  std::int64_t sum = 0;
  for (const std::int64_t one : counts) sum += one;
  return sum;
}

std::int64_t Histogram::count() const {
  std::int64_t sum = 0;
  for (const Run& run : runs) {
    for (const Bin& bin : run.bins) sum += bin.count();
  }
  return sum;
}

std::int64_t Histogram::most() const {
  std::int64_t most = 0;
  for (const Run& run : runs) {
    for (const Bin& bin : run.bins) most = std::max(most, bin.count());
  }
  return most;
}

Histogram area_histogram(const Document& document, const Scene& scene, const View& view) {
  if (!view.area) return {};
  const auto for_each = [&](auto each) {
    for_each_in_area(document, scene, view, [&](const AreaBar& one) {
      if (!is_bubble(one.bar.shade)) each(one);
    });
  };
  Lengths lengths;
  for_each([&](const AreaBar& one) { lengths.see(one.trace, one.whole_ns); });
  Histogram histogram = lengths.start(document, "Durations in the area");
  KindShades shades(document);
  for_each([&](const AreaBar& one) {
    const Pick pick{one.trace, one.bar.ref, false};
    lengths.count(histogram, pick, one.whole_ns, shades.of(one.trace, one.bar.ref));
  });
  return histogram;
}

Histogram kind_histogram(const Document& document, const std::vector<Pick>& picks) {
  const Alike alike(document, picks);
  Lengths lengths;
  alike.for_each([&](const Pick& pick, std::int64_t ns) { lengths.see(pick.trace, ns); });
  Histogram histogram = lengths.start(document, "Durations: " + alike.title());
  KindShades shades(document);
  alike.for_each([&](const Pick& pick, std::int64_t ns) {
    lengths.count(histogram, pick, ns, shades.of(pick.trace, pick.ref));
  });
  return histogram;
}

}  // namespace pipesim::gui
