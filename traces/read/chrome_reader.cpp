#include "traces/read/chrome_reader.h"

#include <fmt/format.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <array>
#include <deque>
#include <utility>
#include <vector>

#include "traces/base/decimal.h"
#include "traces/base/error.h"
#include "traces/base/json_window.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"
#include "traces/base/utf8.h"
#include "traces/read/foreign_file.h"

namespace pipesim {
namespace {

constexpr int deepest_argument = 64;
// Limits on names of nested arguments, "outer.inner": so many bytes in any case, and so many for
// each of the event's text.
constexpr std::size_t short_names = std::size_t{1} << 14;
constexpr std::size_t longest_names = 8;
// The longest text of an event.
constexpr std::int64_t longest_event = std::int64_t{16} << 20;
constexpr std::int64_t latest_ns = (std::int64_t{1} << 61) - 1;

// Strings stay in the window, unescaped in place; numbers are passed as text.
template <typename Handler>
bool parse(std::span<char> text, Handler& handler) {
  constexpr unsigned flags = rapidjson::kParseInsituFlag | rapidjson::kParseNumbersAsStringsFlag |
                             rapidjson::kParseNanAndInfFlag | rapidjson::kParseTrailingCommasFlag;
  rapidjson::InsituStringStream stream(text.data());
  rapidjson::Reader reader;
  return !reader.Parse<flags>(stream, handler).IsError();
}

// Parses one event. Its text must outlive the event.
class EventHandler {
 public:
  // Call before an event whose text has so many bytes.
  void clear(std::size_t bytes) {
    fields_ = {};
    members_ = 0;
    depth_ = 0;
    lists_ = 0;
    field_ = Field::other;
    prefix_.clear();
    prefix_ends_.clear();
    args_.clear();
    names_used_ = 0;
    names_left_ = short_names + longest_names * bytes;
    names_too_long_ = false;
  }

  bool Null() { return scalar(depth_ == 1 ? std::string_view() : "null"); }
  bool Bool(bool value) { return scalar(value ? "true" : "false"); }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    return scalar({text, length});
  }
  bool String(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    return scalar({text, length});
  }
  bool Int(int /*value*/) { return false; }  // not called: the flags ask for text
  bool Uint(unsigned /*value*/) { return false; }
  bool Int64(std::int64_t /*value*/) { return false; }
  bool Uint64(std::uint64_t /*value*/) { return false; }
  bool Double(double /*value*/) { return false; }

  bool Key(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    const std::string_view key(text, length);
    if (depth_ == 1) {
      ++members_;
      field_ = field_of(key);
      if (field_ == Field::args) args_.clear();
    } else if (lists_ == 0 && field_ == Field::args) {
      if (prefix_.empty()) {
        key_ = key;
      } else {
        join(key);
      }
    }
    return true;
  }
  bool StartObject() {
    if (++depth_ > 2 && lists_ == 0 && field_ == Field::args) {
      prefix_ends_.push_back(prefix_.size());
      if (!names_too_long_) {
        prefix_ = key_;
        prefix_ += '.';
      }
    }
    return true;
  }
  bool EndObject(rapidjson::SizeType /*members*/) {
    if (--depth_ >= 2 && lists_ == 0 && field_ == Field::args) {
      prefix_.resize(prefix_ends_.back());
      prefix_ends_.pop_back();
    }
    return true;
  }
  bool StartArray() {
    ++lists_;
    return true;
  }
  bool EndArray(rapidjson::SizeType /*items*/) {
    --lists_;
    return true;
  }

  // Of the event read last.
  std::int64_t members() const { return members_; }
  std::string_view name() const { return of(Field::name); }
  std::string_view category() const { return of(Field::category); }
  std::string_view phase() const { return of(Field::phase); }
  std::string_view ts() const { return of(Field::ts); }
  std::string_view dur() const { return of(Field::dur); }
  std::string_view pid() const { return of(Field::pid); }
  std::string_view tid() const { return of(Field::tid); }
  std::string_view id() const { return of(Field::id); }
  bool binds_enclosing() const { return of(Field::binding) == "e"; }
  std::span<const TraceArgument> args() const { return args_; }
  // Arguments from there on are skipped.
  bool names_too_long() const { return names_too_long_; }

 private:
  enum class Field : std::uint8_t {
    name,
    category,
    phase,
    ts,
    dur,
    pid,
    tid,
    id,
    binding,
    args,
    other,
  };

  static Field field_of(std::string_view key) {
    switch (key.size()) {
      case 2:
        if (key == "ph") return Field::phase;
        if (key == "ts") return Field::ts;
        if (key == "id") return Field::id;
        if (key == "bp") return Field::binding;
        break;
      case 3:
        if (key == "pid") return Field::pid;
        if (key == "tid") return Field::tid;
        if (key == "dur") return Field::dur;
        if (key == "cat") return Field::category;
        if (key == "id2") return Field::id;
        break;
      case 4:
        if (key == "name") return Field::name;
        if (key == "args") return Field::args;
        break;
      default: break;
    }
    return Field::other;
  }

  std::string_view of(Field field) const { return fields_[static_cast<std::size_t>(field)]; }

  bool scalar(std::string_view text) {
    if (lists_ > 0) return true;
    if (depth_ > 1 && field_ == Field::args) {
      if (!names_too_long_) args_.push_back({key_, text});
    } else if (depth_ == 1 || field_ == Field::id) {  // "id2": {"local": "0x7"}
      fields_[static_cast<std::size_t>(field_)] = text;
    }
    return true;
  }

  void join(std::string_view key) {
    const std::size_t bytes = prefix_.size() + key.size();
    names_too_long_ = names_too_long_ || bytes > names_left_;
    if (names_too_long_) return;
    names_left_ -= bytes;
    if (names_used_ == names_.size()) names_.emplace_back();
    std::string& name = names_[names_used_++];
    name = prefix_;
    name += key;
    key_ = name;
  }

  std::array<std::string_view, 11> fields_;
  std::int64_t members_ = 0;
  int depth_ = 0;  // of objects, including those in lists
  int lists_ = 0;  // around the position
  Field field_ = Field::other;
  std::string_view key_;
  std::string prefix_;  // of keys within an object of the args
  std::vector<std::size_t> prefix_ends_;
  std::vector<TraceArgument> args_;
  std::deque<std::string> names_;  // of nested arguments; addresses are stable
  std::size_t names_used_ = 0;
  std::size_t names_left_ = 0;  // bytes
  bool names_too_long_ = false;
};

// Rewrites the parsed text as strict JSON.
class StrictWriter {
 public:
  bool Null() { return writer_.Null(); }
  bool Bool(bool value) { return writer_.Bool(value); }
  bool RawNumber(const char* text, rapidjson::SizeType length, bool /*copy*/) {
    const bool is_finite = text[length - 1] >= '0' && text[length - 1] <= '9';
    return is_finite ? writer_.RawValue(text, length, rapidjson::kNumberType) : writer_.Null();
  }
  bool String(const char* text, rapidjson::SizeType length, bool copy) {
    const bool is_ascii = std::all_of(text, text + length,
                                      [](char c) { return static_cast<unsigned char>(c) < 128; });
    if (is_ascii) return writer_.String(text, length, copy);
    const std::string valid = valid_utf8({text, length});
    return writer_.String(valid.data(), static_cast<rapidjson::SizeType>(valid.size()), true);
  }
  bool Key(const char* text, rapidjson::SizeType length, bool copy) {
    return String(text, length, copy);
  }
  bool Int(int /*value*/) { return false; }  // not called: the flags ask for text
  bool Uint(unsigned /*value*/) { return false; }
  bool Int64(std::int64_t /*value*/) { return false; }
  bool Uint64(std::uint64_t /*value*/) { return false; }
  bool Double(double /*value*/) { return false; }
  bool StartObject() { return writer_.StartObject(); }
  bool EndObject(rapidjson::SizeType members) { return writer_.EndObject(members); }
  bool StartArray() { return writer_.StartArray(); }
  bool EndArray(rapidjson::SizeType items) { return writer_.EndArray(items); }

  std::string text() const { return {buffer_.GetString(), buffer_.GetSize()}; }

 private:
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_{buffer_};
};

// The string that `text` is, with its quotation marks, as JSON.
std::optional<std::string> string_of(std::span<char> text) {
  struct : rapidjson::BaseReaderHandler<> {
    bool String(const char* value, rapidjson::SizeType length, bool /*copy*/) {
      string = std::string(value, length);
      return true;
    }
    std::optional<std::string> string;
  } handler;
  return parse(text, handler) ? handler.string : std::nullopt;
}

class TraceReader {
 public:
  TraceReader(const std::string& path, const std::function<void(const ChromeEvent&)>* visit,
              Warnings& warnings, const ReadProgress& progress)
      : path_(path), visit_(visit), warnings_(warnings), progress_(progress), window_(path) {}

  ChromeTrace read() {
    switch (window_.peek()) {
      case '[': open_events(); break;
      case '{': read_object(); break;
      default:
        if (window_.file().damaged() && window_.head().empty()) {
          throw input_error(fmt::format(
              "{}: the compressed data are damaged from the start; copy or record it again",
              path_));
        }
        throw no_trace(path_, window_.head());
    }
    if (is_done_) return std::move(trace_);
    if (!trace_.truncated && window_.peek() != '\0') {
      warnings_.add("text after the end of the trace, left out", byte());
    }
    if (window_.file().damaged()) {
      warnings_.add("the compressed data break off or are damaged", path_);
    }
    if (trace_.events == 0 && strange_ > 0) {
      throw input_error(fmt::format(
          "{}: not a Chrome trace: of {} in its list none is an event with a phase (ph)", path_,
          plural(elements_, "element")));
    }
    return std::move(trace_);
  }

 private:
  std::string byte() const {
    return fmt::format("{}: byte {}", path_, format_count(window_.offset()));
  }
  std::string element() const {
    return fmt::format("{}: event {}", path_, format_count(elements_ - 1));
  }

  // The file ends, or continues with invalid JSON.
  void break_off(bool ends) {
    trace_.truncated = true;
    ends_ = ends;
    warnings_.add(
        fmt::format("the file {} after {}", ends ? "ends in the middle," : "is damaged here,",
                    plural(trace_.events, "complete event")),
        byte());
  }

  char next_but_commas() {
    while (window_.peek() == ',') window_.skip();
    return window_.peek();
  }

  void read_object() {
    window_.skip();
    bool has_events = false;
    for (;;) {
      const char next = next_but_commas();
      if (next == '}') {
        window_.skip();
        break;
      }
      if (next != '"') break_off(next == '\0');
      if (!trace_.truncated) read_member(has_events);
      if (is_done_) return;
      if (trace_.truncated) break;
    }
    if (has_events) return;
    if (trace_.truncated) {
      throw input_error(
          fmt::format("{}: no event in it: the file {} before traceEvents; copy or record it again",
                      byte(), ends_ ? "ends" : "is no JSON from here on,"));
    }
    throw no_trace(path_, trace_.members);
  }

  void read_member(bool& has_events) {
    const auto written = window_.take();
    const auto key = written ? string_of(written->text) : std::nullopt;
    if (!key || window_.peek() != ':') return break_off(!written || window_.peek() == '\0');
    window_.skip();
    if (*key == "traceEvents" && window_.peek() == '[') {
      has_events = true;
      open_events();
      return;
    }
    const auto value = window_.take();
    if (!value || value->text.empty()) return break_off(!value);
    StrictWriter writer;
    if (value->depth > deepest_argument || !parse(value->text, writer)) {
      warnings_.add(fmt::format("member {} is not JSON or nested deeper than {} levels, left out",
                                quote(*key), deepest_argument),
                    path_);
      return;
    }
    std::string text = writer.text();
    member_bytes_ += key->size() + text.size();
    if (member_bytes_ > JsonWindow::most_bytes) {
      throw input_error(fmt::format("{}: has more than {} besides its events; remove some of it",
                                    path_, format_bytes(JsonWindow::most_bytes)));
    }
    trace_.members[*key] = std::move(text);
  }

  void open_events() {
    is_done_ = visit_ == nullptr;
    if (!is_done_) read_events();
  }

  void read_events() {
    window_.skip();
    for (;;) {
      const char next = next_but_commas();
      if (next == ']') {
        window_.skip();
        return;
      }
      const auto value = next == '\0' ? std::nullopt : window_.take();
      if (!value || value->text.empty()) return break_off(!value);
      ++elements_;
      if (window_.offset() >= next_look_) report_progress();
      if (window_.offset() >= next_memory_look_) look_for_memory();
      if (next != '{') {
        ++strange_;
        warnings_.add("elements that are not events, left out", element());
      } else if (std::ssize(value->text) > longest_event) {
        warnings_.add(fmt::format("events of more than {}, left out", format_bytes(longest_event)),
                      element());
      } else if (value->depth > deepest_argument) {
        warnings_.add(
            fmt::format("events nested deeper than {} levels, left out", deepest_argument),
            element());
      } else {
        handler_.clear(value->text.size());
        if (parse(value->text, handler_)) {
          if (handler_.names_too_long()) {
            warnings_.add(fmt::format("names of nested arguments longer than {} times their event, "
                                      "left out with those behind",
                                      longest_names),
                          element());
          }
          visit_event();
        } else {
          warnings_.add("events that are not JSON, left out", element());
        }
      }
    }
  }

  // Visitors keep events, and there may be any number.
  void look_for_memory() {
    constexpr std::int64_t least = std::int64_t{256} << 20;  // 64 times the bytes read until then
    next_memory_look_ = window_.offset() + memory_stretch;
    if (available_memory_bytes() >= least) return;
    throw input_error(fmt::format("{}: memory runs out after {}; open a part of it", path_,
                                  plural(trace_.events, "event")));
  }

  void report_progress() {
    constexpr std::int64_t stretch = std::int64_t{1} << 16;
    next_look_ = window_.offset() + stretch;
    if (!progress_) return;
    const double share = window_.file().share_read();
    if (share < reported_ + 0.01) return;
    reported_ = share;
    progress_(share);
  }

  // A time in microseconds; `fits` becomes false if it is too large.
  std::optional<std::int64_t> time_of(std::string_view text, bool& fits) {
    if (text.empty()) return std::nullopt;
    const ScaledDecimal ns = scale_decimal(text, 3);
    if (ns.status == ScaledDecimal::Status::not_a_number) {
      warnings_.add("times that are not numbers, left out", element());
      return std::nullopt;
    }
    if (ns.status == ScaledDecimal::Status::out_of_range || ns.value > latest_ns ||
        ns.value < -latest_ns) {
      fits = false;
    }
    return ns.value;
  }

  void visit_event() {
    if (handler_.members() == 0) return;  // a writer's way to end its list
    if (handler_.phase().size() != 1) {
      ++strange_;
      warnings_.add("events without a phase (ph), left out", element());
      return;
    }
    bool fits = true;
    ChromeEvent event;
    event.phase = handler_.phase().front();
    event.name = handler_.name();
    event.category = handler_.category();
    event.ts_ns = time_of(handler_.ts(), fits);
    event.dur_ns = time_of(handler_.dur(), fits);
    event.pid = handler_.pid();
    event.tid = handler_.tid();
    event.id = handler_.id();
    event.binds_enclosing = handler_.binds_enclosing();
    event.args = handler_.args();
    event.index = elements_ - 1;
    if (fits && event.phase == 'X' && !event.ts_ns) {
      warnings_.add("X events without ts, left out", element());
      return;
    }
    if (fits && event.phase == 'X' && !event.dur_ns) {
      warnings_.add("X events without dur, taken as 0", element());
      event.dur_ns = 0;
    }
    if (event.dur_ns && *event.dur_ns < 0) {
      warnings_.add("negative durations, taken as 0", element());
      event.dur_ns = 0;
    }
    if (fits && event.ts_ns && event.dur_ns) fits = *event.ts_ns <= latest_ns - *event.dur_ns;
    if (!fits) {
      warnings_.add("events whose times are out of range, left out", element());
      return;
    }
    ++trace_.events;
    (*visit_)(event);
  }

  const std::string& path_;
  const std::function<void(const ChromeEvent&)>* visit_;  // none: the head will do
  Warnings& warnings_;
  const ReadProgress& progress_;
  JsonWindow window_;
  EventHandler handler_;
  ChromeTrace trace_;
  std::int64_t elements_ = 0;  // of traceEvents
  std::int64_t strange_ = 0;   // unlike any known writer's
  std::size_t member_bytes_ = 0;
  std::int64_t next_look_ = 0;  // the offset of the next check
  static constexpr std::int64_t memory_stretch = std::int64_t{4} << 20;
  std::int64_t next_memory_look_ = memory_stretch;
  double reported_ = 0;
  bool is_done_ = false;  // with the head
  bool ends_ = false;     // at the end of a truncated file
};

}  // namespace

std::string_view ChromeEvent::argument(std::string_view key) const {
  for (std::size_t i = args.size(); i-- > 0;) {
    if (args[i].key == key) return args[i].text;
  }
  return {};
}

ChromeTrace read_chrome_trace(const std::string& path,
                              const std::function<void(const ChromeEvent&)>& visit,
                              Warnings& warnings, const ReadProgress& progress) {
  return TraceReader(path, &visit, warnings, progress).read();
}

ChromeTrace read_chrome_head(const std::string& path) {
  Warnings ignored;
  return TraceReader(path, nullptr, ignored, {}).read();
}

}  // namespace pipesim
