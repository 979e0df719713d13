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

  // The place of a text, a new one where it is not known. The empty text's is 0.
  std::uint32_t place_of(std::string_view text);
  // The same; nothing where it is not known and would make `budget` less than 0.
  std::optional<std::uint32_t> place_of(std::string_view text, std::size_t& budget);

  // By place.
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
