// Input programs as text, one line per call.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/memory.h"
#include "traces/base/text.h"
#include "traces/input_program.h"

namespace pipesim {
namespace {

constexpr std::string_view program_head = "pipesim-program";
constexpr std::string_view old_head = "pipesim-input-program";  // read, no longer written

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  constexpr std::string_view blanks = " \t\r";
  for (std::size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(blanks, end);
  }
  return words;
}

class InputProgramReader {
 public:
  InputProgramReader(std::string_view text, const std::string& file)
      : text_(without_byte_order_mark(text)), file_(file) {}

  InputProgram read() {
    program_.name = file_;
    for (const std::string_view raw : split(text_, '\n')) {
      ++line_;
      const auto words = words_of(raw.substr(0, raw.find('#')));
      if (words.empty()) continue;
      if (!has_head_) {
        read_head(words);
      } else {
        read_line(words);
      }
    }
    finish_ranks();
    if (!has_head_) fail("it is empty");
    expect_batches();
    if (program_.calls.empty()) fail("it has no rank; begin one with `rank 0`");
    if (const auto fault = find_fault(program_)) {
      const auto& lines = lines_[static_cast<std::size_t>(fault->rank)];
      throw input_error(fmt::format("{}:{}: rank {}: {}", file_,
                                    fault->place < lines.size() ? lines[fault->place] : line_,
                                    fault->rank, fault->rule));
    }
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(const std::string& rule) const {
    throw input_error(fmt::format("{}:{}: {}", file_, line_, rule));
  }

  void read_head(const std::vector<std::string_view>& words) {
    if ((words[0] != program_head && words[0] != old_head) || words.size() != 2) {
      fail(fmt::format("it begins with {}, not with `{} 1`", quote(words[0]), program_head));
    }
    if (words[1] != "1") fail("its version is " + quote(words[1]) + "; this reads version 1");
    has_head_ = true;
  }

  void expect_batches() const {
    if (program_.batches > 0) return;
    fail("`batches N` is missing; a pipeline's program has none, and is given with --schedule");
  }

  void read_line(const std::vector<std::string_view>& words) {
    if (words[0] == "batches" || words[0] == "accumulate") return read_number(words);
    if (words[0] == "stale" && words.size() == 1) {
      program_.is_stale = true;
    } else if (words[0] == "rank" || words[0] == "ranks") {
      read_ranks(words);
    } else if (const auto stream = parse_input_stream(words[0])) {
      read_call(*stream, words);
    } else {
      std::vector<std::string> known;
      for (int i = 0; i < input_stream_count; ++i) {
        known.emplace_back(input_stream_name(static_cast<InputStream>(i)));
      }
      fail(unknown_name("stream", words[0], known));
    }
  }

  void read_number(const std::vector<std::string_view>& words) {
    if (words.size() != 2 || !program_.calls.empty()) {
      fail(fmt::format("`{} N` is a line of its own before the first rank", words[0]));
    }
    const int number = parse_count(words[1], fmt::format("{}:{}: {}", file_, line_, words[0]));
    (words[0] == "batches" ? program_.batches : program_.accumulate) = number;
  }

  // `rank 3`, `ranks 0-3`: must be the next ones.
  void read_ranks(const std::vector<std::string_view>& words) {
    expect_batches();
    if (words.size() != 2) fail("a rank is opened with `rank R`, several with `ranks R-S`");
    const auto ends = split(words[1], '-');
    const int next = program_.ranks();
    const auto number = [&](std::string_view text) {
      return text == "0" ? 0 : parse_count(text, fmt::format("{}:{}: rank", file_, line_));
    };
    const int first = number(ends.front());
    const int last = ends.size() == 2 ? number(ends.back()) : first;
    if (ends.size() > 2 || first != next || last < first) {
      fail(fmt::format("rank {} comes next, not {}", next, quote(words[1])));
    }
    if (last >= max_input_ranks) {
      fail(fmt::format("there are at most {}, so no rank {}", plural(max_input_ranks, "rank"),
                       last));
    }
    finish_ranks();
    open_ = last - first + 1;
    program_.calls.emplace_back();
    lines_.emplace_back();
    places_.clear();
  }

  // Assigns the calls read to each of the open ranks.
  void finish_ranks() {
    if (open_ > 1) {
      double bytes = 0;
      for (const InputCall& call : program_.calls.back()) {
        bytes += sizeof(InputCall) + sizeof(int) +
                 static_cast<double>(call.after.size() * sizeof(std::uint32_t));
      }
      check_memory(fmt::format("{}:{}: {} of {}", file_, line_, plural(open_, "rank"),
                               plural(std::ssize(program_.calls.back()), "call")),
                   bytes * open_);
    }
    for (int i = 1; i < open_; ++i) {
      program_.calls.push_back(program_.calls.back());
      lines_.push_back(lines_.back());
    }
    open_ = 0;
  }

  Action action_of(std::string_view word) const {
    const auto action = parse_input_action(word);
    if (!action) fail(quote(word) + " is not an action; one is a kind and a batch: COPY0");
    return *action;
  }

  void read_call(InputStream stream, const std::vector<std::string_view>& words) {
    if (program_.calls.empty()) fail("a call comes after its rank: `rank 0`");
    if (words.size() < 2) fail("a call is a stream and an action: `memcpy COPY0`");
    InputCall call{action_of(words[1]), stream, {}};
    if (words.size() > 2 && (words[2] != "after" || words.size() == 3)) {
      fail("after its action a call has nothing, or `after` and the actions it waits for");
    }
    for (std::size_t i = 3; i < words.size(); ++i) {
      const Action awaited = action_of(words[i]);
      const auto found = places_.find({awaited.kind, awaited.microbatch});
      if (found == places_.end()) {
        fail(fmt::format("{} waits for {}, which its rank has not called before it",
                         to_text(call.action), to_text(awaited)));
      }
      call.after.push_back(found->second);
    }
    std::ranges::sort(call.after);
    call.after.erase(std::unique(call.after.begin(), call.after.end()), call.after.end());
    const auto place = static_cast<std::uint32_t>(program_.calls.back().size());
    places_.try_emplace({call.action.kind, call.action.microbatch}, place);
    program_.calls.back().push_back(std::move(call));
    lines_.back().push_back(line_);
  }

  std::string_view text_;
  const std::string& file_;
  InputProgram program_;
  bool has_head_ = false;
  int line_ = 0;
  int open_ = 0;                         // ranks whose calls are being read
  std::vector<std::vector<int>> lines_;  // of each call
  std::map<std::pair<Kind, std::int32_t>, std::uint32_t> places_;  // of the open ranks
};

}  // namespace

InputProgram parse_input_program(std::string_view text, const std::string& file) {
  return InputProgramReader(text, file).read();
}

InputProgram read_input_program(const std::string& path) {
  return parse_input_program(read_file(path), path);
}

std::string to_text(const InputProgram& program) {
  std::string text = fmt::format("{} 1\nbatches {}\n", program_head, program.batches);
  if (program.accumulate > 1) text += fmt::format("accumulate {}\n", program.accumulate);
  if (program.is_stale) text += "stale\n";
  for (int rank = 0; rank < program.ranks();) {
    const InputCalls& calls = program.calls[static_cast<std::size_t>(rank)];
    int end = rank + 1;
    while (end < program.ranks() && program.calls[static_cast<std::size_t>(end)] == calls) ++end;
    text += end - rank == 1 ? fmt::format("\nrank {}\n", rank)
                            : fmt::format("\nranks {}-{}\n", rank, end - 1);
    for (const InputCall& call : calls) {
      text += fmt::format("{:<9} {}", input_stream_name(call.stream), to_text(call.action));
      for (std::size_t i = 0; i < call.after.size(); ++i) {
        text += i == 0 ? " after " : " ";
        text += to_text(calls[call.after[i]].action);
      }
      text += '\n';
    }
    rank = end;
  }
  return text;
}

}  // namespace pipesim
