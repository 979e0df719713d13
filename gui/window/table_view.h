// One of the core's tables in Qt: a click on a heading sorts it, a click on a row reports the row's
// subject.
//
// Owned by the window; on its thread.
#pragma once

#include <QAbstractTableModel>
#include <QLabel>
#include <QTableView>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gui/tables/histogram.h"
#include "gui/tables/tables.h"
#include "gui/window/session.h"

class QHBoxLayout;

namespace pipesim::gui {

class HistogramView;

class TableModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Keeps the sorting if its columns are the same.
  void set_table(Table table);
  // Its rows in the order shown.
  Table table() const;
  const Table::Row& row(int shown) const {
    return table_.rows[order_[static_cast<std::size_t>(shown)]];
  }
  const Table& unsorted() const { return table_; }
  // Rows of a kind have a swatch of its colour.
  void set_colours(const std::array<Rgb, shade_count>& of_kinds) { colours_ = of_kinds; }
  // Columns per block, of which the first has its labels; 0: there are no blocks.
  void set_block(int columns) { block_ = columns; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

 private:
  void arrange();
  int swatch_column() const;

  Table table_;
  std::array<Rgb, shade_count> colours_{};
  int block_ = 0;
  std::vector<std::size_t> order_;
  int sorted_by_ = -1;
  Qt::SortOrder direction_ = Qt::AscendingOrder;
};

// A table with its note. It is rebuilt when it is visible and its inputs have changed.
class TablePanel : public QWidget {
  Q_OBJECT
 public:
  enum class DependsOn : std::uint8_t { document, picked, area };
  using Make = std::function<Table(const Session&)>;

  TablePanel(Session& session, Make make, DependsOn depends_on, QWidget* parent);

  // Numbers of this column are also drawn as bars to both sides of zero.
  void draw_bars(const std::string& column);
  // As high as its rows, if there is room.
  void fit_height() { fits_ = true; }
  // Long texts take several lines.
  void wrap_texts();
  // Shows only columns with these names; files have all.
  void show_columns(std::vector<std::string> names) { shown_ = std::move(names); }
  // Rows are in blocks side by side if there is room; the first column labels them.
  void fold();
  // With a histogram next to it: for the selected rows' subjects, or for all.
  using MakeHistogram = std::function<Histogram(const Session&, const std::vector<Pick>& chosen)>;
  void add_histogram(MakeHistogram make);

  QTableView& view() { return *view_; }
  const TableModel& model() const { return *model_; }
  HistogramView* histogram() { return histogram_; }
  // Its whole contents, in the order of its rows.
  Table table() const;
  // Rebuilds it now if it is out of date.
  void refresh();

 signals:
  void chosen(const std::vector<pipesim::gui::Pick>& about);

 protected:
  void showEvent(QShowEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;

 private:
  void outdate();
  void put(Table table);
  std::size_t blocks_of(const Table& table) const;
  void refold();
  void fit_rows();
  void show_histogram(const std::vector<Pick>& chosen);
  void choose(const QModelIndex& index);

  Session& session_;
  Make make_;
  TableModel* model_;
  QTableView* view_;
  QLabel* note_;
  QHBoxLayout* beside_ = nullptr;
  bool outdated_ = true;
  std::string barred_;
  QAbstractItemDelegate* bars_ = nullptr;
  std::vector<std::string> shown_;
  MakeHistogram make_histogram_;
  HistogramView* histogram_ = nullptr;
  bool fits_ = false;
  bool wraps_ = false;
  bool folds_ = false;
  Table whole_;  // of a foldable one
};

}  // namespace pipesim::gui
