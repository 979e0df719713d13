#include "gui/window/help_overlay.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "gui/commands/commands.h"
#include "gui/window/actions.h"

namespace pipesim::gui {
namespace {

using Rows = std::vector<std::pair<QString, QString>>;

QString html_of(const QString& title, const Rows& rows) {
  QString html = "<h4 style='margin-top: 8px; margin-bottom: 2px'>" + title +
                 "</h4><table cellspacing='0' cellpadding='1'>";
  for (const auto& [keys, help] : rows) {
    html += "<tr><td style='white-space: nowrap'><b>" + keys.toHtmlEscaped() +
            "</b>&nbsp;&nbsp;</td><td>" + help.toHtmlEscaped() + "</td></tr>";
  }
  return html + "</table>";
}

// A part for each group, in order.
std::vector<QString> parts() {
  std::vector<std::pair<QString, Rows>> groups;
  for (const CommandHelp& help : command_list()) {
    const QString group = QString::fromStdString(std::string(help.group));
    if (groups.empty() || groups.back().first != group) groups.push_back({group, {}});
    groups.back().second.push_back(
        {readable_keys(help.keys), QString::fromStdString(std::string(help.title))});
  }
  groups.push_back({HelpOverlay::tr("Find"),
                    {{"/", HelpOverlay::tr("Search")},
                     {"Ctrl+P", HelpOverlay::tr("Filter Tracks")},
                     {"Ctrl+O", HelpOverlay::tr("Open Traces")},
                     {"?", HelpOverlay::tr("Show or Hide This Sheet")}}});
  groups.push_back({HelpOverlay::tr("Mouse"),
                    {{HelpOverlay::tr("Wheel"), HelpOverlay::tr("Scroll")},
                     {HelpOverlay::tr("Ctrl + wheel"), HelpOverlay::tr("Zoom at Pointer")},
                     {HelpOverlay::tr("Shift + wheel"), HelpOverlay::tr("Pan")},
                     {HelpOverlay::tr("Drag"), HelpOverlay::tr("Pan")},
                     {HelpOverlay::tr("Shift + drag"), HelpOverlay::tr("Select Time Range")},
                     {HelpOverlay::tr("Click"), HelpOverlay::tr("Select")},
                     {HelpOverlay::tr("Double click"), HelpOverlay::tr("Zoom to Bar")}}});
  std::vector<QString> html;
  for (const auto& [title, rows] : groups) html.push_back(html_of(title, rows));
  return html;
}

}  // namespace

QString HelpOverlay::text() {
  QString all;
  for (const QString& part : parts()) all += part;
  return all;
}

HelpOverlay::HelpOverlay(QWidget* parent) : QWidget(parent) {
  setObjectName("help");
  auto* sheet = new QVBoxLayout(this);
  sheet->setContentsMargins(36, 24, 36, 20);
  auto* head = new QHBoxLayout;
  head->addWidget(new QLabel("<h3 style='margin: 0'>" + tr("Keyboard and Mouse") + "</h3>", this));
  head->addStretch();
  auto* close = new QPushButton(tr("Close"), this);
  close->setObjectName("close help");
  connect(close, &QPushButton::clicked, this, &QWidget::hide);
  head->addWidget(close);
  sheet->addLayout(head);
  auto* columns = new QHBoxLayout;
  columns->setSpacing(24);
  sheet->addLayout(columns, 1);
  // Appends each part to the shortest column.
  std::array<QString, 3> texts;
  std::array<int, 3> heights{};
  for (const QString& part : parts()) {
    const auto lowest = std::ranges::min_element(heights) - heights.begin();
    texts[static_cast<std::size_t>(lowest)] += part;
    heights[static_cast<std::size_t>(lowest)] += part.count("<tr>") + 2;
  }
  for (const QString& text : texts) {
    auto* label = new QLabel(text, this);
    label->setTextFormat(Qt::RichText);
    label->setWordWrap(true);
    label->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    label->setAttribute(Qt::WA_TransparentForMouseEvents);
    columns->addWidget(label, 1);
  }
  parent->installEventFilter(this);
  hide();
}

void HelpOverlay::showEvent(QShowEvent*) {
  setGeometry(parentWidget()->rect());
  raise();
}

bool HelpOverlay::eventFilter(QObject* watched, QEvent* event) {
  if (watched == parentWidget() && event->type() == QEvent::Resize && isVisible()) {
    setGeometry(parentWidget()->rect());
  }
  return false;
}

void HelpOverlay::paintEvent(QPaintEvent*) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  painter.setPen(palette().color(QPalette::Mid));
  painter.drawRect(rect().adjusted(12, 12, -13, -13));
}

void HelpOverlay::mousePressEvent(QMouseEvent*) { hide(); }

}  // namespace pipesim::gui
