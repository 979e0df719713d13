#include "gui/window/timeline.h"

#include <QApplication>
#include <QMouseEvent>
#include <QPainter>
#include <QScrollBar>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

#include "gui/window/hover_card.h"
#include "gui/window/letters.h"

namespace pipesim::gui {
namespace {

constexpr double zoom_a_notch = 1.25;
constexpr int notch = 120;  // of a wheel, in eighths of a degree

}  // namespace

Timeline::Timeline(Session& session, QWidget* parent)
    : QAbstractScrollArea(parent), session_(session), card_(new HoverCard(viewport())) {
  setFrameShape(QFrame::NoFrame);
  setFocusPolicy(Qt::StrongFocus);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setVerticalScrollBarPolicy(Qt::ScrollBarAsNeeded);
  viewport()->setMouseTracking(true);
  viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName(tr("Timeline"));
  connect(&session_, &Session::document_changed, card_, &HoverCard::forget);
  connect(&session_, &Session::view_changed, this, &Timeline::follow_view);
}

double Timeline::scale() const { return viewport()->devicePixelRatioF(); }

QPoint Timeline::device(const QPoint& logical) const {
  return {static_cast<int>(std::floor(logical.x() * scale())),
          static_cast<int>(std::floor(logical.y() * scale()))};
}

std::int64_t Timeline::time_at(const QPoint& logical) const {
  const Viewport& axis = session_.picture().viewport;
  return axis.time_of(std::clamp(device(logical).x(), axis.x, axis.x + axis.width));
}

void Timeline::adapt_canvas() {
  const QSize size = viewport()->size() * scale();
  if (session_.canvas().width == size.width() && session_.canvas().height == size.height() &&
      session_.canvas().scale == scale()) {
    return;
  }
  session_.set_canvas(canvas_of(size.width(), size.height(), scale()));
  follow_view();
}

void Timeline::follow_view() {
  following_ = true;
  const int most = session_.greatest_scroll();
  verticalScrollBar()->setRange(0, most);
  verticalScrollBar()->setPageStep(std::max(1, session_.canvas().height * 3 / 4));
  verticalScrollBar()->setSingleStep(session_.canvas().scaled(24));
  verticalScrollBar()->setValue(session_.view().scroll);
  following_ = false;
  if (drag_ == Drag::none) card_->hide();
  viewport()->update();
}

void Timeline::scrollContentsBy(int, int) {
  if (!following_) session_.scroll_to(verticalScrollBar()->value(), "scroll");
}

bool Timeline::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::Leave) card_->hide();
  return QAbstractScrollArea::viewportEvent(event);
}

void Timeline::resizeEvent(QResizeEvent*) { adapt_canvas(); }

void Timeline::paintEvent(QPaintEvent*) {
  adapt_canvas();  // a window may have moved to a finer screen
  if (!painter_ || painter_scale_ != scale()) {
    painter_scale_ = scale();
    painter_.emplace(label_height(painter_scale_));
  }
  painter_->paint(session_.picture().list, image_);
  image_.setDevicePixelRatio(painter_scale_);
  QPainter painter(viewport());
  painter.setCompositionMode(QPainter::CompositionMode_Source);
  painter.drawImage(0, 0, image_);
}

void Timeline::wheelEvent(QWheelEvent* event) {
  QPoint turned = event->angleDelta();
  View next = session_.view();
  if ((event->modifiers() & Qt::ControlModifier) != 0) {
    const double notches = static_cast<double>(turned.y()) / notch;
    next.range = kept_within(
        zoomed(next.range, time_at(event->position().toPoint()), std::pow(zoom_a_notch, -notches)),
        session_.scene().extent);
    session_.change(std::move(next), "wheel");
  } else {
    // Alt, and on some platforms Shift, turns a wheel sideways.
    if ((event->modifiers() & Qt::ShiftModifier) != 0 && turned.x() == 0)
      turned = turned.transposed();
    if (turned.x() != 0) {
      const auto by = static_cast<std::int64_t>(static_cast<double>(next.range.length_ns()) * 0.1 *
                                                -turned.x() / notch);
      next.range = kept_within(panned(next.range, by), session_.scene().extent);
      session_.change(std::move(next), "wheel");
    }
    if (turned.y() != 0) {
      const int by = session_.canvas().scaled(60) * -turned.y() / notch;
      session_.scroll_to(session_.view().scroll + by, "wheel");
    }
  }
  event->accept();
}

void Timeline::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  card_->hide();
  session_.end_gesture();
  const QPoint at = device(event->pos());
  const Picture& picture = session_.picture();
  in_gutter_ = at.x() < picture.viewport.x;
  pressed_at_ = event->pos();
  pressed_view_ = session_.view();
  pressed_time_ = time_at(event->pos());
  const bool selects =
      (event->modifiers() & Qt::ShiftModifier) != 0 || at.y() < picture.ruler_height;
  drag_ = selects && !in_gutter_ ? Drag::area : Drag::pressed;
}

void Timeline::mouseMoveEvent(QMouseEvent* event) {
  if (drag_ == Drag::none) {
    hover(event->pos());
  } else {
    drag_to(event->pos());
  }
}

void Timeline::drag_to(const QPoint& position) {
  const QPoint moved = position - pressed_at_;
  if (drag_ == Drag::pressed && moved.manhattanLength() >= QApplication::startDragDistance()) {
    drag_ = Drag::pan;
    viewport()->setCursor(Qt::ClosedHandCursor);
  }
  View next = session_.view();
  if (drag_ == Drag::area) {
    if (std::abs(moved.x()) < 2) return;
    const std::int64_t now = time_at(position);
    next.area = TimeRange{std::min(now, pressed_time_), std::max(now, pressed_time_)};
    session_.change(std::move(next), "area");
  } else if (drag_ == Drag::pan) {
    const double ns = session_.picture().viewport.ns_per_pixel() * moved.x() * scale();
    if (!in_gutter_) {
      next.range =
          kept_within(panned(pressed_view_.range, -std::llround(ns)), session_.scene().extent);
    }
    next.scroll =
        std::clamp(pressed_view_.scroll - static_cast<int>(std::lround(moved.y() * scale())), 0,
                   session_.greatest_scroll());
    session_.change(std::move(next), "drag");
  }
}

void Timeline::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || drag_ == Drag::none) return;
  const Drag was = drag_;
  drag_ = Drag::none;
  viewport()->unsetCursor();
  session_.end_gesture();
  if (was == Drag::area) {
    if (std::abs(event->pos().x() - pressed_at_.x()) >= 2) {
      emit area_selected();
    } else if (session_.view().area) {
      View next = session_.view();
      next.area.reset();
      session_.change(std::move(next));
    }
    return;
  }
  if (was != Drag::pressed) return;
  const QPoint at = device(event->pos());
  const auto there = hit(session_.picture(), session_.scene(), at.x(), at.y());
  View next = session_.view();
  next.picked = there ? there->pick : std::nullopt;
  session_.change(std::move(next));
  if (session_.view().picked) emit picked();
}

void Timeline::mouseDoubleClickEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  const QPoint at = device(event->pos());
  const auto there = hit(session_.picture(), session_.scene(), at.x(), at.y());
  if (!there || !there->pick) return;
  View next = session_.view();
  next.picked = there->pick;
  session_.change(std::move(next));
  session_.run(Command::focus);
}

void Timeline::contextMenuEvent(QContextMenuEvent* event) {
  const QPoint at = device(event->pos());
  const auto there = hit(session_.picture(), session_.scene(), at.x(), at.y());
  if (there) emit context_asked(*there, event->globalPos());
}

void Timeline::hover(const QPoint& position) {
  const QPoint at = device(position);
  const Picture& picture = session_.picture();
  if (at.y() < picture.ruler_height && at.x() >= picture.viewport.x) {
    viewport()->setCursor(Qt::SizeHorCursor);
  } else {
    viewport()->unsetCursor();
  }
  const auto there = hit(picture, session_.scene(), at.x(), at.y());
  if (there && there->pick) {
    card_->show_at(position, session_, *there);
  } else {
    card_->hide();
  }
}

}  // namespace pipesim::gui
