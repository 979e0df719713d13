// The window: menus, tool bar, timeline, panels; and background work.
//
// One owner; lives on the thread of the QApplication. Errors become a
// banner, never an exception.
#pragma once

#include <QMainWindow>
#include <QStringList>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "gui/playground/playground.h"
#include "gui/window/loader.h"
#include "gui/window/session.h"
#include "gui/window/table_view.h"

class QActionGroup;
class QDockWidget;
class QLabel;
class QMenu;
class QProgressBar;
class QSettings;
class QStackedWidget;

namespace pipesim::gui {

class Banners;
class CommandActions;
class FilterBar;
class FindBar;
class FlamePanel;
class HelpOverlay;
class Overview;
class PlaygroundPanel;
struct Played;
struct Step;
class Summary;
class Timeline;

// How a window starts.
struct WindowOptions {
  std::string settings_file;   // for recent files and the theme; empty: none
  std::optional<Theme> theme;  // else the last one, else the desktop's
  SceneOptions scene;
  // Whether the user chose the colouring; else only input pipelines are coloured by batch.
  bool colouring_chosen = false;
  std::optional<std::int64_t> capacity_bytes;
  // After loading the first traces: the picked action, as search() finds it, and the visible time.
  std::string select;
  std::optional<TimeRange> range;
  bool playground = false;
  Settings played;         // in the playground, at first
  ProfileOptions profile;  // of the first traces
};

class MainWindow : public QMainWindow {
  Q_OBJECT
 public:
  explicit MainWindow(const WindowOptions& options, QWidget* parent = nullptr);
  ~MainWindow() override;

  // Open traces in the background, one after the other; they are then shown instead of the
  // playground. open() closes the previous ones.
  void open(const QStringList& paths, const ProfileOptions& profile = {});
  void add(const QStringList& paths);
  void compare_as(int predicted, int measured);
  void close_trace(int trace);
  void set_capacity(std::optional<std::int64_t> bytes);
  void set_theme(Theme theme);

  // Writes the timeline as PNG or SVG, or the front table as CSV, by the file's name; throws an
  // Error on failure.
  void write(const std::string& path);

  Session& session() { return *session_; }
  Timeline& timeline() { return *timeline_; }
  bool is_loading() const { return loader_->busy(); }
  // Writes one of the tables, by its name in the menu; throws an Error if there is none, or on
  // failure.
  void write_table_called(const QString& name, const std::string& path);
  // Updates all panels now.
  void settle();
  // The table in the front panel below the timeline.
  TablePanel* table_in_front() const;

 signals:
  void loaded();                          // another document is shown
  void problem(const QString& sentence);  // an operation failed; a banner says so, too
  void idle();                            // no background work is running any more

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;
  void showEvent(QShowEvent* event) override;
  void closeEvent(QCloseEvent* event) override;

 private:
  void make_centre();
  void make_panels();
  void make_menus();
  void make_tool_bar();
  void make_status_bar();
  QDockWidget* add_panel(const QString& name, const char* id, QWidget* content,
                         Qt::DockWidgetArea area);
  TablePanel* add_table(const QString& name, const char* id, TablePanel::Make make,
                        TablePanel::DependsOn depends_on);

  // Background work on open traces.
  struct Job {
    std::function<Document(const Document& before, const Report&)> work;
    QStringList paths = {};  // the files to open
    bool follows = false;    // continues another one: that one's banners stay
  };
  // The open traces, shown or not.
  std::shared_ptr<const Document> base_document() const;
  void start(Job job);        // cancels the running job
  void start_after(Job job);  // waits for the running job
  void start_next();
  bool refuses_while_loading();
  void show_loaded(Opened opened);
  Colouring colouring_of(const Document& document, Colouring now);
  void apply_first_look();
  // Shows the playground's run, or again the open traces.
  void play(bool on);
  Document document_of(const Played& played);
  void show_played(const Played& played);
  // With its own range if it is another one, regardless of what was open.
  void show_document(Document document, bool is_other);
  void switch_path_on();
  void show_step(const Step& step);
  void fail(const QString& sentence);
  void attempt(const std::function<void()>& work);
  void follow_document();
  void follow_view();
  // A menu entry that is not a command; `objection` says why it does not apply.
  void add_condition(QAction* action, std::function<QString()> objection);
  void follow_conditions();
  void fill_recent();
  void fill_tables();
  void fill_roles();
  void remember(const QStringList& paths);
  void ask_open(bool adds);
  QString ask_path(const QString& kind);
  void ask_write(const QString& kind);
  void ask_capacity();
  void context_menu(const Hit& hit, const QPoint& global);
  void run(Command command);
  // Hides panels without contents for the open traces, and shows them again.
  void follow_panels();
  void raise_panel(const char* id);
  void raise_first_panel();  // the most informative one
  void arrange();

  WindowOptions options_;
  std::unique_ptr<QSettings> settings_;
  Session* session_;
  Loader* loader_;
  CommandActions* actions_;
  Banners* banners_ = nullptr;
  Overview* overview_ = nullptr;
  Timeline* timeline_ = nullptr;
  QStackedWidget* pages_ = nullptr;
  FindBar* find_ = nullptr;
  FilterBar* filter_ = nullptr;
  HelpOverlay* help_ = nullptr;
  FlamePanel* flame_ = nullptr;
  Summary* summary_ = nullptr;
  PlaygroundPanel* playground_ = nullptr;
  QAction* playing_ = nullptr;
  std::shared_ptr<const Document> open_before_;  // while it plays
  QList<QDockWidget*> panels_;
  struct NamedTable {
    QString name;
    TablePanel* panel = nullptr;
  };
  std::vector<NamedTable> tables_;
  std::set<QString> set_aside_;  // panels hidden because they are empty
  struct Condition {
    QAction* action = nullptr;
    QString tip;
    std::function<QString()> objection;
  };
  std::vector<Condition> conditions_;
  QMenu* recent_ = nullptr;
  QMenu* tables_menu_ = nullptr;
  QMenu* first_run_ = nullptr;
  QMenu* second_run_ = nullptr;
  QMenu* close_ = nullptr;
  QMenu* panels_menu_ = nullptr;
  QActionGroup* themes_ = nullptr;
  QLabel* status_ = nullptr;
  QLabel* hidden_ = nullptr;
  QWidget* progress_ = nullptr;
  QProgressBar* progress_bar_ = nullptr;
  Job job_;  // the running job, or the last one
  std::deque<Job> waiting_;
  bool coloured_by_batch_ = false;  // as the default of the open traces
  bool looked_ = false;             // the options for the first traces have been applied
  bool arranged_ = false;
};

}  // namespace pipesim::gui
