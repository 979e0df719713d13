// A value within JSON text that is known to be valid and to have no blanks between its
// tokens, like the members of a ChromeTrace. Nothing is built: each query searches
// the text, so a value takes no more memory than its text.
//
// Refers to the text, which must outlive it. Plain values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipesim {

class JsonSlice {
 public:
  explicit JsonSlice(std::string_view text) : text_(text) {}

  std::string_view text() const { return text_; }
  bool is_null() const { return text_ == "null"; }
  bool is_object() const { return text_.starts_with('{'); }
  bool is_list() const { return text_.starts_with('['); }

  // A string's content.
  std::optional<std::string> string() const;
  // A whole number of 64 bits, written as one.
  std::optional<std::int64_t> whole() const;

  // The member of an object; the last of several with one name.
  std::optional<JsonSlice> find(std::string_view key) const;
  // The first item of a list that is not empty.
  std::optional<JsonSlice> front() const;
  // Calls use(item) for each of a list, in order.
  template <typename Use>
  void each(Use use) const {
    for (std::size_t at = 1; at + 1 < text_.size();) {
      const JsonSlice item = value_at(at);
      use(item);
      at += item.text_.size() + 1;
    }
  }

 private:
  JsonSlice value_at(std::size_t at) const;

  std::string_view text_;
};

}  // namespace pipesim
