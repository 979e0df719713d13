#include "gui/window/table_view.h"

#include <QGuiApplication>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QPainter>
#include <QPixmap>
#include <QShowEvent>
#include <QStyledItemDelegate>
#include <QTimer>
#include <QVBoxLayout>
#include <algorithm>
#include <numeric>
#include <utility>

#include "gui/window/actions.h"
#include "gui/window/histogram_view.h"

namespace pipesim::gui {
namespace {

constexpr int value_role = Qt::UserRole;
constexpr int measured_rows = 50;   // that determine a column's width
constexpr int widest_column = 320;  // of those before the last
constexpr int swatch_pixels = 10;
constexpr int cell_room = 14;  // around a text, in total

// A number over a bar, to the right or left of zero.
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

// Multi-line texts, to which a row's height is adapted.
class WrapDelegate : public QStyledItemDelegate {
 public:
  using QStyledItemDelegate::QStyledItemDelegate;

  QSize sizeHint(const QStyleOptionViewItem& option, const QModelIndex& index) const override {
    // Painting has slightly less room for a line than assumed here.
    constexpr int less = 6;
    QStyleOptionViewItem narrower(option);
    narrower.rect.setWidth(option.rect.width() - less);
    return QStyledItemDelegate::sizeHint(narrower, index);
  }
};

}  // namespace

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
    return role == Qt::ToolTipRole ? tip_text(text) : text;
  }
  if (role == Qt::TextAlignmentRole && table_.columns[column].number) {
    return static_cast<int>(Qt::AlignRight | Qt::AlignVCenter);
  }
  if (role == Qt::DecorationRole && at.shade && index.column() == swatch_column()) {
    QPixmap swatch(swatch_pixels, swatch_pixels);
    swatch.fill(QColor::fromRgb(colours_[*at.shade]));
    return swatch;
  }
  if (role == Qt::ForegroundRole && block_ > 0 && index.column() % block_ == 0) {
    return QGuiApplication::palette().color(QPalette::PlaceholderText);
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
  if (role == Qt::ToolTipRole && section == 0 && block_ > 0) {
    return tip_text(QString::fromStdString(table_.note));
  }
  if (role == Qt::TextAlignmentRole) {
    return static_cast<int>((column.number ? Qt::AlignRight : Qt::AlignLeft) | Qt::AlignVCenter);
  }
  return {};
}

// The first text.
int TableModel::swatch_column() const {
  const auto text = std::ranges::find(table_.columns, false, &Table::Column::number);
  return static_cast<int>(text - table_.columns.begin());
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
  beside_ = new QHBoxLayout;
  beside_->setContentsMargins(0, 0, 0, 0);
  beside_->setSpacing(0);
  beside_->addWidget(view_, 1);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addLayout(beside_, 1);
  column->addWidget(note_);
  connect(view_, &QTableView::clicked, this, &TablePanel::choose);
  connect(view_, &QTableView::activated, this, &TablePanel::choose);
  connect(&session_, &Session::document_changed, this, &TablePanel::outdate);
  connect(&session_, &Session::theme_changed, this, &TablePanel::outdate);
  if (depends_on == DependsOn::picked) {
    connect(&session_, &Session::picked_changed, this, &TablePanel::outdate);
  } else if (depends_on == DependsOn::area) {
    connect(&session_, &Session::area_changed, this, &TablePanel::outdate);
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
  // Once for all changes in one turn of the event loop.
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
  // For a folded table it is the heading's tool tip, and takes no room.
  note_->setVisible(!table.note.empty() && (!folds_ || table.rows.empty()));
  view_->setVisible(!table.rows.empty() || table.note.empty());
  model_->set_colours(gui::palette(session_.theme(), Colouring::kind).shades);
  if (folds_) {
    whole_ = std::move(table);
    refold();
  } else {
    put(std::move(table));
  }
  show_histogram({});
}

void TablePanel::put(Table table) {
  const bool same_columns = model_->columnCount() == static_cast<int>(table.columns.size());
  model_->set_table(std::move(table));
  if (!same_columns) view_->horizontalHeader()->setSortIndicator(-1, Qt::DescendingOrder);
  const auto& columns = model_->unsorted().columns;
  bool stretches = false;  // the last column
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const int place = static_cast<int>(i);
    if (bars_ != nullptr) {
      view_->setItemDelegateForColumn(place, columns[i].name == barred_ ? bars_ : nullptr);
    }
    const bool is_shown =
        shown_.empty() || std::ranges::find(shown_, columns[i].name) != shown_.end();
    view_->setColumnHidden(place, !is_shown);
    if (is_shown) stretches = !columns[i].number || columns[i].name == barred_;
  }
  view_->resizeColumnsToContents();
  for (int i = 0; i + 1 < model_->columnCount(); ++i) {
    if (view_->columnWidth(i) > widest_column) view_->setColumnWidth(i, widest_column);
  }
  view_->horizontalHeader()->setStretchLastSection(false);  // or it would not be stretched again
  // Numbers would be far from those before them; bars are not.
  view_->horizontalHeader()->setStretchLastSection(!wraps_ && stretches);
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

void TablePanel::fold() {
  folds_ = true;
  view_->setSortingEnabled(false);
  const int row = view_->fontMetrics().height() + 3;
  view_->verticalHeader()->setMinimumSectionSize(row);
  view_->verticalHeader()->setDefaultSectionSize(row);
}

// The fewest blocks that show all rows, among those that fit side by side.
std::size_t TablePanel::blocks_of(const Table& table) const {
  const QFontMetrics metrics = view_->fontMetrics();
  const int row = view_->verticalHeader()->defaultSectionSize();
  const int height = this->height() - view_->horizontalHeader()->sizeHint().height();
  const auto needs = [&](const Table& made) {
    int width = 0;
    for (std::size_t i = 0; i < made.columns.size(); ++i) {
      const auto width_of = [&](const std::string& text) {
        return metrics.horizontalAdvance(QString::fromStdString(text));
      };
      int own = width_of(made.columns[i].name);
      for (const Table::Row& one : made.rows) own = std::max(own, width_of(one.cells[i]));
      width += std::min(own + cell_room, widest_column);
    }
    return width;
  };
  std::size_t blocks = 1;
  for (std::size_t more = 2; more <= table.rows.size(); ++more) {
    const std::size_t rows = (table.rows.size() + blocks - 1) / blocks;
    if (static_cast<int>(rows) * row <= height) break;
    if (needs(folded(table, more)) > width()) break;
    blocks = more;
  }
  return blocks;
}

void TablePanel::refold() {
  model_->set_block(static_cast<int>(whole_.columns.size()));
  put(folded(whole_, blocks_of(whole_)));
}

void TablePanel::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  if (folds_ && !outdated_) QTimer::singleShot(0, this, &TablePanel::refold);
}

Table TablePanel::table() const { return folds_ ? whole_ : model_->table(); }

void TablePanel::add_histogram(MakeHistogram make) {
  make_histogram_ = std::move(make);
  histogram_ = new HistogramView(session_, this);
  histogram_->hide();
  beside_->addWidget(histogram_);
  connect(histogram_, &HistogramView::chosen, this, &TablePanel::chosen);
}

void TablePanel::show_histogram(const std::vector<Pick>& chosen) {
  if (histogram_ == nullptr) return;
  Histogram made = make_histogram_(session_, chosen);
  histogram_->setVisible(!made.empty());
  histogram_->set(std::move(made));
}

void TablePanel::choose(const QModelIndex& index) {
  if (!index.isValid()) return;
  const std::vector<Pick> about = model_->row(index.row()).about;
  show_histogram(about);
  emit chosen(about);
}

}  // namespace pipesim::gui
