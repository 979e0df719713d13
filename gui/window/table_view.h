// A table of the core as Qt shows it: sorted by a click on a heading, a click on a
// row tells what the row is about.
//
// Owned by the window; on its thread.
#pragma once

#include <QAbstractTableModel>
#include <QLabel>
#include <QTableView>
#include <functional>
#include <string>
#include <vector>

#include "gui/tables/tables.h"
#include "gui/window/session.h"

namespace pipesim::gui {

// The columns that are called so, in that order.
Table columns_of(const Table& table, const std::vector<std::string>& names);

class TableModel : public QAbstractTableModel {
  Q_OBJECT
 public:
  using QAbstractTableModel::QAbstractTableModel;

  // Sorted as the last one was, if its columns are the same.
  void set_table(Table table);
  // Its rows in the order shown.
  Table table() const;
  const Table::Row& row(int shown) const {
    return table_.rows[order_[static_cast<std::size_t>(shown)]];
  }
  const Table& unsorted() const { return table_; }

  int rowCount(const QModelIndex& parent = {}) const override;
  int columnCount(const QModelIndex& parent = {}) const override;
  QVariant data(const QModelIndex& index, int role) const override;
  QVariant headerData(int section, Qt::Orientation orientation, int role) const override;
  void sort(int column, Qt::SortOrder order) override;

 private:
  void arrange();

  Table table_;
  std::vector<std::size_t> order_;
  int sorted_by_ = -1;
  Qt::SortOrder direction_ = Qt::AscendingOrder;
};

// A table with its note. It is made when it is to be seen and what it depends on
// has changed.
class TablePanel : public QWidget {
  Q_OBJECT
 public:
  enum class DependsOn : std::uint8_t { document, view };
  using Make = std::function<Table(const Session&)>;

  TablePanel(Session& session, Make make, DependsOn depends_on, QWidget* parent);

  // Of this column, numbers are drawn as bars to both sides of zero, too.
  void draw_bars(const std::string& column);
  // As high as its rows, where there is room.
  void fit_height() { fits_ = true; }
  // Long texts take several lines.
  void wrap_texts();

  QTableView& view() { return *view_; }
  const TableModel& model() const { return *model_; }
  // Makes it now if it is out of date.
  void refresh();

 signals:
  void chosen(const std::vector<pipesim::gui::Pick>& about);

 protected:
  void showEvent(QShowEvent* event) override;

 private:
  void outdate();
  void fit_rows();
  void choose(const QModelIndex& index);

  Session& session_;
  Make make_;
  TableModel* model_;
  QTableView* view_;
  QLabel* note_;
  bool outdated_ = true;
  std::string barred_;
  QAbstractItemDelegate* bars_ = nullptr;
  bool fits_ = false;
  bool wraps_ = false;
};

}  // namespace pipesim::gui
