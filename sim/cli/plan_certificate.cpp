#include "sim/cli/plan_certificate.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/cli/plan_report.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

enum class End { outside, impossible, too_large, dominated, evaluated };

bool is_too_large(const CertificateView& view) {
  const PlanOutcome& outcome = *view.certificate.outcome;
  return std::max(view.certificate.least_memory_bytes, outcome.memory_bytes) > view.certain_bytes;
}

End end_of(const CertificateView& view) {
  if (!view.outside.empty()) return End::outside;
  if (view.certificate.rule) return End::impossible;
  if (is_too_large(view)) return End::too_large;
  const bool is_dominated =
      !view.best.empty() && view.certificate.least_time_ns >= view.best.back().time_ns;
  return is_dominated ? End::dominated : End::evaluated;
}

const char* name_of(End end) {
  switch (end) {
    case End::outside: return "outside";
    case End::impossible: return "impossible";
    case End::too_large: return "too_large";
    case End::dominated: return "dominated";
    case End::evaluated: break;
  }
  return "evaluated";
}

std::string verdict(const CertificateView& view) {
  const PlanCertificate& found = view.certificate;
  if (found.rule) return fmt::format("Impossible: {}.\n", plan_rule_text(*found.rule));
  const PlanOutcome& outcome = *found.outcome;
  if (!view.outside.empty()) {
    return fmt::format("Not in the space, for{}: as predicted it takes {} and {} of {}.\n",
                       view.outside, format_time(outcome.time_ns),
                       format_bytes(outcome.memory_bytes), format_bytes(view.memory_cap_bytes));
  }
  const std::string exact =
      fmt::format("Evaluated exactly, it takes {} and {}.", format_time(outcome.time_ns),
                  format_bytes(outcome.memory_bytes));
  switch (end_of(view)) {
    case End::too_large:
      if (outcome.memory_bytes <= view.memory_cap_bytes) {
        return fmt::format("It may not fit: of {}, {} are sure to fit. {}\n",
                           format_bytes(view.memory_cap_bytes), format_bytes(view.certain_bytes),
                           exact);
      }
      return fmt::format("Too large: it needs at least {} of {}. {}\n",
                         format_bytes(found.least_memory_bytes),
                         format_bytes(view.memory_cap_bytes), exact);
    case End::dominated:
      return fmt::format("Dominated: it takes at least {}, and the best takes {}. {}\n",
                         format_time(found.least_time_ns), format_time(view.best.front().time_ns),
                         exact);
    default: break;
  }
  return fmt::format("Evaluated: it takes {}, at least {} by its bound, and {}.\n",
                     format_time(outcome.time_ns), format_time(found.least_time_ns),
                     format_bytes(outcome.memory_bytes));
}

std::string rank(const CertificateView& view) {
  if (!view.faster_splits || view.best.empty()) return {};
  const std::int64_t time_ns = view.certificate.outcome->time_ns;
  if (*view.faster_splits == 0) return "No layout that fits is faster.\n";
  const bool are_more = *view.faster_splits == max_faster_splits;
  return fmt::format(
      "{}{} of work {} a faster layout that fits; the best takes {}, {:.2f} % less: {}.\n",
      are_more ? "At least " : "", plural(*view.faster_splits, "split"),
      *view.faster_splits == 1 ? "has" : "have", format_time(view.best.front().time_ns),
      -100 * (static_cast<double>(view.best.front().time_ns) / static_cast<double>(time_ns) - 1),
      plan_layout_words(view.space, view.space.axes().at(view.best.front().index)));
}

}  // namespace

std::string certificate_report(const CertificateView& view, int width) {
  return plan_command(view.flags, view.space, view.point, {}) + view.outside + "\n\n" +
         wrap(verdict(view) + rank(view) +
                  (view.why.empty() ? "" : fmt::format("Next to the best, {}.\n", view.why)),
              width);
}

std::string certificate_json(const CertificateView& view) {
  const PlanCertificate& found = view.certificate;
  Json json{{"format", "pipesim-plan-certificate"}, {"version", 1}};
  json["command"] = plan_command(view.flags, view.space, view.point, {}) + view.outside;
  json["ends_as"] = name_of(end_of(view));
  json["rule"] = nullptr;
  if (found.rule) json["rule"] = std::string(plan_rule_text(*found.rule));
  json["memory_cap_bytes"] = view.memory_cap_bytes;
  if (found.outcome) {
    json["least_ns"] = found.least_time_ns;
    json["least_memory_bytes"] = found.least_memory_bytes;
    json["iteration_ns"] = found.outcome->time_ns;
    json["peak_memory_bytes"] = found.outcome->memory_bytes;
  }
  json["why"] = nullptr;
  if (!view.why.empty()) json["why"] = view.why;
  json["faster_splits_counted_to"] = max_faster_splits;
  json["faster_splits"] = nullptr;
  if (view.faster_splits) json["faster_splits"] = *view.faster_splits;
  json["best"] = nullptr;
  if (!view.best.empty()) {
    const PlanPoint point = view.space.axes().at(view.best.front().index);
    json["best"] = Json{{"command", plan_command(view.flags, view.space, point, {})},
                        {"iteration_ns", view.best.front().time_ns},
                        {"peak_memory_bytes", view.best.front().memory_bytes}};
  }
  return json.dump(2) + "\n";
}

}  // namespace pipesim::cli
