#include "traces/read/input_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>
#include <vector>

#include "traces/base/error.h"
#include "traces/base/json_reader.h"
#include "traces/base/json_slice.h"
#include "traces/base/text.h"
#include "traces/input_clocks.h"
#include "traces/read/chrome_reader.h"
#include "traces/read/native_metadata.h"

namespace pipesim {
namespace {

// An action as read from an event.
struct ToldAction {
  std::int64_t index = 0;  // of the event
  Action action;
  std::int32_t rank = 0;
  std::optional<InputStream> stream;  // if given
  InputSpan span;
};

class InputTraceReader {
 public:
  explicit InputTraceReader(const std::string& path) : path_(path) {}

  InputRun read(const ReadProgress& progress) {
    Warnings odd;
    const ChromeTrace trace = read_chrome_trace(
        path_, [&](const ChromeEvent& event) { take(event); }, odd, progress);
    const auto metadata = input_metadata(trace);
    if (!metadata) {
      throw input_error(fmt::format(
          "{}: it is not a trace of an input pipeline: metadata.pipesim has no input_pipeline",
          path_));
    }
    if (trace.truncated) throw input_error(path_ + ": it breaks off in the middle");
    read_metadata(*metadata);
    place_actions();
    check_order();
    check_sums(run_, path_);
    put_clocks_right(run_, path_);
    check_sums(run_, path_);
    begin_at_zero();
    return std::move(run_);
  }

 private:
  [[noreturn]] void fail(std::int64_t event, const std::string& what) const {
    throw input_error(fmt::format("{}: event {}: {}", path_, event, what));
  }

  void take(const ChromeEvent& event) {
    if (event.phase != 'X') return;
    const std::string_view kind_text = event.argument("kind");
    if (kind_text.empty()) return;
    const auto kind = parse_input_kind(kind_text);
    if (!kind) fail(event.index, "unknown kind " + quote(kind_text));
    ToldAction told;
    told.index = event.index;
    told.action = input_action(*kind, static_cast<std::int32_t>(number(event, "batch", max_count)));
    told.rank = static_cast<std::int32_t>(number(event, "rank", max_count));
    if (const std::string_view name = event.argument("stream"); !name.empty()) {
      told.stream = parse_input_stream(name);
      if (!told.stream) fail(event.index, "unknown stream " + quote(name));
    }
    told.span.called_ns = number(event, "called_ns", max_input_ns);
    told.span.issued_ns = number(event, "issued_ns", max_input_ns);
    told.span.ready_ns = number(event, "ready_ns", max_input_ns);
    told.span.start_ns = *event.ts_ns;
    told.span.end_ns = *event.ts_ns + *event.dur_ns;
    told_.push_back(told);
  }

  std::int64_t number(const ChromeEvent& event, std::string_view key, std::int64_t most) const {
    const std::string_view text = event.argument(key);
    std::int64_t value = -1;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failed != std::errc() || end != text.data() + text.size() || value < 0 || value > most) {
      fail(event.index, fmt::format("{} must be a whole number, not {}", key, quote(text)));
    }
    return value;
  }

  void read_metadata(JsonSlice metadata) {
    const std::string text(metadata.text());
    const std::string name = path_ + ": metadata.pipesim";
    const JsonValue document = parse_json(text, name);
    const JsonCursor cursor(document, name);
    JsonMembers members(cursor);
    members.format(trace_format, 1, old_input_format);
    const JsonCursor source = members.required("source");
    run_.is_measured = source.string() == "measured";
    if (!run_.is_measured && source.string() != "predicted") {
      source.fail(quote(source.string()) + " is neither 'predicted' nor 'measured'");
    }
    const JsonCursor program = members.required("program");
    run_.program = parse_input_program(program.string(), program.place());
    run_.program.name = members.required("input_pipeline").string();
    const auto string = [&](std::string_view key, std::string& to) {
      members.optional(key, [&](const JsonCursor& value) { to = value.string(); });
    };
    string("model", run_.model);
    string("cluster", run_.cluster);
    string("device", run_.device);
    string("transport", run_.transport);
    run_.batch_size = members.integer_or("batch_size", 0, 1, max_count);
    members.optional("memory", [&](const JsonCursor& list) { read_memory(list); });
    members.optional("losses", [&](const JsonCursor& list) {
      for (const JsonCursor& loss : list.array()) {
        run_.losses.push_back(loss.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                             : loss.number());
      }
      if (std::ssize(run_.losses) != run_.program.batches) list.fail("it has a number per batch");
    });
    members.optional("costs",
                     [&](const JsonCursor&) { run_.costs = metadata.find("costs")->text(); });
    members.finish();
  }

  void read_memory(const JsonCursor& list) {
    for (const JsonCursor& rank : list.array()) {
      JsonMembers members(rank);
      const auto bytes = [&](std::string_view key) {
        return members.required(key).integer(0, max_input_bytes);
      };
      InputMemory memory;
      memory.tables = bytes("tables");
      memory.optimizer = bytes("optimizer");
      memory.dense = bytes("dense");
      memory.batches = bytes("batches");
      memory.buffers = bytes("buffers");
      members.finish();
      run_.memory.push_back(memory);
    }
    if (std::ssize(run_.memory) != run_.program.ranks()) list.fail("it has an entry per rank");
  }

  void place_actions() {
    const InputProgram& program = run_.program;
    std::vector<InputPlaces> places;
    std::vector<std::vector<bool>> is_there;
    for (const InputCalls& calls : program.calls) {
      places.emplace_back(calls, program.batches);
      is_there.emplace_back(calls.size());
      run_.spans.emplace_back(calls.size());
    }
    for (const ToldAction& told : told_) {
      const auto rank = static_cast<std::size_t>(told.rank);
      const std::uint32_t place = told.rank < program.ranks()
                                      ? places[rank].of(told.action.kind, told.action.microbatch)
                                      : InputPlaces::none;
      const std::string name = fmt::format("{} of rank {}", to_text(told.action), told.rank);
      if (place == InputPlaces::none) fail(told.index, name + " is not in the program");
      if (is_there[rank][place]) fail(told.index, name + " is given twice");
      const InputStream stream = program.calls[rank][place].stream;
      if (told.stream && *told.stream != stream) {
        fail(told.index, fmt::format("{} is on stream {}, in the program on {}", name,
                                     input_stream_name(*told.stream), input_stream_name(stream)));
      }
      check_times(told, name);
      is_there[rank][place] = true;
      run_.spans[rank][place] = told.span;
    }
    told_.clear();
    for (std::size_t rank = 0; rank < is_there.size(); ++rank) {
      for (std::size_t place = 0; place < is_there[rank].size(); ++place) {
        if (is_there[rank][place]) continue;
        throw input_error(fmt::format("{}: {} of rank {} is missing", path_,
                                      to_text(program.calls[rank][place].action), rank));
      }
    }
  }

  // Times count from when the first host began.
  void begin_at_zero() {
    std::int64_t first_ns = std::numeric_limits<std::int64_t>::max();
    for (const auto& spans : run_.spans) {
      for (const InputSpan& span : spans) first_ns = std::min(first_ns, span.called_ns);
    }
    for (auto& spans : run_.spans) {
      for (InputSpan& span : spans) {
        for (std::int64_t* time :
             {&span.called_ns, &span.issued_ns, &span.ready_ns, &span.start_ns, &span.end_ns}) {
          *time = std::max<std::int64_t>(0, *time - first_ns);
        }
      }
    }
  }

  void check_times(const ToldAction& told, const std::string& name) const {
    const InputSpan& span = told.span;
    if (span.start_ns < 0) fail(told.index, name + " starts before the run");
    if (span.issued_ns < span.called_ns) fail(told.index, name + " is issued before it is called");
    if (span.start_ns < span.ready_ns) fail(told.index, name + " starts before it is ready");
  }

  // Checks what a simulator can't get wrong, unlike a clock.
  void check_order() const {
    if (run_.is_measured) return;
    for (int rank = 0; rank < run_.program.ranks(); ++rank) {
      const InputCalls& calls = run_.program.calls[static_cast<std::size_t>(rank)];
      std::array<std::uint32_t, input_stream_count> last;
      last.fill(InputPlaces::none);
      for (std::uint32_t place = 0; place < calls.size(); ++place) {
        const auto expect = [&](std::uint32_t other) {
          if (other == InputPlaces::none ||
              run_.span(rank, other).end_ns <= run_.span(rank, place).ready_ns) {
            return;
          }
          throw input_error(fmt::format("{}: rank {}: {} is ready before {} has ended", path_, rank,
                                        to_text(calls[place].action),
                                        to_text(calls[other].action)));
        };
        std::uint32_t& before = last[static_cast<std::size_t>(calls[place].stream)];
        expect(before);
        before = place;
        for (const std::uint32_t awaited : calls[place].after) expect(awaited);
        if (place > 0 && run_.span(rank, place).called_ns < run_.span(rank, place - 1).issued_ns) {
          throw input_error(fmt::format("{}: rank {}: {} is called before {} is issued", path_,
                                        rank, to_text(calls[place].action),
                                        to_text(calls[place - 1].action)));
        }
      }
    }
  }

  const std::string& path_;
  std::vector<ToldAction> told_;
  InputRun run_;
};

}  // namespace

InputRun read_input_run(const std::string& path, const ReadProgress& progress) {
  return InputTraceReader(path).read(progress);
}

bool is_input_trace(const std::string& path) {
  std::error_code failed;  // a path that can't be resolved fails where it is opened
  if (!std::filesystem::is_regular_file(path, failed)) return false;
  return input_metadata(read_chrome_head(path)).has_value();
}

}  // namespace pipesim
