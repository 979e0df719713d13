#include "gui/window/help_overlay.h"

#include <QEvent>
#include <QGridLayout>
#include <QLabel>
#include <QPainter>
#include <utility>
#include <vector>

#include "gui/core/commands.h"
#include "gui/window/actions.h"

namespace pipesim::gui {
namespace {

using Rows = std::vector<std::pair<QString, QString>>;

QString html_of(const QString& title, const Rows& rows) {
  QString html = "<b>" + title + "</b><table cellspacing='0' cellpadding='1'>";
  for (const auto& [keys, help] : rows) {
    html += "<tr><td><b>" + keys.toHtmlEscaped() + "</b>&nbsp;&nbsp;</td><td>" +
            help.toHtmlEscaped() + "</td></tr>";
  }
  return html + "</table><br>";
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
  auto* grid = new QGridLayout(this);
  grid->setContentsMargins(40, 24, 40, 24);
  const std::vector<QString> all = parts();
  // Three columns of about the same height.
  int rows = 0;
  for (const QString& part : all) rows += part.count("<tr>") + 2;
  int column = 0;
  int filled = 0;
  std::vector<QString> columns(3);
  for (const QString& part : all) {
    const int height = part.count("<tr>") + 2;
    if (column < 2 && filled > 0 && filled + height / 2 > rows / 3) {
      ++column;
      filled = 0;
    }
    columns[static_cast<std::size_t>(column)] += part;
    filled += height;
  }
  for (int i = 0; i < 3; ++i) {
    auto* label = new QLabel(columns[static_cast<std::size_t>(i)], this);
    label->setTextFormat(Qt::RichText);
    label->setAlignment(Qt::AlignTop | Qt::AlignLeft);
    label->setAttribute(Qt::WA_TransparentForMouseEvents);
    grid->addWidget(label, 0, i);
  }
  grid->setHorizontalSpacing(28);
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
  QColor ground = palette().color(QPalette::Window);
  ground.setAlpha(246);
  painter.fillRect(rect(), ground);
}

void HelpOverlay::mousePressEvent(QMouseEvent*) { hide(); }

}  // namespace pipesim::gui
