#include "gui/window/help_overlay.h"

#include <QEvent>
#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
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

// A part for each group, in the order in which they come.
std::vector<QString> parts() {
  std::vector<std::pair<QString, Rows>> groups;
  for (const CommandHelp& help : command_list()) {
    const QString group = QString::fromStdString(std::string(help.group));
    if (groups.empty() || groups.back().first != group) groups.push_back({group, {}});
    groups.back().second.push_back(
        {readable_keys(help.keys), QString::fromStdString(std::string(help.help))});
  }
  groups.push_back({HelpOverlay::tr("Find"),
                    {{"/", HelpOverlay::tr("searches")},
                     {"Ctrl+P", HelpOverlay::tr("shows some tracks only")},
                     {"Ctrl+O", HelpOverlay::tr("opens traces")},
                     {"?", HelpOverlay::tr("shows this")}}});
  groups.push_back({HelpOverlay::tr("Mouse"),
                    {{HelpOverlay::tr("wheel"), HelpOverlay::tr("scrolls")},
                     {HelpOverlay::tr("Ctrl + wheel"), HelpOverlay::tr("zooms at the pointer")},
                     {HelpOverlay::tr("Shift + wheel"), HelpOverlay::tr("pans")},
                     {HelpOverlay::tr("drag"), HelpOverlay::tr("pans")},
                     {HelpOverlay::tr("Shift + drag"), HelpOverlay::tr("selects an area")},
                     {HelpOverlay::tr("click"), HelpOverlay::tr("picks")},
                     {HelpOverlay::tr("double click"), HelpOverlay::tr("shows it large")}}});
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
  auto* columns = new QHBoxLayout(this);
  columns->setContentsMargins(36, 28, 36, 20);
  columns->setSpacing(24);
  // Each part below the column that is the lowest so far.
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
