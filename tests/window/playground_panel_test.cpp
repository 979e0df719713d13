// The playground's panel as a person uses it: fields, lessons, steps, keys.
#include "gui/window/playground_panel.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLabel>
#include <QLineEdit>
#include <QScrollArea>
#include <QScrollBar>
#include <QShortcut>
#include <QSignalSpy>
#include <QSpinBox>
#include <QTest>
#include <QToolButton>
#include <QVBoxLayout>

#include "gui/window/look.h"

namespace pipesim::gui {
namespace {

struct Bench {
  Bench() {
    panel.resize(panel.sizeHint());
    panel.show();
    EXPECT_TRUE(QTest::qWaitForWindowExposed(&panel));
  }
  template <typename Widget>
  Widget& get(const char* name) {
    auto* widget = panel.findChild<Widget*>(name);
    if (widget == nullptr) throw std::runtime_error(std::string("no ") + name);
    return *widget;
  }
  QSpinBox& count(const char* name) { return get<QSpinBox>(name); }
  QDoubleSpinBox& quantity(const char* name) { return get<QDoubleSpinBox>(name); }
  std::string words(const char* name) { return get<QLabel>(name).text().toStdString(); }
  void click(const char* name) { QTest::mouseClick(&get<QToolButton>(name), Qt::LeftButton); }
  void choose(const char* name, const QString& text) {
    auto& box = get<QComboBox>(name);
    box.setCurrentIndex(box.findText(text));
    ASSERT_EQ(box.currentText(), text);
    emit box.activated(box.currentIndex());
  }

  PlaygroundPanel panel;
  QSignalSpy played{&panel, &PlaygroundPanel::played};
  QSignalSpy stepped{&panel, &PlaygroundPanel::step_shown};
  QSignalSpy left{&panel, &PlaygroundPanel::steps_left};

  const Played& last_played() {
    last_ = played.last().at(0).value<std::shared_ptr<const Played>>();
    return *last_;
  }
  Step last_step() { return stepped.last().at(0).value<Step>(); }

 private:
  std::shared_ptr<const Played> last_;
};

TEST(PlaygroundPanel, StartsWithSomethingPlayed) {
  Bench bench;
  EXPECT_EQ(bench.panel.settings(), Settings());
  EXPECT_NE(bench.panel.outcome().trace, nullptr);
  EXPECT_EQ(bench.words("verdict"),
            "1F1B, 4 stages, 8 microbatches: 33.00 ms, of which 27 % bubble");
  EXPECT_EQ(bench.words("bubble"), "27.3 %");
  EXPECT_EQ(bench.words("formula"), "(p-1)(F+B) = 9.00 ms, 27.3 %: exact here");
  EXPECT_FALSE(bench.get<QLabel>("objection").isVisible());
}

TEST(PlaygroundPanel, EveryFieldIsPlayedAtOnce) {
  Bench bench;
  Settings want;
  const auto expect_played = [&](const char* field) {
    EXPECT_EQ(bench.last_played().settings, want) << field;
    EXPECT_EQ(bench.panel.settings(), want) << field;
  };
  int changes = 0;
  const auto set = [&](const char* name, auto& field, auto value) {
    field.setValue(value);
    EXPECT_EQ(bench.played.count(), ++changes) << name;
    expect_played(name);
  };
  want.stages = 6;
  set("stages", bench.count("stages"), 6);
  want.microbatches = 12;
  set("microbatches", bench.count("microbatches"), 12);
  want.forward_ns = 1'234'000;
  set("forward", bench.quantity("forward"), 1.234);
  want.input_ns = 2'000'000;
  set("input", bench.quantity("input"), 2.0);
  want.weight_ns = 500'000;
  set("weight", bench.quantity("weight"), 0.5);
  want.latency_ns = 45'000;
  set("latency", bench.quantity("latency"), 0.045);
  want.activation_bytes = 1536 << 10;
  set("activation", bench.quantity("activation"), 1.5);
  want.memory_cap_bytes = std::int64_t{5} << 29;
  set("cap", bench.quantity("cap"), 2.5);
  want.slow_stage = 5;
  want.slow_percent = 150;
  set("slow_stage", bench.count("slow_stage"), 5);
  want.slow_percent = 200;
  set("slow_percent", bench.count("slow_percent"), 200);
  // One stage less: the slow one is the last that there is.
  want.stages = 5;
  want.slow_stage = 4;
  bench.count("stages").setValue(5);
  expect_played("stages");
}

TEST(PlaygroundPanel, TypingIsPlayedToo) {
  Bench bench;
  auto& stages = bench.count("stages");
  stages.setFocus();
  stages.selectAll();
  QTest::keyClicks(&stages, "12");
  EXPECT_EQ(bench.last_played().settings.stages, 12);
}

TEST(PlaygroundPanel, ChunksAreForSchedulesThatTakeThem) {
  Bench bench;
  EXPECT_FALSE(bench.count("chunks").isEnabled());
  bench.choose("schedule", "Interleaved 1F1B");
  EXPECT_TRUE(bench.count("chunks").isEnabled());
  EXPECT_EQ(bench.panel.settings().schedule, "interleaved");
  EXPECT_EQ(bench.panel.settings().virtual_stages, 2);
  // The same model: each of two chunks is half of what a rank computed before.
  EXPECT_EQ(bench.panel.settings().forward_ns, 500'000);
  EXPECT_NE(bench.panel.outcome().memory.find("worth"), std::string::npos);
  bench.count("chunks").setValue(4);
  EXPECT_EQ(bench.panel.settings().virtual_stages, 4);
  EXPECT_EQ(bench.panel.settings().weight_ns, 250'000);
  EXPECT_EQ(bench.panel.outcome().objection, "");
  bench.choose("schedule", "GPipe");
  EXPECT_FALSE(bench.count("chunks").isEnabled());
  EXPECT_EQ(bench.panel.settings().virtual_stages, 1);
}

TEST(PlaygroundPanel, SaysWhatCannotBePlayed) {
  Bench bench;
  bench.count("stages").setValue(64);
  bench.choose("schedule", "Interleaved 1F1B");
  bench.count("microbatches").setValue(4096);
  EXPECT_EQ(bench.last_played().outcome.trace, nullptr);
  EXPECT_TRUE(bench.get<QLabel>("objection").isVisible());
  EXPECT_NE(bench.words("objection").find("more than is played at once"), std::string::npos);
  EXPECT_FALSE(bench.get<QLabel>("verdict").isVisible());
  EXPECT_EQ(bench.words("bubble"), "-");
  EXPECT_FALSE(bench.get<QToolButton>("on").isEnabled());
  bench.panel.step_on();  // nothing to follow
  EXPECT_EQ(bench.stepped.count(), 0);
  bench.count("microbatches").setValue(8);
  EXPECT_FALSE(bench.get<QLabel>("objection").isVisible());
  EXPECT_TRUE(bench.get<QToolButton>("on").isEnabled());
}

TEST(PlaygroundPanel, LessonsAreSettingsWithWords) {
  Bench bench;
  for (const Lesson& lesson : lessons()) {
    bench.choose("lesson", QString::fromStdString(lesson.name));
    EXPECT_EQ(bench.panel.settings(), lesson.settings) << lesson.name;
    EXPECT_EQ(bench.words("lesson_text"), lesson.text);
    EXPECT_EQ(bench.panel.outcome().objection, "");
  }
  bench.count("stages").setValue(7);  // no lesson any more
  EXPECT_EQ(bench.get<QComboBox>("lesson").currentIndex(), 0);
  EXPECT_FALSE(bench.get<QLabel>("lesson_text").isVisible());
}

TEST(PlaygroundPanel, StepsFollowAMicrobatch) {
  Bench bench;
  bench.panel.set_trace(2);
  bench.count("microbatch").setValue(3);
  EXPECT_EQ(bench.stepped.count(), 0);  // nothing is followed yet
  const auto all = steps_of(*bench.panel.outcome().trace, 2, 3);
  ASSERT_EQ(all.size(), 8U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    bench.click("on");
    EXPECT_EQ(bench.last_step().action, all[i].action);
    EXPECT_EQ(bench.last_step().needs, all[i].needs);
    EXPECT_EQ(bench.words("step"), std::to_string(i + 1) + " of 8: " + all[i].text + ".");
  }
  bench.click("on");
  EXPECT_EQ(bench.stepped.count(), 8);  // it ends there
  bench.click("back");
  EXPECT_EQ(bench.last_step().action, all[6].action);
  bench.click("first");
  EXPECT_EQ(bench.last_step().action, all[0].action);
  bench.click("back");
  EXPECT_EQ(bench.last_step().action, all[0].action);
  bench.click("last");
  EXPECT_EQ(bench.last_step().action, all[7].action);
  // Another microbatch: from its start.
  bench.count("microbatch").setValue(5);
  EXPECT_EQ(bench.last_step().action, steps_of(*bench.panel.outcome().trace, 2, 5)[0].action);
  EXPECT_EQ(bench.left.count(), 0);
  bench.click("leave");
  EXPECT_EQ(bench.left.count(), 1);
}

TEST(PlaygroundPanel, StepsGoOnWhenSomethingChanges) {
  Bench bench;
  bench.panel.step_on();
  bench.panel.step_on();
  const int before = bench.stepped.count();
  bench.quantity("forward").setValue(2);
  EXPECT_EQ(bench.stepped.count(), before + 1);
  EXPECT_EQ(bench.last_step().text, steps_of(*bench.panel.outcome().trace, 0, 0)[1].text);
  // Of fewer microbatches the last is followed; of a schedule that can't be, none.
  bench.count("microbatch").setValue(7);
  bench.count("microbatches").setValue(2);
  EXPECT_EQ(bench.count("microbatch").value(), 1);
  EXPECT_EQ(bench.last_step().text, steps_of(*bench.panel.outcome().trace, 0, 1)[0].text);
  bench.choose("schedule", "Interleaved 1F1B");
  bench.count("stages").setValue(64);
  bench.count("chunks").setValue(8);
  bench.count("microbatches").setValue(4096);
  ASSERT_EQ(bench.panel.outcome().trace, nullptr);
  EXPECT_EQ(bench.left.count(), 1);
}

// The window has the same keys for its timeline.
TEST(PlaygroundPanel, KeysStepWhereNoFieldTakesThem) {
  QWidget window;
  auto* column = new QVBoxLayout(&window);
  PlaygroundPanel panel;
  column->addWidget(&panel);
  int panned = 0;
  for (const auto key : {Qt::Key_Left, Qt::Key_Right, Qt::Key_Space, Qt::Key_Home}) {
    QObject::connect(new QShortcut(QKeySequence(key), &window), &QShortcut::activated,
                     [&] { ++panned; });
  }
  window.show();
  window.activateWindow();
  ASSERT_TRUE(QTest::qWaitForWindowActive(&window));
  QSignalSpy stepped(&panel, &PlaygroundPanel::step_shown);
  const auto step = [&] { return panel.findChild<QLabel*>("step")->text().section(':', 0, 0); };

  auto* on = panel.findChild<QToolButton*>("on");
  on->setFocus();
  QTest::keyClick(on, Qt::Key_Right);
  QTest::keyClick(on, Qt::Key_Right);
  QTest::keyClick(on, Qt::Key_Right);
  EXPECT_EQ(step(), "3 of 8");
  QTest::keyClick(on, Qt::Key_Left);
  EXPECT_EQ(step(), "2 of 8");
  QTest::keyClick(on, Qt::Key_Space);  // presses the button
  EXPECT_EQ(step(), "3 of 8");
  auto* words = panel.findChild<QLabel*>("step");
  words->setFocus();
  QTest::keyClick(words, Qt::Key_Space);
  EXPECT_EQ(step(), "4 of 8");
  QTest::keyClick(words, Qt::Key_End);
  EXPECT_EQ(step(), "8 of 8");
  QTest::keyClick(words, Qt::Key_Home);
  EXPECT_EQ(step(), "1 of 8");
  EXPECT_EQ(panned, 0);
  // In a field the arrows move the cursor.
  auto* stages = panel.findChild<QSpinBox*>("stages");
  stages->setFocus();
  const int before = stepped.count();
  QTest::keyClick(stages, Qt::Key_Left);
  EXPECT_EQ(stepped.count(), before);
}

TEST(PlaygroundPanel, FitsANarrowDock) {
  for (const Theme theme : {Theme::light, Theme::dark}) {
    set_look(theme);
    Bench bench;
    bench.panel.resize(320, 440);
    for (const Lesson& lesson : lessons()) {
      bench.panel.set_settings(lesson.settings);
      bench.panel.step_on();
      for (int i = 0; i < 10; ++i) QApplication::processEvents();
      const auto* scroll = bench.panel.findChild<QScrollArea*>();
      const QWidget* content = scroll->widget();
      EXPECT_LE(content->minimumSizeHint().width(), scroll->viewport()->width());
      for (const QWidget* child : content->findChildren<QWidget*>()) {
        if (!child->isVisible()) continue;
        const QRect at(child->mapTo(content, QPoint()), child->size());
        EXPECT_TRUE(content->rect().contains(at)) << child->objectName().toStdString();
      }
      EXPECT_EQ(scroll->verticalScrollBar()->maximum(), 0) << lesson.name;
      // No field and no line of words is cut off.
      for (const auto* box : bench.panel.findChildren<QAbstractSpinBox*>()) {
        const auto* edit = box->findChild<QLineEdit*>();
        EXPECT_LE(edit->fontMetrics().horizontalAdvance(edit->text()), edit->width())
            << box->objectName().toStdString();
      }
      for (const char* name : {"lesson_text", "verdict", "bubble", "formula", "memory", "step"}) {
        const auto& words = bench.get<QLabel>(name);
        EXPECT_GE(words.height(), words.heightForWidth(words.width())) << name;
      }
    }
  }
}

}  // namespace
}  // namespace pipesim::gui
