#include "gui/window/overview.h"

#include <QMouseEvent>
#include <QPainter>

#include "gui/window/letters.h"

namespace pipesim::gui {

Overview::Overview(Session& session, QWidget* parent) : QWidget(parent), session_(session) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
  setAttribute(Qt::WA_OpaquePaintEvent);
  setAccessibleName(tr("Overview"));
  setToolTip(tr("The whole timeline; drag the frame, or click to go there"));
  connect(&session_, &Session::document_changed, this, &Overview::outdate);
  connect(&session_, &Session::theme_changed, this, &Overview::outdate);
  connect(&session_, &Session::view_changed, this, [this] {
    if (options_ != session_.view().options) outdate();
    update();
  });
}

void Overview::outdate() {
  list_.reset();
  update();
}

Canvas Overview::canvas() const {
  const double scale = devicePixelRatioF();
  return canvas_of(static_cast<int>(width() * scale), static_cast<int>(height() * scale), scale);
}

std::int64_t Overview::time_at(int x) const {
  return overview_viewport(session_.scene(), canvas())
      .time_of(static_cast<int>(x * devicePixelRatioF()));
}

void Overview::paintEvent(QPaintEvent*) {
  const double scale = devicePixelRatioF();
  if (!painter_ || painter_scale_ != scale) {
    painter_scale_ = scale;
    painter_.emplace(label_height(scale));
  }
  const Canvas on = canvas();
  if (!list_ || list_->width != on.width || list_->height != on.height) {
    options_ = session_.view().options;
    list_ = layout_overview(session_.document(), session_.scene(), session_.view(), on,
                            session_.palette());
  } else {
    frame_range(*list_, session_.scene(), session_.view(), on, session_.palette());
  }
  painter_->paint(*list_, image_);
  image_.setDevicePixelRatio(scale);
  QPainter painter(this);
  painter.setCompositionMode(QPainter::CompositionMode_Source);
  painter.drawImage(0, 0, image_);
}

void Overview::show_from(std::int64_t from_ns) {
  View next = session_.view();
  next.range = kept_within({from_ns, from_ns + next.range.length_ns()}, session_.scene().extent);
  session_.change(std::move(next), "overview");
}

void Overview::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  session_.end_gesture();
  const std::int64_t time = time_at(event->pos().x());
  const TimeRange& range = session_.view().range;
  if (!range.contains(time)) show_from(time - range.length_ns() / 2);
  held_ = session_.view().range.from_ns - time;
}

void Overview::mouseMoveEvent(QMouseEvent* event) {
  if (held_) show_from(time_at(event->pos().x()) + *held_);
}

void Overview::mouseReleaseEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton || !held_) return;
  held_.reset();
  session_.end_gesture();
}

}  // namespace pipesim::gui
