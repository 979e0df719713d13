#include "gui/window/flame_panel.h"

#include <QHBoxLayout>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "gui/scene/flame.h"
#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

bool zooms_out(const QKeyEvent& event) {
  return event.key() == Qt::Key_Escape || event.key() == Qt::Key_Home;
}

}  // namespace

// ---- Boxes

FlameBoxes::FlameBoxes(Session& session, QWidget* parent)
    : QAbstractScrollArea(parent), session_(session) {
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  viewport()->setMouseTracking(true);
  viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName(tr("Flame graph"));
  connect(&session_, &Session::theme_changed, this, &FlameBoxes::outdate);
}

void FlameBoxes::set_graph(std::shared_ptr<const FlameGraph> graph) {
  graph_ = std::move(graph);
  view_ = {};
  set_search(search_);
}

void FlameBoxes::set_search(const QString& text) {
  search_ = text;
  matches_ = graph_ ? find_frames(*graph_, text.toStdString()) : FlameMatches();
  outdate();
}

void FlameBoxes::zoom(std::uint32_t node) {
  view_ = {node, 0};
  outdate();
}

void FlameBoxes::outdate() {
  picture_.reset();
  if (isVisible()) picture();  // which determines the scroll range
  viewport()->update();
  say(std::nullopt);
}

const FlamePicture& FlameBoxes::picture() {
  static const FlameGraph nothing{{}, std::vector<FlameGraph::Node>(1)};
  const QSize size = viewport()->size() * scale();
  if (!picture_ || picture_->list.width != size.width() || picture_->list.height != size.height()) {
    view_.scroll = verticalScrollBar()->value();
    picture_ = layout_flame(graph_ ? *graph_ : nothing, view_, matches_,
                            canvas_of(size.width(), size.height(), scale()),
                            gui::palette(session_.theme(), Colouring::kind));
    verticalScrollBar()->setRange(0, std::max(picture_->content_height - size.height(), 0));
    verticalScrollBar()->setPageStep(std::max(size.height(), 1));
    verticalScrollBar()->setSingleStep(static_cast<int>(20 * scale()));
  }
  return *picture_;
}

void FlameBoxes::scrollContentsBy(int, int) {
  picture_.reset();
  viewport()->update();
}

void FlameBoxes::resizeEvent(QResizeEvent*) { outdate(); }

void FlameBoxes::paintEvent(QPaintEvent*) {
  if (!painter_ || painter_scale_ != scale()) {
    painter_scale_ = scale();
    painter_.emplace(label_height(painter_scale_));
  }
  painter_->paint(picture().list, image_);
  image_.setDevicePixelRatio(painter_scale_);
  QPainter painter(viewport());
  painter.setCompositionMode(QPainter::CompositionMode_Source);
  painter.drawImage(0, 0, image_);
}

std::optional<std::uint32_t> FlameBoxes::node_at(const QPoint& logical) {
  if (!graph_) return std::nullopt;
  return flame_at(picture(), static_cast<int>(std::floor(logical.x() * scale())),
                  static_cast<int>(std::floor(logical.y() * scale())));
}

void FlameBoxes::say(std::optional<std::uint32_t> node) {
  if (!graph_) return emit pointed({});
  emit pointed(QString::fromStdString(text_of(*graph_, node.value_or(view_.zoomed))));
}

void FlameBoxes::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  if (const auto node = node_at(event->pos())) zoom(*node);
}

void FlameBoxes::mouseMoveEvent(QMouseEvent* event) {
  const auto node = node_at(event->pos());
  viewport()->setCursor(node ? Qt::PointingHandCursor : Qt::ArrowCursor);
  say(node);
}

bool FlameBoxes::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::Leave) say(std::nullopt);
  return QAbstractScrollArea::viewportEvent(event);
}

// The window's own keys apply to its timeline.
bool FlameBoxes::event(QEvent* event) {
  if (event->type() == QEvent::ShortcutOverride && zooms_out(*static_cast<QKeyEvent*>(event))) {
    event->accept();
    return true;
  }
  return QAbstractScrollArea::event(event);
}

void FlameBoxes::keyPressEvent(QKeyEvent* event) {
  if (zooms_out(*event)) return zoom(FlameGraph::root);
  QAbstractScrollArea::keyPressEvent(event);
}

// ---- The panel

FlamePanel::FlamePanel(Session& session, QWidget* parent)
    : QWidget(parent),
      session_(session),
      line_(new QLineEdit(this)),
      found_(new QLabel(this)),
      pointed_(new QLabel(this)),
      boxes_(new FlameBoxes(session, this)),
      adding_(new Background(this)) {
  line_->setPlaceholderText(tr("idle, rank 2, transfer, ..."));
  line_->setAccessibleName(tr("Search the flame graph"));
  line_->setMaximumWidth(190);
  line_->installEventFilter(this);
  for (QLabel* label : {found_, pointed_}) label->setTextFormat(Qt::PlainText);
  pointed_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  auto* row = new QHBoxLayout;
  row->setContentsMargins(8, 3, 8, 3);
  row->setSpacing(6);
  row->addWidget(new QLabel(tr("Search"), this));
  row->addWidget(line_, 3);
  row->addWidget(found_);
  row->addSpacing(12);
  row->addWidget(pointed_, 10);
  auto* column = new QVBoxLayout(this);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(0);
  column->addLayout(row);
  column->addWidget(boxes_, 1);
  connect(line_, &QLineEdit::textChanged, this, &FlamePanel::search);
  connect(boxes_, &FlameBoxes::pointed, pointed_, &QLabel::setText);
  connect(&session_, &Session::document_changed, this, &FlamePanel::outdate);
}

void FlamePanel::outdate() {
  outdated_ = true;
  adding_->drop();
  boxes_->set_graph(nullptr);
  update();
}

// A panel behind others of its dock is shown, as Qt sees it, but not painted.
void FlamePanel::paintEvent(QPaintEvent* event) {
  QWidget::paintEvent(event);
  start();
}

void FlamePanel::start() {
  if (!outdated_) return;
  outdated_ = false;
  pointed_->setText(tr("computing ..."));
  adding_->start([this, document = session_.shared_document()]() -> Background::Rest {
    std::shared_ptr<const FlameGraph> graph;
    try {
      graph = std::make_shared<const FlameGraph>(flame_graph_of(*document));
    } catch (const std::bad_alloc&) {  // reported at the end
    }
    return [this, graph] { show(graph); };
  });
}

void FlamePanel::show(const std::shared_ptr<const FlameGraph>& graph) {
  boxes_->set_graph(graph);
  if (!graph) pointed_->setText(tr("out of memory; open fewer or smaller traces"));
  search();
}

void FlamePanel::refresh() {
  start();
  adding_->wait();
}

void FlamePanel::search() {
  boxes_->set_search(line_->text().trimmed());
  found_->setText(boxes_->graph() == nullptr
                      ? QString()
                      : QString::fromStdString(text_of(*boxes_->graph(), boxes_->matches())));
}

// Esc clears the search, then returns to the boxes.
bool FlamePanel::eventFilter(QObject* watched, QEvent* event) {
  const bool asked = event->type() == QEvent::ShortcutOverride;
  if (watched == line_ && (asked || event->type() == QEvent::KeyPress) &&
      static_cast<QKeyEvent*>(event)->key() == Qt::Key_Escape) {
    if (asked) {
      event->accept();
    } else if (line_->text().isEmpty()) {
      boxes_->setFocus();
    } else {
      line_->clear();
    }
    return true;
  }
  return QWidget::eventFilter(watched, event);
}

}  // namespace pipesim::gui
