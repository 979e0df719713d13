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

ReportTable told() {
  ReportTable table{"", "", {{"", "term", Unit::text}, {"", "gap", Unit::change}}, {}};
  table.columns.push_back({"", "meaning", Unit::prose});
  table.add().text("order").number(0).text("ranks run their actions in a different order");
  table.add().text("total").number(-2'000).text("");
  table.note = "A note.";
  return table;
}

TEST(ReportTable, WrapsSentencesBehindTheirRowsOrBelow) {
  EXPECT_EQ(to_text(told(), 10, 50),
            "term, ns    gap  meaning\n"
            "order         -  ranks run their actions in a\n"
            "                 different order\n"
            "total     -2000\n"
            "A note.\n");
  EXPECT_EQ(to_text(told(), 10, 40),
            "term, ns    gap  meaning\n"
            "order         -\n"
            "      ranks run their actions in a\n"
            "      different order\n"
            "total     -2000\n"
            "A note.\n");
}

TEST(ReportTable, WithoutRowsSaysItsNote) {
  ReportTable table = told();
  table.rows.clear();
  EXPECT_EQ(to_text(table, 10, 80), "A note.\n");
  table.note.clear();
  EXPECT_EQ(to_text(table, 10, 80), "");
}

TEST(ReportTable, DropsColumnsWithoutAnyValueButTheFirst) {
  ReportTable table{"", "", {{"", "rank", Unit::index}, {"", "a"}, {"", "b"}}, {}};
  table.add().number(0).number(0).number(3);
  drop_empty_columns(table);
  ASSERT_EQ(table.columns.size(), 2U);
  EXPECT_EQ(table.columns[1].name, "b");
  EXPECT_EQ(table.rows[0].cells[1].value, 3);
}

TEST(ReportTable, AGroupNamesItsColumnsWhereAnotherHasTheSame) {
  ReportTable table{"", "", {}, {}};
  table.columns = {{"", "median", Unit::time, "predicted"},
                   {"", "p10", Unit::time, "measured"},
                   {"", "median", Unit::time, "measured"},
                   {"", "drain", Unit::time, "bubble"}};
  EXPECT_EQ(heading_of(table, table.columns[1]), "measured p10");
  EXPECT_EQ(heading_of(table, table.columns[2]), "measured median");
  EXPECT_EQ(heading_of(table, table.columns[3]), "drain");
}

TEST(ReportTable, SaysALargeFractionAsAFactor) {
  EXPECT_EQ(text_of({9'999'000}, Unit::fraction), "+999.9 %");
  EXPECT_EQ(text_of({11'000'000}, Unit::fraction), "x 12");
  EXPECT_EQ(text_of({0}, Unit::share), "-");
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
