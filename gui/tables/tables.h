// The contents of panels: causes, operations, bubbles, details of a selection, sums over
// an area; as text, with the subject of each row.
//
// Figures and words are those of `pipesim compare` (sim/report). Pure functions; any
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gui/scene/document.h"
#include "gui/scene/scene.h"
#include "gui/scene/view.h"

namespace pipesim::gui {

struct Table {
  struct Column {
    std::string name;
    bool number = false;    // right-aligned, sorted by `values`
    std::string_view unit;  // of `values`: "ns", "bytes", "ppm"; or empty
  };
  struct Row {
    std::vector<std::string> cells;
    // To sort by; one a column, 0 for text and where a number's cell is empty.
    std::vector<std::int64_t> values;
    std::vector<Pick> about;          // what to show when it is clicked; not all of very many
    std::optional<Shade> shade = {};  // of what it is about, under Colouring::kind
  };
  std::string title;
  std::vector<Column> columns;
  std::vector<Row> rows;
  std::string note;  // what is left out, or why it is empty
};

// For the pair; empty with a note if there is none.
Table cause_table(const Document& document);
Table stage_kind_table(const Document& document);
// Each operation's times on both sides and lateness by cause; the `most` latest.
Table operation_table(const Document& document, std::size_t most = 20'000);
Table gap_table(const Document& document);
// For each rank and run: busy, bubble by kind, peak.
Table bubble_table(const Document& document);
// Names of event traces by self time: count, self, total, mean, greatest. Of input pipelines those
// of all batches together.
Table name_table(const Document& document, std::size_t most = 1'000);
// For the selection, on both sides of the pair.
Table detail_table(const Document& document, const Scene& scene, const Pick& pick);
// For the area, by kind or name: the count, their time in it, the durations of whole ones.
Table area_table(const Document& document, const Scene& scene, const View& view);
// The traces that are open: role, name, ranks, iterations, makespan, warnings.
Table trace_table(const Document& document);

// One sentence: whether the prediction held, and why not; of one run its bubble; of
// events what is there.
std::string verdict(const Document& document);

// Rows in blocks beside each other, each block under the same columns: of so many blocks at most,
// the first rows in the first.
Table folded(const Table& table, std::size_t blocks);

// RFC 4180, with a header line; numbers as `values` has them, in the unit that the
// header says.
std::string to_csv(const Table& table);

}  // namespace pipesim::gui
