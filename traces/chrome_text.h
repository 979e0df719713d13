// The text of a Chrome trace as it is written: a file of ours begins with what made it, then each
// event has a line.
//
// Owned by one writer, whose file outlives it; one thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "traces/base/files.h"

namespace pipesim {

class ChromeText {
 public:
  // `metadata` is a JSON object: metadata.pipesim.
  ChromeText(OutputFile& file, std::string_view metadata) : file_(file) {
    put(R"({{"displayTimeUnit":"ms","metadata":{{"pipesim":{}}},"traceEvents":[)", metadata);
    text_ += '\n';
  }

  // Before an event.
  void begin_line() {
    constexpr std::size_t at_once = std::size_t{1} << 16;
    if (text_.size() > at_once) flush();
    if (!std::exchange(is_first_, false)) text_ += ",\n";
  }
  template <typename... Arguments>
  void put(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), text, std::forward<Arguments>(arguments)...);
  }
  // Microseconds with three decimals.
  void put_ts(std::int64_t ns) { put(R"("ts":{}.{:03})", ns / 1000, ns % 1000); }
  void put_times(std::int64_t start_ns, std::int64_t end_ns) {
    put_ts(start_ns);
    const std::int64_t ns = end_ns - start_ns;
    put(R"(,"dur":{}.{:03})", ns / 1000, ns % 1000);
  }
  // An event that says something of a process or thread: `arguments` are members.
  void put_name(std::string_view name, int process, int thread, std::string_view arguments) {
    begin_line();
    put(R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{{}}}}})", process, thread, name,
        arguments);
  }
  // For what appends to a text.
  std::string& text() { return text_; }

  void finish() {
    text_ += "\n]}\n";
    flush();
  }

 private:
  void flush() {
    file_.write(text_);
    text_.clear();
  }

  OutputFile& file_;
  std::string text_;
  bool is_first_ = true;  // no event is written yet
};

}  // namespace pipesim
