#include "traces/read/event_texts.h"

#include <functional>
#include <utility>

namespace pipesim {
namespace {

std::uint32_t hash_of(std::string_view text) {
  const std::size_t hash = std::hash<std::string_view>()(text);
  return static_cast<std::uint32_t>(hash ^ (hash >> 32));
}

}  // namespace

EventTexts::EventTexts() : texts_(1), entries_(std::size_t{1} << 10) {}

EventTexts::Entry& EventTexts::entry_of(std::string_view text, std::uint32_t hash) {
  const std::size_t mask = entries_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    Entry& entry = entries_[i];
    if (entry.place == 0 || (entry.hash == hash && texts_[entry.place] == text)) return entry;
  }
}

std::uint32_t EventTexts::add(Entry& entry, std::string_view text, std::uint32_t hash) {
  const auto place = static_cast<std::uint32_t>(texts_.size());
  entry = {hash, place};
  texts_.emplace_back(text);
  if (2 * texts_.size() > entries_.size()) grow();
  return place;
}

void EventTexts::grow() {
  const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(2 * entries_.size()));
  const std::size_t mask = entries_.size() - 1;
  for (const Entry& entry : old) {
    if (entry.place == 0) continue;
    std::size_t i = entry.hash & mask;
    while (entries_[i].place != 0) i = (i + 1) & mask;
    entries_[i] = entry;
  }
}

std::uint32_t EventTexts::place_of(std::string_view text) {
  if (text.empty()) return 0;
  const std::uint32_t hash = hash_of(text);
  Entry& entry = entry_of(text, hash);
  return entry.place != 0 ? entry.place : add(entry, text, hash);
}

std::optional<std::uint32_t> EventTexts::place_of(std::string_view text, std::size_t& budget) {
  if (text.empty()) return 0;
  const std::uint32_t hash = hash_of(text);
  Entry& entry = entry_of(text, hash);
  if (entry.place != 0) return entry.place;
  if (text.size() > budget) return std::nullopt;
  budget -= text.size();
  return add(entry, text, hash);
}

}  // namespace pipesim
