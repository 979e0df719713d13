// Texts of events, each kept once. One owner, one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesim {

class EventTexts {
 public:
  EventTexts();

  // The index of a text, a new one if it is unknown. The empty text's is 0.
  std::uint32_t place_of(std::string_view text);
  // The same; nothing if it is unknown and would make `budget` negative.
  std::optional<std::uint32_t> place_of(std::string_view text, std::size_t& budget);

  // By index.
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  struct Entry {
    std::uint32_t hash = 0;
    std::uint32_t place = 0;  // 0: free
  };
  // Where the text's entry is, or would be.
  Entry& entry_of(std::string_view text, std::uint32_t hash);
  std::uint32_t add(Entry& entry, std::string_view text, std::uint32_t hash);
  void grow();

  std::vector<std::string> texts_;
  std::vector<Entry> entries_;  // open addressing; a power of two
};

}  // namespace pipesim
