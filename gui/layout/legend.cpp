// The legend: which colours are in use, and what they mean.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gui/layout/parts.h"
#include "gui/scene/shading.h"
#include "traces/bubbles.h"

namespace pipesim::gui {
namespace {

struct Meaning {
  std::string_view name;
  std::string_view brief;
};
constexpr std::array<Meaning, 8> kind_meanings{{{"forward", "F"},
                                                {"input gradient", "I"},
                                                {"weight gradient", "W"},
                                                {"backward", "B"},
                                                {"forward transfer", "send F"},
                                                {"backward transfer", "send B"},
                                                {"step, reduction", "step"},
                                                {"other", "other"}}};
// Of input pipelines; as shading.h has them.
constexpr std::array<Meaning, 8> input_meanings{{{"dense part", "dense"},
                                                 {"rows of tables", "rows"},
                                                 {"exchange", "exchange"},
                                                 {},
                                                 {},
                                                 {},
                                                 {"host", "host"},
                                                 {"copy", "copy"}}};
// Of the time predicted; as shading.h has them.
constexpr std::array<Meaning, 8> error_meanings{{{"over 30 % faster", "<-30 %"},
                                                 {"to 30 % faster", "-30 %"},
                                                 {"to 10 % faster", "-10 %"},
                                                 {"within 3 %", "±3 %"},
                                                 {"to 10 % slower", "+10 %"},
                                                 {"to 30 % slower", "+30 %"},
                                                 {"over 30 % slower", ">+30 %"},
                                                 {"only one has it", "only one"}}};

struct Entry {
  Rgb colour = 0;
  std::string name, brief;
};

// Hues that tell numbers, modulo 8.
void add_numbers(std::vector<Entry>& entries, const Shades& shades,
                 const std::array<bool, shade_count>& used, const std::string& of) {
  std::size_t count = 0;
  for (Shade shade = 0; shade < first_bubble_shade; ++shade) {
    if (!used[shade]) continue;
    const std::string number = std::to_string(shade);
    entries.push_back({shades[shade], count++ == 0 ? of + " " + number : number, number});
  }
  if (count == first_bubble_shade) entries.back().name += ", and so on by eights";
}

std::vector<Entry> entries_of(const Drawing& drawing) {
  std::array<bool, shade_count> used{};      // by runs, and bubbles
  std::array<bool, shade_count> of_input{};  // by input pipelines
  bool slices = false;
  bool lateness = false;
  bool early = false;
  bool capacity = false;
  bool critical = false;
  std::map<int, Entry> runs;  // both sides of the pair, then the others, predicted ones first
  const auto count = static_cast<int>(drawing.document.traces.size());
  const auto add_run = [&](int trace, const std::string& name) {
    const auto side = drawing.document.side_of(trace);
    const OpenTrace* const own = drawing.trace(trace);
    const bool is_later = own != nullptr && own->source() != Source::predicted;
    runs.try_emplace(side ? static_cast<int>(*side) : 2 + trace + (is_later ? count : 0),
                     Entry{drawing.colour_of_trace(trace), name, name});
  };
  for (const Group& group : drawing.scene.groups) {
    if (!passes(group, drawing.view.filter)) continue;
    for (const Lane& lane : group.lanes) {
      critical = critical || (drawing.scene.options.critical && !lane.critical.empty());
      const OpenTrace* const trace = drawing.trace(lane.trace);
      const bool is_input = trace != nullptr && trace->input.has_value();
      const bool by_name = lane.kind == LaneKind::slices && !is_input;
      slices = slices || by_name;
      auto& own = is_input ? of_input : used;
      for (const BarRow& row : lane.rows) {
        for (Shade shade = 0; shade < shade_count; ++shade) {
          if (by_name && shade < first_bubble_shade) continue;
          if (row.has(shade)) own[shade] = own[full_shade(shade)] = true;
        }
      }
      if (lane.label.empty()) continue;
      add_run(lane.trace, lane.label);
    }
    for (const CurveLane& lane : group.curves) {
      if (!drawing.view.curves) break;
      const bool late = lane.label == "lateness";
      if (!late && group.rank >= 0 && drawing.document.traces.size() > 1) {
        add_run(lane.trace, name_of_run(drawing.document, lane.trace));
      }
      lateness = lateness || late;
      early = early || (lane.label == "lateness" && lane.curve.extremes().least < 0);
      capacity = capacity || lane.capacity.has_value();
    }
  }

  const auto& shades = drawing.palette.shades;
  std::vector<Entry> entries;
  const auto add_entry = [&](Shade shade, const Meaning& meaning) {
    entries.push_back({shades[shade], std::string(meaning.name), std::string(meaning.brief)});
  };
  const auto add = [&](Shade shade, const Meaning& meaning) {
    if (used[shade] || (is_bubble(shade) && of_input[shade])) add_entry(shade, meaning);
  };
  const Colouring colouring = drawing.scene.options.colouring;
  if (colouring == Colouring::microbatch) {
    add_numbers(entries, shades, used, "microbatch");
    add_numbers(entries, shades, of_input, "batch");
  } else {
    const bool by_kind = colouring == Colouring::kind;
    for (Shade shade = 0; shade < first_bubble_shade; ++shade) {
      if (by_kind) {
        add(shade, kind_meanings[shade]);
      } else if (used[shade] || of_input[shade]) {
        add_entry(shade, error_meanings[shade]);
      }
    }
    for (Shade shade = 0; by_kind && shade < first_bubble_shade; ++shade) {
      if (of_input[shade]) add_entry(shade, input_meanings[shade]);
    }
  }
  // Of each kind that has any the last; their name follows them all.
  std::map<Shade, Shade> later;
  for (Shade shade = first_lighter_shade; shade < shade_count; ++shade) {
    if (used[shade]) later[full_shade(shade)] = shade;
  }
  for (const auto& [kind, shade] : later) entries.push_back({shades[shade], "", ""});
  if (!later.empty()) entries.back().name = entries.back().brief = "later chunks";
  if (of_input[wait_shade]) add_entry(wait_shade, {"waiting", "waiting"});
  if (slices) entries.push_back({shades[15], "slices coloured by name", "by name"});
  for (std::size_t i = 0; i < bubble_names.size(); ++i) {
    const std::string name = fmt::format("{} bubble", bubble_names[i]);
    add(static_cast<Shade>(first_bubble_shade + i), {name, bubble_names[i]});
  }
  if (critical) {
    entries.push_back({shades[critical_shade], "critical path", "critical"});
  }
  if (lateness) entries.push_back({shades[late_shade], "late", "late"});
  if (early) entries.push_back({shades[early_shade], "early", "early"});
  if (capacity) entries.push_back({drawing.palette.capacity, "memory's capacity", "capacity"});
  if (runs.size() > 1) {
    for (const auto& [place, entry] : runs) entries.push_back(entry);
  }
  return entries;
}

struct Legend {
  std::vector<Entry> entries;
  bool brief = false;
  int lines = 1;
};

int width_of(const Drawing& drawing, const Entry& entry, bool brief) {
  const std::string& name = brief ? entry.brief : entry.name;
  return drawing.scaled(14) + (name.empty() ? 0 : drawing.scaled(4) + drawing.text_width(name)) +
         drawing.scaled(name.empty() ? 2 : 12);
}

int lines_of(const Drawing& drawing, const std::vector<Entry>& entries, bool brief) {
  const int room = drawing.canvas.width - 2 * drawing.scaled(8);
  int lines = 1;
  int x = 0;
  for (const Entry& entry : entries) {
    const int width = width_of(drawing, entry, brief);
    if (x > 0 && x + width > room) {
      ++lines;
      x = 0;
    }
    x += width;
  }
  return lines;
}

// In one line with long names, else with short ones, else in as many as it takes.
Legend legend_of(const Drawing& drawing) {
  Legend legend{.entries = entries_of(drawing)};
  legend.lines = lines_of(drawing, legend.entries, false);
  if (legend.lines == 1) return legend;
  legend.brief = true;
  legend.lines = lines_of(drawing, legend.entries, true);
  return legend;
}

int line_height(const Drawing& drawing) { return drawing.canvas.text_height + drawing.scaled(4); }

}  // namespace

int legend_height(const Drawing& drawing) {
  return legend_of(drawing).lines * line_height(drawing) + drawing.scaled(4);
}

void draw_legend(Drawing& drawing) {
  const Legend legend = legend_of(drawing);
  DrawList& list = drawing.picture.list;
  const int margin = drawing.scaled(8);
  list.covers.push_back({.x = 0,
                         .y = drawing.plot.bottom,
                         .width = drawing.canvas.width,
                         .height = drawing.canvas.height - drawing.plot.bottom,
                         .fill = drawing.palette.gutter});
  int x = margin;
  int y = drawing.plot.bottom + drawing.scaled(2);
  for (const Entry& entry : legend.entries) {
    const int width = width_of(drawing, entry, legend.brief);
    if (x > margin && x + width > drawing.canvas.width - margin) {
      x = margin;
      y += line_height(drawing);
    }
    const int swatch = drawing.scaled(10);
    list.covers.push_back({.x = x,
                           .y = y + (line_height(drawing) - swatch) / 2,
                           .width = drawing.scaled(14),
                           .height = swatch,
                           .fill = entry.colour});
    const std::string& name = legend.brief ? entry.brief : entry.name;
    if (!name.empty()) {
      const int text_x = x + drawing.scaled(18);
      const int room =
          std::min(drawing.text_width(name) + drawing.scaled(8), drawing.canvas.width - text_x);
      list.cover_texts.push_back({.x = text_x,
                                  .y = y + drawing.scaled(2),
                                  .width = room,
                                  .height = drawing.canvas.text_height,
                                  .colour = drawing.palette.text,
                                  .text = drawing.elided(name, room)});
    }
    x += width;
  }
}

}  // namespace pipesim::gui
