#include "sim/schedule/program_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "sim/schedule/cells.h"
#include "sim/schedule/closing.h"
#include "sim/schedule/csv.h"
#include "traces/action_key.h"
#include "traces/base/error.h"
#include "traces/base/files.h"
#include "traces/base/text.h"
#include "traces/dependency.h"

namespace pipesim {
namespace {

constexpr std::string_view program_head = "pipesim-program";
constexpr std::string_view old_input_head = "pipesim-input-program";  // read, no longer written
constexpr std::string_view compute_name = "compute";
constexpr std::string_view transfers_name = "transfers";
constexpr std::string_view after_name = "after";
constexpr std::size_t widest_line = 100;

struct TextPlace {
  std::size_t line = 1;
  std::size_t column = 1;
};

struct WrittenAction {
  Action action;
  TextPlace place;
};

// One stream of a rank. `next`: the first item not yet merged, the cell at the head.
struct WrittenStream {
  std::string name;
  int from = -1;  // of an edge
  int to = -1;
  std::vector<WrittenAction> items;
  std::size_t next = 0;
  std::size_t end = 0;      // the end of that cell, once found
  std::size_t waiting = 0;  // index in it: no earlier SEND waits for its result
  bool sends = false;       // whether the cell has a SEND

  bool is_compute() const { return name == compute_name; }
};

// F, or backward, of a stage and microbatch.
std::uint64_t slot_of(const Action& action) {
  return static_cast<std::uint64_t>(action.stage) << 32 |
         static_cast<std::uint64_t>(action.microbatch) << 1 |
         static_cast<std::uint64_t>(compute_at(action).kind == Kind::F ? 0 : 1);
}
std::uint64_t slot_of_compute(const Action& action) { return slot_of(send_of(action)); }

// Without a byte-order mark.
std::string_view without_mark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

// The streams of a rank as one list.
class Merger {
 public:
  using Fail = std::function<void(TextPlace place, const std::string& rule)>;

  Merger(std::vector<WrittenStream>& streams, const Fail& fail) : streams_(streams), fail_(fail) {
    for (std::size_t s = 0; s < streams.size(); ++s) {
      if (streams[s].is_compute()) continue;
      for (const WrittenAction& item : streams[s].items) {
        (is_send(item.action.kind) ? stream_of_send_ : stream_of_receive_)
            .emplace(slot_of(item.action), s);
      }
    }
  }

  std::vector<WrittenAction> run() {
    for (WrittenStream& stream : streams_) {
      if (!stream.is_compute()) continue;
      while (stream.next < stream.items.size()) add_compute(stream);
    }
    finish_transfers();
    return std::move(list_);
  }

 private:
  // Finds the cell at the head of a stream.
  static void look(WrittenStream& stream) {
    if (stream.end > stream.next) return;
    stream.end = stream.waiting = stream.next;
    stream.sends = false;
    do {
      stream.sends = stream.sends || is_send(stream.items[stream.end].action.kind);
    } while (stream.items[stream.end++].action.joined);
  }

  void take_cell(WrittenStream& stream) {
    look(stream);
    for (; stream.next < stream.end; ++stream.next) {
      list_.push_back(stream.items[stream.next]);
      const Action& action = list_.back().action;
      if (is_receive(action.kind)) received_.insert(slot_of(action));
    }
  }

  void add_compute(WrittenStream& stream) {
    const std::size_t begin = stream.next;
    look(stream);
    const std::size_t end = stream.end;
    for (std::size_t i = begin; i < end; ++i) {
      const WrittenAction& item = stream.items[i];
      if (ends_iteration(item.action.kind) && !std::exchange(at_end_, true)) finish_transfers();
      if (makes_result(item.action.kind)) receive_input(item);
    }
    take_cell(stream);
    for (std::size_t i = begin; i < end; ++i) {
      const Action& action = stream.items[i].action;
      if (!makes_result(action.kind)) continue;
      done_.insert(slot_of_compute(action));
      const auto sent = stream_of_send_.find(slot_of_compute(action));
      if (sent != stream_of_send_.end()) send_ready(streams_[sent->second]);
    }
  }

  // The RECV that an F, I or B needs comes directly before it, after earlier items of the RECV's
  // stream.
  void receive_input(const WrittenAction& item) {
    const auto found = stream_of_receive_.find(slot_of(receive_for(item.action)));
    if (found == stream_of_receive_.end()) return;
    WrittenStream& stream = streams_[found->second];
    while (!received_.contains(found->first)) {
      if (const Action* send = missing_send(stream)) {
        fail_(item.place,
              fmt::format("{} needs {}, which is on {} after {}, whose result is not there yet",
                          to_text(item.action), to_text(receive_for(item.action)), stream.name,
                          to_text(*send)));
      }
      take_cell(stream);
    }
    send_ready(stream);
  }

  // A SEND at the head of a stream whose result is not ready yet, or null.
  const Action* missing_send(WrittenStream& stream) const {
    look(stream);
    for (; stream.waiting < stream.end; ++stream.waiting) {
      const Action& action = stream.items[stream.waiting].action;
      if (is_send(action.kind) && !done_.contains(slot_of(action))) return &action;
    }
    return nullptr;
  }

  // Heads with a SEND are merged as soon as possible.
  void send_ready(WrittenStream& stream) {
    while (stream.next < stream.items.size()) {
      const bool waits = missing_send(stream) != nullptr;
      if (waits || !stream.sends) return;
      take_cell(stream);
    }
  }

  // Appends the rest; the final check reports errors in it.
  void finish_transfers() {
    for (WrittenStream& stream : streams_) {
      while (!stream.is_compute() && stream.next < stream.items.size()) take_cell(stream);
    }
  }

  std::vector<WrittenStream>& streams_;
  const Fail& fail_;
  std::vector<WrittenAction> list_;
  std::unordered_map<std::uint64_t, std::size_t> stream_of_send_, stream_of_receive_;
  std::unordered_set<std::uint64_t> done_, received_;
  bool at_end_ = false;  // of the iteration: all transfers are in the list
};

class ProgramParser {
 public:
  ProgramParser(std::string_view text, const std::string& file)
      : text_(without_mark(text)), file_(file) {}

  Schedule run() {
    read_lines();
    if (ranks_.empty()) fail({1, 1}, "holds no rank; write `rank 0` and its streams");
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!ranks_[rank].empty()) continue;
      fail(ends_[rank], fmt::format("rank {} has no action; every rank needs one", rank));
    }
    check_streams();
    const Merger::Fail failing = [this](TextPlace place, const std::string& rule) {
      fail(place, rule);
    };
    Schedule& schedule = result_;
    schedule.name = file_;
    for (std::vector<WrittenStream>& streams : ranks_) {
      places_.emplace_back();
      schedule.actions.add_rank();
      for (const WrittenAction& item : Merger(streams, failing).run()) {
        schedule.actions.add(item.action);
        places_.back().push_back(item.place);
      }
      places_.back().push_back(ends_[places_.size() - 1]);
    }
    infer_shape(schedule, file_, [&](int rank, std::size_t index, const std::string& rule) {
      fail(place_of(rank, index), rule);
    });
    check_edges();
    if (const auto fault = find_fault(schedule)) {
      if (fault->dependency) fail(dependency_places_[*fault->dependency], fault->rule);
      fail(place_of(fault->rank, fault->index),
           fmt::format("rank {}: {}", fault->rank, fault->rule));
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void fail(TextPlace place, std::string_view rule) const {
    throw input_error(fmt::format("{}:{}:{}: {}", file_, place.line, place.column, rule));
  }

  TextPlace place_of(int rank, std::size_t index) const {
    return places_[static_cast<std::size_t>(rank)][index];
  }

  struct Word {
    std::string_view text;
    TextPlace place;
  };
  static std::vector<Word> words_of(std::string_view line, std::size_t number) {
    constexpr std::string_view blanks = " \t\r";
    std::vector<Word> words;
    for (std::size_t at = line.find_first_not_of(blanks); at != std::string_view::npos;) {
      const std::size_t end = std::min(line.find_first_of(blanks, at), line.size());
      words.push_back({line.substr(at, end - at), {number, at + 1}});
      at = line.find_first_not_of(blanks, end);
    }
    return words;
  }

  void read_lines() {
    std::size_t number = 0;
    bool has_head = false;
    for (std::string_view line : split(text_, '\n')) {
      ++number;
      line = line.substr(0, line.find('#'));
      if (strip(line).empty()) continue;
      if (!std::exchange(has_head, true)) {
        if (strip(line).starts_with(old_input_head)) continue;
        if (strip(line) != "pipesim-program 1") {
          fail({number, 1}, fmt::format("{} is not `pipesim-program 1`", quote(strip(line))));
        }
        continue;
      }
      read_line(words_of(line, number));
    }
  }

  void read_line(const std::vector<Word>& words) {
    const auto& [name, place] = words.front();
    if (name == "batches") fail(place, "this is an input pipeline's program, for `pipesim feed`");
    if (words.size() > 1 && words[1].text == after_name) {
      read_dependencies(words);
    } else if (name == "rank") {
      const std::string next = std::to_string(ranks_.size());
      if (words.size() == 1) fail(place, "this is `rank " + next + "`");
      if (words[1].text != next || words.size() > 2) {
        fail(words[words[1].text == next ? 2 : 1].place,
             "ranks are in order; this is `rank " + next + "`");
      }
      ranks_.emplace_back();
      ends_.push_back(words[1].place);
    } else {
      WrittenStream& stream = stream_named(name, place);
      if (words.size() == 1) fail(place, "a stream without an action; omit it");
      for (std::size_t i = 1; i < words.size(); ++i) {
        add_cell(stream, words[i].text, words[i].place);
      }
      ends_.back() = {place.line, words.back().place.column + words.back().text.size()};
    }
  }

  // "0F3 after 1B0 1B1".
  void read_dependencies(const std::vector<Word>& words) {
    const auto& [name, place] = words.front();
    if (name == after_name) fail(place, "which action waits? Write `0F3 after 1B0`");
    const Action waiting = read_action(name, place);
    if (words.size() == 2) {
      fail(place, fmt::format("{} waits for what? Name an action", to_text(waiting)));
    }
    for (std::size_t i = 2; i < words.size(); ++i) {
      result_.dependencies.push_back({waiting, read_action(words[i].text, words[i].place)});
      dependency_places_.push_back(words[i].place);
    }
  }

  WrittenStream& stream_named(std::string_view name, TextPlace place) {
    if (ranks_.empty()) fail(place, "comes before `rank 0`");
    std::vector<WrittenStream>& streams = ranks_.back();
    auto& by_name = named_[ranks_.size() - 1];
    const auto known = by_name.find(name);
    if (known != by_name.end()) return streams[known->second];
    WrittenStream& made = streams.emplace_back();
    made.name = name;
    if (name != compute_name && name != transfers_name) read_edge(made, place);
    by_name.emplace(made.name, streams.size() - 1);
    return made;
  }

  void read_edge(WrittenStream& stream, TextPlace place) const {
    const int own = static_cast<int>(ranks_.size()) - 1;
    const std::string_view name = stream.name;
    const std::size_t arrow = name.find("->");
    const auto number = [&](std::string_view digits) {
      const bool is_number =
          !digits.empty() && digits.size() <= 9 &&
          std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
      return is_number ? std::stoi(std::string(digits)) : -1;
    };
    if (arrow != std::string_view::npos) {
      stream.from = number(name.substr(0, arrow));
      stream.to = number(name.substr(arrow + 2));
    }
    if (parse_action(name)) {
      fail(place, fmt::format("{} is not a stream; to let it wait write `{} after 1B0`",
                              quote(name), name));
    }
    if (stream.from < 0 || stream.to < 0) {
      fail(place,
           fmt::format("{} is not a stream; there is compute, and for SEND and RECV one named "
                       "transfers, or one per directed pair of ranks, such as 0->1",
                       quote(name)));
    }
    if ((stream.from == own) == (stream.to == own)) {
      fail(place, fmt::format("rank {} has no end of {}", own, quote(name)));
    }
  }

  Action read_action(std::string_view text, TextPlace place) const {
    bool is_bw = false;
    const auto action = parse_action(text, &is_bw);
    if (is_bw) {
      fail(place,
           fmt::format("{} is in the dialect of 2024, which only CSV has; write B", quote(text)));
    }
    if (text.starts_with('(')) {
      fail(place, fmt::format("{} is a cell; name one of its actions", quote(text)));
    }
    if (!action || action->kind == Kind::IDLE) {
      fail(place,
           fmt::format("{} is not an action, such as 2F0, 2SEND_F0 or 2REDUCE_GRAD", quote(text)));
    }
    if (action->kind == Kind::SAVE) {
      fail(place, fmt::format("{} is in no program; saves are set outside it, "
                              "as by --checkpoint-every",
                              quote(text)));
    }
    return *action;
  }

  void add_cell(WrittenStream& stream, std::string_view word, TextPlace place) {
    const auto read = [&](std::string_view text) { return read_action(text, place); };
    const auto add = [&](const Action& action) {
      if (!stream.is_compute()) check_transfer(stream, action, place);
      stream.items.push_back({action, place});
    };
    if (word.starts_with('(')) {
      read_joined(word, read, add, [&](const std::string& rule) { fail(place, rule); });
    } else {
      add(read(word));
    }
  }

  void check_transfer(const WrittenStream& stream, const Action& action, TextPlace place) const {
    if (!is_transfer(action.kind)) {
      fail(place, fmt::format("{} is not a transfer; it is on compute", to_text(action)));
    }
    if (stream.from < 0) return;
    const bool sends = stream.from + 1 == static_cast<int>(ranks_.size());
    if (is_send(action.kind) != sends) {
      fail(place, fmt::format("{} is at the {} end of {}", to_text(action),
                              sends ? "sender's" : "receiver's", quote(stream.name)));
    }
  }

  // Checks that transfers of all ranks are on streams of one sort.
  void check_streams() {
    std::optional<TransferLane> lane;
    for (const auto& streams : ranks_) {
      for (const WrittenStream& stream : streams) {
        for (const WrittenAction& item : stream.items) {
          if (!is_transfer(item.action.kind)) continue;
          const TransferLane own = stream.is_compute() ? TransferLane::compute
                                   : stream.from < 0   ? TransferLane::rank
                                                       : TransferLane::edge;
          if (lane.value_or(own) != own) {
            fail(item.place,
                 fmt::format("{} is on {}, and transfers before it on streams of another sort",
                             to_text(item.action), stream.name));
          }
          lane = own;
        }
      }
    }
    result_.lane = lane.value_or(TransferLane::compute);
  }

  void check_edges() const {
    const Schedule& schedule = result_;
    for (const auto& streams : ranks_) {
      for (const WrittenStream& stream : streams) {
        for (const WrittenAction& item : stream.items) {
          if (stream.from < 0) break;
          const Action other = peer_of(item.action);
          if (other.stage < 0 || other.stage >= schedule.stages()) continue;
          const int rank = schedule.placement.rank_of(other);
          if (rank == (is_send(item.action.kind) ? stream.to : stream.from)) continue;
          fail(item.place, fmt::format("{} is on {}, but its other end is on rank {}",
                                       to_text(item.action), quote(stream.name), rank));
        }
      }
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<std::vector<WrittenStream>> ranks_;
  std::map<std::size_t, std::map<std::string, std::size_t, std::less<>>> named_;  // by rank
  std::vector<TextPlace> ends_;                 // the end of each rank's text
  std::vector<std::vector<TextPlace>> places_;  // by action of a rank's list, and its end
  std::vector<TextPlace> dependency_places_;    // in the schedule's order
  Schedule result_;
};

// A stream's lines, or a dependency's: each begins with its name, followed by cells.
void append_stream(std::string& text, std::string_view name, std::span<const Action> actions) {
  std::string line;
  const Action* const end = actions.data() + actions.size();
  for (const Action* cell = actions.data(); cell != end;) {
    const std::size_t size = cell_size(cell, end);
    std::string word;
    append_cell(word, cell, size);
    cell += size;
    if (word.empty()) continue;  // an idle slot
    if (!line.empty() && line.size() + 1 + word.size() > widest_line) {
      text += line + "\n";
      line.clear();
    }
    if (line.empty()) line = fmt::format("{:<9}", name);
    line += " " + word;
  }
  if (!line.empty()) text += line + "\n";
}

}  // namespace

bool is_program_text(std::string_view text) {
  text = without_mark(text);
  // Comments and empty lines may come first.
  for (text = strip(text); text.starts_with('#'); text = strip(text)) {
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
  return text.starts_with(program_head) || text.starts_with(old_input_head);
}

Schedule parse_program(std::string_view text, const std::string& file) {
  return ProgramParser(text, file).run();
}

std::string to_program_text(const Schedule& program, TransferLane lane) {
  std::string text = fmt::format("{} 1\n", program_head);
  for (int rank = 0; rank < program.ranks(); ++rank) {
    text += fmt::format("\nrank {}\n", rank);
    std::vector<Action> compute;
    std::vector<Action> transfers;
    std::map<std::pair<int, int>, std::vector<Action>> edges;
    for (Action action : program.actions[rank]) {
      if (!is_transfer(action.kind) || lane == TransferLane::compute) {
        compute.push_back(action);
      } else if (lane == TransferLane::rank) {
        transfers.push_back(action);
      } else {
        action.joined = false;  // cells don't matter there
        const int other = program.placement.rank_of(peer_of(action));
        edges[is_send(action.kind) ? std::pair(rank, other) : std::pair(other, rank)].push_back(
            action);
      }
    }
    append_stream(text, compute_name, compute);
    append_stream(text, transfers_name, transfers);
    for (const auto& [edge, actions] : edges) {
      append_stream(text, fmt::format("{}->{}", edge.first, edge.second), actions);
    }
  }
  if (!program.dependencies.empty()) text += "\n";
  std::vector<std::pair<Action, std::vector<Action>>> waits;  // in the order of their first
  std::map<ActionKey, std::size_t> place_of;
  for (const auto& [action, awaited] : program.dependencies) {
    const auto [at, is_new] = place_of.try_emplace(ActionKey(action), waits.size());
    if (is_new) waits.push_back({action, {}});
    waits[at->second].second.push_back(awaited);
  }
  for (const auto& [action, awaited] : waits) {
    append_stream(text, fmt::format("{} {}", to_text(action), after_name), awaited);
  }
  return text;
}

Schedule parse_schedule(std::string_view text, const std::string& file) {
  return is_program_text(text) ? parse_program(text, file) : parse_csv(text, file);
}

Schedule read_schedule(const std::string& path) { return parse_schedule(read_file(path), path); }

}  // namespace pipesim
