#include "gui/window/playground_panel.h"

#include <QComboBox>
#include <QDoubleSpinBox>
#include <QEvent>
#include <QFrame>
#include <QGridLayout>
#include <QHBoxLayout>
#include <QKeyEvent>
#include <QLabel>
#include <QScrollArea>
#include <QSpinBox>
#include <QToolButton>
#include <QVBoxLayout>
#include <algorithm>
#include <cmath>
#include <utility>

namespace pipesim::gui {
namespace {

constexpr double ns_per_ms = 1e6;
constexpr double bytes_per_mib = 1 << 20;
constexpr double bytes_per_gib = 1 << 30;

QString text_of(const std::string& text) { return QString::fromStdString(text); }

QLabel* make_words(const char* name, QWidget* parent) {
  auto* words = new QLabel(parent);
  words->setObjectName(name);
  words->setTextFormat(Qt::PlainText);
  words->setWordWrap(true);
  words->setTextInteractionFlags(Qt::TextSelectableByMouse);
  words->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);
  return words;
}

// Fields next to their names, two pairs per row.
class Form {
 public:
  explicit Form(QWidget* parent) : parent_(parent), grid_(new QGridLayout(parent)) {
    grid_->setContentsMargins(0, 0, 0, 0);
    grid_->setHorizontalSpacing(6);
    grid_->setVerticalSpacing(3);
    grid_->setColumnStretch(1, 1);
    grid_->setColumnStretch(3, 1);
  }
  void add(const QString& name, QWidget* field, bool whole_row = false) {
    auto* label = new QLabel(name, parent_);
    label->setBuddy(field);
    label->setToolTip(field->toolTip());
    field->setAccessibleName(name);
    if (whole_row && column_ > 0) next_row();
    grid_->addWidget(label, row_, column_);
    grid_->addWidget(field, row_, column_ + 1, 1, whole_row ? 3 : 1);
    column_ += 2;
    if (whole_row || column_ == 4) next_row();
  }

 private:
  void next_row() {
    ++row_;
    column_ = 0;
  }

  QWidget* parent_;
  QGridLayout* grid_;
  int row_ = 0;
  int column_ = 0;
};

// As wide as the panel allows, regardless of its largest value.
template <typename Box>
Box* narrow(Box* box) {
  box->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Fixed);
  box->setMinimumWidth(60);
  return box;
}

QSpinBox* make_count(const char* name, int least, int most, const QString& tip) {
  auto* box = new QSpinBox;
  box->setObjectName(name);
  box->setRange(least, most);
  box->setToolTip(tip);
  return narrow(box);
}

// Shows no zeros at the end: "0.045 ms", "1 ms".
class Quantity : public QDoubleSpinBox {
 public:
  QString textFromValue(double value) const override {
    QLocale numbers = locale();
    numbers.setNumberOptions(QLocale::OmitGroupSeparator);
    QString text = numbers.toString(value, 'f', decimals());
    const QString point = numbers.decimalPoint();
    if (!text.contains(point)) return text;
    while (text.endsWith(numbers.zeroDigit())) text.chop(1);
    if (text.endsWith(point)) text.chop(point.size());
    return text;
  }
};

QDoubleSpinBox* make_quantity(const char* name, const QString& unit, double most, int decimals,
                              const QString& tip) {
  QDoubleSpinBox* box = new Quantity;
  box->setObjectName(name);
  box->setRange(0, most);
  box->setDecimals(decimals);
  box->setSuffix(unit);
  box->setStepType(QAbstractSpinBox::AdaptiveDecimalStepType);
  box->setToolTip(tip);
  return narrow(box);
}

// Rounds a quantity to its unit once.
std::int64_t whole(double value, double unit) {
  return static_cast<std::int64_t>(std::llround(value * unit));
}

}  // namespace

PlaygroundPanel::PlaygroundPanel(QWidget* parent)
    : QWidget(parent),
      offers_(offers()),
      lessons_(lessons()),
      played_(std::make_shared<const Played>()) {
  qRegisterMetaType<std::shared_ptr<const Played>>();
  qRegisterMetaType<Step>();
  auto* content = new QWidget;
  auto* column = new QVBoxLayout(content);
  column->setContentsMargins(8, 4, 8, 4);
  column->setSpacing(4);
  column->addWidget(make_settings());
  column->addWidget(make_results());
  column->addWidget(make_steps());
  column->addStretch(1);
  auto* scroll = new QScrollArea(this);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setWidgetResizable(true);
  scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  scroll->setWidget(content);
  auto* whole_panel = new QVBoxLayout(this);
  whole_panel->setContentsMargins(0, 0, 0, 0);
  whole_panel->addWidget(scroll);
  colour_objection();
  set_settings(Settings());
}

QWidget* PlaygroundPanel::make_settings() {
  auto* widget = new QWidget;
  Form form(widget);
  lesson_ = new QComboBox;
  lesson_->setObjectName("lesson");
  lesson_->setToolTip(tr("Settings to learn from"));
  lesson_->addItem(tr("choose one, or change anything"));
  for (const Lesson& lesson : lessons_) {
    lesson_->addItem(text_of(lesson.name));
    lesson_->setItemData(lesson_->count() - 1, text_of(lesson.text), Qt::ToolTipRole);
  }
  schedule_ = new QComboBox;
  schedule_->setObjectName("schedule");
  for (const Offer& offer : offers_) {
    schedule_->addItem(text_of(offer.title), text_of(offer.name));
    schedule_->setItemData(schedule_->count() - 1, text_of(offer.summary), Qt::ToolTipRole);
  }
  for (QComboBox* box : {lesson_, schedule_}) {
    box->setSizeAdjustPolicy(QComboBox::AdjustToMinimumContentsLengthWithIcon);
    box->setMinimumContentsLength(10);
  }
  stages_ = make_count("stages", 1, largest_stages, tr("Ranks of the pipeline, p"));
  chunks_ = make_count("chunks", 1, largest_chunks,
                       tr("Virtual stages per rank, v; a rank's work stays the same"));
  microbatches_ =
      make_count("microbatches", 1, largest_microbatches, tr("Microbatches per iteration, m"));
  const auto time = [&](const char* name, const QString& tip) {
    return make_quantity(name, tr(" ms"), 1e6, 3, tip);
  };
  latency_ = time("latency", tr("Of messages from rank to rank"));
  forward_ = time("forward", tr("F: a chunk's forward of a microbatch"));
  input_ = time("input", tr("I: the gradient of a chunk's input; B is I and W in one"));
  weight_ = time("weight", tr("W: the gradient of a chunk's weights"));
  activation_ = make_quantity("activation", tr(" MiB"), 1 << 20, 1,
                              tr("Bytes that a chunk keeps per microbatch from F to B"));
  cap_ = make_quantity("cap", tr(" GiB"), 1 << 16, 2, tr("Memory per rank"));
  cap_->setSpecialValueText(tr("any"));
  slow_stage_ = make_count("slow_stage", -1, 0, tr("A stage that takes longer than the others"));
  slow_stage_->setSpecialValueText(tr("none"));
  slow_percent_ = make_count("slow_percent", 1, 1000, tr("Its times, relative to the others'"));
  slow_percent_->setSuffix(tr(" %"));
  slow_percent_->setSingleStep(10);

  form.add(tr("Lesson"), lesson_, true);
  form.add(tr("Schedule"), schedule_, true);
  form.add(tr("Stages"), stages_);
  form.add(tr("Chunks"), chunks_);
  form.add(tr("Microbatches"), microbatches_);
  form.add(tr("Latency"), latency_);
  auto* times = new QWidget;
  auto* row = new QHBoxLayout(times);
  row->setContentsMargins(0, 0, 0, 0);
  row->setSpacing(4);
  for (QDoubleSpinBox* box : {forward_, input_, weight_}) {
    box->setAccessibleName(box->toolTip());
    row->addWidget(box, 1);
  }
  form.add(tr("F, I, W"), times, true);
  form.add(tr("Activation"), activation_);
  form.add(tr("Memory"), cap_);
  form.add(tr("Slow stage"), slow_stage_);
  form.add(tr("takes"), slow_percent_);

  connect(lesson_, qOverload<int>(&QComboBox::activated), this, [this](int index) {
    if (index > 0) set_settings(lessons_[static_cast<std::size_t>(index) - 1].settings);
  });
  connect(schedule_, qOverload<int>(&QComboBox::currentIndexChanged), this,
          &PlaygroundPanel::choose_schedule);
  connect(chunks_, qOverload<int>(&QSpinBox::valueChanged), this, [this] {
    if (!putting_) keep_work();
    replay();
  });
  for (QSpinBox* box : {stages_, microbatches_, slow_stage_, slow_percent_}) {
    connect(box, qOverload<int>(&QSpinBox::valueChanged), this, &PlaygroundPanel::replay);
  }
  for (QDoubleSpinBox* box : {latency_, forward_, input_, weight_, activation_, cap_}) {
    connect(box, qOverload<double>(&QDoubleSpinBox::valueChanged), this, &PlaygroundPanel::replay);
  }
  return widget;
}

QWidget* PlaygroundPanel::make_results() {
  auto* widget = new QWidget;
  auto* grid = new QGridLayout(widget);
  grid->setContentsMargins(0, 0, 0, 0);
  grid->setHorizontalSpacing(6);
  grid->setVerticalSpacing(1);
  grid->setColumnStretch(1, 1);
  lesson_text_ = make_words("lesson_text", widget);
  objection_ = make_words("objection", widget);
  verdict_ = make_words("verdict", widget);
  QFont bold = verdict_->font();
  bold.setBold(true);
  verdict_->setFont(bold);
  bubble_ = make_words("bubble", widget);
  formula_ = make_words("formula", widget);
  messages_ = make_words("messages", widget);
  memory_ = make_words("memory", widget);
  grid->addWidget(lesson_text_, 0, 0, 1, 2);
  grid->addWidget(objection_, 1, 0, 1, 2);
  grid->addWidget(verdict_, 2, 0, 1, 2);
  int row = 3;
  for (const auto& [name, words] :
       {std::pair(tr("Bubble"), bubble_), std::pair(tr("On paper"), formula_),
        std::pair(tr("Messages"), messages_), std::pair(tr("Keeps"), memory_)}) {
    grid->addWidget(new QLabel(name, widget), row, 0, Qt::AlignTop);
    grid->addWidget(words, row++, 1);
  }
  return widget;
}

QWidget* PlaygroundPanel::make_steps() {
  auto* widget = new QWidget;
  auto* column = new QVBoxLayout(widget);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(3);
  auto* row = new QHBoxLayout;
  row->setSpacing(2);
  auto* label = new QLabel(tr("Follow"), widget);
  microbatch_ = make_count("microbatch", 0, 0, tr("The microbatch to follow, step by step"));
  microbatch_->setPrefix(tr("microbatch "));
  microbatch_->setAccessibleName(microbatch_->toolTip());
  label->setBuddy(microbatch_);
  row->addWidget(label);
  row->addWidget(microbatch_, 1);
  struct Button {
    const char* name;
    const char* text;
    QString tip;
    void (PlaygroundPanel::*act)();
  };
  const Button buttons[] = {
      {"first", "|<", tr("First step (Home)"), &PlaygroundPanel::step_first},
      {"back", "<", tr("One step back (Left)"), &PlaygroundPanel::step_back},
      {"on", ">", tr("One step forward (Right, Space)"), &PlaygroundPanel::step_on},
      {"last", ">|", tr("Last step (End)"), &PlaygroundPanel::step_last},
      {"leave", "x", tr("Leave the steps"), &PlaygroundPanel::leave_steps}};
  for (const Button& one : buttons) {
    auto* button = new QToolButton(widget);
    button->setObjectName(one.name);
    button->setText(QString::fromLatin1(one.text));
    button->setToolTip(one.tip);
    button->setAccessibleName(one.tip);
    button->setFocusPolicy(Qt::StrongFocus);
    button->setFixedWidth(button->fontMetrics().horizontalAdvance(QStringLiteral("|<")) + 14);
    button->installEventFilter(this);
    connect(button, &QToolButton::clicked, this, one.act);
    row->addWidget(button);
    step_buttons_.push_back(button);
  }
  leave_ = step_buttons_.back();
  step_text_ = make_words("step", widget);
  step_text_->setFocusPolicy(Qt::ClickFocus);
  step_text_->setAlignment(Qt::AlignTop | Qt::AlignLeft);
  step_text_->installEventFilter(this);
  column->addLayout(row);
  column->addWidget(step_text_);
  connect(microbatch_, qOverload<int>(&QSpinBox::valueChanged), this, [this] {
    if (!putting_ && step_ >= 0) step_first();
  });
  return widget;
}

void PlaygroundPanel::set_settings(const Settings& settings) {
  put(settings);
  replay();
}

// Sets the fields, which clamp values that they can't show.
void PlaygroundPanel::put(const Settings& settings) {
  putting_ = true;
  const int at = schedule_->findData(text_of(settings.schedule));
  if (at >= 0) schedule_->setCurrentIndex(at);
  stages_->setValue(settings.stages);
  chunks_->setValue(settings.virtual_stages);
  microbatches_->setValue(settings.microbatches);
  const auto quantity = [](QDoubleSpinBox* box, std::int64_t value, double unit) {
    box->setValue(static_cast<double>(value) / unit);
  };
  quantity(forward_, settings.forward_ns, ns_per_ms);
  quantity(input_, settings.input_ns, ns_per_ms);
  quantity(weight_, settings.weight_ns, ns_per_ms);
  quantity(latency_, settings.latency_ns, ns_per_ms);
  quantity(activation_, settings.activation_bytes, bytes_per_mib);
  quantity(cap_, settings.memory_cap_bytes.value_or(0), bytes_per_gib);
  slow_stage_->setMaximum(settings.stages * settings.virtual_stages - 1);
  slow_stage_->setValue(settings.slow_stage.value_or(-1));
  slow_percent_->setValue(settings.slow_stage ? settings.slow_percent : 150);
  putting_ = false;
}

// With at least its default number of chunks, if that can vary.
void PlaygroundPanel::choose_schedule() {
  if (putting_) return;
  const Offer& offer = offers_[static_cast<std::size_t>(schedule_->currentIndex())];
  putting_ = true;
  chunks_->setValue(offer.takes_chunks ? std::max(offer.default_chunks, chunks_->value())
                                       : offer.default_chunks);
  putting_ = false;
  keep_work();
  replay();
}

// Keeps a rank's work when its number of chunks changes: each has a part of the same model.
void PlaygroundPanel::keep_work() {
  putting_ = true;
  const double share = static_cast<double>(played_->settings.virtual_stages) / chunks_->value();
  for (QDoubleSpinBox* box : {forward_, input_, weight_, activation_}) {
    box->setValue(box->value() * share);
  }
  putting_ = false;
}

Settings PlaygroundPanel::read() const {
  Settings settings;
  settings.schedule = schedule_->currentData().toString().toStdString();
  settings.stages = stages_->value();
  settings.virtual_stages = chunks_->value();
  settings.microbatches = microbatches_->value();
  settings.forward_ns = whole(forward_->value(), ns_per_ms);
  settings.input_ns = whole(input_->value(), ns_per_ms);
  settings.weight_ns = whole(weight_->value(), ns_per_ms);
  settings.latency_ns = whole(latency_->value(), ns_per_ms);
  settings.activation_bytes = whole(activation_->value(), bytes_per_mib);
  if (cap_->value() > 0) settings.memory_cap_bytes = whole(cap_->value(), bytes_per_gib);
  if (slow_stage_->value() >= 0) {
    settings.slow_stage = slow_stage_->value();
    settings.slow_percent = slow_percent_->value();
  }
  return settings;
}

void PlaygroundPanel::replay() {
  if (putting_) return;
  adapt();
  const Settings settings = read();
  played_ = std::make_shared<const Played>(Played{settings, play(settings)});
  show_outcome();
  emit played(played_);
  if (step_ < 0) return;
  steps_ = outcome().trace ? steps_of(*outcome().trace, trace_, microbatch_->value())
                           : std::vector<Step>();
  show_step(std::min(step_, static_cast<int>(steps_.size()) - 1));
}

// The ranges of fields depend on other fields.
void PlaygroundPanel::adapt() {
  putting_ = true;
  const Offer& offer = offers_[static_cast<std::size_t>(schedule_->currentIndex())];
  schedule_->setToolTip(text_of(offer.summary));
  chunks_->setEnabled(offer.takes_chunks);
  chunks_->setToolTip(offer.takes_chunks
                          ? tr("Virtual stages per rank, v; its work stays the same")
                          : tr("This schedule has a fixed number of virtual stages per rank"));
  slow_stage_->setMaximum(stages_->value() * chunks_->value() - 1);
  slow_percent_->setEnabled(slow_stage_->value() >= 0);
  slow_percent_->setToolTip(slow_stage_->value() >= 0 ? tr("Its times, relative to the others'")
                                                      : tr("No stage is slow: choose one"));
  microbatch_->setMaximum(microbatches_->value() - 1);
  const Settings now = read();
  const auto lesson = std::ranges::find(lessons_, now, &Lesson::settings);
  lesson_->setCurrentIndex(
      lesson == lessons_.end() ? 0 : static_cast<int>(lesson - lessons_.begin()) + 1);
  lesson_text_->setText(lesson == lessons_.end() ? QString() : text_of(lesson->text));
  lesson_text_->setVisible(lesson != lessons_.end());
  putting_ = false;
}

void PlaygroundPanel::show_outcome() {
  const Outcome& now = outcome();
  const bool played_it = now.trace != nullptr;
  objection_->setText(text_of(now.objection));
  objection_->setVisible(!played_it);
  verdict_->setVisible(played_it);
  // The previous result does not belong to these settings.
  verdict_->setText(text_of(now.verdict));
  bubble_->setText(played_it ? text_of(now.bubble) : "-");
  formula_->setText(played_it ? text_of(now.formula) : "-");
  messages_->setText(played_it ? text_of(now.messages) : "-");
  memory_->setText(played_it ? text_of(now.memory) : "-");
  for (QToolButton* button : step_buttons_) button->setEnabled(played_it);
  if (step_ < 0) show_step(-1);
}

void PlaygroundPanel::set_trace(int trace) {
  if (trace == trace_) return;
  trace_ = trace;
  if (step_ < 0 || !outcome().trace) return;
  steps_ = steps_of(*outcome().trace, trace_, microbatch_->value());
  show_step(std::min(step_, static_cast<int>(steps_.size()) - 1));
}

void PlaygroundPanel::show_step(int step) {
  const bool was_shown = step_ >= 0;
  step_ = step;
  leave_->setEnabled(step_ >= 0);
  if (step_ < 0) {
    steps_.clear();
    step_text_->setText(
        tr("> follows it from its first forward to its last backward, and says "
           "what each action waited for."));
    if (was_shown) emit steps_left();
    return;
  }
  const Step& shown = steps_[static_cast<std::size_t>(step_)];
  step_text_->setText(
      tr("%1 of %2: %3.").arg(step_ + 1).arg(steps_.size()).arg(text_of(shown.text)));
  emit step_shown(shown);
}

void PlaygroundPanel::step_first() {
  if (!outcome().trace) return;
  steps_ = steps_of(*outcome().trace, trace_, microbatch_->value());
  show_step(steps_.empty() ? -1 : 0);
}

void PlaygroundPanel::step_last() {
  if (step_ < 0) step_first();
  if (step_ >= 0) show_step(static_cast<int>(steps_.size()) - 1);
}

void PlaygroundPanel::step_on() {
  if (step_ < 0) {
    step_first();
  } else if (step_ + 1 < static_cast<int>(steps_.size())) {
    show_step(step_ + 1);
  }
}

void PlaygroundPanel::step_back() {
  if (step_ > 0) show_step(step_ - 1);
}

void PlaygroundPanel::leave_steps() { show_step(-1); }

bool PlaygroundPanel::step_by_key(int key) {
  switch (key) {
    case Qt::Key_Space:
    case Qt::Key_Right: step_on(); return true;
    case Qt::Key_Left: step_back(); return true;
    case Qt::Key_Home: step_first(); return true;
    case Qt::Key_End: step_last(); return true;
    default: return false;
  }
}

namespace {

// The step of a key without modifiers; the window has the same keys for its timeline.
int step_key(QEvent* event) {
  if (event->type() != QEvent::ShortcutOverride && event->type() != QEvent::KeyPress) return 0;
  const auto* key = static_cast<QKeyEvent*>(event);
  const bool alone = (key->modifiers() & ~Qt::KeypadModifier) == Qt::NoModifier;
  const bool steps = key->key() == Qt::Key_Space || key->key() == Qt::Key_Left ||
                     key->key() == Qt::Key_Right || key->key() == Qt::Key_Home ||
                     key->key() == Qt::Key_End;
  return alone && steps ? key->key() : 0;
}

}  // namespace

// Keys not consumed by a field are the panel's, before the window's.
bool PlaygroundPanel::event(QEvent* event) {
  if (const int key = step_key(event)) {
    event->accept();
    return event->type() == QEvent::ShortcutOverride || step_by_key(key);
  }
  return QWidget::event(event);
}

// For a button with the focus; Space presses it.
bool PlaygroundPanel::eventFilter(QObject* object, QEvent* event) {
  if (const int key = step_key(event)) {
    if (key != Qt::Key_Space || qobject_cast<QToolButton*>(object) == nullptr) {
      event->accept();
      return event->type() == QEvent::ShortcutOverride || step_by_key(key);
    }
  }
  return QWidget::eventFilter(object, event);
}

void PlaygroundPanel::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) colour_objection();
}

void PlaygroundPanel::colour_objection() {
  if (objection_ == nullptr) return;
  QPalette colours = palette();
  const bool is_dark = colours.color(QPalette::Window).lightness() < 128;
  colours.setColor(QPalette::WindowText,
                   is_dark ? QColor(0xe8, 0x9a, 0x86) : QColor(0xa0, 0x3a, 0x22));
  objection_->setPalette(colours);
}

}  // namespace pipesim::gui
