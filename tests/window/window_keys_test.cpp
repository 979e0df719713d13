// Every key of the list of commands does in the window what the command does to a view.
#include <gtest/gtest.h>

#include <QLineEdit>
#include <QTableView>
#include <set>

#include "gui/window/actions.h"
#include "gui/window/find_bar.h"
#include "gui/window/help_overlay.h"
#include "tests/windows.h"

namespace pipesim::gui {
namespace {

constexpr int many = 16;  // ranks, more than fit

using testing::pick_of;
using testing::shown_window;
using testing::TraceFiles;

void press(QWidget* at, const QKeySequence& keys) {
  ASSERT_EQ(keys.count(), 1) << keys.toString().toStdString();
  const int code = keys[0];
  QTest::keyClick(at, static_cast<Qt::Key>(code & ~Qt::KeyboardModifierMask),
                  Qt::KeyboardModifiers(code & Qt::KeyboardModifierMask));
}

class WindowKeys : public ::testing::Test {
 protected:
  // Zoomed in on a bar of the middle, with marks, an area and something to undo.
  void prepare() {
    Session& session = window->session();
    View view;
    view.options = {};
    view.range = session.scene().home;
    session.change(view);
    view.picked = pick_of(session.document(), 0, "1B3");
    const auto place = find(session.scene(), session.document(), *view.picked);
    view.range = zoomed(view.range, place->range.from_ns, 0.4);
    view.marks = {place->range.to_ns};
    view.area = TimeRange{place->range.from_ns, place->range.to_ns + 100};
    session.change(view);
    timeline().setFocus();
  }
  Timeline& timeline() { return window->timeline(); }

  TraceFiles files{many};
  std::unique_ptr<MainWindow> window = shown_window(files.both(), {}, {1024, 560});
};

TEST_F(WindowKeys, DoWhatTheirCommandsDo) {
  Session& session = window->session();
  std::set<Command> effective;
  for (const CommandHelp& help : command_list()) {
    if (help.command == Command::undo || help.command == Command::redo) continue;
    ASSERT_FALSE(sequences_of(help.keys).isEmpty()) << help.title;
    for (const QKeySequence& keys : sequences_of(help.keys)) {
      prepare();
      const View before = session.view();
      const View expected =
          apply(help.command, session.document(), session.scene(), before, session.picture());
      press(&timeline(), keys);
      EXPECT_EQ(session.view(), expected) << keys.toString().toStdString() << ": " << help.title;
      EXPECT_EQ(session.scene().options, expected.options);
      if (session.view() != before) effective.insert(help.command);
    }
  }
  // Those that would leave what prepare() makes as it is.
  for (const Command command : {Command::align_iteration, Command::show_stacked,
                                Command::colour_kind, Command::scroll_up, Command::page_up}) {
    EXPECT_EQ(effective.count(command), 0U);
    effective.insert(command);
  }
  effective.insert({Command::undo, Command::redo});
  for (const CommandHelp& help : command_list()) {
    EXPECT_TRUE(effective.contains(help.command)) << help.title << " does nothing";
  }
}

TEST_F(WindowKeys, NoKeyStandsForTwoThings) {
  std::set<QString> keys{"/", "?", "Ctrl+P", "Ctrl+O", "Ctrl+S", "Ctrl+Q", "Ctrl+F", "F1"};
  for (const CommandHelp& help : command_list()) {
    for (const QKeySequence& one : sequences_of(help.keys)) {
      EXPECT_TRUE(keys.insert(one.toString()).second) << one.toString().toStdString();
    }
  }
}

TEST_F(WindowKeys, UndoAndRedoGoBackAndForth) {
  Session& session = window->session();
  prepare();
  const View first = session.view();
  press(&timeline(), QKeySequence("7"));
  press(&timeline(), QKeySequence("8"));
  const View second = session.view();
  ASSERT_NE(first.options, second.options);
  press(&timeline(), QKeySequence("Ctrl+Z"));
  EXPECT_EQ(session.view(), first);
  EXPECT_EQ(session.scene().options, first.options);
  press(&timeline(), QKeySequence("Ctrl+Shift+Z"));
  EXPECT_EQ(session.view(), second);
  EXPECT_EQ(session.scene().options, second.options);
}

TEST_F(WindowKeys, PansInOneGoAreOneStep) {
  Session& session = window->session();
  prepare();
  const View before = session.view();
  for (int i = 0; i < 3; ++i) press(&timeline(), QKeySequence("D"));
  ASSERT_NE(session.view().range, before.range);
  press(&timeline(), QKeySequence("Ctrl+Z"));
  EXPECT_EQ(session.view().range, before.range);
}

TEST_F(WindowKeys, SlashSearchesAndEscapeEnds) {
  Session& session = window->session();
  prepare();
  press(&timeline(), QKeySequence("/"));
  auto* find_bar = window->findChild<FindBar*>();
  ASSERT_TRUE(find_bar->isVisible());
  ASSERT_EQ(QApplication::focusWidget(), &find_bar->line());
  const SceneOptions before = session.view().options;
  QTest::keyClicks(&find_bar->line(), "2b3");  // 2 and 3 are keys of the timeline
  EXPECT_EQ(session.view().options, before);
  EXPECT_EQ(find_bar->line().text(), "2b3");
  EXPECT_EQ(session.view().emphasised.size(), 2U);  // predicted and measured
  EXPECT_NE(find_bar->answer(), "");
  QTest::keyClick(&find_bar->line(), Qt::Key_Return);
  ASSERT_TRUE(session.view().picked.has_value());
  const Pick first = *session.view().picked;
  const auto& run = *session.document().traces[static_cast<std::size_t>(first.trace)]->run;
  EXPECT_EQ(to_text(run.spans[first.ref].action), "2B3");
  QTest::keyClick(&find_bar->line(), Qt::Key_Return);
  EXPECT_NE(session.view().picked->trace, first.trace);
  QTest::keyClick(&find_bar->line(), Qt::Key_Return, Qt::ShiftModifier);
  EXPECT_EQ(*session.view().picked, first);
  QTest::keyClick(&find_bar->line(), Qt::Key_Escape);
  EXPECT_FALSE(find_bar->isVisible());
  EXPECT_TRUE(session.view().emphasised.empty());
  EXPECT_EQ(QApplication::focusWidget(), &timeline());
}

TEST_F(WindowKeys, CtrlPFiltersTracks) {
  Session& session = window->session();
  prepare();
  press(&timeline(), QKeySequence("Ctrl+P"));
  auto* filter = window->findChild<FilterBar*>();
  ASSERT_EQ(QApplication::focusWidget(), &filter->line());
  QTest::keyClicks(&filter->line(), "rank 13");
  ASSERT_EQ(session.picture().groups.size(), 1U);
  EXPECT_EQ(
      session.scene().groups[static_cast<std::size_t>(session.picture().groups[0].group)].name,
      "rank 13");
  EXPECT_EQ(filter->answer(), "");
  QTest::keyClicks(&filter->line(), "7");
  EXPECT_EQ(filter->answer(), "no track has that name");
  filter->line().setText(" RANK 13");
  EXPECT_EQ(session.picture().groups.size(), 1U);
  EXPECT_EQ(filter->answer(), "");
  QTest::keyClick(&filter->line(), Qt::Key_Escape);
  EXPECT_EQ(session.view().filter, "");
  EXPECT_EQ(session.picture().groups.size(), static_cast<std::size_t>(many));
}

TEST_F(WindowKeys, TheFilterSaysWhatIsFiltered) {
  Session& session = window->session();
  prepare();
  auto* filter = window->findChild<FilterBar*>();
  press(&timeline(), QKeySequence("Ctrl+P"));
  QTest::keyClicks(&filter->line(), "rank 13");
  session.run(Command::undo);
  EXPECT_EQ(session.view().filter, "");
  EXPECT_EQ(filter->line().text(), "");
  session.run(Command::redo);
  EXPECT_EQ(session.view().filter, "rank 13");
  EXPECT_EQ(filter->line().text(), "rank 13");
  QTest::keyClicks(&filter->line(), "7");
  EXPECT_EQ(filter->answer(), "no track has that name");
  // What is opened is shown whole.
  session.open(opened(session.document(), session.view().options));
  EXPECT_EQ(session.view().filter, "");
  EXPECT_EQ(filter->line().text(), "");
  EXPECT_EQ(filter->answer(), "");
}

TEST_F(WindowKeys, QuestionMarkListsAllCommands) {
  prepare();
  const View before = window->session().view();
  press(&timeline(), QKeySequence("?"));
  auto* help = window->findChild<HelpOverlay*>();
  ASSERT_TRUE(help->isVisible());
  for (const CommandHelp& command : command_list()) {
    const QString sentence = QString::fromStdString(std::string(command.title)).toHtmlEscaped();
    EXPECT_TRUE(HelpOverlay::text().contains(sentence)) << command.title;
    const QString keys = readable_keys(command.keys).toHtmlEscaped();
    EXPECT_TRUE(HelpOverlay::text().contains(keys)) << command.keys;
  }
  press(&timeline(), QKeySequence("Esc"));
  EXPECT_FALSE(help->isVisible());
  EXPECT_EQ(window->session().view(), before);  // the selection stays
}

TEST_F(WindowKeys, LettersWorkInTablesAndArrowsMoveThere) {
  Session& session = window->session();
  prepare();
  auto* table = window->findChild<QTableView*>();
  ASSERT_NE(table, nullptr);
  table->setFocus();
  const View before = session.view();
  QTest::keyClick(table, Qt::Key_Down);
  QTest::keyClick(table, Qt::Key_Right);
  EXPECT_EQ(session.view(), before);
  QTest::keyClick(table, Qt::Key_D);
  EXPECT_NE(session.view().range, before.range);
}

}  // namespace
}  // namespace pipesim::gui
