#include "sim/advice/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <tuple>

#include "traces/base/text.h"

namespace pipesim {
namespace {

// A part of the difference to the fastest, a mean over ranks.
struct Loss {
  TimePart part{};
  double ns = 0;
};

std::string time_text(double ns) { return format_time(std::llround(std::abs(ns))); }

// "drain 6.00 ms longer".
std::string loss_words(const Loss& loss, const Candidate& one, const Candidate& fastest) {
  const std::string time = time_text(loss.ns);
  const bool more = loss.ns > 0;
  const auto longer = [&](std::string_view what) {
    return fmt::format("{} {} {}", what, time, more ? "longer" : "shorter");
  };
  switch (loss.part) {
    case TimePart::compute:
      // Weight gradients within a B hide reductions over tensor-parallel ranks, apart none; no
      // other costs have I and W take longer than B.
      if (more && one.splits_backward && !fastest.splits_backward) {
        return longer("separate I and W hide no tensor-parallel communication: compute");
      }
      if (!more && !one.splits_backward && fastest.splits_backward) {
        return longer("B hides tensor-parallel communication: compute");
      }
      return longer("compute");
    case TimePart::overlap:
      return fmt::format("F and B in one cell save {} {}", time, more ? "less" : "more");
    case TimePart::messages: return longer("compute for messages");
    case TimePart::closing: return longer("reduction and optimizer");
    case TimePart::slowdown:
      return fmt::format("transfers slow compute down by {} {}", time, more ? "more" : "less");
    case TimePart::warmup: return longer("warm-up");
    case TimePart::steady: return longer("steady-state idle time");
    case TimePart::drain: return longer("drain");
    default: return longer("waits for transfers");
  }
}

// The largest first, without those that hardly count; a few at most.
std::string loss_words(std::vector<Loss> losses, const Candidate& one, const Candidate& fastest) {
  constexpr std::size_t most = 3;
  constexpr double min_part = 0.1;  // of the largest
  std::ranges::stable_sort(losses, std::greater(),
                           [](const Loss& loss) { return std::abs(loss.ns); });
  const double least = std::max(0.5, min_part * std::abs(losses.front().ns));
  losses.resize(std::min(most, losses.size()));
  std::erase_if(losses, [&](const Loss& loss) { return std::abs(loss.ns) < least; });
  // What is longer is why; then what makes up for a part of it.
  std::stable_partition(losses.begin(), losses.end(), [](const Loss& loss) { return loss.ns > 0; });
  std::string words;
  for (const Loss& loss : losses) {
    words += (words.empty() ? "" : ", ") + loss_words(loss, one, fastest);
  }
  return words;
}

double total_of(const std::vector<Loss>& losses) {
  double sum = 0;
  for (const Loss& loss : losses) sum += loss.ns;
  return sum;
}

// Why the one takes longer.
std::string why_longer(const Candidate& one, const Candidate& fastest) {
  std::vector<Loss> busy, idle;
  const auto mean = [](const Candidate& of, TimePart part) {
    return static_cast<double>(of.parts.of(part)) /
           static_cast<double>(of.prediction.metrics.ranks.size());
  };
  for (std::size_t i = 0; i < time_part_count; ++i) {
    const auto part = static_cast<TimePart>(i);
    const Loss loss{part, mean(one, part) - mean(fastest, part)};
    (is_idle(part) ? idle : busy).push_back(loss);
  }
  const auto difference = static_cast<double>(one.time_ns - fastest.time_ns);
  const double counts = 0.05 * difference;
  if (const double saved = -total_of(idle); saved > counts) {
    return fmt::format("bubble {} smaller, but {}", time_text(saved),
                       loss_words(busy, one, fastest));
  }
  if (const double saved = -total_of(busy); saved > counts) {
    return fmt::format("{} less work, but {}", time_text(saved), loss_words(idle, one, fastest));
  }
  std::vector<Loss> all = busy;
  all.insert(all.end(), idle.begin(), idle.end());
  return loss_words(all, one, fastest);
}

// "needs 1.2 GiB less", "keeps 3.5 more in flight".
std::string memory_words(const Candidate& one, double difference) {
  const char* more = difference > 0 ? "more" : "less";
  const double size = std::abs(difference);
  if (one.prediction.peak_memory_bytes() > 0) {
    return fmt::format("needs {} {}", format_bytes(std::llround(size)), more);
  }
  return fmt::format("has {:.4g} {} in flight", size, more);
}

}  // namespace

void sort_by_time(std::vector<Candidate>& candidates) {
  std::vector<int> counts;
  for (const Candidate& one : candidates) {
    if (std::ranges::find(counts, one.microbatches) == counts.end()) {
      counts.push_back(one.microbatches);
    }
  }
  std::ranges::stable_sort(candidates, {}, [&](const Candidate& one) {
    return std::tuple(std::ranges::find(counts, one.microbatches) - counts.begin(),
                      !one.left_out.empty(), one.time_ns, one.memory);
  });
}

bool fits(const Candidate& candidate, std::optional<std::int64_t> memory_cap_bytes) {
  return !memory_cap_bytes || candidate.prediction.peak_memory_bytes() <= *memory_cap_bytes;
}

const Candidate* fastest_of(const std::vector<Candidate>& candidates, int microbatches,
                            std::optional<std::int64_t> memory_cap_bytes) {
  const Candidate* first = nullptr;
  for (const Candidate& one : candidates) {
    if (one.microbatches != microbatches || !one.left_out.empty()) continue;
    if (fits(one, memory_cap_bytes)) return &one;
    if (first == nullptr) first = &one;
  }
  return first;
}

std::string why_not(const Candidate& one, const Candidate& fastest,
                    std::optional<std::int64_t> memory_cap_bytes) {
  const std::int64_t difference = one.time_ns - fastest.time_ns;
  const double more = one.memory - fastest.memory;
  std::string why = "as fast";
  if (difference > 0) {
    const std::string reasons = why_longer(one, fastest);
    why = fmt::format("+{}{}{}", format_time(difference), reasons.empty() ? "" : ": ", reasons);
  } else if (difference < 0) {
    why = fmt::format("{} faster", format_time(-difference));
  }
  if (!fits(one, memory_cap_bytes)) {
    const std::int64_t over = one.prediction.peak_memory_bytes() - *memory_cap_bytes;
    return fmt::format("{}{}{} too much", why, difference < 0 ? ", but " : "; ",
                       format_bytes(over));
  }
  if (difference == 0 && more > 0) {
    why += ", but " + memory_words(one, more);
  } else if (one.on_front && more < 0) {
    why += "; " + memory_words(one, more);
  }
  if (one.asked.copies() > 1) why += "; holds the parameters twice";
  return why;
}

}  // namespace pipesim
