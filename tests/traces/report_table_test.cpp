#include "traces/print/report_table.h"

#include <gtest/gtest.h>

namespace pipesim {
namespace {

ReportTable small() {
  ReportTable table{"times", "times", {}, {}};
  table.columns = {{"rank", "rank", Unit::index},
                   {"kind", "kind", Unit::text},
                   {"ns.mean", "mean", Unit::time, "measured"},
                   {"ns.most", "most", Unit::time, "measured"},
                   {"", "error", Unit::fraction},
                   {"count", ""},
                   {"late_ns", "late", Unit::change, "", false}};
  table.add().number(0).text("F").number(1'500).number(2'000'000).number(25'000).number(7).number(
      -30'000'000'000);
  table.add().number(11).text("OPTIMIZER").number(0).number(1'000).none().number(1).number(0);
  return table;
}

TEST(ReportTable, HasTheSameCellsInItsFaces) {
  EXPECT_EQ(to_text(small(), 10, 80),
            "times, us\n"
            "                 - measured -\n"
            "rank  kind       mean    most   error\n"
            "   0  F          1.50 2000.00  +2.5 %\n"
            "  11  OPTIMIZER     -    1.00\n");
  EXPECT_EQ(
      to_json(small()).dump(),
      R"([{"rank":0,"kind":"F","ns":{"mean":1500,"most":2000000},"count":7,"late_ns":-30000000000},)"
      R"({"rank":11,"kind":"OPTIMIZER","ns":{"mean":0,"most":1000},"count":1,"late_ns":0}])");
}

TEST(ReportTable, ShowsWhatWeighsMostWhereThereIsNoRoomForAll) {
  ReportTable table = small();
  EXPECT_EQ(left_out_of(table, 2), "");
  EXPECT_EQ(shown_rows(table, 1).front(), &table.rows[0]);
  EXPECT_EQ(left_out_of(table, 1), "the first 1, of 2; --json lists them all");
  table.rows[1].weight = 5;
  EXPECT_EQ(shown_rows(table, 1).front(), &table.rows[1]);
  EXPECT_NE(to_text(table, 1, 80).find("  the 1 that differ most, of 2; --json lists them all\n"),
            std::string::npos);
  EXPECT_EQ(to_text({"none", "none", small().columns, {}}, 1, 80), "");
}

}  // namespace
}  // namespace pipesim
