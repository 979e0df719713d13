// The playground's panel: simulates every change at once, and describes it in words; follows one
// microbatch step by step. Owned by the window; on its thread. gui/playground does the simulation;
// the panel itself shows no timeline.
#pragma once

#include <QString>
#include <QWidget>
#include <memory>
#include <vector>

#include "gui/playground/playground.h"

class QComboBox;
class QDoubleSpinBox;
class QLabel;
class QSpinBox;
class QToolButton;

namespace pipesim::gui {

// The settings and their result; no trace if they can't be simulated.
struct Played {
  Settings settings;
  Outcome outcome;
};

class PlaygroundPanel : public QWidget {
  Q_OBJECT
 public:
  explicit PlaygroundPanel(QWidget* parent = nullptr);

  const Settings& settings() const { return played_->settings; }
  const Outcome& outcome() const { return played_->outcome; }
  std::shared_ptr<const Played> last() const { return played_; }
  // Shows other settings, and plays them.
  void set_settings(const Settings& settings);
  // The index of the played run among the document's traces, for the picks of steps.
  void set_trace(int trace);

  QSize sizeHint() const override { return {320, 420}; }
  QSize minimumSizeHint() const override { return {200, 120}; }

 public slots:
  // Steps along a microbatch: the first, the last, one forward, one back.
  void step_first();
  void step_last();
  void step_on();
  void step_back();
  void leave_steps();

 signals:
  void played(std::shared_ptr<const pipesim::gui::Played> played);
  void step_shown(const pipesim::gui::Step& step);
  void steps_left();  // no step is shown any more

 protected:
  bool event(QEvent* event) override;
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* object, QEvent* event) override;

 private:
  QWidget* make_settings();
  QWidget* make_results();
  QWidget* make_steps();
  void put(const Settings& settings);
  void choose_schedule();
  Settings read() const;
  void replay();
  void keep_work();
  void adapt();
  void show_outcome();
  void show_step(int step);
  bool step_by_key(int key);
  void colour_objection();

  std::vector<Offer> offers_;
  std::vector<Lesson> lessons_;
  std::shared_ptr<const Played> played_;
  bool putting_ = false;  // widgets change because the settings did
  int trace_ = 0;
  std::vector<Step> steps_;
  int step_ = -1;  // -1: none is shown

  QComboBox* lesson_ = nullptr;
  QComboBox* schedule_ = nullptr;
  QSpinBox* stages_ = nullptr;
  QSpinBox* chunks_ = nullptr;
  QSpinBox* microbatches_ = nullptr;
  QDoubleSpinBox* forward_ = nullptr;
  QDoubleSpinBox* input_ = nullptr;
  QDoubleSpinBox* weight_ = nullptr;
  QDoubleSpinBox* latency_ = nullptr;
  QDoubleSpinBox* activation_ = nullptr;
  QDoubleSpinBox* cap_ = nullptr;
  QSpinBox* slow_stage_ = nullptr;
  QSpinBox* slow_percent_ = nullptr;
  QLabel* lesson_text_ = nullptr;
  QLabel* objection_ = nullptr;
  QLabel* verdict_ = nullptr;
  QLabel* bubble_ = nullptr;
  QLabel* formula_ = nullptr;
  QLabel* messages_ = nullptr;
  QLabel* memory_ = nullptr;
  QSpinBox* microbatch_ = nullptr;
  std::vector<QToolButton*> step_buttons_;  // first, back, on, last
  QToolButton* leave_ = nullptr;
  QLabel* step_text_ = nullptr;
};

}  // namespace pipesim::gui

Q_DECLARE_METATYPE(std::shared_ptr<const pipesim::gui::Played>)
Q_DECLARE_METATYPE(pipesim::gui::Step)
