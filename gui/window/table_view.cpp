#include "gui/window/table_view.h"

#include <QHeaderView>
#include <QPainter>
#include <QShowEvent>
#include <QStyledItemDelegate>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <numeric>
#include <utility>

namespace pipesim::gui {
namespace {

constexpr int value_role = Qt::UserRole;
constexpr int measured_rows = 50;   // whose texts tell a column's width
constexpr int widest_column = 320;  // of those before the last

// A number with a bar behind it, to the right of zero or to the left.
class BarDelegate : public QStyledItemDelegate {
 public:
  BarDelegate(const Session& session, QObject* parent)
      : QStyledItemDelegate(parent), session_(&session) {}

  void paint(QPainter* painter, const QStyleOptionViewItem& option,
             const QModelIndex& index) const override {
    double least = 0;
    double most = 0;
    for (int row = 0; row < index.model()->rowCount(); ++row) {
      const auto other =
          static_cast<double>(index.sibling(row, index.column()).data(value_role).toLongLong());
      least = std::min(least, other);
      most = std::max(most, other);
    }
    if (most == least) return QStyledItemDelegate::paint(painter, option, index);
    const auto value = static_cast<double>(index.data(value_role).toLongLong());
    const QRect cell = option.rect.adjusted(2, 3, -2, -3);
    const auto x_of = [&](double of) {
      return cell.left() + static_cast<int>((of - least) / (most - least) * cell.width());
    };
    const Palette& palette = session_->palette();
    const QColor colour = QColor::fromRgb(palette.shades[value > 0 ? late_shade : early_shade]);
    const QRect bar(QPoint(x_of(std::min(value, 0.0)), cell.top()),
                    QPoint(x_of(std::max(value, 0.0)) - 1, cell.bottom()));
    painter->save();
    painter->setOpacity(0.55);
    painter->fillRect(bar, colour);
    painter->restore();
    QStyledItemDelegate::paint(painter, option, index);
  }

 private:
  const Session* session_;
};

// Texts of several lines, which a row is made high enough for.
class WrapDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    // Painting has a little less room for a line than is reckoned with here.
    constexpr int less = 6;
    QStyleOptionViewItem narrower(option);
    narrower.rect.setWidth(option.rect.width() - less);
    return QStyledItemDelegate::sizeHint(narrower, index);
  }
};

}  // namespace

Table columns_of(const Table& table, const std::vector<std::string>& names) {
  Table result;
  result.title = table.title;
  result.note = table.note;
  result.rows.resize(table.rows.size());
  for (std::size_t r = 0; r < table.rows.size(); ++r) result.rows[r].about = table.rows[r].about;
  for (const std::string& name : names) {
    const auto column = std::ranges::find(table.columns, name, &Table::Column::name);
    if (column == table.columns.end()) continue;
    const auto from = static_cast<std::size_t>(column - table.columns.begin());
    result.columns.push_back(*column);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      result.rows[r].cells.push_back(table.rows[r].cells[from]);
      result.rows[r].values.push_back(table.rows[r].values[from]);
    }
  }
  return result;
}

void TableModel::set_table(Table table) {
  beginResetModel();
  const bool alike = std::ranges::equal(table.columns, table_.columns, {}, &Table::Column::name,
                                        &Table::Column::name);
  if (!alike) sorted_by_ = -1;
  table_ = std::move(table);
  arrange();
  endResetModel();
}

Table TableModel::table() const {
  Table result = table_;
  for (std::size_t i = 0; i < order_.size(); ++i) result.rows[i] = table_.rows[order_[i]];
  return result;
}

int TableModel::rowCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(order_.size());
}

int TableModel::columnCount(const QModelIndex& parent) const {
  return parent.isValid() ? 0 : static_cast<int>(table_.columns.size());
}

QVariant TableModel::data(const QModelIndex& index, int role) const {
  const auto column = static_cast<std::size_t>(index.column());
  const Table::Row& at = row(index.row());
  if (role == Qt::DisplayRole || role == Qt::ToolTipRole) {
    const QString text =
        column < at.cells.size() ? QString::fromStdString(at.cells[column]) : QString();
    return role == Qt::ToolTipRole ? text.toHtmlEscaped() : text;  // Qt takes tags in tips as HTML
  }
  if (role == Qt::TextAlignmentRole && table_.columns[column].number) {
    return static_cast<int>(Qt::AlignRight | Qt::AlignVCenter);
  }
  if (role == value_role && column < at.values.size()) {
    return static_cast<qlonglong>(at.values[column]);
  }
  return {};
}

QVariant TableModel::headerData(int section, Qt::Orientation orientation, int role) const {
  if (orientation != Qt::Horizontal) return {};
  const Table::Column& column = table_.columns[static_cast<std::size_t>(section)];
  if (role == Qt::DisplayRole) return QString::fromStdString(column.name);
  if (role == Qt::TextAlignmentRole) {
    return static_cast<int>((column.number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  }
  return {};
}

void TableModel::sort(int column, Qt::SortOrder order) {
  emit layoutAboutToBeChanged();
  sorted_by_ = column;
  direction_ = order;
  arrange();
  emit layoutChanged();
}

void TableModel::arrange() {
  order_.resize(table_.rows.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (sorted_by_ < 0 || sorted_by_ >= static_cast<int>(table_.columns.size())) return;
  const auto column = static_cast<std::size_t>(sorted_by_);
  const bool number = table_.columns[column].number;
  const auto before = [&](std::size_t a, std::size_t b) {
    const Table::Row& first = table_.rows[a];
    const Table::Row& second = table_.rows[b];
    return number ? first.values[column] < second.values[column]
                  : first.cells[column] < second.cells[column];
  };
  if (direction_ == Qt::AscendingOrder) {
    std::ranges::stable_sort(order_, before);
  } else {
    std::ranges::stable_sort(order_, [&](std::size_t a, std::size_t b) { return before(b, a); });
  }
}

TablePanel::TablePanel(Session& session, Make make, DependsOn depends_on, QWidget* parent)
    : QWidget(parent),
      session_(session),
      make_(std::move(make)),
      model_(new TableModel(this)),
      view_(new QTableView(this)),
      note_(new QLabel(this)) {
  view_->setModel(model_);
  view_->setSelectionBehavior(QAbstractItemView::SelectRows);
  view_->setSelectionMode(QAbstractItemView::SingleSelection);
  view_->setShowGrid(false);
  view_->setAlternatingRowColors(true);
  view_->setWordWrap(false);
  view_->setFrameShape(QFrame::NoFrame);
  view_->setHorizontalScrollMode(QAbstractItemView::ScrollPerPixel);
  view_->setTabKeyNavigation(false);
  view_->verticalHeader()->hide();
  view_->verticalHeader()->setSectionResizeMode(QHeaderView::Fixed);
  const int row = view_->fontMetrics().height() + 6;
  view_->verticalHeader()->setMinimumSectionSize(row);
  view_->verticalHeader()->setDefaultSectionSize(row);
  view_->horizontalHeader()->setHighlightSections(false);
  view_->horizontalHeader()->setResizeContentsPrecision(measured_rows);
  view_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  view_->setSortingEnabled(true);
  note_->setTextFormat(Qt::PlainText);
  note_->setWordWrap(true);
  note_->setTextInteractionFlags(Qt::TextSelectableByMouse);
  note_->setContentsMargins(6, 4, 6, 4);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addWidget(view_, 1);
  column->addWidget(note_);
  connect(view_, &QTableView::clicked, this, &TablePanel::choose);
  connect(view_, &QTableView::activated, this, &TablePanel::choose);
  connect(&session_, &Session::document_changed, this, &TablePanel::outdate);
  if (depends_on == DependsOn::view) {
    connect(&session_, &Session::view_changed, this, &TablePanel::outdate);
  }
}

void TablePanel::draw_bars(const std::string& column) {
  barred_ = column;
  bars_ = new BarDelegate(session_, view_);
}

void TablePanel::wrap_texts() {
  wraps_ = true;
  view_->setWordWrap(true);
  view_->setItemDelegate(new WrapDelegate(view_));
  connect(view_->horizontalHeader(), &QHeaderView::sectionResized, this, &TablePanel::fit_rows);
}

void TablePanel::fit_rows() {
  constexpr int most = 100;
  if (wraps_ && model_->rowCount() <= most) view_->resizeRowsToContents();
}

void TablePanel::outdate() {
  if (outdated_) return;
  outdated_ = true;
  // Once for all changes of one turn of the event loop.
  if (isVisible()) QTimer::singleShot(0, this, &TablePanel::refresh);
}

void TablePanel::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  refresh();
}

void TablePanel::refresh() {
  if (!outdated_) return;
  outdated_ = false;
  Table table = make_(session_);
  note_->setText(QString::fromStdString(table.note));
  note_->setVisible(!table.note.empty());
  view_->setVisible(!table.rows.empty() || table.note.empty());
  const bool same_columns = model_->columnCount() == static_cast<int>(table.columns.size());
  model_->set_table(std::move(table));
  if (!same_columns) view_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  const auto& columns = model_->unsorted().columns;
  for (std::size_t i = 0; bars_ != nullptr && i < columns.size(); ++i) {
    const bool barred = columns[i].name == barred_;
    view_->setItemDelegateForColumn(static_cast<int>(i), barred ? bars_ : nullptr);
  }
  view_->resizeColumnsToContents();
  for (int i = 0; i + 1 < model_->columnCount(); ++i) {
    if (view_->columnWidth(i) > widest_column) view_->setColumnWidth(i, widest_column);
  }
  view_->horizontalHeader()->setStretchLastSection(!wraps_);
  if (wraps_ && model_->columnCount() > 0) {
    view_->horizontalHeader()->setSectionResizeMode(model_->columnCount() - 1,
                                                    QHeaderView::Stretch);
  }
  fit_rows();
  if (fits_) {
    view_->setFixedHeight(view_->verticalHeader()->length() +
                          view_->horizontalHeader()->sizeHint().height() + 2);
  }
}

void TablePanel::choose(const QModelIndex& index) {
  if (index.isValid()) emit chosen(model_->row(index.row()).about);
}

}  // namespace pipesim::gui
