#include "gui/scene/view.h"

#include <algorithm>
#include <utility>

namespace pipesim::gui {
namespace {

// Whether they differ in nothing but what is picked, emphasised or selected.
bool looks_alike(const View& a, const View& b) {
  View same = a;
  same.picked = b.picked;
  same.emphasised = b.emphasised;
  same.area = b.area;
  return same == b;
}

char small(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + ('a' - 'A')) : letter;
}

bool holds(std::string_view name, std::string_view text) {
  const auto is_same = [](char a, char b) { return small(a) == small(b); };
  return std::search(name.begin(), name.end(), text.begin(), text.end(), is_same) != name.end() ||
         text.empty();
}

}  // namespace

bool passes(const Group& group, std::string_view filter) {
  return holds(group.name, filter) || holds(group.process, filter);
}

History::History(View first) : views_{std::move(first)} {}

void History::push(View view, const std::string& gesture) {
  if (looks_alike(view, now())) {
    views_[now_] = std::move(view);
    return;
  }
  const bool goes_on = !gesture.empty() && gesture == gesture_;
  gesture_ = gesture;
  if (goes_on) {
    views_[now_] = std::move(view);
    return;
  }
  views_.resize(now_ + 1);
  views_.push_back(std::move(view));
  if (views_.size() > most) views_.erase(views_.begin());
  now_ = views_.size() - 1;
}

const View& History::undo() {
  gesture_.clear();
  if (can_undo()) --now_;
  return now();
}

const View& History::redo() {
  gesture_.clear();
  if (can_redo()) ++now_;
  return now();
}

}  // namespace pipesim::gui
