#include "sim/cli/limits_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "sim/advice/ranking.h"
#include "sim/cli/setup.h"
#include "sim/cli/shell_command.h"
#include "traces/base/text.h"
#include "traces/print/tables.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

constexpr double min_shown = 0.005;  // of the iteration

// A command line as a list of flags with their values.
class Arguments {
 public:
  explicit Arguments(const std::vector<std::string>& given) {
    for (const std::string& argument : given) {
      const std::size_t equals = argument.find('=');
      if (!argument.starts_with("--")) {
        if (!flags_.empty()) flags_.back().second = argument;
      } else if (equals != std::string::npos) {
        flags_.emplace_back(argument.substr(0, equals), argument.substr(equals + 1));
      } else {
        flags_.emplace_back(argument, "");
      }
    }
    // Flags of outputs are not part of the question, and neither are checkpoints, since the
    // iteration in question has none.
    for (const char* name : {"--trace", "--export", "--figure", "--layout-picture", "--explain",
                             "--json", "--quiet", "--checkpoint-every", "--storage",
                             "--async-checkpoint", "--checkpoint-bytes", "--checkpoint-copy"}) {
      drop(name);
    }
  }

  Arguments& set(const std::string& name, const std::string& value) {
    const auto own = std::ranges::find(flags_, name, &Flag::first);
    if (own != flags_.end()) {
      own->second = value;
    } else {
      flags_.emplace_back(name, value);
    }
    return *this;
  }
  Arguments& drop(const std::string& name) {
    std::erase_if(flags_, [&](const Flag& flag) { return flag.first == name; });
    return *this;
  }

  // Quoted for a shell, in lines of at most `width` after a margin.
  std::string text(std::vector<std::string> words, const std::string& margin, int width) const {
    for (const auto& [name, value] : flags_) {
      words.push_back(value.empty() ? name : name + " " + shell_word(value));
    }
    return command_text(words, margin, width);
  }

 private:
  using Flag = std::pair<std::string, std::string>;

  std::vector<Flag> flags_;
};

bool fits(const Limit& limit, const LimitsContext& context) {
  return fits(*limit.candidate, context.memory_cap_bytes);
}

std::string what_of(const Limit& limit, const LimitsContext& context) {
  const auto other = [&] {
    const Candidate& own = *limit.candidate;
    return own.schedule + (own.chunks > 1 ? fmt::format(" ({} chunks per rank)", own.chunks) : "");
  };
  const auto held = [&] {
    const std::int64_t bytes = limit.candidate->prediction.peak_memory_bytes();
    return bytes > 0 ? ", " + format_bytes(bytes) : "";
  };
  switch (limit.kind) {
    case LimitKind::partition:
      return fmt::format("uneven stages: stage {} takes {} per microbatch, the mean is {}",
                         limit.stage, format_time(limit.stage_ns), format_time(limit.mean_ns));
    case LimitKind::transfers:
      return context.is_async ? "transfers that ranks wait for or that slow them down"
                              : "transfers that ranks wait for and that wait for each other";
    case LimitKind::filling: return "filling and draining the pipeline; more microbatches help";
    case LimitKind::schedule:
      return fmt::format("the schedule: {} is faster with no more memory{}", other(), held());
    case LimitKind::option:
      return fmt::format("{} is faster, with {} of memory", flags_text(limit.flags),
                         format_bytes(limit.peak_memory_bytes));
    case LimitKind::launch:
      return fmt::format(
          "launches: ranks start actions later than they could; rank {} most, {} in all, {} by {}",
          limit.rank, format_time(limit.rank_late_ns), to_text(limit.action),
          format_time(limit.action_late_ns));
    default: {
      std::string what =
          fmt::format("memory: {} is faster with {:.{}f} times the memory{}", other(),
                      limit.times_memory, limit.times_memory < 1.05 ? 3 : 1, held());
      if (!fits(limit, context)) what += ", which does not fit";
      if (limit.candidate->asked.copies() > 1) what += "; ranks hold two copies of the parameters";
      return what;
    }
  }
}

// The command that tries the alternative; empty if a flag alone does not.
std::string command_of(const Limit& limit, const LimitsContext& context, const std::string& margin,
                       int width) {
  if (context.program.empty()) return {};
  Arguments arguments(context.arguments);
  switch (limit.kind) {
    case LimitKind::partition:
      if (context.partition.empty()) return {};
      arguments.drop("--iterations");
      return arguments.text(context.partition, margin, width);
    case LimitKind::filling:
      arguments.drop("--global-batch");
      arguments.set("--microbatches", std::to_string(2 * std::int64_t{context.microbatches}));
      break;
    case LimitKind::option:
      for (const auto& [name, value] : limit.flags) {
        arguments.set(name, is_switch(name) ? "" : value);
        if (name == "--tensor-parallel" && value == "1") {  // which they have no effect on
          arguments.drop("--sequence-parallel").drop("--tensor-overlap");
        }
      }
      break;
    case LimitKind::schedule:
    case LimitKind::memory: {
      if (!fits(limit, context)) return {};
      if (context.chunks && limit.candidate->chunks != *context.chunks) {
        if (*context.chunks > 1) return {};
        for (const char* name :
             {"--schedule", "--virtual-stages", "--iterations", "--accumulate"}) {
          arguments.drop(name);
        }
        return arguments.text({"pipesim", "schedules", "--compare"}, margin, width);
      }
      const Family& other = family(limit.candidate->schedule);
      arguments.set("--schedule", limit.candidate->schedule);
      if (!other.many_chunks) arguments.drop("--virtual-stages");
      if (!other.takes_group) arguments.drop("--group").drop("--overlap-experts");
      break;
    }
    default: return {};  // of links, hosts and devices
  }
  return arguments.text(context.program, margin, width);
}

// Says that no other schedule was tried, and which command does.
std::string own_order(const LimitsContext& context, int width) {
  if (!context.file) return {};
  std::string out = wrap(
      fmt::format(
          "The order of {} was taken as given; to try other schedules{}:", printable(*context.file),
          context.chunks.value_or(1) > 1 ? ", with costs of all that a rank computes" : ""),
      width);
  Arguments arguments(context.arguments);
  for (const char* name : {"--schedule", "--virtual-stages", "--iterations", "--accumulate"}) {
    arguments.drop(name);
  }
  return out + "\n" +
         arguments.text({"pipesim", "schedules", "--compare", shell_word(*context.file)}, "    ",
                        width);
}

}  // namespace

std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./,:=%+@").find(c) != std::string_view::npos;
  };
  if (std::ranges::all_of(text, is_plain)) return text;
  std::string out = "'";
  for (const char c : printable(text)) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

std::string limits_report(const std::vector<Limit>& limits, const LimitsContext& context,
                          int width) {
  const std::int64_t makespan_ns = context.makespan_ns;
  const auto fraction = [&](const Limit& limit) {
    return makespan_ns == 0 ? 0.0
                            : static_cast<double>(limit.gain_ns) / static_cast<double>(makespan_ns);
  };
  std::vector<Limit> shown;
  for (const Limit& limit : limits) {
    if (fraction(limit) >= min_shown) shown.push_back(limit);
  }
  if (shown.empty()) {
    return context.file
               ? own_order(context, width)
               : "Limited by its own work: removing anything else gains less than 0.5 %.\n";
  }
  const TableUnit unit = table_unit(shown.front().gain_ns);
  std::string out =
      fmt::format("Limited by, and the time saved per iteration without it, {}:\n", unit.name);
  const std::string margin(20, ' ');
  for (const Limit& limit : shown) {
    std::string what =
        wrap(what_of(limit, context), std::max(30, width - static_cast<int>(margin.size())));
    for (std::size_t at = 0; (at = what.find('\n', at)) != std::string::npos; at += margin.size()) {
      what.insert(++at, margin);
    }
    out += fmt::format("{:>10} {:>5.1f} %  {}\n", unit.text(limit.gain_ns), fraction(limit) * 100,
                       what);
    out += command_of(limit, context, margin, width);
  }
  return out + own_order(context, width);
}

}  // namespace pipesim::cli
