#include "sim/cli/goodput_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/request/result_json.h"
#include "traces/base/json.h"
#include "traces/base/text.h"
#include "traces/print/terminal.h"

namespace pipesim::cli {
namespace {

std::string percent_cell(double fraction, int decimals = 2) {
  return fmt::format("{:.{}f}", fraction * 100, decimals);
}

std::string every(const AnsweredJob& one, std::int64_t interval_ns) {
  if (!one.job.question.iteration_ns) return format_duration(interval_ns);
  return fmt::format("{}, {}", plural(interval_ns / *one.job.question.iteration_ns, "iteration"),
                     format_duration(interval_ns));
}

std::string interval_row(const AnsweredJob& one, std::string_view name, std::int64_t interval_ns,
                         std::string_view text) {
  const TimeShares shares = expected_shares(one.job.question.job, interval_ns);
  return fmt::format("  {:<6} {:<28} {:>7} {:>7} {:>10} {:>11}\n", name, text,
                     percent_cell(shares.goodput), percent_cell(shares.saving),
                     percent_cell(shares.repeating), percent_cell(shares.restarting));
}

// For an interval by a formula: the nearest possible one, within which a save is written.
std::string estimated_row(const AnsweredJob& one, std::string_view name, std::int64_t estimate_ns) {
  const std::int64_t unit_ns = one.answer.run.iteration_ns;
  const std::int64_t nearest =
      std::max(least_interval(one.job.question.job, unit_ns),
               estimate_ns / unit_ns + (2 * (estimate_ns % unit_ns) >= unit_ns ? 1 : 0));
  const std::string text =
      one.job.question.iteration_ns
          ? fmt::format("{}: {}", format_duration(estimate_ns), plural(nearest, "iteration"))
          : format_duration(estimate_ns);
  return interval_row(one, name, nearest * unit_ns, text);
}

std::string saves_line(const AnsweredJob& one) {
  const Checkpointing& job = one.job.question.job;
  const std::string of =
      one.job.checkpoint_bytes ? format_bytes(*one.job.checkpoint_bytes) + ", " : "";
  const std::string held = format_duration(job.hold_ns);
  if (job.beside_ns == 0)
    return fmt::format("saves      {}each stalls training for {}\n", of, held);
  return fmt::format("saves      {}each stalls training for {}, then is written for {}\n", of, held,
                     format_duration(job.beside_ns));
}

std::string simulated_line(const AnsweredJob& one) {
  const GoodputAnswer& answer = one.answer;
  const RunTrials& trials = one.job.question.trials;
  const std::string work = format_duration(answer.run.work_ns());
  if (!answer.spread) {
    return fmt::format(
        "simulated  nothing: {} of {} of work would meet about {:.2g} failures; give less --work "
        "or fewer --trials\n",
        plural(trials.count, "run"), work, expected_failures(answer.run, trials));
  }
  if (answer.trial) {
    return fmt::format("simulated  {} trains: {} of work in {}, {}, seed {}\n",
                       format_percent(answer.trial->shares().goodput), work,
                       format_duration(answer.trial->wall_ns()),
                       plural(answer.trial->failures, "failure"), trials.seed);
  }
  return fmt::format("simulated  p5 {}, p50 {}, p95 {}: {} of {}, seed {}\n",
                     format_percent(answer.spread->p5), format_percent(answer.spread->p50),
                     format_percent(answer.spread->p95), plural(trials.count, "run"), work,
                     trials.seed);
}

std::string next_to_nothing(const AnsweredJob& one) {
  constexpr double next_to = 0.001;
  const Checkpointing& job = one.job.question.job;
  if (one.answer.shares.goodput >= next_to) return "";
  return fmt::format(
      "Next to nothing progresses: failures come every {}, a save stalls training for {}, and a "
      "restart takes {}. Faster --storage, a shorter --restart or fewer --devices would help.\n",
      format_duration(job.mtbf_ns), format_duration(job.hold_ns + job.beside_ns),
      format_duration(job.restart_ns));
}

std::string title_of_job(const AnsweredJob& one) {
  std::string title = one.job.name.empty() ? "" : printable(one.job.name);
  if (one.job.devices) {
    title += (title.empty() ? "" : " on ") + plural(*one.job.devices, "device");
  }
  return title.empty() ? "" : title + ": ";
}

Json lost_json(const TimeShares& shares) {
  return {{"saving", shares.saving},
          {"repeating", shares.repeating},
          {"restarting", shares.restarting}};
}

void put(const AnsweredJob& one, Json& json) {
  const GoodputQuestion& question = one.job.question;
  const GoodputAnswer& answer = one.answer;
  json["devices"] = one.job.devices;
  json["mtbf_ns"] = question.job.mtbf_ns;
  json["restart_ns"] = question.job.restart_ns;
  json["checkpoint_bytes"] = one.job.checkpoint_bytes;
  json["save_ns"] = question.job.hold_ns + question.job.beside_ns;
  json["save_held_ns"] = question.job.hold_ns;
  json["iteration_ns"] = question.iteration_ns;
  json["error_band"] = error_band_json(one.job.error_band);
  json["interval_ns"] = answer.interval_ns;
  json["interval_iterations"] =
      question.iteration_ns ? std::optional(answer.run.interval) : std::nullopt;
  json["best_interval_ns"] = answer.best_interval_ns;
  json["young_interval_ns"] = answer.young_interval_ns;
  json["daly_interval_ns"] = answer.daly_interval_ns;
  json["goodput"] = answer.shares.goodput;
  json["lost"] = lost_json(answer.shares);
  const auto& spread = answer.spread;
  json["goodput_p5"] = spread ? std::optional(spread->p5) : std::nullopt;
  json["goodput_p50"] = spread ? std::optional(spread->p50) : std::nullopt;
  json["goodput_p95"] = spread ? std::optional(spread->p95) : std::nullopt;
  json["goodput_mean"] = spread ? std::optional(spread->mean) : std::nullopt;
  json["work_ns"] = answer.run.work_ns();
  json["trials"] = question.trials.count;
  json["seed"] = question.trials.seed;
  if (!answer.trial) return;
  const TimeShares shares = answer.trial->shares();
  json["trial"] = {{"wall_ns", answer.trial->wall_ns()},
                   {"failures", answer.trial->failures},
                   {"goodput", shares.goodput},
                   {"lost", lost_json(shares)}};
  json["failures_ns"] = answer.failures_ns;
}

}  // namespace

std::string goodput_report(const AnsweredJob& one, int width) {
  const GoodputAnswer& answer = one.answer;
  const Checkpointing& job = one.job.question.job;
  std::string out = wrap(
      fmt::format("{}{} of the time is spent training, with a save every {}\n\n", title_of_job(one),
                  format_percent(answer.shares.goodput), every(one, answer.interval_ns)),
      width);
  out += fmt::format("{:<37} {:>7} {:>31}\n", "% of the time", "", "------- % is lost to --------");
  out += fmt::format("{:<37} {:>7} {:>7} {:>10} {:>11}\n", "a save every", "trains", "saving",
                     "repeating", "restarting");
  if (one.job.question.interval) {
    out += interval_row(one, "given", answer.interval_ns, every(one, answer.interval_ns));
  }
  out += interval_row(one, "best", answer.best_interval_ns, every(one, answer.best_interval_ns));
  out += estimated_row(one, "Young", answer.young_interval_ns);
  out += estimated_row(one, "Daly", answer.daly_interval_ns);
  std::string lines = fmt::format("\nfailures   one every {}, {} to recover\n",
                                  format_duration(job.mtbf_ns), format_duration(job.restart_ns));
  if (one.job.question.iteration_ns) {
    lines += fmt::format("iteration  {}\n", format_duration(*one.job.question.iteration_ns));
  }
  lines += saves_line(one) + simulated_line(one) + next_to_nothing(one);
  return out + wrap(lines, width);
}

std::string goodput_table(const std::vector<AnsweredJob>& all, int width) {
  const std::string name = printable(all.front().job.name);
  std::string out =
      wrap(fmt::format("{}time spent training, in %, with a save at the {}\n",
                       name.empty() ? "" : name + ": ",
                       all.front().job.question.interval ? "interval given" : "best interval"),
           width) +
      "\n";
  constexpr std::string_view row = "{:>8} {:>9} {:>9} {:>9} {:>7} {:>5} {:>5} {:>6} {:>6} {:>7}\n";
  out += fmt::format("{:>8} {:>9} {:>9} {:>9} {:>7} {:>11} {:>21}\n", "", "", "", "", "",
                     "simulated", "----- lost to -----");
  out += fmt::format(fmt::runtime(row), "devices", "mtbf", "a save", "every", "trains", "p5", "p95",
                     "saving", "repeat", "restart");
  std::string notes;
  for (const AnsweredJob& one : all) {
    const GoodputAnswer& answer = one.answer;
    const Checkpointing& job = one.job.question.job;
    const auto cell = [](double fraction) { return percent_cell(fraction, 1); };
    out += fmt::format(fmt::runtime(row), one.job.devices ? format_count(*one.job.devices) : "-",
                       format_duration(job.mtbf_ns), format_duration(job.hold_ns + job.beside_ns),
                       format_duration(answer.interval_ns), cell(answer.shares.goodput),
                       answer.spread ? cell(answer.spread->p5) : "-",
                       answer.spread ? cell(answer.spread->p95) : "-", cell(answer.shares.saving),
                       cell(answer.shares.repeating), cell(answer.shares.restarting));
    if (!answer.spread) notes = "-: not simulated, too many failures to draw\n";
  }
  return out + (notes.empty() ? "" : "\n" + notes);
}

std::string goodput_json(const std::vector<AnsweredJob>& all) {
  Json json{{"format", "pipesim-goodput"}, {"version", 1}};
  put(all.front(), json);
  Json curve = Json::array();
  for (const AnsweredJob& one : all) {
    Json item = Json::object();
    put(one, item);
    curve.push_back(std::move(item));
  }
  json["curve"] = std::move(curve);
  return json.dump(2) + "\n";
}

}  // namespace pipesim::cli
