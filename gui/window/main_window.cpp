#include "gui/window/main_window.h"

#include <QApplication>
#include <QCloseEvent>
#include <QDockWidget>
#include <QDragEnterEvent>
#include <QFileInfo>
#include <QLabel>
#include <QMimeData>
#include <QProgressBar>
#include <QSettings>
#include <QStackedWidget>
#include <QStatusBar>
#include <QUrl>
#include <algorithm>
#include <utility>

#include "gui/tables/search.h"
#include "gui/window/actions.h"
#include "gui/window/banner.h"
#include "gui/window/export.h"
#include "gui/window/find_bar.h"
#include "gui/window/flame_panel.h"
#include "gui/window/help_overlay.h"
#include "gui/window/letters.h"
#include "gui/window/look.h"
#include "gui/window/playground_panel.h"
#include "gui/window/table_view.h"
#include "gui/window/timeline.h"
#include "traces/base/error.h"
#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

constexpr int progress_steps = 1000;

Theme first_theme(const WindowOptions& options, const QSettings* settings) {
  if (options.theme) return *options.theme;
  const QString last = settings != nullptr ? settings->value("theme").toString() : QString();
  if (last == "dark") return Theme::dark;
  if (last == "light") return Theme::light;
  return system_theme();
}

std::vector<std::string> texts_of(const QStringList& list) {
  std::vector<std::string> texts;
  for (const QString& text : list) texts.push_back(text.toStdString());
  return texts;
}

}  // namespace

MainWindow::MainWindow(const WindowOptions& options, QWidget* parent)
    : QMainWindow(parent),
      options_(options),
      session_(new Session(this)),
      loader_(new Loader(this)) {
  if (!options_.settings_file.empty()) {
    settings_ = std::make_unique<QSettings>(QString::fromStdString(options_.settings_file),
                                            QSettings::IniFormat);
  }
  load_fonts();
  set_theme(first_theme(options_, settings_.get()));
  setWindowTitle("pipeview");
  setAcceptDrops(true);
  resize(1280, 800);
  actions_ = new CommandActions(*session_, this);
  qApp->installEventFilter(new NavigationKeys(this));
  make_centre();
  make_panels();
  make_tool_bar();
  make_menus();
  make_status_bar();

  View first = session_->view();
  first.options = options_.scene;
  session_->change(std::move(first));

  connect(actions_, &CommandActions::asked, this, &MainWindow::run);
  connect(session_, &Session::document_changed, this, &MainWindow::follow_document);
  connect(session_, &Session::view_changed, this, &MainWindow::follow_view);
  connect(session_, &Session::problem, this, &MainWindow::fail);
  connect(loader_, &Loader::progressed, this, [this](double fraction, const QString& what) {
    progress_bar_->setValue(static_cast<int>(fraction * progress_steps));
    progress_->show();
    status_->setText(what);
  });
  connect(loader_, &Loader::ended, progress_, &QWidget::hide);
  connect(loader_, &Loader::finished, this, [this](const std::shared_ptr<Opened>& opened) {
    show_loaded(std::move(*opened));
    start_next();
  });
  connect(loader_, &Loader::failed, this, [this](const QString& sentence) {
    fail(sentence);
    follow_view();
    start_next();
  });
  connect(loader_, &Loader::cancelled, this, [this] {
    waiting_.clear();
    status_->setText(tr("Given up."));
    emit idle();
  });
  follow_document();
  timeline_->setFocus();
}

MainWindow::~MainWindow() = default;

void MainWindow::set_theme(Theme theme) {
  set_look(theme);
  session_->set_theme(theme);
}

std::shared_ptr<const Document> MainWindow::base_document() const {
  return open_before_ ? open_before_ : session_->shared_document();
}

void MainWindow::open(const QStringList& paths, const ProfileOptions& profile) {
  if (paths.isEmpty()) return;
  waiting_.clear();
  start({[files = texts_of(paths), capacity = options_.capacity_bytes, profile](
             const Document&, const Report& report) {
           Document document = open_traces(files, report, profile);
           document.capacity_bytes = capacity;
           return document;
         },
         paths});
}

void MainWindow::add(const QStringList& paths) {
  if (paths.isEmpty()) return;
  start_after({[files = texts_of(paths), capacity = options_.capacity_bytes](const Document& before,
                                                                             const Report& report) {
                 Document document = add_traces(before, files, report);
                 document.capacity_bytes = capacity;
                 return document;
               },
               paths});
}

void MainWindow::compare_as(int predicted, int measured) {
  if (refuses_while_loading()) return;
  start({[predicted, measured](const Document& before, const Report&) {
    return compared(before, predicted, measured);
  }});
}

void MainWindow::close_trace(int trace) {
  if (refuses_while_loading()) return;
  start({[trace](const Document& before, const Report&) { return without_trace(before, trace); }});
}

void MainWindow::set_capacity(std::optional<std::int64_t> bytes) {
  options_.capacity_bytes = bytes;
  start_after({[bytes](Document document, const Report&) {
    document.capacity_bytes = bytes;
    return document;
  }});
}

// Which traces are meant is unknown until all are loaded.
bool MainWindow::refuses_while_loading() {
  if (loader_->busy()) fail(tr("Traces are still being opened; choose among them afterwards."));
  return loader_->busy();
}

void MainWindow::start(Job job) {
  progress_bar_->setValue(0);
  progress_->show();
  status_->setText(tr("Opening ..."));
  job_ = std::move(job);
  loader_->start([work = job_.work,
                  before = base_document()](const Report& report) { return work(*before, report); },
                 session_->view().options);
}

void MainWindow::start_after(Job job) {
  if (!loader_->busy()) return start(std::move(job));
  job.follows = true;
  waiting_.push_back(std::move(job));
}

void MainWindow::start_next() {
  if (waiting_.empty()) {
    emit idle();
    return;
  }
  Job job = std::move(waiting_.front());
  waiting_.pop_front();
  start(std::move(job));
}

void MainWindow::show_loaded(Opened opened) {
  // A view of the playground is not a position in other traces.
  const bool from_home = !job_.paths.isEmpty() || open_before_ != nullptr;
  open_before_.reset();
  playing_->setChecked(false);
  remember(job_.paths);
  // It may have been changed in the meantime.
  SceneOptions options = session_->view().options;
  if (from_home) options.colouring = colouring_of(*opened.document, options.colouring);
  const bool wants_path = options.critical && !opened.scene.options.critical;
  options.critical = opened.scene.options.critical && options.critical;
  if (opened.scene.options != options) change_scene(opened.scene, *opened.document, options);
  if (!job_.follows) banners_->clear();
  const auto add_banner = [this](const QString& sentence) {
    if (!banners_->sentences().contains(sentence)) banners_->add(sentence);
  };
  const Document& document = *opened.document;
  for (const std::string& sentence : document.not_opened) {
    add_banner(QString::fromStdString(printable(sentence)));
  }
  for (const auto& trace : document.traces) {
    if (!trace->banner.empty()) {
      add_banner(QString::fromStdString(printable(trace->name + ": " + trace->banner)));
    }
  }
  if (!document.not_compared.empty()) {
    add_banner(
        tr("Not compared: %1").arg(QString::fromStdString(printable(document.not_compared))));
  }
  if (from_home) {
    session_->open(std::move(opened));
    raise_first_panel();
  } else {
    session_->replace(std::move(opened));
  }
  if (wants_path) switch_path_on();  // asked for while they were being opened
  apply_first_look();
  emit loaded();
}

// An input pipeline's work for one batch is on many streams: colours distinguish batches, unless
// others were chosen.
Colouring MainWindow::colouring_of(const Document& document, Colouring now) {
  if (options_.colouring_chosen) return now;
  const bool are_inputs =
      !document.traces.empty() && std::ranges::all_of(document.traces, [](const auto& trace) {
        return trace->input.has_value();
      });
  if (are_inputs && now == Colouring::kind) {
    coloured_by_batch_ = true;
    return Colouring::microbatch;
  }
  const bool goes_back = !are_inputs && std::exchange(coloured_by_batch_, are_inputs);
  return goes_back && now == Colouring::microbatch ? Colouring::kind : now;
}

void MainWindow::apply_first_look() {
  if (looked_ || session_->document().traces.empty()) return;
  looked_ = true;
  if (!options_.select.empty()) {
    const Found found = search(session_->document(), session_->scene(), options_.select);
    if (found.picks.empty()) {
      fail(QString::fromStdString("--select: " + found.text));
    } else {
      session_->pick(found.picks.front());
      raise_panel("details");
    }
  }
  if (options_.range) {
    const TimeRange& extent = session_->scene().extent;
    if (options_.range->to_ns <= extent.from_ns || options_.range->from_ns >= extent.to_ns) {
      fail(QString::fromStdString("--range: it is empty; the traces are from " +
                                  format_time(extent.from_ns) + " to " +
                                  format_time(extent.to_ns)));
      return;
    }
    View next = session_->view();
    next.range = kept_within(*options_.range, extent);
    session_->change(std::move(next));
  }
}

void MainWindow::play(bool on) {
  QDockWidget* dock = findChild<QDockWidget*>("playground");
  dock->setVisible(on);
  if (on) {
    loader_->cancel();
    open_before_ = session_->shared_document();
    // With its own range, regardless of the traces'.
    show_document(document_of(*playground_->last()), true);
    raise_first_panel();
    raise_panel("playground");
    arrange();
  } else if (open_before_) {
    show_document(*std::exchange(open_before_, nullptr), true);
  }
}

// The session finds a critical path in the background where that takes long.
void MainWindow::show_document(Document document, bool is_other) {
  SceneOptions options = session_->view().options;
  const bool wants_path = std::exchange(options.critical, false);
  Opened now = opened(std::move(document), options);
  if (is_other) {
    session_->open(std::move(now));
  } else {
    session_->replace(std::move(now));
  }
  if (wants_path) switch_path_on();
}

void MainWindow::switch_path_on() {
  View next = session_->view();
  next.options.critical = true;
  session_->change(std::move(next));
}

Document MainWindow::document_of(const Played& played) {
  Document document;
  if (played.outcome.trace != nullptr) document.traces = {played.outcome.trace};
  document.capacity_bytes = played.settings.memory_cap_bytes;
  playground_->set_trace(0);
  return document;
}

void MainWindow::show_played(const Played& played) {
  if (!playing_->isChecked() || played.outcome.trace == nullptr) return;
  show_document(document_of(played), false);
}

void MainWindow::show_step(const Step& step) {
  if (!playing_->isChecked()) return;
  View next = with_pick(session_->document(), session_->scene(), session_->view(), step.action,
                        session_->picture());
  next.emphasised = step.needs;
  next.emphasised.push_back(step.action);
  session_->change(std::move(next), "step");
}

void MainWindow::fail(const QString& sentence) {
  banners_->add(sentence);
  emit problem(sentence);
}

void MainWindow::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    fail(QString::fromStdString(printable(error.what())));
  }
}

void MainWindow::run(Command command) {
  if (command == Command::clear && help_->isVisible()) {
    help_->hide();
    return;
  }
  session_->run(command);
}

void MainWindow::follow_document() {
  const Document& document = session_->document();
  pages_->setCurrentIndex(document.traces.empty() ? 0 : 1);
  QStringList names;
  for (const auto& trace : document.traces) names += QString::fromStdString(printable(trace->name));
  setWindowTitle(names.isEmpty() ? "pipeview" : names.join(", ") + " - pipeview");
  fill_roles();
  follow_conditions();
  follow_panels();
}

void MainWindow::follow_view() {
  if (loader_->busy()) return;
  const View& view = session_->view();
  const Scene& scene = session_->scene();
  const bool slots_shown = view.options.alignment == Alignment::slot;
  const auto length = [&](std::int64_t ns) {
    return slots_shown ? tr("%1 slots").arg(static_cast<double>(ns) / slot_ns, 0, 'f', 1)
                       : QString::fromStdString(format_time(ns));
  };
  QString text;
  const std::int64_t all = scene.extent.length_ns();
  const std::int64_t seen = std::max(std::min(view.range.to_ns, scene.extent.to_ns) -
                                         std::max(view.range.from_ns, scene.extent.from_ns),
                                     std::int64_t{0});
  if (!session_->document().traces.empty()) {
    text = tr("%1 of %2").arg(length(seen), length(all));
    if (view.area) text += tr("; area: %1").arg(length(view.area->length_ns()));
    if (!view.filter.empty())
      text += tr("; tracks with \"%1\"").arg(QString::fromStdString(view.filter));
    if (session_->finds_path()) text += tr("; finding the critical path ...");
  }
  status_->setText(text);
  QStringList hidden;
  const Picture& picture = session_->picture();
  if (picture.bundled_arrows > 0) {
    hidden += tr("%1 arrows in bundles")
                  .arg(QString::fromStdString(format_count(picture.bundled_arrows)));
  }
  if (picture.hidden_labels > 0) {
    hidden +=
        tr("%1 labels omitted").arg(QString::fromStdString(format_count(picture.hidden_labels)));
  }
  hidden_->setText(hidden.join(", "));
}

void MainWindow::remember(const QStringList& paths) {
  if (!settings_ || paths.isEmpty()) return;
  constexpr int most = 10;
  QStringList recent = settings_->value("recent").toStringList();
  for (const QString& path : paths) {
    const QString whole = QFileInfo(path).absoluteFilePath();
    recent.removeAll(whole);
    recent.prepend(whole);
  }
  while (recent.size() > most) recent.removeLast();
  settings_->setValue("recent", recent);
}

void MainWindow::settle() {
  session_->wait_for_path();
  // A layout may trigger another one.
  constexpr int rounds = 3;
  for (int i = 0; i < rounds; ++i) {
    QApplication::sendPostedEvents();
    QApplication::processEvents();
    for (TablePanel* table : findChildren<TablePanel*>()) {
      if (table->isVisible()) table->refresh();
    }
    if (!flame_->visibleRegion().isEmpty()) flame_->refresh();
  }
}

TablePanel* MainWindow::table_in_front() const {
  for (QDockWidget* panel : panels_) {
    auto* table = qobject_cast<TablePanel*>(panel->widget());
    if (table != nullptr && panel->isVisible() && !table->visibleRegion().isEmpty()) return table;
  }
  return nullptr;
}

void MainWindow::write(const std::string& path) {
  if (path.ends_with(".csv")) {
    TablePanel* table = table_in_front();
    if (table == nullptr)
      throw input_error(path + ": no table is shown; choose one below the timeline");
    write_table(table->table(), path);
    return;
  }
  write_picture(session_->picture().list, label_height(session_->canvas().scale), path);
}

void MainWindow::write_table_called(const QString& name, const std::string& path) {
  const auto found = std::ranges::find(tables_, name, &NamedTable::name);
  if (found == tables_.end()) {
    throw input_error(path + ": there is no table " + quote(name.toStdString()));
  }
  found->panel->refresh();
  write_table(found->panel->table(), path);
}

void MainWindow::dragEnterEvent(QDragEnterEvent* event) {
  if (event->mimeData()->hasUrls()) event->acceptProposedAction();
}

void MainWindow::dropEvent(QDropEvent* event) {
  QStringList paths;
  for (const QUrl& url : event->mimeData()->urls()) {
    if (url.isLocalFile()) paths += url.toLocalFile();
  }
  if (paths.isEmpty()) return;
  event->acceptProposedAction();
  add(paths);
}

void MainWindow::closeEvent(QCloseEvent* event) {
  if (settings_) {
    settings_->setValue("theme", session_->theme() == Theme::dark ? "dark" : "light");
    settings_->setValue("geometry", saveGeometry());
    settings_->setValue("panels", saveState());
  }
  loader_->cancel();
  event->accept();
}

void MainWindow::arrange() {
  const auto share = [](int whole, int percent, int least, int most) {
    return std::clamp(whole * percent / 100, least, most);
  };
  QDockWidget* details = findChild<QDockWidget*>("details");
  // Docks accept sizes once they are laid out.
  for (int i = 0; i < 2; ++i) {
    const int least = playing_->isChecked() ? 345 : 290;
    resizeDocks({panels_.front()}, {share(width(), 26, least, 460)}, Qt::Horizontal);
    resizeDocks({details}, {share(height(), 26, 140, 300)}, Qt::Vertical);
    QApplication::sendPostedEvents(nullptr, QEvent::LayoutRequest);
  }
}

void MainWindow::raise_first_panel() {
  const Document& document = session_->document();
  if (document.pair) return raise_panel("kinds");
  const bool has_run = std::ranges::any_of(
      document.traces, [](const auto& trace) { return trace->run || trace->input; });
  raise_panel(has_run ? "bubbles" : "names");
}

void MainWindow::showEvent(QShowEvent* event) {
  QMainWindow::showEvent(event);
  if (arranged_) return;
  arranged_ = true;
  if (options_.playground) {
    playground_->set_settings(options_.played);
    playing_->setChecked(true);
  }
  if (settings_ && settings_->contains("panels")) {
    restoreGeometry(settings_->value("geometry").toByteArray());
    restoreState(settings_->value("panels").toByteArray());
    return;
  }
  arrange();
}

}  // namespace pipesim::gui
