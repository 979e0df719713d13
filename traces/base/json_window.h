// JSON as other programs write it, from a file of any size, value by value.
//
// A window moves over the text and holds one whole value at a time, for a
// parser to take apart in place. Common deviations from JSON are corrected
// on the way: control characters in strings are blanks here, nan and inf
// NaN and Inf, half a surrogate pair the replacement character. A byte-order mark is
// skipped. One owner, one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "traces/base/files.h"

namespace pipesim {

class JsonWindow {
 public:
  // Plain or gzip.
  explicit JsonWindow(const std::string& path);

  // The next byte that is not a blank, without taking it; 0 at the end of the text.
  char peek();
  // Takes the byte that peek() returned.
  void skip();

  struct Value {
    std::span<char> text;  // valid until the next call, followed by a zero byte
    int depth = 0;         // of lists and objects in it, itself included
  };
  // The value that starts at peek(), matched by brackets: what is
  // between them may not be JSON. Empty if none can start; nothing if the
  // text ends before the value does. Throws if it has more than most_bytes.
  std::optional<Value> take();

  static constexpr std::size_t most_bytes = std::size_t{1} << 28;

  // Position of peek() in the unpacked text, from 0.
  std::int64_t offset() const { return passed_ + static_cast<std::int64_t>(at_); }
  // The first bytes of the text, as they were.
  const std::string& head() const { return head_; }
  const InputFile& file() const { return file_; }

 private:
  // Moves what has not been taken to the front and reads on; whether there was more.
  bool fill();
  std::optional<Value> take_scalar();

  InputFile file_;
  std::string head_;
  std::vector<char> window_;  // text, then a zero byte
  std::size_t at_ = 0;
  std::size_t end_ = 0;
  std::int64_t passed_ = 0;  // bytes before the window
  char behind_ = '\0';       // the byte replaced by the zero after a value, at at_
  bool is_held_ = false;     // the zero is there
  bool at_end_ = false;      // of the file
};

}  // namespace pipesim
