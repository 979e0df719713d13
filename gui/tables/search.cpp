#include "gui/tables/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "traces/base/text.h"

namespace pipesim::gui {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 32);
  }
  return result;
}

// What is asked for of runs: whatever is given must hold.
struct Wanted {
  std::optional<std::int32_t> stage, microbatch, rank;
  std::optional<Kind> kind;

  bool any() const { return stage || microbatch || rank || kind; }
  bool is(const Span& span) const {
    const Action& action = span.action;
    return (!stage || action.stage == *stage) &&
           (!microbatch || (takes_microbatch(action.kind) && action.microbatch == *microbatch)) &&
           (!rank || span.rank == *rank) && (!kind || action.kind == *kind);
  }
};

// The number at the front of a text, which is taken off; nothing where it has none.
std::optional<std::int32_t> take_number(std::string_view& text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (end == text.data() || error != std::errc() || text.front() == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// "2F0", "2F", "F0", "F", "SEND_F", in capitals: no more than that.
bool take_action(std::string_view word, Wanted& wanted) {
  Wanted result = wanted;
  if (const auto stage = take_number(word)) result.stage = stage;
  const auto digit = word.find_first_of("0123456789");
  const auto kind = parse_kind(word.substr(0, digit));
  if (!kind) return false;
  result.kind = kind;
  word.remove_prefix(std::min(digit, word.size()));
  if (!word.empty()) {
    result.microbatch = take_number(word);
    if (!result.microbatch || !word.empty()) return false;
  }
  wanted = result;
  return true;
}

// All words of a text, or nothing where one means nothing here.
std::optional<Wanted> parse(const std::string& text) {
  Wanted wanted;
  const std::string capitals = upper(text);
  std::vector<std::string_view> words;
  for (const std::string_view word : split(capitals, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    std::optional<std::int32_t>* number = nullptr;
    for (const auto& [name, field] : {std::pair(std::string_view("MICROBATCH"), &wanted.microbatch),
                                      std::pair(std::string_view("MB"), &wanted.microbatch),
                                      std::pair(std::string_view("STAGE"), &wanted.stage),
                                      std::pair(std::string_view("RANK"), &wanted.rank)}) {
      if (!word.starts_with(name)) continue;
      word.remove_prefix(name.size());
      number = field;
      break;
    }
    if (number == nullptr) {
      if (!take_action(word, wanted)) return std::nullopt;
      continue;
    }
    // "mb3" or "mb 3".
    if (word.empty() && i + 1 < words.size()) word = words[++i];
    *number = take_number(word);
    if (!*number || !word.empty()) return std::nullopt;
  }
  return wanted.any() ? std::optional(wanted) : std::nullopt;
}

// "2", "0 to 7", "0, 2 and 5": of many only the ends.
std::string in_words(const std::set<std::int32_t>& numbers) {
  const bool whole =
      *numbers.rbegin() - *numbers.begin() + 1 == static_cast<std::int32_t>(numbers.size());
  if (numbers.size() == 1) return fmt::format("{}", *numbers.begin());
  if (whole || numbers.size() > 4) {
    return fmt::format("{} to {}", *numbers.begin(), *numbers.rbegin());
  }
  std::string text;
  for (const std::int32_t number : numbers) {
    if (!text.empty()) text += number == *numbers.rbegin() ? " and " : ", ";
    text += fmt::format("{}", number);
  }
  return text;
}

class Search {
 public:
  Search(const Document& document, const Scene& scene, std::size_t most)
      : document_(document), scene_(scene), most_(most) {}

  Found find(const std::string& text) {
    const std::string_view word = strip(text);
    if (word.empty()) return say("Type an action (2F0), a stage, a rank, \"late\" or a name.");
    const std::string capitals = upper(word);
    if (capitals == "LATE" && document_.pair) return late();
    if (capitals == "BUBBLE" || capitals == "BUBBLES") {
      const std::int64_t idle_ns = bubbles();
      if (found_.all > 0) {
        return say(fmt::format("{}, {} in all",
                               plural(static_cast<std::int64_t>(found_.all), "idle time"),
                               format_time(idle_ns)));
      }
    }
    if (const auto wanted = parse(std::string(word))) {
      actions(*wanted);
      if (found_.all > 0) return say(in_words());
    }
    names(capitals);
    if (found_.all > 0) return say(plural(static_cast<std::int64_t>(found_.all), "slice"));
    return say(nothing_of(word));
  }

 private:
  int traces() const { return static_cast<int>(document_.traces.size()); }

  void add(const Pick& pick) {
    ++found_.all;
    if (found_.picks.size() < most_) found_.picks.push_back(pick);
  }

  Found say(std::string text) {
    if (found_.picks.size() < found_.all) {
      text += fmt::format("; the first {} are shown", format_count(std::ssize(found_.picks)));
    }
    found_.text = std::move(text);
    return std::move(found_);
  }

  // Of a kind that was not asked for, transfers are left out.
  void actions(const Wanted& wanted) {
    for (int trace = 0; trace < traces(); ++trace) {
      if (!document_.trace(trace).run) continue;
      const RecordedRun& run = *document_.trace(trace).run;
      for (const RecordedIteration& iteration : run.iterations) {
        for (std::size_t i = iteration.begin; i < iteration.end; ++i) {
          const Span& span = run.spans[i];
          if (!wanted.is(span) || (!wanted.kind && is_communication(span.action))) continue;
          add({trace, static_cast<Ref>(i), false});
          stages_.insert(span.action.stage);
          kinds_.insert(span.action.kind);
          if (takes_microbatch(span.action.kind)) microbatches_.insert(span.action.microbatch);
        }
      }
    }
  }

  // "12 actions: stage 2, B, microbatches 0 to 7"
  std::string in_words() const {
    std::string text = plural(static_cast<std::int64_t>(found_.all), "action") + ": ";
    text += (stages_.size() == 1 ? "stage " : "stages ") + gui::in_words(stages_);
    std::string kinds;
    for (const Kind kind : kinds_) kinds += fmt::format(", {}", kind_name(kind));
    text += kinds;
    if (!microbatches_.empty()) {
      text += (microbatches_.size() == 1 ? ", microbatch " : ", microbatches ") +
              gui::in_words(microbatches_);
    }
    return text;
  }

  // Those that are shown before an action, one of each; and their sum.
  std::int64_t bubbles() {
    std::int64_t idle_ns = 0;
    std::vector<std::tuple<int, std::int64_t, Ref>> shown;
    for (const Group& group : scene_.groups) {
      for (const Lane& lane : group.lanes) {
        for (const BarRow& row : lane.rows) {
          for (std::size_t i = 0; i < row.size(); ++i) {
            const Bar bar = row[i];
            if (!is_bubble(bar.shade) || bar.ref == no_ref) continue;
            idle_ns += bar.end_ns - bar.start_ns;
            // Of several kinds, one after the other, it is one.
            if (i > 0 && row[i - 1].ref == bar.ref) continue;
            shown.emplace_back(lane.trace, bar.start_ns + lane.offset_ns, bar.ref);
          }
        }
      }
    }
    std::ranges::sort(shown);
    for (const auto& [trace, start, ref] : shown) add({trace, ref, true});
    return idle_ns;
  }

  // The latest operations first.
  Found late() {
    const Pair& pair = *document_.pair;
    const auto& lateness = pair.comparison.lateness;
    std::vector<OperationId> latest;
    for (OperationId id = 0; id < lateness.size(); ++id) {
      // A host's call that takes no time has no bar.
      const bool is_there = pair.span_of[measured_side][id] != no_ref;
      if (is_there && lateness[id].total_ns() > 0) latest.push_back(id);
    }
    const auto by_lateness = [&](OperationId id) { return lateness[id].total_ns(); };
    std::ranges::stable_sort(latest, std::greater(), by_lateness);
    for (const OperationId id : latest) {
      add({pair.trace[measured_side], pair.span_of[measured_side][id], false});
    }
    if (latest.empty()) {
      return say(fmt::format("Nothing ends later than in the {}.",
                             side_noun(pair.comparison, predicted_side)));
    }
    return say(fmt::format(
        "{} later than in the {}, at most {}", plural(std::ssize(latest), "action"),
        side_noun(pair.comparison, predicted_side), format_time(by_lateness(latest.front()))));
  }

  void names(const std::string& capitals) {
    for (int trace = 0; trace < traces(); ++trace) {
      if (!document_.trace(trace).events) continue;
      const EventTrace& events = *document_.trace(trace).events;
      std::vector<bool> holds;
      holds.reserve(events.texts.size());
      for (const std::string& text : events.texts) {
        holds.push_back(upper(text).find(capitals) != std::string::npos);
      }
      std::vector<Ref> slices;
      for (std::size_t i = 0; i < events.slices.size(); ++i) {
        if (holds[events.slices[i].name]) slices.push_back(static_cast<Ref>(i));
      }
      std::ranges::stable_sort(slices, {}, [&](Ref ref) { return events.slices[ref].start_ns; });
      for (const Ref ref : slices) add({trace, ref, false});
    }
  }

  std::string nothing_of(std::string_view word) const {
    int ranks = 0;
    int stages = 0;
    int microbatches = 0;
    for (const auto& trace : document_.traces) {
      if (!trace->run) continue;
      ranks = std::max(ranks, trace->run->ranks);
      stages = std::max(stages, static_cast<int>(trace->run->chunk_of_stage.size()));
      microbatches = std::max(microbatches, trace->run->microbatches);
    }
    if (stages == 0) return fmt::format("Nothing is called {}.", quote(word));
    if (upper(word) == "LATE") return "There are no two runs of which one could be late.";
    return fmt::format("Nothing is {}: there are {}, {} and {}; \"2F0\" is a forward of stage 2.",
                       quote(word), plural(ranks, "rank"), plural(stages, "stage"),
                       plural(microbatches, "microbatch"));
  }

  const Document& document_;
  const Scene& scene_;
  std::size_t most_;
  Found found_;
  std::set<std::int32_t> stages_, microbatches_;
  std::set<Kind> kinds_;
};

}  // namespace

Found search(const Document& document, const Scene& scene, const std::string& text,
             std::size_t most) {
  return Search(document, scene, most).find(text);
}

}  // namespace pipesim::gui
