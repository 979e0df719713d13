#include "tests/growth/linear.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "tests/growth/template.h"
#include "tests/thorough.h"
#include "traces/base/error.h"

namespace pipesim::testing {
namespace {

constexpr int max_doublings = 6;
constexpr int plain_doublings = 4;
constexpr double more_than_n_log_n = 2.25;
constexpr double plainly_more = 2.8;
constexpr std::int64_t unnoticed_steps = 65536;

}  // namespace

Growing growing(std::string what, std::string text_template, int n) {
  return {std::move(what),
          [text = std::move(text_template)](int times) { return grown(text, times); }, n};
}

Growth growth_of(const Growing& input, double most_bytes, std::size_t max_text,
                 const std::function<void(const std::string& text)>& call) {
  Growth growth;
  std::vector<std::int64_t> steps;
  const int first = is_thorough() ? input.n : input.n / 2;
  for (int doublings = 0; doublings <= max_doublings; ++doublings) {
    const std::string text = input.text(first << doublings);
    if (text.size() > max_text) break;
    growth.bytes = text.size();
    growth.refusal.clear();
    growth.work = work_of([&] {
      try {
        call(text);
      } catch (const Error& error) {
        growth.refusal = error.what();
      }
    });
    const bool is_whole = first << doublings >= input.n;
    if (is_whole && static_cast<double>(growth.work.peak_bytes) >
                        most_bytes * static_cast<double>(text.size()) + (1 << 20)) {
      growth.fault = fmt::format("{} takes {} bytes for a text of {}", input.what,
                                 growth.work.peak_bytes, text.size());
      break;
    }
    steps.push_back(growth.work.steps);
    if (doublings < 2) continue;
    const auto last = steps.end() - 1;
    const auto before = static_cast<double>(last[-1] - last[-2]);
    const auto now = static_cast<double>(last[0] - last[-1] - unnoticed_steps);
    if (now <= more_than_n_log_n * before) break;
    if (doublings >= plain_doublings && now > plainly_more * before) {
      growth.fault = fmt::format("{} takes {} steps, each for twice as much", input.what,
                                 fmt::join(steps, ", "));
      break;
    }
  }
  return growth;
}

}  // namespace pipesim::testing
